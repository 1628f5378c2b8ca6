//! Counts of switches at their ports in an epoch: rows of counters by group of flows.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pisa::{DropAt, PortId};

/// A port as answers name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountedPort {
    pub name: String,
    /// It leads to another switch.
    pub fabric: bool,
}

impl CountedPort {
    /// Some port.
    pub fn any() -> Self {
        Self { name: "any".into(), fabric: false }
    }
}

/// Packets that a switch counted at a port after their own epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatePacket {
    /// Their epoch.
    pub epoch: u64,
    /// They left, or ended in the switch; else they came in, or were made by it.
    pub leaves: bool,
    /// The port behind the last one stands for the switch itself.
    pub port: PortId,
    pub packets: u64,
}

/// The rows of one switch. Those of a port follow each other, port by port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortRows {
    /// Counters of a row: a power of two. The highest bits of a flow's hash are its group.
    pub groups: u32,
    pub received: Box<[u32]>,
    pub sent: Box<[u32]>,
    /// By group: packets that ended in the switch without a loss, less those that it made.
    pub balance: Box<[i32]>,
    /// Packets by place, port and reason.
    pub drops: Vec<(DropAt, PortId, &'static str, u64)>,
}

/// A program's history of an epoch in which switches counted packets at their ports.
pub trait KeptRows {
    fn rows(&self) -> Vec<SwitchRows>;

    /// The ports of the switches.
    fn ports(&self) -> Vec<(Arc<str>, Arc<[CountedPort]>)>;

    /// Packets of earlier epochs that switches counted in this one.
    fn late(&self) -> Vec<(Arc<str>, LatePacket)>;
}

/// The counts of a switch in an epoch.
#[derive(Clone, Debug)]
pub struct SwitchRows {
    pub switch: Arc<str>,
    /// By number.
    pub ports: Arc<[CountedPort]>,
    pub rows: PortRows,
    /// It counted all of the epoch.
    pub is_whole: bool,
    /// A counter had its largest number.
    pub is_full: bool,
}

impl SwitchRows {
    /// The number of the port of this name.
    pub fn port(&self, name: &str) -> Option<PortId> {
        self.ports.iter().position(|port| port.name == name).map(|port| port as PortId)
    }

    /// The port behind the last one.
    pub fn own_port(&self) -> PortId {
        (self.rows.received.len() / self.rows.groups.max(1) as usize) as PortId
    }

    /// The row of a port, folded to this number of groups.
    pub fn row(&self, leaves: bool, port: PortId, groups: u32) -> Vec<i64> {
        let (all, width) = (if leaves { &self.rows.sent } else { &self.rows.received }, self.rows.groups as usize);
        let from = usize::from(port) * width;
        let row = all.get(from..from + width).unwrap_or_default();
        row.chunks((width / groups.max(1) as usize).max(1))
            .map(|part| part.iter().map(|n| i64::from(*n)).sum())
            .collect()
    }

    /// Packets that came in by all ports, less those that left by all ports and those that ended here, by group.
    pub fn missing(&self) -> Vec<i64> {
        let mut missing: Vec<i64> = self.rows.balance.iter().map(|balance| -i64::from(*balance)).collect();
        let width = (self.rows.groups as usize).max(1);
        for (rows, sign) in [(&self.rows.received, 1), (&self.rows.sent, -1)] {
            for row in rows.chunks(width) {
                missing.iter_mut().zip(row).for_each(|(sum, count)| *sum += sign * i64::from(*count));
            }
        }
        missing
    }

    /// Packets that came in by all ports.
    pub fn received(&self) -> u64 {
        self.rows.received.iter().map(|count| u64::from(*count)).sum()
    }

    /// Drops of a place, at this port or at all.
    pub fn drops(&self, at: DropAt, port: Option<PortId>) -> impl Iterator<Item = (&'static str, u64)> {
        let is_there =
            move |(of, by, ..): &&(DropAt, PortId, &'static str, u64)| *of == at && port.is_none_or(|port| *by == port);
        self.rows.drops.iter().filter(is_there).map(|(.., reason, packets)| (*reason, *packets))
    }
}
