use super::*;
use crate::wire::parse;

const ALL: Tunnels = Tunnels { mpls_on_ethernet: true };

/// Destination and source.
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

/// The inner packet: UDP from 10.1.0.7:4660 to 10.1.0.9:80, with four bytes of payload.
const INNER4: [u8; 32] = [
    0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 1, 0, 7, 10, 1, 0, 9, // IPv4
    0x12, 0x34, 0, 80, 0, 12, 0, 0, 1, 2, 3, 4, // UDP
];

/// The same ports of TCP, from fd00::7 to fd00::9.
const INNER6: [u8; 60] = [
    0x60, 0, 0, 0, 0, 20, 6, 64, // IPv6
    0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, // source
    0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, // destination
    0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0, // TCP
];

const FLOW4: &str = "10.1.0.7:4660 → 10.1.0.9:80 udp";
const FLOW6: &str = "[fd00::7]:4660 → [fd00::9]:80 tcp";

const VXLAN: [u8; 8] = [0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0];
const GRE_KEYED: [u8; 8] = [0x20, 0, 0x65, 0x58, 0, 0x12, 0x34, 0x56];
/// User data for tunnel 1.
const GTP: [u8; 8] = [0x30, 255, 0, 32, 0, 0, 0, 1];

/// A frame with what follows its MAC addresses.
fn frame(parts: &[&[u8]]) -> Vec<u8> {
    [&MACS[..], &parts.concat()].concat()
}

/// IPv4 from 192.0.2.1 to 192.0.2.2 around this.
fn in_ipv4(proto: u8, parts: &[&[u8]]) -> Vec<u8> {
    let inside = parts.concat();
    let [high, low] = (20 + inside.len() as u16).to_be_bytes();
    let header = [0x45, 0, high, low, 0, 7, 0, 0, 64, proto, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    frame(&[&[8, 0], &header, &inside])
}

/// IPv6 from 2001:db8::1 to 2001:db8::2 around this, behind a destination option.
fn in_ipv6(proto: u8, parts: &[&[u8]]) -> Vec<u8> {
    let inside = parts.concat();
    let [high, low] = (8 + inside.len() as u16).to_be_bytes();
    let address = |last| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let option = [proto, 0, 1, 4, 0, 0, 0, 0];
    frame(&[&[0x86, 0xdd, 0x60, 0, 0, 0, high, low, 60, 64], &address(1), &address(2), &option, &inside])
}

/// UDP to this port, as a tunnel's end sends it.
fn to_port(port: u16, parts: &[&[u8]]) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    in_ipv4(proto::UDP, &[&[0xc0, 1, high, low, 0, 0, 0, 0], &parts.concat()])
}

fn ethernet_of(ethertype: [u8; 2], packet: &[u8]) -> Vec<u8> {
    frame(&[&ethertype, packet])
}

fn found(frame: &[u8]) -> Result<Option<String>, Unread> {
    let mut headers = Headers::default();
    parse(frame, &mut headers).unwrap();
    let inner = ALL.inner(frame, &headers)?;
    Ok(inner.map(|inner| inner.flow().unwrap().to_string()))
}

fn reads(frame: &[u8], flow: &str) {
    assert_eq!(found(frame), Ok(Some(flow.to_owned())));
}

#[test]
fn vxlan_and_geneve() {
    let inner = ethernet_of([8, 0], &INNER4);
    for port in [4789, 8472] {
        reads(&to_port(port, &[&VXLAN, &inner]), FLOW4);
    }
    reads(&to_port(4789, &[&VXLAN, &ethernet_of([0x86, 0xdd], &INNER6)]), FLOW6);
    // Four tags inside, and one more.
    let tags = [0x88u8, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 0x91, 0, 0, 4];
    let tagged = |tags: &[u8]| to_port(4789, &[&VXLAN, &MACS, tags, &[8, 0], &INNER4]);
    reads(&tagged(&tags), FLOW4);
    assert_eq!(found(&tagged(&[&tags[..], &[0x81, 0, 0, 5]].concat())), Err(Unread::TooDeep));
    // Without an identifier, and with ARP inside.
    assert_eq!(found(&to_port(4789, &[&[0; 8], &inner])), Err(Unread::Other));
    assert_eq!(found(&to_port(4789, &[&VXLAN, &ethernet_of([8, 6], &[0; 28])])), Err(Unread::Other));

    let geneve = |first: u8, flags: u8, protocol: [u8; 2], inside: &[u8]| {
        to_port(6081, &[&[first, flags, protocol[0], protocol[1], 0x12, 0x34, 0x56, 0], inside])
    };
    reads(&geneve(0, 0, [0x65, 0x58], &inner), FLOW4);
    // Two options of eight bytes, one of them critical.
    let options = [1u8, 2, 0x80, 1, 9, 9, 9, 9, 1, 2, 3, 1, 8, 8, 8, 8];
    reads(&geneve(4, 0x40, [0x65, 0x58], &[&options[..], &inner].concat()), FLOW4);
    reads(&geneve(0, 0, [0x86, 0xdd], &INNER6), FLOW6);
    assert_eq!(found(&geneve(0, 0x80, [0x65, 0x58], &inner)), Err(Unread::Other), "a control message");
    assert_eq!(found(&geneve(0x40, 0, [0x65, 0x58], &inner)), Err(Unread::Other), "version 1");
    assert_eq!(found(&geneve(0x3f, 0, [0x65, 0x58], &inner)), Err(Unread::Cut), "options that are not there");
    // Any other port is no tunnel's, and neither is a tunnel's port as the source.
    assert_eq!(found(&to_port(4790, &[&VXLAN, &inner])), Ok(None));
    assert_eq!(found(&in_ipv4(17, &[&[0x12, 0xb5, 0, 53, 0, 0, 0, 0], &VXLAN, &inner])), Ok(None));
}

#[test]
fn gre_with_its_optional_fields() {
    for (flags, fields) in [(0x00, 0), (0x80, 1), (0x20, 1), (0x10, 1), (0xa0, 2), (0xb0, 3)] {
        let fields = vec![0x77; 4 * fields];
        reads(&in_ipv4(47, &[&[flags, 0, 8, 0], &fields, &INNER4]), FLOW4);
        reads(&in_ipv6(47, &[&[flags, 0, 0x86, 0xdd], &fields, &INNER6]), FLOW6);
    }
    reads(&in_ipv4(47, &[&GRE_KEYED, &ethernet_of([8, 0], &INNER4)]), FLOW4);
    reads(&in_ipv4(47, &[&[0, 0, 0x88, 0x47], &[0, 1, 0x10, 64, 0, 2, 0x11, 64], &INNER4]), FLOW4);
    assert_eq!(found(&in_ipv4(47, &[&[0x40, 0, 8, 0], &INNER4])), Err(Unread::Other), "source routes");
    assert_eq!(found(&in_ipv4(47, &[&[0x20, 1, 0x88, 0x0b], &INNER4])), Err(Unread::Other), "PPTP");
    assert_eq!(found(&in_ipv4(47, &[&[0, 0, 0x88, 0xbe], &INNER4])), Err(Unread::Other), "ERSPAN");
}

#[test]
fn gtp_with_extension_headers() {
    let gtp = |parts: &[&[u8]]| to_port(2152, parts);
    reads(&gtp(&[&GTP, &INNER4]), FLOW4);
    // A sequence number, and a PDU session container as in 5G.
    reads(&gtp(&[&[0x32, 255, 0, 64, 0, 0, 0, 1], &[0, 9, 0, 0], &INNER6]), FLOW6);
    let extended = [0x34, 255, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0x85];
    reads(&gtp(&[&extended, &[1, 0x10, 9, 0], &INNER4]), FLOW4);
    // Four extension headers, the last one of eight bytes, and one more.
    let more = |number: usize, last: &[u8]| gtp(&[&extended, &[1u8, 0, 0, 0x85].repeat(number), last, &INNER4]);
    reads(&more(3, &[2, 0, 0, 0, 0, 0, 0, 0]), FLOW4);
    assert_eq!(found(&more(4, &[1, 0, 0, 0])), Err(Unread::TooDeep));
    assert_eq!(found(&more(0, &[0, 0, 0, 0])), Err(Unread::Other), "an extension header without a length");
    // An echo request, GTP', and Ethernet inside.
    assert_eq!(found(&gtp(&[&[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]])), Ok(None));
    assert_eq!(found(&gtp(&[&[0x20, 255, 0, 32, 0, 0, 0, 1], &INNER4])), Err(Unread::Other));
    assert_eq!(found(&gtp(&[&GTP, &ethernet_of([8, 0], &INNER4)])), Err(Unread::Other));
}

#[test]
fn stacks_of_labels() {
    let stack = |labels: usize| [[0u8, 1, 0x10, 64].repeat(labels - 1), vec![0, 2, 0x11, 64]].concat();
    for labels in [1, 2, MAX_LABELS] {
        reads(&frame(&[&[0x88, 0x47], &stack(labels), &INNER4]), FLOW4);
        reads(&frame(&[&[0x88, 0x48], &stack(labels), &INNER6]), FLOW6);
        reads(&to_port(6635, &[&stack(labels), &INNER4]), FLOW4);
        reads(&in_ipv4(137, &[&stack(labels), &INNER4]), FLOW4);
    }
    let deep = frame(&[&[0x88, 0x47], &stack(MAX_LABELS + 1), &INNER4]);
    assert_eq!(found(&deep), Err(Unread::TooDeep));
    let pseudowire = frame(&[&[0x88, 0x47], &stack(1), &[0, 0, 0, 1], &ethernet_of([8, 0], &INNER4)]);
    assert_eq!(found(&pseudowire), Err(Unread::Other));
    // Behind a tag; and where it is not to be looked for.
    let tagged = frame(&[&[0x81, 0, 0, 7, 0x88, 0x47], &stack(1), &INNER4]);
    reads(&tagged, FLOW4);
    let mut headers = Headers::default();
    parse(&tagged, &mut headers).unwrap();
    assert_eq!(Tunnels { mpls_on_ethernet: false }.inner(&tagged, &headers), Ok(None));
}

#[test]
fn ip_in_ip() {
    reads(&in_ipv4(4, &[&INNER4]), FLOW4);
    reads(&in_ipv4(41, &[&INNER6]), FLOW6);
    reads(&in_ipv6(4, &[&INNER4]), FLOW4);
    reads(&in_ipv6(41, &[&INNER6]), FLOW6);
    assert_eq!(found(&in_ipv4(4, &[&INNER6])), Err(Unread::Other));
    // One tunnel is looked into: the flow of a second one is that of its own packet.
    let second = in_ipv4(4, &[&INNER4]);
    reads(&in_ipv4(4, &[&second[14..]]), "192.0.2.1 → 192.0.2.2 proto 4");
}

/// Whatever is missing behind, what is left is no other flow; and padding is none of the packet.
#[test]
fn a_packet_that_ends_early_has_no_inner_flow() {
    let vxlan = to_port(4789, &[&VXLAN, &ethernet_of([8, 0], &INNER4)]);
    let labels = frame(&[&[0x88, 0x47], &[0, 2, 0x11, 64], &INNER4]);
    for (whole, outer) in [(vxlan, 14 + 20 + 4), (labels, 14)] {
        // The payload is not looked at, nor the UDP header behind the ports.
        let ports = whole.len() - 8;
        for end in outer..ports {
            assert_eq!(found(&whole[..end]), Err(Unread::Cut), "{end} bytes");
        }
        (ports..=whole.len()).for_each(|end| reads(&whole[..end], FLOW4));
    }
    let mut padded = in_ipv4(47, &[&[0, 0, 8, 0]]);
    padded.extend(INNER4);
    assert_eq!(found(&padded), Err(Unread::Cut));
}

#[test]
fn fragments() {
    let fragment = |offset: u16, proto: u8, inside: &[u8]| {
        let mut frame = in_ipv4(proto, &[inside]);
        frame[20..22].copy_from_slice(&(0x2000 | offset).to_be_bytes());
        frame
    };
    let inside = [&[0xc0, 1, 0x12, 0xb5, 0, 0, 0, 0][..], &VXLAN, &ethernet_of([8, 0], &INNER4)].concat();
    reads(&fragment(0, 17, &inside), FLOW4);
    // It has no port that says whose it is.
    assert_eq!(found(&fragment(1, 17, &inside)), Ok(None));
    assert_eq!(found(&fragment(1, 47, &inside)), Err(Unread::Fragment));
    let mut inner = INNER4;
    inner[6] = 0x20;
    reads(&in_ipv4(4, &[&inner]), FLOW4);
    inner[7] = 1;
    assert_eq!(found(&in_ipv4(4, &[&inner])), Err(Unread::Fragment));
}

/// Behind weir's own header, as between switches.
#[test]
fn the_shim_stands_before_the_tunnel() {
    use crate::wire::{Frame, HeapFrame, Shim, shim};
    let vxlan = to_port(4789, &[&VXLAN, &ethernet_of([8, 0], &INNER4)]);
    let labels = frame(&[&[0x88, 0x47], &[0, 2, 0x11, 64], &INNER4]);
    for whole in [vxlan, labels] {
        let mut frame = HeapFrame::new(&whole);
        assert!(shim::push(&mut frame, Shim::new(1, 0, 7, 3)));
        reads(frame.bytes(), FLOW4);
    }
}
