//! The task loops: packets that come back to a switch that they have passed.

use std::sync::Arc;

use super::{FlowName, Reasons};

/// A flow of which a switch has seen packets in a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowLoop {
    pub flow: FlowName,
    /// The switch that saw it, so one of those in the loop.
    pub switch: Arc<str>,
    /// When it saw the first and the last of the packets, in nanoseconds of its clock.
    pub first_ns: u64,
    pub last_ns: u64,
    /// Packets that it reported.
    pub packets: u64,
    /// The fewest switches that one of these had passed, each time that it came by counted.
    pub least_hops: u32,
}

/// The loops that an epoch's packets were in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoopAnswers {
    /// Those with the most packets first, and the number of all.
    pub flows: Vec<FlowLoop>,
    pub found: usize,
    /// Flows that made place for others so far.
    pub evicted: u64,
    /// Reports of the epoch that found no room.
    pub missing_reports: u64,
    /// Why loops, or packets of these, are missing.
    pub lack: Reasons,
}

impl LoopAnswers {
    /// Keeps at most so many flows, and no memory for more.
    pub fn keep(&mut self, max: usize) {
        self.flows.truncate(max);
        self.flows.shrink_to_fit();
    }
}
