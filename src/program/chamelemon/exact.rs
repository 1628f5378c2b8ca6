//! Exact packets of each five-tuple.

use rustc_hash::FxHashMap;

use crate::program::{Exact, FlowCounts, Unit};
use crate::wire::{Flow, FlowKey, Headers, Net, Tuple4, Tuple6};

/// Packets of each five-tuple.
#[derive(Default)]
pub struct FiveTuples(FlowCounts);

impl Exact for FiveTuples {
    fn unit(&self) -> Unit {
        Unit::Packets
    }

    fn packet(&mut self, headers: &Headers, wire_bytes: usize) {
        let flow = match headers.net {
            Net::Ipv4 => Tuple4::of(headers).flow(),
            Net::Ipv6 => Tuple6::of(headers).flow(),
            Net::Other => return,
        };
        self.flow(&flow, 1, wire_bytes as u64);
    }

    fn flow(&mut self, flow: &Flow, packets: u64, bytes: u64) {
        self.0.add(*flow, packets, bytes);
    }

    fn counts(&self) -> &FxHashMap<Flow, u64> {
        &self.0.counts
    }
}
