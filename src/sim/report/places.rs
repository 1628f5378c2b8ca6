//! The task places beside the truth.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Network;
use crate::answers::{Claimed, LossPlace, Places};
use crate::history::{Reason, Reasons};
use crate::sim::Generation;

/// A place as answers name it: the switch, and the port that a link begins at.
pub type PlaceName = (String, Option<String>);

/// Lost packets by place, those of hosts' links left out.
pub fn lost_by_place(network: &Network, generation: &Generation) -> BTreeMap<PlaceName, u64> {
    let mut lost = BTreeMap::new();
    for ((_, at), packets) in &generation.places {
        if let Some(name) = network.named(*at) {
            *lost.entry(name).or_default() += u64::from(*packets);
        }
    }
    lost
}

/// Places beside those where packets were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlaceScore {
    /// Links and switches that lost packets, those that the program says did, and of these the ones with
    /// the exact number.
    pub true_places: u64,
    pub found_places: u64,
    pub exact_places: u64,
    /// Places that it calls failed.
    pub failed_places: u64,
    pub true_packets: u64,
    /// Packets that it says were lost, and those of them that were lost where it says.
    pub packets: u64,
    pub right_packets: u64,
    /// Packets that flows lost where it says, and those that it names flows for.
    pub named_packets: u64,
    pub incomplete: Reasons,
}

fn name(place: &LossPlace) -> PlaceName {
    (place.switch.clone(), place.port.clone())
}

impl PlaceScore {
    pub fn new(found: &Claimed<Places>, truth: &BTreeMap<PlaceName, u64>) -> Self {
        let of = |place: &&LossPlace| truth.get(&name(place)).copied().unwrap_or_default();
        let all = || found.places.iter();
        Self {
            true_places: truth.len() as u64,
            found_places: all().count() as u64,
            exact_places: all().filter(|place| of(place) == place.lost_packets).count() as u64,
            failed_places: all().filter(|place| place.failed).count() as u64,
            true_packets: truth.values().sum(),
            packets: all().map(|place| place.lost_packets).sum(),
            right_packets: all().map(|place| of(&place).min(place.lost_packets)).sum(),
            named_packets: all().flat_map(|place| &place.victims).map(|victim| victim.packets).sum(),
            incomplete: found.claim.incomplete.clone().without(Reason::Provisional),
        }
    }

    /// Every place was found with the exact number of its packets, and no other.
    pub fn is_exact(&self) -> bool {
        self.true_places == self.exact_places && self.found_places == self.exact_places
    }
}
