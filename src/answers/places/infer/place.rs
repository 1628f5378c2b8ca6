//! Inferred places in a document.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::InferredPlace;
use crate::answers::Query;
use crate::answers::places::{DEVIATIONS, Evidence, LEAST_LOST, LossPlace, PlaceVictim, UnknownPlace, kind, wilson};
use crate::json::Epoch;

/// The switches of a group, with commas between.
fn all_switches(names: &[UnknownPlace]) -> String {
    let ends = names.iter().flat_map(|name| [Some(&*name.switch), name.to_switch.as_deref()]);
    let switches: BTreeSet<&str> = ends.flatten().collect();
    switches.into_iter().collect::<Vec<_>>().join(", ")
}

impl LossPlace {
    /// The document of an inferred place.
    pub fn inferred(place: &InferredPlace, query: &Query, length: u64) -> Self {
        let InferredPlace { members, losing, epochs: (first, last), .. } = place;
        let names: Vec<_> = members.iter().map(|member| UnknownPlace::new(member.clone(), 0)).collect();
        let UnknownPlace { switch, port, to_switch, to_port, .. } = match &names[..] {
            [name] => name.clone(),
            names => UnknownPlace { switch: all_switches(names), ..UnknownPlace::default() },
        };
        let lost = losing.packets.round() as u64;
        let most_in_all: f64 = place.flows.values().map(|(_, lost, _)| lost).sum();
        let around = DEVIATIONS * losing.deviation;
        let least = (losing.packets - around).max(0.0).floor() as u64;
        let most = (losing.packets + around).min(most_in_all).ceil() as u64;
        let sent = (losing.reached.round() as u64).max(lost);
        let mut told = Self {
            kind: if members.len() > 1 { "group" } else { kind(&members[0]) }.into(),
            switch,
            port,
            to_switch,
            to_port,
            evidence: Evidence::Inferred,
            failed: losing.failed && lost >= LEAST_LOST,
            confidence: losing.confidence,
            lost_packets: lost,
            least_packets: least.min(lost),
            most_packets: Some(most.max(lost)),
            unexplained_packets: lost,
            sent_packets: sent,
            rate: if sent > 0 { lost as f64 / sent as f64 } else { 0.0 },
            rate_low: wilson(least.min(lost), sent).0,
            rate_high: wilson(most.max(lost).min(sent), sent).1,
            since: Epoch::new(*first, length),
            until: Epoch::new(*last, length),
            ..Self::default()
        };
        if members.len() > 1 {
            told.members = names.into_iter().map(|name| name.place()).collect();
        }
        told.add_flows(place, query);
        told
    }

    fn add_flows(&mut self, place: &InferredPlace, query: &Query) {
        let meant = place.flows.iter().filter(|(name, _)| query.is_meant(name));
        let victim = |(name, (packets, lost, none)): (&_, &(f64, f64, f64))| PlaceVictim {
            name: *name,
            packets: packets.round() as u64,
            least_packets: 0,
            most_packets: lost.ceil() as u64,
            exact: false,
            confidence: 1.0 - none,
        };
        let mut victims: Vec<_> = meant.map(victim).filter(|victim| victim.packets > 0).collect();
        victims.sort_by_key(|victim| (Reverse(victim.packets), victim.name));
        self.omitted_flows = victims.len().saturating_sub(query.top) as u64;
        victims.truncate(query.top);
        self.victims = victims;
    }
}
