//! Losses by epoch and over several, as a controller has them.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::control::controller::{Controller, EpochAnswers};
use crate::control::flows::Names;
use crate::control::view::{EpochLosses, Gap, Losses};
use crate::epoch::Nanos;
use crate::program::chamelemon::FlowId;
use crate::program::chamelemon::collector::Loss;

/// `GET /v1/losses`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossesQuery {
    /// The epochs of the last so many seconds; at least the last one.
    pub seconds: f64,
    /// Instead: the oldest epoch after this one.
    pub after: Option<u64>,
    /// Flows named of each epoch, and over all.
    pub top: usize,
}

impl Default for LossesQuery {
    fn default() -> Self {
        Self { seconds: 10.0, after: None, top: 20 }
    }
}

pub(super) fn losses(controller: &Controller, length: Nanos, query: &LossesQuery) -> Losses {
    let epochs = (query.seconds.max(0.0) * 1e9 / length as f64).ceil() as usize;
    let chosen: Vec<_> = match query.after {
        Some(after) => controller.answers().find(|answers| answers.epoch > after).into_iter().collect(),
        None => {
            let mut newest: Vec<_> = controller.answers().rev().take(epochs.max(1)).collect();
            newest.reverse();
            newest
        }
    };
    let names = Names::default();
    let mut sums = FxHashMap::<FlowId, Loss>::default();
    for loss in chosen.iter().filter_map(|answers| answers.losses.as_ref()).flat_map(|losses| &losses.flows) {
        let sum = sums.entry(loss.id).or_insert(Loss { packets: 0, ..*loss });
        sum.packets += loss.packets;
    }
    let mut sums: Vec<_> = sums.into_values().filter(|loss| loss.packets != 0).collect();
    sums.sort_unstable_by_key(|loss| (Reverse(loss.packets), loss.id));
    Losses {
        epoch_ns: length,
        losses: sums.iter().take(query.top).map(|loss| names.lost(loss)).collect(),
        lost_packets: chosen.iter().filter_map(|answers| answers.losses.as_ref()).map(|losses| losses.packets()).sum(),
        losses_complete: chosen.iter().all(|answers| answers.losses_complete),
        epochs: chosen.iter().map(|answers| epoch(answers, &names, query.top)).collect(),
    }
}

fn epoch(answers: &EpochAnswers, names: &Names, top: usize) -> EpochLosses {
    let flows = answers.losses.iter().flat_map(|losses| &losses.flows);
    let gap = |gap: &crate::program::chamelemon::network::SwitchGap| Gap {
        switch: gap.switch.to_string(),
        gap: gap.gap.to_string(),
    };
    EpochLosses {
        epoch: answers.epoch,
        state: answers.state.name().into(),
        gaps: answers.gaps.iter().map(gap).collect(),
        lost_packets: answers.losses.as_ref().map(|losses| losses.packets()),
        losses_complete: answers.losses_complete,
        losses: flows.take(top).map(|loss| names.lost(loss)).collect(),
    }
}
