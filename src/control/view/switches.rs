//! The switches of a network, as its controller sees them.

use serde::{Deserialize, Serialize};

/// `GET /v1/switches` of a controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkSwitches {
    pub epoch_ns: u64,
    pub transit_ns: u64,
    /// Epochs that were not analysed, because the controller stood still.
    pub passed_over_epochs: u64,
    /// By name.
    pub switches: Vec<NetworkSwitch>,
}

/// `DELETE /v1/switches/NAME` of a controller: it waits for this one no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenSwitch {
    pub name: String,
}

/// One switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkSwitch {
    pub name: String,
    pub connected: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_seconds: Option<f64>,
    /// What it runs, as it said.
    pub software: String,
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
