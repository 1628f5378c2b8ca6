//! Where a controller's answers are read by others, without waiting for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Controller;
use crate::epoch::Nanos;
use crate::program::answers::EpochAnswers;

/// The answers of past epochs.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Posted>>);

#[derive(Debug, Default)]
struct Posted {
    epochs: VecDeque<Arc<EpochAnswers>>,
    length: Nanos,
    passed_over: u64,
}

/// Some epochs, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    pub epochs: Vec<Arc<EpochAnswers>>,
    /// The first epoch that was asked for and has been, whether its answers are there or not.
    pub first: u64,
    /// Length of an epoch.
    pub length: Nanos,
    /// How long ago the newest of them ended, when that is known.
    pub age: Option<Nanos>,
    /// They are older than what was asked for.
    pub outdated: bool,
}

impl Selected {
    /// The newest of them alone.
    #[must_use]
    pub fn newest(self) -> Self {
        let Self { mut epochs, .. } = self;
        epochs.drain(..epochs.len().saturating_sub(1));
        let first = epochs.first().map_or(0, |epoch| epoch.epoch);
        Self { epochs, first, ..self }
    }

    /// As they are at `now`, for those who asked for the last `seconds`. An epoch's answers are there soon after its end; older
    /// ones than that and than what was asked for tell of something else.
    #[must_use]
    pub fn as_of(self, now: Nanos, seconds: f64) -> Self {
        let Some(newest) = self.epochs.last() else { return self };
        let age = now.saturating_sub((newest.epoch + 1).saturating_mul(self.length));
        let outdated = age as f64 / 1e9 > seconds.max(2.0 * self.length as f64 / 1e9).max(1.0);
        Self { age: Some(age), outdated, ..self }
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what the controller keeps.
    pub fn post(&self, controller: &Controller) {
        let mut posted = self.lock();
        posted.passed_over = controller.passed_over();
        posted.length = controller.profile().map_or(0, |profile| profile.length);
        posted.epochs = controller.answers().cloned().collect();
    }

    /// Shows nothing any more.
    pub fn clear(&self) {
        self.lock().epochs.clear();
    }

    /// Epochs of which there are no answers because the controller stood still.
    pub fn passed_over(&self) -> u64 {
        self.lock().passed_over
    }

    /// The epochs of the last `seconds` that have closed, and at least one.
    pub fn last(&self, seconds: f64) -> Selected {
        let posted = self.lock();
        let Posted { length, epochs, .. } = &*posted;
        let (Some(oldest), Some(newest)) = (epochs.front(), epochs.back()) else { return Selected::default() };
        let wanted = (seconds.max(0.0) * 1e9 / (*length).max(1) as f64).ceil() as u64;
        let first = newest.epoch.saturating_sub(wanted.saturating_sub(1)).max(oldest.epoch);
        let epochs = epochs.iter().filter(|epoch| epoch.epoch >= first).cloned().collect();
        Selected { epochs, first, length: *length, ..Selected::default() }
    }

    /// The oldest epoch after this one.
    pub fn next(&self, after: u64) -> Selected {
        let posted = self.lock();
        let mut epochs = posted.epochs.iter();
        let known = epochs.clone().any(|epoch| epoch.epoch <= after);
        let Some(next) = epochs.find(|epoch| epoch.epoch > after) else { return Selected::default() };
        let first = if known { after + 1 } else { next.epoch };
        Selected { epochs: vec![next.clone()], first, length: posted.length, ..Selected::default() }
    }
}
