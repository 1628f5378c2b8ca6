//! The task latency: the time that packets of flows take in each switch.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::newest::{Newest, others_text, why_none};
use super::values::{self, FlowValues, HopNumbers, Quantiles, SwitchSamples, ValueAnswers};
use super::{Claimed, FlowName, ProgramAnswer, Query, Task};
use crate::history::Epochs;
use crate::output::{self, Cell, Page, Table, row, time};

/// `weir show latency`: the time that the packets of flows take in each switch, as the newest of
/// the epochs knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The query in words, without its frequency, that the newest epoch has for latencies: all of these
    /// are its answers, and epochs without it have none. Null where no epoch has one.
    pub query: Option<String>,
    /// Flows of which packets left the network.
    pub flows: u64,
    /// The largest error of a time, and the largest factor by which it is off, because packets carry
    /// it in few bits: whichever is more.
    pub error_ns: u64,
    pub error_factor: f64,
    /// This time, and any beyond it, may stand for longer ones.
    pub largest_ns: Option<u64>,
    /// The packets of this time count alone, up to a flow's newest; null is all time.
    pub window_seconds: Option<f64>,
    /// The flows with the most samples.
    pub latencies: Vec<FlowLatency>,
    /// The times that packets reported in these epochs, by switch, whatever their flows.
    pub switch_latencies: Vec<SwitchLatency>,
    /// Flows that are not named here.
    pub omitted_flows: u64,
    /// Flows that were evicted, since the start.
    pub evicted_flows: u64,
}

/// The times that the packets of these epochs reported of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchLatency {
    /// Null of hops whose switch was not decided.
    pub switch: Option<Arc<str>>,
    /// Packets that reported it.
    pub samples: u64,
    /// Each time that some reported, the shortest first.
    pub counts: Vec<LatencyCount>,
}

/// The packets that reported a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyCount {
    pub latency_ns: u64,
    pub samples: u64,
}

/// A flow's latencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowLatency {
    #[serde(flatten)]
    pub name: FlowName,
    /// The switch where it leaves the network.
    pub sink: Arc<str>,
    /// Of the packets' path, where they carry one; else null. A flow of several paths is there for
    /// each.
    pub checksum: Option<u16>,
    /// From the first to the last.
    pub hops: Vec<HopLatency>,
}

/// The latency of one hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HopLatency {
    /// Counted from 1.
    pub hop: usize,
    /// Null where the path is not decided.
    pub switch: Option<Arc<str>>,
    /// Packets that reported it.
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

impl From<&FlowValues> for FlowLatency {
    fn from(of: &FlowValues) -> Self {
        let hop = |(hop, numbers): (usize, &HopNumbers)| {
            let of = |of: fn(&Quantiles) -> Option<f64>| numbers.quantiles.as_ref().and_then(of).map(|ns| ns as u64);
            HopLatency {
                hop,
                switch: numbers.switch.clone(),
                samples: numbers.samples,
                p50_ns: of(|quantiles| Some(quantiles.p50)),
                p99_ns: of(|quantiles| Some(quantiles.p99)),
                p50_low_ns: of(|quantiles| quantiles.p50_between.low),
                p50_high_ns: of(|quantiles| quantiles.p50_between.high),
                p99_low_ns: of(|quantiles| quantiles.p99_between.low),
                p99_high_ns: of(|quantiles| quantiles.p99_between.high),
            }
        };
        let hops = (1..).zip(&of.told).map(hop).collect();
        Self { name: of.flow, sink: of.sink.clone(), checksum: of.checksum, hops }
    }
}

impl Latency {
    /// A later answer rests on the samples of the earlier ones too. `of` gives the answers of an
    /// epoch to each query.
    pub fn over<'k, K>(
        epochs: &'k Epochs<K>,
        query: &Query,
        of: impl Fn(&'k K) -> &'k [ValueAnswers],
    ) -> ProgramAnswer {
        let meant = values::of_task(epochs, Task::Latency, &of);
        let Newest { lack, flows, named, omitted_flows, evicted_flows, precision, .. } =
            values::newest(epochs, query, meant, &of);
        let answer = Self {
            query: meant.map(|answers| answers.query.to_string()),
            flows,
            error_ns: precision.error as u64,
            error_factor: precision.error_factor,
            largest_ns: precision.largest.map(|ns| ns as u64),
            window_seconds: precision.window_ns.map(|ns| ns as f64 / 1e9),
            latencies: named.into_iter().map(FlowLatency::from).collect(),
            switch_latencies: meant.map_or_else(Vec::new, |meant| of_switches(epochs, meant, &of)),
            omitted_flows,
            evicted_flows,
        };
        ProgramAnswer::new(answer, lack)
    }

    pub fn page(found: &Claimed<Self>) -> Page {
        let claimed = found.claim.text(Task::Latency.all());
        let asked = found.query.is_some().then_some(!found.latencies.is_empty()).ok_or("latencies");
        let page = Page::default()
            .table("latency", latency_table(&found.latencies).beside(&found.claim.columns()))
            .text(why_none(&found.claim, asked, "no flow left the network"));
        if asked != Ok(true) {
            return page.text(claimed);
        }
        let query = found.query.as_deref().unwrap_or_default();
        let error = match values::off_text("ns", found.error_ns as f64, found.error_factor) {
            Some(off) => format!("{query}; times are {off}"),
            None => query.to_owned(),
        };
        let error = error + &found.largest_text();
        let window = found.window_seconds.map(|seconds| format!("samples are of the last {seconds} s of a flow"));
        let others = others_text(found.omitted_flows, found.evicted_flows);
        page.text(output::lines([error, window.unwrap_or_default(), claimed, others]))
    }

    /// A note that the longest time stands for longer ones too, where the table has it.
    pub fn largest_text(&self) -> String {
        let hops = self.latencies.iter().flat_map(|flow| &flow.hops);
        let times = hops.flat_map(|hop| [hop.p50_ns, hop.p50_high_ns, hop.p99_ns, hop.p99_high_ns]).flatten();
        values::largest_text("ns", self.largest_ns.map(|ns| ns as f64), times.map(|ns| ns as f64))
    }
}

/// The samples that the epochs have of the query of `meant`, by switch.
fn of_switches<'k, K>(
    epochs: &'k Epochs<K>,
    meant: &ValueAnswers,
    of: impl Fn(&'k K) -> &'k [ValueAnswers],
) -> Vec<SwitchLatency> {
    let mut sums = BTreeMap::<&Option<Arc<str>>, BTreeMap<u64, u64>>::new();
    let answers = epochs.iter().flat_map(|entry| of(&entry.showed)).filter(|answers| answers.is_of_same_query(meant));
    for SwitchSamples { switch, counts } in answers.flat_map(|answers| &answers.switches) {
        let sum = sums.entry(switch).or_default();
        counts.iter().for_each(|(ns, samples)| *sum.entry(*ns as u64).or_default() += samples);
    }
    let of_switch = |(switch, counts): (&Option<Arc<str>>, BTreeMap<u64, u64>)| SwitchLatency {
        switch: switch.clone(),
        samples: counts.values().sum(),
        counts: counts.into_iter().map(|(latency_ns, samples)| LatencyCount { latency_ns, samples }).collect(),
    };
    sums.into_iter().map(of_switch).collect()
}

/// A row for each hop of each flow. `?` stands for a switch that is not decided.
pub fn latency_table(flows: &[FlowLatency]) -> Table {
    let rows = flows.iter().flat_map(|flow| {
        flow.hops.iter().map(move |hop| {
            let HopLatency { hop: number, switch, samples, p50_ns, p99_ns, .. } = hop;
            let [p50, p99] = [p50_ns, p99_ns].map(|ns| Cell::or("-", ns.map(Cell::ns)));
            row![
                Cell::from(flow.name.to_string()).repeated(*number != 1),
                Cell::plain(*number),
                Cell::or("?", switch.as_deref()),
                *samples,
                p50,
                Cell::between([hop.p50_low_ns, hop.p50_high_ns], time),
                p99,
                Cell::between([hop.p99_low_ns, hop.p99_high_ns], time),
            ]
        })
    });
    let columns = [
        "flow",
        ">hop",
        "switch",
        ">samples",
        ">p50|p50_ns",
        ">between|p50_low_ns,p50_high_ns",
        ">p99|p99_ns",
        ">between|p99_low_ns,p99_high_ns",
    ];
    Table::new(columns, rows).keyed(2)
}
