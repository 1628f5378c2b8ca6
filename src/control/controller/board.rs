//! Where a controller's answers are read by others, without waiting for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Controller, EpochAnswers};
use crate::epoch::Nanos;

/// The answers of past epochs.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Posted>>);

#[derive(Debug, Default)]
struct Posted {
    epochs: VecDeque<Arc<EpochAnswers>>,
    length: Nanos,
}

/// Some epochs, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    pub epochs: Vec<Arc<EpochAnswers>>,
    /// Length of an epoch.
    pub length: Nanos,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what the controller keeps.
    pub fn post(&self, controller: &Controller) {
        let mut posted = self.lock();
        posted.length = controller.terms().map_or(0, |terms| terms.length);
        posted.epochs = controller.answers().cloned().collect();
    }

    /// Shows nothing any more.
    pub fn clear(&self) {
        self.lock().epochs.clear();
    }

    /// The epochs of the last `seconds`, and at least one.
    pub fn last(&self, seconds: f64) -> Selected {
        let posted = self.lock();
        let length = posted.length;
        let wanted = (seconds.max(0.0) * 1e9 / length.max(1) as f64).ceil() as usize;
        let skipped = posted.epochs.len().saturating_sub(wanted.max(1));
        Selected { epochs: posted.epochs.iter().skip(skipped).cloned().collect(), length }
    }

    /// The oldest epoch after this one.
    pub fn next(&self, after: u64) -> Selected {
        let posted = self.lock();
        let next = posted.epochs.iter().find(|epoch| epoch.epoch > after);
        Selected { epochs: next.cloned().into_iter().collect(), length: posted.length }
    }
}
