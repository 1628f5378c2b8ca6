//! How good an answer is, as the HashPipe paper measures it.

use std::collections::BTreeMap;

use weir::trace::{Order, Workload};
use weir::wire::Tuple4;

use crate::hashpipe::HashPipe;
use crate::heavy::{HeavyHitter, KeyMap};

/// A generated trace with what is needed to judge an answer.
pub struct Input {
    pub order: Order,
    pub seed: u64,
    pub sequence: Vec<u32>,
    pub keys: Vec<Tuple4>,
    truth: KeyMap<u64>,
    /// Exact counts, descending.
    ranked: Vec<u64>,
}

/// How well the top k were found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    pub k: usize,
    /// Share of the k heaviest flows that are not among the k reported.
    pub false_negative: f64,
    /// Flows wrongly reported, as a share of the flows that are not heavy.
    pub false_positive: f64,
    /// Share of the heavy flows' packets that belongs to the heavy flows found.
    pub packets_found: f64,
}

/// One run of one algorithm over one trace.
pub struct Outcome {
    pub scores: Vec<Score>,
    /// Share of the counters that hold a key which another counter holds too.
    pub duplicates: f64,
    /// For each rank: exact count, and the mean relative error of the flows up to that rank (a
    /// missed flow errs by 1).
    pub size_errors: Vec<(u64, f64)>,
    /// How often each count fell out of HashPipe's last stage, at every hundredth packet; counted
    /// where a figure shows it.
    pub evicted: BTreeMap<u64, u64>,
}

/// Ranks for which errors are kept.
const ERROR_RANKS: usize = 1000;

/// Packets that an algorithm is given at once, as from a port's queue.
const BURST: usize = 64;

impl Input {
    pub fn new(workload: Workload) -> Self {
        let trace = workload.generate();
        let keys: Vec<Tuple4> = trace.tuples().into_iter().map(|t| t.v4().expect("the workload has no IPv6")).collect();
        let truth = keys.iter().zip(&trace.sizes).map(|(&key, &size)| (key, u64::from(size))).collect();
        let mut ranked: Vec<u64> = trace.sizes.iter().map(|&size| u64::from(size)).collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        Self { order: trace.workload.order, seed: trace.workload.seed, sequence: trace.sequence, keys, truth, ranked }
    }

    /// The exact count of the k-th heaviest flow.
    pub fn kth(&self, k: usize) -> u64 {
        self.ranked[(k - 1).min(self.ranked.len() - 1)]
    }

    /// Runs the trace through `algorithm`, whose memory is `counters`, and judges the top k for
    /// each of `ks`.
    pub fn judge(&self, mut algorithm: impl HeavyHitter, counters: usize, ks: &[usize]) -> Outcome {
        self.bursts(BURST, |keys| algorithm.burst(keys));
        let table = algorithm.read_out();
        let mut estimates: KeyMap<u64> = KeyMap::default();
        table.iter().for_each(|&(key, count)| *estimates.entry(key).or_default() += count);
        let duplicates = (table.len() - estimates.len()) as f64 / counters as f64;
        let mut reported: Vec<(u64, Tuple4)> = estimates.iter().map(|(&key, &count)| (count, key)).collect();
        reported.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let exact: Vec<u64> = reported.iter().map(|(_, key)| self.truth[key]).collect();
        let scores = ks.iter().map(|&k| self.score(&exact, k)).collect();
        Outcome { scores, duplicates, size_errors: self.size_errors(&estimates), evicted: BTreeMap::new() }
    }

    /// How often each count fell out of the last stage at every hundredth packet.
    pub fn evicted(&self, mut pipe: HashPipe) -> BTreeMap<u64, u64> {
        let mut evicted = BTreeMap::new();
        self.bursts(100, |keys| {
            let Some((&last, others)) = keys.split_last() else { return };
            pipe.burst(others);
            let before = pipe.total();
            pipe.packet(last);
            let lost = before + 1 - pipe.total();
            if lost > 0 {
                *evicted.entry(lost).or_default() += 1;
            }
        });
        evicted
    }

    /// The trace in bursts of `length` packets.
    fn bursts(&self, length: usize, mut take: impl FnMut(&[Tuple4])) {
        let mut keys = Vec::with_capacity(length);
        for flows in self.sequence.chunks(length) {
            keys.clear();
            keys.extend(flows.iter().map(|&flow| self.keys[flow as usize]));
            take(&keys);
        }
    }

    /// `exact` holds the exact counts of the reported flows, the one reported as heaviest first.
    ///
    /// A flow is heavy when its exact count is at least that of the k-th heaviest. Where several
    /// tie for the last places, any of them fills one, so that no algorithm is blamed for the
    /// choice. Ties in the report are broken by key.
    fn score(&self, exact: &[u64], k: usize) -> Score {
        let min = self.kth(k);
        let reported = &exact[..k.min(exact.len())];
        let above = |counts: &mut dyn Iterator<Item = u64>| {
            counts.filter(|&n| n > min).fold((0, 0), |(c, p), n| (c + 1, p + n))
        };
        let (sure_true, packets_true) = above(&mut self.ranked[..k].iter().copied());
        let (sure, packets) = above(&mut reported.iter().copied());
        let tied = reported.iter().filter(|&&n| n == min).count().min(k - sure_true);
        let total = packets_true + (k - sure_true) as u64 * min;
        let found = sure + tied;
        let light = self.ranked.len() - k;
        Score {
            k,
            false_negative: 1.0 - found as f64 / k as f64,
            false_positive: if light == 0 { 0.0 } else { (reported.len() - found) as f64 / light as f64 },
            packets_found: (packets + tied as u64 * min) as f64 / total as f64,
        }
    }

    fn size_errors(&self, estimates: &KeyMap<u64>) -> Vec<(u64, f64)> {
        let mut heaviest: Vec<(u64, Tuple4)> = self.truth.iter().map(|(&key, &n)| (n, key)).collect();
        heaviest.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut sum = 0.0;
        let rows = heaviest.iter().take(ERROR_RANKS).enumerate().map(|(i, &(exact, key))| {
            let estimate = estimates.get(&key).copied().unwrap_or(0);
            sum += exact.abs_diff(estimate) as f64 / exact as f64;
            (exact, sum / (i + 1) as f64)
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(ranked: &[u64]) -> Input {
        let (sequence, keys) = (Vec::new(), Vec::new());
        Input { order: Order::Uniform, seed: 1, sequence, keys, truth: KeyMap::default(), ranked: ranked.to_vec() }
    }

    #[test]
    fn ties_fill_the_last_places() {
        let input = input(&[9, 5, 5, 5, 1, 1, 1]);
        let all = input.score(&[5, 9, 5, 1], 3);
        assert_eq!(all, Score { k: 3, false_negative: 0.0, false_positive: 0.0, packets_found: 1.0 });
        // Three tied flows take the two places there are; the heaviest is missed.
        let missed = input.score(&[5, 5, 5], 3);
        assert!((missed.false_negative - 1.0 / 3.0).abs() < 1e-12 && missed.false_positive == 0.25, "{missed:?}");
        assert_eq!(missed.packets_found, 10.0 / 19.0);
    }

    #[test]
    fn a_short_report_misses_the_rest() {
        let few = input(&[4, 3, 2, 1]).score(&[4], 2);
        assert_eq!((few.false_negative, few.false_positive), (0.5, 0.0));
    }
}
