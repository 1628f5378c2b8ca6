//! Losses and utilisation of each link and switch of a map, taken from the answers.

use rustc_hash::FxHashMap;

use super::Map;
use crate::answers::{Claimed, Evidence, FlowUtilisation, LossPlace, Paths, PlaceName, Places, Utilisation};
use crate::output;

/// Shares of lost packets from which on a link is drawn as one that loses some, more, many, most.
const LOSS: [f64; 4] = [0.0, 1e-4, 1e-3, 1e-2];
/// Utilisations from which on a link is drawn wider.
const BUSY: [f64; 4] = [0.1, 0.3, 0.6, 0.9];

/// Packets that a link or switch lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    pub packets: u64,
    pub rate: f64,
    /// The lower end of the interval in which the rate lies.
    pub rate_low: f64,
    pub failed: bool,
    /// In words, with since when.
    pub text: String,
}

/// What is known of the losses at a place.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Losses {
    /// Nothing says where packets are lost.
    #[default]
    Unknown,
    None,
    Some(Lost),
}

impl Losses {
    /// 0 without losses, up to 4. A few packets of a link that few cross do not make it one that loses most.
    pub fn level(&self) -> usize {
        match self {
            Self::Some(lost) => LOSS.iter().filter(|from| lost.rate_low >= **from).count(),
            _ => 0,
        }
    }

    /// What loses more comes later: failed or not, and packets.
    pub fn order(&self) -> (bool, u64) {
        self.lost().map_or((false, 0), |lost| (lost.failed, lost.packets))
    }

    pub fn lost(&self) -> Option<&Lost> {
        match self {
            Self::Some(lost) => Some(lost),
            _ => None,
        }
    }
}

/// 0 for a link that is hardly used, up to 4.
pub fn busy_level(utilisation: f64) -> usize {
    BUSY.iter().filter(|from| utilisation >= **from).count()
}

/// Losses and utilisation by place.
#[derive(Default)]
pub struct Known {
    /// Whether places were compared at all.
    compared: bool,
    /// By the switch and port that packets leave.
    links: FxHashMap<(String, String), Lost>,
    /// By both switches, where ports are not known.
    hops: FxHashMap<(String, String), Lost>,
    switches: FxHashMap<String, Lost>,
    /// Links and switches that were not compared.
    unknown: Vec<PlaceName>,
    /// The utilisation of a hop is this at most.
    busy: FxHashMap<(String, String), f64>,
}

impl Known {
    pub fn new(
        places: Option<&Claimed<Places>>,
        utilisation: Option<&Claimed<Utilisation>>,
        paths: Option<&Claimed<Paths>>,
    ) -> Self {
        let mut known = Self { busy: busy(utilisation, paths), ..Self::default() };
        let Some(places) = places.filter(|places| places.claim.last_epoch.is_some()) else { return known };
        known.compared = true;
        known.unknown = places.unknown.iter().map(|place| place.clone().place()).collect();
        for place in &places.places {
            known.add(place, places.claim.epoch_ns);
        }
        known
    }

    fn add(&mut self, place: &LossPlace, epoch_ns: u64) {
        let lost = Lost {
            packets: place.lost_packets,
            rate: place.rate,
            rate_low: place.rate_low,
            failed: place.failed,
            text: lost_text(place, epoch_ns),
        };
        let own = PlaceName {
            switch: place.switch.clone(),
            port: place.port.clone(),
            to_switch: place.to_switch.clone(),
            to_port: place.to_port.clone(),
        };
        let names = if place.members.is_empty() { std::slice::from_ref(&own) } else { &place.members };
        for PlaceName { switch, port, to_switch, .. } in names {
            match (port, to_switch) {
                (Some(port), _) => drop(self.links.insert((switch.clone(), port.clone()), lost.clone())),
                (None, Some(to)) => drop(self.hops.insert((switch.clone(), to.clone()), lost.clone())),
                (None, None) => {
                    let switches = switch.split(", ").map(|switch| (switch.to_owned(), lost.clone()));
                    self.switches.extend(switches);
                }
            }
        }
    }

    /// The losses of a direction of a link: the switch and port that packets leave, and the switch that they go
    /// to.
    pub fn link(&self, switch: &str, port: Option<&str>, to: &str) -> Losses {
        let is_meant = |place: &&PlaceName| match &place.port {
            Some(unknown) => place.switch == switch && port == Some(unknown),
            None => place.switch == switch && place.to_switch.as_deref() == Some(to),
        };
        let by_port = port.and_then(|port| self.links.get(&(switch.to_owned(), port.to_owned())));
        let lost = by_port.or_else(|| self.hops.get(&(switch.to_owned(), to.to_owned())));
        self.of(lost, self.unknown.iter().any(|place| is_meant(&place)))
    }

    pub fn switch(&self, name: &str) -> Losses {
        let is_meant =
            |place: &PlaceName| place.to_switch.is_none() && place.switch.split(", ").any(|switch| switch == name);
        self.of(self.switches.get(name), self.unknown.iter().any(is_meant))
    }

    fn of(&self, lost: Option<&Lost>, is_unknown: bool) -> Losses {
        match lost {
            Some(lost) => Losses::Some(lost.clone()),
            None if self.compared && !is_unknown => Losses::None,
            None => Losses::Unknown,
        }
    }

    /// The utilisation of a direction of a link is this at most; `None` where no flow's packets told of it.
    pub fn busy(&self, switch: &str, to: &str) -> Option<f64> {
        self.busy.get(&(switch.to_owned(), to.to_owned())).copied()
    }
}

fn lost_text(place: &LossPlace, epoch_ns: u64) -> String {
    let about = if place.exact { "" } else { "about " };
    let [lost, sent] = [place.lost_packets, place.sent_packets].map(output::grouped);
    let since = output::epoch_start(place.since.number, epoch_ns);
    let inferred = if place.evidence == Evidence::Inferred { ", inferred" } else { "" };
    let failed = if place.failed { "failed, " } else { "" };
    format!(
        "{failed}lost {about}{lost} of {sent} packets ({}) since {since} UTC{inferred}",
        output::percent(place.rate)
    )
}

/// Bounds of utilisations by hop. Packets report the busiest link of their path, so each link of the path is
/// at most as busy, and the least that flows report of a link is the best bound.
fn busy(
    utilisation: Option<&Claimed<Utilisation>>,
    paths: Option<&Claimed<Paths>>,
) -> FxHashMap<(String, String), f64> {
    let flows = utilisation.map_or(&[][..], |answer| &answer.utilisations);
    let mut bounds = FxHashMap::default();
    for flow in flows {
        for hop in path_of(flow, paths).windows(2) {
            let bound: &mut f64 = bounds.entry((hop[0].clone(), hop[1].clone())).or_insert(f64::INFINITY);
            *bound = bound.min(flow.max_utilisation);
        }
    }
    bounds
}

/// The switches of a flow's path; none where not all of them are known.
fn path_of(flow: &FlowUtilisation, paths: Option<&Claimed<Paths>>) -> Vec<String> {
    let whole = |path: &[Option<std::sync::Arc<str>>]| {
        let names: Option<Vec<String>> = path.iter().map(|switch| Some(switch.as_ref()?.to_string())).collect();
        names.filter(|names| !names.is_empty())
    };
    let answered = || {
        let mut of_flow = paths?.paths.iter().filter(|path| path.flow == flow.name && path.sink == flow.sink);
        // A flow of several paths does not say which one was busy.
        of_flow.next().filter(|_| of_flow.next().is_none()).and_then(|path| whole(&path.switches))
    };
    whole(&flow.path).or_else(answered).unwrap_or_default()
}

/// What is known of the nodes and edges of a map, by their places.
pub struct MapFacts {
    pub nodes: Vec<Losses>,
    /// Of both directions of each edge: from its first end to its second, and back.
    pub edges: Vec<[(Losses, Option<f64>); 2]>,
}

impl MapFacts {
    pub fn new(map: &Map, known: &Known) -> Self {
        let nodes = map.nodes.iter().map(|node| known.switch(&node.name)).collect();
        let edge = |edge: &super::Edge| {
            let direction = |from: usize| {
                let [a, b] = [from, 1 - from].map(|end| &*map.nodes[edge.ends[end]].name);
                (known.link(a, edge.ports[from].as_deref(), b), known.busy(a, b))
            };
            [direction(0), direction(1)]
        };
        Self { nodes, edges: map.edges.iter().map(edge).collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::answers::{Claim, FlowName};

    fn place(switch: &str, port: Option<&str>, to: Option<&str>, rate: f64) -> LossPlace {
        LossPlace {
            switch: switch.into(),
            port: port.map(str::to_owned),
            to_switch: to.map(str::to_owned),
            lost_packets: 5,
            sent_packets: 1000,
            rate,
            rate_low: rate,
            exact: true,
            ..LossPlace::default()
        }
    }

    fn known(places: Vec<LossPlace>) -> Known {
        let claim = Claim { last_epoch: Some(7), epoch_ns: 1_000_000_000, ..Claim::default() };
        Known::new(Some(&Claimed::of(claim, Places { places, ..Places::default() })), None, None)
    }

    #[test]
    fn losses_stand_at_their_places() {
        let member = PlaceName { switch: "d".into(), to_switch: Some("e".into()), ..PlaceName::default() };
        let group = LossPlace { members: vec![member], ..place("group", None, None, 0.5) };
        let all = known(vec![place("a", Some("p"), Some("b"), 0.005), place("c", None, None, 5e-5), group]);
        let link = all.link("a", Some("p"), "b");
        assert_eq!((link.level(), link.lost().unwrap().packets), (3, 5));
        assert_eq!(link.lost().unwrap().text, "lost 5 of 1000 packets (0.50 %) since 00:00:00.000 UTC");
        assert_eq!(all.link("a", Some("q"), "b"), Losses::None);
        assert_eq!(all.link("b", Some("p"), "a"), Losses::None);
        assert_eq!((all.switch("c").level(), all.switch("a")), (1, Losses::None));
        assert_eq!(all.link("d", Some("any"), "e").level(), 4);
        // Nothing was asked, so nothing is known.
        assert_eq!(Known::default().link("a", Some("p"), "b"), Losses::Unknown);
    }

    #[test]
    fn a_link_is_as_busy_as_its_calmest_flow_at_most() {
        let flow = |path: &[&str], max_utilisation| FlowUtilisation {
            name: FlowName::default(),
            sink: "c".into(),
            checksum: Some(1),
            path: path.iter().map(|name| Some(Arc::from(*name))).collect(),
            packets: 9,
            median_utilisation: 0.0,
            max_utilisation,
            median_low: None,
            median_high: None,
        };
        let answer = Utilisation {
            utilisations: vec![flow(&["a", "b", "c"], 0.7), flow(&["b", "c"], 0.2), flow(&[], 0.1)],
            ..Utilisation::default()
        };
        let known = Known::new(None, Some(&Claimed::of(Claim::default(), answer)), None);
        assert_eq!((known.busy("a", "b"), known.busy("b", "c"), known.busy("c", "b")), (Some(0.7), Some(0.2), None));
        assert_eq!([0.05, 0.1, 0.95].map(busy_level), [0, 1, 4]);
    }
}
