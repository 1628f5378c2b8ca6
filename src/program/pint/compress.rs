//! Times in a few bits (§4.3): the multiplicative approximation with randomised rounding of §4.2's
//! third example.
//!
//! A code is the rounded logarithm of the time. Codes stand for times in geometric steps over a
//! [`Range`]; shorter and longer times have the first and the last code. A switch
//! looks the logarithm up in sixteenths of a step, adds four random bits and keeps the whole steps,
//! so that the mean of a time's codes is its logarithm, within 1/32 of a step. The table is one of
//! ranges, as a TCAM matches them; the code computes with integers alone.

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

/// Fewest and most bits of a code. More bits would need a table beyond a switch's.
pub const MIN_CODE_BITS: u32 = 3;
pub const MAX_CODE_BITS: u32 = 12;

/// Bits of the part of a step that is looked up.
const FRACTION_BITS: u32 = 4;

/// Bits behind the first one of a time that choose its place in [`Compression::buckets`].
const BUCKET_BITS: u32 = 6;

/// Number of the bucket of a time: buckets are 64 equal parts of each power of two. Times below 64
/// have one each.
#[inline(always)]
fn bucket(time_ns: u32) -> usize {
    let exponent = (time_ns | 1 << BUCKET_BITS).ilog2() - BUCKET_BITS;
    ((exponent << BUCKET_BITS) + (time_ns >> exponent)) as usize
}

/// One more than the largest [`bucket`].
const BUCKETS: usize = ((u32::BITS - BUCKET_BITS + 1) << BUCKET_BITS) as usize;

/// The codes of one width. Copies share the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Compression {
    /// The shortest time of each sixteenth of a step but the first, ascending.
    starts: Arc<[u32]>,
    /// By bucket, how many of `starts` are in buckets before it. A bucket has few of them, so that few
    /// are compared with a time.
    buckets: Arc<[u16; BUCKETS + 1]>,
    range: Range,
    /// The logarithm of a step's factor, to base 2.
    step: f64,
}

impl Compression {
    /// Codes of `bits` bits, from [`MIN_CODE_BITS`] to [`MAX_CODE_BITS`].
    pub fn new(bits: u32, range: Range) -> Self {
        let [from, to] = [range.from.max(1), range.to].map(f64::from);
        let codes = (1u32 << bits.clamp(MIN_CODE_BITS, MAX_CODE_BITS)) - 1;
        let step = (to / from).log2() / f64::from(codes);
        let parts = f64::from(1 << FRACTION_BITS);
        let start = |part: u32| (from * (step * (f64::from(part) - 0.5) / parts).exp2()).ceil() as u32;
        let starts: Arc<[u32]> = (1..=codes << FRACTION_BITS).map(start).collect();
        let before = |number: usize| starts.partition_point(|start| bucket(*start) < number) as u16;
        Self { buckets: Arc::new(std::array::from_fn(before)), starts, range, step }
    }

    /// The code of a time in nanoseconds. The four low bits of `random` decide how it is rounded.
    #[inline]
    pub fn compress(&self, time_ns: u32, random: u32) -> u32 {
        let bucket = bucket(time_ns);
        let [before, end] = [bucket, bucket + 1].map(|number| usize::from(self.buckets[number]));
        let parts = (before + self.starts[before..end].partition_point(|start| *start <= time_ns)) as u32;
        (parts + (random & ((1 << FRACTION_BITS) - 1))) >> FRACTION_BITS
    }

    /// The time that a code stands for, in nanoseconds.
    pub fn expand(&self, code: u32) -> u64 {
        (f64::from(self.range.from) * (self.step * f64::from(code)).exp2()).round() as u64
    }

    /// The time of the last code, in nanoseconds.
    pub fn largest(&self) -> u64 {
        self.range.to.into()
    }

    /// The factor by which the time of a code is off at most, for times in the
    /// range.
    pub fn error_factor(&self) -> f64 {
        (self.step * (1.0 + 0.5 / f64::from(1 << FRACTION_BITS))).exp2()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A code fits its bits, stands for a time within the bound, and its mean is the logarithm.
        #[test]
        fn codes_are_within_their_bound(
            bits in MIN_CODE_BITS..=MAX_CODE_BITS,
            log in 0.0..32.0f64,
            (from, times) in (100..10_000u32, 2..100_000u32),
            random: u32,
        ) {
            let range = Range { from, to: from * times };
            let (codes, time) = (Compression::new(bits, range), log.exp2() as u32);
            let code = codes.compress(time, random);
            prop_assert!(code < 1 << bits);
            let clamped = f64::from(time.clamp(from, range.to));
            let off = codes.expand(code) as f64 / clamped;
            // A nanosecond more or less for the rounding to whole ones.
            let bound = codes.error_factor() * (1.0 + 1.0 / clamped);
            prop_assert!(off <= bound && 1.0 / off <= bound, "{time} → {code}: {off}");
            let mean = (0..16).map(|random| f64::from(codes.compress(time, random))).sum::<f64>() / 16.0;
            let exact = (clamped / f64::from(from)).log2() / codes.step;
            let whole = (1.0 + 1.0 / clamped).log2() / codes.step;
            prop_assert!((mean - exact).abs() <= 1.0 / 32.0 + whole, "{time}: {mean}, {exact}");
        }
    }

    /// Buckets stand for a search through all ranges.
    #[test]
    fn buckets_find_what_a_search_finds() {
        for bits in [MIN_CODE_BITS, 8, MAX_CODE_BITS] {
            for range in [Range::default(), Range { from: 1, to: 4_000_000_000 }, Range { from: 100, to: 200 }] {
                let codes = Compression::new(bits, range);
                let near = |time: &u32| [time.saturating_sub(1), *time, time.saturating_add(1)];
                let powers = (0..u32::BITS).map(|bit| 1 << bit);
                let edges = powers.chain(codes.starts.iter().copied()).chain([0, u32::MAX]);
                for time in edges.flat_map(|time| near(&time)) {
                    let parts = codes.starts.partition_point(|start| *start <= time) as u32;
                    assert_eq!(codes.compress(time, 0), parts >> FRACTION_BITS, "{time} in {bits} bits");
                    assert_eq!(codes.compress(time, 15), (parts + 15) >> FRACTION_BITS, "{time} in {bits} bits");
                }
            }
        }
    }

    #[test]
    fn the_ends_are_exact() {
        let range = Range::default();
        for bits in MIN_CODE_BITS..=MAX_CODE_BITS {
            let codes = Compression::new(bits, range);
            assert_eq!([0, 1, range.from].map(|time| codes.compress(time, 0)), [0; 3]);
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
