//! The Internet checksum (RFC 1071), its incremental update (RFC 1624), and the checksums of TCP,
//! UDP and ICMP.
//!
//! A host that leaves checksums to its NIC writes the sum of the pseudo-header alone into the TCP
//! or UDP field. Where such a packet comes in by a virtual device and goes out by a port that
//! cannot finish it, the switch must.

use super::field::{get16, put16};
use super::{Fragment, Headers, Net, proto};

/// A running one's complement sum. Words are taken in network order, a last odd byte as the high
/// half of a word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes at an even offset of the data. The data is shorter than 16 GiB.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (words, tail) = bytes.as_chunks::<4>();
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        let sum = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum::<u64>();
        Self(self.0 + sum + u64::from(u32::from_be_bytes(last)))
    }

    #[must_use]
    pub fn word(self, word: u16) -> Self {
        Self(self.0 + u64::from(word))
    }

    /// The sum in 16 bits; 0 only when all that was added is 0.
    pub fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }
}

/// The Internet checksum of bytes whose own field is 0; 0 when their own field is right.
pub fn internet(bytes: &[u8]) -> u16 {
    !Sum::default().bytes(bytes).fold()
}

/// The checksum after one 16-bit word changed: RFC 1624, equation 3.
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !Sum::default().word(!checksum).word(!old).word(new).fold()
}

/// The sum of the IPv4 pseudo-header.
pub fn pseudo_v4(src: [u8; 4], dst: [u8; 4], proto: u8, len: u16) -> Sum {
    Sum::default().bytes(&src).bytes(&dst).word(proto.into()).word(len)
}

/// The sum of the IPv6 pseudo-header, `proto` being the next header behind the extension headers.
pub fn pseudo_v6(src: [u8; 16], dst: [u8; 16], proto: u8, len: u16) -> Sum {
    Sum::default().bytes(&src).bytes(&dst).word(proto.into()).word(len)
}

/// Whether a TCP or UDP checksum is left for a NIC to complete: its field equals the
/// pseudo-header's folded sum. One in 65 536 complete checksums looks the same, and completing it
/// changes nothing if it was right.
pub fn is_partial(frame: &[u8], headers: &Headers) -> bool {
    let Some(segment) = Segment::of(frame, headers).filter(|s| s.offloads) else { return false };
    get16(frame, segment.field) == segment.pseudo.fold()
}

/// Computes the TCP, UDP or ICMP checksum in place and ignores the field's old value. False, and
/// nothing changed, when the packet has none, is a fragment, or does not lie in `frame` whole.
/// Behind an IPv6 routing header the final destination is not known here, and the result is that of
/// the address in the IP header.
pub fn complete(frame: &mut [u8], headers: &Headers) -> bool {
    let Some(segment) = Segment::of(frame, headers) else { return false };
    let Some(bytes) = frame.get_mut(..segment.end) else { return false };
    put16(bytes, segment.field, 0);
    let checksum = !segment.pseudo.bytes(&bytes[segment.start..]).fold();
    // UDP says by 0 that there is no checksum.
    let zero = headers.proto == proto::UDP && checksum == 0;
    put16(bytes, segment.field, if zero { 0xffff } else { checksum });
    true
}

/// Whether the TCP, UDP or ICMP checksum is right; `None` where [`complete`] would return false.
pub fn is_valid(frame: &[u8], headers: &Headers) -> Option<bool> {
    let segment = Segment::of(frame, headers)?;
    let bytes = frame.get(segment.start..segment.end)?;
    let absent = headers.net == Net::Ipv4 && headers.proto == proto::UDP && get16(frame, segment.field) == 0;
    Some(absent || segment.pseudo.bytes(bytes).fold() == 0xffff)
}

/// Place and range of a transport checksum.
struct Segment {
    start: usize,
    end: usize,
    field: usize,
    pseudo: Sum,
    /// Whether hosts leave this checksum to their NIC.
    offloads: bool,
}

impl Segment {
    fn of(frame: &[u8], headers: &Headers) -> Option<Self> {
        if headers.l4 == 0 || headers.fragment != Fragment::Whole {
            return None;
        }
        let (l3, start) = (usize::from(headers.l3), usize::from(headers.l4));
        let v4 = headers.net == Net::Ipv4;
        let packet_end = match v4 {
            true => l3 + usize::from(get16(frame.get(l3..l3 + 4)?, 2)),
            false => l3 + 40 + usize::from(get16(frame.get(l3..l3 + 6)?, 4)),
        };
        let (field, end) = match headers.proto {
            proto::TCP => (start + 16, packet_end),
            proto::UDP => (start + 6, start + usize::from(get16(frame.get(start..start + 6)?, 4))),
            proto::ICMP | proto::ICMPV6 => (start + 2, packet_end),
            // SCTP has a CRC, the others a coverage of their own.
            _ => return None,
        };
        if end > packet_end || field + 2 > end.min(frame.len()) {
            return None;
        }
        let len = (end - start) as u16;
        let (src, dst) = (headers.src_ip, headers.dst_ip);
        let pseudo = match v4 {
            true if headers.proto == proto::ICMP => Sum::default(),
            true => pseudo_v4((src as u32).to_be_bytes(), (dst as u32).to_be_bytes(), headers.proto, len),
            false => pseudo_v6(src.to_be_bytes(), dst.to_be_bytes(), headers.proto, len),
        };
        let offloads = matches!(headers.proto, proto::TCP | proto::UDP);
        Some(Self { start, end, field, pseudo, offloads })
    }
}
