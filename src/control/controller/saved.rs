//! What a controller must not forget when it starts again.

use serde::{Deserialize, Serialize};

/// The state, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    pub version: u32,
}

/// A state from which this version cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedError {
    #[error("the state is of version {version}, and this is version {known}", known = VERSION)]
    Version { version: u32 },
    #[error("the state's {key} is wrong: {why}")]
    Wrong { key: &'static str, why: String },
}

pub const VERSION: u32 = 1;
