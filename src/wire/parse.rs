//! The parser of the fast path: one frame in, one [`Headers`] out.
//!
//! Work is bounded: at most one shim, [`MAX_TAGS`] VLAN tags, one PPPoE session header and
//! [`MAX_EXTENSIONS`] extension headers of IP, each looked at once. Only a truncated Ethernet header
//! makes a packet undeliverable. A later header that is unknown or truncated leaves its fields at
//! their defaults, and the packet is forwarded by the headers before it. The addresses of an IP
//! packet are found where they are there, although its options are not, and its ports where these
//! are there, although the rest of the transport header is not: captures cut packets short.
//!
//! An IP packet whose length field is 0 reaches to the end of the frame. A host that leaves
//! segmentation to its NIC writes such packets, and captures on that host hold them. A router still
//! drops one ([`ipv4::View`](super::ipv4::View) calls it wrong).

use thiserror::Error;

use super::{Fragment, Headers, Mac, Net, ethertype, ppp, proto, shim};

/// VLAN tags that are looked behind: 802.1ad's outer and inner one of a provider, around those of a
/// customer. A fifth is left as the EtherType. A tag that a switch puts on counts, so that a packet
/// is measured where it leaves the network if it is where it enters ([`Headers::tunnel`]).
pub const MAX_TAGS: usize = 4;

/// Extension headers that are looked behind: every kind that RFC 8200 §4.1 recommends once, and
/// destination options twice, and two of mobility, HIP and Shim6. Of a longer chain the header after
/// these is left as the protocol.
pub const MAX_EXTENSIONS: usize = 8;

/// The frame is shorter than an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("shorter than an Ethernet header")]
pub struct Runt;

const MACS: usize = 12;
pub(super) const ETHERNET: usize = MACS + 2;
const BEHIND_SHIM: usize = MACS + shim::LEN;
/// The header of a PPPoE session and the PPP protocol behind it.
const PPPOE: usize = 6 + 2;
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Bytes of a transport header that are parsed: the ports.
const PORTS: usize = 4;
/// Bytes of an ICMP message that must be there.
const ICMP: usize = 8;

/// From the EtherType on, the shape of nearly every packet: IPv4 without options and the start of
/// TCP or UDP.
const PLAIN: usize = 2 + IPV4 + PORTS;

/// Fills `headers` from a frame. All fields are written.
#[inline(always)]
pub fn parse(frame: &[u8], headers: &mut Headers) -> Result<(), Runt> {
    *headers = Headers::of_plain();
    if parse_plain(frame, headers) { Ok(()) } else { parse_any(frame, headers) }
}

impl Headers {
    /// The headers that plain frames have in common; the other fields are zero.
    #[inline(always)]
    pub fn of_plain() -> Self {
        common(MACS)
    }

    /// The same of plain frames behind a shim.
    #[inline(always)]
    pub fn of_shimmed() -> Self {
        Self { shim: true, ..common(BEHIND_SHIM) }
    }
}

/// Fills the headers that plain frames do not have in common. Plain is the shape of nearly every
/// frame: IPv4 without options behind the MAC addresses, TCP or UDP, no fragment. False, and nothing
/// written, for a frame of another shape.
#[inline(always)]
pub fn parse_plain(frame: &[u8], headers: &mut Headers) -> bool {
    match frame.first_chunk::<{ MACS + PLAIN }>() {
        Some(head) if is_plain(head, MACS) => {
            fill(head, MACS, headers);
            true
        }
        _ => false,
    }
}

/// The same of a frame that is plain but for a shim of known version.
#[inline(always)]
pub fn parse_shimmed(frame: &[u8], headers: &mut Headers) -> bool {
    match frame.first_chunk::<{ BEHIND_SHIM + PLAIN }>() {
        Some(head) if behind_shim(head).is_some() && is_plain(head, BEHIND_SHIM) => {
            fill(head, BEHIND_SHIM, headers);
            true
        }
        _ => false,
    }
}

#[inline(always)]
fn is_plain<const N: usize>(head: &[u8; N], at: usize) -> bool {
    const TCP: u32 = proto::TCP as u32;
    const UDP: u32 = proto::UDP as u32;
    // EtherType, version and header length in one comparison; fragment offset, more fragments and
    // protocol in another.
    let net = be32(head, at) & 0xffff_ff00;
    let fragment = be32(head, at + 8) & 0x3fff_00ff;
    (net == u32::from(ethertype::IPV4) << 16 | 0x4500)
        & matches!(fragment, TCP | UDP)
        & (usize::from(be16(head, at + 4)) >= IPV4 + PORTS)
}

/// The headers that frames have in common where this shape begins with the EtherType at `at`.
#[inline(always)]
fn common(at: usize) -> Headers {
    Headers {
        ethertype: ethertype::IPV4,
        net: Net::Ipv4,
        l3: (at + 2) as u16,
        l4: (at + 2 + IPV4) as u16,
        ..Headers::default()
    }
}

/// The other headers. Fields that are side by side are read and written together, since a packet's
/// way is bounded by its stores.
#[inline(always)]
fn fill<const N: usize>(head: &[u8; N], at: usize, headers: &mut Headers) {
    [headers.dst, headers.src] = macs(head);
    let [src, dst] = be64_halves(head, at + 14);
    (headers.src_ip, headers.dst_ip) = (src.into(), dst.into());
    let ports = be32(head, at + 22);
    (headers.sport, headers.dport) = ((ports >> 16) as u16, ports as u16);
    let (net, ttl) = (be32(head, at), be32(head, at + 8));
    (headers.tos, headers.ttl, headers.proto) = (net as u8, (ttl >> 8) as u8, ttl as u8);
}

/// Fills the headers of a frame of any shape, all of them.
///
/// # Errors
/// If the frame is shorter than an Ethernet header.
#[inline(never)]
pub fn parse_any(frame: &[u8], headers: &mut Headers) -> Result<(), Runt> {
    let head = frame.first_chunk::<ETHERNET>().ok_or(Runt)?;
    *headers = Headers { ethertype: be16(head, 12), ..addresses(head) };
    let at = skip_tags(frame, headers);
    match headers.ethertype {
        ethertype::IPV4 => parse_ipv4(frame, at, headers),
        ethertype::IPV6 => parse_ipv6(frame, at, headers),
        ethertype::PPPOE_SESSION => parse_pppoe(frame, at, headers),
        _ => {}
    }
    Ok(())
}

/// The frame from the EtherType behind a shim of known version on.
#[inline(always)]
fn behind_shim(frame: &[u8]) -> Option<&[u8]> {
    let (shim, rest) = frame.get(MACS..)?.split_first_chunk::<{ shim::LEN }>()?;
    (be16(shim, 0) == shim::ETHERTYPE && shim::is_known(shim[3])).then_some(rest)
}

/// Steps over the shim and the tags; returns the offset of the header that the EtherType names.
fn skip_tags(frame: &[u8], headers: &mut Headers) -> usize {
    let mut at = ETHERNET;
    if let Some(inner) = behind_shim(frame).and_then(<[u8]>::first_chunk::<2>) {
        headers.shim = true;
        headers.ethertype = u16::from_be_bytes(*inner);
        at += shim::LEN;
    }
    for tag in 0..MAX_TAGS {
        let Some(rest) = chunk::<4>(frame, at).filter(|_| is_tag(headers.ethertype)) else { break };
        let tci = be16(rest, 0);
        match tag {
            0 => (headers.tagged, headers.vlan_tci) = (true, tci),
            1 => headers.inner_tci = tci,
            _ => headers.deeper_tcis[tag - 2] = tci,
        }
        headers.inner_tags = tag as u8;
        headers.ethertype = be16(rest, 2);
        at += 4;
    }
    at
}

/// Parses the IP packet of a PPPoE session (RFC 2516, 4), if it carries one. The EtherType stays
/// the session's. The session's length field is not looked at: the IP packet has its own.
///
/// It has copies of the functions below, so that those of other packets stay within `parse_any`: a
/// call would cost them 3 cycles.
#[cold]
#[inline(never)]
fn parse_pppoe(frame: &[u8], at: usize, headers: &mut Headers) {
    /// Version 1, type 1, code 0.
    const SESSION_DATA: u16 = 0x1100;
    let Some(header) = chunk::<PPPOE>(frame, at).filter(|header| be16(header, 0) == SESSION_DATA) else { return };
    match be16(header, 6) {
        ppp::IPV4 => parse_ipv4(frame, at + PPPOE, headers),
        ppp::IPV6 => parse_ipv6(frame, at + PPPOE, headers),
        _ => {}
    }
}

/// The identifier of a frame's PPPoE session. The headers are the frame's.
pub fn pppoe_session(frame: &[u8], headers: &Headers) -> Option<u16> {
    if headers.ethertype != ethertype::PPPOE_SESSION {
        return None;
    }
    chunk::<4>(frame, ETHERNET + headers.tag_bytes()).map(|header| be16(header, 2))
}

#[inline(always)]
pub(super) fn parse_ipv4(frame: &[u8], at: usize, headers: &mut Headers) {
    if let Some((packet, at)) = parse_ipv4_header(frame, at, headers) {
        parse_transport(packet, at, headers);
    }
}

/// Parses a header of IPv4 with its extension headers. Returns the frame up to the end of the packet,
/// and the offset of what the protocol names.
#[inline(always)]
pub(super) fn parse_ipv4_header<'a>(frame: &'a [u8], at: usize, headers: &mut Headers) -> Option<(&'a [u8], usize)> {
    let ip = chunk::<IPV4>(frame, at)?;
    let header = usize::from(ip[0] & 0x0f) * 4;
    let total = length_or_rest(be16(ip, 2), frame.len() - at);
    if ip[0] >> 4 != 4 || header < IPV4 || total < header {
        return None;
    }
    headers.net = Net::Ipv4;
    headers.l3 = at as u16;
    headers.tos = ip[1];
    headers.fragment = Fragment::new(be16(ip, 6) & 0x1fff, be16(ip, 6) & 0x2000 != 0);
    headers.ttl = ip[8];
    headers.proto = ip[9];
    headers.src_ip = be32(ip, 12).into();
    headers.dst_ip = be32(ip, 16).into();
    let (packet, mut at) = (upto(frame, at + total), at + header);
    if proto::is_extension_of_ipv4(headers.proto) && headers.fragment != Fragment::Later {
        at = skip_extensions(packet, at, headers);
    }
    Some((packet, at))
}

#[inline(always)]
pub(super) fn parse_ipv6(frame: &[u8], at: usize, headers: &mut Headers) {
    if let Some((packet, at)) = parse_ipv6_header(frame, at, headers) {
        parse_transport(packet, at, headers);
    }
}

/// As [`parse_ipv4_header`], of IPv6.
#[inline(always)]
pub(super) fn parse_ipv6_header<'a>(frame: &'a [u8], at: usize, headers: &mut Headers) -> Option<(&'a [u8], usize)> {
    let ip = chunk::<IPV6>(frame, at).filter(|ip| ip[0] >> 4 == 6)?;
    headers.net = Net::Ipv6;
    headers.l3 = at as u16;
    headers.tos = (be16(ip, 0) >> 4) as u8;
    headers.proto = ip[6];
    headers.ttl = ip[7];
    headers.src_ip = be128(ip, 8);
    headers.dst_ip = be128(ip, 24);
    let packet = upto(frame, at + IPV6 + length_or_rest(be16(ip, 4), frame.len() - at - IPV6));
    Some((packet, skip_extensions(packet, at + IPV6, headers)))
}

/// Steps over the whole extension headers; returns the offset of the header that the protocol
/// names.
#[inline(always)]
fn skip_extensions(packet: &[u8], mut at: usize, headers: &mut Headers) -> usize {
    let v4 = headers.net == Net::Ipv4;
    for _ in 0..MAX_EXTENSIONS {
        let known = if v4 { proto::is_extension_of_ipv4(headers.proto) } else { proto::is_extension(headers.proto) };
        if !known {
            break;
        }
        let Some(extension) = chunk::<8>(packet, at).filter(|next| !proto::ends_with(headers.proto, next[0])) else {
            break;
        };
        let len = proto::extension_len(headers.proto, extension[1]);
        if packet.len() < at + len {
            break;
        }
        let is_fragment = headers.proto == proto::FRAGMENT;
        headers.proto = extension[0];
        at += len;
        if is_fragment {
            let field = be16(extension, 2);
            headers.fragment = Fragment::new(field >> 3, field & 1 != 0);
            if headers.fragment == Fragment::Later {
                break;
            }
        }
    }
    at
}

#[inline(always)]
fn parse_transport(packet: &[u8], at: usize, headers: &mut Headers) {
    if headers.fragment == Fragment::Later {
        return;
    }
    if proto::has_ports(headers.proto) {
        let Some(ports) = chunk::<PORTS>(packet, at) else { return };
        headers.l4 = at as u16;
        headers.sport = be16(ports, 0);
        headers.dport = be16(ports, 2);
    } else if matches!(headers.proto, proto::ICMP | proto::ICMPV6) && packet.len() >= at + ICMP {
        headers.l4 = at as u16;
    }
}

#[inline(always)]
pub(super) fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::QINQ | ethertype::QINQ_OLD)
}

#[inline(always)]
fn addresses<const N: usize>(head: &[u8; N]) -> Headers {
    let [dst, src] = macs(head);
    Headers { dst, src, ..Headers::default() }
}

#[inline(always)]
pub(super) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// The length that a header states, or all that is there.
fn length_or_rest(stated: u16, rest: usize) -> usize {
    if stated == 0 { rest } else { stated.into() }
}

/// The packet without the padding behind it; all of the frame where it holds less than the packet
/// says.
fn upto(frame: &[u8], end: usize) -> &[u8] {
    frame.get(..end).unwrap_or(frame)
}

/// Destination and source, read as two words and so written.
#[inline(always)]
fn macs<const N: usize>(bytes: &[u8; N]) -> [Mac; 2] {
    let (mut low, mut high) = ([0; 8], [0; 4]);
    low.copy_from_slice(&bytes[..8]);
    high.copy_from_slice(&bytes[8..MACS]);
    let ([a, b, c, d, e, f, g, h], [i, j, k, l]) = (low, high);
    [Mac([a, b, c, d, e, f]), Mac([g, h, i, j, k, l])]
}

#[inline(always)]
fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

/// Two words of 32 bits.
#[inline(always)]
fn be64_halves<const N: usize>(bytes: &[u8; N], at: usize) -> [u32; 2] {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    let word = u64::from_be_bytes(word);
    [(word >> 32) as u32, word as u32]
}

#[inline(always)]
fn be128<const N: usize>(bytes: &[u8; N], at: usize) -> u128 {
    let mut word = [0; 16];
    word.copy_from_slice(&bytes[at..at + 16]);
    u128::from_be_bytes(word)
}
