//! Transport checksums that a sender left to a NIC: where they are, and their completion in
//! software.
//!
//! A packet from a local kernel may carry only the sum of its pseudo-header, because the kernel
//! counts on an offload. It stays so while it goes from one kernel to another, and is completed
//! before it leaves by anything else.

use crate::wire::shim;

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
/// VLAN tags, with the shim, and IPv6 extension headers that are looked behind: more is not seen in
/// a frame that a host makes and a switch tags.
const MAX_TAGS: usize = 8;
const MAX_EXTENSIONS: usize = 8;

/// The transport header of a frame that is no fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transport {
    pub ipv6: bool,
    pub proto: u8,
    /// Offset of the IP header.
    pub l3: usize,
    /// Offset of the transport header.
    pub l4: usize,
    /// End of the IP packet; the frame may be padded behind.
    pub end: usize,
}

impl Transport {
    /// Finds it in a frame of `length` bytes that starts with `bytes`.
    pub fn find(bytes: &[u8], length: usize) -> Option<Self> {
        let (ethertype, l3) = network(bytes)?;
        match ethertype {
            0x0800 => Self::ipv4(bytes, length, l3),
            0x86dd => Self::ipv6(bytes, length, l3),
            _ => None,
        }
    }

    fn ipv4(bytes: &[u8], length: usize, l3: usize) -> Option<Self> {
        let header = bytes.get(l3..l3 + 20)?;
        let size = usize::from(header[0] & 15) * 4;
        let end = l3 + usize::from(u16_at(header, 2));
        // More fragments, or an offset.
        let fragment = u16_at(header, 6) & 0x3fff != 0;
        let whole = header[0] >> 4 == 4 && size >= 20 && l3 + size <= end && end <= length && !fragment;
        whole.then_some(Self { ipv6: false, proto: header[9], l3, l4: l3 + size, end })
    }

    fn ipv6(bytes: &[u8], length: usize, l3: usize) -> Option<Self> {
        let header = bytes.get(l3..l3 + 40)?;
        let end = l3 + 40 + usize::from(u16_at(header, 4));
        if header[0] >> 4 != 6 || end > length {
            return None;
        }
        let (mut proto, mut l4) = (header[6], l3 + 40);
        for _ in 0..MAX_EXTENSIONS {
            match proto {
                // Hop-by-hop, routing and destination options.
                0 | 43 | 60 => {
                    let extension = bytes.get(l4..l4 + 2)?;
                    proto = extension[0];
                    l4 += (usize::from(extension[1]) + 1) * 8;
                }
                _ => break,
            }
        }
        (l4 <= end).then_some(Self { ipv6: true, proto, l3, l4, end })
    }

    /// Offset of the checksum field, for protocols with the Internet checksum over a pseudo-header.
    pub fn field(&self) -> Option<usize> {
        match self.proto {
            TCP => Some(self.l4 + 16),
            UDP => Some(self.l4 + 6),
            _ => None,
        }
    }

    /// Sum of the pseudo-header for a transport header and payload of `length` bytes, folded, not
    /// inverted.
    pub fn pseudo(&self, bytes: &[u8], length: usize) -> u16 {
        let addresses = if self.ipv6 { &bytes[self.l3 + 8..self.l3 + 40] } else { &bytes[self.l3 + 12..self.l3 + 20] };
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        fold(sum(addresses) + u64::from(length >> 16) + u64::from(length & 0xffff) + u64::from(self.proto))
    }
}

/// The EtherType behind all tags and the telemetry shim, and the offset of the header that it
/// names.
fn network(bytes: &[u8]) -> Option<(u16, usize)> {
    let mut at = 12;
    for _ in 0..=MAX_TAGS {
        let ethertype = u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?);
        match ethertype {
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            shim::ETHERTYPE => at += shim::LEN,
            _ => return Some((ethertype, at + 2)),
        }
    }
    None
}

/// The start of the range of a TCP or UDP checksum, and the offset of its field from there, in a
/// frame of `length` bytes that starts with `bytes`.
pub(super) fn position(bytes: &[u8], length: usize) -> Option<(usize, usize)> {
    let transport = Transport::find(bytes, length)?;
    transport.field().filter(|field| field + 2 <= transport.end).map(|field| (transport.l4, field - transport.l4))
}

/// Whether the checksum field holds the sum of the pseudo-header, as a kernel leaves it for a NIC
/// to complete. Where that is by chance the right checksum, completing it changes nothing.
pub(super) fn is_partial(bytes: &[u8]) -> bool {
    let Some(transport) = Transport::find(bytes, bytes.len()) else { return false };
    let Some(field) = transport.field().filter(|field| field + 2 <= transport.end) else { return false };
    u16_at(bytes, field) == transport.pseudo(bytes, transport.end - transport.l4)
}

/// Computes the TCP or UDP checksum of a frame. False, and nothing changed, when it has none.
pub(super) fn complete(bytes: &mut [u8]) -> bool {
    let Some(transport) = Transport::find(bytes, bytes.len()) else { return false };
    let Some(field) = transport.field().filter(|field| field + 2 <= transport.end) else { return false };
    let Transport { l4, end, .. } = transport;
    bytes[field..field + 2].fill(0);
    let total = u64::from(transport.pseudo(bytes, end - l4)) + sum(&bytes[l4..end]);
    bytes[field..field + 2].copy_from_slice(&inverted(total).to_be_bytes());
    true
}

/// Completes a sum that a kernel began: over everything from `start`, whose field, `offset` bytes
/// further, holds what is to be added. For packets in which [`position`] finds another header than
/// the kernel meant, as in tunnels.
pub(super) fn complete_at(bytes: &mut [u8], start: usize, offset: usize) -> bool {
    let field = start + offset;
    if field + 2 > bytes.len() {
        return false;
    }
    let sctp = Transport::find(bytes, bytes.len()).filter(|t| t.proto == SCTP && t.l4 == start && offset == 8);
    if let Some(transport) = sctp {
        let Some(chunks) = bytes.get_mut(start..transport.end).filter(|chunks| chunks.len() >= 12) else {
            return false;
        };
        chunks[8..12].fill(0);
        let crc = crc32c(chunks);
        chunks[8..12].copy_from_slice(&crc.to_le_bytes());
        return true;
    }
    let total = sum(&bytes[start..]);
    bytes[field..field + 2].copy_from_slice(&inverted(total).to_be_bytes());
    true
}

/// The IPv4 header checksum, computed anew.
pub(super) fn ipv4_header(header: &mut [u8]) {
    header[10..12].fill(0);
    let total = fold(sum(header));
    header[10..12].copy_from_slice(&(!total).to_be_bytes());
}

/// Ones' complement sum of big-endian 16-bit words, an odd byte padded with zero.
fn sum(bytes: &[u8]) -> u64 {
    // The sum is the same in either byte order but for a swap at the end (RFC 1071), and modulo
    // 2^16 - 1 two words may be added as one of twice the width.
    let chunks = bytes.chunks_exact(4);
    let mut rest = [0; 4];
    rest[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    let words = chunks.map(|c| u64::from(u32::from_ne_bytes([c[0], c[1], c[2], c[3]]))).sum::<u64>();
    u64::from(u16::from_be(fold(words + u64::from(u32::from_ne_bytes(rest)))))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Zero means "no checksum" to UDP, so its other form is sent; to TCP both are the same.
fn inverted(total: u64) -> u16 {
    match !fold(total) {
        0 => 0xffff,
        value => value,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Bit by bit, because SCTP with an offloaded sum through a switch is rare.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    use super::*;

    fn tagged(bytes: &[u8], tags: &[u8]) -> Vec<u8> {
        [&bytes[..12], tags, &bytes[12..]].concat()
    }

    fn frame(v6: bool, udp: bool, payload: &[u8]) -> Vec<u8> {
        let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let ip = if v6 { link.ipv6([1; 16], [2; 16], 64) } else { link.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64) };
        let mut out = Vec::new();
        if udp {
            ip.udp(1, 2).write(&mut out, payload).unwrap();
        } else {
            ip.tcp(1, 2, 3, 4).write(&mut out, payload).unwrap();
        }
        out
    }

    proptest! {
        #[test]
        fn completed_sums_are_those_of_etherparse(
            v6: bool, udp: bool, shim: bool, vlan: bool, padding in 0..9usize,
            payload in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut right = frame(v6, udp, &payload);
            if vlan {
                right = tagged(&right, &[0x81, 0, 0, 7]);
            }
            if shim {
                right = tagged(&right, &[0x88, 0xb5, 1, 2, 3, 4]);
            }
            right.extend(std::iter::repeat_n(0xaa, padding));
            let (start, offset) = position(&right, right.len()).unwrap();
            let mut partial = right.clone();
            let transport = Transport::find(&partial, partial.len()).unwrap();
            let pseudo = transport.pseudo(&partial, transport.end - transport.l4);
            partial[start + offset..start + offset + 2].copy_from_slice(&pseudo.to_be_bytes());
            prop_assert!(is_partial(&partial));
            let mut other = partial[..transport.end].to_vec();
            // Ones' complement has two zeros. In TCP etherparse writes the one with no bits set, weir the other.
            let sum = &mut right[start + offset..start + offset + 2];
            if *sum == [0, 0] {
                sum.fill(0xff);
            }
            prop_assert!(complete(&mut partial));
            prop_assert_eq!(&partial, &right);
            prop_assert!(complete_at(&mut other, start, offset));
            prop_assert_eq!(&other, &right[..transport.end]);
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), ip in 0..3u8, cut in 0..120usize) {
            if bytes.len() > 14 && ip > 0 {
                let head = if ip == 1 { [8, 0, 0x45] } else { [0x86, 0xdd, 0x60] };
                bytes[12..15].copy_from_slice(&head);
            }
            bytes.truncate(cut);
            position(&bytes, bytes.len());
            is_partial(&bytes);
            complete(&mut bytes);
            complete_at(&mut bytes, 14, 16);
        }
    }

    #[test]
    fn fragments_and_other_protocols_have_no_sum_to_complete() {
        let mut fragment = frame(false, true, &[1; 32]);
        fragment[20] = 0x20;
        assert_eq!(position(&fragment, fragment.len()), None);
        let mut icmp = frame(false, true, &[1; 32]);
        icmp[14 + 9] = 1;
        assert!(!complete(&mut icmp));
    }

    #[test]
    fn extension_headers_are_passed_over() {
        let plain = frame(true, false, b"hello");
        let mut bytes = plain[..54].to_vec();
        bytes[14 + 6] = 0;
        bytes.extend([60, 0, 1, 4, 0, 0, 0, 0, 6, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(&plain[54..]);
        let length = (bytes.len() - 54) as u16;
        bytes[14 + 4..14 + 6].copy_from_slice(&length.to_be_bytes());
        assert_eq!(position(&bytes, bytes.len()), Some((54 + 24, 16)));
        assert!(complete(&mut bytes));
        let sliced = SlicedPacket::from_ethernet(&bytes).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("TCP") };
        assert_eq!(tcp.calc_checksum_ipv6([1; 16], [2; 16]).unwrap(), tcp.checksum());
    }

    #[test]
    fn sctp_has_a_crc() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let mut bytes = frame(false, true, &[0; 24]);
        bytes[14 + 9] = SCTP;
        assert!(complete_at(&mut bytes, 34, 8));
        let crc = u32::from_le_bytes(bytes[42..46].try_into().unwrap());
        bytes[42..46].fill(0);
        assert_eq!(crc, crc32c(&bytes[34..]));
    }
}
