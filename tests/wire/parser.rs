//! The parser of the fast path against the views, and against etherparse where the two mean the
//! same.

use etherparse::{LinkExtSlice, NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use weir::wire::{Fragment, Headers, MAX_EXTENSIONS, Mac, Net, ethertype, parse, proto};

use crate::{oracle, packets};

/// Headers full of leftovers from another packet.
fn stale() -> Headers {
    Headers {
        src_ip: u128::MAX,
        dst_ip: u128::MAX,
        dst: Mac::BROADCAST,
        src: Mac::BROADCAST,
        ethertype: 0xffff,
        vlan_tci: 0xffff,
        tagged: true,
        inner_tci: 0xffff,
        double_tagged: true,
        shim: true,
        net: Net::Ipv6,
        proto: 0xff,
        tos: 0xff,
        ttl: 0xff,
        fragment: Fragment::Later,
        sport: 0xffff,
        dport: 0xffff,
        l3: 0xffff,
        l4: 0xffff,
    }
}

pub fn parsed(frame: &[u8]) -> Option<Headers> {
    let mut headers = stale();
    parse(frame, &mut headers).ok().map(|()| headers)
}

/// Holds the parser to the naive one.
pub fn check(frame: &[u8]) -> Result<(), TestCaseError> {
    let expected = oracle::headers(frame);
    prop_assert_eq!(parsed(frame), expected);
    Ok(())
}

/// The frame without its PPPoE session header, which etherparse does not know.
fn without_session(frame: &[u8]) -> Vec<u8> {
    let Some(h) = parsed(frame).filter(|h| h.ethertype == ethertype::PPPOE_SESSION && h.net != Net::Other) else {
        return frame.to_vec();
    };
    let inner = if h.net == Net::Ipv4 { ethertype::IPV4 } else { ethertype::IPV6 };
    let (l2, packet) = frame.split_at(h.l3.into());
    [&l2[..l2.len() - 10], &inner.to_be_bytes(), packet].concat()
}

/// Holds the parser to etherparse where that finds no fault with the whole packet.
pub fn check_etherparse(frame: &[u8]) -> Result<(), TestCaseError> {
    let plain = without_session(frame);
    let Ok(packet) = SlicedPacket::from_ethernet(&plain) else { return Ok(()) };
    let h = parsed(frame).unwrap();
    if h.shim {
        return Ok(());
    }
    let tcis: Vec<u16> = packet.link_exts.iter().filter_map(tci).collect();
    if packet.link_exts.len() > tcis.len() || tcis.len() > 2 {
        return Ok(());
    }
    prop_assert_eq!(h.tagged.then_some(&h.vlan_tci), tcis.first());
    prop_assert_eq!(h.double_tagged.then_some(&h.inner_tci), tcis.get(1));
    match &packet.net {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header();
            prop_assert_eq!((h.net, h.ttl, h.proto), (Net::Ipv4, header.ttl(), header.protocol().0));
            prop_assert_eq!(h.tos, header.dcp().value() << 2 | header.ecn().value());
            prop_assert_eq!(h.src_ip, u32::from(header.source_addr()).into());
            prop_assert_eq!(h.dst_ip, u32::from(header.destination_addr()).into());
            prop_assert_eq!(h.fragment != Fragment::Whole, ip.is_payload_fragmented());
        }
        Some(NetSlice::Ipv6(ip)) => {
            let header = ip.header();
            prop_assert_eq!((h.net, h.ttl, h.tos), (Net::Ipv6, header.hop_limit(), header.traffic_class()));
            prop_assert_eq!(h.src_ip, u128::from(header.source_addr()));
            prop_assert_eq!(h.dst_ip, u128::from(header.destination_addr()));
        }
        _ => prop_assert_eq!(h.net, Net::Other),
    }
    // etherparse takes AH behind IPv4 for an extension header, any number of extension headers
    // behind IPv6, and an IPv6 payload length of 0 for that of a jumbogram.
    let jumbo = packet.net.is_some_and(|net| net.ipv6_ref().is_some_and(|ip| ip.header().payload_length() == 0));
    let stopped = weir::wire::proto::is_extension(h.proto) || jumbo;
    let ports = match packet.transport.filter(|_| !stopped) {
        Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
        Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
        _ => return Ok(()),
    };
    prop_assert_eq!((h.sport, h.dport, h.l4 == 0), (ports.0, ports.1, false));
    Ok(())
}

fn tci(extension: &LinkExtSlice) -> Option<u16> {
    let LinkExtSlice::Vlan(vlan) = extension else { return None };
    let bytes = vlan.slice();
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn well_formed(frame in packets::any_frame()) {
        check(&frame)?;
    }

    #[test]
    fn well_formed_as_etherparse(frame in packets::frame()) {
        check_etherparse(&frame)?;
    }

    #[test]
    fn damaged(frame in packets::damaged_frame()) {
        check(&frame)?;
        check_etherparse(&frame)?;
    }

    #[test]
    fn random(frame: Vec<u8>) {
        check(&frame)?;
    }
}

proptest! {
    #[test]
    fn every_truncation(frame in packets::any_frame()) {
        for len in 0..=frame.len() {
            check(&frame[..len])?;
        }
    }
}

#[test]
fn the_third_tag_is_an_ethertype() {
    let tags = [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 8, 0];
    let h = parsed(&[[0; 12].as_slice(), &tags].concat()).unwrap();
    assert_eq!((h.vid(), h.inner_tci, h.ethertype, h.net), (1, 2, 0x8100, Net::Other));
}

/// A PPPoE session with an IP packet has that packet's fields, as behind a tag. Discovery, another
/// code than that of data, and other PPP protocols have none.
#[test]
fn a_session_is_looked_through() {
    let ip = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 8, 0, 0];
    let session = |ethertype: [u8; 2], code, protocol: [u8; 2]| {
        let header = [&[0x11, code, 0, 1, 0, 30][..], &protocol].concat();
        parsed(&[[2; 12].as_slice(), &[0x81, 0, 0, 5], &ethertype, &header, &ip].concat()).unwrap()
    };
    let h = session([0x88, 0x64], 0, [0, 0x21]);
    let plain = parsed(&[[2; 12].as_slice(), &[0x81, 0, 0, 5, 8, 0], &ip].concat()).unwrap();
    assert_eq!((h.l3, h.l4, h.ethertype), (26, 46, ethertype::PPPOE_SESSION));
    assert_eq!(Headers { l3: plain.l3, l4: plain.l4, ethertype: plain.ethertype, ..h }, plain);
    for other in [
        session([0x88, 0x63], 0, [0, 0x21]),
        session([0x88, 0x64], 9, [0, 0x21]),
        session([0x88, 0x64], 0, [0, 0x57]),
        session([0x88, 0x64], 0, [0xc0, 0x21]),
    ] {
        assert_eq!((other.net, other.l3, other.vid()), (Net::Other, 0, 5));
    }
}

/// The work for a packet is bounded, however many extension headers it has.
#[test]
fn a_long_chain_of_extension_headers_is_followed_to_its_limit() {
    let chain = |headers: usize| {
        let mut frame = [[2; 12].as_slice(), &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
        frame.extend(((8 * headers + 8) as u16).to_be_bytes());
        frame.extend([if headers > 0 { proto::DESTINATION } else { proto::UDP }, 64]);
        frame.extend([1; 32]);
        for left in (0..headers).rev() {
            let next = if left > 0 { proto::DESTINATION } else { proto::UDP };
            frame.extend([next, 0, 1, 4, 0, 0, 0, 0]);
        }
        frame.extend([0, 7, 0, 9, 0, 8, 0, 0]);
        parsed(&frame).unwrap()
    };
    let udp = |h: &Headers| (h.proto, h.sport, h.dport) == (proto::UDP, 7, 9);
    assert!((0..=MAX_EXTENSIONS).all(|headers| udp(&chain(headers))));
    for headers in [MAX_EXTENSIONS + 1, 100] {
        let left = chain(headers);
        assert_eq!((left.proto, left.l4), (proto::DESTINATION, 0), "{headers}");
    }
}

#[test]
fn a_shim_of_another_version_is_an_ethertype() {
    let mut frame = [0; 64];
    frame[12..20].copy_from_slice(&[0x88, 0xb5, 0, 0x40, 0, 0, 8, 0]);
    let h = parsed(&frame).unwrap();
    assert_eq!((h.shim, h.ethertype, h.net), (false, 0x88b5, Net::Other));
}

#[test]
fn padding_is_not_a_transport_header() {
    let ip = [0x45, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let h = parsed(&[[0; 12].as_slice(), &[8, 0], &ip, &[1; 40]].concat()).unwrap();
    assert_eq!((h.net, h.proto, h.l4, h.sport), (Net::Ipv4, 17, 0, 0));
}
