//! What is kept of an epoch of the network.

use std::sync::Arc;

use super::Order;
use crate::program::chamelemon::attention::State;
use crate::program::chamelemon::collector::{Change, Losses};
use crate::program::chamelemon::network::SwitchGap;
use crate::program::chamelemon::{Answers, Runtime};

/// One switch's answers.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchAnswers {
    pub switch: Arc<str>,
    pub answers: Answers,
}

/// One epoch's answers, bounded in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochAnswers {
    pub epoch: u64,
    /// What it was measured with, and for which state.
    pub runtime: Runtime,
    pub state: State,
    /// What was ordered from it, and why.
    pub order: Option<Order>,
    pub why: String,
    /// What is missing; the losses are unknown when there is anything.
    pub gaps: Vec<SwitchGap>,
    /// Over the switches whose flows are known, and each of them.
    pub network: Answers,
    pub switches: Vec<SwitchAnswers>,
    /// `None` when a gap hides them.
    pub losses: Option<Losses>,
    /// Packets lost over all flows, as far as they were found.
    pub lost_packets: i64,
    /// Against the epoch before; `None` when that is unknown.
    pub changes: Option<Vec<Change>>,
}
