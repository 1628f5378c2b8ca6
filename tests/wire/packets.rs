//! Packets of all shapes, well formed unless a strategy says otherwise.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weir::wire::{Mac, Shim, arp, ethernet, ethertype, icmp, ipv4, ipv6, proto, tcp, udp, vlan};

prop_compose! {
    pub fn mac()(bytes: [u8; 6]) -> Mac { Mac(bytes) }
}

prop_compose! {
    pub fn shim_values()(hop in 0..64u8, loops in 0..4u8, epoch in 0..1u32 << 20, class in 0..4u8) -> Shim {
        Shim { hop, loops, epoch, class }
    }
}

/// Bytes in front of others; `write` fills them.
pub fn prepend(header: usize, rest: &[u8], write: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; header];
    write(&mut bytes);
    bytes.extend_from_slice(rest);
    bytes
}

prop_compose! {
    pub fn tcp_repr()(
        sport: u16, dport: u16, seq: u32, ack: u32, flags: u8, window: u16, checksum: u16, urgent: u16,
        options in vec(any::<u32>(), 0..=10),
    ) -> tcp::Repr {
        let options = options.iter().flat_map(|word| word.to_be_bytes()).collect();
        tcp::Repr { sport, dport, seq, ack, flags, window, checksum, urgent, options }
    }
}

prop_compose! {
    pub fn udp_repr()(sport: u16, dport: u16, payload_len in 0..40usize, checksum: u16) -> udp::Repr {
        udp::Repr { sport, dport, payload_len, checksum }
    }
}

prop_compose! {
    pub fn icmp_repr()(kind: u8, code: u8, checksum: u16, word: u32) -> icmp::Repr {
        icmp::Repr { kind, code, checksum, word }
    }
}

prop_compose! {
    pub fn ipv4_repr()(
        tos: u8, ident: u16, dont_fragment: bool, ttl: u8, proto: u8, src: u32, dst: u32,
        (fragment_offset, more_fragments) in fragment(),
        options in prop_oneof![3 => Just(Vec::new()), 1 => vec(any::<u32>(), 1..=10)],
        payload_len in 0..100usize,
    ) -> ipv4::Repr {
        ipv4::Repr {
            tos, ident, dont_fragment, more_fragments, fragment_offset, ttl, proto,
            src: Ipv4Addr::from(src),
            dst: Ipv4Addr::from(dst),
            options: options.iter().flat_map(|word| word.to_be_bytes()).collect(),
            payload_len,
        }
    }
}

prop_compose! {
    pub fn ipv6_repr()(
        traffic_class: u8, flow_label in 0..1u32 << 20, payload_len in 0..100usize,
        next_header: u8, hop_limit: u8, src: u128, dst: u128,
    ) -> ipv6::Repr {
        let (src, dst) = (Ipv6Addr::from(src), Ipv6Addr::from(dst));
        ipv6::Repr { traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst }
    }
}

fn fragment() -> impl Strategy<Value = (u16, bool)> {
    prop_oneof![4 => Just((0, false)), 1 => Just((0, true)), 1 => (1..0x2000u16, any::<bool>())]
}

/// A protocol number and the bytes of its packet: now and then cut short.
fn transport() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let payload = || vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => (tcp_repr(), payload()).prop_map(|(repr, payload)| {
            (proto::TCP, prepend(repr.header_len(), &payload, |b| repr.emit(b).unwrap()))
        }),
        4 => (udp_repr(), payload()).prop_map(|(repr, payload)| {
            let repr = udp::Repr { payload_len: payload.len(), ..repr };
            (proto::UDP, prepend(udp::LEN, &payload, |b| repr.emit(b).unwrap()))
        }),
        2 => (icmp_repr(), payload(), select(vec![proto::ICMP, proto::ICMPV6])).prop_map(|(repr, payload, proto)| {
            (proto, prepend(icmp::LEN, &payload, |b| repr.emit(b).unwrap()))
        }),
        1 => (select(vec![proto::GRE, proto::ESP, proto::NONE, 132, 255]), payload()),
        1 => (select(vec![proto::TCP, proto::UDP, proto::ICMP]), vec(any::<u8>(), 0..12)),
    ]
}

fn ipv4_packet() -> impl Strategy<Value = Vec<u8>> {
    (ipv4_repr(), transport()).prop_map(|(repr, (proto, payload))| {
        let repr = ipv4::Repr { proto, payload_len: payload.len(), ..repr };
        prepend(repr.header_len(), &payload, |b| repr.emit(b).unwrap())
    })
}

/// One extension header in front of what `next` names.
fn extension(kind: u8, next: u8, words: u8, (offset, more): (u16, bool), rest: &[u8]) -> Vec<u8> {
    let length = if kind == proto::AUTHENTICATION { words * 2 + 1 } else { words };
    prepend(proto::extension_len(kind, length), rest, |b| {
        b[0] = next;
        b[1] = length;
        if kind == proto::FRAGMENT {
            b[1] = 0;
            b[2..4].copy_from_slice(&(offset << 3 | u16::from(more)).to_be_bytes());
        }
    })
}

fn ipv6_packet() -> impl Strategy<Value = Vec<u8>> {
    let kinds = vec![proto::HOP_BY_HOP, proto::ROUTING, proto::DESTINATION, proto::FRAGMENT, proto::AUTHENTICATION];
    let chain = vec((select(kinds), 0..3u8, fragment()), 0..8);
    let chain = prop_oneof![1 => Just(Vec::new()), 2 => chain];
    (ipv6_repr(), chain, transport()).prop_map(|(repr, chain, (proto, payload))| {
        let (mut next_header, mut rest) = (proto, payload);
        for (kind, words, fragment) in chain {
            rest = extension(kind, next_header, words, fragment, &rest);
            next_header = kind;
        }
        let repr = ipv6::Repr { next_header, payload_len: rest.len(), ..repr };
        prepend(ipv6::LEN, &rest, |b| repr.emit(b).unwrap())
    })
}

fn arp_packet() -> impl Strategy<Value = Vec<u8>> {
    arp_repr().prop_map(|repr| prepend(arp::LEN, &[], |b| repr.emit(b).unwrap()))
}

prop_compose! {
    pub fn arp_repr()(operation: u16, sender_mac in mac(), sender: u32, target_mac in mac(), target: u32) -> arp::Repr {
        arp::Repr { operation, sender_mac, sender_ip: sender.into(), target_mac, target_ip: target.into() }
    }
}

prop_compose! {
    pub fn vlan_repr()(priority in 0..8u8, drop_eligible: bool, vid in 0..4096u16, ethertype: u16) -> vlan::Repr {
        vlan::Repr { priority, drop_eligible, vid, ethertype }
    }
}

/// What an Ethernet frame carries and its EtherType or length.
fn network() -> impl Strategy<Value = (u16, Vec<u8>)> {
    prop_oneof![
        4 => ipv4_packet().prop_map(|packet| (ethertype::IPV4, packet)),
        4 => ipv6_packet().prop_map(|packet| (ethertype::IPV6, packet)),
        1 => arp_packet().prop_map(|packet| (ethertype::ARP, packet)),
        1 => vec(any::<u8>(), 0..60).prop_map(|llc| (llc.len() as u16, llc)),
        1 => (0x8900..0x9000u16, vec(any::<u8>(), 0..60)),
    ]
}

/// A frame without shim, padded to 60 bytes or not.
pub fn frame() -> impl Strategy<Value = Vec<u8>> {
    let tpids = select(vec![ethertype::VLAN, ethertype::QINQ, ethertype::QINQ_OLD]);
    let tags = prop_oneof![2 => Just(Vec::new()), 2 => vec((tpids, vlan_repr()), 1..=3)];
    (mac(), mac(), tags, network(), any::<bool>()).prop_map(|(dst, src, tags, (mut ethertype, mut rest), pad)| {
        for (tpid, tag) in tags {
            let tag = vlan::Repr { ethertype, ..tag };
            rest = prepend(vlan::LEN, &rest, |b| tag.emit(b).unwrap());
            ethertype = tpid;
        }
        let repr = ethernet::Repr { dst, src, ethertype };
        let mut frame = prepend(ethernet::LEN, &rest, |b| repr.emit(b).unwrap());
        if pad && frame.len() < 60 {
            frame.resize(60, 0);
        }
        frame
    })
}

/// A frame with a shim behind its MACs.
pub fn with_shim(frame: &[u8], shim: Shim) -> Vec<u8> {
    let mut bytes = [&frame[..12], &[0; 6], &frame[12..]].concat();
    shim.emit(&mut bytes[12..]).unwrap();
    bytes
}

/// A frame with or without shim.
pub fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    (frame(), proptest::option::of(shim_values())).prop_map(|(frame, shim)| match shim {
        Some(shim) => with_shim(&frame, shim),
        None => frame,
    })
}

/// A frame of which a few bytes among the headers are replaced.
pub fn damaged_frame() -> impl Strategy<Value = Vec<u8>> {
    (any_frame(), vec((12..80usize, any::<u8>()), 1..4)).prop_map(|(mut frame, damage)| {
        let len = frame.len();
        for (at, byte) in damage {
            frame[at % len] = byte;
        }
        frame
    })
}
