//! The utilisation of the links that flows cross.

use serde::{Deserialize, Serialize};

use super::newest::Newest;
use super::{Claimed, queries, values};
use crate::api::flows::NamedFlow;
use crate::program::answers::{self, Task};
use crate::telemetry::Selected;

/// `weir show utilisation`: how busy the busiest link of each flow is, in the newest of the epochs
/// in which packets of it told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// The query in words, without its frequency, that the newest epoch has for utilisations: all of
    /// these are its answers, and epochs without it have none. Null where no epoch has one.
    pub query: Option<String>,
    /// Flows of which packets told.
    pub flows: u64,
    /// The factor by which a utilisation is off at most, because packets carry it in few bits.
    pub error_factor: f64,
    /// This utilisation, and any beyond it, may stand for larger ones.
    pub largest: Option<f64>,
    /// The flows with the most packets that told.
    pub utilisations: Vec<FlowUtilisation>,
    /// Flows that are not named here.
    pub omitted_flows: u64,
    /// Flows that made place for others, since the start.
    pub evicted_flows: u64,
}

/// The busiest links of a flow's packets. 1 is a full link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowUtilisation {
    #[serde(flatten)]
    pub name: NamedFlow,
    /// The switch where it leaves the network.
    pub sink: String,
    /// Of the packets' path, where they carry one; else null. A flow of several paths is there for
    /// each.
    pub checksum: Option<u16>,
    /// The switches of that path, from the first to the last; null where they are not decided.
    pub path: Vec<Option<String>>,
    /// Packets of the epoch that told.
    pub packets: u64,
    /// The median and the maximum over these packets.
    pub median_utilisation: f64,
    pub max_utilisation: f64,
    /// Between these the median of all packets of the epoch lies, in 95 of 100 cases; null where too few
    /// told to say.
    pub median_low: Option<f64>,
    pub median_high: Option<f64>,
}

impl FlowUtilisation {
    /// `None` where no packet told.
    pub fn new(of: &answers::FlowValues) -> Option<Self> {
        let answers::Told { samples, quantiles, .. } = of.told.first()?;
        let answers::Quantiles { p50, p50_between, max, .. } = (*quantiles)?;
        Some(Self {
            name: of.flow.into(),
            sink: of.sink.to_string(),
            checksum: of.checksum,
            path: values::path(of),
            packets: *samples,
            median_utilisation: p50,
            max_utilisation: max,
            median_low: p50_between.low,
            median_high: p50_between.high,
        })
    }
}

impl Utilisation {
    /// Names at most `top` flows, of at least `threshold` packets that told.
    pub fn new(selected: &Selected, top: usize, threshold: u64) -> Claimed<Self> {
        let of = queries::of_task(selected, Task::Utilisation);
        let newest = queries::newest(selected, of, (top, threshold));
        let Newest { claim, flows, named, omitted_flows, evicted_flows, bounds, .. } = newest;
        claim.with(Self {
            query: of.map(|answers| answers.query.to_string()),
            flows,
            error_factor: bounds.error_factor,
            largest: bounds.largest,
            utilisations: named.into_iter().filter_map(FlowUtilisation::new).collect(),
            omitted_flows,
            evicted_flows,
        })
    }
}
