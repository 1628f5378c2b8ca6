//! Checksums against the definition, summed word by word, and against etherparse.

use etherparse::PacketBuilder;
use proptest::collection::vec;
use proptest::prelude::*;
use weir::wire::{checksum, proto};

use crate::packets;
use crate::parser::parsed;

/// RFC 1071 as it is written.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A frame by etherparse, which computes all checksums.
fn built(v6: bool, proto: u8, src: u128, dst: u128, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let ip = match v6 {
        false => link.ipv4((src as u32).to_be_bytes(), (dst as u32).to_be_bytes(), 64),
        true => link.ipv6(src.to_be_bytes(), dst.to_be_bytes(), 64),
    };
    let mut frame = Vec::new();
    match proto {
        proto::TCP => ip.tcp(ports.0, ports.1, 1, 2).write(&mut frame, payload),
        proto::UDP => ip.udp(ports.0, ports.1).write(&mut frame, payload),
        proto::ICMP => ip.icmpv4_echo_request(ports.0, ports.1).write(&mut frame, payload),
        _ => ip.icmpv6_echo_request(ports.0, ports.1).write(&mut frame, payload),
    }
    .unwrap();
    frame
}

fn field(proto: u8) -> usize {
    match proto {
        proto::TCP => 16,
        proto::UDP => 6,
        _ => 2,
    }
}

/// Families and protocols that go together.
const KINDS: [(bool, u8); 6] = [
    (false, proto::TCP),
    (false, proto::UDP),
    (false, proto::ICMP),
    (true, proto::TCP),
    (true, proto::UDP),
    (true, proto::ICMPV6),
];

proptest! {
    #[test]
    fn the_sum_is_the_naive_one(bytes: Vec<u8>) {
        prop_assert_eq!(checksum::internet(&bytes), naive(&bytes));
    }

    #[test]
    fn an_update_is_a_new_sum(mut words in vec(any::<u16>(), 2..40), at: prop::sample::Index, new: u16) {
        // A header is never all zeros; of all zeros the sum has two forms.
        words[0] |= 0x4000;
        let bytes = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let at = 1 + at.index(words.len() - 1);
        let updated = checksum::update(naive(&bytes(&words)), words[at], new);
        words[at] = new;
        prop_assert_eq!(updated, naive(&bytes(&words)));
    }

    #[test]
    fn completed_as_etherparse_does(
        (v6, proto) in prop::sample::select(&KINDS), src: u128, dst: u128, ports: (u16, u16), payload: Vec<u8>,
    ) {
        let frame = built(v6, proto, src, dst, ports, &payload);
        let headers = parsed(&frame).unwrap();
        prop_assert_eq!(checksum::is_valid(&frame, &headers), Some(true));

        // As a host leaves it to its NIC.
        let mut left = frame.clone();
        let at = usize::from(headers.l4) + field(proto);
        let len = (frame.len() - usize::from(headers.l4)) as u16;
        let pseudo = match v6 {
            false => checksum::pseudo_v4((src as u32).to_be_bytes(), (dst as u32).to_be_bytes(), proto, len),
            true => checksum::pseudo_v6(src.to_be_bytes(), dst.to_be_bytes(), proto, len),
        };
        left[at..at + 2].copy_from_slice(&pseudo.fold().to_be_bytes());
        let offloads = proto == proto::TCP || proto == proto::UDP;
        prop_assert_eq!(checksum::is_partial(&left, &headers), offloads);

        // Padding behind the packet is not part of it.
        left.extend([0xaa; 9]);
        prop_assert!(checksum::complete(&mut left, &headers));
        prop_assert_eq!(&left[..frame.len()], &frame);
        prop_assert!(checksum::complete(&mut left, &headers));
        prop_assert_eq!(&left[..frame.len()], &frame);

        // Cut short, it cannot be completed.
        let mut cut = frame[..frame.len() - 1].to_vec();
        prop_assert!(!checksum::complete(&mut cut, &headers));
        prop_assert_eq!(&cut, &frame[..frame.len() - 1]);
        prop_assert_eq!(checksum::is_valid(&cut, &headers), None);
    }

    #[test]
    fn nothing_panics_on_damaged_frames(mut frame in packets::damaged_frame()) {
        if let Some(headers) = parsed(&frame) {
            checksum::is_partial(&frame, &headers);
            if checksum::complete(&mut frame, &headers) {
                prop_assert_eq!(checksum::is_valid(&frame, &headers), Some(true));
            }
        }
    }
}

/// UDP has no form for a checksum that is 0, so it is sent as the other zero; over IPv4 a 0 says that
/// there is none.
#[test]
fn zero_is_sent_as_such_by_all_but_udp() {
    for (v6, proto) in KINDS {
        let frame = built(v6, proto, 7, 9, (1, 2), &[0; 2]);
        let headers = parsed(&frame).unwrap();
        let at = usize::from(headers.l4) + field(proto);
        let end = frame.len();
        let (mut zero, mut sum) = (frame.clone(), [0; 2]);
        sum.copy_from_slice(&frame[at..at + 2]);
        zero[end - 2..].copy_from_slice(&sum);
        assert!(checksum::complete(&mut zero, &headers));
        assert_eq!(zero[at..at + 2], if proto == proto::UDP { [0xff; 2] } else { [0; 2] }, "{v6} {proto}");
        assert_eq!(checksum::is_valid(&zero, &headers), Some(true));
        let mut none = frame;
        none[at..at + 2].fill(0);
        assert_eq!(checksum::is_valid(&none, &headers), Some(!v6 && proto == proto::UDP), "{v6} {proto}");
    }
}

#[test]
fn rfc_1071_and_1624_examples() {
    assert_eq!(checksum::internet(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    assert_eq!(checksum::update(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn udp_without_a_checksum_is_valid_and_not_partial() {
    let mut frame = built(false, proto::UDP, 1, 2, (3, 4), &[5; 6]);
    frame[40..42].fill(0);
    let headers = parsed(&frame).unwrap();
    assert_eq!(checksum::is_valid(&frame, &headers), Some(true));
    assert!(!checksum::is_partial(&frame, &headers));
}
