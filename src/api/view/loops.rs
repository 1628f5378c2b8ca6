//! The loops of flows.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Covered;
use crate::api::flows::NamedFlow;
use crate::program::answers::{self, EpochAnswers, FlowName, Reason};
use crate::telemetry::Selected;

/// `weir show loops`: the flows whose packets came back to a switch in these epochs, and the
/// switches that saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loops {
    #[serde(flatten)]
    pub covered: Covered,
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
    pub first_ns: u64,
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
    pub fn new(selected: &Selected, top: usize, threshold: u64) -> Self {
        let lack = |epoch: &EpochAnswers| {
            let Some(loops) = &epoch.loops else { return [Reason::NotAnalysed].into_iter().collect() };
            let mut lack = loops.lack.clone();
            lack.add_if(loops.found > loops.flows.len(), Reason::NotKept);
            lack
        };
        let covered = Covered::new(selected, lack);
        // A later answer counts the packets of the earlier ones too.
        let mut newest: BTreeMap<(FlowName, &Arc<str>), &answers::FlowLoop> = BTreeMap::new();
        let (mut not_kept, mut evicted_loops, mut missing_reports) = (0, 0, 0u64);
        for loops in selected.epochs.iter().filter_map(|epoch| epoch.loops.as_ref()) {
            newest.extend(loops.flows.iter().map(|found| ((found.flow, &found.switch), found)));
            not_kept = not_kept.max(loops.found.saturating_sub(loops.flows.len()));
            missing_reports = missing_reports.saturating_add(loops.missing_reports);
            evicted_loops = loops.evicted;
        }
        let mut wanted: Vec<_> = newest.into_values().filter(|found| found.packets >= threshold).collect();
        wanted.sort_by_key(|found| std::cmp::Reverse(found.packets));
        let omitted_loops = (wanted.len().saturating_sub(top) + not_kept) as u64;
        let loops = wanted.into_iter().take(top).map(FlowLoop::from).collect();
        Self { covered, loops, omitted_loops, evicted_loops, missing_reports }
    }
}
