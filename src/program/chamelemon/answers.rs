//! From one switch's or a network's sketches to answers by task.

use serde_json::{Map, Value, json};

use super::attention::State;
use super::collector::{Analysis, Change, Distribution, Loss, Losses, Sized};
use super::completeness::losses_lack;
use super::names::Known;
use super::network::{Edge, NetworkEpoch};
use super::{Partition, Runtime};
use crate::program::answers::{
    self, Adaptation, Changes, Described, EpochAnswers, Finality, FlowAnswers, FlowCount, Limits, Reason, Reasons,
    SwitchAnswers,
};
use crate::program::{RunAnswers, Truth, Unit};

/// The tasks about flows, of one switch. Keeps at most `max` heavy flows.
pub fn flows_of_switch(analysis: &Analysis, known: &Known, max: usize) -> FlowAnswers {
    let runtime = analysis.sketches().runtime;
    let mut lack = Reasons::default();
    lack.add_if(runtime.partition.hh == 0, Reason::Unmeasured);
    lack.add_if(!analysis.hh().complete, Reason::Undecoded);
    FlowAnswers {
        flows: analysis.told_cardinality(),
        entropy_bits: analysis.told_entropy_bits(),
        distribution: analysis.told_distribution().map(|distribution| distribution.rounded().0),
        named_from: Some(runtime.hh_threshold.max(1).into()),
        lack,
        ..heavy(&analysis.heavy_hitters(0), known, max)
    }
}

/// The tasks about flows, over all switches whose flows are known.
pub fn flows_of_network(network: &NetworkEpoch, known: &Known, max: usize) -> FlowAnswers {
    FlowAnswers {
        flows: network.told_cardinality(),
        entropy_bits: network.told_entropy_bits(),
        distribution: network.told_distribution().map(|distribution| distribution.rounded().0),
        named_from: Some(network.runtime.hh_threshold.max(1).into()),
        lack: network.flows_lack(),
        ..heavy(&network.heavy_hitters(0), known, max)
    }
}

fn heavy(heavy: &[Sized], known: &Known, max: usize) -> FlowAnswers {
    let counted = |flow: &Sized| FlowCount { flow: known.name(flow.id), count: flow.packets.into() };
    let kept = heavy.iter().take(max).map(counted).collect();
    FlowAnswers { unit: Unit::Packets, heavy: kept, found: heavy.len(), ..FlowAnswers::default() }
}

/// The largest losses and gains, at most `max`.
pub fn losses(losses: &Losses, known: &Known, max: usize) -> answers::Losses {
    let mut kept = losses.clone();
    kept.truncate(max);
    let named = |loss: &Loss| {
        let Loss { id, lost, gained, exact, .. } = *loss;
        answers::Loss { flow: known.name(id), lost, gained, exact }
    };
    answers::Losses {
        flows: kept.flows.iter().map(named).collect(),
        lost_packets: losses.lost_packets,
        gained_packets: losses.gained_packets,
        victims: losses.victims(),
        gainers: losses.gainers(),
    }
}

fn changes(before: &NetworkEpoch, network: &NetworkEpoch, known: &Known, max: usize) -> Changes {
    let flows = NetworkEpoch::heavy_changes(before, network, 0);
    // A flow may have been named in one epoch alone.
    let named = |&Change { id, before, after }: &Change| answers::Change { flow: known.name(id), before, after };
    Changes {
        flows: flows.iter().take(max).map(named).collect(),
        omitted: flows.len().saturating_sub(max),
        named_from: before.runtime.hh_threshold.max(network.runtime.hh_threshold).max(1).into(),
        lack: NetworkEpoch::changes_lack(before, network),
        gaps: before.gaps.iter().filter(|gap| gap.gap.hides_flows()).cloned().collect(),
    }
}

pub(super) fn of_network(
    network: &NetworkEpoch,
    before: Option<&NetworkEpoch>,
    known: &Known,
    limits: Limits,
) -> EpochAnswers {
    let before = before.filter(|before| before.number + 1 == network.number);
    let max = limits.flows.min(limits.switch_flows);
    let switch = |edge: &Edge| SwitchAnswers {
        switch: edge.switch.clone(),
        answers: flows_of_switch(&edge.analysis, known, max),
    };
    EpochAnswers {
        epoch: network.number,
        first_epoch: network.number,
        gaps: network.gaps.clone(),
        network: flows_of_network(network, known, limits.flows),
        switches: network.edges.iter().map(switch).collect(),
        losses: network.losses.as_ref().map(|found| losses(found, known, limits.losses)),
        losses_lack: network.losses_lack(),
        changes: before.map(|before| changes(before, network, known, limits.flows)),
        paths: None,
        loops: None,
        values: Vec::new(),
        adaptation: None,
        finality: Finality::default(),
    }
}

/// The answers about a run. An IPv6 flow has the name that its switch reported, or that the truth
/// knows.
pub(super) fn of_run(analysis: &Analysis, truth: Option<&Truth>, max: usize) -> RunAnswers {
    let sketches = analysis.sketches();
    let mut known = Known::default();
    sketches.add_names(&mut known);
    let of_truth = truth.into_iter().flat_map(|truth| truth.keys());
    known.extend(of_truth.filter_map(|flow| Some((sketches.id(flow)?, *flow))));
    let heavy = FlowAnswers { named_from: Some(analysis.least_named()), ..flows_of_switch(analysis, &known, max) };
    let found = analysis.losses();
    let lack = losses_lack(Some(&found), &sketches.runtime, sketches.has_gaps());
    let losses = losses(&found, &known, max);
    let error = |truth: &Truth| {
        let exact = Distribution::of_sizes(truth.values().copied());
        Some(analysis.told_distribution()?.error(&exact))
    };
    RunAnswers {
        heavy,
        losses: Some((losses, lack)),
        paths: None,
        loops: None,
        values: Vec::new(),
        distribution_wmre: truth.and_then(error),
    }
}

pub(super) fn adaptation(network: &NetworkEpoch) -> Adaptation {
    let candidates = network.heavy_hitters(0).len();
    let losses = network.losses.as_ref();
    let [heavy, light] = [losses.and_then(|losses| losses.heavy.flows), losses.and_then(|losses| losses.light.flows)];
    let facts = json!({
        "heavy_candidates": (!network.edges.is_empty()).then_some(candidates),
        "heavy_losses": heavy,
        "light_losses": light,
        "load_share": load(network, heavy.zip(light)),
    });
    Adaptation { measured: network.runtime.described(), facts: object(facts), ..Adaptation::default() }
}

/// Flows over the buckets of an upstream encoder, at the switch with most candidates: these, and
/// the victims of the network.
fn load(network: &NetworkEpoch, victims: Option<(f64, f64)>) -> Option<f64> {
    let ((heavy, light), shape) = (victims?, network.edges.first()?.analysis.sketches().shape);
    let candidates = network.edges.iter().map(|edge| edge.analysis.candidates()).collect::<Option<Vec<_>>>()?;
    let buckets: u32 = (0..shape.rows()).map(|row| shape.cells(row, shape.upstream)).sum();
    Some((candidates.into_iter().fold(0.0, f64::max) + heavy + light) / f64::from(buckets))
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

impl Runtime {
    /// The parameters with their units.
    pub(super) fn described(&self) -> Described {
        let Self { partition: Partition { hh, hl, ll }, hh_threshold, hl_threshold, sample, sample_seed: _ } = *self;
        let parameters = json!({
            "hh_buckets": hh,
            "hl_buckets": hl,
            "ll_buckets": ll,
            "hh_threshold_packets": hh_threshold,
            "hl_threshold_packets": hl_threshold,
            "sample_share": f64::from(sample) / f64::from(Self::ALL),
        });
        Described { state: State::of(self).name().into(), parameters: object(parameters) }
    }
}
