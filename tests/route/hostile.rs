//! Whatever comes in: no panic, and the books balance.

use etherparse::PacketBuilder;
use proptest::prelude::*;
use weir::wire::{Mac, arp, ndp};

use crate::bench::{Bench, config, host_mac, own, udp4, udp6, v6};

/// Frames that reach every part of the router, to be bent.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        udp4(0, [10, 0, 2, 10], 64, b"payload"),
        udp4(0, [10, 0, 2, 50], 64, &[7; 300]),
        udp4(0, [10, 4, 2, 50], 1, b""),
        udp4(0, [10, 0, 3, 10], 9, &[7; 1450]),
        udp4(0, [10, 0, 1, 1], 64, b"to you"),
        udp4(0, [10, 99, 0, 0], 64, b"nowhere"),
        udp6(0, "fd00:2::10", 64, b"payload"),
        udp6(0, "fd00:2::50", 64, b"payload"),
        udp6(0, "fd00:3::10", 9, &[7; 1440]),
        udp6(0, "fd00:1::1", 64, b"to you"),
        udp6(0, "fd99::1", 1, b"nowhere"),
    ];
    let mut echo = Vec::new();
    let builder = PacketBuilder::ethernet2(host_mac(1, 10), own(0)).ipv4([10, 0, 1, 10], [10, 0, 1, 1], 9);
    builder.icmpv4_echo_request(1, 2).write(&mut echo, b"echo").unwrap();
    seeds.push(echo);
    let mut echo = Vec::new();
    let builder = PacketBuilder::ethernet2(host_mac(1, 10), own(0)).ipv6(v6("fd00:1::10"), v6("fd00:1::1"), 9);
    builder.icmpv6_echo_request(1, 2).write(&mut echo, b"echo").unwrap();
    seeds.push(echo);
    let mut question = [&[0xff; 6][..], &host_mac(1, 50), &[8, 6], &[0; 46]].concat();
    let (sender_mac, sender_ip) = (Mac(host_mac(1, 50)), [10, 0, 1, 50].into());
    let packet =
        arp::Repr { operation: 1, sender_mac, sender_ip, target_mac: Mac::default(), target_ip: [10, 0, 1, 1].into() };
    packet.emit(&mut question[14..]).unwrap();
    seeds.push(question);
    for (kind, target) in [(ndp::SOLICITATION, "fd00:1::1"), (ndp::ADVERTISEMENT, "fd00:1::50")] {
        let mut body = [0; ndp::LEN];
        let message = ndp::Repr { kind, flags: 0, target: target.parse().unwrap(), link_layer: Some(sender_mac) };
        message.emit(&mut body).unwrap();
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2(host_mac(1, 50), own(0)).ipv6(v6("fd00:1::50"), v6("fd00:1::1"), 255);
        builder.icmpv6_raw(kind, 0, [0; 4]).write(&mut frame, &body[8..]).unwrap();
        seeds.push(frame);
    }
    seeds
}

#[derive(Clone, Debug)]
struct Bent {
    seed: prop::sample::Index,
    bytes: Vec<(prop::sample::Index, u8)>,
    cut: Option<prop::sample::Index>,
    shim: bool,
    mend: bool,
}

fn bent() -> impl Strategy<Value = Bent> {
    let bytes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    (any::<prop::sample::Index>(), bytes, cut, prop::bool::weighted(0.2), any::<bool>())
        .prop_map(|(seed, bytes, cut, shim, mend)| Bent { seed, bytes, cut, shim, mend })
}

impl Bent {
    fn frame(&self, seeds: &[Vec<u8>], port: u16) -> Vec<u8> {
        let mut frame = self.seed.get(seeds).clone();
        if frame[..6] == own(0) {
            frame[..6].copy_from_slice(&own(port));
        }
        for (at, byte) in &self.bytes {
            // Headers, mostly.
            let at = at.index(frame.len().min(90));
            frame[at] = *byte;
        }
        if self.mend && frame[12..14] == [8, 0] {
            // So that it is not the checksum that every bent header fails by.
            let header = (usize::from(frame[14] & 15) * 4).clamp(20, frame.len() - 14);
            frame[24..26].fill(0);
            let sum = weir::wire::checksum::internet(&frame[14..14 + header]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        if self.shim {
            frame.splice(12..12, [0x88, 0xb5, 4, 0, 0, 0]);
        }
        if let Some(cut) = &self.cut {
            frame.truncate(cut.index(frame.len()));
        }
        frame
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bent_frames(
        fabric in any::<bool>(),
        bursts in prop::collection::vec((0u16..3, prop::collection::vec(bent(), 1..40), 0u64..40), 1..12),
    ) {
        let mut text = config();
        if fabric {
            text = text.replacen("dev = \"memory\"", "dev = \"memory\"\nrole = \"fabric\"", 2);
        }
        let mut bench = Bench::new(&text);
        let seeds = seeds();
        for (port, frames, seconds) in bursts {
            let frames: Vec<_> = frames.iter().map(|bent| bent.frame(&seeds, port)).collect();
            bench.burst(port, &frames);
            bench.wait(seconds);
        }
    }

    #[test]
    fn random_frames(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..60), port in 0u16..3) {
        let mut bench = Bench::new(&config());
        let mut frames = frames;
        for frame in frames.iter_mut().filter(|frame| frame.len() > 14) {
            frame[..6].copy_from_slice(&own(port));
            let ethertype = [[8, 0], [8, 6], [0x86, 0xdd], [0x81, 0]][usize::from(frame[6] & 3)];
            frame[12..14].copy_from_slice(&ethertype);
        }
        bench.burst(port, &frames);
        bench.wait(1);
    }
}
