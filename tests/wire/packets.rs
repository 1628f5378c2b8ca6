//! Packets of all shapes, well formed unless a strategy says otherwise.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weir::wire::{Mac, Shim, arp, checksum, ethertype, proto};

prop_compose! {
    pub fn mac()(bytes: [u8; 6]) -> Mac { Mac(bytes) }
}

prop_compose! {
    pub fn shim_values()(hop in 0..64u8, loops in 0..4u8, epoch in 0..1u32 << 20, class in 0..4u8) -> Shim {
        Shim::new(hop, loops, epoch, class)
    }
}

/// Bytes in front of others; `write` fills them.
pub fn prepend(header: usize, rest: &[u8], write: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; header];
    write(&mut bytes);
    bytes.extend_from_slice(rest);
    bytes
}

fn fragment() -> impl Strategy<Value = (u16, bool)> {
    prop_oneof![4 => Just((0, false)), 1 => Just((0, true)), 1 => (1..0x2000u16, any::<bool>())]
}

/// A protocol number and the bytes of its packet: now and then cut short.
fn transport() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let payload = || vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => (any::<[u8; 20]>(), options(10), payload()).prop_map(|(mut header, options, payload)| {
            header[12] = header[12] & 0x0f | words_of(20 + options.len()) << 4;
            (proto::TCP, [&header[..], &options, &payload].concat())
        }),
        4 => (any::<[u8; 8]>(), payload()).prop_map(|(mut header, payload)| {
            put16(&mut header, 4, 8 + payload.len());
            (proto::UDP, [&header[..], &payload].concat())
        }),
        2 => (select(vec![proto::ICMP, proto::ICMPV6]), vec(any::<u8>(), 8..48)),
        1 => (select(vec![proto::GRE, proto::ESP, proto::NONE, 255]), payload()),
        2 => (select(vec![33, 113, 132, 136]), payload()),
        1 => (select(vec![proto::TCP, proto::UDP, proto::ICMP]), vec(any::<u8>(), 0..12)),
    ]
}

/// Up to `max` words of options.
fn options(max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<[u8; 4]>(), 0..=max).prop_map(|words| words.concat())
}

fn words_of(bytes: usize) -> u8 {
    (bytes / 4) as u8
}

fn put16(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

fn ipv4_packet() -> impl Strategy<Value = Vec<u8>> {
    let options = prop_oneof![3 => Just(Vec::new()), 1 => options(10)];
    let chain = prop_oneof![3 => Just(Vec::new()), 1 => vec((select(vec![51, 139]), 0..3u8), 1..3)];
    (any::<[u8; 20]>(), any::<bool>(), fragment(), options, chain, transport()).prop_map(
        |(fixed, dont_fragment, (offset, more), options, chain, (mut proto, mut payload))| {
            for (kind, words) in chain {
                payload = extension(kind, proto, words, (0, false), &payload);
                proto = kind;
            }
            let mut header = [&fixed[..], &options].concat();
            header[0] = 0x40 | words_of(header.len());
            let total = header.len() + payload.len();
            put16(&mut header, 2, total);
            put16(&mut header, 6, usize::from(dont_fragment) << 14 | usize::from(more) << 13 | usize::from(offset));
            header[9] = proto;
            header[10..12].fill(0);
            let sum = checksum::internet(&header);
            put16(&mut header, 10, sum.into());
            [header, payload].concat()
        },
    )
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
    let kinds = vec![0, 43, 44, 51, 60, 135, 139, 140];
    let chain = vec((select(kinds), 0..3u8, fragment()), 0..11);
    let chain = prop_oneof![1 => Just(Vec::new()), 2 => chain];
    (any::<[u8; 40]>(), chain, transport()).prop_map(|(mut header, chain, (proto, payload))| {
        let (mut next_header, mut rest) = (proto, payload);
        for (kind, words, fragment) in chain {
            rest = extension(kind, next_header, words, fragment, &rest);
            next_header = kind;
        }
        header[0] = header[0] & 0x0f | 0x60;
        put16(&mut header, 4, rest.len());
        header[6] = next_header;
        [&header[..], &rest].concat()
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

/// What a PPPoE session carries; now and then another protocol than IP, or no session data.
fn pppoe() -> impl Strategy<Value = Vec<u8>> {
    let packet = prop_oneof![
        4 => ipv4_packet().prop_map(|packet| (0x0021, packet)),
        4 => ipv6_packet().prop_map(|packet| (0x0057, packet)),
        1 => (select(vec![0xc021u16, 0x8021, 0x2100]), vec(any::<u8>(), 0..60)),
    ];
    let start = prop_oneof![8 => Just([0x11, 0]), 1 => any::<[u8; 2]>()];
    (start, any::<u16>(), packet).prop_map(|(start, session, (protocol, packet))| {
        let length = (packet.len() + 2) as u16;
        [&start[..], &session.to_be_bytes(), &length.to_be_bytes(), &protocol.to_be_bytes(), &packet].concat()
    })
}

/// What an Ethernet frame carries and its EtherType or length.
fn network() -> impl Strategy<Value = (u16, Vec<u8>)> {
    prop_oneof![
        2 => pppoe().prop_map(|session| (0x8864, session)),
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
    let tags = prop_oneof![2 => Just(Vec::new()), 2 => vec((tpids, any::<u16>()), 1..=6)];
    (mac(), mac(), tags, network(), any::<bool>()).prop_map(|(dst, src, tags, (mut ethertype, mut rest), pad)| {
        for (tpid, tci) in tags {
            rest = [&tci.to_be_bytes()[..], &ethertype.to_be_bytes(), &rest].concat();
            ethertype = tpid;
        }
        let mut frame = [&dst.0[..], &src.0, &ethertype.to_be_bytes(), &rest].concat();
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
