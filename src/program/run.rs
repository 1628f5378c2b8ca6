//! The answers of a run that has an end: all epochs of one switch as one.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::answers::{
    EpochAnswers, Finality, FlowAnswers, LoopAnswers, Losses, PathAnswers, Reasons, SwitchAnswers, ValueAnswers,
};
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

impl RunAnswers {
    /// The same as answers of one epoch, from the first to the last that were added up.
    pub fn into_epoch(self, switch: &Arc<str>, (first_epoch, epoch): (u64, u64)) -> EpochAnswers {
        let Self { heavy: network, losses, paths, loops, values, distribution_wmre: _ } = self;
        let (losses, losses_lack) = losses.map_or_else(Default::default, |(losses, lack)| (Some(losses), lack));
        let switches = vec![SwitchAnswers { switch: switch.clone(), answers: FlowAnswers::default() }];
        EpochAnswers {
            epoch,
            first_epoch,
            network,
            switches,
            losses,
            losses_lack,
            paths,
            loops,
            values,
            finality: Finality::at_once(),
            ..EpochAnswers::default()
        }
    }
}

/// Exact counts by flow.
pub type Truth = FxHashMap<Flow, u64>;
