//! Exact answers, from the packets themselves, that a program's answers are scored with.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::Unit;
use crate::wire::{Flow, Headers};

/// A flow and its packets, or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Heavy {
    pub flow: Flow,
    pub count: u64,
}

/// Exact counts by flow.
pub type Truth = FxHashMap<Flow, u64>;

/// Exact counts of what one program measures.
pub trait Exact: Send {
    /// What it counts.
    fn unit(&self) -> Unit;
    /// Takes a packet of this length on the wire, in bytes.
    fn packet(&mut self, headers: &Headers, wire_bytes: usize) {
        if let Some(flow) = headers.flow() {
            self.flow(&flow, 1, wire_bytes as u64);
        }
    }
    /// Adds the packets and bytes of a five-tuple.
    fn flow(&mut self, flow: &Flow, packets: u64, bytes: u64);
    /// By flow, as the program names flows.
    fn counts(&self) -> &Truth;
}

/// Packets or bytes by flow, of which each is named by the part of its five-tuple that `name`
/// gives.
#[derive(Clone, Debug)]
pub struct FlowCounts<N = fn(&Flow) -> Flow> {
    unit: Unit,
    name: N,
    counts: FxHashMap<Flow, u64>,
}

impl FlowCounts {
    /// Flows are named by their five-tuples.
    pub fn new(unit: Unit) -> Self {
        Self::by(unit, |flow| *flow)
    }
}

impl<N: Fn(&Flow) -> Flow> FlowCounts<N> {
    pub fn by(unit: Unit, name: N) -> Self {
        Self { unit, name, counts: FxHashMap::default() }
    }
}

impl<N: Fn(&Flow) -> Flow + Send> Exact for FlowCounts<N> {
    fn unit(&self) -> Unit {
        self.unit
    }

    fn flow(&mut self, flow: &Flow, packets: u64, bytes: u64) {
        let weight = if self.unit == Unit::Packets { packets } else { bytes };
        *self.counts.entry((self.name)(flow)).or_default() += weight;
    }

    fn counts(&self) -> &Truth {
        &self.counts
    }
}
