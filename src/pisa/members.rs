//! The packets of a batch, and those of them that later stages may still touch.

use super::Slot;

/// Packets that run stage by stage together.
pub const BATCH: usize = 64;

/// The packets of a batch that later stages may still touch: the places of `len` packets, in order.
#[derive(Clone)]
pub struct Members {
    len: usize,
    places: [u8; BATCH],
}

const _: () = assert!(BATCH <= 1 << u8::BITS && BATCH.is_power_of_two());

impl Members {
    const NONE: Self = Self { len: 0, places: [0; BATCH] };

    /// All of a batch; of one that is too long the first [`BATCH`].
    #[inline(always)]
    pub fn all(len: usize) -> Self {
        Self { len: len.min(BATCH), places: std::array::from_fn(|place| place as u8) }
    }

    /// Adds a packet behind the others if `there`, without a branch on that: which packets go on is
    /// not to be predicted.
    #[inline(always)]
    fn push(&mut self, place: usize, there: bool) {
        self.places[self.len % BATCH] = place as u8;
        self.len += usize::from(there);
    }

    /// Number of packets.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Their places in the batch, in order.
    #[inline(always)]
    pub fn places(&self) -> &[u8] {
        &self.places[..self.len.min(BATCH)]
    }

    /// Calls `does` with the place and the PHV of each, in order. `phvs` are those of the batch.
    #[inline(always)]
    pub fn each<V>(&self, phvs: &mut [V], mut does: impl FnMut(usize, &mut V)) {
        if self.len == phvs.len() {
            for (place, phv) in phvs.iter_mut().enumerate() {
                does(place, phv);
            }
            return;
        }
        for &place in self.places() {
            if let Some(phv) = phvs.get_mut(usize::from(place)) {
                does(usize::from(place), phv);
            }
        }
    }

    /// Calls `does` with the slot and the field of each, in order.
    #[inline(always)]
    pub fn each_slot<T>(&self, slots: &[Slot], fields: &mut [T], mut does: impl FnMut(Slot, &mut T)) {
        if self.len == slots.len() {
            return in_fours(slots, fields, does);
        }
        for place in self.places().iter().copied().map(usize::from) {
            if let (Some(slot), Some(field)) = (slots.get(place), fields.get_mut(place)) {
                does(*slot, field);
            }
        }
    }

    /// The packets of a batch of `len` for which `keep` holds.
    #[inline(always)]
    pub fn of(len: usize, keep: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::NONE;
        (0..len.min(BATCH)).for_each(|place| kept.push(place, keep(place)));
        kept
    }

    /// The members for which `keep` holds.
    #[inline(always)]
    pub fn only<V>(&self, phvs: &mut [V], keep: impl Fn(&V) -> bool) -> Self {
        let mut kept = Self::NONE;
        self.each(phvs, |place, phv| kept.push(place, keep(phv)));
        kept
    }
}

/// Calls `does` with each slot and its field, in order. Four to a round of the loop, because `does`
/// is as short as the loop itself.
#[inline(always)]
pub(super) fn in_fours<T>(slots: &[Slot], fields: &mut [T], mut does: impl FnMut(Slot, &mut T)) {
    let len = slots.len().min(fields.len());
    let (slots, last_slots) = slots[..len].as_chunks::<4>();
    let (fields, last_fields) = fields[..len].as_chunks_mut::<4>();
    for (slots, fields) in slots.iter().zip(fields) {
        for (slot, field) in slots.iter().zip(fields) {
            does(*slot, field);
        }
    }
    for (slot, field) in last_slots.iter().zip(last_fields) {
        does(*slot, field);
    }
}
