//! What a switch decides alone when the replicas of an epoch have merged.

use super::{Closed, Sink};
use crate::program::AnySchedule;

/// Settles what the programs of a switch decide from their own records: the whole ones, as a part of an
/// epoch would be taken for all of it.
pub struct Settling(Vec<AnySchedule>);

impl Settling {
    /// For the programs of these schedules, in the order of the configuration.
    pub fn new(schedules: &[AnySchedule]) -> Self {
        Self(schedules.to_vec())
    }
}

impl Sink for Settling {
    fn closed(&mut self, Closed { program, last, record, .. }: Closed<'_>) {
        let settled = self.0.get(program).map(|schedule| schedule.settle(last, record));
        if let Some(Err(error)) = settled {
            tracing::error!("epoch {last}: {error}");
        }
    }

    fn renewed(&mut self, schedules: &[AnySchedule]) {
        self.0 = schedules.to_vec();
    }
}
