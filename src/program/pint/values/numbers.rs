//! Numbers in a few bits: exact or in equal steps where they are small, and in steps that double
//! with the number where they are large (§4.3), with randomised rounding.
//!
//! A code is a binary number with a short mantissa: codes below 2ᵐ stand for as many units, and
//! behind them each power of two has 2ᵐ codes. With as many bits for the mantissa as a code has,
//! all steps are equal: the additive approximation. With fewer a step is at most a 2ᵐ-th of the
//! number: the multiplicative one.
//!
//! A switch adds random bits below the step and cuts them off, so that the mean of a number's codes
//! is the number itself, exactly. That makes sums unbiased that are counted in such codes. It takes
//! the place of the highest bit, which a TCAM finds, shifts and additions.

use crate::program::pint::compress::{MAX_CODE_BITS, Range};

/// The codes of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The binary logarithm of the smallest step.
    unit: u32,
    /// Bits of a code below its exponent.
    mantissa: u32,
    last: u16,
}

impl Numbers {
    /// Codes of up to [`MAX_CODE_BITS`] bits that tell numbers up to `range.to` apart, the finer the
    /// smaller they are, but none by less than `range.from`. Where the bits do not reach that far,
    /// they reach as far as they can.
    pub fn new(bits: u32, range: Range) -> Self {
        let bits = bits.clamp(1, MAX_CODE_BITS);
        let unit = range.from.max(1).ilog2();
        let largest = |mantissa: u32| {
            let steps = (2u128 << mantissa) - 1;
            steps << (unit + (1 << (bits - mantissa)) - 2).min(64)
        };
        let reaches = |mantissa: &u32| largest(*mantissa) >= range.to.into();
        let linear = ((1u64 << bits) - 1) << unit >= range.to.into();
        let mantissa = if linear { Some(bits) } else { (0..bits).rev().find(reaches) };
        Self { unit, mantissa: mantissa.unwrap_or(0), last: ((1u32 << bits) - 1) as u16 }
    }

    /// Codes of up to [`MAX_CODE_BITS`] bits in equal steps from 0: of the least power of two with which
    /// they reach `range.to`, or that `range.from` reaches, if that is larger.
    pub fn additive(bits: u32, range: Range) -> Self {
        let bits = bits.clamp(1, MAX_CODE_BITS);
        let last = (1u32 << bits) - 1;
        let step = u64::from(range.to.div_ceil(last).max(1)).next_power_of_two();
        Self { unit: step.ilog2().max(range.from.max(1).ilog2()), mantissa: bits, last: last as u16 }
    }

    /// The code of a number. The bits of `random` decide how it is rounded; numbers beyond the last
    /// code have that one.
    #[inline(always)]
    pub fn encode(&self, number: u64, random: u32) -> u16 {
        let step = 1u64 << (self.unit + self.exponent(number).saturating_sub(1));
        let number = number.saturating_add(u64::from(random) & (step - 1));
        let exponent = self.exponent(number);
        let steps = number >> (self.unit + exponent.saturating_sub(1));
        let code = u64::from(exponent) << self.mantissa | steps & ((1 << self.mantissa) - 1);
        if code < self.last.into() { code as u16 } else { self.last }
    }

    /// 0 of numbers in the smallest steps without a highest digit, and one more for each doubling.
    #[inline(always)]
    fn exponent(&self, number: u64) -> u32 {
        let high = number >> self.unit >> self.mantissa;
        if high == 0 { 0 } else { high.ilog2() + 1 }
    }

    /// The number that a code stands for.
    #[inline(always)]
    pub fn expand(&self, code: u16) -> u64 {
        let code = u64::from(code.min(self.last));
        let (exponent, digits) = (code >> self.mantissa, code & ((1 << self.mantissa) - 1));
        match exponent {
            0 => digits << self.unit,
            _ => (1 << self.mantissa | digits) << (u64::from(self.unit) + exponent - 1).min(63),
        }
    }

    /// By how much a number is off at most: by less than this, or less than its own
    /// [`Self::error_factor`] says, whichever is more.
    pub fn error(&self) -> u64 {
        if self.unit == 0 { 0 } else { 1 << self.unit }
    }

    /// The factor by which a number is off at most because of its size.
    pub fn error_factor(&self) -> f64 {
        if u32::from(self.last).count_ones() == self.mantissa { 1.0 } else { 1.0 + 0.5f64.powi(self.mantissa as i32) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The numbers that codes stand for, as the module's doc says it.
    fn grid(codes: &Numbers) -> Vec<f64> {
        let (unit, per) = (2f64.powi(codes.unit as i32), 1usize << codes.mantissa);
        let number = |code: usize| match code / per {
            0 => code as f64 * unit,
            exponent => (per + code % per) as f64 * unit * 2f64.powi(exponent as i32 - 1),
        };
        (0..=usize::from(codes.last)).map(number).collect()
    }

    fn codes() -> impl Strategy<Value = (u32, Range, Numbers)> {
        let range = (0..20u32, 1..32u32).prop_map(|(from, span)| {
            let to = 1u64 << (from + span).min(32);
            Range { from: 1 << from, to: (to - 1) as u32 }
        });
        (1..=MAX_CODE_BITS, range, any::<bool>()).prop_map(|(bits, range, is_additive)| {
            let new = if is_additive { Numbers::additive } else { Numbers::new };
            (bits, range, new(bits, range))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A code is one of the two numbers of the grid around what it stands for, the nearer the
        /// likelier, so that the mean is exact. What was rounded up of a smaller number is no larger.
        #[test]
        fn codes_are_right_on_average((bits, range, codes) in codes(), log in 0.0..33.0f64, random: u32) {
            let grid = grid(&codes);
            let last = *grid.last().unwrap();
            prop_assert_eq!(grid.len(), 1 << bits);
            for (code, number) in grid.iter().enumerate() {
                if *number < 2f64.powi(63) {
                    prop_assert_eq!(codes.expand(code as u16) as f64, *number);
                    prop_assert_eq!(usize::from(codes.encode(*number as u64, random)), code);
                }
            }
            prop_assert!(bits < 6 || last >= f64::from(range.to) || last >= 2f64.powi(31), "{range:?}: {last}");
            let number = (log.exp2() as u64).min(range.to.into());
            if number as f64 >= last {
                prop_assert_eq!(codes.encode(number, random), codes.last);
                return Ok(());
            }
            let below = grid.iter().rposition(|of| *of <= number as f64).unwrap();
            let step = grid[below + 1] - grid[below];
            // As many of the step's random numbers round up as the number lies above.
            let up = number - grid[below] as u64;
            for random in [0, (step as u64 - up).saturating_sub(1), step as u64 - up, step as u64 - 1] {
                let expected = below + usize::from(random + up >= step as u64 && random < step as u64);
                prop_assert_eq!(usize::from(codes.encode(number, random as u32)), expected, "{} {}", number, random);
            }
            let off = (codes.expand(codes.encode(number, random)) as f64 - number as f64).abs();
            let bound = (codes.error() as f64).max(number as f64 * (codes.error_factor() - 1.0));
            prop_assert!(off <= bound, "{number} is off by {off}, {codes:?}");
            prop_assert!(codes.encode(number, random) <= codes.encode(number + 1, random));
        }
    }

    /// The steps of an additive code are equal, of a power of two; half of one does not reach, unless it
    /// is below the smallest number that matters.
    #[test]
    fn additive_steps_are_equal() {
        for bits in 1..=MAX_CODE_BITS {
            for (from, to) in [(1, 2), (1, 255), (3, 256), (256, 1_000_000_000), (1000, 100_000), (1, u32::MAX)] {
                let codes = Numbers::additive(bits, Range { from, to });
                let (step, last) = (codes.expand(1), (1u64 << bits) - 1);
                assert!((0..=last).all(|code| codes.expand(code as u16) == code * step), "{bits} {codes:?}");
                assert!(step.is_power_of_two() && last * step >= u64::from(to) && codes.error_factor() == 1.0);
                let is_least = last * step / 2 < u64::from(to) || step <= u64::from(from);
                assert!(is_least, "{bits} {from} {to}: {step}");
                assert_eq!(codes.error(), if step == 1 { 0 } else { step });
            }
        }
    }

    /// Equal steps where the bits suffice for that, and the finest that reach where they do not.
    #[test]
    fn steps_follow_from_the_range() {
        let of = |bits, from, to| Numbers::new(bits, Range { from, to });
        let queue = of(8, 1, 255);
        assert!((0..256).all(|number| queue.expand(queue.encode(number, u32::MAX)) == number));
        assert_eq!((queue.error(), queue.error_factor()), (0, 1.0));
        let coarse = of(4, 1 << 12, (1 << 16) - (1 << 12));
        assert_eq!([0, 4096, 61_440].map(|number| coarse.encode(number, 0)), [0, 1, 15]);
        assert_eq!((coarse.error(), coarse.error_factor()), (4096, 1.0));
        let wide = of(8, 1, 2048);
        assert_eq!((wide.expand(255), wide.error_factor()), (63 << 6, 1.0 + 1.0 / 32.0));
        // A bit tells nothing from something.
        assert_eq!([0, 1, 9].map(|number| of(1, 1, 1).encode(number, 0)), [0, 1, 1]);
    }
}
