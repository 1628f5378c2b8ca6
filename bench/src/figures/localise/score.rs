//! Answers beside the truth.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use weir::answers::{LossPlace, Places};
use weir::wire::Flow;

use super::net::{At, Drawn, Net};
use super::votes::Named;

/// Lost packets below which nothing is named.
const LEAST_LOST: u64 = 3;

/// An answer.
#[derive(Default)]
pub struct Told {
    /// Places that are called failed, each with those that are not told apart from it, and the confidence.
    pub named: Vec<(Vec<At>, f64)>,
    /// Packets of flows: the places, the flow's number, and packets.
    placed: Vec<(Vec<At>, usize, u64)>,
    /// Lost packets of each place, of an answer that counts.
    counts: Option<BTreeMap<At, u64>>,
    /// It knows links alone.
    is_of_links: bool,
}

impl Told {
    pub fn of_links(named: Named) -> Self {
        Self {
            named: named.links.into_iter().map(|link| (vec![link], 1.0)).collect(),
            placed: named.placed.into_iter().map(|((at, flow), packets)| (vec![at], flow, packets)).collect(),
            counts: None,
            is_of_links: true,
        }
    }

    pub fn of_places(places: &Places, epochs: &[&Drawn<'_>]) -> Self {
        let names: HashMap<(String, Option<String>), At> =
            epochs[0].net.places().map(|at| (Net::named(at), at)).collect();
        let flows: HashMap<Flow, usize> =
            epochs[0].flows.iter().enumerate().map(|(number, sent)| (sent.flow, number)).collect();
        let mut told = Self::default();
        let mut counts = BTreeMap::new();
        for place in &places.places {
            let own = members(place, &names);
            if place.failed {
                told.named.push((own.clone(), place.confidence));
            }
            own.first().into_iter().for_each(|at| *counts.entry(*at).or_default() += place.lost_packets);
            for victim in &place.victims {
                if let Some(flow) = victim.name.flow().and_then(|flow| flows.get(&flow)) {
                    told.placed.push((own.clone(), *flow, victim.packets));
                }
            }
        }
        told.counts = Some(counts);
        told
    }
}

/// The places that an entry of an answer stands for.
fn members(place: &LossPlace, names: &HashMap<(String, Option<String>), At>) -> Vec<At> {
    let of = |switch: &String, port: &Option<String>| names.get(&(switch.clone(), port.clone())).copied();
    if place.members.is_empty() {
        return of(&place.switch, &place.port).into_iter().collect();
    }
    place.members.iter().filter_map(|member| of(&member.switch, &member.port)).collect()
}

/// The shares that are right.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    pub precision: f64,
    /// Of failures that lost a packet.
    pub recall: f64,
    pub lost_packets: u64,
    pub lost_packets_right: f64,
    /// All failures of at least three lost packets are named, and nothing else is.
    pub is_exact: bool,
    /// Places with the exact number of lost packets, of those that lost some or are said to.
    pub places_right: f64,
}

impl Score {
    pub const COLUMNS: &'static str = "precision,recall,lost_packets,lost_packets_right,exact_answers,places_right";

    pub fn new(told: &Told, drawn: &Drawn<'_>, failing: &[At]) -> Self {
        let truth = drawn.truth();
        let failing: BTreeSet<At> = failing.iter().copied().filter(|at| truth.contains_key(at)).collect();
        let ends = |at: &At| match at {
            At::Link(from, link) => {
                let [a, b] = drawn.net.topology.links()[*link as usize];
                vec![*at, At::Switch(*from), At::Switch(if a == *from { b } else { a })]
            }
            At::Switch(_) => vec![*at],
        };
        // For a method that knows links alone, a link at a lossy switch is right.
        let meant = |at: &At| if told.is_of_links { ends(at) } else { vec![*at] };
        let finds = |(own, _): &&(Vec<At>, f64), at: &At| own.iter().any(|named| meant(named).contains(at));
        let right = told.named.iter().filter(|named| failing.iter().any(|at| finds(named, at))).count();
        let found = |at: &&At| told.named.iter().any(|named| finds(&named, at));
        let mut lost: HashMap<(usize, At), u64> = HashMap::new();
        for (number, sent) in drawn.flows.iter().enumerate() {
            sent.lost.iter().for_each(|(at, packets)| *lost.entry((number, *at)).or_default() += packets);
        }
        let truly = |places: &[At], flow: usize| {
            let all: BTreeSet<At> = places.iter().flat_map(meant).collect();
            all.iter().filter_map(|at| lost.get(&(flow, *at))).sum::<u64>()
        };
        let placed: u64 = told.placed.iter().map(|(at, flow, packets)| (*packets).min(truly(at, *flow))).sum();
        let lost_packets: u64 = truth.values().sum();
        let share = |of: usize, all: usize| if all == 0 { 1.0 } else { of as f64 / all as f64 };
        let counted = told.counts.as_ref().map_or(0.0, |counts| {
            let all: BTreeSet<&At> = counts.keys().chain(truth.keys()).collect();
            share(all.iter().filter(|at| counts.get(*at) == truth.get(*at)).count(), all.len())
        });
        Self {
            precision: share(right, told.named.len()),
            recall: share(failing.iter().filter(found).count(), failing.len()),
            lost_packets,
            lost_packets_right: if lost_packets == 0 { 1.0 } else { placed as f64 / lost_packets as f64 },
            is_exact: right == told.named.len()
                && failing.iter().filter(|at| truth[at] >= LEAST_LOST).all(|at| found(&at)),
            places_right: counted,
        }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { precision, recall, lost_packets, lost_packets_right, is_exact, places_right } = self;
        let exact = u8::from(*is_exact);
        write!(f, "{precision:.3},{recall:.3},{lost_packets},{lost_packets_right:.4},{exact},{places_right:.4}")
    }
}
