//! The task latency: how long the packets of each flow take in each switch.

use std::sync::Arc;

use super::{FlowName, Reasons};

/// The latency of one hop of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct HopLatency {
    /// `None` where the path is not decided.
    pub switch: Option<Arc<str>>,
    /// Packets that told of it.
    pub samples: u64,
    /// The median and the 99th percentile, in nanoseconds; `None` without samples.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    /// By how much the rank of a percentile is off at most, in 95 of 100 cases.
    pub rank_error: f64,
}

/// The latencies of a flow, from the first hop to the last.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowLatency {
    pub flow: FlowName,
    /// Where it leaves the network.
    pub sink: Arc<str>,
    /// Of the packets' path, where they carry one: a flow then has an answer for each.
    pub checksum: Option<u16>,
    pub hops: Vec<HopLatency>,
}

impl FlowLatency {
    /// Samples of all hops.
    pub fn samples(&self) -> u64 {
        self.hops.iter().map(|hop| hop.samples).sum()
    }
}

/// The latencies of an epoch's flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyAnswers {
    /// Those of the most samples first, and the number of all.
    pub flows: Vec<FlowLatency>,
    pub found: usize,
    /// Flows that made place for others so far.
    pub evicted: u64,
    /// The factor by which a time is off at most, because it is carried in few bits; 1 is exact.
    pub error_factor: f64,
    /// The packets of so many nanoseconds count alone, those up to the newest; `None` is all time.
    pub window_ns: Option<u64>,
    /// Why latencies are missing.
    pub lack: Reasons,
}

impl LatencyAnswers {
    /// Keeps at most so many flows, and no memory for more.
    pub fn keep(&mut self, max: usize) {
        self.flows.truncate(max);
        self.flows.shrink_to_fit();
    }
}
