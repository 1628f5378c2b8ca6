//! Which flows of a network lost how many packets.

use serde::{Deserialize, Serialize};

use crate::control::flows::LostFlow;

/// `GET /v1/losses`: the epochs asked for, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    pub epoch_ns: u64,
    pub epochs: Vec<EpochLosses>,
    /// Over the epochs whose losses are known, the most lost first.
    pub losses: Vec<LostFlow>,
    pub lost_packets: i64,
    /// Each epoch's losses are known, and none is missing.
    pub losses_complete: bool,
}

/// One epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochLosses {
    pub epoch: u64,
    /// What the network measures: healthy, ill.
    pub state: String,
    /// What is missing of switches.
    pub gaps: Vec<Gap>,
    /// Packets that entered and did not leave; null when a gap hides them.
    pub lost_packets: Option<i64>,
    /// These are all the victims and all their packets.
    pub losses_complete: bool,
    pub losses: Vec<LostFlow>,
}

/// What is missing of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub switch: String,
    pub gap: String,
}
