//! What is kept of an epoch: the answers, bounded in memory.

use super::{Analysis, Distribution, Losses, Sized};
use crate::program::chamelemon::Runtime;

/// One epoch's answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    pub runtime: Runtime,
    /// Number of flows; `None` when the classifier was too full to tell.
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
    /// Sizes from 256 on are rounded down to seven binary digits.
    pub distribution: Option<Distribution>,
    /// The heaviest flows, and the number of all heavy-hitter candidates.
    pub heavy: Vec<Sized>,
    pub hh_flows: usize,
    /// Whether the heavy-hitter candidates are all that there were.
    pub hh_complete: bool,
    /// The flows that lost most, with the sums over all.
    pub losses: Losses,
    pub lost_packets: i64,
}

impl Answers {
    /// Keeps at most `flows` heavy flows and as many victims.
    pub fn new(analysis: &Analysis, flows: usize) -> Self {
        let distribution = analysis.distribution();
        let mut heavy = analysis.heavy_hitters(0);
        let hh_flows = heavy.len();
        heavy.truncate(flows);
        heavy.shrink_to_fit();
        let mut losses = analysis.losses();
        let lost_packets = losses.packets();
        losses.flows.truncate(flows);
        losses.flows.shrink_to_fit();
        Self {
            runtime: analysis.sketches().runtime,
            flows: analysis.cardinality(),
            entropy_bits: distribution.as_ref().map(Distribution::entropy_bits),
            distribution: distribution.as_ref().map(Distribution::rounded),
            heavy,
            hh_flows,
            hh_complete: analysis.hh().complete,
            losses,
            lost_packets,
        }
    }
}
