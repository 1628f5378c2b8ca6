//! The answers of past epochs, as many as there is room for.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::program::answers::{EpochAnswers, Gap, SwitchGap};

/// Heavy flows that are kept of each switch, beside those of the network.
pub(super) const SWITCH_FLOWS: usize = 64;
/// Victims, and flows that only gained packets, that are kept of an epoch: more than can be decoded with default encoders.
pub(super) const LOSSES: usize = 8192;
/// Flows and sizes that are kept of all epochs together, of 80 bytes at most: the oldest epochs go first.
const MOST_KEPT: usize = 1_200_000;

/// The answers of past epochs, newest last.
#[derive(Debug, Default)]
pub(super) struct Kept {
    epochs: VecDeque<Arc<EpochAnswers>>,
    weight: usize,
}

impl Kept {
    /// Keeps at most `most` epochs, and one at the least.
    pub fn push(&mut self, answers: EpochAnswers, most: usize) {
        self.weight += answers.weight();
        self.epochs.push_back(Arc::new(answers));
        while self.epochs.len() > 1 && (self.epochs.len() > most || self.weight > MOST_KEPT) {
            self.weight -= self.epochs.pop_front().map_or(0, |oldest| oldest.weight());
        }
    }

    fn place(&self, epoch: u64) -> Option<usize> {
        self.epochs.binary_search_by_key(&epoch, |answers| answers.epoch).ok()
    }

    /// What is missing of this epoch, if its answers are kept.
    pub fn gaps(&self, epoch: u64) -> Option<&Vec<SwitchGap>> {
        Some(&self.epochs.get(self.place(epoch)?)?.gaps)
    }

    /// Something is missing of this epoch, as is known only now.
    pub fn spoil(&mut self, epoch: u64, switch: &Arc<str>, gap: Gap) {
        if let Some(answers) = self.place(epoch).and_then(|place| self.epochs.get_mut(place)) {
            Arc::make_mut(answers).spoil(switch, gap);
        }
    }

    /// Something may be missing of any epoch. Answers are copied for those who read them now, so each is told once.
    pub fn spoil_all(&mut self, switch: &Arc<str>, gap: Gap) {
        let same = |other: &SwitchGap| {
            other.switch == *switch && std::mem::discriminant(&other.gap) == std::mem::discriminant(&gap)
        };
        let untold = self.epochs.iter_mut().filter(|answers| !answers.gaps.iter().any(same));
        untold.for_each(|answers| Arc::make_mut(answers).spoil(switch, gap));
    }

    /// Forgets this epoch and all after it.
    pub fn forget_from(&mut self, epoch: u64) {
        while self.epochs.back().is_some_and(|newest| newest.epoch >= epoch) {
            self.weight -= self.epochs.pop_back().map_or(0, |newest| newest.weight());
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<EpochAnswers>> {
        self.epochs.iter()
    }
}
