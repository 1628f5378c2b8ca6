//! Samples of a value in few bits, and their quantiles or the frequent ones, in bounded memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use datasketches::common::SearchCriteria;
use datasketches::frequencies::{ErrorType, FrequentItemsSketch};
use datasketches::kll::KllSketch;

use super::query::Query;
use super::ranks::{self, Miss};
use super::values::Aggregation;
use crate::answers::Mean;

/// The samples of one hop, as codes.
#[derive(Clone, Debug)]
pub enum Samples {
    /// Each code with its samples: a code has few bits, so this is all of them in bounded memory.
    All(BTreeMap<u16, u64>),
    /// A sketch of them (Karnin, Lang and Liberty), within a space budget.
    Sketch(KllSketch<u16>),
    /// The frequent ones (Misra and Gries, as Anderson et al. have it), within a space budget.
    Frequent(FrequentItemsSketch<u64>),
}

/// A KLL sketch keeps about three times its k in values.
const VALUES_OF_K: u32 = 3;

/// Bytes of an item and its count in a sketch of frequent items, as the space budget counts them.
const BYTES_OF_ITEM: u32 = 8;

/// Fewest items of such a sketch.
const MIN_ITEMS: u32 = 8;

/// Bytes of the smallest sketch of frequent items.
pub const MIN_FREQUENT_BYTES: u32 = MIN_ITEMS * BYTES_OF_ITEM;

/// Most frequent values that an answer has.
const FREQUENT: usize = 8;

/// Samples that a mean is told of at least.
const MEAN_SAMPLES: f64 = 100.0;

impl Samples {
    /// Of a hop, or of packets, as the query has it.
    pub fn of(query: &Query) -> Self {
        match (query.aggregation, query.space) {
            (Aggregation::Frequent, Some(space)) => {
                // A power of two; three quarters of it are kept.
                let size = 1 << (space / BYTES_OF_ITEM).max(MIN_ITEMS).ilog2();
                FrequentItemsSketch::new(size).map_or_else(|_| Self::All(BTreeMap::new()), Self::Frequent)
            }
            (_, space) => Self::new(query.bits, space),
        }
    }

    /// With a space budget in bytes: codes of `bits` bits.
    pub fn new(bits: u32, space: Option<u32>) -> Self {
        let k = space.map(|space| (space * 8 / bits / VALUES_OF_K).clamp(8, u16::MAX.into()) as u16);
        let sketch = k.and_then(|k| KllSketch::new(k).ok());
        sketch.map_or_else(|| Self::All(BTreeMap::new()), Self::Sketch)
    }

    /// Takes another one.
    pub fn add(&mut self, code: u16) {
        match self {
            Self::All(counts) => *counts.entry(code).or_default() += 1,
            Self::Sketch(sketch) => sketch.update(code),
            Self::Frequent(sketch) => sketch.update(code.into()),
        }
    }

    /// Takes all of another, which has the same bits and space.
    pub fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::All(counts), Self::All(more)) => {
                more.iter().for_each(|(code, number)| *counts.entry(*code).or_default() += number);
            }
            (Self::Sketch(sketch), Self::Sketch(more)) => _ = sketch.merge(more),
            (Self::Frequent(sketch), Self::Frequent(more)) => sketch.merge(more),
            _ => {}
        }
    }

    /// All of several in one.
    pub fn sum<'a>(mut several: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let mut sum = several.next()?.clone();
        several.for_each(|more| sum.merge(more));
        Some(sum)
    }

    /// How many there were.
    pub fn number(&self) -> u64 {
        match self {
            Self::All(counts) => counts.values().sum(),
            Self::Sketch(sketch) => sketch.n(),
            Self::Frequent(sketch) => sketch.total_weight(),
        }
    }

    /// The least code such that this share of the samples is no larger.
    pub fn quantile(&self, rank: f64) -> Option<u16> {
        match self {
            Self::All(counts) => smallest(counts, (rank * self.number() as f64).ceil() as u64),
            Self::Sketch(sketch) => sketch.quantile(rank, SearchCriteria::Inclusive).ok().flatten(),
            Self::Frequent(_) => None,
        }
    }

    /// The codes between which this quantile of what the samples were drawn from lies in 95 of 100
    /// cases; `None` where there are too few samples to say.
    pub fn between(&self, quantile: f64) -> [Option<u16>; 2] {
        let number = self.number();
        match self {
            Self::All(counts) => ranks::between(number, quantile, Miss::FIVE).map(|place| smallest(counts, place?)),
            Self::Sketch(sketch) => {
                // The rank of an item is off by no more in 99 of 100 cases, of each end by itself.
                let is_whole = !sketch.is_estimation_mode();
                let (miss, error) =
                    if is_whole { (Miss::FIVE, 0.0) } else { (Miss::THREE, sketch.normalized_rank_error()) };
                let [low, high] = ranks::between(number, quantile, miss);
                // Between two samples, so that rounding does not matter.
                let rank = |place: u64| (place as f64 - 0.5) / number as f64;
                let [low, high] = [low.map(|low| rank(low) - error), high.map(|high| rank(high) + error)];
                [low, high].map(|rank| self.quantile(rank?.clamp(0.0, 1.0)))
            }
            Self::Frequent(_) => [None; 2],
        }
    }

    /// The codes with the most samples and their shares, the largest first. Of a sketch a share is
    /// an upper bound: it is too large by [`Self::share_error`] at most.
    pub fn frequent(&self) -> Vec<(u16, f64)> {
        let mut counts: Vec<(u16, u64)> = match self {
            Self::All(counts) => counts.iter().map(|(code, count)| (*code, *count)).collect(),
            Self::Sketch(_) => Vec::new(),
            Self::Frequent(sketch) => {
                let rows = sketch.frequent_items(ErrorType::NoFalseNegatives);
                rows.iter().map(|row| (*row.item() as u16, row.estimate())).collect()
            }
        };
        counts.sort_unstable_by_key(|(code, count)| (Reverse(*count), *code));
        counts.truncate(FREQUENT);
        let number = self.number().max(1) as f64;
        counts.into_iter().map(|(code, count)| (code, (count as f64 / number).min(1.0))).collect()
    }

    /// The mean of the numbers that the codes stand for, where all samples are known and many enough
    /// for its error to be about a normal variate's.
    pub fn mean(&self, number: impl Fn(u16) -> f64) -> Option<Mean> {
        let Self::All(counts) = self else { return None };
        let samples = self.number() as f64;
        let sum = |of: &dyn Fn(f64) -> f64| counts.iter().map(|(code, count)| *count as f64 * of(number(*code))).sum();
        let total: f64 = sum(&|number| number);
        let mean = total / samples;
        let squares: f64 = sum(&|number| (number - mean).powi(2));
        // Standard deviations that hold 95 of 100 normal variates.
        (samples >= MEAN_SAMPLES).then(|| Mean { mean, error: 1.96 * (squares / (samples - 1.0) / samples).sqrt() })
    }

    /// By how much the share of a frequent code is off at most, in 95 of 100 cases: of the sample
    /// (Hoeffding's inequality), and of the sketch.
    pub fn share_error(&self) -> f64 {
        let of_sample = ((2.0f64 / 0.05).ln() / (2.0 * self.number().max(1) as f64)).sqrt();
        let of_sketch = match self {
            Self::Frequent(sketch) => sketch.maximum_error() as f64 / sketch.total_weight().max(1) as f64,
            _ => 0.0,
        };
        (of_sample + of_sketch).min(1.0)
    }
}

/// The code of the sample that is number `place` in ascending order, from 1.
fn smallest(counts: &BTreeMap<u16, u64>, place: u64) -> Option<u16> {
    let mut seen = 0;
    let mut reaches = |count: &u64| {
        seen += count;
        seen >= place
    };
    counts.iter().find(|(_, count)| reaches(count)).map(|(code, _)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both kinds of samples have the quantiles of what they were given, within their error; a
    /// sketch keeps no more than its space, and eight values for each time the samples double.
    #[test]
    fn quantiles_are_within_their_error() {
        let off = |samples: &Samples, rank| (f64::from(samples.quantile(rank).unwrap()) / 200.0 - rank).abs();
        let error = |samples: &Samples| match samples {
            Samples::Sketch(sketch) => sketch.normalized_rank_error(),
            _ => 0.0,
        };
        for space in [None, Some(50), Some(100), Some(1000)] {
            let mut samples = Samples::new(8, space);
            for number in 0..100_000u32 {
                // Each code from 0 to 199 as often as the others, in no order.
                samples.add((number.wrapping_mul(2_654_435_761) % 200) as u16);
            }
            assert_eq!(samples.number(), 100_000);
            for rank in [0.01, 0.5, 0.99] {
                assert!(off(&samples, rank) <= error(&samples) + 0.01, "{space:?} {rank}");
            }
            // In parts, and then together, they are as good.
            let mut parts: Vec<_> = (0..8).map(|_| Samples::new(8, space)).collect();
            (0..80_000u32).for_each(|number| parts[number as usize % 8].add((number / 8 % 200) as u16));
            let sum = Samples::sum(parts.iter()).unwrap();
            assert_eq!(sum.number(), 80_000);
            for rank in [0.01, 0.5, 0.99] {
                assert!(off(&sum, rank) <= error(&sum) + 0.01, "{space:?} {rank}");
            }
            if let Samples::Sketch(sketch) = &samples {
                assert!(sketch.num_retained() <= space.unwrap() as usize + 8 * 17, "{}", sketch.num_retained());
            }
        }
        assert!(Samples::sum([].into_iter()).is_none());
        assert_eq!(Samples::new(8, None).quantile(0.5), None);
        assert_eq!(Samples::new(8, Some(100)).quantile(0.5), None);
    }

    /// Shares are those of exact counts within their error, and no value whose share is larger than
    /// the error is missing. A sketch keeps no more than its space.
    #[test]
    fn frequent_values_are_within_their_error() {
        use crate::program::pint::query::Value;
        let query = Query { aggregation: Aggregation::Frequent, ..Query::new(Value::Queue) };
        for (space, size) in [(None, usize::MAX), (Some(64), 8), (Some(128), 16), (Some(1024), 128)] {
            let mut samples = Samples::of(&Query { space, ..query });
            let mut exact = [0u64; 256];
            for number in 0..60_000u32 {
                let random = number.wrapping_mul(2_654_435_761) >> 12;
                // A half are 7, a quarter 9, an eighth 11 …, and a sixteenth is spread over all codes.
                let code =
                    if random % 16 == 0 { random >> 4 & 255 } else { 7 + 2 * (random >> 4 | 1 << 12).trailing_zeros() };
                samples.add(code as u16);
                exact[code as usize] += 1;
            }
            let found = samples.frequent();
            let error = samples.share_error();
            for (code, share) in &found {
                let truth = exact[usize::from(*code)] as f64 / 60_000.0;
                assert!(share - truth <= error && *share >= truth - 1e-9, "{space:?} {code}: {share}, {truth}");
            }
            let least = found.last().map_or(0.0, |(_, share)| *share);
            for (code, count) in
                exact.iter().enumerate().filter(|(_, count)| **count as f64 / 60_000.0 > error.max(least))
            {
                assert!(
                    found.iter().any(|(of, _)| usize::from(*of) == code),
                    "{space:?}: {code} with {count} is missing"
                );
            }
            assert_eq!((samples.number(), found[0].0, found.len() <= FREQUENT), (60_000, 7, true));
            if let Samples::Frequent(sketch) = &samples {
                assert!(sketch.num_active_items() <= size && samples.quantile(0.5).is_none() && error < 1.0);
            }
        }
    }

    /// Of numbers that are drawn at random the true quantiles lie in their intervals in 95 of 100 cases
    /// and no less, whether all samples are there or a sketch. Of all of them the cases are not many
    /// more where ranks are fine enough for that, and an interval is narrower than one that holds for
    /// all quantiles at once.
    #[test]
    fn intervals_have_the_true_quantiles() {
        const RUNS: u32 = 2000;
        let mut random = 9u64;
        let mut draw = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 48) as u16
        };
        for (space, number) in [None, Some(50), Some(400)]
            .into_iter()
            .flat_map(|space| [1, 5, 6, 10, 30, 100, 300, 1000, 3000].map(|number| (space, number)))
        {
            let quantiles = [0.5, 0.99];
            let (mut within, mut width) = ([0; 2], [0.0; 2]);
            for _ in 0..RUNS {
                let mut samples = Samples::new(16, space.map(|space| 2 * space));
                (0..number).for_each(|_| samples.add(draw()));
                for (place, quantile) in quantiles.into_iter().enumerate() {
                    let rank = |code: u16| (f64::from(code) + 1.0) / 65_536.0;
                    let [low, high] = samples.between(quantile).map(|code| code.map(rank));
                    let (low, high) = (low.unwrap_or(0.0), high.unwrap_or(1.0));
                    within[place] += u32::from((low..=high).contains(&quantile));
                    width[place] += (high - low) / f64::from(RUNS);
                }
            }
            for (place, quantile) in quantiles.into_iter().enumerate() {
                let share = f64::from(within[place]) / f64::from(RUNS);
                // Three standard deviations of so many runs.
                assert!(share >= 0.95 - 0.015, "{space:?}, {number} at {quantile}: {share}");
                let at_once = 2.0 * (2.0f64 / 0.05).ln().sqrt() / (2.0 * f64::from(number)).sqrt();
                let deviation = (quantile * (1.0 - quantile) * f64::from(number)).sqrt();
                if space.is_none() && deviation >= 3.0 {
                    assert!(share <= 0.98, "{number} at {quantile}: {share}");
                    assert!(width[place] < 0.8 * at_once, "{number} at {quantile}: {} of {at_once}", width[place]);
                }
            }
        }
    }

    #[test]
    fn a_mean_is_within_its_error() {
        let mut samples = Samples::new(8, None);
        (0..99).for_each(|_| samples.add(1));
        assert_eq!(samples.mean(f64::from), None);
        // Of 0 and 4 in equal shares the mean is 2, within the error in 95 of 100 cases.
        let mut random = 1u64;
        let mut within = 0;
        for _ in 0..1000 {
            let mut samples = Samples::new(8, None);
            for _ in 0..200 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                samples.add(4 * (random >> 63) as u16);
            }
            let Mean { mean, error } = samples.mean(f64::from).unwrap();
            within += u32::from((mean - 2.0).abs() <= error);
        }
        assert!((920..=980).contains(&within), "{within} of 1000");
    }
}
