//! Exact packets or bytes of each key.

use rustc_hash::FxHashMap;

use super::Config;
use crate::program::{Exact, FlowCounts, Unit};
use crate::wire::{Flow, Headers};

/// Packets or bytes of each key, as the program is configured.
pub struct Keys {
    config: Config,
    counts: FlowCounts,
}

impl Keys {
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone(), counts: FlowCounts::new(config.count) }
    }
}

impl Exact for Keys {
    fn unit(&self) -> Unit {
        self.config.count
    }

    fn packet(&mut self, headers: &Headers, wire_bytes: usize) {
        if let Some(flow) = self.config.flow(headers) {
            self.counts.add(flow, 1, wire_bytes as u64);
        }
    }

    fn flow(&mut self, flow: &Flow, packets: u64, bytes: u64) {
        self.counts.add(self.config.narrow(flow), packets, bytes);
    }

    fn counts(&self) -> &FxHashMap<Flow, u64> {
        &self.counts.counts
    }
}
