//! The documents about flows that ChameleMon answers with, with the truth beside them where it is known.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::view::HeavyFlow;
use crate::program::answers::Reasons;
use crate::program::chamelemon::collector::{Distribution, Loss, Losses};
use crate::program::chamelemon::{Answers, FlowId, Sketches};
use crate::wire::Flow;

/// What ChameleMon says of the flows of one or more epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flows {
    /// Number of flows; null when the classifier was too full to tell.
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
    /// Heavy-hitter candidates that were decoded, and whether every flow of at least `heavy_least_packets` is among them.
    pub heavy_candidates: u64,
    pub heavy_complete: bool,
    pub heavy_least_packets: u64,
    /// Flows of which more packets entered than left, and those of which more left.
    pub losses: Vec<CountedFlow>,
    pub gains: Vec<CountedFlow>,
    /// Packets that entered and did not leave, and those that left and did not enter, as far as they were measured.
    pub lost_packets: u64,
    pub gained_packets: u64,
    /// Whether these are all losses, and why not.
    pub losses_complete: bool,
    pub losses_incomplete: Reasons,
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
    pub flow: Flow,
    /// In place of the flow when it is one of IPv6.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ipv6_digest: Option<String>,
    pub packets: u64,
    /// Whether that is their exact number.
    pub exact: bool,
}

/// IDs with the flows that they name: a digest is named by who knows the flows.
#[derive(Default)]
pub struct Names(FxHashMap<FlowId, Flow>);

impl Names {
    pub fn new<'a>(sketches: &Sketches, flows: impl Iterator<Item = &'a Flow>) -> Self {
        Self(flows.filter_map(|flow| Some((sketches.id(flow)?, *flow))).collect())
    }

    /// The flow, or none of its fields and the digest.
    pub fn name(&self, id: FlowId) -> (Flow, Option<String>) {
        match id.flow().or_else(|| self.0.get(&id).copied()) {
            Some(flow) => (flow, None),
            None => (Flow::default(), Some(id.digest_text())),
        }
    }

    /// The document of a flow that lost or gained packets.
    pub fn counted(&self, id: FlowId, packets: u64, exact: bool) -> CountedFlow {
        let (flow, ipv6_digest) = self.name(id);
        CountedFlow { flow, ipv6_digest, packets, exact }
    }

    /// The document of a heavy flow.
    pub fn heavy(&self, id: FlowId, packets: u64) -> HeavyFlow {
        let (flow, ipv6_digest) = self.name(id);
        HeavyFlow { flow, ipv6_digest, packets: Some(packets), bytes: None, true_packets: None, true_bytes: None }
    }
}

impl Flows {
    /// Names at most `most` victims; `lack` says why they are not all.
    pub fn new(
        answers: &Answers,
        least_named: u64,
        losses: &Losses,
        lack: Reasons,
        names: &Names,
        most: usize,
    ) -> Self {
        let exact = lack.leave_counts_exact();
        let counted = |of: fn(&Loss) -> u64| {
            let flows = losses.flows.iter().filter(move |loss| of(loss) > 0).take(most);
            flows.map(|loss| names.counted(loss.id, of(loss), exact && loss.exact)).collect()
        };
        let classes = answers.distribution.iter().flat_map(|distribution| &distribution.0);
        Self {
            flows: answers.flows,
            entropy_bits: answers.entropy_bits,
            distribution: classes.map(|&(packets, flows)| SizeClass { packets, flows }).collect(),
            heavy_candidates: answers.hh_flows as u64,
            heavy_complete: answers.flows_lack.is_empty(),
            heavy_least_packets: least_named,
            losses: counted(|loss| loss.lost),
            gains: counted(|loss| loss.gained),
            lost_packets: losses.lost_packets,
            gained_packets: losses.gained_packets,
            losses_complete: lack.is_empty(),
            losses_incomplete: lack,
            ..Self::default()
        }
    }

    /// Sets the truth beside it: the exact packets of each flow, and the distribution that was estimated, not rounded.
    #[must_use]
    pub fn with_truth(self, truth: &FxHashMap<Flow, u64>, estimated: Option<&Distribution>) -> Self {
        let exact = Distribution::of_sizes(truth.values().copied());
        Self {
            true_flows: Some(truth.len() as u64),
            true_entropy_bits: Some(exact.entropy_bits()),
            distribution_wmre: estimated.map(|estimated| estimated.error(&exact)),
            ..self
        }
    }
}
