//! What may change from epoch to epoch: how the encoders are divided, the thresholds, the sample
//! rate.

use std::cmp::Reverse;

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};

use super::ChameleMon;
use super::config::Parts;
use super::dataplane::{MAX_ROWS, Part, Place, class};
use crate::pisa::hash::{HighRange, HighSlots};
use crate::program::{Program, ProgramError};

/// What is fixed when the switch is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Bucket arrays of full length.
    pub arrays: u32,
    /// When above 0, one more array, of 2^−`small` of the others' length.
    pub small: u32,
    /// Buckets an array of the upstream encoder.
    pub upstream: u32,
    /// Buckets an array of the downstream encoder.
    pub downstream: u32,
    /// The lengths that parts may have.
    #[serde(default, skip_serializing_if = "Parts::are_any")]
    pub parts: Parts,
}

/// Buckets an array of parts that are powers of two, the shortest first.
pub const POWERS: [u32; 3] = [512, 1024, 2048];

impl Shape {
    /// Whether a part may have this number of buckets an array.
    fn allows(&self, length: u32) -> bool {
        self.parts == Parts::Any || length == 0 || POWERS.contains(&length)
    }

    /// The longest part of at most this length; 0 if there is none.
    pub fn longest_part(&self, most: u32) -> u32 {
        match self.parts {
            Parts::Any => most,
            Parts::Powers => POWERS.into_iter().rev().find(|length| *length <= most).unwrap_or(0),
        }
    }

    /// The shortest part of at least this length, or the longest one that there is.
    pub fn shortest_part(&self, least: u32) -> u32 {
        match self.parts {
            Parts::Any => least,
            Parts::Powers => POWERS.into_iter().find(|length| *length >= least).unwrap_or(POWERS[POWERS.len() - 1]),
        }
    }

    pub fn rows(&self) -> u32 {
        self.arrays + u32::from(self.small > 0)
    }

    /// Buckets of a row of an encoder or of a part of one, that has `buckets` in a full array.
    pub fn width(&self, row: u32, buckets: u32) -> u32 {
        if row < self.arrays || buckets == 0 { buckets } else { (buckets >> self.small).max(1) }
    }

    /// Buckets of a row of a whole encoder: a small row keeps at least one for each of its three
    /// parts.
    pub fn cells(&self, row: u32, buckets: u32) -> u32 {
        if row < self.arrays { buckets } else { (buckets >> self.small) + 3 }
    }

    /// Where the parts of the given lengths lie in each row, from the left; the whole begins at
    /// `start(row)`. Of powers of two the longest is first, so that each begins at a multiple of its
    /// length: a bucket is then bits of a hash behind bits of the part.
    fn parts<const N: usize>(&self, lengths: [u32; N], start: impl Fn(u32) -> u32) -> [Part; N] {
        let mut offsets: ArrayVec<u32, MAX_ROWS> = (0..self.rows()).map(start).collect();
        let mut order: [usize; N] = std::array::from_fn(|part| part);
        if self.parts == Parts::Powers {
            order.sort_by_key(|part| Reverse(lengths[*part]));
        }
        let mut parts = lengths.map(|_| Part::new());
        for number in order {
            let place = |(row, offset): (u32, &mut u32)| {
                let width = self.width(row, lengths[number]);
                let place = Place::new(*offset, width);
                *offset += width;
                place
            };
            parts[number] = (0..).zip(&mut offsets).filter_map(place).collect();
        }
        parts
    }

    /// One FermatSketch of this many buckets an array, each row beginning at 0.
    pub fn sketch(&self, buckets: u32) -> Part {
        let [part] = self.parts([buckets], |_| 0);
        part
    }
}

impl Place {
    /// Index hash to bucket: its highest bits, as many as give 4 to 8 times the part's length
    /// (appendix D.1), modulo the length. `None` for a part of no length.
    pub fn new(offset: u32, width: u32) -> Option<Self> {
        (width > 0).then(|| Self { offset, range: part(width).range() })
    }
}

/// A part of a row, of this many buckets.
pub(super) fn part(buckets: u32) -> HighSlots {
    HighSlots::new(buckets, 2)
}

/// From an index hash to a counter of a classifier array. Arrays whose length is no power of two
/// take 64 to 128 times as many values: uneven counters make linear counting wrong by half the
/// square of their unevenness, here less than 0.01 %.
pub(super) fn counter_slots(counters: u32) -> HighSlots {
    HighSlots::new(counters, 6)
}

pub(super) fn counter_range(counters: u32) -> HighRange {
    counter_slots(counters).range()
}

/// How the encoders are divided, in buckets an array; HL and LL have the same length upstream and
/// downstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Heavy hitters; upstream only.
    pub hh: u32,
    /// Heavy losses.
    pub hl: u32,
    /// Light losses, sampled.
    pub ll: u32,
}

/// All that a controller changes. It takes effect with the next epoch, for the packets that enter
/// in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncoderParameters {
    pub partition: Partition,
    /// T_h: a flow of this size or more is a heavy-hitter candidate.
    pub hh_threshold: u32,
    /// T_l: a flow below it is a light-loss candidate.
    pub hl_threshold: u32,
    /// A light-loss candidate is sampled when its 16-bit hash is below this: 0 none, 65 536 all.
    pub sample: u32,
    /// Xored to the hash, so that epochs sample different flows.
    pub sample_seed: u16,
}

impl EncoderParameters {
    pub const ALL: u32 = 1 << 16;

    /// The same with thresholds that have an effect: a classifier takes a flow of `max` packets or
    /// more for infinite, so that it is above any threshold.
    pub fn within(self, max: u32) -> Self {
        let (hh_threshold, hl_threshold) = (self.hh_threshold.min(max), self.hl_threshold.min(max));
        Self { hh_threshold, hl_threshold, ..self }
    }

    /// Whether the encoders have room for the partition, and the thresholds their order.
    pub fn validate(&self, shape: &Shape) -> Result<(), ProgramError> {
        let Partition { hh, hl, ll } = self.partition;
        let range = |key, value, max| ProgramError::check(ChameleMon::NAME, key, value, 0..=max);
        let room = shape.upstream.min(shape.downstream);
        range("ll", ll, room)?;
        range("hl", hl, room - ll)?;
        range("hh", hh, shape.upstream - hl - ll)?;
        if let Some((key, length)) = [("ll", ll), ("hl", hl), ("hh", hh)].into_iter().find(|of| !shape.allows(of.1)) {
            let (value, right) = (length.to_string(), "with parts = powers it is 0, 512, 1024 or 2048".into());
            return Err(ProgramError::Value { program: ChameleMon::NAME, key, value, right });
        }
        range("sample", self.sample, Self::ALL)?;
        range("hl_threshold", self.hl_threshold, self.hh_threshold.max(1))
    }

    /// The sampling decision, for flows of which the decoder knows the hash.
    pub fn samples(&self, hash: u32) -> bool {
        super::dataplane::samples(hash, self.sample, self.sample_seed)
    }

    /// The match-action entries for packets that enter: LL on the left, HL in the middle, HH on the
    /// right, but for parts that are powers of two.
    pub(super) fn upstream(&self, shape: &Shape) -> [Part; 4] {
        let Partition { hh, hl, ll } = self.partition;
        let [ll, hl, hh] = shape.parts([ll, hl, hh], |_| 0);
        let mut parts = [Part::new(), ll, hl, hh];
        debug_assert_eq!(usize::from(class::HH), parts.len() - 1);
        parts[usize::from(class::NONE)].clear();
        parts
    }

    /// The entries for packets that leave and carry this epoch bit: LL, then HL, where HH go too.
    /// One of several is not encoded.
    pub(super) fn downstream(&self, shape: &Shape, bit: bool) -> [Part; 4] {
        let start = |row| if bit { shape.cells(row, shape.downstream) } else { 0 };
        let [ll, hl] = shape.parts([self.partition.ll, self.partition.hl], start);
        [Part::new(), ll, hl, Part::new()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Parts of a row follow each other without a gap, and end within it.
        #[test]
        fn parts_fit(arrays in 1..5u32, small in 0..8u32, up in 1..5000u32, down in 1..5000u32, cut: [u16; 2]) {
            let shape = Shape { arrays, small, upstream: up, downstream: down, parts: Parts::Any };
            let ll = u32::from(cut[0]) % (up.min(down) + 1);
            let hl = u32::from(cut[1]) % (up.min(down) - ll + 1);
            let partition = Partition { ll, hl, hh: up - hl - ll };
            let parameters = EncoderParameters { partition, hh_threshold: 9, hl_threshold: 1, sample: 0, sample_seed: 0 };
            parameters.validate(&shape).unwrap();
            let both = [(parameters.upstream(&shape), up), (parameters.downstream(&shape, false), down)];
            for (parts, length) in both {
                for row in 0..shape.rows() {
                    let mut end = 0;
                    for place in parts[1..].iter().filter_map(|part| part.get(row as usize)) {
                        prop_assert!(place.offset == end || place.offset + place.range.slots() == end);
                        end = place.offset + place.range.slots();
                    }
                    prop_assert!(end <= shape.cells(row, length), "{end} in row {row}");
                }
            }
        }

        /// Parts that are powers of two begin at multiples of their lengths, in both halves.
        #[test]
        fn powers_are_aligned(small in 0..8u32, lengths in prop::array::uniform3(prop::sample::select(&[0u32, 512, 1024, 2048][..]))) {
            prop_assume!(lengths.iter().sum::<u32>() <= 4096);
            let shape = Shape { arrays: 3, small, upstream: 4096, downstream: 4096, parts: Parts::Powers };
            let partition = Partition { hh: lengths[0], hl: lengths[1], ll: lengths[2] };
            let parameters = EncoderParameters { partition, hh_threshold: 9, hl_threshold: 1, sample: 0, sample_seed: 0 };
            parameters.validate(&shape).unwrap();
            for parts in [parameters.upstream(&shape), parameters.downstream(&shape, false), parameters.downstream(&shape, true)] {
                let mut taken: Vec<_> = parts.iter().filter_map(|part| part.first()).collect();
                taken.sort_by_key(|place| place.offset);
                prop_assert!(taken.iter().all(|place| place.offset % place.range.slots() == 0), "{taken:?}");
                prop_assert!(taken.windows(2).all(|two| two[0].offset + two[0].range.slots() <= two[1].offset));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let shape = Shape { arrays: 3, small: 0, upstream: 4096, downstream: 3072, parts: Parts::Any };
        let fits = EncoderParameters {
            partition: Partition { hh: 1024, hl: 2560, ll: 512 },
            hh_threshold: 100,
            hl_threshold: 10,
            sample: 65_536,
            sample_seed: 0,
        };
        assert_eq!(fits.validate(&shape), Ok(()));
        let partition = |hh, hl, ll| EncoderParameters { partition: Partition { hh, hl, ll }, ..fits };
        for wrong in [partition(1025, 2560, 512), partition(0, 2561, 512), partition(0, 0, 3073)] {
            assert!(wrong.validate(&shape).is_err(), "{wrong:?}");
        }
        assert!(EncoderParameters { hl_threshold: 101, ..fits }.validate(&shape).is_err());
        assert!(EncoderParameters { sample: 65_537, ..fits }.validate(&shape).is_err());
        let powers = Shape { parts: Parts::Powers, ..shape };
        assert_eq!(partition(1024, 2048, 512).validate(&powers), Ok(()));
        let error = fits.validate(&powers).unwrap_err().to_string();
        assert!(error.contains("hl = 2560") && error.contains("parts = powers"), "{error}");
    }
}
