//! Random packets, and what a router that knows no tables would do with them.

use std::collections::BTreeSet;

use etherparse::{Ipv4Header, Ipv6Header};
use proptest::prelude::*;
use weir::pisa::{DropReason, PortId};

use crate::bench::{Bench, config, host_mac, icmp, own, udp4, udp6};

/// What is expected of one packet.
#[derive(Debug, PartialEq)]
enum Expected {
    /// On by one of these ports to the host there.
    On(Vec<(PortId, [u8; 6])>),
    /// Dropped in silence.
    Gone(DropReason),
    /// An ICMP error: type and code of IPv4, of IPv6.
    Error(DropReason, (u8, u8), (u8, u8)),
    /// The next hop is not known.
    Unknown,
}

use Expected::{Error, Gone, On, Unknown};

#[derive(Clone, Debug)]
struct Packet {
    v6: bool,
    port: PortId,
    /// The bytes of the destination that tell it: 10.a.b.c, or fd0a:b:c::d and so on.
    to: [u8; 3],
    ttl: u8,
    len: usize,
    broken: Broken,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    No,
    Checksum,
    Cut,
    OtherMac,
    BroadcastMac,
    Tagged,
    Multicast,
    FromMulticast,
}

fn packet() -> impl Strategy<Value = Packet> {
    let a = prop_oneof![4 => Just(0u8), 3 => Just(2), 2 => Just(4), 1 => Just(5), 1 => Just(9)];
    let b = prop_oneof![6 => 1u8..4, 1 => Just(0), 1 => Just(9)];
    let c = prop_oneof![5 => 10u8..14, 1 => Just(1u8), 1 => Just(0), 1 => Just(255), 1 => Just(4), 1 => 20u8..60];
    let broken = prop_oneof![
        20 => Just(Broken::No),
        1 => Just(Broken::Checksum),
        1 => Just(Broken::Cut),
        1 => Just(Broken::OtherMac),
        1 => Just(Broken::BroadcastMac),
        1 => Just(Broken::Tagged),
        1 => Just(Broken::Multicast),
        1 => Just(Broken::FromMulticast),
    ];
    let ttl = prop_oneof![1 => 0u8..3, 6 => 3u8..=255];
    let len = prop_oneof![3 => 0usize..100, 1 => 1300usize..1450];
    (any::<bool>(), 0u16..3, (a, b, c), ttl, len, broken).prop_map(|(v6, port, (a, b, c), ttl, len, broken)| Packet {
        v6,
        port,
        to: [a, b, c],
        ttl,
        len,
        broken,
    })
}

impl Packet {
    /// 10.0.b.c and fd00:b::c are the ports' networks; 10.a.b.c and fd0a:b:c::9 lie behind
    /// gateways.
    fn bytes(&self) -> Vec<u8> {
        let ([a, b, c], payload) = (self.to, vec![0x5a; self.len]);
        let mut frame = if self.v6 {
            let host = if c == 255 || c == 0 { 77 } else { c };
            let to = if a == 0 { format!("fd00:{b}::{host}") } else { format!("fd0{a}:{b}:{c}::9") };
            udp6(self.port, &to, self.ttl, &payload)
        } else {
            udp4(self.port, [10, a, b, c], self.ttl, &payload)
        };
        let at = |v4: usize, v6: usize| 14 + if self.v6 { v6 } else { v4 };
        match self.broken {
            Broken::No => {}
            Broken::Checksum => frame[at(10, 0)] ^= 0x40,
            Broken::Cut => drop(frame.pop()),
            Broken::OtherMac => frame[5] ^= 0x80,
            Broken::BroadcastMac => frame[..6].fill(0xff),
            Broken::Tagged => drop(frame.splice(12..12, [0x81, 0, 0, 5])),
            Broken::Multicast => frame[at(16, 24)] = if self.v6 { 0xff } else { 0xe0 },
            Broken::FromMulticast => frame[at(12, 8)] = if self.v6 { 0xff } else { 0xe0 },
        }
        if !self.v6 && matches!(self.broken, Broken::Multicast | Broken::FromMulticast) {
            frame[24..26].fill(0);
            let sum = weir::wire::checksum::internet(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        frame
    }

    fn length(&self) -> usize {
        self.len + 8 + if self.v6 { 40 } else { 20 }
    }

    /// The longest prefix, found by trying them from the longest on; and after it all that can
    /// still go wrong.
    fn expected(&self) -> Expected {
        match self.broken {
            Broken::OtherMac => return Gone(DropReason::OtherMac),
            Broken::Tagged => return Gone(DropReason::Tagged),
            Broken::Multicast => return Gone(DropReason::Multicast),
            Broken::FromMulticast => return Gone(DropReason::Martian),
            Broken::BroadcastMac => return Gone(DropReason::Multicast),
            // The version.
            Broken::Checksum if self.v6 => return Gone(DropReason::BadHeader),
            Broken::No | Broken::Checksum | Broken::Cut => {}
        }
        match self.routed() {
            Gone(reason) => Gone(reason),
            _ if self.broken != Broken::No => Gone(DropReason::BadHeader),
            other => other,
        }
    }

    fn routed(&self) -> Expected {
        let [a, b, c] = self.to;
        let behind =
            |gateways: &[(u8, u8)]| On(gateways.iter().map(|&(n, h)| (n as PortId - 1, host_mac(n, h))).collect());
        let ecmp = || behind(&[(2, 10), (2, 11), (3, 10)]);
        let found = match (self.v6, a, b, c) {
            (true, 0, 1..=3, 1) | (false, 0, 1..=3, 1) => return Error(DropReason::ToRouter, (3, 3), (1, 4)),
            (false, 0, 1..=3, 0 | 255) => return Gone(DropReason::Multicast),
            (_, 0, 1..=3, 10..=13) => behind(&[(b, c)]),
            (_, 0, 1..=3, _) | (false, 5, ..) => Unknown,
            (_, 2, 3, 4) => return Gone(DropReason::Blackhole),
            (_, 2, 3, _) => behind(&[(3, 10)]),
            (_, 2, ..) => behind(&[(2, 10)]),
            (_, 4, ..) => ecmp(),
            _ => return Error(DropReason::NoRoute, (3, 0), (1, 0)),
        };
        if self.ttl <= 1 {
            return Error(DropReason::TtlExpired, (11, 0), (3, 0));
        }
        found
    }
}

fn check(bench: &mut Bench, packet: &Packet) {
    let frame = packet.bytes();
    let before = bench.drops();
    let sent = bench.one(packet.port, &frame);
    let lost: Vec<_> = DropReason::ALL.into_iter().zip(bench.drops().iter().zip(&before).map(|(a, b)| a - b)).collect();
    let lost: Vec<_> = lost.into_iter().filter(|(_, n)| *n > 0).collect();
    let too_big = packet.length() > 1400;
    match (packet.expected(), sent) {
        (On(ways), sent) if too_big && lost == [(DropReason::TooLong, 1)] => {
            assert!(ways.iter().any(|(port, _)| *port == 2), "only port 2 is narrow");
            let (_, error) = sent.expect("an error");
            assert_error(packet, &frame, &error, (3, 4), (2, 0));
            assert_eq!(icmp(&error).word, 1400u32.to_be_bytes());
        }
        (On(ways), Some((port, out))) => {
            assert_eq!(lost, []);
            assert!(ways.iter().any(|(id, mac)| *id == port && out[..6] == *mac), "{port} in {ways:?}");
            assert!(port != 2 || !too_big);
            assert_eq!(out[6..12], own(port));
            assert_forwarded(&frame, &out);
        }
        (Gone(reason), None) => assert_eq!(lost, [(reason, 1)]),
        (Error(reason, v4, v6), Some((port, error))) => {
            assert_eq!((port, lost), (packet.port, vec![(reason, 1)]));
            assert_error(packet, &frame, &error, v4, v6);
        }
        (Unknown, sent) => {
            assert_eq!(lost, [(DropReason::NoNeighbour, 1)]);
            if let Some((port, question)) = sent {
                let error = port == packet.port && matches!(question[12..24], [8, 0, 0x45, ..] | [0x86, 0xdd, ..]);
                let asks = question[12..14] == [8, 6] || question.get(54) == Some(&135);
                assert!(asks || error, "{question:x?}");
            }
        }
        (expected, sent) => panic!("{expected:?}, not {sent:?} and {lost:?}"),
    }
}

/// All as it was but the MACs, the TTL and its checksum.
fn assert_forwarded(frame: &[u8], out: &[u8]) {
    assert_eq!(frame.len(), out.len());
    if frame[12] == 0x08 {
        let (mut ip, rest) = Ipv4Header::from_slice(&frame[14..]).unwrap();
        let (sent, sent_rest) = Ipv4Header::from_slice(&out[14..]).unwrap();
        ip.time_to_live -= 1;
        ip.header_checksum = ip.calc_header_checksum();
        assert_eq!((ip, rest), (sent, sent_rest));
    } else {
        let (mut ip, rest) = Ipv6Header::from_slice(&frame[14..]).unwrap();
        let (sent, sent_rest) = Ipv6Header::from_slice(&out[14..]).unwrap();
        ip.hop_limit -= 1;
        assert_eq!((ip, rest), (sent, sent_rest));
    }
}

/// To whom the packet came from, from the port it came to, with as much of it as fits.
fn assert_error(packet: &Packet, frame: &[u8], error: &[u8], v4: (u8, u8), v6: (u8, u8)) {
    assert_eq!((&error[..6], &error[6..12]), (&frame[6..12], &own(packet.port)[..]));
    let message = icmp(error);
    let n = packet.port as u8 + 1;
    let (kind, source, max) = match packet.v6 {
        true => (v6, crate::bench::v6(&format!("fd00:{n}::1")).to_vec(), 1280 - 48),
        false => (v4, vec![10, 0, n, 1], 576 - 28),
    };
    assert_eq!((message.kind, message.src), (kind, source));
    let from = if packet.v6 { &frame[22..38] } else { &frame[26..30] };
    assert_eq!(message.dst, from);
    assert_eq!(message.rest, &frame[14..frame.len().min(14 + max)], "it quotes the packet as it came");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_naive_router(packets in prop::collection::vec(packet(), 1..60)) {
        let mut bench = Bench::new(&config());
        for packet in &packets {
            check(&mut bench, packet);
            bench.wait(1);
        }
    }
}

fn flow(n: u16) -> Vec<u8> {
    let mut frame = udp4(0, [10, 4, 0, 1], 64, b"");
    frame[34..36].copy_from_slice(&n.to_be_bytes());
    frame
}

#[test]
fn flows_are_dealt_out_and_stay() {
    let mut bench = Bench::new(&config());
    let way = |bench: &mut Bench, n| {
        let (port, out) = bench.one(0, &flow(n)).expect("it goes on");
        (port, out[..6].to_vec())
    };
    let ways: Vec<_> = (0..600).map(|n| way(&mut bench, n)).collect();
    for (port, host) in [(1, host_mac(2, 10)), (1, host_mac(2, 11)), (2, host_mac(3, 10))] {
        let share = ways.iter().filter(|way| **way == (port, host.to_vec())).count();
        assert!((130..=270).contains(&share), "{share} of 600 by {port}");
    }
    for (n, before) in (0..).zip(&ways) {
        assert_eq!(way(&mut bench, n), *before, "a flow stays");
    }
    bench.up(2, false);
    for (n, before) in (0..).zip(&ways) {
        let now = way(&mut bench, n);
        assert!(if before.0 == 2 { now.0 == 1 } else { now == *before }, "only flows of the lost link move");
    }
}

/// A CRC is linear, so one alone sends 16 flows of ports in a row to one of two gateways under one
/// polynomial in 16.
#[test]
fn ports_in_a_row_take_both_gateways() {
    const SEEDS: usize = 100;
    let two = config().replace(", \"10.0.2.11\", \"10.0.3.10\"]", ", \"10.0.2.11\"]");
    let uneven = (0..SEEDS).filter(|seed| {
        let mut bench = Bench::new(&two.replace("reproducible = 1", &format!("reproducible = {seed}")));
        let ways = (40_000..40_016).map(|n| bench.one(0, &flow(n)).expect("it goes on").1[5]);
        ways.collect::<BTreeSet<_>>().len() == 1
    });
    assert_eq!(uneven.collect::<Vec<_>>(), [0; 0], "seeds of {SEEDS}");
}

/// Flows that come by one gateway of a router take both gateways of the next one, also where both
/// routers have one seed. Each name of a switch has a hash of its own.
#[test]
fn routers_in_a_row_choose_apart() {
    const FLOWS: usize = 400;
    let two = config().replace(", \"10.0.2.11\", \"10.0.3.10\"]", ", \"10.0.2.11\"]");
    let six = two.replace(", \"fd00:2::11\", \"fd00:3::10\"]", ", \"fd00:2::11\"]");
    let router = |name: &str, seed| {
        let named = six.replace("[switch]\n", &format!("[switch]\nname = \"{name}\"\n"));
        Bench::new(&named.replace("reproducible = 1", &format!("reproducible = {seed}")))
    };
    let flow6 = |n: u16| {
        let mut frame = udp6(0, "fd04::1", 64, b"");
        frame[54..56].copy_from_slice(&n.to_be_bytes());
        frame
    };
    let by_first = |router: &mut Bench, flow: &Vec<u8>| router.one(0, flow).expect("it goes on").1[5] == 10;
    for seed in 0..10 {
        let mut routers = ["r1", "r2", "r3", "weir"].map(|name| router(name, seed));
        for frame in [&flow as &dyn Fn(u16) -> Vec<u8>, &flow6] {
            let mut flows: Vec<_> = (0..FLOWS as u16).map(|n| frame(10_000 + 7 * n)).collect();
            for router in &mut routers {
                let all = flows.len();
                flows.retain(|flow| by_first(router, flow));
                // Half, with a binomial distribution: seven standard deviations.
                let most = 3.5 * (all as f64).sqrt();
                let off = (flows.len() as f64 - all as f64 / 2.0).abs();
                assert!(off <= most, "seed {seed}: {} of {all} by one gateway", flows.len());
            }
        }
    }
    let ways = |name| {
        let mut router = router(name, 7);
        (0..FLOWS as u16).map(|n| by_first(&mut router, &flow(n))).collect::<Vec<_>>()
    };
    assert_eq!(ways("r1"), ways("r1"), "a seed and a name decide");
}

/// The IP packet within a PPPoE session is another's to route.
#[test]
fn sessions_are_not_routed() {
    let mut bench = Bench::new(&config());
    let (plain, v6) = (udp4(0, [10, 2, 0, 1], 64, b"x"), udp6(0, "fd02::1", 64, b"x"));
    for (frame, protocol) in [(plain, 0x21), (v6, 0x57)] {
        assert!(bench.one(0, &frame).is_some());
        let session = [&frame[..12], &[0x88, 0x64, 0x11, 0, 0, 9, 0, 0, 0, protocol], &frame[14..]].concat();
        assert_eq!(bench.one(0, &session), None);
    }
    assert_eq!(bench.dropped(DropReason::NotRouted), 2);
}

#[test]
fn fragments_of_a_packet_stay_together() {
    let mut bench = Bench::new(&config());
    for n in 0..50 {
        let mut ways = Vec::new();
        for offset in [0x2000u16, 0x2001, 0x0002] {
            let mut frame = flow(n * 7);
            frame[30..34].copy_from_slice(&[10, 4, 0, n as u8]);
            frame[20..22].copy_from_slice(&offset.to_be_bytes());
            frame[24..26].fill(0);
            let sum = weir::wire::checksum::internet(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            ways.push(bench.one(0, &frame).expect("it goes on").1[..6].to_vec());
        }
        assert!(ways.iter().all(|way| *way == ways[0]));
    }
}
