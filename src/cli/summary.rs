//! One packet in one line.

use crate::api::view::packet::PacketHeaders;
use crate::wire::{Flow, Headers, Net, arp, ethertype, icmp, proto, tcp};

/// A packet's ends and protocol: `10.0.0.1 → 10.0.0.2 icmp echo request`. `frame` may be cut short;
/// None for a runt.
pub fn packet(frame: &[u8], headers: Option<&Headers>) -> String {
    let Some(h) = headers else { return "a runt".into() };
    let seen = PacketHeaders::new(h);
    let mut text = String::new();
    if h.shim {
        text += "shim ";
    }
    for vlan in &seen.vlans {
        text += &format!("vlan {vlan} ");
    }
    if h.net == Net::Other {
        return text + &other(frame, h);
    }
    let flow = Flow { src: seen.src, dst: seen.dst, sport: seen.sport, dport: seen.dport, proto: seen.proto };
    text += &flow.to_string();
    let payload = frame.get(usize::from(h.l4)..).filter(|_| h.l4 != 0).unwrap_or_default();
    text += &match h.proto {
        proto::TCP => tcp::Repr::parse(payload).map(tcp_text).unwrap_or_default(),
        proto::ICMP | proto::ICMPV6 => {
            icmp::Repr::parse(payload).map(|icmp| icmp_text(h.net, icmp)).unwrap_or_default()
        }
        _ => String::new(),
    };
    match seen.fragment.as_deref() {
        Some("whole") | None => text,
        Some(which) => text + &format!(", {which} fragment"),
    }
}

fn other(frame: &[u8], h: &Headers) -> String {
    if h.ethertype == ethertype::ARP {
        match arp::Repr::parse(frame.get(14 + h.tag_bytes()..).unwrap_or_default()) {
            Ok(arp) if arp.operation == arp::REQUEST => {
                return format!("arp who has {} tell {}", arp.target_ip, arp.sender_ip);
            }
            Ok(arp) if arp.operation == arp::REPLY => {
                return format!("arp {} is at {}", arp.sender_ip, arp.sender_mac);
            }
            _ => {}
        }
    }
    format!("{} → {} type 0x{:04x}", h.src, h.dst, h.ethertype)
}

fn tcp_text(tcp: tcp::Repr) -> String {
    const FLAGS: [(u8, &str); 5] =
        [(tcp::SYN, "SYN"), (tcp::FIN, "FIN"), (tcp::RST, "RST"), (tcp::PSH, "PSH"), (tcp::ACK, "ACK")];
    let flags = FLAGS.iter().filter(|(bit, _)| tcp.flags & bit != 0).map(|(_, name)| *name);
    format!(" {} seq {}", flags.collect::<Vec<_>>().join(" "), tcp.seq)
}

fn icmp_text(net: Net, icmp: icmp::Repr) -> String {
    let echo = |what| format!(" {what} {} seq {}", icmp.word >> 16, icmp.word & 0xffff);
    match (net, icmp.kind) {
        (Net::Ipv4, icmp::ECHO_REQUEST) | (Net::Ipv6, icmp::V6_ECHO_REQUEST) => echo("echo request"),
        (Net::Ipv4, icmp::ECHO_REPLY) | (Net::Ipv6, icmp::V6_ECHO_REPLY) => echo("echo reply"),
        (Net::Ipv4, icmp::UNREACHABLE) => " unreachable".into(),
        (Net::Ipv4, icmp::TIME_EXCEEDED) => " time exceeded".into(),
        (_, kind) => format!(" type {kind} code {}", icmp.code),
    }
}
