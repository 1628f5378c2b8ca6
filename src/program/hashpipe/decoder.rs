//! Reading HashPipe out: duplicates summed, replicas merged, the heaviest flows named.

use std::collections::HashMap;

use super::dataplane::Cell;
use crate::answers::{Counted, FlowCount, FlowName, FoundFlows, Unit};
use crate::history::Reason;
use crate::pisa::{Registers, Word};
use crate::wire::{Flow, FlowKey};

/// Counts by flow, in packets or bytes as the program was told. A peer's record names the flows, so
/// the map's hash is keyed at random.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub HashMap<Flow, Counted>);

/// Adds all occupied cells, so that a flow's duplicates in several stages are summed (§3.4). A cell
/// with the largest count may stand for more.
pub fn read_out<K: FlowKey + Word>(tables: &[Registers<Cell<K>>], counts: &mut Counts) {
    for (key, count) in tables.iter().flat_map(|table| table.cells()).filter(|(_, count)| *count > 0) {
        *counts.0.entry(key.flow()).or_default() += Counted::of_register(*count);
    }
}

impl Counts {
    /// The flows as an answer. Which others are missing is not known: a flow may have been evicted.
    pub fn found(&self, unit: Unit) -> FoundFlows {
        let flows = self.0.iter().map(|(&flow, &count)| FlowCount { flow: FlowName::Flow(flow), count }).collect();
        let lack = [Reason::Evicted].into_iter().collect();
        FoundFlows { unit, flows, are_lower_bounds: true, named_from: None, lack }
    }
}
