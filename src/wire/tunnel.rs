//! The packet that a packet of a tunnel carries.
//!
//! One tunnel is looked into: a packet inside the inner one is not looked for. Work is bounded: at
//! most [`MAX_LABELS`] MPLS labels, [`MAX_GTP_EXTENSIONS`] extension headers of GTP-U and
//! [`MAX_TAGS`] VLAN tags of an inner frame, each looked at once; the inner IP packet is parsed as
//! an outer one is.
//!
//! A tunnel is known by its EtherType, its IP protocol, or its UDP destination port, at which
//! another protocol may be spoken. A packet inside is taken for one where all headers before it are
//! whole and right.

use super::parse::{ETHERNET, chunk, is_tag, parse_ipv4, parse_ipv4_header, parse_ipv6, parse_ipv6_header};
use super::{Fragment, Headers, MAX_TAGS, MissingHeader, Net, ethertype, proto, tunnel_port};

/// MPLS labels that are looked behind. Networks with segment routing have the largest stacks, of
/// some 10 labels.
pub const MAX_LABELS: usize = 16;

/// Extension headers of GTP-U that are looked behind. A packet of 5G has one.
pub const MAX_GTP_EXTENSIONS: usize = 4;

/// Bytes of a UDP header.
const UDP: usize = 8;

/// Why the inner flow of a tunnel's packet was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The packet ends before the inner ports.
    Cut,
    /// It is a fragment but the first, the packet of the tunnel or the inner one.
    Fragment,
    /// There are more labels, tags or extension headers than are looked behind.
    TooDeep,
    /// There is no IP inside, or the tunnel's header is none that is known.
    Other,
}

/// The tunnels that are looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnels {
    /// Also MPLS without IP before it, whose packets have no outer flow.
    pub mpls_on_ethernet: bool,
}

impl Tunnels {
    /// The headers of the packet that a frame with these headers carries; `None` where it is no
    /// tunnel's.
    ///
    /// # Errors
    /// If it is a tunnel's, and the inner flow cannot be read.
    pub fn inner(self, frame: &[u8], outer: &Headers) -> Result<Option<Headers>, Unread> {
        match (outer.net, outer.proto) {
            (Net::Other, _) if self.mpls_on_ethernet && is_mpls(outer.ethertype) => {
                mpls(frame, ETHERNET + outer.tag_bytes()).map(Some)
            }
            (Net::Other, _) => Ok(None),
            (_, proto::UDP) if outer.l4 != 0 => in_udp(frame, outer),
            (_, proto::GRE | proto::IPV4 | proto::IPV6 | proto::MPLS) => in_ip(frame, outer).map(Some),
            _ => Ok(None),
        }
    }
}

fn in_udp(frame: &[u8], outer: &Headers) -> Result<Option<Headers>, Unread> {
    use tunnel_port::{GENEVE, GTP_U, MPLS, VXLAN, VXLAN_OF_LINUX};
    if !matches!(outer.dport, VXLAN | VXLAN_OF_LINUX | GENEVE | GTP_U | MPLS) {
        return Ok(None);
    }
    let (packet, at) = payload(frame, outer)?;
    let at = at + UDP;
    match outer.dport {
        GENEVE => geneve(packet, at).map(Some),
        GTP_U => gtp(packet, at),
        MPLS => mpls(packet, at).map(Some),
        _ => vxlan(packet, at).map(Some),
    }
}

fn in_ip(frame: &[u8], outer: &Headers) -> Result<Headers, Unread> {
    if outer.fragment == Fragment::Later {
        return Err(Unread::Fragment);
    }
    let (packet, at) = payload(frame, outer)?;
    match outer.proto {
        proto::GRE => gre(packet, at),
        proto::IPV4 => ipv4(packet, at),
        proto::IPV6 => ipv6(packet, at),
        _ => mpls(packet, at),
    }
}

/// The frame up to the end of the outer IP packet, and the offset of what is behind its IP headers.
fn payload<'a>(frame: &'a [u8], outer: &Headers) -> Result<(&'a [u8], usize), Unread> {
    let (at, mut headers) = (outer.l3.into(), Headers::default());
    let found = match outer.net {
        Net::Ipv4 => parse_ipv4_header(frame, at, &mut headers),
        _ => parse_ipv6_header(frame, at, &mut headers),
    };
    found.ok_or(Unread::Cut)
}

fn vxlan(packet: &[u8], at: usize) -> Result<Headers, Unread> {
    /// The header has a network identifier.
    const IDENTIFIED: u8 = 0x08;
    let [flags, ..] = take::<8>(packet, at)?;
    if flags & IDENTIFIED == 0 {
        return Err(Unread::Other);
    }
    ethernet(packet, at + 8)
}

fn geneve(packet: &[u8], at: usize) -> Result<Headers, Unread> {
    /// What follows is a message from end to end of the tunnel.
    const CONTROL: u8 = 0x80;
    let [first, flags, high, low, ..] = take::<8>(packet, at)?;
    if first >> 6 != 0 || flags & CONTROL != 0 {
        return Err(Unread::Other);
    }
    let options = usize::from(first & 0x3f) * 4;
    by_ethertype(packet, at + 8 + options, u16::from_be_bytes([high, low]))
}

/// Also NVGRE (RFC 7637), which is GRE with a key and Ethernet inside.
fn gre(packet: &[u8], at: usize) -> Result<Headers, Unread> {
    const CHECKSUM: u8 = 0x80;
    const ROUTING: u8 = 0x40;
    const KEY: u8 = 0x20;
    const SEQUENCE: u8 = 0x10;
    let [flags, version, high, low] = take(packet, at)?;
    // Source routes are of RFC 1701 alone, version 1 is PPTP's.
    if flags & ROUTING != 0 || version & 7 != 0 {
        return Err(Unread::Other);
    }
    let fields = (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize;
    by_ethertype(packet, at + 4 + 4 * fields, u16::from_be_bytes([high, low]))
}

/// `None` for messages between the ends of tunnels, such as echo requests.
fn gtp(packet: &[u8], at: usize) -> Result<Option<Headers>, Unread> {
    /// Version 1, and not GTP'.
    const VERSION: u8 = 0x30;
    const VERSION_MASK: u8 = 0xf0;
    /// Extension headers, a sequence number, a number of N-PDU: with one of these all three have
    /// room.
    const OPTIONAL: u8 = 0x07;
    const EXTENDED: u8 = 0x04;
    const USER_DATA: u8 = 255;
    let [flags, message, ..] = take::<8>(packet, at)?;
    if flags & VERSION_MASK != VERSION {
        return Err(Unread::Other);
    }
    if message != USER_DATA {
        return Ok(None);
    }
    let (mut at, mut next) = (at + 8, 0);
    if flags & OPTIONAL != 0 {
        let [_, _, _, extension] = take(packet, at)?;
        next = if flags & EXTENDED != 0 { extension } else { 0 };
        at += 4;
    }
    for _ in 0..MAX_GTP_EXTENSIONS {
        if next == 0 {
            break;
        }
        let [words] = take(packet, at)?;
        let len = usize::from(words) * 4;
        let last = len.checked_sub(1).ok_or(Unread::Other)?;
        [next] = take(packet, at + last)?;
        at += len;
    }
    if next == 0 { by_version(packet, at).map(Some) } else { Err(Unread::TooDeep) }
}

/// A stack of labels and what is behind it.
fn mpls(packet: &[u8], at: usize) -> Result<Headers, Unread> {
    let labels = (at..).step_by(4).take(MAX_LABELS);
    for at in labels {
        let [_, _, last, _] = take(packet, at)?;
        if last & 1 != 0 {
            return by_version(packet, at + 4);
        }
    }
    Err(Unread::TooDeep)
}

/// Whether an EtherType names MPLS labels.
fn is_mpls(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::MPLS | ethertype::MPLS_UPSTREAM)
}

fn by_ethertype(packet: &[u8], at: usize, ethertype: u16) -> Result<Headers, Unread> {
    match ethertype {
        ethertype::IPV4 => ipv4(packet, at),
        ethertype::IPV6 => ipv6(packet, at),
        ethertype::TRANSPARENT_ETHERNET => ethernet(packet, at),
        _ if is_mpls(ethertype) => mpls(packet, at),
        _ => Err(Unread::Other),
    }
}

fn ethernet(packet: &[u8], at: usize) -> Result<Headers, Unread> {
    let frame: [u8; ETHERNET] = take(packet, at)?;
    let (mut at, mut ethertype) = (at + ETHERNET, u16::from_be_bytes([frame[12], frame[13]]));
    for _ in 0..MAX_TAGS {
        if !is_tag(ethertype) {
            break;
        }
        let [_, _, high, low] = take(packet, at)?;
        ethertype = u16::from_be_bytes([high, low]);
        at += 4;
    }
    match ethertype {
        ethertype::IPV4 => ipv4(packet, at),
        ethertype::IPV6 => ipv6(packet, at),
        _ if is_tag(ethertype) => Err(Unread::TooDeep),
        _ => Err(Unread::Other),
    }
}

/// An IP packet whose own first bits alone say which it is.
fn by_version(packet: &[u8], at: usize) -> Result<Headers, Unread> {
    let [first] = take(packet, at)?;
    match first >> 4 {
        4 => ipv4(packet, at),
        6 => ipv6(packet, at),
        _ => Err(Unread::Other),
    }
}

#[inline(never)]
fn ipv4(packet: &[u8], at: usize) -> Result<Headers, Unread> {
    let mut headers = Headers { ethertype: ethertype::IPV4, ..Headers::default() };
    parse_ipv4(packet, at, &mut headers);
    with_flow(headers, take::<20>(packet, at))
}

#[inline(never)]
fn ipv6(packet: &[u8], at: usize) -> Result<Headers, Unread> {
    let mut headers = Headers { ethertype: ethertype::IPV6, ..Headers::default() };
    parse_ipv6(packet, at, &mut headers);
    with_flow(headers, take::<40>(packet, at))
}

/// The headers, if they name a flow. `header`: the fixed part of the IP header.
fn with_flow<T>(headers: Headers, header: Result<T, Unread>) -> Result<Headers, Unread> {
    match headers.missing() {
        None | Some(MissingHeader::Transport) => Ok(headers),
        Some(MissingHeader::Ip) => Err(header.err().unwrap_or(Unread::Other)),
        Some(MissingHeader::Ports) => Err(Unread::Cut),
        Some(MissingHeader::Fragment) => Err(Unread::Fragment),
    }
}

fn take<const N: usize>(packet: &[u8], at: usize) -> Result<[u8; N], Unread> {
    chunk(packet, at).copied().ok_or(Unread::Cut)
}

#[cfg(test)]
mod tests;
