//! Shifting measurement attention (§4.3): from what an epoch showed to the parameters of a later one.

use super::network::NetworkEpoch;
use super::{Runtime, Shape};

/// Which flows the losses are measured of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There is memory to find every flow that loses packets.
    Healthy,
    /// Only heavy losses are all found, and light ones by sample.
    Ill,
}

impl State {
    /// The state that parameters are for: light losses have memory in the ill state only.
    pub fn of(runtime: &Runtime) -> Self {
        if runtime.division.ll > 0 { Self::Ill } else { Self::Healthy }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Ill => "ill",
        }
    }
}

/// What is to be measured with, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub runtime: Runtime,
    pub state: State,
    /// In words, for people.
    pub why: String,
}

/// Decides, epoch by epoch.
#[derive(Clone, Debug)]
pub struct Attention {
    shape: Shape,
    salt: u64,
}

impl Attention {
    /// `salt` makes the sampling of a deployment its own.
    pub fn new(shape: Shape, salt: u64) -> Self {
        Self { shape, salt }
    }

    /// The parameters for the epoch number `for_epoch`, from what `seen` showed; `latest` are those ordered last.
    pub fn shift(&mut self, seen: &NetworkEpoch, latest: &Runtime, for_epoch: u64) -> Decision {
        todo!()
    }
}
