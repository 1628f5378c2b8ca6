//! One field of all rules: from a value to the bitmap of the rules that it matches.

use std::ops::RangeInclusive;

/// The values of a key that can follow each other.
pub(super) trait Point: Copy + Ord {
    const MIN: Self;
    fn next(self) -> Option<Self>;
}

macro_rules! points {
    ($($word:ty)*) => { $(
        impl Point for $word {
            const MIN: Self = 0;
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    )* };
}

points!(u16 u32 u64 u128);

/// The pieces of a key's values within which the same rules match, and the bitmap of each.
#[derive(Debug)]
pub(super) struct Intervals<K> {
    /// Starts of the intervals behind the first.
    starts: Box<[K]>,
    /// A bitmap for each piece, and a last one for packets without the field.
    bitmaps: Box<[u64]>,
    words: usize,
}

impl<K: Point> Intervals<K> {
    /// `rules`: the ranges that each rule asks for, `None` where it asks for nothing.
    pub fn new(rules: &[Option<Vec<RangeInclusive<K>>>]) -> Self {
        let words = rules.len().div_ceil(64);
        let asked = rules.iter().flatten().flatten();
        let mut starts: Vec<K> = asked
            .flat_map(|range| [Some(*range.start()), range.end().next()])
            .flatten()
            .filter(|k| *k > K::MIN)
            .collect();
        starts.sort_unstable();
        starts.dedup();
        let pieces = [K::MIN].into_iter().chain(starts.iter().copied()).map(Some).chain([None]);
        let mut bitmaps = vec![0; (starts.len() + 2) * words];
        for (piece, bitmap) in pieces.zip(bitmaps.chunks_exact_mut(words.max(1))) {
            for (rule, ranges) in rules.iter().enumerate() {
                let matches = match (ranges, piece) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some(ranges), Some(key)) => ranges.iter().any(|range| range.contains(&key)),
                };
                bitmap[rule / 64] |= u64::from(matches) << (rule % 64);
            }
        }
        Self { starts: starts.into(), bitmaps: bitmaps.into(), words }
    }

    /// The rules that match a packet with this value, or without the field.
    #[inline(always)]
    pub fn row(&self, key: Option<K>) -> &[u64] {
        let piece = match key {
            Some(key) => self.starts.partition_point(|start| *start <= key),
            None => self.starts.len() + 1,
        };
        &self.bitmaps[piece * self.words..][..self.words]
    }
}

/// The intervals of a field, if any rule asks for it.
pub(super) fn field<K: Point>(rules: Vec<Option<Vec<RangeInclusive<K>>>>) -> Option<Intervals<K>> {
    rules.iter().any(Option::is_some).then(|| Intervals::new(&rules))
}
