//! Headers that the switch writes are read back by itself or by etherparse; one that is too short or
//! impossible is a typed error.

use etherparse::{Ethernet2Header, Ipv4Header, Ipv6Header};
use proptest::prelude::*;
use weir::wire::vlan::TagEdit;
use weir::wire::{Frame, HeapFrame, Layer, WireError, arp, ethernet, icmp, ipv4, ipv6, tcp};

use crate::packets;

macro_rules! round_trips {
    ($($name:ident: $strategy:expr, $module:ident, $layer:ident;)*) => {
        proptest! {$(
            #[test]
            fn $name(repr in $strategy, garbage: [u8; 64]) {
                let len = $module::LEN;
                let mut bytes = garbage;
                repr.emit(&mut bytes).unwrap();
                prop_assert_eq!(&bytes[len..], &garbage[len..]);
                prop_assert_eq!(&$module::Repr::parse(&bytes[..len]).unwrap(), &repr);
                for had in 0..len {
                    let error = $module::Repr::parse(&bytes[..had]).unwrap_err();
                    let WireError::Short { layer, needed, had: told } = error else { panic!("{error}") };
                    prop_assert_eq!((layer, told, needed > had), (Layer::$layer, had, true));
                    prop_assert!(repr.emit(&mut bytes.clone()[..had]).is_err());
                }
            }
        )*}
    };
}

prop_compose! {
    fn icmp_repr()(kind: u8, code: u8, word: u32) -> icmp::Repr {
        icmp::Repr { kind, code, word }
    }
}

round_trips! {
    arp_round_trip: packets::arp_repr(), arp, Arp;
    icmp_round_trip: icmp_repr(), icmp, Icmp;
}

proptest! {
    #[test]
    fn ethernet_is_read_by_etherparse(dst in packets::mac(), src in packets::mac(), ethertype: u16, garbage: [u8; 14]) {
        let mut bytes = garbage;
        ethernet::Repr { dst, src, ethertype }.emit(&mut bytes).unwrap();
        let (read, _) = Ethernet2Header::from_slice(&bytes).unwrap();
        prop_assert_eq!((read.destination, read.source, read.ether_type.0), (dst.0, src.0, ethertype));
    }

    #[test]
    fn ipv4_is_read_by_etherparse(tos: u8, proto: u8, src: [u8; 4], dst: [u8; 4], payload_len in 0..70_000usize, garbage: [u8; 20]) {
        let mut bytes = garbage;
        let written = ipv4::Repr { tos, proto, src: src.into(), dst: dst.into(), payload_len }.emit(&mut bytes);
        prop_assert_eq!(written.is_ok(), payload_len <= 0xffff - ipv4::LEN);
        if written.is_ok() {
            let (read, _) = Ipv4Header::from_slice(&bytes).unwrap();
            prop_assert_eq!((read.dscp.value() << 2 | read.ecn.value(), read.protocol.0), (tos, proto));
            prop_assert_eq!((read.source, read.destination, usize::from(read.total_len)), (src, dst, 20 + payload_len));
            prop_assert_eq!((read.header_checksum, read.dont_fragment), (read.calc_header_checksum(), true));
            let view = ipv4::View::new(&bytes).unwrap();
            prop_assert!(view.checksum_is_valid());
            prop_assert_eq!((view.src(), view.total_len()), (src.into(), 20 + payload_len));
            bytes[8] ^= 1;
            prop_assert!(!ipv4::View::new(&bytes).unwrap().checksum_is_valid());
        }
    }

    #[test]
    fn ipv6_is_read_by_etherparse(
        traffic_class: u8, next_header: u8, hop_limit: u8, src: [u8; 16], dst: [u8; 16], payload_len in 0..70_000usize, garbage: [u8; 40],
    ) {
        let mut bytes = garbage;
        let repr = ipv6::Repr { traffic_class, payload_len, next_header, hop_limit, src: src.into(), dst: dst.into() };
        let written = repr.emit(&mut bytes);
        prop_assert_eq!(written.is_ok(), payload_len <= 0xffff);
        if written.is_ok() {
            let (read, _) = Ipv6Header::from_slice(&bytes).unwrap();
            prop_assert_eq!((read.traffic_class, read.next_header.0, read.hop_limit), (traffic_class, next_header, hop_limit));
            prop_assert_eq!((read.source, read.destination, usize::from(read.payload_length)), (src, dst, payload_len));
            let view = ipv6::View::new(&bytes).unwrap();
            prop_assert_eq!((view.src(), view.payload_len()), (src.into(), payload_len));
        }
    }

    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let b = bytes.as_slice();
        let _ = (arp::Repr::parse(b), icmp::Repr::parse(b), tcp::Repr::parse(b));
        let _ = ipv4::View::new(b).map(|v| (v.options().len(), v.payload().len(), v.checksum_is_valid()));
        let _ = ipv6::View::new(b).map(|v| v.payload_len());
    }
}

#[test]
fn fragments_are_read() {
    for (word, dont, more, offset) in
        [(0x4000, true, false, 0), (0x2000, false, true, 0), (0x0001, false, false, 1), (0x3fff, false, true, 0x1fff)]
    {
        let mut bytes = [0; 20];
        (bytes[0], bytes[3]) = (0x45, 20);
        bytes[6..8].copy_from_slice(&u16::to_be_bytes(word));
        let view = ipv4::View::new(&bytes).unwrap();
        let read = (view.dont_fragment(), view.more_fragments(), view.fragment_offset());
        assert_eq!(read, (dont, more, offset), "{word:04x}");
    }
}

#[test]
fn edits_of_tags_change_a_frames_length_by_what_they_say() {
    for (edit, growth) in
        [(TagEdit::Keep, 0), (TagEdit::Set(9), 0), (TagEdit::Pop, -4), (TagEdit::Push { ethertype: 0x8100, tci: 9 }, 4)]
    {
        let mut frame = HeapFrame::new(&[7; 60]);
        assert!(edit.write_tag(&mut frame, 12));
        assert_eq!((frame.bytes().len() as isize - 60, edit.growth()), (growth, growth), "{edit:?}");
    }
}

#[test]
fn errors_name_the_header_and_what_is_wrong() {
    let short = ipv4::View::new([0x45; 7]).unwrap_err();
    assert_eq!(short.to_string(), "IPv4: 20 bytes needed, 7 there");
    let version = ipv4::View::new([0x65; 20]).unwrap_err();
    assert_eq!(version.to_string(), "IPv4: the version cannot be 6");
    let mut bytes = [0; 20];
    bytes[12] = 0x40;
    assert_eq!(tcp::Repr::parse(&bytes).unwrap_err().to_string(), "TCP: the data offset cannot be 16");
}
