//! Counters of ports and of the switch.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Counts;
use crate::config::PortConfig;
use crate::pisa::PortId;
use crate::stats::{MissingCounts, SwitchStats, TunnelCounts};

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    pub name: String,
    pub dev: String,
    pub role: String,
    /// Set by `weir port up|down NAME`.
    pub enabled: bool,
    /// The link's state according to the device.
    pub link_up: bool,
    pub mac: String,
    pub mtu_bytes: u32,
    #[serde(flatten)]
    pub counts: Counts,
    /// The faults that its packets meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Effects of faults on packets that were not lost.
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
}

/// Ports that were removed while the switch ran, added up. The keys are those of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    pub removed_ports: u64,
    #[serde(flatten)]
    pub counts: Counts,
}

impl Removed {
    /// Takes over the counts of a port that has gone.
    pub fn add(&mut self, port: &Port) {
        self.removed_ports += 1;
        self.counts.add(&port.counts);
    }
}

/// All ports added up, those included that were removed. After a drain `rx_packets + copied_packets
/// = tx_packets + dropped_packets`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Packets {
    pub rx_packets: u64,
    pub copied_packets: u64,
    pub tx_packets: u64,
    pub dropped_packets: u64,
}

impl Packets {
    pub fn of(ports: &[Port], removed: &Removed) -> Self {
        let all = ports.iter().map(|port| &port.counts).chain([&removed.counts]);
        all.fold(Self::default(), |sum, counts| Self {
            rx_packets: sum.rx_packets + counts.rx_packets,
            copied_packets: sum.copied_packets + counts.copied_packets,
            tx_packets: sum.tx_packets + counts.tx_packets,
            dropped_packets: sum.dropped_packets + counts.dropped_packets(),
        })
    }

    /// Packets that came in or were copied and have neither gone out nor been dropped: 0 after a
    /// drain.
    pub fn unaccounted(&self) -> i128 {
        i128::from(self.rx_packets) + i128::from(self.copied_packets)
            - i128::from(self.tx_packets)
            - i128::from(self.dropped_packets)
    }
}

/// Packets whose flow lacks something. Those of fragments, ports and transport are measured, with the
/// ports 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lacking {
    /// The EtherType is that of IP, and the IP header is cut or wrong. They are not measured.
    pub no_ip_header_packets: u64,
    /// The ports are cut off or out of reach.
    pub no_ports_packets: u64,
    /// Fragments but the first.
    pub later_fragment_packets: u64,
    /// The protocol has no ports, or is not known. ICMP is not among them.
    pub portless_packets: u64,
}

impl Lacking {
    fn add(&mut self, counts: &MissingCounts) {
        self.no_ip_header_packets += counts.ip.get();
        self.no_ports_packets += counts.ports.get();
        self.later_fragment_packets += counts.fragment.get();
        self.portless_packets += counts.transport.get();
    }

    pub fn since(&self, before: &Self) -> Self {
        Self {
            no_ip_header_packets: self.no_ip_header_packets.saturating_sub(before.no_ip_header_packets),
            no_ports_packets: self.no_ports_packets.saturating_sub(before.no_ports_packets),
            later_fragment_packets: self.later_fragment_packets.saturating_sub(before.later_fragment_packets),
            portless_packets: self.portless_packets.saturating_sub(before.portless_packets),
        }
    }

    /// Numbers and what they are of, in words.
    pub fn rows(&self) -> [(u64, &'static str); 4] {
        [
            (self.no_ip_header_packets, "packets whose IP header is cut or wrong were not measured"),
            (self.no_ports_packets, "packets whose ports are cut off or out of reach count with the ports 0"),
            (self.later_fragment_packets, "fragments but the first have no ports, and count with the ports 0"),
            (self.portless_packets, "packets of protocols without ports, or unknown ones, count with the ports 0"),
        ]
    }
}

/// Packets of tunnels, where the flows inside are measured. All but the first count with the flow of
/// the tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tunnelled {
    /// They count with the flow inside.
    pub read_packets: u64,
    /// They end before the inner ports.
    pub cut_packets: u64,
    /// Fragments but the first, of the packet of the tunnel or of the inner one.
    pub fragment_packets: u64,
    /// They have more MPLS labels, VLAN tags or extension headers than are looked behind.
    pub too_deep_packets: u64,
    /// There is no IP inside, or the tunnel's header is none that is known.
    pub other_packets: u64,
}

impl Tunnelled {
    fn add(&mut self, counts: &TunnelCounts) {
        self.read_packets += counts.read.get();
        self.cut_packets += counts.cut.get();
        self.fragment_packets += counts.fragment.get();
        self.too_deep_packets += counts.too_deep.get();
        self.other_packets += counts.other.get();
    }

    pub fn since(&self, before: &Self) -> Self {
        Self {
            read_packets: self.read_packets.saturating_sub(before.read_packets),
            cut_packets: self.cut_packets.saturating_sub(before.cut_packets),
            fragment_packets: self.fragment_packets.saturating_sub(before.fragment_packets),
            too_deep_packets: self.too_deep_packets.saturating_sub(before.too_deep_packets),
            other_packets: self.other_packets.saturating_sub(before.other_packets),
        }
    }

    /// Numbers and what they are of, in words.
    pub fn rows(&self) -> [(u64, &'static str); 5] {
        [
            (self.read_packets, "packets of tunnels count with the flow inside"),
            (self.cut_packets, "packets of tunnels that end before the inner ports count with the tunnel's flow"),
            (self.fragment_packets, "fragments of tunnels but the first count with the tunnel's flow"),
            (
                self.too_deep_packets,
                "packets of tunnels with too many labels, tags or extension headers count with the tunnel's flow",
            ),
            (self.other_packets, "packets of tunnels without known IP inside count with the tunnel's flow"),
        ]
    }
}

/// Counters of the switch itself, beside those of its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Packets that are neither IPv4 nor IPv6.
    pub unmeasured_packets: u64,
    /// Of these, packets with more than four VLAN tags, that of a `qinq` port included.
    #[serde(default)]
    pub too_many_tags_packets: u64,
    #[serde(default)]
    pub lacking: Lacking,
    #[serde(default)]
    pub tunnels: Tunnelled,
    /// Ends of an epoch whose record also covers the next one, because the collector was behind.
    pub late_epochs: u64,
    /// Ends of a sub-epoch whose record also covers the next one, for the same reason.
    #[serde(default)]
    pub late_sub_epochs: u64,
    /// Banks that the collector did not take.
    pub lost_epochs: u64,
    /// Learn digests that found their queue full; the address is learned from a later packet.
    pub lost_learn_digests: u64,
    /// Times a new MAC address was refused because the table was full.
    pub refused_macs: u64,
    /// Times a MAC address was heard behind another port than before.
    #[serde(default)]
    pub moved_macs: u64,
    /// Times a new neighbour was refused because the table was full of ones in use.
    #[serde(default)]
    pub refused_neighbours: u64,
    /// ICMP errors and questions for neighbours that were not sent, because they would have passed
    /// their rate.
    #[serde(default)]
    pub suppressed_messages: u64,
    /// Epochs whose results were dropped early, because a reload changed the programs or the length
    /// of an epoch.
    pub forgotten_epochs: u64,
}

impl Measurement {
    pub fn add(&mut self, stats: &SwitchStats) {
        self.unmeasured_packets += stats.unmeasured.get();
        self.too_many_tags_packets += stats.too_many_tags.get();
        self.lacking.add(&stats.lacking);
        self.tunnels.add(&stats.tunnels);
        self.late_epochs += stats.late_epochs.get();
        self.late_sub_epochs += stats.late_sub_epochs.get();
        self.lost_epochs += stats.lost_epochs.get();
        self.lost_learn_digests += stats.lost_learn_digests.get();
        self.suppressed_messages += stats.suppressed_messages.get();
    }
}

/// `weir show ports`, and the totals at the end of `weir run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
            workers.iter().for_each(|worker| port.counts.count(worker.port(id)));
            port
        };
        let ports: Vec<_> = ports.map(port).collect();
        let mut measurement = Measurement::default();
        workers.iter().for_each(|worker| measurement.add(worker));
        Self { packets: Packets::of(&ports, &removed), measurement, ports, removed }
    }
}
