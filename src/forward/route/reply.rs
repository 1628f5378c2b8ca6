//! Packets that the router makes: each takes the frame of the packet that caused it.
//!
//! Every function returns false when the frame has no room, or the packet may not be answered. The
//! frame's bytes are then unspecified, and the caller drops it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::wire::{
    Fragment, Frame, Headers, Mac, Net, arp, checksum, ethernet, ethertype, icmp, ipv4, ipv6, ndp, proto,
};

/// Shorter frames are filled up, so that no bytes of an earlier packet leave.
const SHORTEST: usize = 60;
/// Maximum bytes that an error quotes: a packet of 576 bytes in all (RFC 1812, 4.3.2.3), of 1280
/// (RFC 4443, 2.4 c).
const QUOTE4: usize = 576 - ipv4::LEN - icmp::LEN;
const QUOTE6: usize = 1280 - ipv6::LEN - icmp::LEN;
/// Internetwork control (RFC 1812, 4.3.2.5).
const CONTROL_TOS: u8 = 0xc0;

/// ICMP errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Error {
    TimeExceeded,
    NoRoute,
    HostUnreachable,
    ProtocolUnreachable,
    PortUnreachable,
    /// Longer than the next link's MTU.
    TooBig(u32),
}

impl Error {
    /// Type, code and second word of ICMP.
    fn v4(self) -> icmp::Repr {
        let (kind, code, word) = match self {
            Self::TimeExceeded => (icmp::TIME_EXCEEDED, 0, 0),
            Self::NoRoute => (icmp::UNREACHABLE, 0, 0),
            Self::HostUnreachable => (icmp::UNREACHABLE, 1, 0),
            Self::ProtocolUnreachable => (icmp::UNREACHABLE, 2, 0),
            Self::PortUnreachable => (icmp::UNREACHABLE, 3, 0),
            Self::TooBig(mtu) => (icmp::UNREACHABLE, 4, mtu & 0xffff),
        };
        icmp::Repr { kind, code, word }
    }

    /// The same of ICMPv6. An unknown protocol would be a parameter problem, which needs a pointer
    /// into the packet: no error is sent.
    fn v6(self) -> Option<icmp::Repr> {
        let (kind, code, word) = match self {
            Self::TimeExceeded => (icmp::V6_TIME_EXCEEDED, 0, 0),
            Self::NoRoute => (icmp::V6_UNREACHABLE, 0, 0),
            Self::HostUnreachable => (icmp::V6_UNREACHABLE, 3, 0),
            Self::PortUnreachable => (icmp::V6_UNREACHABLE, 4, 0),
            // 1280 bytes is the minimum MTU of IPv6; hosts ignore or mishandle a smaller value.
            Self::TooBig(mtu) => (icmp::V6_TOO_BIG, 0, mtu.max(1280)),
            Self::ProtocolUnreachable => return None,
        };
        Some(icmp::Repr { kind, code, word })
    }
}

/// Whether an error about this packet may be sent: not about an ICMP error, nor a later fragment
/// (RFC 1812, 4.3.2.7; RFC 4443, 2.4 e). Groups and martians have been turned away before.
pub(super) fn may_be_answered(headers: &Headers, bytes: &[u8]) -> bool {
    let kind = || bytes.get(usize::from(headers.l4)).copied().filter(|_| headers.l4 != 0);
    if headers.fragment == Fragment::Later {
        return false;
    }
    match (headers.net, headers.proto) {
        (Net::Ipv4, proto::ICMP) => kind().is_some_and(|kind| !matches!(kind, 3 | 4 | 5 | 11 | 12)),
        (Net::Ipv6, proto::ICMPV6) => kind().is_some_and(|kind| kind >= 128 && kind != 137),
        (Net::Other, _) => false,
        _ => true,
    }
}

/// An ICMP error about an IPv4 packet. The frame must have no shim and no tag.
pub(super) fn error4<F: Frame>(frame: &mut F, own: (Mac, Ipv4Addr), error: Error) -> bool {
    let bytes = frame.bytes();
    let Some(Ok(packet)) = bytes.get(ethernet::LEN..).map(ipv4::View::new) else { return false };
    let quote = packet.total_len().min(QUOTE4).min(bytes.len() - ethernet::LEN);
    let (to, back) = (packet.src(), source_mac(bytes));
    let payload_len = icmp::LEN + quote;
    if !frame.resize(ethernet::LEN + quote) || !frame.grow_front(ipv4::LEN + icmp::LEN) {
        return false;
    }
    let header = ipv4::Repr { tos: CONTROL_TOS, proto: proto::ICMP, src: own.1, dst: to, payload_len };
    let (head, packet) = frame.bytes_mut().split_at_mut(ethernet::LEN);
    let (ip, message) = packet.split_at_mut(ipv4::LEN);
    let whole = header.emit(ip).is_ok()
        && error.v4().emit(message).is_ok()
        && ethernet::Repr { dst: back, src: own.0, ethertype: ethertype::IPV4 }.emit(head).is_ok();
    if whole {
        let sum = checksum::internet(message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    whole
}

/// An ICMPv6 error about an IPv6 packet. The frame must have no shim and no tag.
pub(super) fn error6<F: Frame>(frame: &mut F, own: (Mac, Ipv6Addr), error: Error) -> bool {
    let bytes = frame.bytes();
    let Some(Ok(packet)) = bytes.get(ethernet::LEN..).map(ipv6::View::new) else { return false };
    let quote = (ipv6::LEN + packet.payload_len()).min(QUOTE6).min(bytes.len() - ethernet::LEN);
    let (to, back) = (packet.src(), source_mac(bytes));
    let Some(message) = error.v6() else { return false };
    if !frame.resize(ethernet::LEN + quote) || !frame.grow_front(ipv6::LEN + icmp::LEN) {
        return false;
    }
    let head = Head6 { dst: back, src: own.0, from: own.1, to, hop_limit: 64 };
    icmpv6(frame, head, icmp::LEN + quote, |bytes| message.emit(bytes).is_ok())
}

/// An ARP packet to `dst`.
pub(super) fn arp<F: Frame>(frame: &mut F, dst: Mac, packet: arp::Repr) -> bool {
    if !frame.resize(SHORTEST) {
        return false;
    }
    let (head, body) = frame.bytes_mut().split_at_mut(ethernet::LEN);
    body.fill(0);
    let header = ethernet::Repr { dst, src: packet.sender_mac, ethertype: ethertype::ARP };
    header.emit(head).is_ok() && packet.emit(body).is_ok()
}

/// A neighbour discovery message from `own` to `to`.
pub(super) fn discovery<F: Frame>(
    frame: &mut F,
    own: (Mac, Ipv6Addr),
    to: (Mac, Ipv6Addr),
    message: ndp::Repr,
) -> bool {
    let head = Head6 { dst: to.0, src: own.0, from: own.1, to: to.1, hop_limit: 255 };
    let len = message.header_len();
    frame.resize(ethernet::LEN + ipv6::LEN + len) && icmpv6(frame, head, len, |bytes| message.emit(bytes).is_ok())
}

/// The question for an address's MAC: to `known`, to see whether it is still there, or to all.
pub(super) fn question<F: Frame>(frame: &mut F, own: (Mac, IpAddr), target: IpAddr, known: Option<Mac>) -> bool {
    match (own.1, target) {
        (IpAddr::V4(from), IpAddr::V4(target)) => {
            let packet = arp::Repr {
                operation: arp::REQUEST,
                sender_mac: own.0,
                sender_ip: from,
                target_mac: known.unwrap_or_default(),
                target_ip: target,
            };
            arp(frame, known.unwrap_or(Mac::BROADCAST), packet)
        }
        (IpAddr::V6(from), IpAddr::V6(target)) => {
            let message = ndp::Repr { kind: ndp::SOLICITATION, flags: 0, target, link_layer: Some(own.0) };
            let to = known.map_or_else(|| solicited_node(target), |mac| (mac, target));
            discovery(frame, (own.0, from), to, message)
        }
        _ => false,
    }
}

/// The echo request in the frame becomes its reply. False for one with IP options or extension
/// headers.
pub(super) fn echo<F: Frame>(frame: &mut F, own: Mac, headers: &Headers) -> bool {
    let back = source_mac(frame.bytes());
    let (head, packet) = frame.bytes_mut().split_at_mut(ethernet::LEN);
    let (kind, ip) = match headers.net {
        Net::Ipv4 => (icmp::ECHO_REPLY, ipv4::LEN),
        _ => (icmp::V6_ECHO_REPLY, ipv6::LEN),
    };
    let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
    if l3 != ethernet::LEN || l4 != l3 + ip || packet.len() < ip + icmp::LEN {
        return false;
    }
    let (header, message) = packet.split_at_mut(ip);
    turn_round(header, headers.net);
    let word = |kind: u8, code: u8| u16::from_be_bytes([kind, code]);
    let (old, code) = (message[0], message[1]);
    let sum = u16::from_be_bytes([message[2], message[3]]);
    let sum = checksum::update(sum, word(old, code), word(kind, code));
    message[0] = kind;
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let ethertype = if headers.net == Net::Ipv4 { ethertype::IPV4 } else { ethertype::IPV6 };
    ethernet::Repr { dst: back, src: own, ethertype }.emit(head).is_ok()
}

/// Source and destination change places, and the packet has its whole way before it again.
fn turn_round(header: &mut [u8], net: Net) {
    if net == Net::Ipv4 {
        let (src, dst) = header[12..20].split_at_mut(4);
        src.swap_with_slice(dst);
        if let Ok(mut view) = ipv4::View::new(header) {
            view.set_ttl(64);
            view.fill_checksum();
        }
    } else {
        let (src, dst) = header[8..40].split_at_mut(16);
        src.swap_with_slice(dst);
        header[7] = 64;
    }
}

/// The group that a host with this address listens to (RFC 4291, 2.7.1), and the group's MAC.
pub(super) fn solicited_node(address: Ipv6Addr) -> (Mac, Ipv6Addr) {
    let low = u128::from(address) & 0xff_ffff;
    let [.., a, b, c] = low.to_be_bytes();
    (Mac([0x33, 0x33, 0xff, a, b, c]), (0xff02 << 112 | 0x1_ff00_0000 | low).into())
}

struct Head6 {
    dst: Mac,
    src: Mac,
    from: Ipv6Addr,
    to: Ipv6Addr,
    hop_limit: u8,
}

/// Ethernet and IPv6 header in front of `len` bytes of ICMPv6, which `write` fills, and its
/// checksum.
fn icmpv6<F: Frame>(frame: &mut F, head: Head6, len: usize, write: impl FnOnce(&mut [u8]) -> bool) -> bool {
    let (start, packet) = frame.bytes_mut().split_at_mut(ethernet::LEN);
    let Some((ip, message)) = packet.split_at_mut_checked(ipv6::LEN) else { return false };
    let header = ipv6::Repr {
        traffic_class: CONTROL_TOS,
        payload_len: len,
        next_header: proto::ICMPV6,
        hop_limit: head.hop_limit,
        src: head.from,
        dst: head.to,
    };
    let ethernet = ethernet::Repr { dst: head.dst, src: head.src, ethertype: ethertype::IPV6 };
    if message.len() != len || !write(message) || header.emit(ip).is_err() || ethernet.emit(start).is_err() {
        return false;
    }
    let pseudo = checksum::pseudo_v6(head.from.octets(), head.to.octets(), proto::ICMPV6, len as u16);
    let sum = !pseudo.bytes(message).fold();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    true
}

fn source_mac(bytes: &[u8]) -> Mac {
    bytes.get(6..12).and_then(|mac| mac.try_into().ok()).map_or_else(Mac::default, Mac)
}
