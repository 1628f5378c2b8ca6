//! Between which samples a quantile lies: intervals of order statistics.
//!
//! Of n samples, drawn independently, B do not exceed the q-quantile of what they are drawn from, and
//! B is binomial: B(n, q). So that quantile lies below the l-th smallest sample with the probability
//! of B < l at most, and above the u-th with that of B ≥ u. Nothing is assumed of the distribution,
//! and samples may be equal. Samples without replacement are no further off.

/// How often an interval may miss the quantile.
#[derive(Clone, Copy, Debug)]
pub struct Miss {
    share: f64,
    /// Standard deviations beyond which a normal variate lies as often, on both sides together.
    deviations: f64,
}

impl Miss {
    /// In 5 of 100 cases.
    pub const FIVE: Self = Self { share: 0.05, deviations: 1.959_964 };
    /// In 3 of 100 cases.
    pub const THREE: Self = Self { share: 0.03, deviations: 2.170_090 };
}

/// Samples of which probabilities are added up; of more they are about those of a normal variate.
const EXACT: u64 = 4096;

/// Probabilities of this share of the largest are as good as none.
const NOTHING: f64 = 1e-15;

/// The places of the two samples, from 1 in ascending order, between which the quantile lies; `None`
/// where it may lie beyond all samples.
pub fn between(samples: u64, quantile: f64, miss: Miss) -> [Option<u64>; 2] {
    if samples <= EXACT { exact(samples, quantile, miss.share) } else { normal(samples, quantile, miss.deviations) }
}

/// What of one side's share the upper end leaves, because ranks are whole numbers, the lower end has.
fn exact(samples: u64, quantile: f64, miss: f64) -> [Option<u64>; 2] {
    let (first, weights) = binomial(samples, quantile);
    let all: f64 = weights.iter().sum();
    let mut above = 0.0;
    let beyond = weights.iter().rev().take_while(|weight| within(&mut above, **weight, miss / 2.0 * all)).count();
    let high = first + (weights.len() - beyond) as u64;
    let mut below = 0.0;
    let rest = miss * all - above;
    let low = first + weights.iter().take_while(|weight| within(&mut below, **weight, rest)).count() as u64;
    [Some(low).filter(|low| *low >= 1), Some(high).filter(|high| *high <= samples)]
}

/// Adds a weight to a sum unless it exceeds the most then.
fn within(sum: &mut f64, weight: f64, most: f64) -> bool {
    let fits = *sum + weight <= most;
    *sum += if fits { weight } else { 0.0 };
    fits
}

/// The probabilities of B(n, q), but for a common factor, from the first number on that has one.
fn binomial(samples: u64, quantile: f64) -> (u64, Vec<f64>) {
    let (n, odds) = (samples as f64, quantile / (1.0 - quantile));
    let mode = (((n + 1.0) * quantile) as u64).min(samples);
    let down = std::iter::successors(Some((mode, 1.0)), |&(k, weight): &(u64, f64)| {
        let weight = weight * k as f64 / (n - k as f64 + 1.0) / odds;
        (weight > NOTHING).then(|| (k - 1, weight))
    });
    let up = std::iter::successors(Some((mode, 1.0)), |&(k, weight): &(u64, f64)| {
        let weight = weight * (n - k as f64) / (k as f64 + 1.0) * odds;
        (weight > NOTHING).then_some((k + 1, weight))
    });
    let mut weights: Vec<_> = down.collect();
    weights.reverse();
    let first = weights.first().map_or(mode, |(k, _)| *k);
    weights.extend(up.skip(1));
    (first, weights.into_iter().map(|(_, weight)| weight).collect())
}

/// By the normal distribution, with the binomial's skewness, and a rank further out.
fn normal(samples: u64, quantile: f64, deviations: f64) -> [Option<u64>; 2] {
    let mean = samples as f64 * quantile;
    let deviation = (mean * (1.0 - quantile)).sqrt();
    let skewed = mean + 0.5 + (deviations.powi(2) - 1.0) * (1.0 - 2.0 * quantile) / 6.0;
    let (low, high) = ((skewed - deviations * deviation).floor() - 1.0, (skewed + deviations * deviation).ceil() + 1.0);
    [Some(low as u64).filter(|low| *low >= 1), Some(high as u64).filter(|high| *high <= samples)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often the quantile lies below and above these samples.
    fn missed(samples: u64, quantile: f64, [low, high]: [Option<u64>; 2]) -> [f64; 2] {
        let (first, weights) = binomial(samples, quantile);
        let all: f64 = weights.iter().sum();
        let numbered = || (first..).zip(&weights);
        let below: f64 = numbered().filter(|(k, _)| low.is_some_and(|low| *k < low)).map(|(_, weight)| weight).sum();
        let above: f64 =
            numbered().filter(|(k, _)| high.is_some_and(|high| *k >= high)).map(|(_, weight)| weight).sum();
        [below / all, above / all]
    }

    /// Probabilities of 5 coins, and of 3 in 100.
    #[test]
    fn the_binomial_is_right() {
        let of = |samples, quantile| {
            let (first, weights) = binomial(samples, quantile);
            let all: f64 = weights.iter().sum();
            (first, weights.into_iter().map(|weight| weight / all).collect::<Vec<_>>())
        };
        let (first, coins) = of(5, 0.5);
        let expected = [1.0, 5.0, 10.0, 10.0, 5.0, 1.0].map(|ways| ways / 32.0);
        assert!(first == 0 && coins.len() == 6 && coins.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12));
        let (first, rare) = of(100, 0.99);
        let all = rare.last().unwrap();
        assert!(first + rare.len() as u64 - 1 == 100 && (all - 0.99f64.powi(100)).abs() < 1e-12, "{all}");
    }

    /// An interval misses as seldom as it says, and no end of it can be one sample closer.
    #[test]
    fn no_interval_is_wider_than_it_must_be() {
        for miss in [Miss::FIVE, Miss::THREE] {
            for (samples, quantile) in
                (1..600).chain([1000, 2500, EXACT]).flat_map(|n| [0.5, 0.9, 0.99].map(|q| (n, q)))
            {
                let ends = between(samples, quantile, miss);
                let [low, high] = ends;
                let [below, above] = missed(samples, quantile, ends);
                assert!(below + above <= miss.share + 1e-12, "{samples} {quantile}: {below} {above}");
                let closer = [Some(low.map_or(1, |low| low + 1)), high];
                assert!(missed(samples, quantile, closer)[0] > miss.share - above - 1e-12, "{samples} {quantile}");
                let closer = [low, Some(high.map_or(samples, |high| high - 1))];
                assert!(missed(samples, quantile, closer)[1] > miss.share / 2.0 - 1e-12, "{samples} {quantile}");
            }
        }
        assert_eq!(between(4, 0.5, Miss::FIVE), [None, None]);
        // The largest of 5 is below the median once in 32 times, and the smallest is above it as often.
        assert_eq!(between(5, 0.5, Miss::FIVE), [Some(1), None]);
        assert_eq!(between(6, 0.5, Miss::FIVE), [Some(1), Some(6)]);
        // Of 368 samples one exceeds the 99th percentile in 97.5 % of cases.
        assert_eq!([367, 368].map(|samples| between(samples, 0.99, Miss::FIVE)[1]), [None, Some(368)]);
    }

    /// Of many samples the ends are two ranks further out than they must be at most.
    #[test]
    fn of_many_samples_it_is_about_the_same() {
        for miss in [Miss::FIVE, Miss::THREE] {
            for (samples, quantile) in
                [EXACT + 1, 10_000, 123_456, 1_000_000].into_iter().flat_map(|n| [0.5, 0.9, 0.99].map(|q| (n, q)))
            {
                let ends = between(samples, quantile, miss);
                let [below, above] = missed(samples, quantile, ends);
                assert!(below + above <= miss.share, "{samples} {quantile}: {below} {above}");
                let ([low, high], [least, most]) =
                    (ends.map(Option::unwrap), exact(samples, quantile, miss.share).map(Option::unwrap));
                assert!(least - low <= 3 && high - most <= 3, "{samples} {quantile}: {low} {least}, {high} {most}");
            }
        }
    }
}
