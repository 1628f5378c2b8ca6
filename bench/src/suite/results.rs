//! What was measured, and the statistics over rounds.

use serde::Serialize;
use serde_json::{Value, json};

use super::case::Case;
use super::measure::Outcome;
use crate::throughput::Spread;

/// A case with its outcomes, one for each round. A round that failed has the reason.
pub struct Measured {
    pub case: Case,
    /// The place of its fair peer among all results.
    pub peer: Option<usize>,
    pub outcomes: Vec<Result<Outcome, String>>,
}

impl Measured {
    /// Cases that are to be measured.
    pub fn all(cases: Vec<Case>) -> Vec<Self> {
        let peers: Vec<_> = cases.iter().map(|case| case.peer(&cases)).collect();
        cases.into_iter().zip(peers).map(|(case, peer)| Self { case, peer, outcomes: Vec::new() }).collect()
    }

    /// One number of each round.
    fn values(&self, of: impl Fn(&Outcome) -> Option<f64>) -> Vec<Option<f64>> {
        self.outcomes.iter().map(|outcome| outcome.as_ref().ok().and_then(&of)).collect()
    }

    /// That number over rounds; `None` if no round has it.
    pub fn spread(&self, of: impl Fn(&Outcome) -> Option<f64>) -> Option<Spread> {
        let values: Vec<f64> = self.values(of).into_iter().flatten().collect();
        (!values.is_empty()).then(|| Spread::of(values))
    }

    /// The ratio of that number to the peer's in the same round, over rounds.
    pub fn ratio(&self, all: &[Self], of: impl Fn(&Outcome) -> Option<f64>) -> Option<Spread> {
        let peer = &all[self.peer?];
        let pairs = self.values(&of).into_iter().zip(peer.values(&of));
        let ratios: Vec<f64> = pairs.filter_map(|(mine, theirs)| Some(mine? / theirs?)).collect();
        (!ratios.is_empty()).then(|| Spread::of(ratios))
    }

    /// Why the last round that failed did.
    pub fn failure(&self) -> Option<&str> {
        self.outcomes.iter().rev().find_map(|outcome| outcome.as_ref().err()).map(String::as_str)
    }

    fn document(&self, all: &[Self]) -> Value {
        let setting = self.case.setting;
        json!({
            "group": self.case.group.name(),
            "forwards": self.case.contender.to_string(),
            "port": setting.port.name(),
            "frame_bytes": setting.size.to_string(),
            "flows": setting.flows,
            "cores": setting.cores,
            "huge_pages": setting.huge_pages,
            "peer": self.peer.map(|peer| all[peer].case.contender.to_string()),
            "packets_per_second": self.spread(packets_per_second).map(|spread| numbers(&spread)),
            "of_peer": self.ratio(all, packets_per_second).map(|spread| numbers(&spread)),
            "rounds": self.outcomes.iter().map(|outcome| match outcome {
                Ok(outcome) => json!(outcome),
                Err(error) => json!({ "error": error }),
            }).collect::<Vec<_>>(),
        })
    }
}

#[derive(Serialize)]
struct Numbers {
    median: f64,
    least: f64,
    most: f64,
}

fn numbers(spread: &Spread) -> Numbers {
    Numbers { median: spread.median, least: spread.min, most: spread.max }
}

/// Packets a second: what comes through, at the highest load where there are several.
pub fn packets_per_second(outcome: &Outcome) -> Option<f64> {
    match outcome {
        Outcome::Rate(rate) => Some(*rate),
        Outcome::Load(curve) => Some(curve.throughput),
        Outcome::Start(_) => None,
    }
}

/// Of the latencies at a load, p50, p99 or p99.9 in microseconds by its place.
pub fn latency(load: u32, place: usize) -> impl Fn(&Outcome) -> Option<f64> {
    move |outcome| match outcome {
        Outcome::Load(curve) => curve.points.iter().find(|point| point.load == load).map(|point| point.latency[place]),
        _ => None,
    }
}

/// The share that is lost at a load.
pub fn lost(load: u32) -> impl Fn(&Outcome) -> Option<f64> {
    move |outcome| match outcome {
        Outcome::Load(curve) => curve.points.iter().find(|point| point.load == load).map(|point| point.lost),
        _ => None,
    }
}

/// All results as one document.
pub fn document(all: &[Measured], head: &[(String, String)], missing: &[String]) -> Value {
    let head: serde_json::Map<_, _> = head.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let cases: Vec<_> = all.iter().map(|measured| measured.document(all)).collect();
    json!({ "machine": head, "missing": missing, "cases": cases })
}

#[cfg(test)]
pub mod tests {
    use super::super::case::{Contender, Group, Port, Setting, Size};
    use super::super::generate::{Curve, LOADS, LoadPoint};
    use super::super::measure::Footprint;
    use super::*;

    fn measured(group: Group, port: Port, contender: Contender, outcomes: Vec<Result<Outcome, String>>) -> Measured {
        let setting = Setting { port, size: Size::Fixed(64), flows: None, cores: 1, huge_pages: true };
        Measured { case: Case { group, contender, setting }, peer: None, outcomes }
    }

    fn curve(throughput: f64) -> Outcome {
        let point = |load| LoadPoint {
            load,
            lost: f64::from(load) / 1e4,
            latency: [1.0, 2.0, 3.0].map(|x| x * f64::from(load)),
        };
        Outcome::Load(Curve { throughput, offered: throughput * 1.1, points: LOADS.map(point).to_vec() })
    }

    /// weir and its peer in three rounds, one of which failed; and one of each other kind.
    pub fn example() -> Vec<Measured> {
        let rates = |rates: [f64; 3]| rates.map(|rate| Ok(Outcome::Rate(rate * 1e6))).to_vec();
        let start =
            Footprint { first_frame_seconds: 0.25, resident_bytes: Some(50 << 20), huge_bytes: Some(128 << 20) };
        let mut all = vec![
            measured(Group::Forwarding, Port::Null, Contender::Weir(vec![]), rates([90.0, 100.0, 60.0])),
            measured(Group::Forwarding, Port::Null, Contender::Testpmd("io"), rates([100.0, 100.0, 50.0])),
            measured(Group::Load, Port::Veth, Contender::Weir(vec![]), vec![Ok(curve(3e5))]),
            measured(Group::Start, Port::Veth, Contender::Weir(vec![]), vec![Ok(Outcome::Start(start))]),
            measured(Group::Sizes, Port::Pcap, Contender::Ovs, vec![Err("no bridge | today".into())]),
        ];
        all[0].peer = Some(1);
        all
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let all = example();
        let ratio = all[0].ratio(&all, packets_per_second).unwrap();
        assert_eq!((ratio.min, ratio.median, ratio.max), (0.9, 1.0, 1.2));
        let rate = all[0].spread(packets_per_second).unwrap();
        assert_eq!((rate.min, rate.median, rate.max), (60e6, 90e6, 100e6));
        assert!(all[1].ratio(&all, packets_per_second).is_none(), "nothing to compare with");
    }

    #[test]
    fn a_round_that_failed_spoils_no_other() {
        let mut all = example();
        all[1].outcomes[0] = Err("it fell over".into());
        let ratio = all[0].ratio(&all, packets_per_second).unwrap();
        assert_eq!((ratio.min, ratio.max), (1.0, 1.2));
        assert_eq!(all[1].failure(), Some("it fell over"));
        assert!(all[4].spread(packets_per_second).is_none());
    }

    #[test]
    fn latencies_are_found_by_load() {
        let all = example();
        assert_eq!(all[2].spread(latency(50, 1)).unwrap().median, 100.0);
        assert_eq!(all[2].spread(lost(100)).unwrap().median, 0.01);
        assert!(all[0].spread(latency(50, 1)).is_none());
    }

    #[test]
    fn the_document_has_every_round() {
        let document = document(&example(), &[("CPU".into(), "any".into())], &["BMv2".into()]);
        let weir = &document["cases"][0];
        assert_eq!(weir["packets_per_second"]["median"], 90e6);
        assert_eq!((weir["peer"].as_str(), weir["of_peer"]["most"].as_f64()), (Some("testpmd io"), Some(1.2)));
        assert_eq!(weir["rounds"].as_array().unwrap().len(), 3);
        assert_eq!(document["cases"][4]["rounds"][0]["error"], "no bridge | today");
        assert_eq!(document["machine"]["CPU"], "any");
    }
}
