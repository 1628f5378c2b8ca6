//! Places over several epochs: what was counted, the flows that lost packets there, and what is inferred of
//! members that do not count.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::compare::{Compared, Comparison, Member};
use super::fit::{Names, OfEpoch};
use super::infer::{EdgesOfEpoch, Observed};
use super::links::{Links, SentFlows};
use super::{LossPlace, Places, Surroundings, UnknownPlace, WrongPath};
use crate::answers::{FlowName, ProgramAnswer, Query};
use crate::history::{Reason, Reasons, SwitchGap};
use crate::wire::Flow;

/// Losses of a member over several epochs.
#[derive(Default)]
pub struct Sum {
    pub lost: u64,
    pub gained: u64,
    pub least: u64,
    pub most: Option<u64>,
    pub sent: u64,
    pub known: BTreeMap<&'static str, u64>,
    pub epochs: Option<(u64, u64)>,
}

impl Sum {
    fn add(&mut self, epoch: u64, compared: &Compared) {
        let most = if self.epochs.is_none() && self.sent == 0 { Some(0) } else { self.most };
        self.most = most.zip(compared.most).map(|(sum, more)| sum.saturating_add(more));
        self.lost = self.lost.saturating_add(compared.lost);
        self.gained = self.gained.saturating_add(compared.gained);
        self.least = self.least.saturating_add(compared.least);
        self.sent = self.sent.saturating_add(compared.sent);
        for (reason, packets) in &compared.known {
            *self.known.entry(reason).or_default() += packets;
        }
        if compared.lost > 0 {
            let (first, _) = self.epochs.unwrap_or((epoch, epoch));
            self.epochs = Some((first, epoch));
        }
    }
}

/// The hash whose highest bits are a flow's group.
type Hash<'a> = &'a dyn Fn(&Flow) -> Option<u32>;

/// Epochs that are put together.
pub struct Gathering<'a> {
    query: &'a Query,
    surroundings: &'a Surroundings,
    hash: Hash<'a>,
    pub told: Places,
    lack: Reasons,
    sums: BTreeMap<Member, Sum>,
    uncompared: BTreeMap<Member, u64>,
    names: Names,
    observed: Observed,
}

impl<'a> Gathering<'a> {
    pub fn new(query: &'a Query, surroundings: &'a Surroundings, hash: Hash<'a>) -> Self {
        Self {
            query,
            surroundings,
            hash,
            told: Places::default(),
            lack: Reasons::default(),
            sums: BTreeMap::new(),
            uncompared: BTreeMap::new(),
            names: Names::default(),
            observed: Observed::default(),
        }
    }

    /// Adds an epoch.
    pub fn add(&mut self, epoch: u64, gaps: &[SwitchGap], Comparison { mut compared, unknown }: Comparison) {
        let victims = self.surroundings.victims.as_ref().map(|source| source.lost_in(epoch));
        let known = victims.as_ref().and_then(Option::as_ref);
        let sent = known.and_then(|_| self.to_infer(epoch, &compared));
        if sent.is_some() {
            // Its members are told apart.
            compared.retain(|compared| !matches!(compared.member, Member::Around(_)));
        }
        for compared in &compared {
            self.sums.entry(compared.member.clone()).or_default().add(epoch, compared);
            self.lack.add_if(compared.is_full, Reason::Saturated);
            self.lack.add_if(compared.gained > 0, Reason::Gained);
            let is_certain = compared.most == Some(compared.lost) && compared.least == compared.lost;
            self.lack.add_if(!is_certain, Reason::Gap);
        }
        self.lack.add_if(!gaps.is_empty(), Reason::Gap);
        unknown.into_iter().for_each(|member| *self.uncompared.entry(member).or_default() += 1);
        match victims {
            Some(Some(victims)) => self.name(epoch, &compared, &victims, sent.as_ref()),
            Some(None) => self.names.unknown_epochs += 1,
            None => {}
        }
    }

    /// Sizes of an epoch's flows, if something of the network was not compared and can be inferred.
    fn to_infer(&self, epoch: u64, compared: &[Compared]) -> Option<SentFlows> {
        let Surroundings { links, victims: Some(victims), routes: Some(_) } = self.surroundings else { return None };
        if !compared.is_empty() && is_whole(links, &counted(compared)) {
            return None;
        }
        victims.sent_in(epoch)
    }

    fn name(&mut self, epoch: u64, compared: &[Compared], victims: &[(FlowName, u64)], sent: Option<&SentFlows>) {
        let routes = self.surroundings.routes.as_ref();
        self.names.add(&OfEpoch { epoch, compared, victims, routes, hash: self.hash });
        let (Some(sent), Some(routes)) = (sent, routes) else { return };
        let left: Vec<_> = self.names.left.iter().copied().filter(|(_, packets)| *packets >= 0.5).collect();
        let links = &self.surroundings.links;
        let counted = counted(compared);
        self.observed.add(&EdgesOfEpoch { epoch, lost: &left, sent, routes: &**routes, links, counted: &counted });
    }

    /// The answer about epochs of this length.
    pub fn answer(mut self, length: u64) -> ProgramAnswer {
        self.lack.add_if(!self.uncompared.is_empty(), Reason::Gap);
        self.lack.add_if(!self.told.unlinked_ports.is_empty(), Reason::LinksUnknown);
        let uncompared = std::mem::take(&mut self.uncompared);
        self.told.unknown = uncompared.into_iter().map(|(member, epochs)| UnknownPlace::new(member, epochs)).collect();
        let mut places = self.counted_places(length);
        let inferred = self.inferred_places(length);
        self.lack.add_if(!inferred.is_empty(), Reason::Inferred);
        places.extend(inferred);
        places.sort_by_key(|place| (Reverse(place.failed), Reverse(place.lost_packets)));
        self.told.omitted_places = places.len().saturating_sub(self.query.top) as u64;
        places.truncate(self.query.top);
        self.told.places = places;
        if self.surroundings.victims.is_some() {
            let unplaced = self.names.unplaced.max(0.0).round() as u64;
            (self.told.victim_packets, self.told.unplaced_packets) = (Some(self.names.lost), Some(unplaced));
            self.told.unnamed_epochs = self.names.unknown_epochs;
            self.told.wrong_paths = self.names.wrong_paths.iter().map(|name| WrongPath { name: *name }).collect();
        }
        ProgramAnswer::new(self.told, self.lack)
    }

    fn counted_places(&mut self, length: u64) -> Vec<LossPlace> {
        let mut places = Vec::new();
        let told = &mut self.told;
        for (member, sum) in std::mem::take(&mut self.sums) {
            match &member {
                Member::Link { .. } => told.compared_links += 1,
                Member::Switch(_) => told.compared_switches += 1,
                Member::Hop(_) | Member::Around(_) => {}
            }
            told.lost_packets = told.lost_packets.saturating_add(sum.lost);
            told.gained_packets = told.gained_packets.saturating_add(sum.gained);
            told.known_packets = told.known_packets.saturating_add(sum.known.values().sum::<u64>().min(sum.lost));
            let Some(epochs) = sum.epochs.filter(|_| sum.lost >= self.query.threshold.max(1)) else { continue };
            let mut place = LossPlace::new(&member, sum, epochs, length);
            place.name(&member, &self.names, self.query);
            places.push(place);
        }
        places
    }

    /// The places of what members lost that do not count.
    fn inferred_places(&mut self, length: u64) -> Vec<LossPlace> {
        if self.observed.is_empty() {
            return Vec::new();
        }
        let inferred = self.observed.infer(self.query.alarm_rate);
        let mut places = Vec::new();
        for place in inferred {
            let document = LossPlace::inferred(&place, self.query, length);
            if document.lost_packets >= self.query.threshold.max(1) {
                self.told.lost_packets = self.told.lost_packets.saturating_add(document.lost_packets);
                self.names.unplaced -= place.losing.packets;
                places.push(document);
            }
        }
        places
    }
}

/// The members that were compared by themselves.
fn counted(compared: &[Compared]) -> HashSet<&Member> {
    let members = compared.iter().map(|compared| &compared.member);
    members.filter(|member| !matches!(member, Member::Around(_))).collect()
}

/// Whether all links and their switches were compared.
fn is_whole(links: &Links, counted: &HashSet<&Member>) -> bool {
    links.directions().all(|[from, to]| {
        let link = Member::Link { from: from.clone(), to: to.clone() };
        counted.contains(&link) && counted.contains(&Member::Switch(from.switch.clone()))
    })
}
