//! Whole Ethernet frames for the packets of a workload: a template per kind of packet, patched.

use crate::wire::{Mac, Tuple4, Tuple6};

use super::tuple::{TCP, Tuple, UDP};

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
/// From the TCP header on: offset 5 words and ACK; window, checksum, urgent.
const TCP_TAIL: [u8; 8] = [0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0];
const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;
const HOPS: u8 = 64;
/// The longest headers: Ethernet, IPv6 and TCP.
const LONGEST: usize = ETHERNET + IPV6 + TCP_HEADER;

/// Writes frames from one MAC address to another.
///
/// The packet's number appears as IPv4 identification, TCP sequence number, and (where there is
/// room) in the first 8 bytes of the payload; all other payload is zero. Checksums are right.
#[derive(Clone, Debug)]
pub struct Frames {
    tcp4: [u8; LONGEST],
    udp4: [u8; LONGEST],
    tcp6: [u8; LONGEST],
    udp6: [u8; LONGEST],
}

impl Default for Frames {
    /// From 02:00:00:00:00:01 to 02:00:00:00:00:02, both locally administered.
    fn default() -> Self {
        Self::new(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))
    }
}

impl Frames {
    pub fn new(src: Mac, dst: Mac) -> Self {
        let template = |v6: bool, proto: u8| {
            let mut bytes = [0; LONGEST];
            bytes[..6].copy_from_slice(&dst.0);
            bytes[6..12].copy_from_slice(&src.0);
            let l4 = if v6 {
                bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
                bytes[20..22].copy_from_slice(&[proto, HOPS]);
                ETHERNET + IPV6
            } else {
                bytes[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
                // Don't fragment; hops; protocol.
                bytes[20..24].copy_from_slice(&[0x40, 0, HOPS, proto]);
                ETHERNET + IPV4
            };
            if proto == TCP {
                bytes[l4 + 12..l4 + 20].copy_from_slice(&TCP_TAIL);
            }
            bytes
        };
        Self {
            tcp4: template(false, TCP),
            udp4: template(false, UDP),
            tcp6: template(true, TCP),
            udp6: template(true, UDP),
        }
    }

    /// Length of the headers of a packet of this flow.
    #[inline]
    pub fn min_len(tuple: Tuple) -> usize {
        let net = if matches!(tuple, Tuple::V4(_)) { IPV4 } else { IPV6 };
        ETHERNET + net + if tuple.proto() == TCP { TCP_HEADER } else { UDP_HEADER }
    }

    /// Fills the whole of `out` with one frame. Panics when `out` is shorter than
    /// [`Frames::min_len`].
    #[inline]
    pub fn fill(&self, tuple: Tuple, number: u64, out: &mut [u8]) {
        let headers = Self::min_len(tuple);
        let (template, l4) = match (tuple, tuple.proto() == TCP) {
            (Tuple::V4(_), true) => (&self.tcp4, ETHERNET + IPV4),
            (Tuple::V4(_), false) => (&self.udp4, ETHERNET + IPV4),
            (Tuple::V6(_), true) => (&self.tcp6, ETHERNET + IPV6),
            (Tuple::V6(_), false) => (&self.udp6, ETHERNET + IPV6),
        };
        out[..headers].copy_from_slice(&template[..headers]);
        let sum = match tuple {
            Tuple::V4(key) => ipv4(key, number, out),
            Tuple::V6(key) => ipv6(key, out),
        };
        let payload_sum = payload(number, &mut out[headers..]);
        let ports = match tuple {
            Tuple::V4(Tuple4(bits)) => (bits >> 8) as u32,
            Tuple::V6(Tuple6(_, _, bits)) => (bits >> 8) as u32,
        };
        transport(tuple.proto(), ports, number, sum + payload_sum, &mut out[l4..]);
    }
}

/// Patches the IPv4 header; returns the sum of the pseudo header's addresses.
#[inline]
fn ipv4(Tuple4(bits): Tuple4, number: u64, out: &mut [u8]) -> u64 {
    let (src, dst) = ((bits >> 72) as u32, (bits >> 40) as u32);
    let len = (out.len() - ETHERNET) as u16;
    let id = number as u16;
    let h = &mut out[ETHERNET..ETHERNET + IPV4];
    h[2..4].copy_from_slice(&len.to_be_bytes());
    h[4..6].copy_from_slice(&id.to_be_bytes());
    h[12..16].copy_from_slice(&src.to_be_bytes());
    h[16..20].copy_from_slice(&dst.to_be_bytes());
    let addresses = words(src) + words(dst);
    let fixed = 0x4500 + 0x4000 + u64::from(u16::from_be_bytes([h[8], h[9]]));
    let sum = checksum(fixed + u64::from(len) + u64::from(id) + addresses);
    h[10..12].copy_from_slice(&sum.to_be_bytes());
    addresses
}

/// Patches the IPv6 header; returns the sum of the pseudo header's addresses.
#[inline]
fn ipv6(Tuple6(src, dst, _): Tuple6, out: &mut [u8]) -> u64 {
    let len = (out.len() - ETHERNET - IPV6) as u16;
    let h = &mut out[ETHERNET..ETHERNET + IPV6];
    h[4..6].copy_from_slice(&len.to_be_bytes());
    h[8..24].copy_from_slice(&src.to_be_bytes());
    h[24..40].copy_from_slice(&dst.to_be_bytes());
    let sum = |a: u128| (0..4).map(|i| words((a >> (32 * i)) as u32)).sum::<u64>();
    sum(src) + sum(dst)
}

/// Writes the payload and returns its sum.
#[inline]
fn payload(number: u64, out: &mut [u8]) -> u64 {
    match out.split_first_chunk_mut::<8>() {
        None => {
            out.fill(0);
            0
        }
        Some((first, rest)) => {
            *first = number.to_be_bytes();
            rest.fill(0);
            words(number as u32) + words((number >> 32) as u32)
        }
    }
}

/// Patches the TCP or UDP header. `sum` is that of the addresses and the payload.
#[inline]
fn transport(proto: u8, ports: u32, number: u64, sum: u64, segment: &mut [u8]) {
    let len = segment.len() as u16;
    segment[..4].copy_from_slice(&ports.to_be_bytes());
    let sum = sum + u64::from(proto) + u64::from(len) + words(ports);
    if proto == TCP {
        let sequence = number as u32;
        segment[4..8].copy_from_slice(&sequence.to_be_bytes());
        let check = checksum(sum + words(sequence) + 0x5010 + 0xffff);
        segment[16..18].copy_from_slice(&check.to_be_bytes());
    } else {
        segment[4..6].copy_from_slice(&len.to_be_bytes());
        // In UDP an all-zero checksum means none, so it is sent as its other form.
        let check = match checksum(sum + u64::from(len)) {
            0 => 0xffff,
            check => check,
        };
        segment[6..8].copy_from_slice(&check.to_be_bytes());
    }
}

#[inline]
fn words(word: u32) -> u64 {
    u64::from(word >> 16) + u64::from(word & 0xffff)
}

/// The Internet checksum of 16-bit words whose plain sum is given.
#[inline]
fn checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
    use proptest::prelude::*;

    /// A frame's five-tuple as etherparse reads it, when lengths and all checksums are right.
    fn judge(frame: &[u8]) -> Tuple {
        let p = PacketHeaders::from_ethernet_slice(frame).unwrap();
        let payload = p.payload.slice();
        let (v4, v6) = match p.net.as_ref().unwrap() {
            NetHeaders::Ipv4(h, _) => (Some(h), None),
            NetHeaders::Ipv6(h, _) => (None, Some(h)),
            NetHeaders::Arp(_) => unreachable!("no such frame"),
        };
        let (ports, proto, stated, right) = match (p.transport.unwrap(), v4, v6) {
            (TransportHeader::Tcp(t), Some(ip), _) => {
                ((t.source_port, t.destination_port), TCP, t.checksum, t.calc_checksum_ipv4(ip, payload).unwrap())
            }
            (TransportHeader::Tcp(t), _, Some(ip)) => {
                ((t.source_port, t.destination_port), TCP, t.checksum, t.calc_checksum_ipv6(ip, payload).unwrap())
            }
            (TransportHeader::Udp(t), Some(ip), _) => {
                ((t.source_port, t.destination_port), UDP, t.checksum, t.calc_checksum_ipv4(ip, payload).unwrap())
            }
            (TransportHeader::Udp(t), _, Some(ip)) => {
                ((t.source_port, t.destination_port), UDP, t.checksum, t.calc_checksum_ipv6(ip, payload).unwrap())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(stated, right, "transport checksum");
        let low = u64::from(ports.0) << 24 | u64::from(ports.1) << 8 | u64::from(proto);
        if let Some(ip) = v4 {
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            assert_eq!(usize::from(ip.total_len), frame.len() - ETHERNET);
            let address = |a: [u8; 4]| u128::from(u32::from_be_bytes(a));
            Tuple::V4(Tuple4(address(ip.source) << 72 | address(ip.destination) << 40 | u128::from(low)))
        } else {
            let ip = v6.unwrap();
            assert_eq!(usize::from(ip.payload_length), frame.len() - ETHERNET - IPV6);
            Tuple::V6(Tuple6(u128::from_be_bytes(ip.source), u128::from_be_bytes(ip.destination), low))
        }
    }

    proptest! {
        #[test]
        fn etherparse_agrees(seed: u64, flow: u32, number: u64, len in 0usize..1500, six: bool) {
            let tuple = Tuple::nth(seed, flow, f64::from(u8::from(six)));
            let mut frame = vec![0xaa; len.max(Frames::min_len(tuple))];
            Frames::default().fill(tuple, number, &mut frame);
            prop_assert_eq!(judge(&frame), tuple);
        }
    }

    /// A UDP checksum that comes out as zero is sent as 0xffff.
    #[test]
    fn a_udp_checksum_is_never_zero() {
        let tuple = (0..).map(|flow| Tuple::nth(1, flow, 0.0)).find(|t| t.proto() == UDP).unwrap();
        let mut seen = false;
        for number in 0..=0x1_0000 {
            let mut frame = [0; 60];
            Frames::default().fill(tuple, number, &mut frame);
            let check = u16::from_be_bytes([frame[40], frame[41]]);
            assert_ne!(check, 0);
            seen |= check == 0xffff;
        }
        assert!(seen);
    }
}
