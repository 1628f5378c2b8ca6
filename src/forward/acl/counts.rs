//! Packets and bytes of each rule.

use super::SLOTS;
use crate::pisa::Count;

/// One worker's counters, at the slots that rules keep for as long as they live. They outlive the
/// versions of the list.
#[derive(Debug)]
pub struct RuleCounts(Box<[(Count, Count)]>);

/// The counts of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub packets: u64,
    pub bytes: u64,
}

impl Default for RuleCounts {
    fn default() -> Self {
        Self((0..=SLOTS).map(|_| Default::default()).collect())
    }
}

impl RuleCounts {
    #[inline(always)]
    pub(super) fn add(&self, slot: usize, bytes: u32) {
        let (packets, all) = &self.0[slot];
        packets.add(1);
        all.add(bytes.into());
    }

    pub fn get(&self, slot: usize) -> Counted {
        let (packets, bytes) = &self.0[slot];
        Counted { packets: packets.get(), bytes: bytes.get() }
    }
}

impl Counted {
    /// All workers together.
    pub fn sum(counts: impl IntoIterator<Item = Self>) -> Self {
        counts.into_iter().fold(Self::default(), |sum, one| Self {
            packets: sum.packets.wrapping_add(one.packets),
            bytes: sum.bytes.wrapping_add(one.bytes),
        })
    }

    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { packets: self.packets.wrapping_sub(before.packets), bytes: self.bytes.wrapping_sub(before.bytes) }
    }
}
