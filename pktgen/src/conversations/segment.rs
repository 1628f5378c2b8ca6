//! TCP segments in frames: read from those that come in, and from captures; written for those that go
//! out.

use weir::wire::checksum::{self, pseudo_v4, pseudo_v6};
use weir::wire::{Fragment, Headers, Mac, Net, ethernet, ethertype, ipv4, ipv6, parse, proto, tcp};

use super::Side;

/// Bytes of the only option that is sent: the largest segment, on a SYN.
const MSS_OPTION: usize = 4;
const TAG: usize = 4;
/// The shortest frame without FCS.
const SHORTEST: usize = 60;
const HOPS: u8 = 64;

/// The longest frame without FCS, of segments with this payload over IPv4.
pub fn longest_frame(mss: u16) -> u16 {
    // A segment over IPv6 has as much less payload as its header is longer.
    (ethernet::LEN + TAG + ipv4::LEN + tcp::LEN + MSS_OPTION) as u16 + mss
}

/// Addresses and ports. IPv4 addresses stand in the low 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ends {
    pub is_v6: bool,
    pub src: u128,
    pub dst: u128,
    pub sport: u16,
    pub dport: u16,
}

impl Ends {
    #[must_use]
    pub fn reversed(self) -> Self {
        let Self { is_v6, src, dst, sport, dport } = self;
        Self { is_v6, src: dst, dst: src, sport: dport, dport: sport }
    }
}

/// Why a frame has no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSegment {
    /// It is something else than a whole packet of TCP.
    Other,
    /// Its TCP header is cut or wrong.
    Unreadable,
}

/// A segment as a frame has it.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    pub ends: Ends,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub payload: &'a [u8],
    /// Bytes of the payload that the frame lacks.
    pub lacking: u32,
}

impl<'a> Segment<'a> {
    pub fn read(frame: &'a [u8], headers: &mut Headers) -> Result<Self, NoSegment> {
        parse(frame, headers).map_err(|_| NoSegment::Other)?;
        if headers.proto != proto::TCP || headers.net == Net::Other || headers.fragment != Fragment::Whole {
            return Err(NoSegment::Other);
        }
        let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
        let header = frame.get(l4..).and_then(<[u8]>::first_chunk::<{ tcp::LEN }>);
        let header = header.filter(|_| l4 > l3).ok_or(NoSegment::Unreadable)?;
        let tcp::Repr { seq, flags } = tcp::Repr::parse(header).map_err(|_| NoSegment::Unreadable)?;
        let payload = l4 + usize::from(header[12] >> 4) * 4;
        let end = packet_end(frame, l3, headers.net).ok_or(NoSegment::Unreadable)?;
        if payload > end || payload > frame.len() {
            return Err(NoSegment::Unreadable);
        }
        let (src, dst, sport, dport) = (headers.src_ip, headers.dst_ip, headers.sport, headers.dport);
        let [.., a, b, c, d, _, _, _, _, _, _, _, _] = *header;
        Ok(Self {
            ends: Ends { is_v6: headers.net == Net::Ipv6, src, dst, sport, dport },
            seq,
            ack: u32::from_be_bytes([a, b, c, d]),
            flags,
            payload: &frame[payload..end.min(frame.len())],
            lacking: end.saturating_sub(frame.len()) as u32,
        })
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Where the IP packet of a frame ends by its length field; without one it is the frame's end.
fn packet_end(frame: &[u8], l3: usize, net: Net) -> Option<usize> {
    let word = |at: usize| Some(usize::from(u16::from_be_bytes(*frame.get(l3 + at..)?.first_chunk()?)));
    let (stated, header) = if net == Net::Ipv6 { (word(4)?, ipv6::LEN) } else { (word(2)?, 0) };
    Some(if stated == 0 { frame.len() } else { l3 + header + stated })
}

/// Whether all checksums of a frame with a segment are right.
pub fn is_intact(frame: &[u8], headers: &Headers) -> bool {
    let packet = frame.get(usize::from(headers.l3)..).unwrap_or_default();
    let is_whole = headers.net == Net::Ipv6 || ipv4::View::new(packet).is_ok_and(|view| view.checksum_is_valid());
    is_whole && checksum::is_valid(frame, headers) == Some(true)
}

/// What a segment that goes out says besides its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// The largest segment, where it is said.
    pub mss: Option<u16>,
}

/// The addresses of the link, and the tag of all frames.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub client: Mac,
    pub server: Mac,
    pub vlan: Option<u16>,
}

impl Link {
    /// Writes a frame to the beginning of `out`. Its length, or `None` where `out` is too short.
    pub fn write(&self, from: Side, ends: &Ends, segment: &Outgoing, payload: &[u8], out: &mut [u8]) -> Option<usize> {
        let (src, dst) = match from {
            Side::Client => (self.client, self.server),
            Side::Server => (self.server, self.client),
        };
        let network = if ends.is_v6 { ethertype::IPV6 } else { ethertype::IPV4 };
        let first = if self.vlan.is_some() { ethertype::VLAN } else { network };
        ethernet::Repr { dst, src, ethertype: first }.emit(out).ok()?;
        let mut at = ethernet::LEN;
        if let Some(vlan) = self.vlan {
            out.get_mut(at..at + 2)?.copy_from_slice(&vlan.to_be_bytes());
            out.get_mut(at + 2..at + TAG)?.copy_from_slice(&network.to_be_bytes());
            at += TAG;
        }
        let header = tcp::LEN + if segment.mss.is_some() { MSS_OPTION } else { 0 };
        let length = header + payload.len();
        let l4 = at + if ends.is_v6 { ipv6::LEN } else { ipv4::LEN };
        let end = l4 + length;
        if out.len() < end.max(SHORTEST) || length > usize::from(u16::MAX) - ipv4::LEN {
            return None;
        }
        let packet = &mut out[at..];
        let pseudo = if ends.is_v6 {
            let (src, dst) = (ends.src.to_be_bytes(), ends.dst.to_be_bytes());
            let ip = ipv6::Repr {
                traffic_class: 0,
                payload_len: length,
                next_header: proto::TCP,
                hop_limit: HOPS,
                src: src.into(),
                dst: dst.into(),
            };
            ip.emit(packet).ok()?;
            pseudo_v6(src, dst, proto::TCP, length as u16)
        } else {
            let (src, dst) = ((ends.src as u32).to_be_bytes(), (ends.dst as u32).to_be_bytes());
            let ip = ipv4::Repr { tos: 0, proto: proto::TCP, src: src.into(), dst: dst.into(), payload_len: length };
            ip.emit(packet).ok()?;
            pseudo_v4(src, dst, proto::TCP, length as u16)
        };
        let bytes = &mut out[l4..end];
        write_tcp(ends, segment, header, bytes);
        bytes[header..].copy_from_slice(payload);
        let sum = !pseudo.bytes(bytes).fold();
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        let whole = end.max(SHORTEST);
        out[end..whole].fill(0);
        Some(whole)
    }
}

/// Writes the header, without its checksum.
fn write_tcp(ends: &Ends, segment: &Outgoing, header: usize, bytes: &mut [u8]) {
    bytes[..2].copy_from_slice(&ends.sport.to_be_bytes());
    bytes[2..4].copy_from_slice(&ends.dport.to_be_bytes());
    bytes[4..8].copy_from_slice(&segment.seq.to_be_bytes());
    bytes[8..12].copy_from_slice(&segment.ack.to_be_bytes());
    bytes[12..14].copy_from_slice(&[(header as u8 / 4) << 4, segment.flags]);
    bytes[14..16].copy_from_slice(&segment.window.to_be_bytes());
    bytes[16..20].fill(0);
    if let Some(mss) = segment.mss {
        bytes[20..22].copy_from_slice(&[2, MSS_OPTION as u8]);
        bytes[22..24].copy_from_slice(&mss.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
    use proptest::prelude::*;
    use weir::wire::tcp::{ACK, FIN, RST, SYN};

    const LINK: Link = Link { client: Mac([2, 0, 0, 0, 0, 1]), server: Mac([2, 0, 0, 0, 0, 2]), vlan: None };

    proptest! {
        /// As etherparse reads it, and as it is read here.
        #[test]
        fn frames_are_right(
            is_v6: bool, src: u128, dst: u128, sport: u16, dport: u16, seq: u32, ack: u32, window: u16, flags in 0u8..32,
            mss in proptest::option::of(any::<u16>()), vlan in proptest::option::of(1u16..4095),
            payload in proptest::collection::vec(any::<u8>(), 0..1500),
        ) {
            let width = if is_v6 { u128::MAX } else { u128::from(u32::MAX) };
            let ends = Ends { is_v6, src: src & width, dst: dst & width, sport, dport };
            let segment = Outgoing { seq, ack, flags, window, mss };
            let mut out = vec![0xaa; 1600];
            let link = Link { vlan, ..LINK };
            let length = link.write(Side::Server, &ends, &segment, &payload, &mut out).unwrap();
            let frame = &out[..length];
            prop_assert!(length >= SHORTEST);
            let packet = PacketHeaders::from_ethernet_slice(frame).unwrap();
            let Some(TransportHeader::Tcp(tcp)) = packet.transport else { panic!("no TCP") };
            let read = packet.payload.slice();
            let sum = match packet.net.unwrap() {
                NetHeaders::Ipv4(ip, _) => {
                    prop_assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                    tcp.calc_checksum_ipv4(&ip, read).unwrap()
                }
                NetHeaders::Ipv6(ip, _) => tcp.calc_checksum_ipv6(&ip, read).unwrap(),
                NetHeaders::Arp(_) => panic!("ARP"),
            };
            prop_assert_eq!((tcp.checksum, tcp.sequence_number, tcp.window_size), (sum, seq, window));
            prop_assert_eq!((tcp.syn, tcp.fin, tcp.rst), (flags & SYN != 0, flags & FIN != 0, flags & RST != 0));
            let mut headers = Headers::default();
            let again = Segment::read(frame, &mut headers).unwrap();
            prop_assert_eq!((again.ends, again.seq, again.ack, again.flags), (ends, seq, ack, flags));
            prop_assert_eq!((again.payload, again.lacking), (&payload[..], 0));
            prop_assert!(is_intact(frame, &headers));
        }

        /// Any bytes, and a frame of which any byte is another or the end is cut, are read or refused. A
        /// changed byte of the packet is noticed.
        #[test]
        fn any_frame_is_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..114, by in 1u8.., cut in 0usize..114,
        ) {
            let _ = Segment::read(&bytes, &mut Headers::default());
            let ends = Ends { src: 7, dst: 9, sport: 1, dport: 2, ..Ends::default() };
            let segment = Outgoing { seq: 1, ack: 2, flags: ACK, window: 9, mss: None };
            let mut frame = vec![0; 114];
            prop_assert_eq!(LINK.write(Side::Client, &ends, &segment, &[5; 60], &mut frame), Some(114));
            let mut headers = Headers::default();
            if let Ok(read) = Segment::read(&frame[..cut], &mut headers) {
                prop_assert_eq!(read.payload.len() + read.lacking as usize, 60);
                prop_assert!(!is_intact(&frame[..cut], &headers));
            }
            frame[at] ^= by;
            if Segment::read(&frame, &mut headers).is_ok() && at >= 14 {
                prop_assert!(!is_intact(&frame, &headers), "{}", at);
            }
        }
    }
}
