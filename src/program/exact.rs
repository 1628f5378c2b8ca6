//! Exact answers, from the packets themselves, that a program's answers are scored with.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::wire::{Flow, Headers};

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    #[default]
    Packets,
    Bytes,
}

/// A flow and its packets, or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Heavy {
    pub flow: Flow,
    pub count: u64,
}

/// Exact counts of what one program measures.
pub trait Exact: Send {
    /// What it counts.
    fn unit(&self) -> Unit;
    /// Takes a packet of this length on the wire, in bytes.
    fn packet(&mut self, headers: &Headers, wire_bytes: usize);
    /// Adds the packets and bytes of a five-tuple.
    fn flow(&mut self, flow: &Flow, packets: u64, bytes: u64);
    /// By flow, as the program names flows.
    fn counts(&self) -> &FxHashMap<Flow, u64>;
}

/// Packets or bytes by flow. As an [`Exact`] it names flows by their five-tuples.
#[derive(Clone, Debug, Default)]
pub struct FlowCounts {
    pub unit: Unit,
    pub counts: FxHashMap<Flow, u64>,
}

impl FlowCounts {
    pub fn new(unit: Unit) -> Self {
        Self { unit, counts: FxHashMap::default() }
    }

    pub fn add(&mut self, flow: Flow, packets: u64, bytes: u64) {
        let weight = if self.unit == Unit::Packets { packets } else { bytes };
        *self.counts.entry(flow).or_default() += weight;
    }
}

impl Exact for FlowCounts {
    fn unit(&self) -> Unit {
        self.unit
    }

    fn packet(&mut self, headers: &Headers, wire_bytes: usize) {
        if let Some(flow) = headers.flow() {
            self.add(flow, 1, wire_bytes as u64);
        }
    }

    fn flow(&mut self, flow: &Flow, packets: u64, bytes: u64) {
        self.add(*flow, packets, bytes);
    }

    fn counts(&self) -> &FxHashMap<Flow, u64> {
        &self.counts
    }
}
