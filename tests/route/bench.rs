//! A router with three ports, and frames for it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use etherparse::{Icmpv4Header, Icmpv6Slice, Ipv4Header, Ipv6Header, PacketBuilder};
use weir::assemble::{Assembly, assemble};
use weir::config::Config;
use weir::pisa::{DropReason, PortId};
use weir::stats::PortStats;
use weir::switch::{Burst, PortInfo, Switch, TxBursts};
use weir::tables::Routing;
use weir::wire::{Frame, HeapFrame, Mac};

pub const SECOND: u64 = 1_000_000_000;

/// Ports 0, 1 and 2 have 10.0.{1,2,3}.1/24 and fd00:{1,2,3}::1/64; the last has an MTU of 1400.
/// Hosts .10 to .13 are known.
pub fn config() -> String {
    let mut text = String::from("[switch]\nforward = \"route\"\nreproducible = 1\n");
    for n in 1..=3 {
        let mtu = if n == 3 { 1400 } else { 1500 };
        text += &format!(
            "[[port]]\nname = \"p{n}\"\ndev = \"memory\"\nmtu = {mtu}\naddresses = [\"10.0.{n}.1/24\", \"fd00:{n}::1/64\"]\n"
        );
    }
    let route = |prefix: &str, what: &str| format!("[[route]]\nprefix = \"{prefix}\"\n{what}\n");
    text += &route("10.2.0.0/16", "via = [\"10.0.2.10\"]");
    text += &route("10.2.3.0/24", "via = [\"10.0.3.10\"]");
    text += &route("10.2.3.4/32", "drop = true");
    text += &route("10.4.0.0/16", "via = [\"10.0.2.10\", \"10.0.2.11\", \"10.0.3.10\"]");
    text += &route("10.5.0.0/16", "port = \"p2\"");
    text += &route("fd02::/16", "via = [\"fd00:2::10\"]");
    text += &route("fd02:3::/32", "via = [\"fd00:3::10\"]");
    text += &route("fd02:3:4::/48", "drop = true");
    text += &route("fd04::/16", "via = [\"fd00:2::10\", \"fd00:2::11\", \"fd00:3::10\"]");
    for n in 1..=3 {
        for host in 10..14 {
            for address in [format!("10.0.{n}.{host}"), format!("fd00:{n}::{host}")] {
                let mac = Mac(host_mac(n as u8, host as u8));
                text += &format!("[[neighbour]]\naddress = \"{address}\"\nport = \"p{n}\"\nmac = \"{mac}\"\n");
            }
        }
    }
    text
}

pub fn host_mac(network: u8, host: u8) -> [u8; 6] {
    [2, 1, 0, 0, network, host]
}

/// The router's MAC on a port.
pub fn own(port: PortId) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8]
}

pub struct Bench {
    pub switch: Switch,
    pub routing: Routing,
    pub ports: Vec<PortInfo>,
    pub now: u64,
    received: u64,
    sent: u64,
}

impl Bench {
    pub fn new(config: &str) -> Self {
        let config = Config::parse(config).unwrap_or_else(|e| panic!("{e}"));
        let Assembly { mut switches, routing, ports, .. } = assemble(&config, None, 1).unwrap();
        let routing = routing.expect("a router");
        Self { switch: switches.remove(0), routing, ports, now: 1_700_000_000 * SECOND, received: 0, sent: 0 }
    }

    /// Lets frames in by a port; gives what went out, and by which port. The books must balance.
    pub fn burst(&mut self, port: PortId, frames: &[Vec<u8>]) -> Vec<(PortId, Vec<u8>)> {
        let mut burst: Burst<_> = frames.iter().map(|bytes| HeapFrame::new(bytes)).collect();
        let mut out = TxBursts::new(self.ports.len());
        self.received += frames.len() as u64;
        let mut sent = Vec::new();
        while !burst.is_empty() {
            self.switch.process(port, &mut burst, self.now, &mut out);
            for (id, queue) in out.queues() {
                sent.extend(queue.drain(..).map(|frame| (id, frame.bytes().to_vec())));
            }
        }
        self.sent += sent.len() as u64;
        self.balance();
        sent
    }

    /// The same for one frame from which at most one comes.
    pub fn one(&mut self, port: PortId, frame: &[u8]) -> Option<(PortId, Vec<u8>)> {
        let mut sent = self.burst(port, &[frame.to_vec()]);
        assert!(sent.len() <= 1, "{sent:?}");
        sent.pop()
    }

    /// Lets time pass, and the control half work at its end.
    pub fn wait(&mut self, seconds: u64) {
        self.now += seconds * SECOND;
        self.routing.serve(self.now);
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.sum(|port| port.dropped(reason))
    }

    /// Drops by every reason, in the order of `DropReason::ALL`.
    pub fn drops(&self) -> Vec<u64> {
        DropReason::ALL.iter().map(|&reason| self.dropped(reason)).collect()
    }

    pub fn up(&self, port: usize, up: bool) {
        self.ports[port].up.store(up, Relaxed);
    }

    fn sum(&self, count: impl Fn(&PortStats) -> u64) -> u64 {
        let stats = Arc::clone(self.switch.stats());
        stats.ports().map(count).sum()
    }

    fn balance(&self) {
        let (rx, made) = (self.sum(|port| port.rx_packets.get()), self.sum(|port| port.copies.get()));
        assert_eq!(rx, self.received);
        assert_eq!(rx + made, self.sent + self.drops().iter().sum::<u64>());
    }
}

/// A UDP packet from host .10 behind a port to an address, addressed to the router.
pub fn udp4(port: PortId, to: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let n = port as u8 + 1;
    let builder = PacketBuilder::ethernet2(host_mac(n, 10), own(port)).ipv4([10, 0, n, 10], to, ttl).udp(4000, 5000);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

pub fn udp6(port: PortId, to: &str, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let n = port as u8 + 1;
    let builder = PacketBuilder::ethernet2(host_mac(n, 10), own(port)).ipv6(v6(&format!("fd00:{n}::10")), v6(to), ttl);
    let mut frame = Vec::new();
    builder.udp(4000, 5000).write(&mut frame, payload).unwrap();
    frame
}

pub fn v6(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().unwrap().octets()
}

/// An ICMP message as etherparse finds it, checksums and all: source, destination, type, code,
/// second word, the rest.
pub struct Message<'a> {
    pub src: Vec<u8>,
    pub dst: Vec<u8>,
    pub kind: (u8, u8),
    pub word: [u8; 4],
    pub rest: &'a [u8],
}

pub fn icmp(frame: &[u8]) -> Message<'_> {
    match frame[12..14] {
        [0x08, 0x00] => {
            let (ip, rest) = Ipv4Header::from_slice(&frame[14..]).unwrap();
            assert_eq!(ip.calc_header_checksum(), ip.header_checksum);
            assert_eq!(usize::from(ip.total_len), frame.len() - 14);
            assert_eq!(ip.protocol.0, 1);
            let (icmp, payload) = Icmpv4Header::from_slice(rest).unwrap();
            assert_eq!(icmp.icmp_type.calc_checksum(payload), icmp.checksum);
            Message {
                src: ip.source.to_vec(),
                dst: ip.destination.to_vec(),
                kind: (rest[0], rest[1]),
                word: rest[4..8].try_into().unwrap(),
                rest: &rest[8..],
            }
        }
        _ => {
            let (ip, rest) = Ipv6Header::from_slice(&frame[14..]).unwrap();
            assert_eq!(usize::from(ip.payload_length), rest.len());
            assert_eq!(ip.next_header.0, 58);
            let icmp = Icmpv6Slice::from_slice(rest).unwrap();
            assert!(icmp.is_checksum_valid(ip.source, ip.destination));
            let kind = (icmp.type_u8(), icmp.code_u8());
            Message {
                src: ip.source.to_vec(),
                dst: ip.destination.to_vec(),
                kind,
                word: rest[4..8].try_into().unwrap(),
                rest: &rest[8..],
            }
        }
    }
}
