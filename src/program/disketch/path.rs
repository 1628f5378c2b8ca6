//! The switches that see a flow in an epoch, and how much of it.

use std::sync::Arc;

use crate::answers::{Certainty, Route};

/// The place of a switch on a flow's path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathPlace {
    /// From 1 on.
    pub hop: u8,
    /// Number of switches on the path.
    pub hops: u8,
    /// Share of the flow's packets in the epoch that cross the switch: 1 unless the path changes.
    pub share: f64,
}

impl PathPlace {
    /// A switch that flows cross alone.
    pub const ALONE: Self = Self { hop: 1, hops: 1, share: 1.0 };
}

/// Of a flow with several paths in an epoch, the least share of packets that a switch counts for.
const LEAST_SHARE: f64 = 0.5;

/// The switches that see a flow in an epoch.
pub struct Path {
    pub switches: Vec<(Arc<str>, PathPlace)>,
    /// No packets took a path of which a part is unknown.
    pub is_whole: bool,
}

impl Path {
    /// All switches of the path. Of several paths those that are on all of them; where it is known how many
    /// packets took each, those as well that see at least half of the packets. `None` without any path that
    /// is known as a whole.
    pub fn of(routes: &[Route]) -> Option<Self> {
        let known = |route: &Route| -> Option<(Vec<Arc<str>>, Option<u64>)> {
            let switches = route.switches.iter().cloned().collect::<Option<_>>();
            Some((switches.filter(|_| route.certainty >= Certainty::Decided)?, route.packets))
        };
        let paths: Vec<_> = routes.iter().filter_map(known).collect();
        let hops = paths.iter().map(|(switches, _)| switches.len()).max()?.min(u8::MAX.into()) as u8;
        let packets: Option<u64> = paths.iter().map(|(_, packets)| *packets).sum();
        let mut switches: Vec<(Arc<str>, PathPlace)> = Vec::new();
        for (name, hop) in paths.iter().flat_map(|(switches, _)| switches.iter().zip(1u8..)) {
            let on = || paths.iter().filter(|(switches, _)| switches.contains(name));
            let share = match packets {
                _ if on().count() == paths.len() => 1.0,
                Some(all @ 1..) => on().filter_map(|(_, packets)| *packets).sum::<u64>() as f64 / all as f64,
                _ => 0.0,
            };
            if share >= LEAST_SHARE && switches.iter().all(|(other, _)| other != name) {
                switches.push((name.clone(), PathPlace { hop, hops, share }));
            }
        }
        Some(Self { switches, is_whole: paths.len() == routes.len() })
    }
}
