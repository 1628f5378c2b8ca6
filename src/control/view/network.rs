//! What ChameleMon finds, of a switch alone or of a network: for which epochs, with which gaps, and whether it is all.

use serde::{Deserialize, Serialize};

use super::HeavyFlow;
use crate::control::controller::{EpochAnswers, Selected};
use crate::control::flows::{LostFlow, Names, SizeClass};
use crate::program::chamelemon::attention::State;
use crate::program::chamelemon::{FlowId, Runtime};
use crate::wire::Flow;

/// The epochs that an answer covers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Covered {
    pub first_epoch: Option<u64>,
    pub last_epoch: Option<u64>,
    /// Time that the epochs span.
    pub seconds: f64,
    /// What is missing, and where.
    pub gaps: Vec<Gap>,
    /// Nothing is: this is all that there was in these epochs.
    pub complete: bool,
}

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub epoch: u64,
    pub switch: String,
    pub gap: String,
}

impl Covered {
    fn new(selected: &Selected, complete: impl Fn(&EpochAnswers) -> bool) -> Self {
        let epochs = &selected.epochs;
        let gaps = epochs.iter().flat_map(|epoch| epoch.gaps.iter().map(|gap| (epoch.epoch, gap)));
        Self {
            first_epoch: epochs.first().map(|epoch| epoch.epoch),
            last_epoch: epochs.last().map(|epoch| epoch.epoch),
            seconds: epochs.len() as f64 * selected.length as f64 / 1e9,
            gaps: gaps
                .map(|(epoch, gap)| Gap { epoch, switch: gap.switch.to_string(), gap: gap.gap.to_string() })
                .collect(),
            complete: !epochs.is_empty() && epochs.iter().all(|epoch| complete(epoch)),
        }
    }
}

/// `weir show losses`: the flows that lost packets, added up over the epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    #[serde(flatten)]
    pub covered: Covered,
    /// Packets that entered and did not leave, whether their flows are known or not.
    pub lost_packets: i64,
    /// Epochs of which nothing is known.
    pub unknown_epochs: u64,
    /// Flows that lost packets.
    pub victims: u64,
    /// Those that lost most.
    pub losses: Vec<LostFlow>,
}

impl Losses {
    pub fn new(selected: &Selected, top: usize, threshold: u64) -> Self {
        let mut lost = rustc_hash::FxHashMap::<FlowId, i64>::default();
        let known = selected.epochs.iter().filter_map(|epoch| epoch.losses.as_ref());
        let (mut lost_packets, mut unknown_epochs) = (0, selected.epochs.len() as u64);
        for losses in known {
            lost_packets += losses.packets();
            unknown_epochs -= 1;
            losses.flows.iter().for_each(|loss| *lost.entry(loss.id).or_default() += loss.packets);
        }
        let threshold = i64::try_from(threshold).unwrap_or(i64::MAX);
        let victims = lost.values().filter(|packets| **packets > 0).count() as u64;
        let mut flows: Vec<_> = lost.into_iter().filter(|(_, packets)| *packets >= threshold).collect();
        flows.sort_unstable_by_key(|&(id, packets)| (std::cmp::Reverse(packets), id));
        flows.truncate(top);
        let names = Names::default();
        Self {
            covered: Covered::new(selected, |epoch| epoch.losses_complete),
            lost_packets,
            unknown_epochs,
            victims,
            losses: flows.into_iter().map(|(id, packets)| names.lost(id, packets)).collect(),
        }
    }
}

/// `weir show flows`: the flows of the newest epoch and their sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSizes {
    #[serde(flatten)]
    pub covered: Covered,
    /// Number of flows; null when too many to tell.
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
    /// Flows of at least T_h packets that were found.
    pub heavy_candidates: u64,
    /// The largest of them.
    pub heavy: Vec<HeavyFlow>,
    /// Flows by size.
    pub distribution: Vec<SizeClass>,
}

impl FlowSizes {
    /// Names at most `top` flows, of at least `threshold` packets.
    pub fn new(mut selected: Selected, top: usize, threshold: u64) -> Self {
        selected.epochs.drain(..selected.epochs.len().saturating_sub(1));
        let covered = Covered::new(&selected, |epoch| epoch.network.hh_complete);
        let Some(epoch) = selected.epochs.last() else { return Self { covered, ..Self::default() } };
        let names = Names::default();
        let answers = &epoch.network;
        let heavy = answers.heavy.iter().filter(|flow| flow.packets >= threshold).take(top);
        let classes = answers.distribution.iter().flat_map(|distribution| &distribution.0);
        Self {
            covered,
            flows: answers.flows,
            entropy_bits: answers.entropy_bits,
            heavy_candidates: answers.hh_flows as u64,
            heavy: heavy.map(|flow| names.heavy(flow.id, flow.packets)).collect(),
            distribution: classes.map(|&(packets, flows)| SizeClass { packets, flows }).collect(),
        }
    }
}

/// `weir show changes`: the flows that changed most from the epoch before the newest to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeavyChanges {
    #[serde(flatten)]
    pub covered: Covered,
    pub changes: Vec<ChangedFlow>,
}

/// A flow whose size changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangedFlow {
    pub flow: Flow,
    /// In place of the flow when it is one of IPv6.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ipv6_digest: Option<String>,
    pub before_packets: u64,
    pub after_packets: u64,
}

impl HeavyChanges {
    /// Names at most `top` flows that changed by at least `threshold` packets.
    pub fn new(mut selected: Selected, top: usize, threshold: u64) -> Self {
        selected.epochs.drain(..selected.epochs.len().saturating_sub(1));
        let complete = |epoch: &EpochAnswers| epoch.changes.is_some() && epoch.network.hh_complete;
        let covered = Covered::new(&selected, complete);
        let names = Names::default();
        let changes = selected.epochs.iter().flat_map(|epoch| epoch.changes.iter().flatten());
        let changed = changes.filter(|change| change.before.abs_diff(change.after) >= threshold).take(top);
        let changes = changed.map(|change| {
            let (flow, ipv6_digest) = names.name(change.id);
            ChangedFlow { flow, ipv6_digest, before_packets: change.before, after_packets: change.after }
        });
        Self { covered, changes: changes.collect() }
    }
}

/// `weir show cardinality` and `weir show entropy`: a number for each epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    #[serde(flatten)]
    pub covered: Covered,
    pub epochs: Vec<EpochNumbers>,
}

/// One epoch's numbers, of the network and of each switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochNumbers {
    pub epoch: u64,
    /// Number of flows, and the entropy of their sizes; null when too many to tell.
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
    pub switches: Vec<SwitchNumbers>,
}

/// One switch's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchNumbers {
    pub switch: String,
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
}

impl Numbers {
    pub fn new(selected: &Selected) -> Self {
        let epoch = |epoch: &EpochAnswers| EpochNumbers {
            epoch: epoch.epoch,
            flows: epoch.network.flows,
            entropy_bits: epoch.network.entropy_bits,
            switches: epoch
                .switches
                .iter()
                .map(|switch| SwitchNumbers {
                    switch: switch.switch.to_string(),
                    flows: switch.answers.flows,
                    entropy_bits: switch.answers.entropy_bits,
                })
                .collect(),
        };
        let complete =
            |epoch: &EpochAnswers| epoch.network.flows.is_some() && !epoch.gaps.iter().any(|gap| gap.gap.hides_flows());
        Self {
            covered: Covered::new(selected, complete),
            epochs: selected.epochs.iter().map(|answers| epoch(answers)).collect(),
        }
    }
}

/// `weir show attention`: what each epoch was measured with, and why that changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    pub epochs: Vec<EpochAttention>,
}

/// One epoch's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochAttention {
    pub epoch: u64,
    /// `healthy` or `ill`.
    pub state: String,
    #[serde(flatten)]
    pub parameters: Parameters,
    /// Flows of each class that were decoded, or estimated; null when unknown.
    pub heavy_candidates: Option<u64>,
    pub heavy_losses: Option<f64>,
    pub light_losses: Option<f64>,
    /// What was ordered from it, from which epoch on, and why.
    pub ordered_epoch: Option<u64>,
    pub ordered: Option<Parameters>,
    pub why: String,
}

/// Parameters of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Buckets an array for heavy hitters, heavy losses and light losses.
    pub hh_buckets: u32,
    pub hl_buckets: u32,
    pub ll_buckets: u32,
    /// T_h and T_l.
    pub hh_threshold_packets: u32,
    pub hl_threshold_packets: u32,
    /// The share of light losses that are sampled.
    pub sample_share: f64,
}

impl From<&Runtime> for Parameters {
    fn from(runtime: &Runtime) -> Self {
        Self {
            hh_buckets: runtime.division.hh,
            hl_buckets: runtime.division.hl,
            ll_buckets: runtime.division.ll,
            hh_threshold_packets: runtime.hh_threshold,
            hl_threshold_packets: runtime.hl_threshold,
            sample_share: f64::from(runtime.sample) / f64::from(Runtime::ALL),
        }
    }
}

impl EpochAttention {
    /// What an epoch is measured with, of which nothing else is known.
    pub fn of(epoch: u64, runtime: &Runtime) -> Self {
        Self {
            epoch,
            state: State::of(runtime).name().into(),
            parameters: runtime.into(),
            heavy_candidates: None,
            heavy_losses: None,
            light_losses: None,
            ordered_epoch: None,
            ordered: None,
            why: String::new(),
        }
    }
}

impl Attention {
    pub fn new(selected: &Selected) -> Self {
        let epoch = |epoch: &EpochAnswers| EpochAttention {
            epoch: epoch.epoch,
            state: epoch.state.name().into(),
            parameters: (&epoch.runtime).into(),
            heavy_candidates: (!epoch.switches.is_empty()).then_some(epoch.network.hh_flows as u64),
            heavy_losses: epoch.losses.as_ref().and_then(|losses| losses.heavy.flows),
            light_losses: epoch.losses.as_ref().and_then(|losses| losses.light.flows),
            ordered_epoch: epoch.order.map(|order| order.epoch),
            ordered: epoch.order.map(|order| (&order.runtime).into()),
            why: epoch.why.clone(),
        };
        Self { epochs: selected.epochs.iter().map(|answers| epoch(answers)).collect() }
    }
}
