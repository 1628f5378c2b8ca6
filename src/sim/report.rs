//! What a simulation says of an epoch: the truth, and the programs' answers beside it. Keys are stable, units in the names.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::traffic::{Generation, SimFlow, Sums, Where};
use super::{Network, Place};
use crate::control::score::{Score, score};
use crate::program::ProgramConfig;
use crate::program::answers::{EpochAnswers, FlowCount, FlowName, Limits, Losses, Reasons};
use crate::program::chamelemon::attention::State;
use crate::program::chamelemon::collector::Distribution;
use crate::program::chamelemon::network::NetworkEpoch;
use crate::program::chamelemon::{self, FlowId, Runtime};
use crate::program::hashpipe::Heavy;
use crate::wire::FlowKey;

/// One epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    pub epoch: u64,
    pub flows: u64,
    pub sent_packets: u64,
    pub delivered_packets: u64,
    pub lost_packets: u64,
    /// Packets that links made of others: sent + doubled = delivered + lost.
    pub doubled_packets: u64,
    /// Flows that lost packets.
    pub victim_flows: u64,
    /// Where packets were lost.
    pub losses: Vec<LostAt>,
    /// By name, as `--program` gives them.
    pub programs: BTreeMap<String, ProgramReport>,
}

/// Packets that were lost in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostAt {
    /// `link`: on purpose; `busy`: the link's queue was full; `switch`; `astray`: at a wrong host.
    pub reason: String,
    /// The switch, or that which the link leaves.
    pub switch: String,
    /// The switch that the link leads to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub towards: Option<String>,
    pub flows: u64,
    pub packets: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProgramReport {
    ChameleMon(Box<ChameleMonReport>),
    Heavy(HeavyReport),
}

/// The heaviest flows that a program found in all of the network, beside the truth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeavyReport {
    pub score: Score,
}

/// What ChameleMon measured with, and what it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChameleMonReport {
    pub state: State,
    /// Buckets an array.
    pub hh_buckets: u32,
    pub hl_buckets: u32,
    pub ll_buckets: u32,
    /// T_h and T_l.
    pub hh_threshold_packets: u32,
    pub hl_threshold_packets: u32,
    pub sampled_share: f64,
    /// Heavy-hitter candidates of the switch that had most, and whether all of all switches were decoded.
    pub hh_flows: Option<f64>,
    pub hh_complete: bool,
    /// Victims that were heavy, and those of sampled light losses.
    pub hl_flows: Option<f64>,
    pub ll_flows: Option<f64>,
    /// The three over the buckets of an upstream encoder.
    pub load: Option<f64>,
    pub losses: Option<LossScore>,
    /// Why it does not call its losses complete.
    pub incomplete: Reasons,
    pub heavy: HeavyScore,
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
    pub true_entropy_bits: f64,
    pub distribution_wmre: Option<f64>,
    /// What is missing.
    pub gaps: Vec<String>,
    /// What was decided from it for a later epoch; empty when nothing changes.
    pub decided: String,
}

/// Decoded losses beside those that happened between the first and the last switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossScore {
    /// The program says that these are all, each with the exact number.
    pub complete: bool,
    pub true_flows: u64,
    pub true_packets: u64,
    /// Victims found, and of these the ones with the exact number of packets lost.
    pub right_flows: u64,
    pub exact_flows: u64,
    /// Flows that were said to be victims and were not.
    pub wrong_flows: u64,
    /// Victims whose number of packets the program called exact, and of these the ones for which it was
    /// not.
    pub called_exact_flows: u64,
    pub miscalled_flows: u64,
    /// Packets that it says were lost, and those of which more left than entered.
    pub packets: u64,
    pub gained_packets: u64,
}

/// Heavy hitters: flows of more than a share of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeavyScore {
    pub threshold_packets: u64,
    pub true_flows: u64,
    pub flows: u64,
    pub right_flows: u64,
    pub f1: f64,
    pub average_relative_error: f64,
}

/// Flows of more than this share of an epoch's packets are heavy: 0.02 %, as in the paper's appendix C.
const HEAVY_SHARE: f64 = 0.0002;
/// Heaviest flows that are scored.
const SCORED: usize = 300;

impl EpochReport {
    pub fn new(epoch: u64, network: &Network) -> Self {
        let generation = network.generation(epoch);
        Self::of(epoch, generation, lost_at(network, generation))
    }

    /// What was true of an epoch; no program has answered yet.
    pub fn of(epoch: u64, generation: &Generation, losses: Vec<LostAt>) -> Self {
        let Sums { flows, sent, delivered, lost, victims } = generation.sums();
        Self {
            epoch,
            flows,
            sent_packets: sent,
            delivered_packets: delivered,
            lost_packets: lost,
            doubled_packets: generation.doubled,
            victim_flows: victims,
            losses,
            programs: BTreeMap::new(),
        }
    }
}

fn lost_at(network: &Network, generation: &Generation) -> Vec<LostAt> {
    let mut places: BTreeMap<Where, (u64, u64)> = BTreeMap::new();
    for (&(_, at), &packets) in &generation.places {
        let sum = places.entry(at).or_default();
        *sum = (sum.0 + 1, sum.1 + u64::from(packets));
    }
    let name = |switch: u32| network.topology().switches()[switch as usize].clone();
    let link = |port: Place| (name(network.owner(port).0), network.peer(port).map(name));
    let lost = |(at, (flows, packets)): (Where, (u64, u64))| {
        let (reason, (switch, towards)) = match at {
            Where::Link(port) => ("link", link(port)),
            Where::Busy(port) => ("busy", link(port)),
            Where::Switch(switch) => ("switch", (name(switch), None)),
            Where::Astray(port) => ("astray", (name(network.owner(port).0), None)),
        };
        LostAt { reason: reason.into(), switch, towards, flows, packets }
    };
    places.into_iter().map(lost).collect()
}

impl HeavyReport {
    /// What the score needs of a program's answers.
    pub const LIMITS: Limits = Limits { flows: SCORED, switch_flows: 0, losses: 0 };

    pub fn new(program: &ProgramConfig, answers: &EpochAnswers, generation: &Generation) -> Self {
        let mut exact = program.exact();
        for flow in &generation.flows {
            // Every packet of the simulation has the same length.
            let bytes = u64::from(flow.sent) * u64::from(generation.packet_bytes);
            exact.flow(&flow.tuple.flow(), flow.sent.into(), bytes);
        }
        let named = |heavy: &FlowCount| Some(Heavy { flow: heavy.flow.flow()?, count: heavy.count });
        let heavy: Vec<_> = answers.network.heavy.iter().filter_map(named).collect();
        Self { score: score(&heavy, exact.counts(), SCORED) }
    }
}

impl ChameleMonReport {
    pub fn new(network: &NetworkEpoch, decided: String, truth: &Generation, fabric: impl Fn(Where) -> bool) -> Self {
        let Runtime { division, hh_threshold, hl_threshold, sample, .. } = network.runtime;
        let hh_flows = network.edges.iter().map(|edge| edge.analysis.candidates()).collect::<Option<Vec<_>>>();
        let hh_flows = hh_flows.map(|flows| flows.into_iter().fold(0.0, f64::max));
        let losses = network.losses.as_ref();
        let (hl_flows, ll_flows) = (losses.and_then(|l| l.heavy.flows), losses.and_then(|l| l.light.flows));
        let shape = network.edges.first().map(|edge| edge.analysis.sketches().shape);
        let buckets = shape.map(|shape| (0..shape.rows()).map(|row| shape.cells(row, shape.upstream)).sum::<u32>());
        let load = (|| Some((hh_flows? + hl_flows? + ll_flows?) / f64::from(buckets?)))();
        let (exact, distribution) = (sizes(truth), network.distribution());
        let incomplete = network.losses_lack();
        Self {
            state: State::of(&network.runtime),
            hh_buckets: division.hh,
            hl_buckets: division.hl,
            ll_buckets: division.ll,
            hh_threshold_packets: hh_threshold,
            hl_threshold_packets: hl_threshold,
            sampled_share: f64::from(sample) / f64::from(Runtime::ALL),
            hh_flows,
            hh_complete: network.hh_complete(),
            hl_flows,
            ll_flows,
            load,
            losses: losses
                .map(|found| LossScore::new(&chamelemon::losses(found, usize::MAX), &incomplete, &lost(truth, fabric))),
            incomplete,
            heavy: HeavyScore::new(network, truth),
            flows: network.cardinality(),
            entropy_bits: distribution.as_ref().map(Distribution::entropy_bits),
            true_entropy_bits: exact.entropy_bits(),
            distribution_wmre: distribution.map(|distribution| distribution.error(&exact)),
            gaps: network.gaps.iter().map(ToString::to_string).collect(),
            decided,
        }
    }
}

fn sizes(truth: &Generation) -> Distribution {
    Distribution::of_sizes(truth.flows.iter().map(|flow| u64::from(flow.sent)))
}

fn id(flow: &SimFlow) -> FlowId {
    FlowId::of_v4(flow.tuple)
}

/// Packets that each flow lost where `fabric` says that it is between the first and the last switch.
fn lost(truth: &Generation, fabric: impl Fn(Where) -> bool) -> FxHashMap<FlowName, u64> {
    let mut lost: FxHashMap<FlowName, u64> = FxHashMap::default();
    for (&(flow, at), &packets) in &truth.places {
        if fabric(at) {
            *lost.entry(id(&truth.flows[flow as usize]).name()).or_default() += u64::from(packets);
        }
    }
    lost
}

impl LossScore {
    /// What was found beside the packets that each flow lost.
    pub fn new(found: &Losses, incomplete: &Reasons, lost: &FxHashMap<FlowName, u64>) -> Self {
        let mut score = Self {
            complete: incomplete.is_empty(),
            packets: found.lost_packets,
            gained_packets: found.gained_packets,
            true_flows: lost.len() as u64,
            true_packets: lost.values().sum(),
            ..Self::default()
        };
        let calls_exact = incomplete.leave_counts_exact();
        for loss in found.flows.iter().filter(|loss| loss.lost > 0) {
            let truth = lost.get(&loss.flow).copied().unwrap_or_default();
            let is_exact = truth == loss.lost;
            match truth {
                0 => score.wrong_flows += 1,
                _ => score.right_flows += 1,
            }
            score.exact_flows += u64::from(is_exact);
            score.called_exact_flows += u64::from(calls_exact && loss.exact);
            score.miscalled_flows += u64::from(calls_exact && loss.exact && !is_exact);
        }
        score
    }

    /// What is told at last of an epoch in which something went wrong, beside the nets of the flows.
    pub fn revised(answers: &EpochAnswers, nets: &FxHashMap<FlowId, i64>) -> Option<Self> {
        let lost = nets.iter().filter(|(_, net)| **net > 0).map(|(id, net)| (id.name(), net.unsigned_abs())).collect();
        Some(Self::new(answers.losses.as_ref()?, &answers.losses_lack, &lost))
    }

    /// Every victim was found with the exact number of its packets, and nothing else.
    pub fn is_exact(&self) -> bool {
        self.complete && self.wrong_flows == 0 && self.exact_flows == self.true_flows
    }
}

impl HeavyScore {
    fn new(network: &NetworkEpoch, truth: &Generation) -> Self {
        let packets: u64 = truth.flows.iter().map(|flow| u64::from(flow.sent)).sum();
        let threshold = (packets as f64 * HEAVY_SHARE) as u64;
        let heavy = truth.flows.iter().filter(|flow| u64::from(flow.sent) > threshold);
        let exact: FxHashMap<FlowId, u64> = heavy.map(|flow| (id(flow), u64::from(flow.sent))).collect();
        let found = network.heavy_hitters(threshold);
        let mut errors = exact.len() as f64;
        let mut right = 0;
        for flow in &found {
            if let Some(&size) = exact.get(&flow.id) {
                right += 1;
                // One that is not found counts 1.
                errors -= 1.0 - flow.packets.abs_diff(size) as f64 / size as f64;
            }
        }
        let both = exact.len() + found.len();
        Self {
            threshold_packets: threshold,
            true_flows: exact.len() as u64,
            flows: found.len() as u64,
            right_flows: right,
            f1: if both == 0 { 1.0 } else { 2.0 * right as f64 / both as f64 },
            average_relative_error: if exact.is_empty() { 0.0 } else { errors / exact.len() as f64 },
        }
    }
}
