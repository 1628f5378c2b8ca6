//! Baselines that know the links alone: the votes of 007, and detector's localisation of packet losses (PLL).
//!
//! *007: Democratically Finding the Cause of Packet Drops* (NSDI 2018): each flow that lost packets gives each of
//! the h links of its path 1 / h of a vote; the link with most votes is named and its flows are taken away, until
//! none has 1 % of all votes.
//!
//! *deTector: a Topology-aware Monitoring System for Data Center Networks* (ATC 2017): among links of which at
//! least 60 % of the paths lost packets, the one is named that explains most lost packets, and so on. A path is
//! one of at least 30 packets, and it lost packets if at least one in 1000.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::net::{At, Drawn, Sent};

const STOP: f64 = 0.01;
const HIT_RATIO: f64 = 0.6;
const LEAST_PACKETS: u64 = 30;
const LOSS_RATIO: f64 = 1e-3;

/// Links that are named, and the lost packets of each flow that are given to each.
#[derive(Default)]
pub struct Named {
    pub links: BTreeSet<At>,
    /// By place and number of the flow.
    pub placed: BTreeMap<(At, usize), u64>,
}

fn links(sent: &Sent) -> impl Iterator<Item = At> {
    sent.path.iter().copied().filter(|at| matches!(at, At::Link(..)))
}

impl Named {
    fn add(&mut self, link: At, drawn: &Drawn<'_>, flows: impl IntoIterator<Item = usize>) {
        self.links.insert(link);
        flows.into_iter().for_each(|flow| {
            self.placed.insert((link, flow), drawn.flows[flow].lost());
        });
    }
}

pub fn votes(drawn: &Drawn<'_>) -> Named {
    let mut victims: Vec<usize> = (0..drawn.flows.len()).filter(|flow| drawn.flows[*flow].lost() > 0).collect();
    let all = victims.len() as f64;
    let mut named = Named::default();
    loop {
        let mut votes: HashMap<At, f64> = HashMap::new();
        for flow in &victims {
            let sent = &drawn.flows[*flow];
            let number = links(sent).count().max(1) as f64;
            links(sent).for_each(|link| *votes.entry(link).or_default() += 1.0 / number);
        }
        let most = votes.into_iter().max_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)));
        let Some((link, _)) = most.filter(|(_, votes)| *votes >= STOP * all) else { return named };
        let (own, others) = victims.iter().partition(|flow| links(&drawn.flows[**flow]).any(|at| at == link));
        victims = others;
        let own: Vec<usize> = own;
        named.add(link, drawn, own);
    }
}

pub fn pll(drawn: &Drawn<'_>) -> Named {
    // By path: packets sent and lost, and the flows.
    let mut paths: BTreeMap<&[At], (u64, u64, Vec<usize>)> = BTreeMap::new();
    for (number, sent) in drawn.flows.iter().enumerate() {
        let path = paths.entry(&sent.path).or_default();
        path.0 += sent.packets;
        path.1 += sent.lost();
        path.2.push(number);
    }
    paths.retain(|_, (packets, ..)| *packets >= LEAST_PACKETS);
    let is_lossy = |(packets, lost, _): &(u64, u64, Vec<usize>)| *lost as f64 >= LOSS_RATIO * *packets as f64;
    let of = |path: &&[At]| path.iter().copied().filter(|at| matches!(at, At::Link(..))).collect::<Vec<_>>();
    let mut hits: HashMap<At, (u64, u64)> = HashMap::new();
    for (path, counts) in &paths {
        for link in of(path) {
            let hit = hits.entry(link).or_default();
            *hit = (hit.0 + u64::from(is_lossy(counts)), hit.1 + 1);
        }
    }
    let mut left: Vec<(Vec<At>, u64, Vec<usize>)> = paths
        .iter()
        .filter(|(_, counts)| is_lossy(counts))
        .map(|(path, (_, lost, flows))| (of(path), *lost, flows.clone()))
        .collect();
    let mut named = Named::default();
    loop {
        let mut explains: HashMap<At, u64> = HashMap::new();
        for (path, lost, _) in &left {
            let eligible = path
                .iter()
                .filter(|link| hits.get(link).is_some_and(|(hit, all)| *hit as f64 >= HIT_RATIO * *all as f64));
            eligible.for_each(|link| *explains.entry(*link).or_default() += lost);
        }
        let most = explains.into_iter().max_by_key(|(link, lost)| (*lost, std::cmp::Reverse(*link)));
        let Some((link, _)) = most.filter(|(_, lost)| *lost > 0) else { return named };
        let (own, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|(path, ..)| path.contains(&link));
        left = others;
        let flows = own.into_iter().flat_map(|(.., flows)| flows).filter(|flow| drawn.flows[*flow].lost() > 0);
        named.add(link, drawn, flows);
    }
}
