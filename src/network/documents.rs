//! The documents about a switch and its controller, which the API and `--json` share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answers::EpochAttention;
use crate::json::{Digits, Time, digits};

/// `GET /v1/switches` of a controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkSwitches {
    pub epoch_ns: u64,
    pub transit_ns: u64,
    /// Epochs that were not analysed, because the controller stood still.
    pub passed_over_epochs: u64,
    /// Packets that left later than the horizon after their epoch.
    #[serde(default)]
    pub late_packets: u64,
    /// By name.
    pub switches: Vec<NetworkSwitch>,
}

/// `DELETE /v1/switches/NAME` of a controller: it waits for this one no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvictedSwitch {
    pub name: String,
}

/// `PUT /v1/parameters` of a controller: what its switches measure with, and from when on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedParameters {
    pub program: String,
    /// The first epoch, and when it begins, in nanoseconds since 1970 and as a time of day.
    pub from_epoch: u64,
    #[serde(with = "digits")]
    #[schemars(with = "Digits")]
    pub from_ns: u64,
    pub start: Option<Time>,
}

/// One switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkSwitch {
    pub name: String,
    pub connected: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_seconds: Option<f64>,
    /// What it runs, as it said.
    pub software: String,
    /// The programs whose records it sends.
    pub programs: Vec<String>,
    /// How often it was taken in.
    pub connections: u64,
    /// Records that came.
    pub records: u64,
    /// Records that it could not send.
    pub unsent_records: u64,
    /// Records that came and were of no use, and why the last of them was.
    pub refused_records: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<String>,
}

/// `GET /v1/controller` of a switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControllerLink {
    /// Where the controller is, as it was configured.
    pub at: String,
    pub connected: bool,
    /// Why there is no connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How often the switch was taken in.
    pub connections: u64,
    /// Records of epochs that were sent.
    pub sent_records: u64,
    /// Those that were not, because there was no connection or it was too slow.
    pub unsent_records: u64,
    /// Those that were not, because they were hashed otherwise than the network does.
    pub foreign_records: u64,
    /// Parameter updates that came, the one in force at each connection included.
    pub updates: u64,
    /// The programs whose records the switch sends.
    pub programs: Vec<LinkedProgram>,
}

/// A program of a switch that has a controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkedProgram {
    pub program: String,
    /// Why the controller does not take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What the running epoch is measured with; absent until a controller has taken the switch in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention: Option<EpochAttention>,
}
