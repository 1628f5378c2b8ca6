//! Observations of a network's edges over several epochs, put together as trials.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{FlowTrial, Losing, Trials, infer};
use crate::answers::places::compare::Member;
use crate::answers::places::fit::LostOfFlow;
use crate::answers::places::links::{Links, SentFlows};
use crate::answers::{Certainty, FlowName, Routes};
use crate::wire::Flow;

/// Losses and sizes of the flows of an epoch, and their paths.
pub struct EdgesOfEpoch<'a> {
    pub epoch: u64,
    pub lost: &'a [LostOfFlow],
    pub sent: &'a SentFlows,
    pub routes: &'a dyn Routes,
    pub links: &'a Links,
    /// Members that count: lost packets, and those that went in, without what flows lost there for certain.
    pub counted: FxHashMap<&'a Member, [f64; 2]>,
}

/// A member, or several that no flow tells apart, and what it lost.
#[derive(Debug)]
pub struct InferredPlace {
    pub members: Vec<Member>,
    pub losing: Losing,
    /// By flow: expected lost packets, the packets that it lost in all, and the probability that it lost none
    /// there.
    pub flows: BTreeMap<FlowName, (f64, f64, f64)>,
    /// The first and the last epoch in which it lost packets.
    pub epochs: (u64, u64),
}

/// Numbers of things in the order in which they came.
#[derive(Debug)]
struct Numbers<T> {
    all: Vec<T>,
    numbers: FxHashMap<T, usize>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { all: Vec::new(), numbers: FxHashMap::default() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbers<T> {
    fn of(&mut self, thing: &T) -> usize {
        if let Some(number) = self.numbers.get(thing) {
            return *number;
        }
        self.all.push(thing.clone());
        self.numbers.insert(thing.clone(), self.all.len() - 1);
        self.all.len() - 1
    }
}

type Ends = [Arc<str>; 2];

/// Flows of the epochs so far.
#[derive(Debug, Default)]
pub struct Observed {
    /// Each with whether it counted: of an epoch in which it did not, its losses are inferred.
    members: Numbers<(Member, bool)>,
    /// Lost packets of members that counted, and those that went in.
    counted: FxHashMap<Member, [f64; 2]>,
    ends: Numbers<Ends>,
    /// Each with its pair of switches.
    paths: Numbers<(usize, Vec<usize>)>,
    /// The switches that hosts are at, as paths have shown.
    hosts: [FxHashMap<IpAddr, Arc<str>>; 2],
    trials: Vec<FlowTrial>,
    /// The flow and epoch of each trial that lost packets, in the same order.
    victims: Vec<(FlowName, u64)>,
    /// Flows whose path is not known: lost and sent packets.
    pathless: Vec<(FlowName, u64, f64, f64)>,
    /// Packets and number of flows without names.
    others: (f64, f64),
}

impl Observed {
    pub fn is_empty(&self) -> bool {
        self.victims.is_empty() && self.pathless.iter().all(|(_, _, lost, _)| *lost == 0.0)
    }

    pub fn add(&mut self, of: &EdgesOfEpoch<'_>) {
        let mut between: FxHashMap<[&str; 2], Vec<Member>> = FxHashMap::default();
        for [from, to] in of.links.directions() {
            let member = Member::Link { from: from.clone(), to: to.clone() };
            between.entry([&*from.switch, &*to.switch]).or_default().push(member);
        }
        let mut known: FxHashMap<Vec<Arc<str>>, (usize, usize)> = FxHashMap::default();
        for (member, packets) in &of.counted {
            let sums = self.counted.entry((*member).clone()).or_default();
            (0..2).for_each(|side| sums[side] += packets[side]);
        }
        // Packets that a flow lost for certain at a counted member are not inferred.
        let mut lost: FxHashMap<FlowName, (f64, f64)> =
            of.lost.iter().map(|flow| (flow.name, (flow.lost - flow.certain, flow.certain))).collect();
        let mean = of.sent.other_packets / of.sent.other_flows.max(1.0);
        let sent = of.sent.flows.iter().map(|(name, sent)| (*name, *sent as f64));
        let mut flows: Vec<(FlowName, f64, f64)> = sent
            .map(|(name, sent)| {
                let (lost, certain) = lost.remove(&name).unwrap_or_default();
                (name, (sent - certain).max(lost), lost)
            })
            .collect();
        let rest = lost.into_iter().filter(|(_, (lost, _))| *lost > 0.0);
        let mut rest: Vec<_> = rest.map(|(name, (lost, _))| (name, mean.max(lost).max(1.0), lost)).collect();
        rest.sort_unstable_by_key(|(name, ..)| *name);
        flows.extend(rest);
        for (name, sent, lost) in flows {
            let Some(flow) = name.flow() else { continue };
            match whole_path(of.routes, &flow, of.epoch) {
                Some(path) => {
                    let (ends, path) = match known.get(&path) {
                        Some(found) => *found,
                        None => {
                            let found = self.path(&path, &between, &of.counted);
                            known.insert(path.clone(), found);
                            self.learn(&flow, &path);
                            found
                        }
                    };
                    self.learn_hosts(&flow, ends);
                    self.trial(name, of.epoch, FlowTrial { ends, path: Some(path), sent, lost, flows: 1.0 });
                }
                None => self.pathless.push((name, of.epoch, lost, sent)),
            }
        }
        self.others.0 += of.sent.other_packets;
        self.others.1 += of.sent.other_flows;
    }

    fn learn(&mut self, flow: &Flow, path: &[Arc<str>]) {
        let ends = [path.first(), path.last()];
        for ((hosts, host), switch) in self.hosts.iter_mut().zip([flow.src, flow.dst]).zip(ends) {
            if let (Some(host), Some(switch)) = (host, switch) {
                hosts.insert(host, switch.clone());
            }
        }
    }

    fn learn_hosts(&mut self, flow: &Flow, ends: usize) {
        let ends = self.ends.all[ends].clone();
        if flow.src.is_some_and(|host| !self.hosts[0].contains_key(&host))
            || flow.dst.is_some_and(|host| !self.hosts[1].contains_key(&host))
        {
            self.learn(flow, &ends);
        }
    }

    fn trial(&mut self, name: FlowName, epoch: u64, trial: FlowTrial) {
        if trial.lost > 0.0 {
            self.victims.push((name, epoch));
        }
        self.trials.push(trial);
    }

    /// The numbers of a path and of its ends.
    fn path(
        &mut self,
        switches: &[Arc<str>],
        between: &FxHashMap<[&str; 2], Vec<Member>>,
        counted: &FxHashMap<&Member, [f64; 2]>,
    ) -> (usize, usize) {
        let mut members = Vec::new();
        for (place, switch) in switches.iter().enumerate() {
            members.push(Member::Switch(switch.clone()));
            let Some(next) = switches.get(place + 1) else { continue };
            match between.get(&[&**switch, &**next]) {
                Some(links) => members.extend(links.iter().cloned()),
                None => members.push(Member::Hop([switch.clone(), next.clone()])),
            }
        }
        let with_counted = members.into_iter().map(|member| {
            let has_counted = counted.contains_key(&member);
            (member, has_counted)
        });
        let numbers = with_counted.map(|member| self.members.of(&member)).collect();
        let ends = [switches.first(), switches.last()].map(|end| end.cloned().unwrap_or_default());
        let ends = self.ends.of(&ends);
        (ends, self.paths.of(&(ends, numbers)))
    }

    /// Gives flows without a known path the pair of switches that their hosts are at, and spreads flows without
    /// a name over all pairs as those with one are.
    fn complete(&mut self) {
        let mut of_ends: BTreeMap<usize, f64> = BTreeMap::new();
        self.trials.iter().for_each(|trial| *of_ends.entry(trial.ends).or_default() += trial.flows);
        for (name, epoch, lost, sent) in std::mem::take(&mut self.pathless) {
            let host = |side: usize, host: Option<IpAddr>| self.hosts[side].get(&host?).cloned();
            let flow = name.flow().unwrap_or_default();
            let ends = host(0, flow.src).zip(host(1, flow.dst)).map(|(first, last)| [first, last]);
            if let Some(ends) = ends.and_then(|ends| self.ends.numbers.get(&ends).copied()) {
                *of_ends.entry(ends).or_default() += 1.0;
                self.trial(name, epoch, FlowTrial { ends, path: None, sent, lost, flows: 1.0 });
            }
        }
        let (packets, flows) = self.others;
        let all: f64 = of_ends.values().sum();
        if packets > 0.0 && flows > 0.0 {
            let spread = of_ends.into_iter().map(|(ends, of)| FlowTrial {
                ends,
                path: None,
                sent: packets / flows,
                lost: 0.0,
                flows: flows * of / all,
            });
            self.trials.extend(spread);
        }
    }

    /// The places that lost packets.
    pub fn infer(&mut self, alarm_rate: f64) -> Vec<InferredPlace> {
        self.complete();
        let (atoms, of_member) = self.atoms();
        let mut paths_of_ends = vec![Vec::new(); self.ends.all.len()];
        let mut paths = Vec::new();
        for (number, (ends, members)) in self.paths.all.iter().enumerate() {
            paths_of_ends[*ends].push(number);
            let mut own: Vec<usize> = Vec::new();
            for member in members {
                if !own.contains(&of_member[*member]) {
                    own.push(of_member[*member]);
                }
            }
            paths.push(own);
        }
        let cables = self.cables(&of_member);
        let counted: Vec<Option<f64>> = atoms.iter().map(|atom| self.counted_rate(atom)).collect();
        let trials = Trials::new(atoms.len(), paths, paths_of_ends, cables, self.trials.iter().copied());
        let trials = trials.with_counted(counted);
        let inferred = infer(&trials, alarm_rate);
        let mut places: Vec<InferredPlace> = atoms
            .into_iter()
            .zip(inferred.members)
            .map(|(atom, losing)| InferredPlace {
                members: atom.into_iter().map(|member| self.members.all[member].0.clone()).collect(),
                losing,
                flows: BTreeMap::new(),
                epochs: (u64::MAX, 0),
            })
            .collect();
        let mut by_epoch: BTreeMap<(usize, u64), f64> = BTreeMap::new();
        for (((name, epoch), trial), shares) in self.victims.iter().zip(&trials.victims).zip(inferred.flows) {
            for (member, packets, none) in shares.into_iter().filter(|(member, ..)| !trials.has_counted(*member)) {
                let share = places[member].flows.entry(*name).or_insert((0.0, 0.0, 1.0));
                *share = (share.0 + packets, share.1 + trial.lost, share.2 * none);
                *by_epoch.entry((member, *epoch)).or_default() += packets;
            }
        }
        for ((member, epoch), packets) in by_epoch {
            let (first, last) = &mut places[member].epochs;
            if packets >= 0.5 || *first == u64::MAX {
                (*first, *last) = ((*first).min(epoch), (*last).max(epoch));
            }
        }
        places.retain(|place| !place.flows.is_empty());
        places
    }

    /// The share of packets that members lost which counted; `None` where they did not.
    fn counted_rate(&self, members: &[usize]) -> Option<f64> {
        let rate = |member: &usize| {
            let (member, has_counted) = &self.members.all[*member];
            let [lost, sent] = self.counted.get(member).copied().filter(|_| *has_counted)?;
            Some(if sent > 0.0 { (lost / sent).min(1.0) } else { 0.0 })
        };
        let rates: Option<Vec<f64>> = members.iter().map(rate).collect();
        Some(1.0 - rates?.into_iter().map(|rate| 1.0 - rate).product::<f64>())
    }

    /// Members that lie on the same paths, and counted or did not, together, and for each member the number of its
    /// group.
    fn atoms(&self) -> (Vec<Vec<usize>>, Vec<usize>) {
        let mut on: Vec<Vec<usize>> = vec![Vec::new(); self.members.all.len()];
        for (path, (_, members)) in self.paths.all.iter().enumerate() {
            members.iter().for_each(|member| on[*member].push(path));
        }
        let mut groups: Numbers<(&Vec<usize>, bool)> = Numbers::default();
        let with_counted = on.iter().zip(&self.members.all).map(|(paths, (_, has_counted))| (paths, *has_counted));
        let of_member: Vec<usize> = with_counted.map(|group| groups.of(&group)).collect();
        let mut atoms = vec![Vec::new(); groups.all.len()];
        of_member.iter().enumerate().for_each(|(member, group)| atoms[*group].push(member));
        (atoms, of_member)
    }

    /// Groups that are the two directions of a link.
    fn cables(&self, of_member: &[usize]) -> Vec<[usize; 2]> {
        let mut cables = Vec::new();
        for (number, (member, _)) in self.members.all.iter().enumerate().filter(|(_, (_, has_counted))| !has_counted) {
            let back = match member {
                Member::Link { from, to } => Member::Link { from: to.clone(), to: from.clone() },
                Member::Hop([from, to]) => Member::Hop([to.clone(), from.clone()]),
                _ => continue,
            };
            if let Some(back) = self.members.numbers.get(&(back, false)).filter(|back| **back > number) {
                let cable = [of_member[number], of_member[*back]];
                if cable[0] != cable[1] && !cables.contains(&cable) {
                    cables.push(cable);
                }
            }
        }
        cables
    }
}

/// The path of a flow, where one alone is known, from its first to its last switch.
fn whole_path(routes: &dyn Routes, flow: &Flow, epoch: u64) -> Option<Vec<Arc<str>>> {
    let known = routes.in_epoch(flow, epoch);
    let [route] = &known[..] else { return None };
    let is_decided = route.certainty >= Certainty::Decided && !route.switches.is_empty();
    is_decided.then(|| route.switches.iter().cloned().collect::<Option<Vec<_>>>())?
}
