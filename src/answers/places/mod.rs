//! The task places: where between the first and the last switch packets were lost, counted at both ends of
//! each link and at all ports of each switch, and the flows that lost them there.

mod compare;
mod fit;
mod gather;
mod infer;
mod links;
mod page;
mod rows;

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FlowName, ProgramAnswer, Query};
use crate::history::{Epochs, Kept};
use crate::json::Epoch;
use crate::pisa::DropAt;
use crate::wire::Flow;
use compare::{Comparison, LateCounts, Member, Ports};
use fit::Names;
use gather::{Gathering, Sum};

pub use links::{AnsweredLosses, Links, LostFlows, LostPackets, PortName, SentFlows, Surroundings};
pub use rows::{CountedPort, KeptRows, LatePacket, PortRows, SwitchRows};

/// Lost packets below which nothing is called failed.
pub const LEAST_LOST: u64 = 3;
/// The share of packets that links lose without being broken.
pub const BACKGROUND: f64 = 1e-5;
/// A place has failed that lost as many packets as a link that is not broken does in fewer cases than this: a network
/// has hundreds of links, of which some lose several packets.
const RARE: f64 = 1e-4;
/// Standard deviations of an interval that holds in 95 of 100 cases.
const DEVIATIONS: f64 = 1.96;

/// `weir show losses --where`: the links and switches that lost packets in these epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The links and switches that were compared, with their names; in no document.
    #[serde(skip)]
    pub compared: Vec<PlaceName>,
    /// Those that lost most, the failed ones first.
    pub places: Vec<LossPlace>,
    /// Places that are not listed, though they lost as much as was asked for.
    pub omitted_places: u64,
    /// Links and switches that were not compared in some of the epochs: what they lost then is unknown.
    pub unknown: Vec<UnknownPlace>,
    /// Packets that ports which lead to no switch of the network dropped as they came in or were to leave,
    /// for a reason that the switch knows.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Counters at both of its ends differ.
    #[default]
    Counted,
    /// Flows that cross it lost packets, and no other place explains that as well.
    Inferred,
}

impl Evidence {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Inferred => "inferred",
        }
    }
}

/// A direction of a link, or a switch, that lost packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossPlace {
    /// `link`, `switch`, or `group`: switches that did not report, with all their links, which the records do
    /// not tell apart; or, where that is inferred, `members` that no flow tells apart.
    pub kind: String,
    /// The switch; of a link the one that packets leave, of a group all, with commas between.
    pub switch: String,
    /// The port that packets leave by, of a link; null where only the switches are known.
    pub port: Option<String>,
    /// The switch and port that a link leads to.
    pub to_switch: Option<String>,
    pub to_port: Option<String>,
    /// Of an inferred group: one of these lost the packets, or several.
    #[serde(default)]
    pub members: Vec<PlaceName>,
    pub evidence: Evidence,
    /// It lost at least three packets for no known reason, and more than links lose that are not broken: as
    /// far as counters say so, or as is inferred more likely than not.
    pub failed: bool,
    /// The probability that it loses more than the alarm rate, where that is inferred; else 1.
    pub confidence: f64,
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

/// The name of a link or switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceName {
    pub switch: String,
    pub port: Option<String>,
    pub to_switch: Option<String>,
    pub to_port: Option<String>,
}

/// Packets that were dropped for a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedFor {
    pub reason: String,
    pub packets: u64,
}

/// A flow that lost packets at a place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownPlace {
    pub switch: String,
    pub port: Option<String>,
    pub to_switch: Option<String>,
    pub to_port: Option<String>,
    pub epochs: u64,
}

/// Packets that a port dropped as they came in or were to leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortDrops {
    pub switch: String,
    pub port: String,
    pub reason: String,
    pub packets: u64,
}

/// A flow with a path that cannot be its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrongPath {
    #[serde(flatten)]
    pub name: FlowName,
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
        let ports: Ports = epochs.backwards().flat_map(|entry| entry.showed.ports()).collect();
        let mut gathering = Gathering::new(query, surroundings, hash);
        for entry in epochs.iter() {
            let all = entry.showed.rows();
            gathering.told.look_at_ports(&all, &surroundings.links);
            let comparison = Comparison::new(entry.epoch, &all, &surroundings.links, &ports, &late, &entry.gaps);
            gathering.add(entry.epoch, &entry.gaps, comparison);
        }
        gathering.answer(epochs.length)
    }

    /// The same where no switch counts packets at its ports, from what another program and paths of flows say;
    /// `None` where no program names flows that lost packets.
    pub fn inferred<K: Kept>(epochs: &Epochs<K>, query: &Query) -> Option<ProgramAnswer> {
        let surroundings = query.surroundings.as_deref().filter(|of| of.victims.is_some())?;
        let mut gathering = Gathering::new(query, surroundings, &|_| Some(0));
        gathering.infers = true;
        let mut before = None;
        for entry in epochs.iter().filter(|entry| before.replace(entry.epoch) != Some(entry.epoch)) {
            gathering.add(entry.epoch, &entry.gaps, Comparison::default());
        }
        Some(gathering.answer(epochs.length))
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
                let drops = [DropAt::Before, DropAt::Behind].into_iter().flat_map(|at| rows.drops(at, Some(number)));
                for (reason, packets) in drops {
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

/// Whether these are more lost packets than of a link that is not broken, by Chernoff's bound of a Poisson number.
fn is_beyond_background(lost: u64, sent: u64) -> bool {
    let (lost, expected) = (lost as f64, sent as f64 * BACKGROUND);
    expected > 0.0 && lost > expected && lost - expected - lost * (lost / expected).ln() < RARE.ln()
}

fn kind(member: &Member) -> &'static str {
    match member {
        Member::Link { .. } | Member::Hop(_) => "link",
        Member::Switch(_) => "switch",
        Member::Around(_) => "group",
    }
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
            kind: kind(member).into(),
            switch,
            port,
            to_switch,
            to_port,
            members: Vec::new(),
            evidence: Evidence::Counted,
            confidence: 1.0,
            failed: certain >= LEAST_LOST && is_beyond_background(certain, sent),
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
    pub fn place(self) -> PlaceName {
        let Self { switch, port, to_switch, to_port, .. } = self;
        PlaceName { switch, port, to_switch, to_port }
    }

    fn new(member: Member, epochs: u64) -> Self {
        match member {
            Member::Switch(switch) => Self { switch: switch.to_string(), epochs, ..Self::default() },
            Member::Around(switches) => Self { switch: switches.join(", "), epochs, ..Self::default() },
            Member::Hop([from, to]) => {
                Self { switch: from.to_string(), to_switch: Some(to.to_string()), epochs, ..Self::default() }
            }
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
