//! The index hash of a register array: a hash unit and the array's number of slots.

use std::num::NonZeroU32;

use super::{Crc, HashFamily, HashLayout, Polynomial, Range, SlotRange};
use crate::pisa::{BATCH, Slot};
use crate::wire::FlowKey;

/// From a key to a slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotHash {
    crc: Crc,
    range: Range,
}

impl SlotHash {
    pub fn new(polynomial: Polynomial, slots: NonZeroU32) -> Self {
        Self { crc: Crc::new(polynomial), range: Range::new(slots) }
    }

    /// The unit of a CRC that names slots by the remainder. Of a description without slots it names
    /// the first one.
    pub fn of(layout: &HashLayout, family: &HashFamily) -> Self {
        Self::new(layout.polynomial(family), layout.range.map_or(NonZeroU32::MIN, SlotRange::slots))
    }

    #[inline(always)]
    pub fn slot<K: FlowKey>(&self, key: K) -> Slot {
        Slot(self.range.index(self.crc.hash_key(key)))
    }

    /// The slots of the keys of these, in order. What it leaves behind them is of no meaning.
    #[inline(always)]
    pub fn slots<K: FlowKey, T>(&self, of: &[T], key: impl Fn(&T) -> K, slots: &mut [Slot; BATCH]) {
        let mask = self.range.mask();
        self.crc.hash_keys(of, key, mask.unwrap_or(u32::MAX), slots);
        if mask.is_none() {
            let range = self.range;
            for (slot, _) in slots.iter_mut().zip(of) {
                slot.0 = range.index(slot.0);
            }
        }
    }

    /// Bits that name a slot.
    pub fn bits(&self) -> u32 {
        u32::BITS - (self.range.slots() - 1).leading_zeros()
    }
}
