//! From which epoch on which parameters hold: a controller writes, all replicas of a switch read.

use std::sync::{Arc, Mutex, PoisonError};

use arrayvec::ArrayVec;

use super::runtime::{Runtime, Shape};
use crate::pisa::table::{Reader, Shared};
use crate::program::ProgramError;

/// Orders that wait for their epoch, and those of the epochs that are running somewhere.
const STEPS: usize = 8;

/// The parameters by epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    start: Runtime,
    /// By epoch.
    steps: ArrayVec<(u64, Runtime), STEPS>,
}

impl Steps {
    pub(super) fn at(&self, epoch: u64) -> Runtime {
        let before = self.steps.iter().rev().find(|(from, _)| *from <= epoch);
        before.map_or(self.start, |(_, runtime)| *runtime)
    }
}

/// The writer's end. An order that comes when its epoch is about to begin, or later, takes effect with the next one.
#[derive(Clone, Debug)]
pub struct Schedule {
    shape: Shape,
    steps: Arc<Mutex<Shared<Steps>>>,
}

impl Schedule {
    /// `start` holds until another order does.
    pub fn new(shape: Shape, start: Runtime) -> Self {
        let steps = Steps { start, steps: ArrayVec::new() };
        Self { shape, steps: Arc::new(Mutex::new(Shared::new(steps))) }
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Epoch number `from` and those after it are measured with `runtime`. Orders for the same or later epochs are forgotten.
    ///
    /// # Errors
    /// If the encoders have no room for it.
    pub fn order(&self, from: u64, runtime: Runtime) -> Result<(), ProgramError> {
        runtime.validate(&self.shape)?;
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).update(|Steps { start, steps }| {
            steps.retain(|(epoch, _)| *epoch < from);
            if steps.is_full() {
                *start = steps.remove(0).1;
            }
            steps.push((from, runtime));
        });
        Ok(())
    }

    /// The parameters of an epoch, as ordered so far.
    pub fn at(&self, epoch: u64) -> Runtime {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).current().at(epoch)
    }

    pub(super) fn reader(&self) -> Reader<Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).reader()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::chamelemon::Config;

    #[test]
    fn orders_hold_from_their_epoch_on() {
        let config = Config::default();
        let schedule = Schedule::new(config.shape(), config.runtime());
        let runtime = |sample| Runtime { sample, ..config.runtime() };
        for epoch in 0..20 {
            schedule.order(10 + 2 * epoch, runtime(epoch as u32)).unwrap();
        }
        let sample = |epoch| schedule.at(epoch).sample;
        assert_eq!([48, 49, 47, 1000].map(sample), [19, 19, 18, 19]);
        assert_eq!(sample(10 + 2 * 13), 13, "as many as there is room for");
        schedule.order(40, runtime(500)).unwrap();
        assert_eq!([39, 40, 48].map(sample), [14, 500, 500], "what was ordered before for later epochs is forgotten");
        assert!(schedule.order(50, runtime(65_537)).is_err());
        assert_eq!(sample(50), 500);
    }
}
