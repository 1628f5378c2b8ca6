//! The task places: where between the first and the last switch packets were lost, counted at both ends of
//! each link and at all ports of each switch, and the flows that lost them there.

mod compare;
mod fit;
mod links;
mod page;
mod rows;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{FlowName, ProgramAnswer, Query};
use crate::history::{Epochs, Kept, Reason, Reasons};
use crate::json::Epoch;
use crate::wire::Flow;
use compare::{Compared, Comparison, LateCounts, Member, Ports};
use fit::{Names, OfEpoch};

pub use links::{AnsweredLosses, Links, LostFlows, PortName, Surroundings};
pub use rows::{CountedPort, DropAt, KeptRows, LatePacket, PortRows, SwitchRows};

/// Lost packets below which nothing is called failed.
pub const LEAST_LOST: u64 = 3;
/// The share of packets that links lose without being broken. What loses more, as far as the packets that
/// it lost say so, has failed.
pub const BACKGROUND: f64 = 1e-5;
/// Standard deviations of an interval that holds in 95 of 100 cases.
const DEVIATIONS: f64 = 1.96;

/// `weir show losses --where`: the links and switches that lost packets in these epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Places {
    /// Packets that all of them lost.
    pub lost_packets: u64,
    /// Packets among these that were dropped for a reason that the switch knows.
    pub known_packets: u64,
    /// Packets that came out of a link or switch and did not go in.
    pub gained_packets: u64,
    /// Directions of links, and switches, that were compared in some of the epochs.
    pub compared_links: u64,
    pub compared_switches: u64,
    /// Those that lost most, the failed ones first.
    pub places: Vec<LossPlace>,
    /// Places that are not listed, though they lost as much as was asked for.
    pub omitted_places: u64,
    /// Links and switches that were not compared in some of the epochs: what they lost then is unknown.
    pub unknown: Vec<UnknownPlace>,
    /// Packets that ports which lead to no switch of the network dropped as they came in, for a reason that
    /// the switch knows.
    pub ports: Vec<PortDrops>,
    /// Fabric ports whose other end is not known.
    pub unlinked_ports: Vec<PortName>,
    /// Packets that flows lost between their first and last switch, as another program says; null where none
    /// does.
    pub victim_packets: Option<u64>,
    /// Packets among these that no link or switch lost.
    pub unplaced_packets: Option<u64>,
    /// Epochs of which another program does not know the flows that lost packets.
    pub unnamed_epochs: u64,
    /// Flows whose path cannot be the one that is believed, because nothing on it lost their packets.
    pub wrong_paths: Vec<WrongPath>,
}

/// How it is known that a place lost packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Counters at both of its ends differ.
    #[default]
    Counted,
}

/// A direction of a link, or a switch, that lost packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossPlace {
    /// `link`, `switch`, or `group`: switches that did not report, with all their links, which the records do
    /// not tell apart.
    pub kind: String,
    /// The switch; of a link the one that packets leave, of a group all, with commas between.
    pub switch: String,
    /// The port that packets leave by, of a link.
    pub port: Option<String>,
    /// The switch and port that a link leads to.
    pub to_switch: Option<String>,
    pub to_port: Option<String>,
    pub evidence: Evidence,
    /// It lost at least three packets for no known reason, and more than links lose that are not broken.
    pub failed: bool,
    pub lost_packets: u64,
    /// It lost at least and at most this number; the latter null where doubled packets or full counters may
    /// hide any number.
    pub least_packets: u64,
    pub most_packets: Option<u64>,
    pub exact: bool,
    pub gained_packets: u64,
    /// Packets that were dropped there for a known reason.
    pub reasons: Vec<DroppedFor>,
    /// The others.
    pub unexplained_packets: u64,
    /// Packets that went in.
    pub sent_packets: u64,
    /// The share that was lost, and the interval in which it lies in 95 of 100 cases.
    pub rate: f64,
    pub rate_low: f64,
    pub rate_high: f64,
    /// The first and the last of these epochs in which it lost packets.
    pub since: Epoch,
    pub until: Epoch,
    /// The flows that lost most there.
    pub victims: Vec<PlaceVictim>,
    pub omitted_flows: u64,
}

/// Packets that were dropped for a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedFor {
    pub reason: String,
    pub packets: u64,
}

/// A flow that lost packets at a place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlaceVictim {
    #[serde(flatten)]
    pub name: FlowName,
    pub packets: u64,
    pub least_packets: u64,
    pub most_packets: u64,
    /// No other number is possible.
    pub exact: bool,
    /// The probability that at least one of its packets was lost there.
    pub confidence: f64,
}

/// A link or switch that was not compared in some epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownPlace {
    pub switch: String,
    pub port: Option<String>,
    pub to_switch: Option<String>,
    pub to_port: Option<String>,
    pub epochs: u64,
}

/// Packets that a port dropped as they came in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortDrops {
    pub switch: String,
    pub port: String,
    pub reason: String,
    pub packets: u64,
}

/// A flow with a path that cannot be its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongPath {
    #[serde(flatten)]
    pub name: FlowName,
}

/// Losses of a member over several epochs.
#[derive(Default)]
struct Sum {
    lost: u64,
    gained: u64,
    least: u64,
    most: Option<u64>,
    sent: u64,
    known: BTreeMap<&'static str, u64>,
    epochs: Option<(u64, u64)>,
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

impl Places {
    /// Where packets were lost in these epochs. `hash` gives a flow's hash, whose highest bits are its group.
    pub fn over<K: Kept + KeptRows>(
        epochs: &Epochs<K>,
        query: &Query,
        hash: &dyn Fn(&Flow) -> Option<u32>,
    ) -> ProgramAnswer {
        let unknown = Surroundings::default();
        let surroundings = query.surroundings.as_deref().unwrap_or(&unknown);
        let late = late_counts(epochs);
        let (mut told, mut lack) = (Self::default(), Reasons::default());
        let mut sums: BTreeMap<Member, Sum> = BTreeMap::new();
        let mut uncompared: BTreeMap<Member, u64> = BTreeMap::new();
        let mut names = Names::default();
        let ports: Ports = epochs.backwards().flat_map(|entry| entry.showed.ports()).collect();
        for entry in epochs.iter() {
            let all = entry.showed.rows();
            told.look_at_ports(&all, &surroundings.links);
            let Comparison { compared, unknown } =
                Comparison::new(entry.epoch, &all, &surroundings.links, &ports, &late, &entry.gaps);
            for compared in &compared {
                sums.entry(compared.member.clone()).or_default().add(entry.epoch, compared);
                lack.add_if(compared.is_full, Reason::Saturated);
                lack.add_if(compared.gained > 0, Reason::Gained);
                lack.add_if(compared.most != Some(compared.lost) || compared.least != compared.lost, Reason::Gap);
            }
            lack.add_if(!entry.gaps.is_empty(), Reason::Gap);
            unknown.into_iter().for_each(|member| *uncompared.entry(member).or_default() += 1);
            let Some(source) = &surroundings.victims else { continue };
            match source.lost_in(entry.epoch) {
                Some(victims) => {
                    let routes = surroundings.routes.as_ref();
                    names.add(&OfEpoch { epoch: entry.epoch, compared: &compared, victims: &victims, routes, hash });
                }
                None => names.unknown_epochs += 1,
            }
        }
        lack.add_if(!uncompared.is_empty(), Reason::Gap);
        lack.add_if(!told.unlinked_ports.is_empty(), Reason::LinksUnknown);
        told.unknown = uncompared.into_iter().map(|(member, epochs)| UnknownPlace::new(member, epochs)).collect();
        told.sum_up(sums, &names, query, epochs.length);
        if surroundings.victims.is_some() {
            (told.victim_packets, told.unplaced_packets) = (Some(names.lost), Some(names.unplaced.round() as u64));
            told.unnamed_epochs = names.unknown_epochs;
            told.wrong_paths = names.wrong_paths.into_iter().map(|name| WrongPath { name }).collect();
        }
        ProgramAnswer::new(told, lack)
    }

    /// Notes fabric ports without a link, and what ports without a link dropped.
    fn look_at_ports(&mut self, all: &[SwitchRows], links: &Links) {
        for rows in all {
            for (number, port) in (0..).zip(rows.ports.iter()).filter(|(_, port)| !links.has(&rows.switch, &port.name))
            {
                let name = PortName::new(&rows.switch, &port.name);
                if port.fabric && !self.unlinked_ports.contains(&name) {
                    self.unlinked_ports.push(name);
                }
                for (reason, packets) in rows.drops(DropAt::Before, Some(number)) {
                    self.add_port_drops(rows, &port.name, reason, packets);
                }
            }
        }
    }

    fn add_port_drops(&mut self, rows: &SwitchRows, port: &str, reason: &str, packets: u64) {
        let is_same =
            |drops: &&mut PortDrops| drops.switch == *rows.switch && drops.port == port && drops.reason == reason;
        match self.ports.iter_mut().find(is_same) {
            Some(drops) => drops.packets = drops.packets.saturating_add(packets),
            None => {
                let (switch, port, reason) = (rows.switch.to_string(), port.into(), reason.into());
                self.ports.push(PortDrops { switch, port, reason, packets });
            }
        }
    }

    fn sum_up(&mut self, sums: BTreeMap<Member, Sum>, names: &Names, query: &Query, length: u64) {
        let mut places = Vec::new();
        for (member, sum) in sums {
            match &member {
                Member::Link { .. } => self.compared_links += 1,
                Member::Switch(_) => self.compared_switches += 1,
                Member::Around(_) => {}
            }
            self.lost_packets = self.lost_packets.saturating_add(sum.lost);
            self.gained_packets = self.gained_packets.saturating_add(sum.gained);
            self.known_packets = self.known_packets.saturating_add(sum.known.values().sum::<u64>().min(sum.lost));
            let Some(epochs) = sum.epochs.filter(|_| sum.lost >= query.threshold.max(1)) else { continue };
            let mut place = LossPlace::new(&member, sum, epochs, length);
            place.name(&member, names, query);
            places.push(place);
        }
        let key = |place: &LossPlace| (Reverse(place.failed), Reverse(place.lost_packets));
        places.sort_by_key(key);
        self.omitted_places = places.len().saturating_sub(query.top) as u64;
        places.truncate(query.top);
        self.places = places;
    }
}

/// Packets of the window's epochs that came late, but for those that came later than the horizon.
fn late_counts<K: Kept + KeptRows>(epochs: &Epochs<K>) -> LateCounts {
    let horizon = epochs.lost_after.filter(|_| epochs.length > 0).map_or(u64::MAX, |after| after / epochs.length);
    let mut counts = LateCounts::default();
    for entry in epochs.and_after() {
        for (switch, packet) in entry.showed.late() {
            if packet.epoch >= epochs.first && entry.epoch <= packet.epoch.saturating_add(horizon) {
                counts.add(switch, packet);
            }
        }
    }
    counts
}

/// The interval in which a share lies in 95 of 100 cases, by Wilson.
fn wilson(lost: u64, sent: u64) -> (f64, f64) {
    if sent == 0 {
        return (0.0, 1.0);
    }
    let (n, p, z2) = (sent as f64, (lost as f64 / sent as f64).min(1.0), DEVIATIONS * DEVIATIONS);
    let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = DEVIATIONS * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt() / (1.0 + z2 / n);
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

impl LossPlace {
    fn new(member: &Member, sum: Sum, (first, last): (u64, u64), length: u64) -> Self {
        let UnknownPlace { switch, port, to_switch, to_port, .. } = UnknownPlace::new(member.clone(), 0);
        let Sum { lost, gained, least, most, sent, known, .. } = sum;
        let of_reasons = known.values().sum::<u64>();
        let unexplained = lost.saturating_sub(of_reasons);
        let (rate_low, rate_high) = wilson(lost, sent);
        // Nothing has failed that may have lost fewer.
        let certain = least.saturating_sub(of_reasons);
        Self {
            kind: match member {
                Member::Link { .. } => "link",
                Member::Switch(_) => "switch",
                Member::Around(_) => "group",
            }
            .into(),
            switch,
            port,
            to_switch,
            to_port,
            evidence: Evidence::Counted,
            failed: certain >= LEAST_LOST && wilson(certain, sent).0 > BACKGROUND,
            lost_packets: lost,
            least_packets: least,
            most_packets: most,
            exact: most == Some(lost) && least == lost,
            gained_packets: gained,
            reasons: known.into_iter().map(|(reason, packets)| DroppedFor { reason: reason.into(), packets }).collect(),
            unexplained_packets: unexplained,
            sent_packets: sent,
            rate: if sent > 0 { lost as f64 / sent as f64 } else { 0.0 },
            rate_low,
            rate_high,
            since: Epoch::new(first, length),
            until: Epoch::new(last, length),
            victims: Vec::new(),
            omitted_flows: 0,
        }
    }

    /// Names the flows that lost packets there.
    fn name(&mut self, member: &Member, names: &Names, query: &Query) {
        let own = names.shares.iter().filter(|((of, name), _)| of == member && query.is_meant(name));
        let victim = |((_, name), share): (&(Member, FlowName), &fit::Share)| PlaceVictim {
            name: *name,
            packets: share.packets.round() as u64,
            least_packets: share.least,
            most_packets: share.most,
            exact: share.least == share.most,
            confidence: 1.0 - share.none,
        };
        let mut victims: Vec<_> = own.map(victim).filter(|victim| victim.packets > 0).collect();
        victims.sort_by_key(|victim| (Reverse(victim.packets), victim.name));
        self.omitted_flows = victims.len().saturating_sub(query.top) as u64;
        victims.truncate(query.top);
        self.victims = victims;
    }
}

impl UnknownPlace {
    fn new(member: Member, epochs: u64) -> Self {
        match member {
            Member::Switch(switch) => Self { switch: switch.to_string(), epochs, ..Self::default() },
            Member::Around(switches) => Self { switch: switches.join(", "), epochs, ..Self::default() },
            Member::Link { from, to } => Self {
                switch: from.switch.to_string(),
                port: Some(from.port.to_string()),
                to_switch: Some(to.switch.to_string()),
                to_port: Some(to.port.to_string()),
                epochs,
            },
        }
    }
}

#[cfg(test)]
mod tests;
