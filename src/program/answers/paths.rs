//! The task paths: the switches that each flow crosses.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{FlowName, Reasons};

/// How far a path is to be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Several paths agree with the packets so far, or none.
    #[default]
    Undecided,
    /// One path alone does.
    Decided,
    /// And the packets bear out each of its switches more than once, so that it is not another one
    /// for any reason.
    Sure,
}

/// The packets of a flow of which its path is sure: those between two, and both of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SureOf {
    pub packets: u64,
    /// When the first and the last of them left the network, since 1970.
    pub since_ns: u64,
    pub until_ns: u64,
}

/// The path of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPath {
    pub flow: FlowName,
    /// Where it leaves the network.
    pub sink: Arc<str>,
    /// Of the path, where packets carry one: a flow then has an answer for each.
    pub checksum: Option<u16>,
    /// From the first to the last; `None` where it is not decided.
    pub switches: Vec<Option<Arc<str>>>,
    pub certainty: Certainty,
    /// Packets that the answer rests on: they agree with it.
    pub packets: u64,
    /// `None` unless the path is sure.
    pub sure: Option<SureOf>,
    /// Packets that look like earlier ones, and say nothing new: copies, or packets in which nothing
    /// varies.
    pub repeated: u64,
    /// Digests that tell of the switch of which the fewest tell.
    pub least_digests: u32,
    /// Times that packets contradicted those before them: another path, or a wrong digest.
    pub contradictions: u64,
}

/// The paths of an epoch's flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathAnswers {
    /// Those of the most packets first, and the number of all.
    pub flows: Vec<FlowPath>,
    pub found: usize,
    /// Flows that made place for others so far.
    pub evicted: u64,
    /// Why paths are missing or not decided.
    pub lack: Reasons,
}

impl FlowPath {
    /// Whether packets are too much alike to tell the path: more of them repeat others than tell of it.
    pub fn is_alike(&self) -> bool {
        self.certainty == Certainty::Undecided && self.repeated > self.packets
    }
}

impl PathAnswers {
    /// Keeps at most so many flows, and no memory for more.
    pub fn keep(&mut self, max: usize) {
        self.flows.truncate(max);
        self.flows.shrink_to_fit();
    }
}
