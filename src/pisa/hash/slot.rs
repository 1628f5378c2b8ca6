//! The index hash of a register array: a hash unit and the array's number of slots.

use std::num::NonZeroU32;

use super::{Crc, Polynomial, Range};
use crate::pisa::{Slot, Slots};
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

    #[inline(always)]
    pub fn slot<K: FlowKey>(&self, key: K) -> Slot {
        Slot(self.range.index(self.crc.hash_key(key)))
    }

    /// The slots of several keys, in order.
    #[inline(always)]
    pub fn slots<K: FlowKey>(&self, keys: impl Iterator<Item = K>, slots: &mut Slots) {
        self.crc.hash_keys(keys, slots);
        let (slots, _) = slots.parts();
        let range = self.range;
        slots.iter_mut().for_each(|slot| slot.0 = range.index(slot.0));
    }

    /// Bits that name a slot.
    pub fn bits(&self) -> u32 {
        u32::BITS - (self.range.slots() - 1).leading_zeros()
    }
}
