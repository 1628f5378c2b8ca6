//! The documents that the API, `--json` and the totals share: stable keys, units in the names.

mod link;
pub mod packet;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use link::ControllerLink;

use super::Window;
use crate::config::PortConfig;
use crate::epoch::Nanos;
use crate::pisa::{DropReason, PortId};
use crate::program::hashpipe::{Heavy, Unit};
use crate::stats::{PortStats, SwitchStats};
use crate::wire::Flow;

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    pub name: String,
    pub dev: String,
    pub role: String,
    /// Set by `weir port up|down NAME`.
    pub enabled: bool,
    /// What the device says of its link.
    pub link_up: bool,
    pub mac: String,
    pub mtu_bytes: u32,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub copied_packets: u64,
    pub without_shim_packets: u64,
    /// Packets that came in here and did not go out, by reason.
    pub drops: BTreeMap<String, u64>,
    /// What the device lost by itself: packets that never came in, or were taken over and not sent.
    pub device: BTreeMap<String, u64>,
    /// The faults that its packets meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// What they did to packets that were not lost.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fault_effects: BTreeMap<String, u64>,
}

impl Port {
    /// A port whose link is up and that has counted nothing.
    pub fn new(config: &PortConfig) -> Self {
        Self {
            name: config.name.clone(),
            dev: config.dev.to_string(),
            role: config.role.name().into(),
            enabled: true,
            link_up: true,
            mtu_bytes: config.mtu,
            ..Self::default()
        }
    }

    /// Adds what one worker counted.
    pub fn add(&mut self, stats: &PortStats) {
        self.rx_packets += stats.rx_packets.get();
        self.rx_bytes += stats.rx_bytes.get();
        self.tx_packets += stats.tx_packets.get();
        self.tx_bytes += stats.tx_bytes.get();
        self.copied_packets += stats.copies.get();
        self.without_shim_packets += stats.without_shim.get();
        for reason in DropReason::ALL {
            *self.drops.entry(reason.name().into()).or_default() += stats.dropped(reason);
        }
    }

    pub fn dropped_packets(&self) -> u64 {
        self.drops.values().sum()
    }
}

/// Ports that were removed while the switch ran, added up. The keys are those of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Removed {
    pub removed_ports: u64,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub copied_packets: u64,
    pub without_shim_packets: u64,
    pub drops: BTreeMap<String, u64>,
    pub device: BTreeMap<String, u64>,
}

impl Removed {
    /// Takes over the counts of a port that has gone.
    pub fn add(&mut self, port: &Port) {
        self.removed_ports += 1;
        self.rx_packets += port.rx_packets;
        self.rx_bytes += port.rx_bytes;
        self.tx_packets += port.tx_packets;
        self.tx_bytes += port.tx_bytes;
        self.copied_packets += port.copied_packets;
        self.without_shim_packets += port.without_shim_packets;
        for (sum, more) in [(&mut self.drops, &port.drops), (&mut self.device, &port.device)] {
            more.iter().for_each(|(reason, packets)| *sum.entry(reason.clone()).or_default() += packets);
        }
    }
}

/// All ports added up, those included that were removed. After a drain `rx_packets + copied_packets = tx_packets + dropped_packets`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    pub rx_packets: u64,
    pub copied_packets: u64,
    pub tx_packets: u64,
    pub dropped_packets: u64,
}

impl Packets {
    pub fn of(ports: &[Port], removed: &Removed) -> Self {
        let gone = Self {
            rx_packets: removed.rx_packets,
            copied_packets: removed.copied_packets,
            tx_packets: removed.tx_packets,
            dropped_packets: removed.drops.values().sum(),
        };
        ports.iter().fold(gone, |sum, port| Self {
            rx_packets: sum.rx_packets + port.rx_packets,
            copied_packets: sum.copied_packets + port.copied_packets,
            tx_packets: sum.tx_packets + port.tx_packets,
            dropped_packets: sum.dropped_packets + port.dropped_packets(),
        })
    }

    /// Packets that came in or were copied and have neither gone out nor been dropped: 0 after a drain.
    pub fn unaccounted(&self) -> i128 {
        i128::from(self.rx_packets) + i128::from(self.copied_packets)
            - i128::from(self.tx_packets)
            - i128::from(self.dropped_packets)
    }
}

/// What the switch itself counts beside its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measurement {
    /// Packets that are neither IPv4 nor IPv6.
    pub unmeasured_packets: u64,
    /// Ends of an epoch whose record also covers the next one, because the collector was behind.
    pub late_epochs: u64,
    /// Records that the collector did not take.
    pub lost_epochs: u64,
    /// Learn digests that found their queue full; the station is learned from a later packet.
    pub lost_learn_digests: u64,
    /// Times a new station was refused because the table was full.
    pub refused_stations: u64,
    /// Times a new neighbour was refused because the table was full of ones in use.
    #[serde(default)]
    pub refused_neighbours: u64,
    /// ICMP errors and questions for neighbours that were not sent, because they would have passed their rate.
    #[serde(default)]
    pub suppressed_messages: u64,
    /// Epochs whose results were dropped early, because a reload changed the programs or the length of an epoch.
    pub forgotten_epochs: u64,
}

impl Measurement {
    pub fn add(&mut self, stats: &SwitchStats) {
        self.unmeasured_packets += stats.unmeasured.get();
        self.late_epochs += stats.late_epochs.get();
        self.lost_epochs += stats.lost_epochs.get();
        self.lost_learn_digests += stats.lost_learn_digests.get();
        self.suppressed_messages += stats.suppressed_messages.get();
    }
}

/// `weir show ports`, and the totals at the end of `weir run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ports {
    pub packets: Packets,
    pub measurement: Measurement,
    pub ports: Vec<Port>,
    pub removed: Removed,
}

impl Ports {
    /// Ports with their numbers, with what all workers counted; what only devices know is left out.
    pub fn collect<'a>(
        ports: impl Iterator<Item = (PortId, &'a PortConfig)>,
        removed: Removed,
        workers: &[Arc<SwitchStats>],
    ) -> Self {
        let port = |(id, config): (PortId, &PortConfig)| {
            let mut port = Port::new(config);
            workers.iter().for_each(|worker| port.add(worker.port(id)));
            port
        };
        let ports: Vec<_> = ports.map(port).collect();
        let mut measurement = Measurement::default();
        workers.iter().for_each(|worker| measurement.add(worker));
        Self { packets: Packets::of(&ports, &removed), measurement, ports, removed }
    }
}

/// What one worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    pub core: usize,
    /// Times the poll loop went round, and of these the ones that found packets.
    pub polls: u64,
    pub busy_polls: u64,
    pub late_epochs: u64,
    pub lost_epochs: u64,
}

impl Worker {
    pub fn new(core: usize, stats: &SwitchStats) -> Self {
        Self {
            core,
            polls: stats.polls.get(),
            busy_polls: stats.busy_polls.get(),
            late_epochs: stats.late_epochs.get(),
            lost_epochs: stats.lost_epochs.get(),
        }
    }
}

/// Everything that `weir top` and `/metrics` need of a switch, at one moment. Totals since the start, never reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub name: String,
    pub version: String,
    pub pid: u32,
    /// When it started, after 1970-01-01 UTC.
    pub start_time_seconds: f64,
    pub uptime_seconds: f64,
    pub workers: Vec<Worker>,
    #[serde(flatten)]
    pub totals: Ports,
}

/// `weir show ports --since-reset`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SinceReset {
    /// The time since the reset, or since the start when there was none.
    pub since_reset_seconds: f64,
    /// Without a reset everything counts from the start.
    pub reset: bool,
    #[serde(flatten)]
    pub ports: Ports,
    /// All ports since the start, which no reset changes.
    pub total_packets: Packets,
}

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

    /// What was lost, without the reasons for which nothing was.
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
        let ports_drops = ports.ports.iter().map(|port| (port.name.as_str(), &port.drops, &port.device));
        ports_drops
            .chain([(Self::REMOVED, &ports.removed.drops, &ports.removed.device)])
            .flat_map(|(name, drops, device)| [of_port(name, drops, false), of_port(name, device, true)])
            .flatten()
            .collect()
    }
}

/// `weir show macs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stations {
    pub stations: Vec<Station>,
}

/// A station that L2 learning knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Station {
    pub mac: String,
    pub vlan: u16,
    pub port: String,
    /// Since it was last heard.
    pub age_seconds: u64,
    /// Set by the operator: it neither moves nor ages.
    #[serde(rename = "static", default)]
    pub fixed: bool,
}

/// `weir table list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tables {
    pub tables: Vec<Table>,
}

/// A match-action table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub name: String,
    pub entries: usize,
    pub capacity_entries: Option<usize>,
    /// The fields that name an entry.
    pub key: Vec<String>,
    pub sram_bits: Option<u64>,
    pub tcam_bits: Option<u64>,
}

/// `weir table show`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableRows {
    #[serde(flatten)]
    pub table: Table,
    pub rows: Vec<serde_json::Value>,
    /// What becomes of packets that match no entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<serde_json::Value>,
}

/// What a change of a table came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableChanged {
    pub changed: usize,
    #[serde(flatten)]
    pub table: Table,
}

/// One heavy flow. Which of the two counts is there depends on what the program counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeavyFlow {
    pub flow: Flow,
    /// In place of the flow's fields when the program knows only a digest of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ipv6_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub true_packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub true_bytes: Option<u64>,
}

impl HeavyFlow {
    pub fn new(heavy: &Heavy, unit: Unit) -> Self {
        let (packets, bytes) = match unit {
            Unit::Packets => (Some(heavy.count), None),
            Unit::Bytes => (None, Some(heavy.count)),
        };
        Self { flow: heavy.flow, ipv6_digest: None, packets, bytes, true_packets: None, true_bytes: None }
    }

    pub fn with_truth(mut self, truth: u64) -> Self {
        if self.packets.is_some() {
            self.true_packets = Some(truth);
        } else {
            self.true_bytes = Some(truth);
        }
        self
    }

    /// The flow as people see it.
    pub fn name(&self) -> String {
        self.ipv6_digest.as_ref().map_or_else(|| self.flow.to_string(), |digest| format!("ipv6 flow {digest}"))
    }

    pub fn count(&self) -> u64 {
        self.packets.or(self.bytes).unwrap_or_default()
    }

    pub fn truth(&self) -> Option<u64> {
        self.true_packets.or(self.true_bytes)
    }
}

/// `weir show heavy`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeavyFlows {
    pub program: String,
    pub unit: Unit,
    pub first_epoch: Option<u64>,
    pub last_epoch: Option<u64>,
    /// Time that the epochs span.
    pub seconds: f64,
    /// Flows that the tables held and the answer cannot name any more, summed over the epochs.
    pub omitted_flows: u64,
    pub heavy: Vec<HeavyFlow>,
}

impl HeavyFlows {
    /// The `top` heaviest flows of the window that count at least `threshold`.
    pub fn new(window: &Window, unit: Unit, length: Nanos, top: usize, threshold: u64) -> Self {
        let epochs = window.epochs.map_or(0, |(first, last)| last - first + 1);
        let mut heavy = window.counts.above(threshold.max(1));
        heavy.truncate(top);
        Self {
            program: "hashpipe".into(),
            unit,
            first_epoch: window.epochs.map(|(first, _)| first),
            last_epoch: window.epochs.map(|(_, last)| last),
            seconds: epochs as f64 * length as f64 / 1e9,
            omitted_flows: window.omitted_flows,
            heavy: heavy.iter().map(|heavy| HeavyFlow::new(heavy, unit)).collect(),
        }
    }
}

/// `weir show api`: what happened at the doors of the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Api {
    /// Connections to the control socket.
    pub socket_connections: u64,
    /// Connections by TCP whose client showed a certificate that is trusted.
    pub tls_connections: u64,
    /// Connections by TCP that did not get as far.
    pub failed_handshakes: u64,
    /// Connections by TCP that were closed because there were too many.
    pub refused_connections: u64,
}

/// What the API answers when it cannot do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub error: String,
}

/// What a reload changed, a line each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    pub changes: Vec<String>,
}
