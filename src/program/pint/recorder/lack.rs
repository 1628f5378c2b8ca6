//! What an epoch lacks, by the switch where flows leave the network: the answer about an epoch
//! lacks all of it, and what is kept of a flow over epochs what its own switch lacked.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::history::{Gap, Reason, Reasons, SwitchGap};

/// Why an epoch's answers about values are not complete.
#[derive(Clone, Debug, Default)]
pub struct Lack {
    all: Reasons,
    sinks: BTreeMap<Arc<str>, OfSink>,
}

/// Why those about flows are not that leave at one switch, whichever these are.
#[derive(Clone, Debug, Default)]
struct OfSink {
    /// Of flows that were seen before the epoch.
    known: Reasons,
    /// Of flows that were seen first in it.
    fresh: Reasons,
}

impl Lack {
    pub fn of(gaps: &[SwitchGap]) -> Self {
        let mut lack = Self::default();
        for SwitchGap { switch, gap } in gaps {
            let reason = match gap {
                Gap::Overflow { .. } | Gap::Unread { .. } => Reason::Overflow,
                Gap::LargeFlows { .. } => Reason::LargeFlows,
                gap if gap.hides_flows() => Reason::Gap,
                _ => continue,
            };
            lack.all.add(reason);
            if reason == Reason::LargeFlows {
                // A record says which flows these are.
                continue;
            }
            let of_sink = lack.sinks.entry(switch.clone()).or_default();
            of_sink.known.add(reason);
            // Of such a flow nothing is told of the time before the switch started.
            of_sink.fresh.add_if(*gap != Gap::Started, reason);
        }
        lack
    }

    /// Adds what another epoch lacked.
    pub fn extend(&mut self, other: &Self) {
        self.all.extend(&other.all);
        for (sink, OfSink { known, fresh }) in &other.sinks {
            let of_sink = self.sinks.entry(sink.clone()).or_default();
            of_sink.known.extend(known);
            of_sink.fresh.extend(fresh);
        }
    }

    /// Of the answer about the epoch.
    pub fn reasons(&self) -> &Reasons {
        &self.all
    }

    /// Adds what a flow lacks from now on that was seen before the epoch and leaves at this switch.
    pub fn add_to(&self, reasons: &mut Reasons, sink: &str) {
        if let Some(of_sink) = self.sinks.get(sink) {
            reasons.extend(&of_sink.known);
        }
    }

    /// What a flow lacks that was seen first in the epoch and leaves at this switch.
    pub fn of_fresh(&self, sink: &str) -> Reasons {
        self.sinks.get(sink).map(|of_sink| of_sink.fresh.clone()).unwrap_or_default()
    }
}
