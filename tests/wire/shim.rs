//! The telemetry shim: golden vectors, and pushing and popping as each other's inverse.

use proptest::prelude::*;
use weir::wire::{Frame, HeapFrame, Shim, WireError, shim};

use crate::packets;
use crate::parser::parsed;

/// Lines of `hop loops epoch class: bytes`.
const GOLDEN: &str = include_str!("../golden/shim.txt");

fn golden() -> impl Iterator<Item = (Shim, Vec<u8>)> {
    GOLDEN.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (values, bytes) = line.split_once(": ").unwrap();
        let values: Vec<u32> = values.split_whitespace().map(|value| value.parse().unwrap()).collect();
        let [hop, loops, epoch, class] = values[..] else { panic!("{line}") };
        let (hop, loops, class) = (hop as u8, loops as u8, class as u8);
        let bytes = bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        (Shim::new(hop, loops, epoch, class), bytes)
    })
}

#[test]
fn golden_vectors() {
    assert_eq!(golden().count(), 7);
    for (shim, bytes) in golden() {
        let mut emitted = [0xff; shim::LEN];
        shim.emit(&mut emitted).unwrap();
        assert_eq!(emitted, bytes[..], "{shim:?}");
        assert_eq!(Shim::parse(&shim::View::new(&bytes).unwrap()), shim);
    }
}

#[test]
fn it_stands_between_the_macs_and_the_tag() {
    let mut frame = HeapFrame::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0, 9, 8, 0]);
    assert!(shim::push(&mut frame, Shim::new(1, 0, 0xabcd3, 2)));
    let expected = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x88, 0xb5, 0x04, 0x8e, 0xab, 0xcd, 0x81, 0, 0, 9, 8, 0];
    assert_eq!(frame.bytes(), expected);
}

#[test]
fn counts_saturate() {
    let mut shim = Shim::default().with_hop(60);
    for _ in 0..300 {
        shim = shim.next_hop();
    }
    assert_eq!(shim.hop(), shim::MAX_HOP);
    assert_eq!(shim.with_hop(255).next_hop().hop(), shim::MAX_HOP);
    let mut bytes = [0; 6];
    Shim::new(65, 6, 1 << shim::EPOCH_BITS | 5, 7).emit(&mut bytes).unwrap();
    assert_eq!(bytes, [0x88, 0xb5, 0x06, 0x97, 0, 0], "the low bits of each field");
    assert_eq!(shim::epoch_of((7 << shim::EPOCH_BITS) + 5), 5);
}

#[test]
fn another_version_or_none_is_a_typed_error() {
    let mut bytes = [0; 64];
    bytes[12..16].copy_from_slice(&[0x88, 0xb5, 0, 0xc0]);
    let error = |bytes: &[u8]| shim::peek(bytes).unwrap_err().to_string();
    assert_eq!(error(&bytes), "telemetry shim: the version cannot be 3");
    bytes[15] = 0x40;
    assert_eq!(error(&bytes), "telemetry shim: the version cannot be 1", "it had one bit of the epoch");
    bytes[12] = 8;
    assert!(matches!(shim::peek(&bytes), Err(WireError::Bad { field: "the EtherType", .. })));
    assert!(matches!(shim::peek(&bytes[..19]), Err(WireError::Short { .. })));
}

#[test]
fn no_headroom_and_runts_leave_the_frame_alone() {
    let mut frame = HeapFrame::new(&[7; 13]);
    assert!(!shim::fits(&frame, 0) && shim::fits(&frame, 1), "one byte more, and it is no runt");
    assert!(!shim::push(&mut frame, Shim::default()));
    assert_eq!(frame.bytes(), [7; 13]);
    let mut frame = HeapFrame::new(&[7; 14]);
    while shim::fits(&frame, 0) {
        assert!(shim::push(&mut frame, Shim::default()));
    }
    let full = frame.clone();
    assert!(!shim::push(&mut frame, Shim::default()));
    assert_eq!(frame, full);
}

proptest! {
    #[test]
    fn push_and_pop_are_the_identity(bytes in packets::frame(), shim in packets::shim_values()) {
        let original = HeapFrame::new(&bytes);
        let mut frame = original.clone();
        prop_assert!(shim::push(&mut frame, shim));
        prop_assert_eq!(frame.wire_len(), bytes.len() + shim::LEN);
        prop_assert_eq!(frame.bytes(), packets::with_shim(&bytes, shim));
        prop_assert_eq!((shim::peek(frame.bytes()), shim::read(frame.bytes())), (Ok(shim), Some(shim)));
        prop_assert!(shim::pop(&mut frame));
        prop_assert_eq!(frame.bytes(), original.bytes());
    }

    #[test]
    fn the_parser_sees_the_same_packet_behind_it(bytes in packets::frame(), shim in packets::shim_values()) {
        let mut bare = parsed(&bytes).unwrap();
        bare.shim = true;
        bare.l3 += if bare.l3 > 0 { 6 } else { 0 };
        bare.l4 += if bare.l4 > 0 { 6 } else { 0 };
        prop_assert_eq!(parsed(&packets::with_shim(&bytes, shim)), Some(bare));
    }

    #[test]
    fn rewrite_replaces_it(bytes in packets::frame(), old in packets::shim_values(), new in packets::shim_values()) {
        let mut frame = HeapFrame::new(&packets::with_shim(&bytes, old));
        prop_assert!(shim::rewrite(&mut frame, new));
        prop_assert_eq!(shim::peek(frame.bytes()), Ok(new));
        prop_assert_eq!(frame.bytes(), packets::with_shim(&bytes, new));
    }

    /// A digest takes 16 bits of the epoch's number. The other four name it while it is near the
    /// running one.
    #[test]
    fn beside_a_digest_stands_the_nearest_epoch(
        shim in packets::shim_values(),
        digest: u16,
        running in 8..1u64 << 40,
        ahead in 0..16u64,
    ) {
        let with = shim.with_digest(digest);
        prop_assert_eq!((with.digest(), with.epoch() & 15), (digest, shim.epoch() & 15));
        prop_assert_eq!(with.with_epoch(shim.epoch()), shim);
        let epoch = shim::epoch_of(running - 8 + ahead);
        let carried = shim.with_epoch(epoch).with_digest(digest).epoch();
        prop_assert_eq!(shim::nearest_epoch(shim::epoch_of(running), carried), epoch);
    }

    #[test]
    fn popping_anything_is_harmless(bytes: Vec<u8>) {
        let mut frame = HeapFrame::new(&bytes);
        if !shim::pop(&mut frame) {
            prop_assert_eq!(frame.bytes(), bytes);
        }
    }
}
