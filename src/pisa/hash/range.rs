//! From a 32-bit hash to a slot of an array.

use std::num::NonZeroU32;

use crate::pisa::Slot;

/// Takes a hash modulo any number of slots without dividing, as P4's `hash(…, base, …, max)` does:
/// base + h mod max.
///
/// The slots of an array that is no power of two are not quite equally likely: some get one hash in
/// 2³² / n more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    slots: u32,
    /// ⌈2⁶⁴ / slots⌉, or 0 for a power of two.
    reciprocal: u64,
}

impl Range {
    pub const fn new(slots: NonZeroU32) -> Self {
        let n = slots.get();
        let reciprocal = if n.is_power_of_two() { 0 } else { u64::MAX / n as u64 + 1 };
        Self { slots: n, reciprocal }
    }

    pub const fn slots(self) -> u32 {
        self.slots
    }

    /// The bits of a hash that are the index, for a power of two.
    pub const fn mask(self) -> Option<u32> {
        if self.reciprocal == 0 { Some(self.slots - 1) } else { None }
    }

    /// `h % slots`. The fraction h / slots is the low half of h · reciprocal; times slots it is the
    /// remainder (Lemire, Kaser, Kurz: Faster remainder by direct computation; exact for every
    /// 32-bit h and divisor).
    #[inline(always)]
    pub const fn index(self, h: u32) -> u32 {
        if self.reciprocal == 0 {
            return h & (self.slots - 1);
        }
        let fraction = self.reciprocal.wrapping_mul(h as u64);
        ((fraction as u128 * self.slots as u128) >> 64) as u32
    }
}

/// Takes a slot from the highest bits of an [index hash](super::index) with the operations of a
/// switch: a shift and, for an array whose length is no power of two, a range match on the shifted
/// hash, which gives the largest multiple of the length that is not above it, and one subtraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HighRange {
    shift: u32,
    slots: u32,
    /// ⌈2⁶⁴ / slots⌉, or 0 for a power of two, where the shifted hash is the slot.
    reciprocal: u64,
}

impl HighRange {
    /// An array whose length is no power of two takes 2^`spare` to 2^(`spare` + 1) times as many
    /// values as it has slots. The range match has as many entries, and some slots get one value
    /// more than others, at most one in 2^`spare`.
    pub const fn new(slots: NonZeroU32, spare: u32) -> Self {
        let n = slots.get();
        let whole = u32::BITS - (n - 1).leading_zeros();
        let bits = if n.is_power_of_two() { whole } else { whole + spare };
        let bits = if bits > u32::BITS { u32::BITS } else { bits };
        Self { shift: u32::BITS - bits, slots: n, reciprocal: Range::new(slots).reciprocal }
    }

    pub const fn slots(self) -> u32 {
        self.slots
    }

    /// Bits of the hash that are used.
    pub const fn bits(self) -> u32 {
        // One slot needs none, but a hash unit has an output.
        if self.slots == 1 { 1 } else { u32::BITS - self.shift }
    }

    /// The slot of an index hash. The quotient is the high half of value · reciprocal, exact for
    /// every 32-bit value and divisor. There is no branch on the kind of length: arrays of both
    /// kinds are side by side.
    #[inline(always)]
    pub const fn slot(self, hash: u32) -> u32 {
        // The shift may be by all 32 bits.
        let value = hash as u64 >> self.shift;
        let quotient = ((value as u128 * self.reciprocal as u128) >> 64) as u32;
        (value as u32).wrapping_sub(quotient.wrapping_mul(self.slots))
    }

    /// Values are below 2 to the power of this times the slots.
    const fn steps(self) -> u32 {
        u32::BITS - self.shift - self.slots.ilog2()
    }

    /// The slots of all these hashes. A remainder is found by subtractions, from that of the
    /// largest multiple on, which a loop does with a vector of hashes at a time.
    #[inline(always)]
    pub fn slots_of(self, hashes: &[u32], slots: &mut [Slot]) {
        for (slot, hash) in slots.iter_mut().zip(hashes) {
            // The shift may be by all 32 bits.
            *slot = Slot(hash.checked_shr(self.shift).unwrap_or(0));
        }
        for step in (0..self.steps()).rev() {
            for Slot(slot) in &mut slots[..] {
                *slot = less(*slot, self.slots << step);
            }
        }
    }
}

/// The value, less the multiple if that is not above it: below, the difference wraps to a larger
/// number than the value.
#[inline(always)]
fn less(value: u32, multiple: u32) -> u32 {
    value.min(value.wrapping_sub(multiple))
}

/// A number below four, as masks: of its lowest bit, of the next one, and of both together.
#[derive(Clone, Copy)]
pub struct Which([u32; 3]);

impl Which {
    /// The number's other bits do not count.
    #[inline(always)]
    pub fn of(number: u32) -> Self {
        let (odd, upper) = ((number & 1).wrapping_neg(), (number >> 1 & 1).wrapping_neg());
        Self([odd, upper, odd & upper])
    }
}

/// Four words, to choose one by its number. They are kept as the first one and what each bit of the
/// number changes, so that a choice is neither a branch nor a load, and a loop makes a vector of
/// choices at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Four {
    first: u32,
    changes: [u32; 3],
}

impl Four {
    pub fn new([a, b, c, d]: [u32; 4]) -> Self {
        Self { first: a, changes: [a ^ b, a ^ c, a ^ b ^ c ^ d] }
    }

    #[inline(always)]
    pub fn choose(self, Which([odd, upper, both]): Which) -> u32 {
        self.first ^ self.changes[0] & odd ^ self.changes[1] & upper ^ self.changes[2] & both
    }
}

/// Four [`HighRange`]s, each with less than eight values a slot. Every hash says which one it
/// takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct HighRanges {
    shift: Four,
    slots: Four,
}

impl HighRanges {
    const STEPS: u32 = 3;

    /// The slot of a hash without a range is unspecified.
    pub fn new(ranges: [Option<HighRange>; 4]) -> Self {
        for range in ranges.iter().flatten() {
            debug_assert!(range.steps() <= Self::STEPS && range.slots >> (u32::BITS - Self::STEPS) == 0, "{range:?}");
        }
        let four = |of: fn(&HighRange) -> u32| Four::new(ranges.each_ref().map(|range| range.as_ref().map_or(0, of)));
        Self { shift: four(|range| range.shift), slots: four(|range| range.slots) }
    }

    /// As [`HighRange::slot`], of one of the ranges.
    #[inline(always)]
    pub fn slot(&self, which: Which, hash: u32) -> u32 {
        let value = hash.checked_shr(self.shift.choose(which)).unwrap_or(0);
        let slots = self.slots.choose(which);
        (0..Self::STEPS).rev().fold(value, |value, step| less(value, slots << step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_the_remainder(h: u32, n in 1u32..) {
            for n in [n, n >> 20 | 1, 1 << (n % 32)] {
                let range = Range::new(NonZeroU32::new(n).unwrap());
                for h in [h, 0, u32::MAX, n, n - 1, h / n * n, (h / n * n).wrapping_sub(1)] {
                    prop_assert_eq!(range.index(h), h % n);
                }
            }
        }

        /// The definition, in wide numbers.
        #[test]
        fn is_the_remainder_of_the_highest_bits(h: u32, n in 1u32..=1 << 24, spare in 0u32..8) {
            for n in [n, n >> 12 | 1, n.next_power_of_two(), 1] {
                let high = HighRange::new(NonZeroU32::new(n).unwrap(), spare);
                let mut values = 1u64;
                while values < u64::from(n) || !n.is_power_of_two() && values < u64::from(n) << spare {
                    values *= 2;
                }
                let value = (u64::from(h) * values) >> 32;
                prop_assert_eq!(u64::from(high.slot(h)), value % u64::from(n), "{} of {}", h, n);
                prop_assert!(n == 1 || 1 << high.bits() == values);
            }
        }

        #[test]
        fn many_are_as_one_by_one(hashes: [u32; 4], n in 1u32..=1 << 24, spare in 0u32..7) {
            for n in [n, n >> 12 | 1, n >> 20 | 1, (1 << 24) - 1, n.next_power_of_two()] {
                let range = |n, spare| HighRange::new(NonZeroU32::new(n).unwrap(), spare);
                let range_of_few = |n| range(n, spare % 3);
                let ranges = [n, n.next_power_of_two(), 1, (n / 2).max(1)].map(range_of_few);
                let four = HighRanges::new(ranges.map(Some));
                for hashes in [hashes, [u32::MAX; 4], [0; 4], hashes.map(|hash| hash / n * n)] {
                    for (which, range) in (0..).zip(ranges) {
                        let one_by_one = hashes.map(|hash| range.slot(hash));
                        prop_assert_eq!(hashes.map(|hash| four.slot(Which::of(which), hash)), one_by_one);
                    }
                    let mut slots = [Slot(7); 4];
                    range(n, spare).slots_of(&hashes, &mut slots);
                    prop_assert_eq!(slots, hashes.map(|hash| Slot(range(n, spare).slot(hash))));
                }
            }
        }
    }
}
