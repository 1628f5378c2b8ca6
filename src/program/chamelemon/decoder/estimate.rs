//! What counters say without naming flows: linear counting (Whang et al., 1990), the distribution
//! of flow sizes (MRAC: Kumar et al., 2004), entropy.
//!
//! MRAC asks for each counter which flow sizes make up its value, by maximum likelihood, with
//! expectation maximisation. The published form lists the ways to split a value, which grow
//! exponentially, so it cuts them off and still takes minutes. This one needs no list: when λ_k
//! flows of size k fall on a counter on average, their number is a Poisson variable, a counter's
//! value is a compound Poisson variable with probabilities g_v, and the expected number of flows of
//! size k in a counter of value v is exactly λ_k g_{v−k} / g_v. Both g (Panjer's recursion) and the
//! expectation cost V² / 2 for values up to V: 33 000 multiplications each for 8-bit counters, for
//! each array, at most `STEPS` times.
//!
//! All arrays have counted the same flows, so each says something of small sizes and of the number
//! of flows. They are taken together, and the emptier an array, the more it counts.
//!
//! Values above `DENSE` are rare: there a counter is taken to hold one large flow and small ones of
//! the known distribution, over a window of `WINDOW` values. The work is bounded by counters ×
//! window × `SPARSE_STEPS`. Two large flows on one counter are told apart afterwards, for all
//! counters together, by solving Panjer's recursion for the rates.

use super::{INFINITE, Level};
use crate::answers::Distribution;
use crate::slices;

/// Sizes below it are estimated with all ways to collide.
pub(super) const DENSE: usize = 255;
/// Most steps of expectation maximisation, and the change of the number of flows, as a share, below
/// which it ends.
const STEPS: usize = 60;
const ENOUGH: f64 = 1e-4;
const SPARSE_STEPS: usize = 6;
const WINDOW: usize = 256;
/// The most sizes that are looked at, for all values together: the window is smaller when there are
/// very many values.
const MAX_SIZES: usize = 1 << 22;
/// Classes of sizes above it for what large flows on one counter look like.
const CLASSES: usize = 1024;
/// Flows a counter above which no estimate is possible.
const MAX_COUNTED_LOAD: f64 = 30.0;

/// The number of flows that leaves `empty` of `width` counters empty: −w ln(empty / w). `None` when
/// none is empty.
pub fn linear_counting(width: usize, empty: usize) -> Option<f64> {
    (empty > 0).then(|| -(width as f64) * (empty as f64 / width as f64).ln()).map(|flows| flows.max(0.0))
}

/// The number of flows that leaves this number of counters of each array empty. Each array is counted
/// linearly, and weighs by the inverse of its variance w (e^t − t − 1) for t flows a counter (Whang
/// et al.). `None` when no array has an empty counter.
pub fn flows(tower: &[Level]) -> Option<f64> {
    let (mut sum, mut weight) = (0.0, 0.0);
    for level in tower {
        let (width, empty) = (level.sizes.len(), level.sizes.iter().filter(|&&size| size == 0).count());
        let Some(flows) = linear_counting(width, empty) else { continue };
        if flows == 0.0 {
            return Some(0.0);
        }
        let load = flows / width as f64;
        let certainty = (width as f64 * (load.exp_m1() - load)).recip();
        sum += certainty * flows;
        weight += certainty;
    }
    (weight > 0.0).then(|| sum / weight)
}

/// Maximum number of flows for each counter of the array with most counters at which the
/// distribution of sizes is told. Up to it the estimate's weighted mean relative error is 0.1 to
/// 0.25 (five measured laws, default classifier); at twice as many flows it is up to 0.8.
pub const MAX_LOAD: f64 = 2.5;
/// Maximum standard error, as a share, at which the number of flows is told.
pub const MAX_ERROR: f64 = 0.05;

/// The standard error of [`flows`] as a share (Whang et al.). `None` when no array has an empty
/// counter.
pub fn flows_error(tower: &[Level]) -> Option<f64> {
    let flows = flows(tower)?;
    let variance = |width: f64| width * ((flows / width).exp_m1() - flows / width);
    let certainty: f64 = tower.iter().map(|level| variance(level.sizes.len() as f64).recip()).sum();
    Some(if flows > 0.0 { certainty.recip().sqrt() / flows } else { 0.0 })
}

/// Whether the arrays are empty enough to tell the distribution of sizes.
pub fn tells_sizes(tower: &[Level]) -> bool {
    let widest = tower.iter().map(|level| level.sizes.len()).max().unwrap_or(0);
    flows(tower).is_some_and(|flows| flows <= MAX_LOAD * widest as f64)
}

/// The distribution from the classifier's arrays: small sizes from all, larger ones each from the
/// first that can say them. Sizes of `known.0` and more come from the flows `known.1` instead,
/// whose sizes were decoded. `None` when the arrays are too full to tell.
pub fn distribution(tower: &[Level], known: Option<(u32, &[u64])>) -> Option<Distribution> {
    let first = tower.first()?;
    let cap = DENSE.min(first.max() as usize);
    let small = dense(tower, cap)?;
    let mut flows: Vec<(u32, f64)> = (0..).zip(&small).skip(1).map(|(size, &flows)| (size, flows)).collect();
    let cut = known.map_or(INFINITE, |(threshold, _)| threshold);
    let mut from = cap as u32;
    for level in tower {
        if from < level.max() && from < cut {
            flows.extend(sparse(level, from, cut, &small));
            from = level.max();
        }
    }
    flows.retain(|&(size, flows)| size < cut && flows > 1e-6);
    if let Some((threshold, sizes)) = known {
        flows.extend(Distribution::of_sizes(sizes.iter().copied().filter(|&size| size >= threshold.into())).0);
    }
    Some(Distribution(flows))
}

/// One array's counters by their value, as far as sizes are estimated from it.
struct Histogram {
    counters: Vec<f64>,
    /// Counters of the array, and those of them that the histogram holds.
    width: f64,
    seen: f64,
    /// How much the array's word counts.
    weight: f64,
}

impl Histogram {
    fn new(level: &Level, cap: usize) -> Self {
        let mut counters = vec![0.0; cap];
        for &size in &level.sizes {
            if let Some(counter) = counters.get_mut(size as usize) {
                *counter += 1.0;
            }
        }
        let (width, seen) = (level.sizes.len() as f64, counters.iter().sum::<f64>());
        // With t flows a counter, e^−t of the counters are empty, and collisions make an estimate
        // of small flows vary as e^t − 1.
        let empty = counters.first().copied().unwrap_or(0.0) / width;
        let weight = empty / (1.0 - empty).max(1.0 / width);
        Self { counters, width, seen, weight }
    }

    /// Expectation and maximisation: `next` gains this array's share of the flows of each size,
    /// given those `now`.
    fn step(&self, now: &[f64], share: f64, next: &mut [f64]) {
        let rates: Vec<f64> = now.iter().map(|flows| flows / self.width).collect();
        let g = panjer(&rates, rates.len());
        let reversed: Vec<f64> = g.iter().rev().copied().collect();
        let mut expected = vec![0.0; rates.len()];
        for (value, (&counters, &g)) in self.counters.iter().zip(&g).enumerate().skip(1) {
            // A value that the flows do not explain at all is left out, before dividing by next to
            // nothing.
            if counters > 0.0 && g > 1e-280 {
                let others = &reversed[rates.len() - 1 - value..];
                expected.iter_mut().zip(others).for_each(|(sum, other)| *sum += counters / g * other);
            }
        }
        let flows = now.iter().zip(expected).map(|(now, expected)| share * now * expected / self.seen);
        next.iter_mut().zip(flows).for_each(|(next, flows)| *next += flows);
    }
}

/// Flows of each size below `cap`.
fn dense(tower: &[Level], cap: usize) -> Option<Vec<f64>> {
    let mut arrays: Vec<_> = tower.iter().map(|level| Histogram::new(level, cap)).filter(|a| a.seen > 0.0).collect();
    // An array without empty counters adds nothing to one that has some.
    if arrays.iter().any(|array| array.weight > 0.0) {
        arrays.retain(|array| array.weight > 0.0);
    } else {
        arrays.truncate(1);
        arrays.iter_mut().for_each(|array| array.weight = 1.0);
    }
    let least_width = arrays.iter().map(|array| array.width).reduce(f64::min)?;
    let weights: f64 = arrays.iter().map(|array| array.weight).sum();
    let mut flows = vec![0.0; cap];
    for array in &arrays {
        // A size that starts at 0 stays there; one that never occurs falls to 0 by itself.
        let start = |counters: &f64| (counters + 0.01) / array.seen * array.width * array.weight / weights;
        flows.iter_mut().zip(&array.counters).skip(1).for_each(|(flows, counters)| *flows += start(counters));
    }
    let mut before: f64 = flows.iter().sum();
    for _ in 0..STEPS {
        slices::check();
        if before / least_width > MAX_COUNTED_LOAD {
            return None;
        }
        let mut next = vec![0.0; cap];
        arrays.iter().for_each(|array| array.step(&flows, array.weight / weights, &mut next));
        let after: f64 = next.iter().sum();
        flows = next;
        if (after - before).abs() <= ENOUGH * before {
            break;
        }
        before = after;
    }
    Some(flows)
}

/// The probabilities of a counter's values below `cap`: v g_v = Σ k λ_k g_{v−k}.
pub(super) fn panjer(rates: &[f64], cap: usize) -> Vec<f64> {
    let weights: Vec<f64> = rates.iter().enumerate().map(|(size, rate)| size as f64 * rate).collect();
    let mut g = vec![0.0; cap];
    g[0] = (-rates.iter().sum::<f64>()).exp();
    // What is known goes into the sums of all larger values at once, which a vector unit adds side
    // by side.
    for value in 0..cap {
        let (known, sums) = g.split_at_mut(value + 1);
        known[value] /= value.max(1) as f64;
        let probability = known[value];
        sums.iter_mut().zip(&weights[1..]).for_each(|(sum, weight)| *sum += weight * probability);
    }
    g
}

/// Flows of the sizes from `from` to what the array can say, given the smaller ones; two on one
/// counter are told apart below `cut`.
fn sparse(level: &Level, from: u32, cut: u32, small: &[f64]) -> Vec<(u32, f64)> {
    let width = level.sizes.len() as f64;
    let rates: Vec<f64> = small.iter().map(|flows| flows / width).collect();
    let mut noise = panjer(&rates, WINDOW);
    let mut values: Vec<u32> = level.sizes.iter().copied().filter(|size| (from..level.max()).contains(size)).collect();
    values.sort_unstable();
    noise.truncate((MAX_SIZES / values.len().max(1)).max(1));
    let windows = Windows::new(&values, from, &noise);
    let mut rates = vec![0.0; windows.sizes.len()];
    for window in &windows.of_values {
        let noise = windows.noise(window);
        rates[window.sizes.clone()]
            .iter_mut()
            .zip(noise)
            .for_each(|(rate, noise)| *rate += window.counters / width * noise);
    }
    for _ in 0..SPARSE_STEPS {
        slices::check();
        let mut next = vec![0.0; rates.len()];
        for window in &windows.of_values {
            let (now, noise) = (&rates[window.sizes.clone()], windows.noise(window));
            let all = window.none + now.iter().zip(noise).map(|(rate, noise)| rate * noise).sum::<f64>();
            if all > 0.0 {
                let share = window.counters / (all * width);
                let next = next[window.sizes.clone()].iter_mut();
                next.zip(now).zip(noise).for_each(|((next, rate), noise)| *next += share * rate * noise);
            }
        }
        rates = next;
    }
    let mut flows: Vec<_> = windows.sizes.into_iter().zip(rates).collect();
    untangle(&mut flows, cut, 1.0 / width);
    flows.iter_mut().for_each(|(_, rate)| *rate *= width);
    flows
}

/// The sizes that a counter's large flow can have, for each value, side by side where values are
/// close.
struct Windows {
    /// In ascending order; no others can be.
    sizes: Vec<u32>,
    of_values: Vec<Window>,
    /// The probabilities of noise, the largest first.
    noise: Vec<f64>,
}

struct Window {
    /// How many counters have the value.
    counters: f64,
    /// Where its sizes stand.
    sizes: std::ops::Range<usize>,
    /// The probability that all of it is noise.
    none: f64,
}

impl Windows {
    /// For values in ascending order.
    fn new(values: &[u32], from: u32, noise: &[f64]) -> Self {
        let mut windows =
            Self { sizes: Vec::new(), of_values: Vec::new(), noise: noise.iter().rev().copied().collect() };
        for same in values.chunk_by(|a, b| a == b) {
            let value = same[0];
            let min = from.max(value.saturating_sub(noise.len() as u32 - 1));
            let first = windows.sizes.last().map_or(min, |last| min.max(last + 1));
            windows.sizes.extend(first..=value);
            let end = windows.sizes.len();
            windows.of_values.push(Window {
                counters: same.len() as f64,
                sizes: end - (value - min) as usize - 1..end,
                none: noise.get(value as usize).copied().unwrap_or(0.0),
            });
        }
        windows
    }

    fn noise(&self, window: &Window) -> &[f64] {
        &self.noise[self.noise.len() - window.sizes.len()..]
    }
}

/// From the probabilities that a counter's large content has some size to those of single flows:
/// two large ones on one counter look like one. Their content is a compound Poisson variable, too,
/// so with the probabilities g known Panjer's recursion is solved for the rates, λ_v = (g_v −
/// Σ_{k<v} k λ_k g_{v−k} / v) / g_0, over `CLASSES` classes of sizes below `cut`. `min` is the
/// smallest probability that there is.
pub(super) fn untangle(contents: &mut [(u32, f64)], cut: u32, min: f64) {
    let none = (1.0 - contents.iter().map(|(_, share)| share).sum::<f64>()).max(min);
    let largest = contents.partition_point(|&(size, _)| size < cut);
    let Some(&(largest, _)) = contents[..largest].last() else { return };
    let width = largest / CLASSES as u32 + 1;
    let class = |size: u32| ((size.saturating_add(width / 2) / width) as usize).clamp(1, CLASSES);
    let mut g = vec![0.0; CLASSES + 1];
    contents.iter().take_while(|(size, _)| *size <= largest).for_each(|&(size, share)| g[class(size)] += share / none);
    // What larger classes get of those that are known, k λ_k g_{v−k}.
    let (mut factors, mut sums, mut owed) = (vec![0.0; CLASSES + 1], vec![0.0; CLASSES + 1], 0.0);
    for value in 1..=CLASSES {
        let number = value as f64;
        // Fewer than none are a matter of chance, for which larger classes make up.
        let rate = g[value] - sums[value] / number + owed;
        owed = rate.min(0.0);
        if rate > 0.0 && g[value] > 0.0 {
            factors[value] = rate / (g[value] * none);
            sums[value + 1..].iter_mut().zip(&g[1..]).for_each(|(sum, g)| *sum += number * rate * g);
        }
    }
    for (size, share) in contents.iter_mut().take_while(|(size, _)| *size <= largest) {
        *share *= factors[class(*size)];
    }
}
