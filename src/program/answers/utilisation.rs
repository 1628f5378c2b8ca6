//! The task utilisation: how much of the busiest link on its way each flow finds in use.

use std::sync::Arc;

use super::{FlowName, Reasons};

/// The busiest links of a flow's packets. A utilisation is a share of a link's bandwidth: 1 is a
/// full link.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowUtilisation {
    pub flow: FlowName,
    /// Where it leaves the network.
    pub sink: Arc<str>,
    /// Packets that told of it.
    pub packets: u64,
    /// The median and the maximum over these packets, each of which tells of the busiest link on
    /// its way.
    pub median: f64,
    pub max: f64,
    /// By how much the rank of the median is off at most, in 95 of 100 cases.
    pub rank_error: f64,
}

/// The utilisations that an epoch's flows met.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UtilisationAnswers {
    /// Those of the most packets first, and the number of all.
    pub flows: Vec<FlowUtilisation>,
    pub found: usize,
    /// Flows that made place for others so far.
    pub evicted: u64,
    /// The factor by which a utilisation is off at most, because it is carried in few bits.
    pub error_factor: f64,
    /// Why utilisations are missing.
    pub lack: Reasons,
}

impl UtilisationAnswers {
    /// Keeps at most so many flows, and no memory for more.
    pub fn keep(&mut self, max: usize) {
        self.flows.truncate(max);
        self.flows.shrink_to_fit();
    }
}
