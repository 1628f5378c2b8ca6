//! From a 32-bit hash to a slot of an array.

use std::num::NonZeroU32;

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
}

/// Four [`HighRange`]s side by side, which take four hashes in a few vector instructions. Each is of
/// at most 2³¹ values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(16))]
pub struct HighRanges {
    shift: [u32; 4],
    slots: [u32; 4],
    /// ⌈2^`after` / slots⌉, or 0 for a power of two.
    reciprocal: [u32; 4],
    after: [u32; 4],
}

impl HighRanges {
    /// The slot of a hash without a range is unspecified.
    pub fn new(ranges: [Option<HighRange>; 4]) -> Self {
        let mut all = Self::default();
        for (i, range) in ranges.into_iter().enumerate() {
            let Some(HighRange { shift, slots, reciprocal }) = range else { continue };
            debug_assert!(shift > 0, "more than 2^31 values");
            (all.shift[i], all.slots[i]) = (shift, slots);
            if reciprocal > 0 {
                all.after[i] = 2 * u32::BITS - 1 - (slots - 1).leading_zeros();
                all.reciprocal[i] = ((1u128 << all.after[i]).div_ceil(u128::from(slots))) as u32;
            }
        }
        all
    }

    /// As [`HighRange::slot`], one by one. The reciprocal has 32 bits, and value · reciprocal exceeds
    /// the fraction's 2^`after` by less than value · slots < 2^`after`, so that the quotient is exact
    /// for every value of up to 31 bits.
    #[inline(always)]
    pub fn slots(&self, hashes: &[u32; 4]) -> [u32; 4] {
        std::array::from_fn(|i| {
            let value = u64::from(hashes[i]) >> (self.shift[i] & 63);
            let quotient = (value * u64::from(self.reciprocal[i])) >> (self.after[i] & 63);
            (value as u32).wrapping_sub((quotient as u32).wrapping_mul(self.slots[i]))
        })
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
        fn four_side_by_side_are_the_same(hashes: [u32; 4], n in 1u32..=1 << 24, spare in 0u32..7) {
            let range = |n| Some(HighRange::new(NonZeroU32::new(n).unwrap(), spare));
            for n in [n, n >> 12 | 1, n >> 20 | 1, (1 << 24) - 1] {
                let ranges = [range(n), range(n.next_power_of_two()), range(1), range((n / 2).max(1))];
                let four = HighRanges::new(ranges);
                for hashes in [hashes, [u32::MAX; 4], [0; 4], hashes.map(|hash| hash / n * n)] {
                    let one_by_one = [0, 1, 2, 3].map(|i| ranges[i].unwrap().slot(hashes[i]));
                    prop_assert_eq!(four.slots(&hashes), one_by_one);
                }
            }
        }
    }
}
