//! The answers of a run that has an end: all epochs of one switch as one.

use rustc_hash::FxHashMap;

use super::answers::{FlowAnswers, LoopAnswers, Losses, PathAnswers, Reasons, ValueAnswers};
use crate::wire::Flow;

/// What a program answers about a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunAnswers {
    pub heavy: FlowAnswers,
    /// The losses of a program that finds some, and why they are not complete.
    pub losses: Option<(Losses, Reasons)>,
    /// The paths of a program that finds some.
    pub paths: Option<PathAnswers>,
    /// The loops of a program that looks for some.
    pub loops: Option<LoopAnswers>,
    /// Of each query for a number that packets tell: latencies, utilisations and other values.
    pub values: Vec<ValueAnswers>,
    /// Weighted mean relative error of the estimated distribution of flow sizes, when the truth is
    /// known.
    pub distribution_wmre: Option<f64>,
}

/// Exact counts by flow.
pub type Truth = FxHashMap<Flow, u64>;
