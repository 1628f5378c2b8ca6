//! Sub-epochs: equal slices of an epoch, of programs that need them.

/// Maximum number of sub-epochs of an epoch.
pub const MAX_SUB_EPOCHS: u32 = 64;

/// A sub-epoch: its place in its epoch, from 0, and the number of sub-epochs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubEpoch {
    pub index: u32,
    pub of: u32,
}

impl SubEpoch {
    /// An epoch that is not cut.
    pub const WHOLE: Self = Self { index: 0, of: 1 };
}

/// The sub-epochs that a bank covers, for programs that keep the parts of an epoch apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Coverage {
    /// The number of sub-epochs of the epoch in which the bank was put in place.
    pub of: u32,
    /// Of these the ones in which the bank was in use, a bit each.
    pub sub_epochs: u64,
    /// The number of whole epochs behind that one which the bank covers as well.
    pub later_epochs: u32,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { of: 1, sub_epochs: 0, later_epochs: 0 }
    }
}

impl Coverage {
    /// Follows [`Dataplane::enter_sub_epoch`](super::Dataplane::enter_sub_epoch).
    pub fn enter(&mut self, SubEpoch { index, of }: SubEpoch, fresh: bool) {
        let bit = 1u64.checked_shl(index).unwrap_or_default();
        if fresh {
            *self = Self { of, sub_epochs: bit, later_epochs: 0 };
        } else if index == 0 {
            // A bank that runs on into an epoch is there for all of it.
            self.later_epochs = self.later_epochs.saturating_add(1);
        } else {
            self.sub_epochs |= bit;
        }
    }

    /// Whether both cover a time in common, if they are of one epoch.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.of != other.of
            || self.sub_epochs & other.sub_epochs != 0
            || self.later_epochs > 0 && other.later_epochs > 0
    }

    /// Covers what `other` covers, too. Sub-epochs of another length are lost in all of the epoch.
    pub fn add(&mut self, other: &Self) {
        if self.of == other.of {
            self.sub_epochs |= other.sub_epochs;
        } else {
            (self.of, self.sub_epochs) = (1, 1);
        }
        self.later_epochs = self.later_epochs.max(other.later_epochs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bank_covers_what_it_ran_on_into() {
        let mut coverage = Coverage::default();
        coverage.enter(SubEpoch { index: 6, of: 8 }, true);
        coverage.enter(SubEpoch { index: 7, of: 8 }, false);
        assert_eq!(coverage, Coverage { of: 8, sub_epochs: 0xc0, later_epochs: 0 });
        coverage.enter(SubEpoch::WHOLE, false);
        coverage.enter(SubEpoch::WHOLE, false);
        assert_eq!(coverage, Coverage { of: 8, sub_epochs: 0xc0, later_epochs: 2 });
        coverage.enter(SubEpoch { index: 2, of: 4 }, true);
        assert_eq!(coverage, Coverage { of: 4, sub_epochs: 4, later_epochs: 0 });
    }

    #[test]
    fn coverages_of_replicas_meet() {
        let at = |index, of| {
            let mut coverage = Coverage::default();
            coverage.enter(SubEpoch { index, of }, true);
            coverage
        };
        assert!(!at(1, 4).overlaps(&at(2, 4)) && at(1, 4).overlaps(&at(1, 4)) && at(0, 4).overlaps(&at(1, 2)));
        let mut sum = at(1, 4);
        sum.add(&at(2, 4));
        assert_eq!(sum.sub_epochs, 6);
        sum.add(&at(1, 2));
        assert_eq!((sum.of, sum.sub_epochs), (1, 1));
    }
}
