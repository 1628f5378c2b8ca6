//! The documents about flows of a run, with the truth beside them where it is known.

use std::fmt;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::program::answers::{Distribution, FlowAnswers, FlowName, Loss, Losses, Reasons};
use crate::wire::Flow;

/// A program's answers about the flows of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flows {
    /// Number of flows; null when there are too many to estimate.
    pub flows: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub true_flows: Option<u64>,
    pub entropy_bits: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub true_entropy_bits: Option<f64>,
    /// Flows by size.
    pub distribution: Vec<SizeClass>,
    /// Weighted mean relative error of the distribution.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub distribution_wmre: Option<f64>,
    /// Heavy flows that were found, and whether every flow of at least `heavy_min_packets` is
    /// among them.
    pub heavy_candidates: u64,
    pub heavy_complete: bool,
    pub heavy_min_packets: u64,
    /// Flows with more packets entered than left, and flows with more packets left than entered.
    pub losses: Vec<CountedFlow>,
    pub gains: Vec<CountedFlow>,
    /// Measured packets that entered and did not leave, and that left and did not enter.
    pub lost_packets: u64,
    pub gained_packets: u64,
    /// Whether these are all losses, and why not.
    pub losses_complete: bool,
    pub losses_incomplete: Reasons,
}

/// A flow as documents name it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedFlow {
    pub flow: Flow,
    /// In place of the flow's fields when the program knows only a digest of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ipv6_digest: Option<String>,
}

impl From<FlowName> for NamedFlow {
    fn from(name: FlowName) -> Self {
        Self { flow: name.flow().unwrap_or_default(), ipv6_digest: name.digest() }
    }
}

impl fmt::Display for NamedFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ipv6_digest {
            Some(digest) => write!(f, "ipv6 flow {digest}"),
            None => self.flow.fmt(f),
        }
    }
}

/// Flows of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeClass {
    pub packets: u32,
    pub flows: f64,
}

/// A flow and how many packets it lost, or gained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedFlow {
    #[serde(flatten)]
    pub name: NamedFlow,
    pub packets: u64,
    /// Whether that is their exact number.
    pub exact: bool,
}

impl CountedFlow {
    pub fn new(flow: FlowName, packets: u64, exact: bool) -> Self {
        Self { name: flow.into(), packets, exact }
    }
}

impl Flows {
    /// From a run's flows and losses; `lack` has the reasons why the losses are not complete.
    pub fn new(answers: &FlowAnswers, losses: &Losses, lack: Reasons) -> Self {
        let exact = lack.leave_counts_exact();
        let counted = |of: fn(&Loss) -> u64| {
            let flows = losses.flows.iter().filter(move |loss| of(loss) > 0);
            flows.map(|loss| CountedFlow::new(loss.flow, of(loss), exact && loss.exact)).collect()
        };
        let classes = answers.distribution.iter().flatten();
        Self {
            flows: answers.flows,
            entropy_bits: answers.entropy_bits,
            distribution: classes.map(|&(packets, flows)| SizeClass { packets, flows }).collect(),
            heavy_candidates: answers.found as u64,
            heavy_complete: answers.lack.is_empty(),
            heavy_min_packets: answers.named_from.unwrap_or_default(),
            losses: counted(|loss| loss.lost),
            gains: counted(|loss| loss.gained),
            lost_packets: losses.lost_packets,
            gained_packets: losses.gained_packets,
            losses_complete: lack.is_empty(),
            losses_incomplete: lack,
            ..Self::default()
        }
    }

    /// Sets the truth beside it: the exact packets of each flow, and what the program says of the
    /// distribution that it estimated.
    #[must_use]
    pub fn with_truth(self, truth: &FxHashMap<Flow, u64>, distribution_wmre: Option<f64>) -> Self {
        let sizes = Distribution::of_sizes(truth.values().copied());
        Self {
            true_flows: Some(truth.len() as u64),
            true_entropy_bits: Some(sizes.entropy_bits()),
            distribution_wmre,
            ..self
        }
    }
}
