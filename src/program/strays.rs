//! Packets that left and were not encoded, by the epoch in which they entered.
//!
//! A packet is encoded in its own epoch's half of the downstream encoder or not at all. One that
//! comes when that half is not open, because it is late or a clock is wrong, is counted here under
//! its epoch, so that exactly the answer that lacks it is known.

use std::collections::BTreeMap;

use super::AnyRecord;
use crate::wire::shim::{EPOCH_BITS, epoch_of};

/// Epochs that stray packets of one record can be told apart by.
pub const MAX_STRAY_EPOCHS: usize = 64;

/// The switch's counts: a register for each value of an epoch's low bits, which remembers the epoch
/// that it counts.
#[derive(Clone, Debug)]
pub struct StrayRegisters {
    /// The epoch, as packets carry it, and the packets.
    cells: [(u32, u64); MAX_STRAY_EPOCHS],
    /// Packets of epochs whose register was taken.
    elsewhere: u64,
}

impl Default for StrayRegisters {
    fn default() -> Self {
        Self { cells: [(0, 0); MAX_STRAY_EPOCHS], elsewhere: 0 }
    }
}

impl StrayRegisters {
    /// Counts packets of this epoch.
    #[cold]
    pub fn count(&mut self, epoch: u32, more: u64) {
        let (of, packets) = &mut self.cells[epoch as usize % MAX_STRAY_EPOCHS];
        if *packets == 0 {
            *of = epoch;
        }
        let count = if *of == epoch { packets } else { &mut self.elsewhere };
        *count = count.saturating_add(more);
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn read(&self) -> Strays {
        let cells = self.cells.iter().filter(|(_, packets)| *packets > 0);
        Strays { by_epoch: cells.copied().collect(), elsewhere: self.elsewhere }
    }
}

/// Stray packets of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// At most [`MAX_STRAY_EPOCHS`] epochs, as packets carry them, and their packets, never 0.
    by_epoch: BTreeMap<u32, u64>,
    elsewhere: u64,
}

impl Strays {
    pub fn is_empty(&self) -> bool {
        self.by_epoch.is_empty() && self.elsewhere == 0
    }

    /// Packets by the epoch that they carried.
    pub fn by_epoch(&self) -> &BTreeMap<u32, u64> {
        &self.by_epoch
    }

    /// Packets of epochs that are not told apart.
    pub fn elsewhere(&self) -> u64 {
        self.elsewhere
    }

    /// Adds packets that carried this epoch. False when there is no room for another epoch: they
    /// are of epochs that are not told apart then.
    pub fn add(&mut self, epoch: u32, packets: u64) -> bool {
        let fits = packets == 0 || self.by_epoch.len() < MAX_STRAY_EPOCHS || self.by_epoch.contains_key(&epoch);
        if !fits {
            self.add_elsewhere(packets);
        } else if packets > 0 {
            let count = self.by_epoch.entry(epoch).or_default();
            *count = count.saturating_add(packets);
        }
        fits
    }

    /// Adds packets of epochs that are not told apart.
    pub fn add_elsewhere(&mut self, packets: u64) {
        self.elsewhere = self.elsewhere.saturating_add(packets);
    }

    pub fn merge(&mut self, other: &Self) {
        for (&epoch, &packets) in &other.by_epoch {
            self.add(epoch, packets);
        }
        self.add_elsewhere(other.elsewhere);
    }

    /// Takes over those of a record that nobody gets.
    pub fn keep(&mut self, record: &AnyRecord) {
        record.strays().into_iter().for_each(|own| self.merge(own));
    }

    /// Adds them to the next record that somebody gets: the answers of their epochs lack them all
    /// the same.
    pub fn tell_with(&mut self, record: &mut AnyRecord) {
        record.strays_mut().into_iter().for_each(|own| own.merge(&std::mem::take(self)));
    }

    /// The packets with the whole numbers of their epochs, of a record whose last epoch is `last`:
    /// the nearest ones that end as the packets say.
    pub fn epochs(&self, last: u64) -> impl Iterator<Item = (u64, u64)> {
        let whole = move |(&epoch, &packets): (&u32, &u64)| (nearest(last, epoch), packets);
        self.by_epoch.iter().map(whole)
    }
}

/// The epoch nearest to `last` that a packet with these low bits can be of.
pub(super) fn nearest(last: u64, epoch: u32) -> u64 {
    let (range, half) = (1u64 << EPOCH_BITS, 1 << (EPOCH_BITS - 1));
    let ahead = u64::from(epoch_of(u64::from(epoch).wrapping_sub(last)));
    if ahead < half || last + ahead < range { last + ahead } else { last + ahead - range }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every packet is counted, and one whose epoch is told is of that epoch.
        #[test]
        fn nothing_is_lost_or_taken_for_another(last in 0..1u64 << 40, ages in prop::collection::vec(-600_000..600_000i64, 0..300)) {
            let mut registers = StrayRegisters::default();
            let mut truth = BTreeMap::<u64, u64>::new();
            for age in &ages {
                let Some(epoch) = last.checked_add_signed(-age) else { continue };
                registers.count(epoch_of(epoch), 1);
                *truth.entry(epoch).or_default() += 1;
            }
            let strays = registers.read();
            let told: u64 = strays.epochs(last).map(|(_, packets)| packets).sum();
            prop_assert_eq!(told + strays.elsewhere(), truth.values().sum::<u64>());
            for (epoch, packets) in strays.epochs(last) {
                if epoch.abs_diff(last) < 400_000 {
                    prop_assert_eq!(truth.get(&epoch), Some(&packets));
                }
            }
        }
    }

    #[test]
    fn epochs_of_one_register_are_not_mixed() {
        let mut registers = StrayRegisters::default();
        [5, 5, 69, 6, 5].into_iter().for_each(|epoch| registers.count(epoch, 1));
        let strays = registers.read();
        assert_eq!(
            strays.by_epoch().iter().map(|(&epoch, &packets)| (epoch, packets)).collect::<Vec<_>>(),
            [(5, 3), (6, 1)]
        );
        assert_eq!(strays.elsewhere(), 1);
        registers.clear();
        assert!(registers.read().is_empty());
    }

    #[test]
    fn numbers_are_the_nearest() {
        let epochs = |last, epoch| {
            let mut strays = Strays::default();
            assert!(strays.add(epoch, 1));
            strays.epochs(last).next().unwrap().0
        };
        assert_eq!([epochs(7, 7), epochs(7, 9), epochs(7, 5), epochs(0, 3)], [7, 9, 5, 3]);
        let wrap = 3 << EPOCH_BITS;
        assert_eq!([epochs(wrap, 1), epochs(wrap + 1, (1 << EPOCH_BITS) - 2)], [wrap + 1, wrap - 2]);
        assert_eq!(epochs(5, (1 << EPOCH_BITS) - 2), (1 << EPOCH_BITS) - 2, "there was no epoch before 0");
    }

    #[test]
    fn too_many_epochs_are_not_told_apart() {
        let mut strays = Strays::default();
        for epoch in 0..MAX_STRAY_EPOCHS as u32 + 3 {
            assert_eq!(strays.add(epoch, 2), (epoch as usize) < MAX_STRAY_EPOCHS);
        }
        let mut twice = strays.clone();
        twice.merge(&strays);
        assert_eq!((twice.by_epoch().len(), twice.by_epoch()[&0], twice.elsewhere()), (MAX_STRAY_EPOCHS, 4, 12));
    }
}
