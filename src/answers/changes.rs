//! The task changes: the flows whose sizes changed most from one epoch to the next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Claimed, FlowName, ProgramAnswer, Query, Task, digests};
use crate::history::{Entry, Epochs, Reason, Reasons};
use crate::output::{self, Page, Table, row};

/// `weir show changes`: the flows that changed most from the epoch before the newest to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeavyChanges {
    /// Flows may have changed by less without being noticed.
    pub named_from_packets: u64,
    pub changes: Vec<Change>,
    /// Flows that are not named here, though they changed by as much as was asked for.
    pub omitted_flows: u64,
}

/// A flow whose size changed from one epoch to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    #[serde(flatten)]
    pub name: FlowName,
    pub before_packets: u64,
    pub after_packets: u64,
}

/// The changes that a program found between two epochs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changed {
    /// The largest first.
    pub flows: Vec<Change>,
    /// A flow that changed by this number of packets is among them, unless [`Self::lack`] says why not.
    pub named_from: u64,
    pub lack: Reasons,
}

impl HeavyChanges {
    /// The changes to the newest epoch from the one before it, which `of` gives.
    pub fn to_newest<K>(
        epochs: &Epochs<K>,
        query: &Query,
        of: impl Fn(&Entry<K>, &Entry<K>) -> Changed,
    ) -> ProgramAnswer {
        let mut newest = epochs.iter().rev();
        let (after, before) = (newest.next(), newest.next());
        let pair = before.zip(after).filter(|(before, after)| before.epoch + 1 == after.first_epoch);
        let Some((before, after)) = pair else {
            return ProgramAnswer::new(Self::default(), [Reason::NotAnalysed].into_iter().collect());
        };
        let Changed { flows, named_from, mut lack } = of(before, after);
        lack.add_if(query.threshold < named_from, Reason::BelowThreshold);
        let is_asked_for = |change: &&Change| {
            change.before_packets.abs_diff(change.after_packets) >= query.threshold && query.is_meant(&change.name)
        };
        let mut changes: Vec<_> = flows.iter().filter(is_asked_for).copied().collect();
        let omitted_flows = changes.len().saturating_sub(query.top) as u64;
        changes.truncate(query.top);
        ProgramAnswer::new(Self { named_from_packets: named_from, changes, omitted_flows }, lack)
    }

    pub fn page(changes: &Claimed<Self>) -> Page {
        let row = |change: &Change| row![change.name.to_string(), change.before_packets, change.after_packets];
        let columns = ["flow", ">packets before|before_packets", ">and after|after_packets"];
        let table = Table::new(columns, changes.changes.iter().map(row)).beside(&changes.claim.columns());
        let unnamed = output::unnamed(changes.omitted_flows, changes.named_from_packets, "changes by");
        let digests = digests(changes.changes.iter().map(|change| &change.name));
        let claimed = changes.claim.text(Task::Changes.all());
        Page::default().table("changes", table).text(output::lines([claimed, unnamed, digests]))
    }
}
