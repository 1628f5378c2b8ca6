//! Reading HashPipe out: duplicates summed, replicas merged, the heaviest flows named.

use std::collections::HashMap;

use super::dataplane::Cell;
use super::key::{Name, SlotKey};
use crate::answers::{Counted, Digest32, FlowCount, FlowName, FoundFlows, Unit};
use crate::history::{Reason, Reasons};
use crate::pisa::Registers;
use crate::program::Reports;
use crate::slices;
use crate::wire::Flow;

/// Counts by flow, in packets or bytes as the program was told. A peer's record names the flows, so
/// the maps' hashes are keyed at random.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub flows: HashMap<Flow, Counted>,
    /// Where slots hold digests, these in place of flows.
    pub digests: Option<Digests>,
}

/// Counts by digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// Of IPv4 five-tuples, and of IPv6 ones.
    pub counts: [HashMap<u32, Counted>; 2],
    /// The five-tuples that were reported.
    pub names: Reports<Name>,
}

impl FromIterator<(Flow, Counted)> for Counts {
    fn from_iter<I: IntoIterator<Item = (Flow, Counted)>>(flows: I) -> Self {
        Self { flows: flows.into_iter().collect(), ..Self::default() }
    }
}

/// Adds all occupied cells, so that a flow's duplicates in several stages are summed (§3.4). A cell
/// with the largest count may stand for more.
pub fn read_out<K: SlotKey>(tables: &[Registers<Cell<K>>], counts: &mut Counts) {
    let cells = tables.iter().inspect(|_| slices::check()).flat_map(|table| table.cells());
    for (key, count) in cells.filter(|(_, count)| *count > 0) {
        let sum = match (key.name(), &mut counts.digests) {
            (FlowName::Digest32(Digest32 { is_ipv6, crc, .. }), Some(digests)) => {
                digests.counts[usize::from(is_ipv6)].entry(crc).or_default()
            }
            _ => counts.flows.entry(key.flow()).or_default(),
        };
        *sum += Counted::of_register(*count);
    }
}

impl Counts {
    /// The flows as an answer, digests as they are. Which others are missing is not known: a flow may have
    /// been evicted. A digest's count is that of all flows that have it, so it is no lower bound of any.
    pub fn found(&self, unit: Unit) -> FoundFlows {
        let flows = self.flows.iter().map(|(&flow, &count)| FlowCount { flow: FlowName::Flow(flow), count });
        let mut lack: Reasons = [Reason::Evicted].into_iter().collect();
        lack.add_if(self.digests.as_ref().is_some_and(|digests| digests.names.overflow() > 0), Reason::Overflow);
        FoundFlows {
            unit,
            flows: flows.chain(self.digests.iter().flat_map(Digests::found)).collect(),
            are_lower_bounds: self.digests.is_none(),
            named_from: None,
            lack,
        }
    }

    /// The flows that were reported.
    pub fn names(&self) -> impl Iterator<Item = Flow> {
        let names = self.digests.iter().flat_map(|digests| digests.names.kept());
        names.map(|Name(tuple)| tuple.flow())
    }
}

impl Digests {
    /// No counts, and these reports.
    pub fn named(names: Reports<Name>) -> Self {
        Self { counts: Default::default(), names }
    }

    fn found(&self) -> impl Iterator<Item = FlowCount> {
        [false, true].into_iter().zip(&self.counts).flat_map(|(is_ipv6, counts)| {
            counts.iter().map(move |(&crc, &count)| {
                let digest = Digest32 { is_ipv6, crc, is_ambiguous: false };
                FlowCount { flow: FlowName::Digest32(digest), count }
            })
        })
    }
}
