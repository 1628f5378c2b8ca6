//! The utilisation of the links that flows cross.

use serde::{Deserialize, Serialize};

use super::Covered;
use super::newest::{Bounds, Newest, OfEpoch};
use crate::api::flows::NamedFlow;
use crate::program::answers::{self, EpochAnswers, UtilisationAnswers};
use crate::telemetry::Selected;

/// `weir show utilisation`: how busy the busiest link of each flow is, in the newest of the epochs
/// in which packets of it told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    #[serde(flatten)]
    pub covered: Covered,
    /// Flows of which packets told.
    pub flows: u64,
    /// The factor by which a utilisation is off at most, because packets carry it in few bits.
    pub error_factor: f64,
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
    /// Packets of the epoch that told.
    pub packets: u64,
    /// The median and the maximum over these packets.
    pub median_utilisation: f64,
    pub max_utilisation: f64,
    /// By how much the rank of the median is off at most, in 95 of 100 cases.
    pub rank_error: f64,
}

impl From<&answers::FlowUtilisation> for FlowUtilisation {
    fn from(found: &answers::FlowUtilisation) -> Self {
        let answers::FlowUtilisation { flow, sink, packets, median, max, rank_error } = found;
        Self {
            name: (*flow).into(),
            sink: sink.to_string(),
            packets: *packets,
            median_utilisation: *median,
            max_utilisation: *max,
            rank_error: *rank_error,
        }
    }
}

impl Utilisation {
    /// Names at most `top` flows, of at least `threshold` packets that told.
    pub fn new(selected: &Selected, top: usize, threshold: u64) -> Self {
        let key = |flow: &answers::FlowUtilisation| (flow.flow, flow.sink.clone());
        let newest = Newest::new(selected, of_epoch, key, |flow| flow.packets, (top, threshold));
        let Newest { covered, flows, named, omitted_flows, evicted_flows, bounds } = newest;
        let utilisations = named.into_iter().map(FlowUtilisation::from).collect();
        Self { covered, flows, error_factor: bounds.error_factor, utilisations, omitted_flows, evicted_flows }
    }
}

fn of_epoch(epoch: &EpochAnswers) -> Option<OfEpoch<'_, answers::FlowUtilisation>> {
    let UtilisationAnswers { flows, found, evicted, error_factor, lack } = epoch.utilisation.as_ref()?;
    let bounds = Bounds { error_factor: *error_factor, ..Bounds::NONE };
    Some(OfEpoch { flows, found: *found, evicted: *evicted, lack, bounds })
}
