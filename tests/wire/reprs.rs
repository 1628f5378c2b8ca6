//! What a repr writes, its view reads back; what is too short or impossible is a typed error.

use proptest::prelude::*;
use weir::wire::{Layer, WireError, arp, ethernet, icmp, ipv4, ipv6, tcp, udp, vlan};

use crate::packets;

macro_rules! round_trips {
    ($($name:ident: $strategy:expr, $module:ident, $layer:ident;)*) => {
        proptest! {$(
            #[test]
            fn $name(repr in $strategy, garbage: [u8; 64]) {
                let len = repr.header_len();
                let mut bytes = garbage;
                repr.emit(&mut bytes).unwrap();
                prop_assert_eq!(&bytes[len..], &garbage[len..]);
                prop_assert_eq!(&$module::Repr::parse(&$module::View::new(&bytes[..len]).unwrap()), &repr);
                for had in 0..len {
                    let error = $module::View::new(&bytes[..had]).unwrap_err();
                    let WireError::Short { layer, needed, had: told } = error else { panic!("{error}") };
                    prop_assert_eq!((layer, told, needed > had), (Layer::$layer, had, true));
                    prop_assert!(repr.emit(&mut bytes.clone()[..had]).is_err());
                }
            }
        )*}
    };
}

prop_compose! {
    fn ethernet_repr()(dst in packets::mac(), src in packets::mac(), ethertype: u16) -> ethernet::Repr {
        ethernet::Repr { dst, src, ethertype }
    }
}

round_trips! {
    ethernet_round_trip: ethernet_repr(), ethernet, Ethernet;
    vlan_round_trip: packets::vlan_repr(), vlan, Vlan;
    arp_round_trip: packets::arp_repr(), arp, Arp;
    ipv4_round_trip: packets::ipv4_repr(), ipv4, Ipv4;
    ipv6_round_trip: packets::ipv6_repr(), ipv6, Ipv6;
    tcp_round_trip: packets::tcp_repr(), tcp, Tcp;
    udp_round_trip: packets::udp_repr(), udp, Udp;
    icmp_round_trip: packets::icmp_repr(), icmp, Icmp;
}

proptest! {
    #[test]
    fn ipv4_header_checksum_is_written(repr in packets::ipv4_repr()) {
        let mut bytes = [0; 60];
        repr.emit(&mut bytes).unwrap();
        prop_assert!(ipv4::View::new(&bytes).unwrap().checksum_is_valid());
    }

    #[test]
    fn setters_are_read_back(mut bytes: [u8; 64], tos: u8, ttl: u8, word: u32, half: u16, mac in packets::mac()) {
        let mut view = ethernet::View::new(&mut bytes).unwrap();
        view.set_dst(mac);
        view.set_ethertype(half);
        prop_assert_eq!((view.dst(), view.ethertype()), (mac, half));
        bytes[0] = 0x45;
        bytes[2] = 0x40;
        let mut view = ipv4::View::new(&mut bytes).unwrap();
        view.set_tos(tos);
        view.set_ttl(ttl);
        view.set_src(word.into());
        view.set_dst((!word).into());
        view.fill_checksum();
        prop_assert_eq!((view.tos(), view.ttl(), view.checksum_is_valid()), (tos, ttl, true));
        prop_assert_eq!((view.src(), view.dst()), (word.into(), (!word).into()));
        bytes[0] = 0x60;
        let mut view = ipv6::View::new(&mut bytes).unwrap();
        let label = view.flow_label();
        view.set_traffic_class(tos);
        view.set_hop_limit(ttl);
        prop_assert_eq!((view.traffic_class(), view.hop_limit(), view.flow_label()), (tos, ttl, label));
        bytes[12] = 0x50;
        let mut view = tcp::View::new(&mut bytes).unwrap();
        view.set_seq(word);
        view.set_ack(!word);
        view.set_flags(tos);
        view.set_checksum(half);
        prop_assert_eq!((view.seq(), view.ack(), view.flags(), view.checksum()), (word, !word, tos, half));
    }

    #[test]
    fn no_view_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let b = bytes.as_slice();
        let _ = ethernet::View::new(b).map(|v| (v.length(), v.payload().len()));
        let _ = vlan::View::new(b).map(|v| (v.vid(), v.payload().len()));
        let _ = arp::View::new(b).map(|v| arp::Repr::parse(&v));
        let _ = ipv4::View::new(b).map(|v| (ipv4::Repr::parse(&v), v.payload().len(), v.checksum_is_valid()));
        let _ = ipv6::View::new(b).map(|v| (ipv6::Repr::parse(&v), v.payload().len(), v.extensions().count()));
        let _ = tcp::View::new(b).map(|v| (tcp::Repr::parse(&v), v.payload().len()));
        let _ = udp::View::new(b).map(|v| (udp::Repr::parse(&v), v.payload().len()));
        let _ = icmp::View::new(b).map(|v| (icmp::Repr::parse(&v), v.payload().len()));
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
    assert_eq!(tcp::View::new(bytes).unwrap_err().to_string(), "TCP: the data offset cannot be 16");
    let tag = vlan::Repr { vid: 4096, ..vlan::Repr::default() };
    assert_eq!(tag.emit(&mut [0; 4]).unwrap_err().to_string(), "VLAN tag: the VLAN cannot be 4096");
}
