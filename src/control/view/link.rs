//! How a switch stands with its controller.

use serde::{Deserialize, Serialize};

use super::EpochAttention;

/// `GET /v1/controller` of a switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Orders that came, the one in force at each connection included.
    pub orders: u64,
    /// What the running epoch is measured with; absent until a controller has taken the switch in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention: Option<EpochAttention>,
}
