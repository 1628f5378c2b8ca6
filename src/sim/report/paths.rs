//! Paths beside the truth: the simulation knows which switches each packet passed.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::answers::{Certainty, FlowPath};
use crate::sim::build::switch_of;
use crate::sim::packet::Way;
use crate::sim::traffic::Generation;
use crate::wire::{Flow, FlowKey};

/// The task paths: flows that left the network, how many of these have a path, and how many of the
/// paths some packet of the flow took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathCounts {
    pub flows: u64,
    /// With one path that agrees with all packets, and of these the ones that are sure.
    pub decided_flows: u64,
    pub sure_flows: u64,
    /// Of the decided ones.
    pub right_flows: u64,
    pub wrong_flows: u64,
    /// Of the sure ones.
    pub sure_wrong_flows: u64,
    /// Flows whose packets contradicted each other.
    pub contradicted_flows: u64,
}

impl PathCounts {
    /// The paths that were found beside those that the packets of these epochs took.
    pub fn new<'a>(paths: &[FlowPath], truth: impl Iterator<Item = &'a Generation>) -> Self {
        let ways = TrueWays::new(paths, truth);
        let flows = |is: &dyn Fn(&FlowPath) -> bool| paths.iter().filter(|path| is(path)).count() as u64;
        let is_decided = |path: &FlowPath| path.certainty >= Certainty::Decided;
        let is_sure = |path: &FlowPath| path.certainty == Certainty::Sure;
        Self {
            flows: paths.len() as u64,
            decided_flows: flows(&is_decided),
            sure_flows: flows(&is_sure),
            right_flows: flows(&|path| is_decided(path) && ways.has(path) == Some(true)),
            wrong_flows: flows(&|path| is_decided(path) && ways.has(path) == Some(false)),
            sure_wrong_flows: flows(&|path| is_sure(path) && ways.has(path) == Some(false)),
            contradicted_flows: flows(&|path| path.contradictions > 0),
        }
    }
}

/// The ways that packets took, by flow as the answers name flows.
struct TrueWays(FxHashMap<Flow, FxHashSet<Way>>);

impl TrueWays {
    fn new<'a>(paths: &[FlowPath], truth: impl Iterator<Item = &'a Generation>) -> Self {
        let named: Vec<_> = paths.iter().filter_map(|path| path.flow.flow()).collect();
        // Fields that no answer has do not define a flow.
        let mut fields = [false; 5];
        named.iter().for_each(|flow| fields.iter_mut().zip(flow.fields()).for_each(|(has, more)| *has |= more));
        let mut ways = FxHashMap::<_, FxHashSet<_>>::default();
        for (flow, way) in truth.flat_map(Generation::ways) {
            let flow = flow.tuple.flow().only(fields);
            ways.entry(flow).or_default().insert(way);
        }
        Self(ways)
    }

    /// Whether packets of the flow took this path; `None` of a flow that is not known.
    fn has(&self, path: &FlowPath) -> Option<bool> {
        let ways = self.0.get(&path.flow.flow()?)?;
        let switches = path.switches.iter().map(|name| name.as_deref().and_then(switch_of));
        let way = switches.collect::<Option<Vec<_>>>();
        let way = way.map(|switches| switches.into_iter().fold(Way::default(), Way::through));
        Some(way.is_some_and(|way| ways.contains(&way)))
    }
}
