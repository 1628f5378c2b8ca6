//! Tags against an oracle that works on lists of tags.

use proptest::prelude::*;

use super::*;
use crate::wire::{HeapFrame, parse};

fn kinds() -> Vlans {
    let of = |untagged, tagged: &[u16]| PortVlans::Of { untagged, tagged: VlanSet::new(tagged.iter().copied()) };
    Vlans(vec![
        PortVlans::Every,
        of(Some(10), &[]),
        of(None, &[10, 20]),
        of(Some(20), &[10]),
        PortVlans::Tunnel(20),
        PortVlans::Tunnel(30),
    ])
}

/// A frame with these tags, outermost first, and a payload that is told apart.
fn frame(tags: &[(u16, u16)]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    tags.iter().for_each(|(kind, tci)| bytes.extend([kind.to_be_bytes(), tci.to_be_bytes()].concat()));
    bytes.extend([0x88, 0xb6, 1, 2, 3, 4]);
    bytes
}

fn forward(vlans: &Vlans, from: PortId, to: PortId, bytes: &[u8]) -> Result<Vec<u8>, DropReason> {
    let mut frame = HeapFrame::new(bytes);
    let mut headers = Headers::default();
    parse(bytes, &mut headers).unwrap();
    vlans.ingress(from, &mut headers)?;
    let edit = vlans.egress(from, to, &headers, &frame)?;
    assert!(edit.write_tag(&mut frame, tag_offset(&headers)));
    Ok(frame.bytes().to_vec())
}

/// The oracle works on lists of tags: what the frame has inside its VLAN's tag, and that tag.
fn expected(from: PortId, to: PortId, tags: &[(u16, u16)]) -> Result<Vec<(u16, u16)>, DropReason> {
    let wrong = Err(DropReason::WrongVlan);
    let outer = tags.first().copied();
    let vid = outer.map_or(0, |(_, tci)| tci & 0xfff);
    let priority = outer.map_or(0, |(_, tci)| tci & 0xf000);
    let rest = if outer.is_some() { &tags[1..] } else { tags };
    let inside = |kind, vid: u16| Some((kind, priority | vid));
    let (own, payload) = match from {
        0 if vid == 0 => (None, tags),
        0 => (outer, rest),
        1 if vid == 0 => (outer.map(|(kind, _)| (kind, priority | 10)).or(inside(0x8100, 10)), rest),
        2 if vid == 10 || vid == 20 => (outer, rest),
        3 if vid == 0 => (outer.map(|(kind, _)| (kind, priority | 20)).or(inside(0x8100, 20)), rest),
        3 if vid == 10 => (outer, rest),
        4 => (inside(0x88a8, 20), tags),
        5 => (inside(0x88a8, 30), tags),
        _ => return wrong,
    };
    let with = [own.as_slice(), payload].concat();
    match (to, own.map_or(0, |(_, tci)| tci & 0xfff)) {
        (0, _) | (2, 10 | 20) | (3, 10) => Ok(with),
        (1, 10) | (3 | 4, 20) | (5, 30) => Ok(payload.to_vec()),
        _ => wrong,
    }
}

proptest! {
    #[test]
    fn tags_are_those_of_the_oracle(
        from in 0..6u16,
        to in 0..6u16,
        tags in prop::collection::vec(
            (prop::sample::select(vec![0x8100u16, 0x88a8]), prop::sample::select(vec![0u16, 10, 20, 30]), 0..8u16),
            0..6,
        ),
    ) {
        let tags: Vec<_> = tags.into_iter().map(|(kind, vid, priority)| (kind, priority << 13 | vid)).collect();
        let expected = expected(from, to, &tags).map(|tags| frame(&tags));
        prop_assert_eq!(forward(&kinds(), from, to, &frame(&tags)), expected);
    }
}

#[test]
fn a_customers_frame_crosses_the_provider_unchanged() {
    let vlans = kinds();
    let customer = frame(&[(0x8100, 0x2005), (0x8100, 7)]);
    let carried = forward(&vlans, 4, 2, &customer).unwrap();
    assert_eq!(carried, frame(&[(0x88a8, 0x2014), (0x8100, 0x2005), (0x8100, 7)]));
    assert_eq!(forward(&vlans, 2, 4, &carried).unwrap(), customer);
    assert_eq!(forward(&vlans, 4, 5, &customer), Err(DropReason::WrongVlan));
}

#[test]
fn without_headroom_there_is_no_tag() {
    let vlans = kinds();
    let mut full = HeapFrame::new(&frame(&[]));
    assert!(full.grow_front(126));
    full.bytes_mut()[..14].copy_from_slice(&frame(&[])[..14]);
    let mut headers = Headers::default();
    vlans.ingress(1, &mut headers).unwrap();
    assert_eq!(vlans.egress(1, 2, &headers, &full), Err(DropReason::NoHeadroom));
    let (push, before) = (TagEdit::Push { ethertype: ethertype::VLAN, tci: 10 }, full.clone());
    assert!(!push.write_tag(&mut full, tag_offset(&headers)));
    assert_eq!(full, before);
}
