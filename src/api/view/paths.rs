//! The paths of flows.

use serde::{Deserialize, Serialize};

use super::Claimed;
use super::newest::{Bounds, Newest, OfEpoch};
use crate::api::flows::NamedFlow;
use crate::json::digits;
use crate::program::answers::{Certainty, EpochAnswers, FlowPath, PathAnswers};
use crate::telemetry::Selected;

/// `weir show paths`: the switches that flows cross, as the newest of the epochs knows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Paths {
    /// Whether a query asks for paths in any of these epochs.
    pub asked: bool,
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
    /// Of the path, where packets carry one; else null. A flow of several paths is there for each.
    pub checksum: Option<u16>,
    /// The switches, from the first to the last; null where it is not decided.
    pub switches: Vec<Option<String>>,
    pub certainty: Certainty,
    /// Packets that the answer rests on: they agree with it.
    pub packets: u64,
    /// Of these, those of which the path is sure, and when the first and the last of them left the
    /// network, since 1970. Null unless it is sure.
    pub sure_packets: Option<u64>,
    #[serde(with = "digits", default)]
    pub sure_since_ns: Option<u64>,
    #[serde(with = "digits", default)]
    pub sure_until_ns: Option<u64>,
    /// Packets that look like earlier ones, and say nothing new. Where they are more than `packets`, a
    /// path that is undecided is so for that reason.
    pub repeated_packets: u64,
    /// Digests that tell of the switch of which the fewest tell.
    pub least_digests: u32,
    /// Times that packets contradicted those before them.
    pub contradictions: u64,
}

impl From<&FlowPath> for Path {
    fn from(path: &FlowPath) -> Self {
        let FlowPath { flow, checksum, switches, certainty, packets, sure, .. } = path;
        Self {
            name: (*flow).into(),
            checksum: *checksum,
            switches: switches.iter().map(|name| name.as_ref().map(|name| name.to_string())).collect(),
            certainty: *certainty,
            packets: *packets,
            sure_packets: sure.map(|sure| sure.packets),
            sure_since_ns: sure.map(|sure| sure.since_ns),
            sure_until_ns: sure.map(|sure| sure.until_ns),
            repeated_packets: path.repeated,
            least_digests: path.least_digests,
            contradictions: path.contradictions,
        }
    }
}

impl Paths {
    /// Names at most `top` flows, of at least `threshold` packets. A later answer knows what the
    /// earlier ones did.
    pub fn new(selected: &Selected, top: usize, threshold: u64) -> Claimed<Self> {
        let key = |path: &FlowPath| {
            (path.flow, path.sink.clone(), path.checksum.map(|checksum| (path.switches.len(), checksum)))
        };
        let newest = Newest::new(selected, of_epoch, key, |path| path.packets, (top, threshold));
        let Newest { claim, asked, flows, named, omitted_flows, evicted_flows, .. } = newest;
        let paths = named.into_iter().map(Path::from).collect();
        claim.with(Self { asked, flows, paths, omitted_flows, evicted_flows })
    }
}

fn of_epoch(epoch: &EpochAnswers) -> Option<OfEpoch<'_, FlowPath>> {
    let PathAnswers { flows, found, evicted, lack } = epoch.paths.as_ref()?;
    Some(OfEpoch { flows, found: *found, evicted: *evicted, lack, bounds: Bounds::NONE })
}
