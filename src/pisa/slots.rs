//! The slots of a batch, and room to compute them in.

use super::{BATCH, Slot};

/// The slots of several packets. It is made once for many stages: what is in it from the stage before
/// is of no meaning.
#[repr(align(64))]
pub struct Slots {
    slots: [Slot; BATCH],
    /// The packets' keys as numbers.
    pub(super) keys: [u128; BATCH],
}

impl Default for Slots {
    fn default() -> Self {
        Self { slots: [Slot(0); BATCH], keys: [0; BATCH] }
    }
}

impl Slots {
    /// Takes these for the packets in their order; those past a batch are left out.
    #[inline(always)]
    pub fn fill(&mut self, slots: impl Iterator<Item = Slot>) {
        self.slots.iter_mut().zip(slots).for_each(|(own, slot)| *own = slot);
    }

    /// Those of the first packets.
    #[inline(always)]
    pub(super) fn first(&self, packets: usize) -> &[Slot] {
        &self.slots[..packets.min(BATCH)]
    }

    /// The slots to be written, and the keys.
    #[inline(always)]
    pub(super) fn parts(&mut self) -> (&mut [Slot; BATCH], &mut [u128; BATCH]) {
        (&mut self.slots, &mut self.keys)
    }
}
