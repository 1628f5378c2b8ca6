//! Tasks about all flows that other programs name: their number and entropy, and how they change.

use std::cmp::Reverse;

use super::KeptFragments;
use super::kept::{self, Opened};
use super::levels::{Leveled, Summary, summary};
use crate::answers::{
    Change, Changed, EpochNumbers, FlowCount, FlowName, FoundFlows, HeavyChanges, Numbers, ProgramAnswer, Query, Sizes,
};
use crate::history::{Epochs, Reasons};
use crate::wire::Flow;

/// The number of flows and their entropy, from sizes of the flows that are named. Each has the level that
/// its sketch counts it in.
fn summary_of(found: &FoundFlows, opened: &[Opened<'_>]) -> Option<Summary> {
    let shape = opened.iter().flat_map(Opened::shapes).next()?;
    let leveled = |flow: &FlowCount| {
        let crcs = shape.hashes.of_flow(&flow.flow.flow()?)?;
        let depth = crcs.level_of(shape.config.sketch) as u32;
        Some(Leveled { depth, size: flow.count.number as f64 })
    };
    Some(summary(found.flows.iter().filter_map(leveled).collect()))
}

/// The flows of all epochs together.
pub fn all(found: FoundFlows, opened: &[Opened<'_>]) -> Sizes {
    let summary = summary_of(&found, opened);
    let flows = summary.map(|summary| summary.flows);
    Sizes { flows, entropy_bits: summary.map(|summary| summary.entropy_bits), distribution: None, found }
}

/// Numbers of each epoch. Of single switches none are known: a flow is counted in several.
pub fn of_each(epochs: &Epochs<KeptFragments>, query: &Query) -> ProgramAnswer {
    let mut lack = Reasons::default();
    let mut told = Numbers::over(epochs, |showed| {
        let opened = [Opened::new(showed)];
        let Sizes { flows, entropy_bits, found, .. } = all(kept::found(showed.unit, &opened, query), &opened);
        lack.extend(&found.lack);
        EpochNumbers { flows, entropy_bits, ..EpochNumbers::default() }
    });
    told.lack.extend(&lack);
    told
}

/// Named flows whose estimates in the newest epoch and the one before differ. How small a change is told
/// depends on the flows that share its counters, so no change is sure to be among them.
pub fn changes(epochs: &Epochs<KeptFragments>, query: &Query) -> ProgramAnswer {
    HeavyChanges::to_newest(epochs, query, |before, after| {
        let [before, after] = [before, after].map(|entry| [Opened::new(&entry.showed)]);
        let (named, mut lack) = kept::named(&after, query);
        let mut count = |opened: &[Opened<'_>], flow: &Flow| {
            let (estimate, lacks) = kept::frequency(opened, flow, query.routes.as_ref());
            lack.extend(&lacks);
            estimate.number
        };
        let mut change = |flow: &Flow| Change {
            name: FlowName::Flow(*flow),
            before_packets: count(&before, flow),
            after_packets: count(&after, flow),
        };
        let mut flows: Vec<Change> = named.iter().map(&mut change).collect();
        flows.retain(|change| change.before_packets != change.after_packets);
        flows.sort_by_key(|change| Reverse(change.before_packets.abs_diff(change.after_packets)));
        Changed { flows, named_from: 0, lack }
    })
}
