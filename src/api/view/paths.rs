//! The paths of flows.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Covered;
use crate::api::flows::NamedFlow;
use crate::program::answers::{Certainty, EpochAnswers, FlowName, FlowPath, Reason};
use crate::telemetry::Selected;

/// `weir show paths`: the switches that flows cross, as the newest of the epochs knows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Paths {
    #[serde(flatten)]
    pub covered: Covered,
    /// Flows of which packets left the network.
    pub flows: u64,
    /// The flows with the most packets.
    pub paths: Vec<Path>,
    /// Flows that are not named here.
    pub omitted_flows: u64,
    /// Flows that made place for others, since the start.
    pub evicted_flows: u64,
}

/// A flow's path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    #[serde(flatten)]
    pub name: NamedFlow,
    /// The switches, from the first to the last; null where it is not decided.
    pub switches: Vec<Option<String>>,
    pub certainty: Certainty,
    /// Packets that the answer rests on.
    pub packets: u64,
    /// Digests that tell of the switch of which the fewest tell.
    pub least_digests: u32,
    /// Times that packets contradicted those before them.
    pub contradictions: u64,
}

impl From<&FlowPath> for Path {
    fn from(path: &FlowPath) -> Self {
        let FlowPath { flow, switches, certainty, packets, least_digests, contradictions, .. } = path;
        Self {
            name: (*flow).into(),
            switches: switches.iter().map(|name| name.as_ref().map(|name| name.to_string())).collect(),
            certainty: *certainty,
            packets: *packets,
            least_digests: *least_digests,
            contradictions: *contradictions,
        }
    }
}

impl Paths {
    /// Names at most `top` flows, of at least `threshold` packets.
    pub fn new(selected: &Selected, top: usize, threshold: u64) -> Self {
        let lack = |epoch: &EpochAnswers| {
            let Some(paths) = &epoch.paths else { return [Reason::NotAnalysed].into_iter().collect() };
            let mut lack = paths.lack.clone();
            lack.add_if(paths.found > paths.flows.len(), Reason::NotKept);
            lack
        };
        let covered = Covered::new(selected, lack);
        // A later answer knows what the earlier ones did.
        let mut newest: BTreeMap<(FlowName, &Arc<str>), &FlowPath> = BTreeMap::new();
        let (mut not_kept, mut evicted_flows) = (0, 0);
        for paths in selected.epochs.iter().filter_map(|epoch| epoch.paths.as_ref()) {
            newest.extend(paths.flows.iter().map(|path| ((path.flow, &path.sink), path)));
            not_kept = not_kept.max(paths.found.saturating_sub(paths.flows.len()));
            evicted_flows = paths.evicted;
        }
        let flows = (newest.len() + not_kept) as u64;
        let mut wanted: Vec<_> = newest.into_values().filter(|path| path.packets >= threshold).collect();
        wanted.sort_by_key(|path| std::cmp::Reverse(path.packets));
        let omitted_flows = (wanted.len().saturating_sub(top) + not_kept) as u64;
        let paths = wanted.into_iter().take(top).map(Path::from).collect();
        Self { covered, flows, paths, omitted_flows, evicted_flows }
    }
}
