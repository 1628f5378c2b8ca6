//! Times in a few bits (§4.3): the multiplicative approximation with randomised rounding of §4.2's
//! third example.
//!
//! A code is the rounded logarithm of the time. Codes stand for times in geometric steps over a
//! [`Range`]; shorter and longer times have the first and the last code. A switch finds it with two
//! tables, an addition and a shift, all of integers:
//!
//! ```text
//! exponent   number of doublings from 2⁷ on: a ternary match on the highest bit, 26 entries
//! mantissa   the 7 bits behind the highest one; a time below 2⁷ is its own mantissa, with exponent 0
//! part       an exact match on (exponent, mantissa): the logarithm in sixteenths of a step
//! code       (part + four random bits) >> 4
//! ```
//! The exact table has 128 entries for each exponent from that of `from` to that of `to`: 2816 for
//! the default range, whatever the bits. An entry has the rounded logarithm of the middle of its
//! times. [`Compression::exponents`] and [`Compression::entries`] are the content of the tables.
//!
//! *Guarantee:* Times with one mantissa are within a factor of 1 + 2⁻⁸ of their middle, and a part is
//! within 1/32 of a step of its logarithm. So the mean of a time's codes is the time's logarithm
//! within 1/32 of a step and a factor of 1.0039, and a code is within a step more than that. Times
//! below 2⁸ are looked up as they are.
//!
//! *Deviation:* The paper rounds the logarithm of the whole number. As ranges of whole numbers in TCAM,
//! codes of 8 bits for the default range take 44 580 entries. Cut off mantissas add 0.4 % at most: a
//! 16th of a step of 8 bits over the default range, a quarter of one from 1 µs to 60 µs, and a whole one
//! of 12 bits over the default range.
//!
//! The tables are computed with integers alone, so all switches have the same ones
//! (`tests/golden/latency.txt`).

use std::sync::Arc;

use crate::text::named;

named! {
    /// Whether a factor or a number bounds the error of a number in few bits (§4.3). The key is
    /// `compression`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Approximation {
        /// A factor.
        Multiplicative = "multiplicative",
        /// A number: codes go in equal steps.
        Additive = "additive",
    }
}

/// The numbers that codes tell apart, in the unit of their value: nanoseconds of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Numbers up to this need not be told apart.
    pub from: u32,
    /// Neither need those from this on.
    pub to: u32,
}

/// What a switch may take, from a little to very much.
impl Default for Range {
    fn default() -> Self {
        Self { from: 256, to: 1_000_000_000 }
    }
}

/// Fewest and most bits of a code. With more, a part would have more than 16.
pub const MIN_CODE_BITS: u32 = 3;
pub const MAX_CODE_BITS: u32 = 12;

/// Bits of the part of a step that is looked up.
pub const FRACTION_BITS: u32 = 4;

/// Bits of a time behind its highest one that the exact table is looked up with.
pub const MANTISSA_BITS: u32 = 7;

/// Exponents that times have: 0 below 2 to the power of [`MANTISSA_BITS`], and one more for each
/// doubling.
pub const EXPONENTS: u32 = u32::BITS - MANTISSA_BITS + 1;

/// Bits of an exponent.
pub const EXPONENT_BITS: u32 = EXPONENTS.next_power_of_two().ilog2();

/// Places of all exponents and mantissas.
const PLACES: usize = (EXPONENTS << MANTISSA_BITS) as usize;

/// The place of a time: its exponent, and behind that its mantissa.
#[inline(always)]
fn place(time_ns: u32) -> usize {
    // One less than the exponent, but 0 where that is 0. The highest bit adds the one.
    let shift = (time_ns | 1 << MANTISSA_BITS).ilog2() - MANTISSA_BITS;
    ((shift << MANTISSA_BITS) + (time_ns >> shift)) as usize
}

/// Twice the mean of the times in a place.
fn twice_middle(place: usize) -> u64 {
    let (exponent, mantissa) = (place >> MANTISSA_BITS, place as u64 & ((1 << MANTISSA_BITS) - 1));
    let (highest, shift) = if exponent == 0 { (0, 0) } else { (1 << MANTISSA_BITS, exponent - 1) };
    let first = (highest | mantissa) << shift;
    2 * first + (1 << shift) - 1
}

/// Bits behind the point of [`fixed_log`].
const LOG_BITS: u32 = 40;

/// The binary logarithm of a number from 1 to 2³⁴, in units of 2⁻⁴⁰, rounded down. Each squaring
/// brings out the next bit.
fn fixed_log(number: u64) -> u64 {
    let whole = number.ilog2();
    // From 1 to 2, with 63 bits behind the point.
    let mut x = number << (u64::BITS - 1 - whole);
    (0..LOG_BITS).fold(whole.into(), |bits, _| {
        let square = (u128::from(x) * u128::from(x)) >> (u64::BITS - 1);
        let above = (square >> u64::BITS) as u64;
        x = (square >> above) as u64;
        bits << 1 | above
    })
}

/// An entry of the ternary table, which finds the highest bit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exponent {
    pub exponent: u32,
    /// A time has this exponent if its bits in `mask` are those of `value`. One entry matches each time.
    pub value: u32,
    pub mask: u32,
    /// The mantissa is the lowest [`MANTISSA_BITS`] bits of the time, shifted down by this.
    pub shift: u32,
    /// The part of all times with this exponent, where the exact table has no entries for it.
    pub part: Option<u16>,
}

/// An entry of the exact table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub exponent: u32,
    pub mantissa: u32,
    /// The logarithm in steps from that of [`Range::from`] on, with [`FRACTION_BITS`] bits behind the
    /// point.
    pub part: u16,
}

/// The codes of one width. Copies share the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Compression {
    /// By place.
    parts: Arc<[u16; PLACES]>,
    range: Range,
    last: u32,
    /// The logarithm of a step's factor, to base 2.
    step: f64,
}

impl Compression {
    /// Codes of `bits` bits, from [`MIN_CODE_BITS`] to [`MAX_CODE_BITS`].
    pub fn new(bits: u32, range: Range) -> Self {
        let range = Range { from: range.from.max(1), ..range };
        let last = (1u32 << bits.clamp(MIN_CODE_BITS, MAX_CODE_BITS)) - 1;
        let [from, to] =
            [range.from, range.to.max(range.from.saturating_add(1))].map(|end| fixed_log(2 * u64::from(end)));
        let part = |place: usize| {
            let steps = fixed_log(twice_middle(place).max(1)).clamp(from, to) - from;
            let (parts, all) = (steps * u64::from(last << FRACTION_BITS), to - from);
            ((2 * parts + all) / (2 * all)) as u16
        };
        let step = (f64::from(range.to) / f64::from(range.from)).log2() / f64::from(last);
        Self { parts: Arc::new(std::array::from_fn(part)), range, last, step }
    }

    /// The logarithm of a time in nanoseconds, as the tables give it ([`Entry::part`]).
    #[inline(always)]
    pub fn part(&self, time_ns: u32) -> u16 {
        self.parts[place(time_ns)]
    }

    /// The code of a time in nanoseconds. The four low bits of `random` decide how it is rounded.
    #[inline(always)]
    pub fn compress(&self, time_ns: u32, random: u32) -> u32 {
        (u32::from(self.part(time_ns)) + (random & ((1 << FRACTION_BITS) - 1))) >> FRACTION_BITS
    }

    /// The time that a code stands for, in nanoseconds.
    pub fn expand(&self, code: u32) -> u64 {
        (f64::from(self.range.from) * (self.step * f64::from(code)).exp2()).round() as u64
    }

    /// The time of the last code, in nanoseconds.
    pub fn largest(&self) -> u64 {
        self.range.to.into()
    }

    /// The factor by which the time of a code is off at most, for times in the range: a step, half of
    /// what a part is rounded to, and the mantissa that is cut off.
    pub fn error_factor(&self) -> f64 {
        let step = (self.step * (1.0 + 0.5 / f64::from(1 << FRACTION_BITS))).exp2();
        step * (1.0 + 0.5 / f64::from(1 << MANTISSA_BITS))
    }

    /// Bits of a part.
    pub fn part_bits(&self) -> u32 {
        self.last.count_ones() + FRACTION_BITS
    }

    /// The ternary table: one entry for each exponent.
    pub fn exponents(&self) -> impl Iterator<Item = Exponent> {
        let [first, last] = self.ends();
        (0..EXPONENTS).map(move |exponent| {
            let value = if exponent == 0 { 0 } else { 1 << (exponent + MANTISSA_BITS - 1) };
            let mask = !(value.max(1 << MANTISSA_BITS) - 1);
            let part = (!(first..=last).contains(&exponent)).then(|| self.part(value));
            Exponent { exponent, value, mask, shift: exponent.saturating_sub(1), part }
        })
    }

    /// The exact table: an entry for each mantissa of each exponent that times in the range have, in
    /// ascending order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        let [first, last] = self.ends();
        let mantissas = 0..1 << MANTISSA_BITS;
        (first..=last).flat_map(move |exponent| mantissas.clone().map(move |mantissa| (exponent, mantissa))).map(
            |(exponent, mantissa)| {
                let part = self.parts[(exponent << MANTISSA_BITS | mantissa) as usize];
                Entry { exponent, mantissa, part }
            },
        )
    }

    /// The exponents of the ends of the range.
    fn ends(&self) -> [u32; 2] {
        [self.range.from, self.range.to].map(|end| (place(end) >> MANTISSA_BITS) as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pisa::hash::{INIT, Polynomial, XOROUT, bitwise};

    /// The code as the module's doc has it, from the content of the tables alone.
    fn by_tables(codes: &Compression, time: u32, random: u32) -> u32 {
        let found: Vec<_> = codes.exponents().filter(|entry| time & entry.mask == entry.value).collect();
        let [Exponent { exponent, shift, part, .. }] = found[..] else { panic!("{time}: {found:?}") };
        let mantissa = time >> shift & ((1 << MANTISSA_BITS) - 1);
        let mut entries = codes.entries().filter(|entry| (entry.exponent, entry.mantissa) == (exponent, mantissa));
        let part = match (part, entries.next()) {
            (Some(part), None) => part,
            (None, Some(entry)) => entry.part,
            both => panic!("{time}: {both:?}"),
        };
        assert!(part.checked_shr(codes.part_bits()).unwrap_or_default() == 0);
        (u32::from(part) + random % 16) / 16
    }

    /// The exact logarithm of a time, in steps, and by how much less or more it is for the times that are
    /// looked up alike.
    fn exact(codes: &Compression, time: u32) -> (f64, f64) {
        let steps = (f64::from(time.clamp(codes.range.from, codes.range.to)) / f64::from(codes.range.from)).log2();
        (steps / codes.step, (1.0 + 0.5 / f64::from(1 << MANTISSA_BITS)).log2() / codes.step)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A code fits its bits, is within a step of the logarithm, stands for a time within the bound, and
        /// its mean is the logarithm, but for what is cut off. Of a longer time it is no less.
        #[test]
        fn codes_are_within_their_bound(
            bits in MIN_CODE_BITS..=MAX_CODE_BITS,
            log in 0.0..32.0f64,
            (from, times) in (1..10_000u32, 2..100_000u32),
            random: u32,
        ) {
            let range = Range { from, to: from * times };
            let (codes, time) = (Compression::new(bits, range), log.exp2() as u32);
            let code = codes.compress(time, random);
            prop_assert!(code < 1 << bits);
            prop_assert_eq!(code, by_tables(&codes, time, random));
            prop_assert!(code <= codes.compress(time.saturating_add(1), random));
            let ((steps, cut), around) = (exact(&codes, time), 1.0 / 32.0 + 1e-6);
            prop_assert!((f64::from(code) - steps).abs() < 1.0 + around + cut, "{time}: {code}, {steps}");
            let mean = (0..16).map(|random| f64::from(codes.compress(time, random))).sum::<f64>() / 16.0;
            prop_assert!((mean - steps).abs() <= around + cut, "{time}: {mean}, {steps}");
            let stands = f64::from(from) * (codes.step * f64::from(code)).exp2();
            prop_assert!((codes.expand(code) as f64 - stands).abs() <= 0.5, "{code} → {stands}");
            let (off, bound) = (stands / f64::from(time.clamp(from, range.to)), codes.error_factor() + 1e-6);
            prop_assert!(off <= bound && 1.0 / off <= bound, "{time} → {code}: {off}");
            if time < 2 << MANTISSA_BITS {
                prop_assert!((mean - steps).abs() <= around, "{time} is looked up as it is: {mean}, {steps}");
            }
        }
    }

    /// Tables and fast path give the same at all edges, with every random number, and longer times have
    /// no smaller parts.
    #[test]
    fn tables_are_the_code() {
        for bits in [MIN_CODE_BITS, 8, MAX_CODE_BITS] {
            for range in [Range::default(), Range { from: 1, to: 4_000_000_000 }, Range { from: 100, to: 200 }] {
                let codes = Compression::new(bits, range);
                let near = |time: u32| [time.saturating_sub(1), time, time.saturating_add(1)];
                let powers = (0..u32::BITS).map(|bit| 1 << bit);
                let edges = powers.flat_map(|power| [power, power + power / 2, power + power / 128]);
                let mut times: Vec<_> = edges.chain([range.from, range.to, u32::MAX]).flat_map(near).collect();
                times.sort_unstable();
                for time in &times {
                    for random in 0..16 {
                        assert_eq!(codes.compress(*time, random), by_tables(&codes, *time, random), "{time}, {bits}");
                    }
                }
                assert!(times.is_sorted_by_key(|time| codes.part(*time)));
            }
        }
    }

    /// As many entries as a switch takes, of which `weir budget` tells.
    #[test]
    fn tables_have_their_size() {
        let sizes = |from, to| {
            let codes = Compression::new(8, Range { from, to });
            (codes.exponents().count(), codes.entries().count(), codes.part_bits())
        };
        assert_eq!(sizes(256, 1_000_000_000), (26, 2816, 12));
        assert_eq!(sizes(1000, 60_000), (26, 896, 12));
        assert_eq!(sizes(1, 4_000_000_000), (26, 3328, 12));
        assert_eq!(EXPONENT_BITS + MANTISSA_BITS, 12);
    }

    /// `tests/golden/latency.txt` was made by the few lines of Python in its head, independently of this
    /// code: bits, ends of the range, entries, the CRC-32 of the exact table, and parts of times.
    #[test]
    fn golden_tables() {
        const TIMES: [u32; 12] = [0, 127, 128, 255, 256, 1000, 1003, 65_535, 65_536, 12_345_678, 999_999_999, u32::MAX];
        let mut lines = 0;
        for line in include_str!("../../../tests/golden/latency.txt").lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split(' ').collect();
            let number = |place: usize| fields[place].parse::<u32>().unwrap();
            let codes = Compression::new(number(0), Range { from: number(1), to: number(2) });
            let bytes: Vec<_> = codes
                .entries()
                .flat_map(|Entry { exponent, mantissa, part }| {
                    let [high, low] = part.to_be_bytes();
                    [exponent as u8, mantissa as u8, high, low]
                })
                .collect();
            let crc = bitwise::crc(Polynomial::STANDARD[0], INIT, XOROUT, &bytes);
            assert_eq!((bytes.len() / 4, format!("{crc:08x}")), (number(3) as usize, fields[4].to_owned()), "{line}");
            let parts: Vec<_> = TIMES.iter().map(|time| codes.part(*time).to_string()).collect();
            assert_eq!(parts, fields[5..], "{line}");
            lines += 1;
        }
        assert_eq!(lines, 8);
    }

    #[test]
    fn the_ends_are_exact() {
        let range = Range::default();
        for bits in MIN_CODE_BITS..=MAX_CODE_BITS {
            let codes = Compression::new(bits, range);
            assert_eq!([0, 1, range.from].map(|time| codes.compress(time, 0)), [0; 3]);
            assert_eq!([range.from - 1, 1 << 30].map(|time| codes.part(time)), [0, (codes.last << 4) as u16]);
            assert_eq!([range.to, u32::MAX].map(|time| codes.compress(time, 15)), [(1 << bits) - 1; 2]);
            assert_eq!(codes.expand(0), u64::from(range.from));
            assert_eq!(codes.expand((1 << bits) - 1), u64::from(range.to));
        }
        // The authors' code has 2.2 % for 8 bits and 42 % for 4, for times up to 2^16.
        for (bits, error) in [(8, 1.022), (4, 1.42)] {
            let codes = Compression::new(bits, Range { from: 1, to: 1 << 16 });
            assert!((codes.step.exp2().sqrt() - error).abs() < 0.03, "{codes:?}");
        }
    }
}
