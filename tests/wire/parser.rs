//! The parser of the fast path against the views, and against etherparse where the two mean the
//! same.

use etherparse::{LinkExtSlice, NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use weir::wire::{Fragment, Headers, MAX_EXTENSIONS, Mac, Net, Shim, ethertype, parse, proto};

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
        inner_tags: 0xff,
        shim: true,
        deeper_tcis: [0xffff; 2],
        draw: 0,
        made: false,
        inner: 0,
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
    if packet.link_exts.len() > tcis.len() {
        return Ok(());
    }
    let ours: Vec<u16> = h.tcis().collect();
    prop_assert!(ours.starts_with(&tcis), "{:?} {:?}", ours, tcis);
    // etherparse knows three.
    if ours.len() > 2 || h.has_too_many_tags() {
        return Ok(());
    }
    match &packet.net {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header();
            prop_assert_eq!((h.net, h.ttl), (Net::Ipv4, header.ttl()));
            let first = header.protocol().0;
            prop_assert!(h.proto == first || proto::is_extension_of_ipv4(first));
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
    // etherparse takes any number of extension headers, and an IPv6 payload length of 0 for that of
    // a jumbogram.
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

/// The IPv4 and UDP headers of a packet from port 7 to port 9.
const UDP4: [u8; 28] = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 8, 0, 0];

/// Four tags of every kind are looked through; a fifth is an EtherType like any other.
#[test]
fn the_fifth_tag_is_an_ethertype() {
    let frame = |tags: usize, kind: [u8; 2]| {
        let tags: Vec<u8> = (1..=tags).flat_map(|tag| [kind[0], kind[1], 0, tag as u8]).collect();
        [[2; 12].as_slice(), &tags, &[8, 0], &UDP4].concat()
    };
    for kind in [ethertype::VLAN, ethertype::QINQ, ethertype::QINQ_OLD].map(u16::to_be_bytes) {
        for tags in 0..=4u16 {
            let h = parsed(&frame(tags.into(), kind)).unwrap();
            assert!(h.tcis().eq(1..=tags) && !h.has_too_many_tags());
            assert_eq!((h.ethertype, h.l3, h.sport, h.dport), (0x800, 14 + 4 * tags, 7, 9));
        }
        for tags in [5, 6, 40] {
            let h = parsed(&frame(tags, kind)).unwrap();
            assert!(h.tcis().eq(1..=4) && h.has_too_many_tags());
            assert_eq!((h.ethertype, h.net, h.proto, h.sport), (u16::from_be_bytes(kind), Net::Other, 0, 0));
        }
    }
}

/// A tag around the frame's own counts as one of the frame: the headers are those that the next
/// switch finds.
#[test]
fn a_tag_that_is_put_on_counts() {
    let frame = |tags: &[u16]| {
        let tags: Vec<u8> = tags.iter().flat_map(|&tci| [[0x81, 0], tci.to_be_bytes()].concat()).collect();
        [[2; 12].as_slice(), &tags, &[8, 0], &UDP4].concat()
    };
    let shimmed = |frame: Vec<u8>| packets::with_shim(&frame, Shim::new(3, 1, 2, 1));
    for (tags, shim) in (0..=6u16).flat_map(|tags| [(tags, false), (tags, true)]) {
        let (own, around): (Vec<u16>, Vec<u16>) = ((1..=tags).collect(), [9].into_iter().chain(1..=tags).collect());
        let parsed = |tags: &[u16]| parsed(&if shim { shimmed(frame(tags)) } else { frame(tags) }).unwrap();
        let mut tunnelled = parsed(&own);
        if tunnelled.net != Net::Other {
            assert_eq!(usize::from(tunnelled.l3), 14 + tunnelled.tag_bytes(), "{tags} {shim}");
        }
        tunnelled.tunnel(9);
        let next = parsed(&around);
        let back = |offset: u16| offset.saturating_sub(4);
        let (l3, l4, inner_tci) = (back(next.l3), back(next.l4), if tags > 0 { next.inner_tci } else { 0 });
        assert_eq!(tunnelled, Headers { l3, l4, inner_tci, ..next }, "{tags} {shim}");
    }
}

/// The ports of each transport that has some, behind every header that may stand before it, also
/// where nothing behind them was captured.
#[test]
fn every_transport_with_ports_has_them() {
    let extension = |kind: u8, next: u8| match kind {
        44 => [next, 0, 0, 1, 0, 0, 0, 5].to_vec(),
        51 => [[next, 4].as_slice(), &[7; 22]].concat(),
        _ => [[next, 1].as_slice(), &[0; 14]].concat(),
    };
    let v4 = |proto: u8, options: &[u8], rest: &[u8]| {
        let total = (20 + options.len() + rest.len()) as u8;
        let words = 0x45 + options.len() as u8 / 4;
        [&[words, 0, 0, total, 0, 0, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2], options, rest].concat()
    };
    let v6 =
        |next: u8, rest: &[u8]| [&[0x60, 0, 0, 0, 0, rest.len() as u8, next, 64], [1; 32].as_slice(), rest].concat();
    for transport in [6, 17, 33, 113, 132, 136] {
        let ports = [0x80, 7, 0x90, 9];
        let mut packets = vec![(8, v4(transport, &[], &ports)), (8, v4(transport, &[1; 12], &ports))];
        for kind in [51, 139] {
            packets.push((8, v4(kind, &[1; 4], &[extension(kind, transport), ports.to_vec()].concat())));
        }
        packets.push((0x86, v6(transport, &ports)));
        for kind in [0, 43, 44, 51, 60, 135, 139, 140] {
            packets.push((0x86, v6(kind, &[extension(kind, transport), ports.to_vec()].concat())));
            let two = [extension(kind, 60), extension(60, transport), ports.to_vec()].concat();
            packets.push((0x86, v6(kind, &two)));
        }
        for (ethertype, packet) in packets {
            let ethertype = [ethertype, if ethertype == 8 { 0 } else { 0xdd }];
            let frame = [[2; 12].as_slice(), &ethertype, &packet].concat();
            let h = parsed(&frame).unwrap();
            assert_eq!((h.proto, h.sport, h.dport), (transport, 0x8007, 0x9009), "{packet:02x?}");
            assert!(h.has_ports() && usize::from(h.l4) + 4 == frame.len());
            let cut = parsed(&frame[..frame.len() - 1]).unwrap();
            assert_eq!((cut.proto, cut.sport, cut.dport, cut.has_ports()), (transport, 0, 0, false));
        }
    }
    for none in [1, 2, 4, 41, 47, 50, 58, 89, 103, 115] {
        let frame = [[2; 12].as_slice(), &[8, 0], &v4(none, &[], &[1; 8])].concat();
        let h = parsed(&frame).unwrap();
        assert_eq!((h.proto, h.sport, h.dport, h.has_ports()), (none, 0, 0, false));
    }
}

/// What a capture kept of a packet is used: the addresses without the options, the ports without
/// the rest of their header.
#[test]
fn a_cut_packet_has_the_fields_that_are_there() {
    let mut options = UDP4.to_vec();
    (options[0], options[3]) = (0x46, 32);
    options.splice(20..20, [1; 4]);
    for (ip, ports) in [(UDP4.to_vec(), 24), (options, 28)] {
        let frame = [[2; 12].as_slice(), &[8, 0], &ip].concat();
        for len in 14..=frame.len() {
            let h = parsed(&frame[..len]).unwrap();
            let addresses = if len >= 14 + 20 { (Net::Ipv4, 0x0a00_0001, 0x0a00_0002) } else { (Net::Other, 0, 0) };
            assert_eq!((h.net, h.src_ip, h.dst_ip), addresses, "{len}");
            assert_eq!((h.sport, h.dport), if len >= 14 + ports { (7, 9) } else { (0, 0) }, "{len}");
        }
    }
}

/// Messages of mobility and HIP are their own protocol.
#[test]
fn what_nothing_follows_is_the_protocol() {
    for kind in [proto::MOBILITY, proto::HIP, proto::SHIM6] {
        let message = [proto::NONE, 0, 5, 0, 1, 2, 3, 4];
        let ip = [[0x60, 0, 0, 0, 0, 8, kind, 64].as_slice(), &[1; 32], &message].concat();
        let h = parsed(&[[2; 12].as_slice(), &[0x86, 0xdd], &ip].concat()).unwrap();
        assert_eq!((h.proto, h.l4), (kind, 0));
    }
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
    let ip = [0x45, 0, 0, 22, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let h = parsed(&[[0; 12].as_slice(), &[8, 0], &ip, &[1; 40]].concat()).unwrap();
    assert_eq!((h.net, h.proto, h.l4, h.sport), (Net::Ipv4, 17, 0, 0));
}
