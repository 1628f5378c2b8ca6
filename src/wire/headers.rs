//! The parser's result: the fields that forwarding and measurement match on.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::{Flow, FlowKey, Tuple4, Tuple6};
use crate::text::serde_as_text;

/// An Ethernet address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Reads six bytes of `min` to two hexadecimal digits between these separators.
    pub fn parse(text: &str, separators: &[char], min: usize) -> Option<Self> {
        let mut mac = Self::default();
        let mut parts = text.split(separators);
        for byte in &mut mac.0 {
            let digits = parts.next().filter(|part| (min..=2).contains(&part.len()) && !part.starts_with('+'))?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        parts.next().is_none().then_some(mac)
    }

    /// Broadcast and multicast: the group bit of the first byte.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// From the low 48 bits.
    pub fn from_u64(bits: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        Self([a, b, c, d, e, f])
    }

    /// The address in the low 48 bits.
    pub fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not an Ethernet address; write 02:00:00:00:00:01");
        Self::parse(text, &[':'], 2).ok_or_else(wrong)
    }
}

serde_as_text!(Mac);

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The network layer that the parser recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Net {
    /// Neither IPv4 nor IPv6, or an IP header that is not whole.
    #[default]
    Other,
    Ipv4,
    Ipv6,
}

/// Whether the packet is a piece of a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Fragment {
    #[default]
    Whole,
    /// Offset 0, more to follow: it carries the transport header.
    First,
    /// Offset above 0: no transport header, so both ports are 0.
    Later,
}

impl Fragment {
    /// From an offset in units of eight bytes, and whether more fragments follow.
    pub fn new(offset: u16, more: bool) -> Self {
        match (offset, more) {
            (0, false) => Self::Whole,
            (0, true) => Self::First,
            _ => Self::Later,
        }
    }
}

/// What the flow of a packet lacks that flows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingHeader {
    /// All: its EtherType is that of IP, and its IP header is cut or wrong.
    Ip,
    /// Its ports: they are cut off, or stand behind an extension header that is, or behind more of
    /// these than are stepped over.
    Ports,
    /// Its ports, which its first fragment has.
    Fragment,
    /// Ports: its protocol has none, or is not known.
    Transport,
}

/// The parsed fields of one frame. Absent fields are zero.
///
/// In this order in memory, without a gap in the first [`FRONT`](Self::FRONT) bytes, so that these
/// can be filled and read as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Headers {
    /// Source and destination address; an IPv4 address stands in the low 32 bits.
    pub src_ip: u128,
    pub dst_ip: u128,
    pub dst: Mac,
    pub src: Mac,
    /// Ports of a [transport that has them](super::proto::has_ports); both 0 for other protocols.
    pub sport: u16,
    pub dport: u16,
    /// EtherType behind all tags and the shim; of an 802.3 frame its length field (at most 1500).
    /// An IP packet in a PPPoE session has the session's, and `net` says which IP it is.
    pub ethertype: u16,
    /// TCI of the outermost VLAN tag, valid when `tagged`.
    pub vlan_tci: u16,
    /// TCI of the tag behind it, valid when `inner_tags` is above 0.
    pub inner_tci: u16,
    /// Offset of the IP header from the start of the frame, 0 when `net` is `Other`.
    pub l3: u16,
    /// Offset of a transport header of which the ports are there, or of an ICMP header of which the
    /// first eight bytes are; else 0.
    pub l4: u16,
    /// IPv4 ToS or IPv6 traffic class.
    pub tos: u8,
    /// IPv4 TTL or IPv6 hop limit.
    pub ttl: u8,
    /// IPv4 protocol or IPv6 next header, behind the extension headers.
    pub proto: u8,
    pub net: Net,
    pub fragment: Fragment,
    pub tagged: bool,
    /// VLAN tags behind the outermost one, at most [`MAX_TAGS`](super::MAX_TAGS) − 1.
    pub inner_tags: u8,
    /// The frame carries a telemetry shim of a version that this switch speaks. With any other
    /// version the EtherType is the shim's own.
    pub shim: bool,
    /// TCIs of the third and fourth tag, valid as `inner_tags` says.
    pub deeper_tcis: [u16; 2],
    /// Not of the frame: the packet's random number (`Phv::draw`). It stands here because alignment leaves
    /// room, and one more field would make a PHV longer than two cache lines.
    pub draw: u32,
    /// Not of the frame either: the switch made the packet (`Phv::is_made`).
    pub made: bool,
    /// Nor this: the place of the packet's inner headers among those of its burst, from 1; 0 where the
    /// outer headers name its flow.
    pub inner: u8,
}

impl Headers {
    /// Bytes in front that hold all fields but the last six, without a gap.
    pub const FRONT: usize = 64;

    /// VLAN identifier, 0 for an untagged or priority-tagged frame.
    pub fn vid(&self) -> u16 {
        if self.tagged { self.vlan_tci & 0x0fff } else { 0 }
    }

    /// TCIs of the tags that were looked behind, the outermost first.
    pub fn tcis(&self) -> impl Iterator<Item = u16> + use<> {
        let [third, fourth] = self.deeper_tcis;
        let tags = usize::from(self.tagged) + usize::from(self.inner_tags);
        [self.vlan_tci, self.inner_tci, third, fourth].into_iter().take(tags)
    }

    /// Bytes between the MAC addresses and the EtherType that the tags and the shim take.
    pub fn tag_bytes(&self) -> usize {
        let tags = usize::from(self.tagged) + usize::from(self.inner_tags);
        4 * tags + if self.shim { super::shim::LEN } else { 0 }
    }

    /// Whether there are more tags than are looked behind, so that what they carry is not measured.
    #[inline(always)]
    pub fn has_too_many_tags(&self) -> bool {
        usize::from(self.inner_tags) + 1 == super::MAX_TAGS && super::parse::is_tag(self.ethertype)
    }

    /// Puts another tag around the frame's own. Where these are as many as are looked behind, the
    /// headers then are those of a frame with too many.
    pub fn tunnel(&mut self, tci: u16) {
        if usize::from(self.inner_tags) + 1 == super::MAX_TAGS {
            let Self { dst, src, vlan_tci, inner_tci, tagged, inner_tags, shim, deeper_tcis, .. } = *self;
            let ethertype = super::ethertype::VLAN;
            let tags = Self { vlan_tci, inner_tci, tagged, inner_tags, deeper_tcis, ..Self::default() };
            *self = Self { dst, src, ethertype, shim, ..tags };
        } else if self.tagged {
            self.inner_tags += 1;
        }
        self.deeper_tcis = [self.inner_tci, self.deeper_tcis[0]];
        self.inner_tci = self.vlan_tci;
        (self.vlan_tci, self.tagged) = (tci, true);
    }

    /// Whether the packet has ports, and they are there.
    #[inline(always)]
    pub fn has_ports(&self) -> bool {
        self.net != Net::Other && self.l4 != 0 && super::proto::has_ports(self.proto)
    }

    /// Takes over what names a flow of other headers.
    #[inline(always)]
    pub fn take_flow(&mut self, other: &Self) {
        let Self { src_ip, dst_ip, sport, dport, proto, net, .. } = *other;
        *self = Self { src_ip, dst_ip, sport, dport, proto, net, ..*self };
    }

    /// What the packet's flow lacks; `None` also of ICMP, which has no ports, and of a packet that is
    /// no IP.
    pub fn missing(&self) -> Option<MissingHeader> {
        use super::{ethertype, proto};
        match (self.net, self.fragment) {
            (Net::Other, _) => matches!(self.ethertype, ethertype::IPV4 | ethertype::IPV6).then_some(MissingHeader::Ip),
            _ if self.l4 != 0 => None,
            (_, Fragment::Later) => Some(MissingHeader::Fragment),
            _ if proto::has_ports(self.proto) || proto::leads_on(self.proto) => Some(MissingHeader::Ports),
            _ if matches!(self.proto, proto::ICMP | proto::ICMPV6) => None,
            _ => Some(MissingHeader::Transport),
        }
    }

    /// Headers with the fields of a five-tuple, and no others; `None` if one is missing.
    pub fn of_flow(flow: &Flow) -> Option<Self> {
        let (net, src_ip, dst_ip) = match (flow.src?, flow.dst?) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => (Net::Ipv4, src.to_bits().into(), dst.to_bits().into()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => (Net::Ipv6, src.to_bits(), dst.to_bits()),
            _ => return None,
        };
        let (sport, dport, proto) = (flow.sport?, flow.dport?, flow.proto?);
        Some(Self { net, src_ip, dst_ip, sport, dport, proto, ..Self::default() })
    }

    /// The five-tuple of an IPv4 or IPv6 packet.
    pub fn flow(&self) -> Option<Flow> {
        match self.net {
            Net::Ipv4 => Some(Tuple4::of(self).flow()),
            Net::Ipv6 => Some(Tuple6::of(self).flow()),
            Net::Other => None,
        }
    }
}
