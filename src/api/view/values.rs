//! The numbers that packets of flows told, by value.

use serde::{Deserialize, Serialize};

use super::newest::Bounds;
use super::{Claim, Claimed, queries};
use crate::api::flows::NamedFlow;
use crate::program::answers::{self, EpochAnswers, Reason, Reasons, ValueAnswers};
use crate::telemetry::Selected;

/// `weir show values`: what the switches on the way of each flow had, in the newest of the epochs in
/// which packets of it told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Values {
    /// In the order of the queries. Those that are not asked for any more are behind the others.
    pub values: Vec<Value>,
}

/// One value, and how its numbers come together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The query in words, without its frequency: what tells these answers apart from others.
    pub query: String,
    /// Both as queries name them.
    pub value: String,
    pub aggregation: String,
    /// Which packets are one flow, as queries name it; null are those of one five-tuple.
    pub flow_definition: Option<String>,
    /// What its numbers count: `ns`, `packets`, `share` (1 is all) or `port` (a port's number).
    pub unit: String,
    /// A packet tells of one hop; else of its whole way.
    pub of_hops: bool,
    /// By how much a number is off at most, and by which factor, because packets carry it in few
    /// bits: whichever is more.
    pub error: f64,
    pub error_factor: f64,
    /// This number, and any beyond it, may stand for larger ones; null where there are none.
    pub largest: Option<f64>,
    /// The packets of so many nanoseconds count alone, those up to the newest; null is all time, or of
    /// whole ways the epoch.
    pub window_ns: Option<u64>,
    /// Flows of which packets told.
    pub flows: u64,
    /// The flows with the most packets that told.
    pub told: Vec<FlowValues>,
    /// Flows that are not named here.
    pub omitted_flows: u64,
    /// Flows that made place for others, since the start.
    pub evicted_flows: u64,
}

/// A flow's numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowValues {
    #[serde(flatten)]
    pub name: NamedFlow,
    /// The switch where it leaves the network.
    pub sink: String,
    /// Of the packets' path, where they carry one; else null. A flow of several paths is there for
    /// each.
    pub checksum: Option<u16>,
    /// The switches of that path, from the first to the last, of whole ways alone; null where they are
    /// not decided.
    pub path: Vec<Option<String>>,
    /// Of each hop from the first to the last, or of the whole way alone.
    pub told: Vec<Told>,
}

/// What packets told of a hop, or of their whole way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Counted from 1; null of whole ways.
    pub hop: Option<usize>,
    /// Null where the path is not decided, and of whole ways.
    pub switch: Option<String>,
    /// Packets that told of it.
    pub samples: u64,
    /// The median, the 99th percentile and the maximum; null without samples, and of frequent
    /// numbers.
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
    /// Between these numbers the median and the 99th percentile of all packets lie, in 95 of 100 cases;
    /// null where there are too few samples to say.
    pub p50_low: Option<f64>,
    pub p50_high: Option<f64>,
    pub p99_low: Option<f64>,
    pub p99_high: Option<f64>,
    /// The mean, and by how much it is off at most in 95 of 100 cases; null where it is not known.
    pub mean: Option<f64>,
    pub mean_error: Option<f64>,
    /// The most frequent numbers.
    pub frequent: Vec<Frequent>,
    /// By how much their shares are off at most, in 95 of 100 cases; null where they are not asked for.
    pub share_error: Option<f64>,
}

/// A number, and its share of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frequent {
    pub number: f64,
    pub share: f64,
}

impl Told {
    fn new(hop: Option<usize>, told: &answers::Told) -> Self {
        let answers::Told { switch, samples, quantiles, mean, frequent, share_error } = told;
        let frequent = frequent.iter().map(|&answers::Frequent { number, share }| Frequent { number, share });
        Self {
            hop,
            switch: switch.as_ref().map(|switch| switch.to_string()),
            samples: *samples,
            p50: quantiles.map(|of| of.p50),
            p99: quantiles.map(|of| of.p99),
            max: quantiles.map(|of| of.max),
            p50_low: quantiles.and_then(|of| of.p50_between.low),
            p50_high: quantiles.and_then(|of| of.p50_between.high),
            p99_low: quantiles.and_then(|of| of.p99_between.low),
            p99_high: quantiles.and_then(|of| of.p99_between.high),
            mean: mean.map(|of| of.mean),
            mean_error: mean.map(|of| of.error),
            frequent: frequent.collect(),
            share_error: *share_error,
        }
    }
}

impl Value {
    /// Of one epoch, or of a run; names at most `top` flows.
    pub fn of(answers: &ValueAnswers, top: usize) -> Self {
        let named: Vec<_> = answers.flows.iter().take(top).collect();
        let omitted = answers.found - named.len();
        Self::new(answers, queries::bounds(answers), answers.found as u64, &named, omitted as u64)
    }

    fn new(
        answers: &ValueAnswers,
        bounds: Bounds,
        flows: u64,
        named: &[&answers::FlowValues],
        omitted_flows: u64,
    ) -> Self {
        let flow = |of: &&answers::FlowValues| {
            let hop = |hop| Some(hop).filter(|_| answers.of_hops);
            let told = (1..).zip(&of.told).map(|(place, told)| Told::new(hop(place), told));
            let (name, sink) = (of.flow.into(), of.sink.to_string());
            FlowValues { name, sink, checksum: of.checksum, path: path(of), told: told.collect() }
        };
        Self {
            query: answers.query.to_string(),
            value: answers.value.into(),
            aggregation: answers.aggregation.into(),
            flow_definition: answers.flow_definition.map(str::to_owned),
            unit: answers.unit.name().into(),
            of_hops: answers.of_hops,
            error: bounds.error,
            error_factor: bounds.error_factor,
            largest: bounds.largest,
            window_ns: bounds.window_ns,
            flows,
            told: named.iter().map(flow).collect(),
            omitted_flows,
            evicted_flows: answers.evicted,
        }
    }
}

/// The names of the switches of a way.
pub(super) fn path(of: &answers::FlowValues) -> Vec<Option<String>> {
    of.path.iter().map(|switch| switch.as_ref().map(|switch| switch.to_string())).collect()
}

impl Values {
    /// Names at most `top` flows of each query, of at least `threshold` samples.
    pub fn new(selected: &Selected, top: usize, threshold: u64) -> Claimed<Self> {
        let others = queries::others(selected);
        let value = |answers: &&ValueAnswers| {
            let newest = queries::newest(selected, Some(answers), (top, threshold));
            Value::new(answers, newest.bounds, newest.flows, &newest.named, newest.omitted_flows)
        };
        let claim = Claim::new(selected, |epoch| lack(epoch, &others));
        claim.with(Self { values: others.iter().map(value).collect() })
    }
}

/// Why something is missing of any of these queries.
fn lack(epoch: &EpochAnswers, of: &[&ValueAnswers]) -> Reasons {
    let is_meant = |answers: &&ValueAnswers| of.iter().any(|of| of.is_of_same_query(answers));
    let mut answers = epoch.values.iter().filter(is_meant).peekable();
    let mut lack = Reasons::default();
    lack.add_if(answers.peek().is_none(), Reason::NotAsked);
    for answers in answers {
        lack.extend(&answers.lack);
        lack.add_if(answers.found > answers.flows.len(), Reason::NotKept);
    }
    lack
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::view::queries::tests;
    use crate::program::answers::Task;

    fn answers(value: &'static str, flows: &[(u16, u64, f64)]) -> ValueAnswers {
        tests::answers(Task::Values, value, flows)
    }

    /// Each value has the newest answer of each flow, as far as it is asked for; those of another
    /// value say nothing of it.
    #[test]
    fn values_are_told_apart() {
        let epoch = |epoch, values| Arc::new(EpochAnswers { epoch, values, ..EpochAnswers::default() });
        let epochs = vec![
            epoch(1, vec![answers("queue", &[(1, 50, 1.0), (2, 40, 2.0), (3, 1, 3.0)])]),
            epoch(2, vec![answers("queue", &[(1, 10, 7.0)]), answers("congestion", &[(9, 5, 0.5)])]),
        ];
        let selected = Selected { epochs, first: 1, ..Selected::default() };
        let found = Values::new(&selected, 2, 2);
        let told = |value: &Value| {
            let flow = |flow: &FlowValues| (flow.name.flow.sport, flow.told[0].hop, flow.told[0].p50);
            (value.value.clone(), value.flows, value.omitted_flows, value.told.iter().map(flow).collect::<Vec<_>>())
        };
        let expected = [
            ("queue".to_owned(), 4, 1, vec![(Some(2), Some(1), Some(2.0)), (Some(1), Some(1), Some(7.0))]),
            ("congestion".to_owned(), 2, 1, vec![(Some(9), Some(1), Some(0.5))]),
        ];
        assert_eq!(found.values.iter().map(told).collect::<Vec<_>>(), expected);
        assert!(found.claim.incomplete.contains(Reason::NotKept) && !found.claim.complete);
        // So are the queries for one value, whichever there are and in whatever order.
        let of =
            |&(query, port): &(&str, u16)| ValueAnswers { query: query.into(), ..answers("queue", &[(port, 9, 1.0)]) };
        let epochs = [
            &[("a", 1), ("b", 2), ("c", 3), ("d", 4)][..],
            &[("b", 12), ("a", 11), ("c", 13)],
            &[("e", 25), ("c", 23), ("b", 22)],
        ];
        let epochs = (1..).zip(epochs).map(|(number, of_epoch)| epoch(number, of_epoch.iter().map(of).collect()));
        let several = Selected { epochs: epochs.collect(), first: 1, ..Selected::default() };
        let ports = |value: &Value| {
            let ports: Vec<_> = value.told.iter().map(|flow| flow.name.flow.sport.unwrap()).collect();
            (value.query.clone(), ports)
        };
        let expected =
            [("e", vec![25]), ("c", vec![3, 13, 23]), ("b", vec![2, 12, 22]), ("a", vec![1, 11]), ("d", vec![4])];
        let expected = expected.map(|(query, ports)| (query.to_owned(), ports));
        assert_eq!(Values::new(&several, 9, 0).values.iter().map(ports).collect::<Vec<_>>(), expected);
        let epochs = vec![Arc::new(EpochAnswers::default())];
        let none = Values::new(&Selected { epochs, ..selected }, 2, 2);
        assert!(none.claim.incomplete.contains(Reason::NotAsked) && none.values.is_empty());
    }

    /// What is stated holds of all answers that are named, whatever plans they are of: not of those
    /// that a newer answer took the place of, and of the newest where none is named.
    #[test]
    fn bounds_hold_of_all_plans() {
        let epoch = |epoch, error, error_factor, largest, window_ns, flows: &[u16]| {
            let flows: Vec<_> = flows.iter().map(|flow| (*flow, 5, 1.0)).collect();
            let of_plan = ValueAnswers { error, error_factor, largest, window_ns, ..answers("queue", &flows) };
            Arc::new(EpochAnswers { epoch, values: vec![of_plan], ..EpochAnswers::default() })
        };
        let epochs = vec![
            epoch(1, 99.0, 99.0, Some(1.0), None, &[1]),
            epoch(2, 0.5, 1.0, Some(9.0), Some(70), &[2]),
            epoch(3, 0.0, 1.5, Some(7.0), Some(90), &[3]),
            epoch(4, 0.0, 1.2, None, Some(80), &[1]),
        ];
        let stated = |epochs: &[Arc<EpochAnswers>], top| {
            let selected = Selected { epochs: epochs.to_vec(), first: 1, ..Selected::default() };
            let Value { error, error_factor, largest, window_ns, .. } = Values::new(&selected, top, 0).values[0];
            (error, error_factor, largest, window_ns)
        };
        assert_eq!(stated(&epochs, 9), (0.5, 1.5, Some(7.0), Some(90)));
        assert_eq!(stated(&epochs[..3], 9), (99.0, 99.0, Some(1.0), None));
        assert_eq!(stated(&epochs, 0), (0.0, 1.2, None, Some(80)));
    }
}
