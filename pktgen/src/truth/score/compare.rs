//! One answer held against the truth of its epochs.

use rustc_hash::FxHashMap;
use weir::answers::{Claimed, HeavyFlows, Losses};
use weir::answers::{CountedFrom, Score, score};
use weir::program::Unit;
use weir::wire::Flow;

use super::LossScore;
use crate::traffic::MALFORMED_SOURCE;

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub packets: u64,
    pub bytes: u64,
    pub lost: u64,
}

fn is_strange(flow: &Flow) -> bool {
    flow.src == Some(std::net::Ipv4Addr::from(MALFORMED_SOURCE).into())
}

pub fn score_heavy(answer: &HeavyFlows, truth: &FxHashMap<Flow, Counts>, top: usize) -> Score {
    let of = |counts: &Counts| if answer.unit == Unit::Packets { counts.packets } else { counts.bytes };
    let truth = truth.iter().map(|(flow, counts)| (*flow, of(counts))).collect();
    let told = answer.counts();
    let told: Vec<_> = told.filter(|heavy| !is_strange(&heavy.flow)).collect();
    score(&told, &truth, top, CountedFrom::Sent)
}

pub fn score_losses(epoch: u64, answer: &Claimed<Losses>, truth: &FxHashMap<Flow, Counts>) -> LossScore {
    let lost = |flow: &Flow| truth.get(flow).map_or(0, |counts| counts.lost);
    let told = || answer.losses.iter().filter(|loss| !is_strange(&loss.name.flow().unwrap_or_default()));
    let strange: u64 = answer
        .losses
        .iter()
        .filter(|loss| is_strange(&loss.name.flow().unwrap_or_default()))
        .map(|loss| loss.packets)
        .sum();
    LossScore {
        epoch,
        true_lost_packets: truth.values().map(|counts| counts.lost).sum(),
        lost_packets: answer.lost_packets.saturating_sub(strange),
        true_victims: truth.values().filter(|counts| counts.lost > 0).count() as u64,
        named_victims: told().filter(|loss| lost(&loss.name.flow().unwrap_or_default()) > 0).count() as u64,
        exact_victims: told()
            .filter(|loss| loss.packets > 0 && lost(&loss.name.flow().unwrap_or_default()) == loss.packets)
            .count() as u64,
        wrong_flows: told().filter(|loss| lost(&loss.name.flow().unwrap_or_default()) == 0).count() as u64,
        complete: answer.claim.complete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn flow(n: u16) -> Flow {
        Flow { sport: Some(n), ..Flow::default() }
    }

    fn truth(counts: &[(u16, u64, u64)]) -> FxHashMap<Flow, Counts> {
        let counts = counts.iter().map(|&(n, packets, lost)| (flow(n), Counts { packets, bytes: 60 * packets, lost }));
        counts.collect()
    }

    fn losses(flows: &[(u16, u64)], lost: u64) -> Claimed<Losses> {
        let named = flows.iter().map(|(n, packets)| json!({"flow": {"sport": n}, "packets": packets, "exact": true}));
        let mut answer = serde_json::to_value(Claimed::<Losses>::default()).unwrap();
        answer["lost_packets"] = lost.into();
        answer["losses"] = named.collect();
        serde_json::from_value(answer).unwrap()
    }

    #[test]
    fn losses_are_exact_or_not() {
        let truth = truth(&[(1, 100, 3), (2, 100, 0), (3, 100, 7)]);
        assert!(score_losses(5, &losses(&[(1, 3), (3, 7)], 10), &truth).is_exact());
        for (told, lost) in
            [(&[(1, 3), (3, 6)][..], 9), (&[(1, 3)], 3), (&[(1, 3), (3, 7), (2, 1)], 11), (&[(1, 3), (3, 7)], 11)]
        {
            assert!(!score_losses(5, &losses(told, lost), &truth).is_exact(), "{told:?}");
        }
        let score = score_losses(5, &losses(&[(1, 2), (2, 1)], 3), &truth);
        assert_eq!((score.true_victims, score.named_victims, score.exact_victims, score.wrong_flows), (2, 1, 0, 1));
    }

    #[test]
    fn heavy_flows_are_scored_without_strangers() {
        let truth = truth(&[(1, 100, 0), (2, 50, 0), (3, 1, 0)]);
        let mut answer = serde_json::to_value(Claimed::<HeavyFlows>::default()).unwrap();
        answer["heavy"] = json!([
            {"flow": {"src": "198.51.100.1"}, "packets": 1000},
            {"flow": {"sport": 1}, "packets": 90},
            {"flow": {"sport": 2}, "packets": 50},
        ]);
        let score = score_heavy(&serde_json::from_value::<Claimed<HeavyFlows>>(answer).unwrap(), &truth, 2);
        assert_eq!(score.recall, 1.0);
        assert!((score.average_relative_error - 0.05).abs() < 1e-12);
    }
}
