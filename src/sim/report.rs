//! What a simulation says of an epoch: the truth, and the programs' answers beside it. Keys are
//! stable, units in the names.

mod paths;
mod places;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::Map;

use super::traffic::{Generation, Sums, Where};
use super::{Network, Place, RecomputedRoutes};
use crate::answers::{
    AnsweredLosses, ByRoute, Claimed, CountedFlow, CountedFrom, Distribution, Document, Exact, FlowName, FlowSizes,
    Frequency, Heavy, HeavyFlows, Latency, Loops, Losses, LostFlows, LowerBounds, NamedFlows, Paths, Query, Queryable,
    Score, Surroundings, Task, Unit, Utilisation, Value, Values, score,
};
use crate::history::{Adaptation, Described, Reason, Reasons, Window};
use crate::program::ProgramConfig;
use crate::telemetry::epoch::Nanos;
use crate::wire::{Flow, FlowKey, Pattern};

pub use paths::PathCounts;
pub(super) use places::lost_by_place;
pub use places::{PlaceName, PlaceScore};

/// One epoch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpochReport {
    pub epoch: u64,
    /// When it starts and ends, in simulated time since the start.
    pub start_ns: Nanos,
    pub end_ns: Nanos,
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
    /// The same as answers name places.
    #[serde(skip)]
    pub lost_by_place: BTreeMap<PlaceName, u64>,
    /// By name, as `--program` gives them.
    pub programs: BTreeMap<String, ProgramReport>,
}

/// Packets that were lost in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostAt {
    /// `link`: on purpose; `busy`: the link's queue was full; `switch`; `astray`: at a wrong host.
    pub reason: String,
    /// The switch, or that which the link leaves.
    pub switch: String,
    /// The switch that the link leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub towards: Option<String>,
    pub flows: u64,
    pub packets: u64,
}

/// A program's answers beside the truth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramReport {
    /// What it measured with; nothing of a program whose parameters never change.
    #[serde(flatten)]
    pub measured: Option<Measured>,
    /// Nothing of a program that does not answer the task.
    #[serde(flatten)]
    pub losses: Option<LossReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub places: Option<PlaceScore>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loops: Option<LoopCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<UtilisationCounts>,
    /// Of each value that the program measures beside these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ValueCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heavy: Option<HeavyScore>,
    /// The heaviest flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
    /// The counts that were asked for, of programs that have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frequencies: Vec<Claimed<Frequency>>,
    /// Number of flows, entropy and distribution of their sizes; null when not measured, or too
    /// many to tell.
    pub flows: Option<f64>,
    pub true_flows: u64,
    pub entropy_bits: Option<f64>,
    pub true_entropy_bits: f64,
    pub distribution_wmre: Option<f64>,
    /// What is missing.
    pub gaps: Vec<String>,
}

/// What an epoch was measured with, and what followed from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The state of the network as the program calls it.
    pub state: String,
    /// The parameters, with units in their names, and what the decision was made from.
    #[serde(flatten)]
    pub parameters: Map<String, serde_json::Value>,
    /// What was decided from it for a later epoch; empty when nothing changes.
    pub decided: String,
}

/// The task latency: flows that left the network, their samples, and the slowest hop of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencyCounts {
    /// The query in words, without its frequency.
    pub query: String,
    pub flows: u64,
    pub samples: u64,
    /// The hop with the largest 99th percentile, of those whose switch is known.
    pub slowest_p99_ns: Option<u64>,
    pub slowest_switch: Option<String>,
}

/// The task loops: flows of which a switch saw packets in a loop, and these packets. In a simulated
/// network no packet loops, so all of these are false alarms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoopCounts {
    /// Counted once for each switch that saw it.
    pub flows: u64,
    pub packets: u64,
}

/// The task utilisation: flows of which packets told, these packets, and what the busiest of all
/// links had.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UtilisationCounts {
    /// The query in words, without its frequency.
    pub query: String,
    pub flows: u64,
    pub packets: u64,
    /// 1 is a full link.
    pub max_utilisation: Option<f64>,
}

/// A value of the task values: flows of which packets told, these packets, and where its numbers are
/// largest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueCounts {
    /// The query in words, without its frequency.
    pub query: String,
    pub value: String,
    pub aggregation: String,
    /// Which packets are one flow, as queries name it; null are those of one five-tuple.
    pub flow_definition: Option<String>,
    /// What its numbers count.
    pub unit: String,
    pub flows: u64,
    pub samples: u64,
    /// The largest 99th percentile of all hops whose switch is known, and that switch; where none is, of
    /// all hops, or of all whole ways. Nothing of frequent numbers.
    pub largest_p99: Option<f64>,
    pub largest_switch: Option<String>,
}

/// The task losses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LossReport {
    /// `None` when a gap hides them.
    pub losses: Option<LossScore>,
    /// Why the program does not call its losses complete.
    pub incomplete: Reasons,
}

/// Decoded losses beside those that happened between the first and the last switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// Victims whose number of packets the program called exact, and of these the ones for which it
    /// was not.
    pub called_exact_flows: u64,
    pub miscalled_flows: u64,
    /// Packets that it says were lost, and those of which more left than entered.
    pub packets: u64,
    pub gained_packets: u64,
}

/// Flows of more than a share of what the program counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeavyScore {
    /// One of the two, as the program counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_bytes: Option<u64>,
    pub true_flows: u64,
    pub flows: u64,
    pub right_flows: u64,
    pub f1: f64,
    pub average_relative_error: f64,
    /// Why the program does not call its heavy flows complete.
    pub incomplete: Reasons,
}

/// Flows of more than this share of an epoch's packets are heavy: 0.02 %, as in the paper's
/// appendix C.
const HEAVY_SHARE: f64 = 0.0002;
/// At most so many flows are of more than that share. Estimates may make it a few more.
const HEAVY: usize = 8192;
/// Heaviest flows that are scored.
const SCORED: usize = 300;

impl EpochReport {
    /// What was true of an epoch; no program has answered yet.
    pub(super) fn new(epoch: u64, network: &Network) -> Self {
        let generation = network.generation(epoch);
        let Sums { flows, sent, delivered, lost, victims } = generation.sums();
        let length = network.epoch_length();
        Self {
            epoch,
            start_ns: epoch * length,
            end_ns: (epoch + 1) * length,
            flows,
            sent_packets: sent,
            delivered_packets: delivered,
            lost_packets: lost,
            doubled_packets: generation.doubled,
            victim_flows: victims,
            losses: lost_at(network, generation),
            lost_by_place: lost_by_place(network, generation),
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

/// The answers of a program about one epoch, also before they are final.
pub struct EpochAnswers<'a> {
    pub program: &'a ProgramConfig,
    pub history: &'a dyn Queryable,
    pub epoch: u64,
    /// For a program that needs paths of flows.
    pub routes: Option<ByRoute>,
    /// For one that finds the places of losses.
    pub surroundings: Option<Arc<Surroundings>>,
}

impl EpochAnswers<'_> {
    /// The answer to a task, with at most `top` flows; `None` of a program that does not answer it.
    pub fn answer<A: Document>(&self, top: usize) -> Option<Claimed<A>> {
        let query = self.query(A::TASK).limited(top, 0);
        self.history.ask(&query).ok()?.into_document()
    }

    fn query(&self, task: Task) -> Query {
        let (routes, surroundings) = (self.routes.clone(), self.surroundings.clone());
        Query { routes, surroundings, ..Query::new(task, Window::Epoch(self.epoch)) }
    }

    /// The same, with the flows of the epoch, their paths, and the bounds that the network's histories have
    /// of their counts, where the program needs them.
    pub fn with_routes(
        &self,
        truth: &Generation,
        routes: impl FnOnce() -> RecomputedRoutes,
        histories: &[Arc<dyn Queryable>],
    ) -> Self {
        let named = || {
            let flows = truth.flows.iter().map(|flow| flow.tuple.flow()).collect();
            let others = histories.iter().filter(|history| !history.needs_routes());
            let bounds = LowerBounds::among(others.map(|history| &**history), &self.query(Task::Heavy));
            ByRoute::new(Arc::new(NamedFlows { flows, routes: Some(Arc::new(routes())), bounds }))
        };
        let routes = self.history.needs_routes().then(named);
        let surroundings = self.surroundings.clone();
        Self { program: self.program, history: self.history, epoch: self.epoch, routes, surroundings }
    }

    /// The same with what is known of the network, where the program finds the places of losses, or they can be
    /// inferred from what it says.
    #[must_use]
    pub fn with_surroundings(self, network: &Network, histories: &[Arc<dyn Queryable>]) -> Self {
        if self.program.rank(Task::Places).or(self.program.rank(Task::Losses)).is_none() {
            return self;
        }
        // Whether a program answers a task shows without epochs.
        let none = Window::Next { after: u64::MAX };
        let answering = |task| histories.iter().find(|history| history.ask(&Query::new(task, none)).is_ok()).cloned();
        let (losses, sizes) = (answering(Task::Losses), answering(Task::Flows));
        let surroundings = Surroundings {
            links: network.links(),
            victims: losses.map(|losses| Arc::new(AnsweredLosses { losses, sizes }) as Arc<dyn LostFlows>),
            routes: Some(Arc::new(network.routes())),
        };
        Self { surroundings: Some(Arc::new(surroundings)), ..self }
    }

    fn places(&self, truth: &BTreeMap<PlaceName, u64>) -> Option<PlaceScore> {
        self.program.rank(Task::Places)?;
        Some(PlaceScore::new(&self.answer(usize::MAX)?, truth))
    }

    /// The count of the flows of each pattern, with the exact count that is given for its query. No
    /// later record changes it.
    fn frequencies(&self, flows: &[Pattern], truth: impl Fn(usize, &Query) -> Option<u64>) -> Vec<Claimed<Frequency>> {
        let of = |flow: &Pattern| Query { flow: Some(*flow), ..self.query(Task::Frequency) };
        let found = flows.iter().map(of).enumerate().map_while(|(place, query)| {
            let mut found = self.history.answer::<Frequency>(&query).ok()?;
            found.claim = std::mem::take(&mut found.claim).at_the_end();
            Some(found.map(|found| found.with_truth(truth(place, &query))))
        });
        found.collect()
    }

    fn losses(&self, nets: &FxHashMap<FlowName, i64>) -> Option<LossReport> {
        Some(LossReport::new(&self.answer(usize::MAX)?, nets))
    }

    fn gaps(&self) -> Vec<String> {
        let outline = self.history.outline(self.epoch).unwrap_or_default();
        outline.gaps.iter().map(ToString::to_string).collect()
    }
}

impl ProgramReport {
    /// `fabric` says which places are between the first and the last switch, and `beside` are the epochs
    /// before and after, of whose flows some are among paths: packets that leave within the transit time
    /// after an epoch are in its records. The flows of `patterns` are counted.
    pub fn new(
        answers: &EpochAnswers<'_>,
        truth: &Generation,
        beside: &[&Generation],
        patterns: &[Pattern],
        truth_by_place: &BTreeMap<PlaceName, u64>,
        fabric: impl Fn(Where) -> bool,
    ) -> Self {
        let program = answers.program;
        let mut exact = program.exact();
        for flow in &truth.flows {
            exact.flow(&flow.tuple.flow(), flow.sent.into(), flow.sent_bytes);
        }
        let outline = answers.history.outline(answers.epoch).unwrap_or_default();
        let heavy = answers.answer::<HeavyFlows>(HEAVY);
        let found: Vec<_> = heavy.iter().flat_map(|heavy| heavy.counts()).collect();
        let flows = answers.answer::<FlowSizes>(0);
        let sizes = Distribution::of_sizes(exact.counts().values().copied());
        let told = flows.as_ref().map(|flows| flows.distribution.iter().map(|class| (class.packets, class.flows)));
        let told = told.map(|classes| Distribution(classes.collect())).filter(|told| !told.0.is_empty());
        let values = answers.answer::<Values>(usize::MAX).map(|found| found.values.clone()).unwrap_or_default();
        let paths = answers.answer::<Paths>(usize::MAX).filter(|paths| paths.asked);
        Self {
            measured: outline.adaptation.map(Measured::new),
            losses: answers.losses(&nets(program, lost(truth, fabric))),
            // Packets that are late may still be lost: the truth is held beside it at the end.
            places: answers.places(truth_by_place),
            paths: paths.map(|paths| PathCounts::new(&paths.paths, beside.iter().copied().chain([truth]))),
            latency: answers.answer(usize::MAX).and_then(|found: Claimed<Latency>| LatencyCounts::new(&found)),
            loops: answers
                .answer(usize::MAX)
                .filter(|found: &Claimed<Loops>| found.asked)
                .map(|found| LoopCounts::new(&found)),
            utilisation: answers
                .answer(usize::MAX)
                .and_then(|found: Claimed<Utilisation>| UtilisationCounts::new(&found)),
            values: values.iter().map(ValueCounts::new).collect(),
            heavy: heavy.as_ref().map(|heavy| HeavyScore::new(heavy, flows.as_deref(), &found, &*exact)),
            score: heavy.as_ref().map(|_| score(&found, exact.counts(), SCORED, CountedFrom::Sent)),
            frequencies: answers.frequencies(patterns, |_, query| Some(query.exact(&*exact))),
            flows: flows.as_ref().and_then(|flows| flows.flows),
            true_flows: exact.counts().len() as u64,
            entropy_bits: flows.as_ref().and_then(|flows| flows.entropy_bits),
            true_entropy_bits: sizes.entropy_bits(),
            distribution_wmre: told.map(|told| told.error(&sizes.rounded())),
            gaps: outline.gaps.iter().map(ToString::to_string).collect(),
        }
    }

    /// The report with the answers as they stand now, where something went wrong, beside the net of
    /// each flow.
    #[must_use]
    pub fn revised(
        &self,
        answers: &EpochAnswers<'_>,
        nets: &FxHashMap<FlowName, i64>,
        truth_by_place: &BTreeMap<PlaceName, u64>,
        patterns: &[Pattern],
    ) -> Self {
        let frequencies = match answers.history.needs_routes() && answers.routes.is_none() {
            true => self.frequencies.clone(),
            false => answers.frequencies(patterns, |place, _| self.frequencies.get(place)?.count().truth),
        };
        let (losses, places) = (answers.losses(nets), answers.places(truth_by_place));
        Self { losses, places, gaps: answers.gaps(), frequencies, ..self.clone() }
    }
}

impl Measured {
    fn new(Adaptation { measured, facts, why: decided, .. }: Adaptation) -> Self {
        let Described { state, mut parameters } = measured;
        parameters.extend(facts);
        Self { state, parameters, decided }
    }
}

/// Packets that each flow lost where `fabric` says that it is between the first and the last
/// switch.
fn lost(truth: &Generation, fabric: impl Fn(Where) -> bool) -> impl Iterator<Item = (Flow, i64)> {
    let places = truth.places.iter().filter(move |((_, at), _)| fabric(*at));
    places.map(|(&(flow, _), &packets)| (truth.flows[flow as usize].tuple.flow(), packets.into()))
}

/// Packets that entered and did not leave, by flow as the program names flows. A flow of which as
/// many left as entered is not there.
pub(super) fn nets(program: &ProgramConfig, flows: impl Iterator<Item = (Flow, i64)>) -> FxHashMap<FlowName, i64> {
    let [mut lost, mut gained] = [program.exact(), program.exact()];
    for (flow, net) in flows {
        let exact = if net > 0 { &mut lost } else { &mut gained };
        // Losses are packets, whatever else the program counts.
        exact.flow(&flow, net.unsigned_abs(), net.unsigned_abs());
    }
    let mut nets = FxHashMap::<FlowName, i64>::default();
    for (exact, sign) in [(lost, 1), (gained, -1)] {
        for (flow, &packets) in exact.counts() {
            *nets.entry(FlowName::Flow(*flow)).or_default() += sign * packets as i64;
        }
    }
    nets.retain(|_, net| *net != 0);
    nets
}

impl LatencyCounts {
    fn new(found: &Latency) -> Option<Self> {
        let hops = || found.latencies.iter().flat_map(|flow| &flow.hops);
        let p99 = hops().filter_map(|hop| Some((hop.p99_ns?, hop.switch.as_deref())));
        // A hop whose switch is known comes first. Without a query for paths there is none.
        let slowest = p99.max_by_key(|(p99, switch)| (switch.is_some(), *p99));
        Some(Self {
            query: found.query.clone()?,
            flows: found.flows,
            samples: hops().map(|hop| hop.samples).sum(),
            slowest_p99_ns: slowest.map(|(p99, _)| p99),
            slowest_switch: slowest.and_then(|(_, switch)| switch.map(str::to_owned)),
        })
    }
}

impl LoopCounts {
    fn new(found: &Loops) -> Self {
        Self { flows: found.loops.len() as u64, packets: found.loops.iter().map(|found| found.packets).sum() }
    }
}

impl UtilisationCounts {
    fn new(found: &Utilisation) -> Option<Self> {
        let all = &found.utilisations;
        Some(Self {
            query: found.query.clone()?,
            flows: found.flows,
            packets: all.iter().map(|flow| flow.packets).sum(),
            max_utilisation: all.iter().map(|flow| flow.max_utilisation).max_by(f64::total_cmp),
        })
    }
}

impl ValueCounts {
    fn new(value: &Value) -> Self {
        let told = || value.told.iter().flat_map(|flow| &flow.told);
        let p99 = told().filter_map(|told| Some((told.p99?, told.switch.as_deref())));
        // A hop whose switch is known comes first. Without a query for paths there is none.
        let largest = p99.max_by(|a, b| a.1.is_some().cmp(&b.1.is_some()).then(a.0.total_cmp(&b.0)));
        Self {
            query: value.query.clone(),
            value: value.value.clone(),
            aggregation: value.aggregation.clone(),
            flow_definition: value.flow_definition.clone(),
            unit: value.unit.clone(),
            flows: value.flows,
            samples: told().map(|told| told.samples).sum(),
            largest_p99: largest.map(|(p99, _)| p99),
            largest_switch: largest.and_then(|(_, switch)| switch.map(str::to_owned)),
        }
    }
}

impl LossReport {
    fn new(answer: &Claimed<Losses>, nets: &FxHashMap<FlowName, i64>) -> Self {
        let incomplete = answer.claim.incomplete.clone().without(Reason::Provisional);
        let is_known = answer.unknown_epochs == 0 && answer.claim.last_epoch.is_some();
        Self { losses: is_known.then(|| LossScore::new(answer, &incomplete, nets)), incomplete }
    }
}

impl LossScore {
    /// What was found beside the net of each flow.
    fn new(found: &Losses, incomplete: &Reasons, nets: &FxHashMap<FlowName, i64>) -> Self {
        let victims = || nets.values().filter(|net| **net > 0);
        let mut score = Self {
            complete: incomplete.is_empty(),
            packets: found.lost_packets,
            gained_packets: found.gained_packets,
            true_flows: victims().count() as u64,
            true_packets: victims().sum::<i64>() as u64,
            ..Self::default()
        };
        for CountedFlow { name, packets, exact } in &found.losses {
            let truth = nets.get(name).map_or(0, |net| (*net).max(0).unsigned_abs());
            let is_exact = truth == *packets;
            match truth {
                0 => score.wrong_flows += 1,
                _ => score.right_flows += 1,
            }
            score.exact_flows += u64::from(is_exact);
            score.called_exact_flows += u64::from(*exact);
            score.miscalled_flows += u64::from(*exact && !is_exact);
        }
        score
    }

    /// Every victim was found with the exact number of its packets, and nothing else.
    pub fn is_exact(&self) -> bool {
        self.complete && self.wrong_flows == 0 && self.exact_flows == self.true_flows
    }
}

impl HeavyScore {
    /// `found` are the heaviest flows, the heaviest first.
    fn new(answer: &Claimed<HeavyFlows>, sizes: Option<&FlowSizes>, found: &[Heavy], exact: &dyn Exact) -> Self {
        let (unit, exact) = (exact.unit(), exact.counts());
        let threshold = (exact.values().sum::<u64>() as f64 * HEAVY_SHARE) as u64;
        let heavy = exact.values().filter(|count| **count > threshold).count();
        let found = &found[..found.partition_point(|flow| flow.count > threshold)];
        let mut errors = heavy as f64;
        let mut right = 0;
        for Heavy { flow, count } in found {
            if let Some(&size) = exact.get(flow).filter(|size| **size > threshold) {
                right += 1;
                // One that is not found counts 1.
                errors -= 1.0 - count.abs_diff(size) as f64 / size as f64;
            }
        }
        let both = heavy + found.len();
        let incomplete = answer.claim.incomplete.clone();
        let mut incomplete = incomplete.without(Reason::Provisional).without(Reason::BelowThreshold);
        let named_from = sizes.map_or(0, |sizes| sizes.named_from_packets);
        incomplete.add_if(threshold + 1 < named_from, Reason::BelowThreshold);
        Self {
            threshold_packets: (unit == Unit::Packets).then_some(threshold),
            threshold_bytes: (unit == Unit::Bytes).then_some(threshold),
            true_flows: heavy as u64,
            flows: found.len() as u64,
            right_flows: right,
            f1: if both == 0 { 1.0 } else { 2.0 * right as f64 / both as f64 },
            average_relative_error: if heavy == 0 { 0.0 } else { errors / heavy as f64 },
            incomplete,
        }
    }
}
