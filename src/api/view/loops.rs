//! The loops of flows.

use serde::{Deserialize, Serialize};

use super::Claimed;
use super::newest::{Bounds, Newest, OfEpoch};
use crate::api::flows::NamedFlow;
use crate::json::digits;
use crate::program::answers::{self, EpochAnswers, LoopAnswers};
use crate::telemetry::Selected;

/// `weir show loops`: the flows whose packets came back to a switch in these epochs, and the
/// switches that saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loops {
    /// Whether a query asks for loops in any of these epochs.
    pub asked: bool,
    /// Those with the most packets, one for each flow and switch.
    pub loops: Vec<FlowLoop>,
    /// Loops that are not named here.
    pub omitted_loops: u64,
    /// Loops that made place for others, since the start.
    pub evicted_loops: u64,
    /// Reports that found no room in these epochs.
    pub missing_reports: u64,
}

/// A flow in a loop, as one switch saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowLoop {
    #[serde(flatten)]
    pub name: NamedFlow,
    /// The switch that saw it, so one of those in the loop.
    pub switch: String,
    /// When it saw the first and the last of these packets, since 1970.
    #[serde(with = "digits")]
    pub first_ns: u64,
    #[serde(with = "digits")]
    pub last_ns: u64,
    /// Packets that it reported.
    pub packets: u64,
    /// The fewest switches that one of them had passed.
    pub least_hops: u32,
}

impl From<&answers::FlowLoop> for FlowLoop {
    fn from(found: &answers::FlowLoop) -> Self {
        let answers::FlowLoop { flow, switch, first_ns, last_ns, packets, least_hops } = found;
        Self {
            name: (*flow).into(),
            switch: switch.to_string(),
            first_ns: *first_ns,
            last_ns: *last_ns,
            packets: *packets,
            least_hops: *least_hops,
        }
    }
}

impl Loops {
    /// Names at most `top` loops, of at least `threshold` packets.
    pub fn new(selected: &Selected, top: usize, threshold: u64) -> Claimed<Self> {
        fn of(epoch: &EpochAnswers) -> Option<OfEpoch<'_, answers::FlowLoop>> {
            let LoopAnswers { flows, found, evicted, lack, .. } = epoch.loops.as_ref()?;
            Some(OfEpoch { flows, found: *found, evicted: *evicted, lack, bounds: Bounds::NONE })
        }
        // A later answer counts the packets of the earlier ones too.
        let key = |found: &answers::FlowLoop| (found.flow, found.switch.clone());
        let Newest { claim, asked, named, omitted_flows: omitted_loops, evicted_flows: evicted_loops, .. } =
            Newest::new(selected, of, key, |found| found.packets, (top, threshold));
        let loops = named.into_iter().map(FlowLoop::from).collect();
        let missing = selected.epochs.iter().filter_map(|epoch| epoch.loops.as_ref());
        let missing_reports = missing.fold(0u64, |sum, loops| sum.saturating_add(loops.missing_reports));
        claim.with(Self { asked, loops, omitted_loops, evicted_loops, missing_reports })
    }
}
