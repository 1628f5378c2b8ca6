//! Reports held against exact counts.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::program::Heavy;
use crate::wire::Flow;

/// The packets that a score's exact counts are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedFrom {
    /// Packets as the parser read them that the program measured with: what it could not read is not
    /// in the truth either.
    Parsed,
    /// Packets as they were made, whatever a parser finds in them.
    Sent,
}

/// How well a report of the k heaviest flows agrees with the truth (HashPipe §2.1 and §5).
///
/// The true heavy flows are the k with the largest counts; of several flows with the k-th count any
/// may be reported.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The packets behind the exact counts.
    pub truth: CountedFrom,
    pub k: usize,
    /// Flows in all.
    pub flows: usize,
    /// Reported flows that are heavy, over reported flows.
    pub precision: f64,
    /// Heavy flows that were reported, over heavy flows.
    pub recall: f64,
    /// Heavy flows that were not reported, over heavy flows.
    pub false_negatives: f64,
    /// Reported flows that are not heavy, over flows that are not heavy.
    pub false_positives: f64,
    /// Mean over the true heavy flows of |reported − true| ÷ true; a flow that is not reported
    /// counts 1.
    pub average_relative_error: f64,
}

/// Scores the first `k` of `report`, heaviest first, by counts of what `from` says.
pub fn score(report: &[Heavy], truth: &FxHashMap<Flow, u64>, k: usize, from: CountedFrom) -> Score {
    let k = k.min(truth.len());
    let mut counts: Vec<u64> = truth.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let threshold = k.checked_sub(1).map_or(u64::MAX, |last| counts[last]);
    let above = counts.partition_point(|&count| count > threshold);
    let true_count = |heavy: &Heavy| truth.get(&heavy.flow).copied().unwrap_or_default();

    let report = &report[..report.len().min(k)];
    let hits_above = report.iter().filter(|heavy| true_count(heavy) > threshold).count();
    let hits_tied = report.iter().filter(|heavy| true_count(heavy) == threshold).count();
    let hits = hits_above + hits_tied.min(k - above.min(k));
    let wrong = report.len() - hits;
    Score {
        truth: from,
        k,
        flows: truth.len(),
        precision: ratio(hits, report.len(), 1.0),
        recall: ratio(hits, k, 1.0),
        false_negatives: ratio(k - hits, k, 0.0),
        false_positives: ratio(wrong, truth.len() - k, 0.0),
        average_relative_error: relative_error(report, truth, k),
    }
}

fn relative_error(report: &[Heavy], truth: &FxHashMap<Flow, u64>, k: usize) -> f64 {
    let mut heavy: Vec<_> = truth.iter().map(|(&flow, &count)| Heavy { flow, count }).collect();
    let reported: FxHashMap<_, _> = report.iter().map(|heavy| (heavy.flow, heavy.count)).collect();
    let named: FxHashSet<_> = reported.keys().copied().collect();
    // Among flows of equal count those that were reported come first: any of them is a right
    // answer.
    heavy.sort_unstable_by_key(|heavy| (std::cmp::Reverse(heavy.count), !named.contains(&heavy.flow), heavy.flow));
    let error = |heavy: &Heavy| {
        reported.get(&heavy.flow).map_or(1.0, |&count| count.abs_diff(heavy.count) as f64 / heavy.count as f64)
    };
    ratio_f64(heavy[..k].iter().map(error).sum(), k as f64, 0.0)
}

fn ratio(part: usize, whole: usize, of_nothing: f64) -> f64 {
    ratio_f64(part as f64, whole as f64, of_nothing)
}

fn ratio_f64(part: f64, whole: f64, of_nothing: f64) -> f64 {
    if whole == 0.0 { of_nothing } else { part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(report: &[Heavy], truth: &FxHashMap<Flow, u64>, k: usize) -> Score {
        super::score(report, truth, k, CountedFrom::Sent)
    }

    fn flow(n: u32) -> Flow {
        Flow { src: Some(std::net::Ipv4Addr::from(n).into()), dst: None, sport: None, dport: None, proto: None }
    }

    fn truth(counts: &[u64]) -> FxHashMap<Flow, u64> {
        (0..).zip(counts).map(|(n, &count)| (flow(n), count)).collect()
    }

    fn report(pairs: &[(u32, u64)]) -> Vec<Heavy> {
        pairs.iter().map(|&(n, count)| Heavy { flow: flow(n), count }).collect()
    }

    #[test]
    fn the_truth_itself_is_perfect() {
        let score = score(&report(&[(0, 9), (1, 7)]), &truth(&[9, 7, 3, 1]), 2);
        assert_eq!((score.precision, score.recall, score.false_negatives), (1.0, 1.0, 0.0));
        assert_eq!((score.false_positives, score.average_relative_error), (0.0, 0.0));
    }

    #[test]
    fn a_light_flow_in_place_of_a_heavy_one() {
        let score = score(&report(&[(0, 8), (3, 1)]), &truth(&[10, 7, 3, 1]), 2);
        assert_eq!((score.precision, score.recall, score.false_negatives), (0.5, 0.5, 0.5));
        assert_eq!(score.false_positives, 0.5);
        assert!((score.average_relative_error - (0.2 + 1.0) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn any_of_the_tied_flows_is_right() {
        let score = score(&report(&[(0, 9), (3, 5)]), &truth(&[9, 5, 5, 5]), 2);
        assert_eq!((score.recall, score.average_relative_error), (1.0, 0.0));
    }

    #[test]
    fn fewer_flows_than_asked_for() {
        let score = score(&report(&[(0, 9)]), &truth(&[9]), 10);
        assert_eq!((score.k, score.recall, score.false_positives), (1, 1.0, 0.0));
        assert_eq!(super::score(&[], &truth(&[]), 5, CountedFrom::Sent).recall, 1.0);
    }
}
