//! Composite queries: what the fragments on a flow's path say together about one epoch (§4.3).
//!
//! The paper's way: records are cut into sub-epochs of equal length, as many as the finest record has.
//! Each of these has the median of its records (Count Sketch) or the least (Count-Min), and one without a
//! record has the mean of the others. Their sum is the estimate of the epoch. It may be negative: only
//! the sum of a window's epochs is cut at 0, because cutting each would add a bias to each.
//!
//! Of an even number of records the median is the mean of the middle two, as the lower of the two would
//! be biased.
//!
//! After a change of the path in mid-epoch a switch counts a share of the flow's packets. Its count is
//! divided by the share, or compared with that share of the count that is looked for.
//!
//! weir's own way, which needs no more from the switches: each record shows by its other counters how
//! likely which noise is ([`Noise`]), so that of the counts which the records suggest some are far more
//! likely than others ([`expected`]). Where another program is certain that the flow has a number of
//! packets at least ([`expected_above`]), smaller counts are left out, and this number is one more candidate.

use super::config::SketchKind;
use super::histogram::{CLASSES, Histogram, breadth, class};

/// The counter of a flow in one record.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The fragment's epoch had 2 to the power of this sub-epochs.
    pub cuts: u32,
    /// The one in which the flow was counted.
    pub sub_epoch: u32,
    /// The flow's counter, with the flow's sign.
    pub count: i64,
    /// Share of the flow's packets in the epoch that cross the switch.
    pub share: f64,
    /// The other counters of the record.
    pub noise: &'a Noise,
}

/// The paper's estimate of an epoch; `None` without any sample.
pub fn epoch(sketch: SketchKind, samples: &[Sample<'_>]) -> Option<f64> {
    let finest = samples.iter().map(|sample| sample.cuts).max()?;
    let (mut sum, mut seen) = (0.0, 0u32);
    let mut at_once = Vec::with_capacity(samples.len());
    for normalised in 0..1u32 << finest {
        at_once.clear();
        for sample in samples.iter().filter(|sample| normalised >> (finest - sample.cuts) == sample.sub_epoch) {
            at_once.push(sample.count as f64 / sample.share / f64::from(1u32 << (finest - sample.cuts)));
        }
        if !at_once.is_empty() {
            sum += of_rows(sketch, &mut at_once);
            seen += 1;
        }
    }
    (seen > 0).then(|| sum / f64::from(seen) * f64::from(1u32 << finest))
}

/// The estimate of one sub-epoch from what its rows say. There is at least one.
fn of_rows(sketch: SketchKind, rows: &mut [f64]) -> f64 {
    let middle = rows.len() / 2;
    if !sketch.is_signed() {
        return rows.iter().copied().fold(f64::INFINITY, f64::min);
    }
    rows.sort_unstable_by(f64::total_cmp);
    if rows.len() % 2 == 1 { rows[middle] } else { (rows[middle - 1] + rows[middle]) / 2.0 }
}

/// The distribution of a record's counters: of what a flow finds in its counter beside its own packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// By class of magnitude, the logarithm of the share of counters with one value of it.
    log_shares: Box<[f32; CLASSES]>,
    is_signed: bool,
    /// Equation 4: the root mean square of the counters.
    pub deviation: f64,
    /// The sum of the counters.
    pub total: u64,
    pub width: u64,
}

impl Noise {
    pub fn of(sketch: SketchKind, counters: &[i32]) -> Self {
        Self::new(sketch, &Histogram::of(counters))
    }

    pub(super) fn new(sketch: SketchKind, histogram: &Histogram) -> Self {
        let is_signed = sketch.is_signed();
        let Histogram { deviation, total, width, .. } = *histogram;
        // A value that no counter has is unlikely, and not impossible.
        const UNSEEN: f64 = 0.05;
        let (numbers, all) = (histogram.numbers(), width as f64 + UNSEEN * CLASSES as f64);
        let share = |class: usize| {
            let signs = if is_signed && class > 0 { 2.0 } else { 1.0 };
            ((f64::from(numbers[class]) + UNSEEN) / (all * signs * breadth(class))).ln() as f32
        };
        Self { log_shares: Box::new(std::array::from_fn(share)), is_signed, deviation, total, width }
    }

    /// The logarithm of the probability that other flows make up this number.
    fn log_share(&self, value: i64) -> f64 {
        if value < 0 && !self.is_signed {
            return f64::from(f32::MIN_POSITIVE.ln());
        }
        let magnitude = u32::try_from(value.unsigned_abs()).unwrap_or(u32::MAX);
        self.log_shares[class(magnitude)].into()
    }
}

/// Share of flows whose packets come at any time of an epoch together, instead of independently. With a half,
/// bursts are counted nearly as well as with all, and even traffic nearly as well as with none.
const TOGETHER: f64 = 0.5;
/// Larger counts are spread by the normal distribution.
const SMALL: i64 = 24;

/// The logarithm of the probability of a sample if the flow has `count` packets in the epoch.
fn log_likelihood(sample: &Sample<'_>, count: i64) -> f64 {
    let count = (count as f64 * sample.share).round() as i64;
    let noise = |own: i64| sample.noise.log_share(sample.count - own);
    if sample.cuts == 0 {
        return noise(count);
    }
    // The flow's packets in one of 2^cuts sub-epochs: binomial where they come independently, all or
    // none where they come together.
    let share = (-f64::from(sample.cuts)).exp2();
    let together = (share * noise(count).exp()) + (1.0 - share) * noise(0).exp();
    let mut apart = 0.0;
    if count <= SMALL {
        let mut probability = (1.0 - share).powi(count as i32);
        for own in 0..=count {
            apart += probability * noise(own).exp();
            probability *= (count - own) as f64 / (own + 1) as f64 * share / (1.0 - share);
        }
    } else {
        let (mean, deviation) = (count as f64 * share, (count as f64 * share * (1.0 - share)).sqrt());
        let (mut weights, step) = (0.0, 0.5);
        for place in -5..=5 {
            let z = f64::from(place) * step;
            let weight = (-z * z / 2.0).exp();
            apart += weight * noise((mean + z * deviation).round().max(0.0) as i64).exp();
            weights += weight;
        }
        apart /= weights;
    }
    (TOGETHER * together + (1.0 - TOGETHER) * apart).ln()
}

/// A count that an epoch may have, and the logarithm of its likelihood.
type Candidate = (i64, f64);

/// The candidates of an epoch: 0, what each record says, and the paper's estimate; those below `least` are
/// replaced by `least`. `None` without samples, unless `least` is above 0.
fn candidates(samples: &[Sample<'_>], least: i64) -> Option<Vec<Candidate>> {
    let Some(median) = epoch(SketchKind::Count, samples) else { return (least > 0).then(|| vec![(least, 0.0)]) };
    let of_all = |sample: &Sample<'_>| (sample.count as f64 / sample.share).round() as i64;
    let said = samples.iter().flat_map(|sample| [of_all(sample) << sample.cuts, of_all(sample)]);
    let said = said.chain([median.round() as i64]).filter(|count| *count > least);
    let mut counts: Vec<i64> = said.chain([least]).collect();
    counts.sort_unstable();
    counts.dedup();
    let likelihood = |count: i64| samples.iter().map(|sample| log_likelihood(sample, count)).sum();
    Some(counts.into_iter().map(|count| (count, likelihood(count))).collect())
}

/// How many packets a flow has in an epoch, before any record of the epoch is looked at.
#[derive(Clone, Copy, Debug)]
enum Prior {
    /// Nothing is known of the flow: small counts are more frequent.
    Unknown,
    /// The flow has packets in this share of its epochs, there a geometric number with this mean.
    Flow { active: f64, mean: f64 },
}

impl Prior {
    fn log(self, count: i64) -> f64 {
        match (self, count) {
            (Self::Unknown, _) => -(1.0 + count as f64).ln(),
            (Self::Flow { active, .. }, 0) => (1.0 - active).ln(),
            (Self::Flow { active, mean }, _) => active.ln() + log_geometric(count, mean),
        }
    }
}

/// The logarithm of the probability of a number from 1 on, where it is geometric with this mean.
fn log_geometric(number: i64, mean: f64) -> f64 {
    (number - 1) as f64 * (1.0 - 1.0 / mean).max(f64::MIN_POSITIVE).ln() - mean.ln()
}

/// How far a flow's count is above a certain lower bound.
#[derive(Clone, Copy, Debug)]
struct Excess {
    /// Share of bounds that are the count itself.
    exact: f64,
    /// Mean excess of the others.
    mean: Option<f64>,
}

impl Excess {
    /// A count that a table holds is mostly exact.
    const UNKNOWN: Self = Self { exact: 0.9, mean: None };
    /// Number of bounds that the share of [`Self::UNKNOWN`] counts as.
    const WEIGHT: f64 = 4.0;

    /// Of a flow with this number of bounds, of which `exact` are the count, and counts that are `sum` above
    /// the bounds together.
    fn of(bounds: f64, exact: f64, sum: f64) -> Self {
        let mean = ((sum + 1.0) / (bounds - exact + 1.0)).max(1.0 + f64::EPSILON);
        let exact = (Self::UNKNOWN.exact * Self::WEIGHT + exact) / (Self::WEIGHT + bounds);
        Self { exact, mean: Some(mean) }
    }

    /// The logarithm of the probability of an excess.
    fn log(self, excess: i64) -> f64 {
        let Self { exact, mean } = self;
        match (excess, mean) {
            (0, _) => exact.ln(),
            (_, None) => (1.0 - exact).ln() - 2.0 * (1.0 + excess as f64).ln(),
            (_, Some(mean)) => (1.0 - exact).ln() + log_geometric(excess, mean),
        }
    }
}

/// What is known of an epoch's count after its records.
struct Posterior {
    /// The expected count.
    count: f64,
    /// Probability that it is not 0.
    nonzero: f64,
    /// Probability that it is the lower bound.
    at_least: f64,
}

impl Posterior {
    /// From candidates that are not below `least`, of which there is one or more.
    fn of(candidates: &[Candidate], least: i64, prior: Prior, excess: Excess) -> Self {
        let score = |(count, likelihood): &Candidate| match least {
            0 => likelihood + prior.log(*count),
            least => likelihood + excess.log(count - least),
        };
        let best = candidates.iter().map(score).fold(f64::NEG_INFINITY, f64::max);
        let (mut weights, mut count, mut nonzero, mut at_least) = (0.0, 0.0, 0.0, 0.0);
        for candidate in candidates {
            let weight = (score(candidate) - best).exp();
            weights += weight;
            count += weight * candidate.0 as f64;
            nonzero += if candidate.0 > 0 { weight } else { 0.0 };
            at_least += if candidate.0 == least { weight } else { 0.0 };
        }
        Self { count: count / weights, nonzero: nonzero / weights, at_least: at_least / weights }
    }
}

/// Passes over the epochs, after which the estimates seldom change.
const ROUNDS: usize = 4;

/// The expected count of a window: the sum of the epochs' expected counts. An epoch's candidates are
/// weighted by their likelihood, as the other counters of each record show it, and by how many packets
/// this flow has in an epoch. The latter is estimated from the same epochs by expectation maximisation.
/// Epochs without samples count nothing. `None` without any sample.
pub fn expected(epochs: &[Vec<Sample<'_>>]) -> Option<f64> {
    expected_above(epochs, &[])
}

/// The same where the flow has at least a number of packets in each epoch, as another program is certain;
/// 0 where nothing is known, and in epochs for which there is no number. An epoch without samples counts as
/// this number. The result is not below the sum of them.
pub fn expected_above(epochs: &[Vec<Sample<'_>>], least: &[i64]) -> Option<f64> {
    let least = least.iter().copied().chain(std::iter::repeat(0));
    let epochs = epochs.iter().zip(least);
    let epochs: Vec<_> = epochs.filter_map(|(samples, least)| Some((candidates(samples, least)?, least))).collect();
    let number = epochs.len() as f64;
    let bounds = epochs.iter().filter(|(_, least)| *least > 0).count() as f64;
    let (mut prior, mut excess, mut sum) = (Prior::Unknown, Excess::UNKNOWN, None);
    for _ in 0..ROUNDS {
        let (mut active, mut unnamed, mut total) = (0.0, 0.0, 0.0);
        let (mut exact, mut above) = (0.0, 0.0);
        for (candidates, least) in &epochs {
            let Posterior { count, nonzero, at_least } = Posterior::of(candidates, *least, prior, excess);
            active += nonzero;
            total += count;
            if *least == 0 {
                unnamed += nonzero;
            } else {
                exact += at_least;
                above += count - *least as f64;
            }
        }
        excess = Excess::of(bounds, exact, above);
        sum = (number > 0.0).then_some(total);
        // A table names a flow in the epochs in which it has most packets: the others have fewer.
        let others = (number - bounds).max(1.0);
        // An epoch more or less would change the share by this.
        let doubt = 0.5 / others;
        let mean = (total / active.max(f64::MIN_POSITIVE)).max(1.0 + f64::EPSILON);
        prior = Prior::Flow { active: (unnamed / others).clamp(doubt, 1.0 - doubt), mean };
    }
    sum
}

/// The variance of the paper's estimate of an epoch, at most, from the error ρ of each record: a row of
/// Count Sketch has the variance ρ² (equation 2). The median of k values is no farther from the truth than
/// (k + 1) / 2 of them are, so its mean square error is at most 2 / (k + 1) times the sum of theirs.
pub fn variance(errors: &[f64]) -> f64 {
    2.0 / (errors.len() as f64 + 1.0) * errors.iter().map(|error| error * error).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::SplitMix64;
    use proptest::prelude::*;

    /// The paper's estimate, written out: 64 sub-epochs whatever the records have.
    fn brute_force(sketch: SketchKind, samples: &[Sample<'_>]) -> Option<f64> {
        let finest = samples.iter().map(|sample| sample.cuts).max()?;
        let parts = 1 << finest;
        let rows_of = |part: u32| {
            let covers = |sample: &&Sample<'_>| {
                let length = parts >> sample.cuts;
                (length * sample.sub_epoch..length * (sample.sub_epoch + 1)).contains(&part)
            };
            let share = |sample: &Sample<'_>| sample.count as f64 / f64::from(parts >> sample.cuts);
            samples.iter().filter(covers).map(share).collect::<Vec<_>>()
        };
        let known: Vec<f64> = (0..parts)
            .map(rows_of)
            .filter(|rows| !rows.is_empty())
            .map(|mut rows| {
                rows.sort_by(|one, other| one.partial_cmp(other).unwrap());
                match sketch {
                    SketchKind::CountMin => rows[0],
                    _ => (rows[(rows.len() - 1) / 2] + rows[rows.len() / 2]) / 2.0,
                }
            })
            .collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let blind = f64::from(parts) - known.len() as f64;
        Some(known.iter().sum::<f64>() + blind * mean)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100_000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn composite_queries_are_brute_force(
            records in prop::collection::vec((0..=6u32, any::<u32>(), -1000..1000i64), 0..8),
            is_min: bool,
        ) {
            let sketch = if is_min { SketchKind::CountMin } else { SketchKind::Count };
            let noise = Noise::of(sketch, &[0]);
            let sample = |&(cuts, at, count): &(u32, u32, i64)| {
                Sample { cuts, sub_epoch: at & ((1 << cuts) - 1), count, share: 1.0, noise: &noise }
            };
            let samples: Vec<_> = records.iter().map(sample).collect();
            match (epoch(sketch, &samples), brute_force(sketch, &samples)) {
                (Some(one), Some(other)) => prop_assert!((one - other).abs() < 1e-6, "{one} {other}"),
                (one, other) => prop_assert_eq!(one, other),
            }
        }

        /// The expected count is between 0 and the largest count of any record.
        #[test]
        fn expected_counts_are_finite(
            records in prop::collection::vec(
                prop::collection::vec((0..=6u32, any::<i32>()), 0..6), 0..5),
            counters in prop::collection::vec(any::<i32>(), 1..9),
            is_min: bool,
        ) {
            let sketch = if is_min { SketchKind::CountMin } else { SketchKind::Count };
            let noise = Noise::of(sketch, &counters);
            let sample = |&(cuts, count): &(u32, i32)| {
                Sample { cuts, sub_epoch: 0, count: count.into(), share: 1.0, noise: &noise }
            };
            let epochs: Vec<Vec<_>> = records.iter().map(|records| records.iter().map(sample).collect()).collect();
            let most: f64 = records
                .iter()
                .map(|records| records.iter().map(|(cuts, count)| f64::from((*count).max(0)) * f64::from(1 << cuts)))
                .map(|most| most.fold(0.0, f64::max))
                .sum();
            match expected(&epochs) {
                Some(count) => prop_assert!((0.0..=most + 1.0).contains(&count), "{count} of {most}"),
                None => prop_assert!(epochs.iter().all(Vec::is_empty)),
            }
        }
    }

    /// Bounds that are the counts themselves bring expected counts nearer to the truth, whatever the noise and
    /// the traffic: the errors of 60 flows add up to less, and those of all to a tenth. No estimate is below
    /// the sum of its bounds, wrong ones included, and without bounds nothing changes.
    #[test]
    fn bounds_bring_counts_nearer() {
        let mut random = SplitMix64::new(3);
        let (mut all_without, mut all_with) = (0.0, 0.0);
        for case in 0..200 {
            let [rows, cuts, most, spread, epochs] = [5, 3, 40, 200, 12].map(|most| random.below(most));
            let (rows, cuts, epochs) = (rows + 1, cuts as u32, epochs as usize + 1);
            let mut counter = || match random.below(3) {
                0 => random.below(2 * spread + 1) as i32 - spread as i32,
                _ => 0,
            };
            let counters: Vec<i32> = (0..500).map(|_| counter()).collect();
            let noise = Noise::of(SketchKind::Count, &counters);
            let (mut without, mut with) = (0.0, 0.0);
            for _ in 0..60 {
                let counts: Vec<i64> = (0..epochs).map(|_| random.below(most + 1) as i64).collect();
                let wrong: Vec<i64> = counts.iter().map(|count| count + random.below(300) as i64).collect();
                let mut sample = |count: i64| {
                    let own = (0..count).filter(|_| random.below(1 << cuts) == 0).count() as i64;
                    let count = own + i64::from(counters[random.below(500) as usize]);
                    Sample { cuts, sub_epoch: 0, count, share: 1.0, noise: &noise }
                };
                let seen: Vec<Vec<_>> =
                    counts.iter().map(|count| (0..rows).map(|_| sample(*count)).collect()).collect();
                let sum = |counts: &[i64]| counts.iter().sum::<i64>() as f64;
                let (truth, bounded) = (sum(&counts), expected_above(&seen, &counts).unwrap());
                without += (expected(&seen).unwrap() - truth).abs();
                with += (bounded - truth).abs();
                assert!(bounded >= truth - 1e-6, "case {case}: {bounded} below {truth}");
                assert!(expected_above(&seen, &wrong).unwrap() >= sum(&wrong) - 1e-6, "case {case}");
                assert_eq!(expected(&seen), expected_above(&seen, &vec![0; epochs]));
            }
            assert!(with <= without, "case {case}: {with} with bounds, {without} without");
            (all_without, all_with) = (all_without + without, all_with + with);
        }
        assert!(all_with < all_without / 10.0, "{all_with} with bounds, {all_without} without");
    }

    /// A bound is the count unless the records know better. An epoch without records counts as its bound.
    #[test]
    fn bounds_are_mostly_exact() {
        let (quiet, loud) =
            (Noise::of(SketchKind::Count, &[0; 500]), Noise::of(SketchKind::Count, &(-250..250).collect::<Vec<_>>()));
        let sample = |count, noise| Sample { cuts: 0, sub_epoch: 0, count, share: 1.0, noise };
        let of = |samples: Vec<Sample<'_>>, least| expected_above(&[samples], &[least]).unwrap();
        let near = |found: f64, right: f64| assert!((found - right).abs() < 0.05 * right, "{found} {right}");
        near(of(vec![sample(140, &loud), sample(7, &loud), sample(220, &loud)], 100), 100.0);
        near(of(vec![sample(140, &quiet), sample(140, &quiet), sample(220, &loud)], 100), 140.0);
        near(of(vec![sample(90, &loud)], 100), 100.0);
        near(of(vec![], 100), 100.0);
        assert_eq!((expected_above(&[vec![]], &[0]), expected_above(&[vec![]], &[])), (None, None));
    }

    /// A record without noise decides; where all are noisy, the mean of the flow's other epochs does.
    #[test]
    fn the_quietest_record_decides() {
        let (quiet, loud) =
            (Noise::of(SketchKind::Count, &[0; 500]), Noise::of(SketchKind::Count, &(-250..250).collect::<Vec<_>>()));
        let sample = |count, noise| Sample { cuts: 0, sub_epoch: 0, count, share: 1.0, noise };
        let samples = vec![sample(7, &quiet), sample(-120, &loud), sample(99, &loud)];
        let found = expected(std::slice::from_ref(&samples)).unwrap();
        assert!((found - 7.0).abs() < 0.01, "{found}");
        assert_eq!(epoch(SketchKind::Count, &samples), Some(7.0));
        assert_eq!((expected(&[]), epoch(SketchKind::Count, &[])), (None, None));
    }
}
