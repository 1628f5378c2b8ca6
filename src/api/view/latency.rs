//! The latencies of flows' hops.

use serde::{Deserialize, Serialize};

use super::newest::Newest;
use super::{Claimed, queries};
use crate::api::flows::NamedFlow;
use crate::program::answers::{self, Task};
use crate::telemetry::Selected;

/// `weir show latency`: the time that the packets of flows take in each switch, as the newest of
/// the epochs knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The query in words, without its frequency, that the newest epoch has for latencies: all of these
    /// are its answers, and epochs without it have none. Null where no epoch has one.
    pub query: Option<String>,
    /// Flows of which packets left the network.
    pub flows: u64,
    /// By how much a time is off at most, and by which factor, because packets carry it in few bits:
    /// whichever is more.
    pub error_ns: u64,
    pub error_factor: f64,
    /// This time, and any beyond it, may stand for longer ones.
    pub largest_ns: Option<u64>,
    /// The packets of so much time count alone, up to a flow's newest; null is all time.
    pub window_seconds: Option<f64>,
    /// The flows with the most samples.
    pub latencies: Vec<FlowLatency>,
    /// Flows that are not named here.
    pub omitted_flows: u64,
    /// Flows that made place for others, since the start.
    pub evicted_flows: u64,
}

/// A flow's latencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowLatency {
    #[serde(flatten)]
    pub name: NamedFlow,
    /// The switch where it leaves the network.
    pub sink: String,
    /// Of the packets' path, where they carry one; else null. A flow of several paths is there for
    /// each.
    pub checksum: Option<u16>,
    /// From the first to the last.
    pub hops: Vec<HopLatency>,
}

/// The latency of one hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HopLatency {
    /// Counted from 1.
    pub hop: usize,
    /// Null where the path is not decided.
    pub switch: Option<String>,
    /// Packets that told of it.
    pub samples: u64,
    /// The median and the 99th percentile; null without samples.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    /// Between these times the median and the 99th percentile of all packets lie, in 95 of 100 cases;
    /// null where there are too few samples to say.
    pub p50_low_ns: Option<u64>,
    pub p50_high_ns: Option<u64>,
    pub p99_low_ns: Option<u64>,
    pub p99_high_ns: Option<u64>,
}

impl From<&answers::FlowValues> for FlowLatency {
    fn from(of: &answers::FlowValues) -> Self {
        let hop = |(hop, told): (usize, &answers::Told)| {
            let of =
                |of: fn(&answers::Quantiles) -> Option<f64>| told.quantiles.as_ref().and_then(of).map(|ns| ns as u64);
            HopLatency {
                hop,
                switch: told.switch.as_ref().map(|switch| switch.to_string()),
                samples: told.samples,
                p50_ns: of(|quantiles| Some(quantiles.p50)),
                p99_ns: of(|quantiles| Some(quantiles.p99)),
                p50_low_ns: of(|quantiles| quantiles.p50_between.low),
                p50_high_ns: of(|quantiles| quantiles.p50_between.high),
                p99_low_ns: of(|quantiles| quantiles.p99_between.low),
                p99_high_ns: of(|quantiles| quantiles.p99_between.high),
            }
        };
        let hops = (1..).zip(&of.told).map(hop).collect();
        Self { name: of.flow.into(), sink: of.sink.to_string(), checksum: of.checksum, hops }
    }
}

impl Latency {
    /// Names at most `top` flows, of at least `threshold` samples. A later answer rests on the
    /// samples of the earlier ones too.
    pub fn new(selected: &Selected, top: usize, threshold: u64) -> Claimed<Self> {
        let of = queries::of_task(selected, Task::Latency);
        let newest = queries::newest(selected, of, (top, threshold));
        let Newest { claim, flows, named, omitted_flows, evicted_flows, bounds, .. } = newest;
        claim.with(Self {
            query: of.map(|answers| answers.query.to_string()),
            flows,
            error_ns: bounds.error as u64,
            error_factor: bounds.error_factor,
            largest_ns: bounds.largest.map(|ns| ns as u64),
            window_seconds: bounds.window_ns.map(|ns| ns as f64 / 1e9),
            latencies: named.into_iter().map(FlowLatency::from).collect(),
            omitted_flows,
            evicted_flows,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::view::queries::tests::answers;
    use crate::program::answers::{EpochAnswers, ValueAnswers};

    /// Of additive codes an answer states a time, of multiplicative ones a factor; of both where a flow's
    /// answer is of the one and another's of the other.
    #[test]
    fn errors_are_told() {
        let epoch = |number: u64, error, error_factor| {
            let of = ValueAnswers { error, error_factor, ..answers(Task::Latency, "a", &[(number as u16, 9, 1.0)]) };
            Arc::new(EpochAnswers { epoch: number, values: vec![of], ..EpochAnswers::default() })
        };
        let epochs = [epoch(1, 65_536.0, 1.0), epoch(2, 0.0, 1.25)];
        let told = |epochs: &[Arc<EpochAnswers>]| {
            let selected = Selected { epochs: epochs.to_vec(), first: 1, ..Selected::default() };
            let Latency { error_ns, error_factor, .. } = *Latency::new(&selected, 9, 0);
            (error_ns, error_factor)
        };
        assert_eq!([&epochs[..1], &epochs[1..], &epochs].map(told), [(65_536, 1.0), (0, 1.25), (65_536, 1.25)]);
    }
}
