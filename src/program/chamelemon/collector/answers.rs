//! What is kept of an epoch: the answers about flows, bounded in memory.

use super::{Analysis, Distribution, Sized};
use crate::program::answers::{Reason, Reasons};
use crate::program::chamelemon::Runtime;
use crate::program::chamelemon::network::NetworkEpoch;

/// One epoch's answers, of a switch or of a network.
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
    /// Why the heavy-hitter candidates are not all that there were.
    pub flows_lack: Reasons,
}

impl Answers {
    /// Keeps at most `flows` heavy flows.
    pub fn new(analysis: &Analysis, flows: usize) -> Self {
        let runtime = analysis.sketches().runtime;
        let heavy = analysis.heavy_hitters(0);
        let mut lack = Reasons::default();
        lack.add_if(runtime.division.hh == 0, Reason::Unmeasured);
        lack.add_if(!analysis.hh().complete, Reason::Undecoded);
        let estimates = (analysis.told_cardinality(), analysis.told_entropy_bits());
        Self::of(runtime, estimates, analysis.told_distribution(), heavy, flows, lack)
    }

    /// Of all switches whose flows are known.
    pub fn of_network(network: &NetworkEpoch, flows: usize) -> Self {
        let (heavy, distribution) = (network.heavy_hitters(0), network.told_distribution());
        let estimates = (network.told_cardinality(), network.told_entropy_bits());
        let lack = network.flows_lack();
        Self::of(network.runtime, estimates, distribution.as_ref(), heavy, flows, lack)
    }

    fn of(
        runtime: Runtime,
        (number, entropy_bits): (Option<f64>, Option<f64>),
        distribution: Option<&Distribution>,
        mut heavy: Vec<Sized>,
        flows: usize,
        flows_lack: Reasons,
    ) -> Self {
        let hh_flows = heavy.len();
        heavy.truncate(flows);
        heavy.shrink_to_fit();
        Self {
            runtime,
            flows: number,
            entropy_bits,
            distribution: distribution.map(Distribution::rounded),
            heavy,
            hh_flows,
            flows_lack,
        }
    }
}
