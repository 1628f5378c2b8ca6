//! Something that is to happen to a packet with the probability weight / count.
//!
//! A switch neither divides nor multiplies. It compares a random number of 32 bits, `draw`, with the
//! quotient by binary logarithms, which are sums of what tables give:
//! ```text
//! draw / 2³² < weight / count   ⇔   log draw + log count < log weight + 32
//! ```
//! A logarithm is the place of the highest digit and, by a table, a fraction for the six digits behind
//! it. It stands for a number that is off by less than 1 %. So the probability is off by at most a 30th
//! of itself, and in the mean over counts by less than 0.3 %. It is 1 where `count` is at most `weight`.

use super::{Computation, MatchUse, StageUse};

/// Digits behind the highest that the table looks at, and binary digits of a logarithm's fraction.
const DIGITS: u32 = 6;
const FRACTION: u32 = 10;

/// Entries of the match: a number up to 2⁷ each, and 2⁶ for each larger highest digit.
const ENTRIES: u64 = (1 << (DIGITS + 1)) + ((u32::BITS - DIGITS - 1) as u64) * (1 << DIGITS);

/// The fractions of numbers with no digits behind the six, and of numbers with some: of the middle of
/// these.
static FRACTIONS: [[u16; 1 << DIGITS]; 2] = [fractions(0), fractions(1)];

/// 1 + (digits + half / 2) / 2⁶ by digits, its binary logarithm.
const fn fractions(half: u64) -> [u16; 1 << DIGITS] {
    let mut all = [0; 1 << DIGITS];
    let mut digits = 0;
    while digits < all.len() {
        // A number from 1 to 2 with 31 binary places. Squared, its logarithm is twice as large: the
        // highest digit is the next one of the fraction.
        let mut number = ((1 << (DIGITS + 1)) + 2 * digits as u64 + half) << (31 - DIGITS - 1);
        let (mut fraction, mut place) = (0u32, 0);
        while place < FRACTION + 1 {
            number = (number * number) >> 31;
            fraction = fraction << 1 | (number >> 32) as u32;
            if number >> 32 == 1 {
                number >>= 1;
            }
            place += 1;
        }
        all[digits] = ((fraction + 1) >> 1) as u16;
        digits += 1;
    }
    all
}

/// The binary logarithm of a number in units of 2⁻¹⁰; that of 0 is 0.
#[inline(always)]
pub fn log2(number: u32) -> u16 {
    let place = 31 - (number | 1).leading_zeros();
    let behind = number << (31 - place) << 1 >> (u32::BITS - DIGITS);
    let fraction = FRACTIONS[usize::from(place > DIGITS)][behind as usize];
    (place << FRACTION) as u16 + fraction
}

/// Whether something happens with the probability weight / count, by a [random number](super::Draws) of
/// the packet. With a weight of 0 it does not happen.
#[inline(always)]
pub fn happens(draw: u32, weight: u32, count: u32) -> bool {
    (weight > 0) & (log2(draw) + log2(count) < log2(weight) + ((u32::BITS << FRACTION) as u16))
}

/// The matches that give the logarithms of this number of fields, in one stage.
pub fn logarithms(name: &'static str, fields: usize) -> StageUse {
    let log = MatchUse { name, entries: ENTRIES, key_bits: u32::BITS };
    let computes = vec![Computation::Logarithm; fields];
    StageUse { matches: vec![log; fields], computes, ..StageUse::default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The share of all draws with which it happens: it happens for those below a limit.
    fn share(weight: u32, count: u32) -> f64 {
        let (mut low, mut high) = (0u64, 1u64 << 32);
        while low < high {
            let middle = (low + high) / 2;
            if happens(middle as u32, weight, count) { low = middle + 1 } else { high = middle }
        }
        low as f64 / 2f64.powi(32)
    }

    proptest! {
        #[test]
        fn logarithms_are_right(number in 1u32.., shift in 0..32u32) {
            let number = (number >> shift).max(1);
            let exact = f64::from(number).log2() * 1024.0;
            let off = (f64::from(log2(number)) - exact).abs();
            prop_assert!(off <= if number < 128 { 0.51 } else { 12.2 }, "{number}: {off}");
        }

        #[test]
        fn the_probability_is_the_quotient(weight in 1u32..1 << 16, factor in 1u32..1 << 12, more in 0u32..1 << 8) {
            let count = weight * factor + more;
            let (share, exact) = (share(weight, count), f64::from(weight) / f64::from(count));
            prop_assert!((share / exact - 1.0).abs() < 1.0 / 30.0, "{weight} of {count}: {share}, not {exact}");
        }
    }

    #[test]
    fn it_is_certain_and_right_in_the_mean() {
        for count in [1, 7, 100, 1 << 20, u32::MAX] {
            assert!([0, 1, 1 << 31, u32::MAX].into_iter().all(|draw| happens(draw, count, count)));
            assert!(happens(u32::MAX, count, count / 2) && !happens(0, 0, count));
        }
        let mean = (1..5000).map(|count| share(1, count) * f64::from(count) - 1.0).sum::<f64>() / 5000.0;
        assert!(mean.abs() < 0.003, "{mean}");
    }
}
