//! The controller of a network (§4): takes the switches' records, analyses each epoch, and orders the parameters of a later one.
//!
//! It does no I/O and reads no clock: time is an argument, and whoever drives it carries the orders to the switches. A switch alone
//! drives one in its own process.

mod answers;
mod saved;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use answers::{EpochAnswers, SwitchAnswers};
pub use saved::Saved;

use crate::epoch::Nanos;
use crate::program::chamelemon::network::NetworkEpoch;
use crate::program::chamelemon::{Runtime, Shape, Sketches, TowerShape};

/// From epoch `epoch` on, measure with `runtime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub epoch: u64,
    pub runtime: Runtime,
}

/// What the network has in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub shape: Shape,
    pub tower: TowerShape,
    /// Length of an epoch.
    pub length: Nanos,
    /// For so long after the end of an epoch its packets may leave.
    pub transit: Nanos,
}

/// A switch that joins.
#[derive(Clone, Debug)]
pub struct Joining {
    pub name: String,
    pub terms: Terms,
    /// What it measures with until an order takes effect.
    pub runtime: Runtime,
    /// The first epoch that it measures from its beginning.
    pub first_epoch: u64,
}

/// How the controller behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// So long after the end of the transit time a record is waited for.
    pub patience: Nanos,
    /// An order needs so long to reach all switches.
    pub notice: Nanos,
    /// Epochs of which the answers are kept.
    pub history: usize,
    /// Flows of each kind that are kept of an epoch.
    pub flows: usize,
    /// Whether parameters change, or stay as they are.
    pub shifts: bool,
    /// Makes the sampling of this deployment its own.
    pub salt: u64,
}

impl Settings {
    /// For epochs of this length.
    pub fn new(length: Nanos, salt: u64) -> Self {
        Self { patience: length / 4, notice: length / 10, history: 1024, flows: 1024, shifts: true, salt }
    }
}

/// Why a switch may not join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("switch {name}: {key} is {value}, and the network's is {expected}; all edge switches must have the same")]
    Differs { name: String, key: &'static str, value: String, expected: String },
    #[error("switch {name}: the name is 1 to {most} characters long, without control characters", most = MAX_NAME)]
    Name { name: String },
    #[error("switch {name}: the network has {most} switches already", most = MAX_SWITCHES)]
    Full { name: String },
    #[error("switch {name}: {why}")]
    Runtime { name: String, why: String },
}

/// Most bytes of a switch's name.
pub const MAX_NAME: usize = 64;
/// Most switches of a network.
pub const MAX_SWITCHES: usize = 1024;

/// What became of a record that is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    #[error("switch {name} has not joined")]
    Unknown { name: String },
    #[error("switch {name}: epoch {epoch} is closed")]
    Late { name: String, epoch: u64 },
    #[error("switch {name}: epoch {epoch} has been reported")]
    Twice { name: String, epoch: u64 },
    #[error("switch {name}: epoch {epoch} has not ended; epoch {running} is running. Are the clocks synchronised?")]
    Early { name: String, epoch: u64, running: u64 },
}

/// A switch's record of an epoch, or of several when its collector was behind.
#[derive(Debug)]
pub struct Report {
    pub first_epoch: u64,
    pub epoch: u64,
    pub sketches: Box<Sketches>,
}

#[derive(Debug)]
struct Member {
    joined: bool,
    first_epoch: u64,
}

/// The controller's state.
pub struct Controller {
    settings: Settings,
    terms: Option<Terms>,
    members: BTreeMap<Arc<str>, Member>,
    history: VecDeque<Arc<EpochAnswers>>,
}

impl Controller {
    pub fn new(settings: Settings) -> Self {
        todo!()
    }

    /// Goes on from what was saved: orders in force, and switches that are expected.
    ///
    /// # Errors
    /// Says why the state is not one that this version can go on from.
    pub fn restore(settings: Settings, saved: &Saved) -> Result<Self, saved::SavedError> {
        todo!()
    }

    /// What a restart needs; to be stored whenever it [changed](Self::revision).
    pub fn save(&self) -> Saved {
        todo!()
    }

    /// Grows with every change of what [`Self::save`] returns.
    pub fn revision(&self) -> u64 {
        todo!()
    }

    /// Takes a switch in, or again after it started again. The orders are those that it must have: the one in force and those for
    /// later epochs.
    pub fn join(&mut self, joining: &Joining, now: Nanos) -> Result<Vec<Order>, JoinError> {
        todo!()
    }

    /// The switch cannot be reached: epochs no longer wait for it, but it is a gap until it joins again or is [forgotten](Self::forget).
    pub fn leave(&mut self, name: &str) {
        todo!()
    }

    /// The switch has been taken out of the network. False when there is none of that name.
    pub fn forget(&mut self, name: &str) -> bool {
        todo!()
    }

    /// Takes a switch's record. When it was the last one that its epoch waited for, the epoch closes, and the order is for all
    /// switches. After that the answers are to be made with [`Self::answer`].
    pub fn report(&mut self, name: &str, report: Report, now: Nanos) -> Result<Option<Order>, ReportError> {
        todo!()
    }

    /// Closes the epochs whose deadline is over.
    pub fn tick(&mut self, now: Nanos) -> Option<Order> {
        todo!()
    }

    /// When [`Self::tick`] has something to do next.
    pub fn deadline(&self) -> Option<Nanos> {
        todo!()
    }

    /// Makes the answers of epochs that have closed since, which takes longer than the order and may come after it.
    pub fn answer(&mut self) {
        todo!()
    }

    /// The answers that are kept, newest last.
    pub fn answers(&self) -> impl DoubleEndedIterator<Item = &Arc<EpochAnswers>> {
        self.history.iter()
    }

    /// The epoch that closed last, with all its sketches.
    pub fn newest(&self) -> Option<&NetworkEpoch> {
        todo!()
    }

    /// The names of the switches, and whether each has joined.
    pub fn switches(&self) -> impl Iterator<Item = (&str, bool)> {
        self.members.iter().map(|(name, member)| (&**name, member.joined))
    }
}
