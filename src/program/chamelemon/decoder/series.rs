//! Several epochs of one switch, one after the other, as one answer.
//!
//! Encoders add up over epochs, as their counts do. The classifier does not: in each epoch the
//! first T_h − 1 packets of a flow are not encoded. So each counter is cut to T_h − 1 before it is
//! added. A flow's smallest sum is then what came before it was a candidate, in all epochs
//! together, and as little too large as the classifier is.

use super::Sketches;

/// What came before flows were candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    epochs: u64,
    levels: Vec<Vec<u64>>,
}

impl Below {
    /// Of one epoch.
    pub fn of(sketches: &Sketches) -> Self {
        let levels = sketches.tower.iter().map(|level| vec![0; level.sizes.len()]).collect();
        Self { epochs: 0, levels }.and(sketches)
    }

    /// Adds an epoch, with counter arrays of the same lengths.
    #[must_use]
    pub fn and(mut self, sketches: &Sketches) -> Self {
        let max = sketches.hh_threshold() - 1;
        self.epochs += 1;
        for (sums, level) in self.levels.iter_mut().zip(&sketches.tower) {
            sums.iter_mut().zip(&level.sizes).for_each(|(sum, &size)| *sum += u64::from(size.min(max)));
        }
        self
    }

    pub fn epochs(&self) -> u64 {
        self.epochs
    }

    /// Of a flow that is counted there ([`Sketches::counters`]).
    pub fn size_at(&self, counters: &[usize]) -> u64 {
        let sums = self.levels.iter().zip(counters).filter_map(|(sums, &counter)| sums.get(counter).copied());
        sums.min().unwrap_or_default()
    }
}
