//! From a 32-bit hash to a slot of an array.

use std::num::NonZeroU32;

/// Takes a hash modulo any number of slots without dividing, as P4's `hash(…, base, …, max)` does: base + h mod max.
///
/// The slots of an array that is no power of two are not quite equally likely: some get one hash in 2³² / n more.
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

    /// `h % slots`. The fraction h / slots is the low half of h · reciprocal; times slots it is the remainder
    /// (Lemire, Kaser, Kurz: Faster remainder by direct computation; exact for every 32-bit h and divisor).
    #[inline(always)]
    pub const fn index(self, h: u32) -> u32 {
        if self.reciprocal == 0 {
            return h & (self.slots - 1);
        }
        let fraction = self.reciprocal.wrapping_mul(h as u64);
        ((fraction as u128 * self.slots as u128) >> 64) as u32
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
    }
}
