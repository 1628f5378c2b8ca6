//! Flows by size: estimates, and the truth that they are held to.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A size from 256 on rounded down to seven binary digits: there are 1 856 such sizes.
pub fn rounded(size: u32) -> u32 {
    let low_bits = (u32::BITS - size.leading_zeros()).saturating_sub(7);
    if size < 256 { size } else { size >> low_bits << low_bits }
}

/// How many flows there are of each size, in ascending order of sizes. The numbers are
/// expectations, so no whole ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution(pub Vec<(u32, f64)>);

impl Distribution {
    pub fn flows(&self) -> f64 {
        self.0.iter().map(|(_, flows)| flows).sum()
    }

    pub fn packets(&self) -> f64 {
        self.0.iter().map(|&(size, flows)| f64::from(size) * flows).sum()
    }

    /// −Σ n_i (i / N) log₂(i / N), in bits: 0 when one flow has all packets.
    pub fn entropy_bits(&self) -> f64 {
        let packets = self.packets();
        let term = |&(size, flows): &(u32, f64)| {
            let share = f64::from(size) / packets;
            -flows * share * share.log2()
        };
        if packets > 0.0 { self.0.iter().map(term).sum::<f64>().max(0.0) } else { 0.0 }
    }

    /// Weighted mean relative error of this estimate of `truth`.
    pub fn error(&self, truth: &Self) -> f64 {
        let (mut wrong, mut weight) = (0.0, 0.0);
        let (mut mine, mut true_ones) = (self.0.iter().peekable(), truth.0.iter().peekable());
        while let Some(size) = [mine.peek(), true_ones.peek()].into_iter().flatten().map(|(size, _)| *size).min() {
            let estimated = mine.next_if(|(at, _)| *at == size).map_or(0.0, |(_, flows)| *flows);
            let exact = true_ones.next_if(|(at, _)| *at == size).map_or(0.0, |(_, flows)| *flows);
            wrong += (estimated - exact).abs();
            weight += (estimated + exact) / 2.0;
        }
        if weight > 0.0 { wrong / weight } else { 0.0 }
    }

    /// The same with sizes from 256 on rounded down to seven binary digits: at most 1 856 sizes.
    pub fn rounded(&self) -> Self {
        let mut classes = Vec::<(u32, f64)>::new();
        for &(size, flows) in &self.0 {
            let size = rounded(size);
            match classes.last_mut().filter(|(last, _)| *last == size) {
                Some((_, sum)) => *sum += flows,
                None => classes.push((size, flows)),
            }
        }
        Self(classes)
    }

    /// All flows of these distributions together.
    pub fn sum(distributions: &[&Self]) -> Self {
        let mut all: Vec<_> = distributions.iter().flat_map(|distribution| distribution.0.iter().copied()).collect();
        // Each is sorted, and a merge sort finds that.
        all.sort_by_key(|&(size, _)| size);
        all.dedup_by(|next, class| {
            let same = next.0 == class.0;
            class.1 += if same { next.1 } else { 0.0 };
            same
        });
        Self(all)
    }

    /// Number of flows of at least this size.
    pub fn tail(&self, size: u32) -> f64 {
        let first = self.0.partition_point(|&(at, _)| at < size);
        self.0[first..].iter().map(|(_, flows)| flows).sum()
    }

    /// The exact distribution of these sizes.
    pub fn of_sizes(sizes: impl IntoIterator<Item = u64>) -> Self {
        let mut counts = FxHashMap::<u32, f64>::default();
        for size in sizes {
            *counts.entry(u32::try_from(size).unwrap_or(u32::MAX)).or_default() += 1.0;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_unstable_by_key(|(size, _)| *size);
        Self(counts)
    }
}
