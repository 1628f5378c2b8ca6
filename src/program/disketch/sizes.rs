//! Tasks about all flows that other programs name: their number and entropy, and how they change.

use std::cmp::Reverse;

use super::KeptFragments;
use super::frequency::frequencies;
use super::kept;
use super::levels::{Leveled, Summary, summary};
use crate::answers::{
    Change, Changed, EpochNumbers, FlowCount, FlowName, FoundFlows, HeavyChanges, Numbers, ProgramAnswer, Query, Sizes,
};
use crate::history::{Epochs, Reasons};
use crate::wire::Flow;

/// The number of flows and their entropy, from sizes of the flows that are named. Each has the level that
/// its sketch counts it in.
fn summary_of(found: &FoundFlows, epochs: &[&KeptFragments]) -> Option<Summary> {
    let shape = epochs.iter().flat_map(|kept| kept.shapes()).next()?;
    let leveled = |flow: &FlowCount| {
        let crcs = shape.hashes.of_flow(&flow.flow.flow()?)?;
        let depth = crcs.level_of(shape.config.sketch) as u32;
        Some(Leveled { depth, size: flow.count.number as f64 })
    };
    Some(summary(found.flows.iter().filter_map(leveled).collect()))
}

/// The flows of all epochs together.
pub fn all(found: FoundFlows, epochs: &[&KeptFragments]) -> Sizes {
    let summary = summary_of(&found, epochs);
    let flows = summary.map(|summary| summary.flows);
    Sizes { flows, entropy_bits: summary.map(|summary| summary.entropy_bits), distribution: None, found }
}

/// Numbers of each epoch. Of single switches none are known: a flow is counted in several.
pub fn of_each(epochs: &Epochs<KeptFragments>, query: &Query) -> ProgramAnswer {
    let mut lack = Reasons::default();
    let mut told = Numbers::over(epochs, |showed| {
        let epochs = [showed];
        let Sizes { flows, entropy_bits, found, .. } = all(kept::found(showed.unit, &epochs, query), &epochs);
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
        let (named, mut lack) = kept::named(&[&*after.showed], query);
        let mut counts = |showed: &KeptFragments| {
            let told = frequencies(&[showed], &named, query.routes.as_ref()).flows;
            told.iter().for_each(|(_, lacks)| lack.extend(lacks));
            told.into_iter().map(|(estimate, _)| estimate.number)
        };
        let [before, after] = [before, after].map(|entry| counts(&entry.showed));
        let change = |(flow, (before_packets, after_packets)): (&Flow, (u64, u64))| Change {
            name: FlowName::Flow(*flow),
            before_packets,
            after_packets,
        };
        let mut flows: Vec<Change> = named.iter().zip(before.zip(after)).map(change).collect();
        flows.retain(|change| change.before_packets != change.after_packets);
        flows.sort_by_key(|change| Reverse(change.before_packets.abs_diff(change.after_packets)));
        Changed { flows, named_from: 0, lack }
    })
}
