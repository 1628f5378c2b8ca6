//! Link types, and the Ethernet frame of a packet that was captured with another link header.
//!
//! The frame has an Ethernet header in place of the header that the capture has, and its length is
//! changed by the difference. So a packet counts as many bytes as over Ethernet.

use pcap_file::DataLink;

use super::Captured;
use crate::wire::{ethernet, ethertype, ppp};

/// A link type that is read. Each has the name that tcpdump.org gives it, without `LINKTYPE_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    Ethernet,
    /// Linux cooked capture, versions 1 and 2: `tcpdump -i any`.
    LinuxSll,
    LinuxSll2,
    /// An IP packet of either version.
    Raw,
    Ipv4,
    Ipv6,
    /// An address family in the byte order of the capturing host, or in network order.
    Null,
    Loop,
    /// PPP with or without address and control.
    Ppp,
    /// PPP in HDLC framing, or Cisco HDLC.
    PppHdlc,
    CiscoHdlc,
    /// PPPoE without its Ethernet header.
    PppEther,
}

/// EtherType of a PPP frame (RFC 7042): for PPP that carries no IP.
const PPP: u16 = 0x880b;
/// The EtherType that is reserved (RFC 1701): for a packet whose protocol has none.
const NO_ETHERTYPE: u16 = 0xffff;

/// The largest length field of an 802.3 frame.
const MAX_802_3: u32 = 1500;

/// A packet's place behind its link header, and what stands in the Ethernet header.
struct Packet {
    at: usize,
    ethertype: u16,
    src: [u8; 6],
}

impl LinkType {
    pub(super) fn new(link: DataLink) -> Option<Self> {
        Some(match link {
            DataLink::ETHERNET => Self::Ethernet,
            DataLink::LINUX_SLL => Self::LinuxSll,
            DataLink::LINUX_SLL2 => Self::LinuxSll2,
            // 12 and 14 are the numbers that systems have for RAW, and that some write to files.
            DataLink::RAW | DataLink::Unknown(12 | 14) => Self::Raw,
            DataLink::IPV4 => Self::Ipv4,
            DataLink::IPV6 => Self::Ipv6,
            DataLink::NULL => Self::Null,
            DataLink::LOOP => Self::Loop,
            DataLink::PPP => Self::Ppp,
            DataLink::PPP_HDLC => Self::PppHdlc,
            DataLink::C_HDLC => Self::CiscoHdlc,
            DataLink::PPP_ETHER => Self::PppEther,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "ETHERNET",
            Self::LinuxSll => "LINUX_SLL",
            Self::LinuxSll2 => "LINUX_SLL2",
            Self::Raw => "RAW",
            Self::Ipv4 => "IPV4",
            Self::Ipv6 => "IPV6",
            Self::Null => "NULL",
            Self::Loop => "LOOP",
            Self::Ppp => "PPP",
            Self::PppHdlc => "PPP_HDLC",
            Self::CiscoHdlc => "C_HDLC",
            Self::PppEther => "PPP_ETHER",
        }
    }

    /// Finds the packet behind the link header; `None` when that is cut short. `wire_len` is that
    /// of the record.
    fn packet(self, bytes: &[u8], wire_len: u32) -> Option<Packet> {
        let plain = |at, ethertype| Packet { at, ethertype, src: [0; 6] };
        Some(match self {
            Self::Ethernet => return None,
            Self::LinuxSll => {
                let head = bytes.first_chunk::<16>()?;
                let ethertype = cooked(be16(head, 14), wire_len.saturating_sub(16));
                Packet { at: 16, ethertype, src: sender(be16(head, 4), &head[6..]) }
            }
            Self::LinuxSll2 => {
                let head = bytes.first_chunk::<20>()?;
                let ethertype = cooked(be16(head, 0), wire_len.saturating_sub(20));
                Packet { at: 20, ethertype, src: sender(head[11].into(), &head[12..]) }
            }
            Self::Raw => match bytes.first()? >> 4 {
                4 => plain(0, ethertype::IPV4),
                6 => plain(0, ethertype::IPV6),
                _ => plain(0, NO_ETHERTYPE),
            },
            Self::Ipv4 => plain(0, ethertype::IPV4),
            Self::Ipv6 => plain(0, ethertype::IPV6),
            Self::Null | Self::Loop => plain(4, family(u32::from_be_bytes(*bytes.first_chunk()?))),
            Self::PppHdlc if matches!(bytes, [0x0f | 0x8f, ..]) => Self::CiscoHdlc.packet(bytes, wire_len)?,
            Self::CiscoHdlc => plain(4, be16(bytes.first_chunk::<4>()?, 2)),
            Self::Ppp | Self::PppHdlc => {
                let (at, ethertype) = ppp_packet(bytes)?;
                plain(at, ethertype)
            }
            Self::PppEther => match bytes.first_chunk::<6>()?[1] {
                0 => plain(0, ethertype::PPPOE_SESSION),
                _ => plain(0, ethertype::PPPOE_DISCOVERY),
            },
        })
    }

    /// Writes the packet's Ethernet frame to `frame`, and returns the packet with that. The frame
    /// of a packet whose link header is cut short is empty: a runt.
    pub(super) fn to_ethernet<'a>(self, captured: Captured<'a>, frame: &'a mut Vec<u8>) -> Captured<'a> {
        frame.clear();
        let Captured { bytes, wire_len, .. } = captured;
        let Some(packet) = self.packet(bytes, wire_len) else { return Captured { bytes: frame, ..captured } };
        frame.extend([0; 6]);
        frame.extend(packet.src);
        frame.extend(packet.ethertype.to_be_bytes());
        frame.extend(&bytes[packet.at..]);
        let wire_len = wire_len - packet.at as u32 + ethernet::LEN as u32;
        Captured { bytes: frame, wire_len, ..captured }
    }
}

/// The EtherType of a cooked packet of `len` bytes: below 0x600 stand protocols of Linux' own, of
/// which 1 and 4 are frames with an 802.3 length.
fn cooked(protocol: u16, len: u32) -> u16 {
    match protocol {
        0x0600.. => protocol,
        1 | 4 => len.min(MAX_802_3) as u16,
        _ => NO_ETHERTYPE,
    }
}

/// The sender's address, if it is one of Ethernet.
fn sender(len: u16, address: &[u8]) -> [u8; 6] {
    address.first_chunk().filter(|_| len == 6).copied().unwrap_or_default()
}

/// The EtherType of an address family in either byte order. IPv6 has a number in each system:
/// Linux, Windows, NetBSD and OpenBSD, FreeBSD, macOS.
fn family(family: u32) -> u16 {
    match if family > 0xffff { family.swap_bytes() } else { family } {
        2 => ethertype::IPV4,
        10 | 23 | 24 | 28 | 30 => ethertype::IPV6,
        _ => NO_ETHERTYPE,
    }
}

/// Place and EtherType of the packet in a PPP frame. Address and control may be left out, and the
/// protocol's first byte where that is 0 (RFC 1661, 6.5 and 6.6).
fn ppp_packet(frame: &[u8]) -> Option<(usize, u16)> {
    let at = if frame.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
    let (len, protocol) = match *frame.get(at..)? {
        // An address, and no control.
        [0xff] => return None,
        [short, ..] if short & 1 == 1 => (1, short.into()),
        [high, low, ..] => (2, u16::from_be_bytes([high, low])),
        _ => return None,
    };
    Some(match protocol {
        ppp::IPV4 => (at + len, ethertype::IPV4),
        ppp::IPV6 => (at + len, ethertype::IPV6),
        _ => (at, PPP),
    })
}

fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
