//! The history's side: an epoch is kept as the byte forms of its records. A query reads those of the
//! switches on a flow's path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::config::Decode;
use super::frequency::{Estimates, frequencies};
use super::lookup::Lookup;
use super::record::{Fragment, Shape};
use super::{DiSketch, Program, archived, sizes};
use crate::answers::{
    Answers, ByRoute, Estimate, FlowCount, FlowName, FlowSizes, FoundFlows, Frequency, HeavyFlows, ProgramAnswer,
    Query, Task, Unit,
};
use crate::history::{ArchiveForm, Epochs, Kept, Reason, Reasons};
use crate::program::Naming;
use crate::wire::Flow;

/// The records of an epoch.
#[derive(Debug)]
pub struct KeptFragments {
    pub(super) unit: Unit,
    pub(super) decode: Decode,
    pub(super) epoch: u64,
    /// Number of switches that were to report.
    pub(super) expected: usize,
    pub(super) switches: Vec<Packed>,
}

/// A record as it is kept.
#[derive(Debug)]
pub(super) struct Packed {
    pub switch: Arc<str>,
    pub shape: Arc<Shape>,
    pub bytes: Box<[u8]>,
    pub lookup: Lookup,
}

impl Packed {
    pub fn new(switch: Arc<str>, fragment: &Fragment) -> Self {
        let (bytes, marks) = fragment.marked();
        let lookup = Lookup::new(fragment, marks);
        Self { switch, shape: fragment.shape.clone(), bytes: bytes.into(), lookup }
    }
}

impl KeptFragments {
    pub(super) fn new(
        unit: Unit,
        decode: Decode,
        epoch: u64,
        expected: usize,
        switches: Vec<(Arc<str>, Box<Fragment>)>,
    ) -> Self {
        let packed = |(switch, fragment): (Arc<str>, Box<Fragment>)| Packed::new(switch, &fragment);
        Self { unit, decode, epoch, expected, switches: switches.into_iter().map(packed).collect() }
    }

    /// What the records of each switch have in common.
    pub(super) fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.switches.iter().map(|packed| &*packed.shape)
    }
}

impl Kept for KeptFragments {
    /// Changes are those from the epoch before.
    const LOOKS_BACK: bool = true;

    fn bytes(&self) -> usize {
        let of = |packed: &Packed| size_of::<Packed>() + packed.bytes.len() + packed.lookup.bytes();
        self.switches.iter().map(of).sum()
    }

    fn archived(&self) -> Option<ArchiveForm> {
        Some(archived::form(self))
    }
}

/// The flows of a query that some program names, each with its estimate.
pub(super) fn found(unit: Unit, epochs: &[&KeptFragments], query: &Query) -> FoundFlows {
    found_in_records(unit, epochs, query).0
}

/// The same, and by switch the number of epochs in which its record was used.
fn found_in_records(unit: Unit, epochs: &[&KeptFragments], query: &Query) -> (FoundFlows, BTreeMap<String, u64>) {
    let (flows, named) = named(epochs, query);
    let Estimates { flows: estimates, rests_on } = frequencies(epochs, &flows, query.routes.as_ref());
    let mut found = FoundFlows { unit, lack: named, ..FoundFlows::default() };
    for (flow, (estimate, lack)) in flows.iter().zip(estimates) {
        found.lack.extend(&lack);
        if estimate.number > 0 {
            found.flows.push(FlowCount { flow: FlowName::Flow(*flow), count: estimate.number.into() });
        }
    }
    (found, rests_on)
}

/// The answer about the flow, or all flows together, of a query.
fn frequency(unit: Unit, epochs: &[&KeptFragments], query: &Query) -> ProgramAnswer {
    let fields = naming(epochs).key.fields();
    let flow = query.flow.as_ref().and_then(|pattern| pattern.flow_by(fields));
    let (estimate, lack, rests_on) = match flow {
        Some(flow) => {
            let Estimates { mut flows, rests_on } = frequencies(epochs, &[flow], query.routes.as_ref());
            let (estimate, lack) = flows.pop().unwrap_or((Estimate::exact(0), Reasons::default()));
            (estimate, lack, rests_on)
        }
        None => {
            let (found, rests_on) = found_in_records(unit, epochs, query);
            (found.frequency(query), found.lack, rests_on)
        }
    };
    let told = Frequency { rests_on, ..Frequency::new(DiSketch::NAME, unit, query, estimate) };
    ProgramAnswer::new(told, lack)
}

/// The flows of a query that some program names, and why these are not all.
pub(super) fn named(epochs: &[&KeptFragments], query: &Query) -> (Vec<Flow>, Reasons) {
    let (naming, flows) = (naming(epochs), query.routes.as_ref().map(ByRoute::flows).unwrap_or_default());
    let narrowed = flows.iter().map(|flow| naming.narrow(flow));
    let candidates: BTreeSet<Flow> = narrowed.filter(|flow| flow.fields() == naming.key.fields()).collect();
    let mut lack = Reasons::default();
    // Flows that no program names are not there, and those that are named are the larger ones.
    lack.add(if candidates.is_empty() { Reason::Unnamed } else { Reason::BelowThreshold });
    (candidates.into_iter().filter(|flow| query.is_meant(&FlowName::Flow(*flow))).collect(), lack)
}

/// How flows of these epochs are named.
fn naming(epochs: &[&KeptFragments]) -> Naming {
    epochs.iter().flat_map(|kept| kept.shapes()).next().map(|shape| shape.config.naming()).unwrap_or_default()
}

fn unit(epochs: &Epochs<KeptFragments>) -> Unit {
    epochs.newest().map(|entry| entry.showed.unit).unwrap_or_default()
}

impl Answers for KeptFragments {
    const NEEDS_ROUTES: bool = true;
    const ADDS_SIZES: bool = true;

    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        let kept: Vec<&Self> = epochs.iter().map(|entry| &*entry.showed).collect();
        let unit = unit(epochs);
        match query.task {
            Task::Frequency => Some(frequency(unit, &kept, query)),
            Task::Heavy => Some(HeavyFlows::told(DiSketch::NAME, epochs, query, found(unit, &kept, query))),
            Task::Flows => Some(FlowSizes::told(sizes::all(found(unit, &kept, query), &kept), query)),
            Task::Cardinality => Some(sizes::of_each(epochs, query)),
            // Changes are told in packets.
            Task::Changes if unit == Unit::Packets => Some(sizes::changes(epochs, query)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
