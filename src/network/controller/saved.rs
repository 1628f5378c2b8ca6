//! What a controller must not forget when it starts again.

use serde::{Deserialize, Serialize};

use super::{NetworkProfile, ParameterUpdate};

/// The version of what this version saves.
pub const SAVED_VERSION: u32 = 2;

/// The state, as it is stored. What holds the hash family stores it itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    pub version: u32,
    /// `None` as long as no switch has joined.
    pub profile: Option<NetworkProfile>,
    /// The updates that were sent, the latest last.
    pub updates: Vec<ParameterUpdate>,
    /// The switches that are expected.
    pub switches: Vec<String>,
}

/// A state from which this version cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    #[error("the stored state is of version {version}, and this weir knows version {known}", known = SAVED_VERSION)]
    Version { version: u32 },
    #[error("the stored state's {key} is wrong: {why}")]
    Wrong { key: &'static str, why: String },
}
