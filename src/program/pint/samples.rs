//! Samples of a value in few bits, and their quantiles, in bounded memory.

use std::collections::BTreeMap;

use datasketches::common::SearchCriteria;
use datasketches::kll::KllSketch;

/// The samples of one hop, as codes.
#[derive(Clone, Debug)]
pub enum Samples {
    /// Each code with its samples: a code has few bits, so this is all of them in bounded memory.
    All(BTreeMap<u16, u64>),
    /// A sketch of them (Karnin, Lang and Liberty), within a space budget.
    Sketch(KllSketch<u16>),
}

/// A KLL sketch keeps about three times its k in values.
const VALUES_OF_K: u32 = 3;

impl Samples {
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
        }
    }

    /// Takes all of another, which has the same bits and space.
    pub fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::All(counts), Self::All(more)) => {
                more.iter().for_each(|(code, number)| *counts.entry(*code).or_default() += number);
            }
            (Self::Sketch(sketch), Self::Sketch(more)) => _ = sketch.merge(more),
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
        }
    }

    /// The least code such that this share of the samples is no larger.
    pub fn quantile(&self, rank: f64) -> Option<u16> {
        match self {
            Self::All(counts) => {
                let wanted = (rank * self.number() as f64).ceil() as u64;
                let mut seen = 0;
                let mut reaches = |count: &u64| {
                    seen += count;
                    seen >= wanted
                };
                counts.iter().find(|(_, count)| reaches(count)).map(|(code, _)| *code)
            }
            Self::Sketch(sketch) => sketch.quantile(rank, SearchCriteria::Inclusive).ok().flatten(),
        }
    }

    /// By how much the rank of a quantile is off at most, in 95 of 100 cases: of the sample (the
    /// inequality of Dvoretzky, Kiefer and Wolfowitz), and of the sketch.
    pub fn rank_error(&self) -> f64 {
        let of_sample = ((2.0f64 / 0.05).ln() / (2.0 * self.number().max(1) as f64)).sqrt();
        let of_sketch = match self {
            Self::Sketch(sketch) if sketch.is_estimation_mode() => sketch.normalized_rank_error(),
            _ => 0.0,
        };
        (of_sample + of_sketch).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both kinds of samples have the quantiles of what they were given, within their error; a
    /// sketch keeps no more than its space, and eight values for each time the samples double.
    #[test]
    fn quantiles_are_within_their_error() {
        for space in [None, Some(50), Some(100), Some(1000)] {
            let mut samples = Samples::new(8, space);
            for number in 0..100_000u32 {
                // Each code from 0 to 199 as often as the others, in no order.
                samples.add((number.wrapping_mul(2_654_435_761) % 200) as u16);
            }
            assert_eq!(samples.number(), 100_000);
            for rank in [0.01, 0.5, 0.99] {
                let found = f64::from(samples.quantile(rank).unwrap()) / 200.0;
                assert!((found - rank).abs() <= samples.rank_error() + 0.01, "{space:?} {rank}: {found}");
            }
            // In parts, and then together, they are as good.
            let mut parts: Vec<_> = (0..8).map(|_| Samples::new(8, space)).collect();
            (0..80_000u32).for_each(|number| parts[number as usize % 8].add((number / 8 % 200) as u16));
            let sum = Samples::sum(parts.iter()).unwrap();
            assert_eq!(sum.number(), 80_000);
            for rank in [0.01, 0.5, 0.99] {
                let found = f64::from(sum.quantile(rank).unwrap()) / 200.0;
                assert!((found - rank).abs() <= sum.rank_error() + 0.01, "{space:?} {rank}: {found}");
            }
            if let Samples::Sketch(sketch) = &samples {
                assert!(sketch.num_retained() <= space.unwrap() as usize + 8 * 17, "{}", sketch.num_retained());
            }
        }
        assert!(Samples::sum([].into_iter()).is_none());
        assert_eq!(Samples::new(8, None).quantile(0.5), None);
        assert_eq!(Samples::new(8, Some(100)).quantile(0.5), None);
    }
}
