//! Places over several epochs: what was counted, the flows that lost packets there, and what is inferred of
//! members that do not count.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::compare::{Compared, Comparison, Member};
use super::fit::{Names, OfEpoch, crosses_alone};
use super::infer::{EdgesOfEpoch, Observed};
use super::links::{Links, LostPackets, SentFlows};
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
    /// Why flows that lost packets may be missing.
    lost_lack: Reasons,
    sums: BTreeMap<Member, Sum>,
    uncompared: BTreeMap<Member, u64>,
    names: Names,
    /// Losses around switches that do not report, of epochs in which flows say where.
    around: BTreeMap<Member, Sum>,
    observed: Observed,
    /// Some member has to be inferred.
    pub infers: bool,
}

impl<'a> Gathering<'a> {
    pub fn new(query: &'a Query, surroundings: &'a Surroundings, hash: Hash<'a>) -> Self {
        Self {
            query,
            surroundings,
            hash,
            told: Places::default(),
            lack: Reasons::default(),
            lost_lack: Reasons::default(),
            sums: BTreeMap::new(),
            uncompared: BTreeMap::new(),
            names: Names::default(),
            around: BTreeMap::new(),
            observed: Observed::default(),
            infers: false,
        }
    }

    /// Adds an epoch.
    pub fn add(&mut self, epoch: u64, gaps: &[SwitchGap], Comparison { mut compared, unknown }: Comparison) {
        let victims = self.surroundings.victims.as_ref().map(|source| source.lost_in(epoch));
        let known = victims.as_ref().and_then(Option::as_ref);
        self.infers = self.infers || known.is_some_and(|lost| self.has_to_infer(epoch, &compared, &lost.flows));
        let sent = if self.infers { self.sent_in(epoch) } else { None };
        for compared in &compared {
            // Flows say which of these members lost packets.
            let is_apart = sent.is_some() && matches!(compared.member, Member::Around(_));
            let sums = if is_apart { &mut self.around } else { &mut self.sums };
            sums.entry(compared.member.clone()).or_default().add(epoch, compared);
            self.lack.add_if(compared.is_full, Reason::Saturated);
            self.lack.add_if(compared.gained > 0, Reason::Gained);
            let is_certain = compared.most == Some(compared.lost) && compared.least == compared.lost;
            self.lack.add_if(!is_certain, Reason::Gap);
        }
        self.lack.add_if(!gaps.is_empty(), Reason::Gap);
        unknown.into_iter().for_each(|member| *self.uncompared.entry(member).or_default() += 1);
        if sent.is_some() {
            compared.retain(|compared| !matches!(compared.member, Member::Around(_)));
        }
        match victims {
            Some(Some(LostPackets { flows, lack })) => {
                self.lost_lack.extend(&lack);
                self.name(epoch, &compared, &flows, sent.as_ref());
            }
            Some(None) => self.names.unknown_epochs += 1,
            None => {}
        }
    }

    /// Whether something of the network was not compared: a link that is known, or a part of the path of a flow
    /// that lost packets.
    fn has_to_infer(&self, epoch: u64, compared: &[Compared], lost: &[(FlowName, u64)]) -> bool {
        let Some(routes) = &self.surroundings.routes else { return false };
        let counted = counted(compared);
        if counted.is_empty() || !is_whole(&self.surroundings.links, &counted) {
            return true;
        }
        let flows = lost.iter().filter_map(|(name, _)| name.flow());
        let mut paths = flows.flat_map(|flow| routes.in_epoch(&flow, epoch));
        paths.any(|route| {
            let path: Option<Vec<_>> = route.switches.iter().cloned().collect();
            path.is_some_and(|path| !crosses_alone(counted.iter().copied(), &path))
        })
    }

    /// Sizes of an epoch's flows.
    fn sent_in(&self, epoch: u64) -> Option<SentFlows> {
        self.surroundings.victims.as_ref()?.sent_in(epoch)
    }

    fn name(&mut self, epoch: u64, compared: &[Compared], victims: &[(FlowName, u64)], sent: Option<&SentFlows>) {
        let routes = self.surroundings.routes.as_ref();
        self.names.add(&OfEpoch { epoch, compared, victims, routes, hash: self.hash });
        let (Some(sent), Some(routes)) = (sent, routes) else { return };
        let links = &self.surroundings.links;
        let alone = compared.iter().filter(|compared| !matches!(compared.member, Member::Around(_)));
        let shares = alone.map(|compared| {
            let certain = self.names.certain.get(&compared.member).copied().unwrap_or_default();
            (&compared.member, [compared.lost, compared.sent].map(|packets| (packets as f64 - certain).max(0.0)))
        });
        let (counted, lost) = (shares.collect(), &self.names.of_epoch);
        self.observed.add(&EdgesOfEpoch { epoch, lost, sent, routes: &**routes, links, counted });
    }

    /// The answer about epochs of this length.
    pub fn answer(mut self, length: u64) -> ProgramAnswer {
        self.lack.add_if(!self.uncompared.is_empty(), Reason::Gap);
        self.lack.add_if(!self.told.unlinked_ports.is_empty(), Reason::LinksUnknown);
        let uncompared = std::mem::take(&mut self.uncompared);
        self.told.unknown = uncompared.into_iter().map(|(member, epochs)| UnknownPlace::new(member, epochs)).collect();
        let inferred = self.inferred_places(length);
        let mut places = self.counted_places(length);
        if self.infers {
            let is_unknown = self.names.unknown_epochs > 0;
            self.lack.add_if(is_unknown || self.names.lost > 0, Reason::Inferred);
            self.lack.add_if(is_unknown, Reason::Undecoded);
            self.lack.extend(&self.lost_lack);
        }
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
            if !matches!(member, Member::Around(_)) {
                told.compared.push(UnknownPlace::new(member.clone(), 0).place());
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
                self.take_off(&place.members, document.lost_packets);
                places.push(document);
            }
        }
        let around = std::mem::take(&mut self.around);
        self.sums.extend(around.into_iter().filter(|(_, sum)| sum.lost > 0));
        places
    }

    /// Takes packets that these members lost off what was counted around them.
    fn take_off(&mut self, members: &[Member], packets: u64) {
        let is_around = |of: &Member| members.iter().all(|member| of.surrounds(member));
        if let Some((_, sum)) = self.around.iter_mut().find(|(of, _)| is_around(of)) {
            sum.lost = sum.lost.saturating_sub(packets);
            sum.least = sum.least.saturating_sub(packets);
        }
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
