//! Lost packets by port and reason.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Packets, Ports};
use crate::output::{Page, Table, row};

/// `weir show drops`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drops {
    pub packets: Packets,
    pub drops: Vec<Drop>,
}

/// Packets lost for one reason on one port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drop {
    pub port: String,
    pub reason: String,
    pub packets: u64,
    /// The device lost them: they are not part of the balance.
    pub device: bool,
}

impl Drops {
    /// Stands in place of a port's name for all ports that were removed.
    pub const REMOVED: &'static str = "(removed)";

    pub fn of(ports: &Ports) -> Self {
        Self { packets: ports.packets, drops: Self::of_ports(ports) }
    }

    pub fn page(&self) -> Page {
        let row = |drop: &Drop| row![&drop.port, &drop.reason, drop.packets];
        let table = Table::new(["port", "reason", ">packets"], self.drops.iter().map(row));
        let page = Page::default().table("drops", table);
        if self.drops.is_empty() { page.text("no packet was dropped") } else { page }
    }

    /// Lost packets, without reasons that count 0.
    pub fn of_ports(ports: &Ports) -> Vec<Drop> {
        let of_port = |name: &str, losses: &BTreeMap<String, u64>, device: bool| {
            let name = name.to_owned();
            let drop = move |(reason, &packets): (&String, &u64)| Drop {
                port: name.clone(),
                reason: reason.clone(),
                packets,
                device,
            };
            losses.iter().filter(|(_, packets)| **packets > 0).map(drop).collect::<Vec<_>>()
        };
        let ports_drops = ports.ports.iter().map(|port| (port.name.as_str(), &port.counts));
        ports_drops
            .chain([(Self::REMOVED, &ports.removed.counts)])
            .flat_map(|(name, counts)| [of_port(name, &counts.drops, false), of_port(name, &counts.device, true)])
            .flatten()
            .collect()
    }
}
