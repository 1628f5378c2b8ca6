//! Segments the large frames that a kernel gives in place of packets (GSO).

use super::checksum::{Transport, ipv4_header};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// The packets that a large frame becomes: TCP segments or UDP datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segmentation {
    Tcp,
    Udp,
}

impl Segmentation {
    fn proto(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    /// The end of the transport header. `bytes` are the first of the packet.
    fn header_end(self, bytes: &[u8], transport: &Transport) -> Option<usize> {
        let (header, min) = match self {
            Self::Tcp => (usize::from(*bytes.get(transport.l4 + 12)? >> 4) * 4, 20),
            Self::Udp => (8, 8),
        };
        let end = transport.l4 + header;
        (header >= min && end <= bytes.len().min(transport.end)).then_some(end)
    }
}

/// A frame in two parts: one that fitted the buffer, and the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitFrame<'a> {
    pub head: &'a [u8],
    pub tail: &'a [u8],
}

impl SplitFrame<'_> {
    fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Copies the bytes from `at` on into `out`.
    fn copy(&self, at: usize, out: &mut [u8]) {
        let from_head = self.head.len().saturating_sub(at).min(out.len());
        let (first, second) = out.split_at_mut(from_head);
        if !first.is_empty() {
            first.copy_from_slice(&self.head[at..at + from_head]);
        }
        if !second.is_empty() {
            let at = at + from_head - self.head.len();
            second.copy_from_slice(&self.tail[at..at + second.len()]);
        }
    }
}

/// How a large frame is segmented: a function of its headers alone, so that packets can be made one
/// at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentPlan {
    segmentation: Segmentation,
    transport: Transport,
    /// Bytes of all headers, which every packet begins with.
    header: usize,
    /// Payload bytes of each packet but the last, which may have fewer.
    payload: usize,
    total: usize,
}

impl SegmentPlan {
    /// `start` is where the kernel says that the transport header begins: in a tunnel not where we
    /// find one, and packets in tunnels are not segmented.
    pub fn new(frame: SplitFrame<'_>, segmentation: Segmentation, payload: usize, start: usize) -> Option<Self> {
        let transport = Transport::find(frame.head, frame.len())?;
        let header = segmentation.header_end(frame.head, &transport)?;
        let sound = transport.proto == segmentation.proto() && transport.l4 == start && payload > 0;
        sound.then(|| Self { segmentation, transport, header, payload, total: transport.end - header })
    }

    /// For a frame whose first packet this is: its payload is that of each but the last.
    pub fn of_packet(bytes: &[u8], transport: Transport, segmentation: Segmentation) -> Option<Self> {
        let header = segmentation.header_end(bytes, &transport)?;
        let total = transport.end - header;
        (total > 0).then_some(Self { segmentation, transport, header, payload: total, total })
    }

    /// Number of packets, at least one.
    pub fn packets(&self) -> usize {
        self.total.div_ceil(self.payload).max(1)
    }

    fn payload_of(&self, i: usize) -> usize {
        self.total.saturating_sub(i * self.payload).min(self.payload)
    }

    /// Bytes of packet `i`.
    pub fn len(&self, i: usize) -> usize {
        self.header + self.payload_of(i)
    }

    /// Bytes of headers that each packet begins with.
    pub fn header(&self) -> usize {
        self.header
    }

    /// Where in the large frame the payload of packet `i` begins.
    pub fn at(&self, i: usize) -> usize {
        self.header + i * self.payload
    }

    /// Makes packet `i`, its transport checksum partial. `out` has [`Self::len`] bytes, or only the
    /// first of them but all headers.
    pub fn write(&self, frame: SplitFrame<'_>, i: usize, out: &mut [u8]) {
        let (headers, payload) = out.split_at_mut(self.header);
        headers.copy_from_slice(&frame.head[..self.header]);
        frame.copy(self.at(i), payload);
        let last = i + 1 == self.packets();
        self.number(headers, i, self.payload_of(i), if last { FIN | PSH } else { 0 });
    }

    /// Makes of the large frame's headers those of packet `i`, which has so much payload. `flags`:
    /// those of the large frame that only the last packet has, as far as this one has them.
    pub fn number(&self, headers: &mut [u8], i: usize, payload: usize, flags: u8) {
        let length = self.header + payload;
        self.network(headers, i, length);
        let length = length - self.transport.l4;
        let pseudo = self.transport.pseudo(headers, length);
        let l4 = &mut headers[self.transport.l4..];
        match self.segmentation {
            Segmentation::Tcp => {
                let sequence = u32::from_be_bytes([l4[4], l4[5], l4[6], l4[7]]);
                let sequence = sequence.wrapping_add((i * self.payload) as u32);
                l4[4..8].copy_from_slice(&sequence.to_be_bytes());
                l4[13] &= !(FIN | PSH) | flags;
                if i > 0 {
                    l4[13] &= !CWR;
                }
                l4[16..18].copy_from_slice(&pseudo.to_be_bytes());
            }
            Segmentation::Udp => {
                l4[4..6].copy_from_slice(&(length as u16).to_be_bytes());
                l4[6..8].copy_from_slice(&pseudo.to_be_bytes());
            }
        }
    }

    /// Lengths, and of IPv4 the identification and header checksum.
    fn network(&self, headers: &mut [u8], i: usize, length: usize) {
        let Transport { l3, l4, ipv6, .. } = self.transport;
        let length = length - l3;
        if ipv6 {
            headers[l3 + 4..l3 + 6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
            return;
        }
        let ip = &mut headers[l3..l4];
        let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(i as u16);
        ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        ipv4_header(ip);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    use super::*;
    use crate::port::checksum::complete;

    const FLAGS: u8 = FIN | PSH | CWR;

    pub fn large(v6: bool, segmentation: Segmentation, vlan: bool, options: bool, payload: &[u8]) -> Vec<u8> {
        let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let ip = if v6 { link.ipv6([1; 16], [2; 16], 64) } else { link.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64) };
        let mut out = Vec::new();
        match segmentation {
            Segmentation::Tcp => {
                let tcp = ip.tcp(1, 2, u32::MAX - 5000, 4).ack(9).fin().psh();
                let options: &[u8] = if options { &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2] } else { &[] };
                tcp.options_raw(options).unwrap().write(&mut out, payload).unwrap();
                let l4 = if v6 { 54 } else { 34 };
                out[l4 + 13] |= CWR;
            }
            Segmentation::Udp => ip.udp(1, 2).write(&mut out, payload).unwrap(),
        }
        if vlan {
            out.splice(12..12, [0x81, 0, 0, 7]);
        }
        out
    }

    pub fn start(v6: bool, vlan: bool) -> usize {
        14 + if v6 { 40 } else { 20 } + if vlan { 4 } else { 0 }
    }

    /// The packet's payload, after all its sums have been checked.
    fn checked(bytes: &[u8]) -> Vec<u8> {
        let sliced = SlicedPacket::from_ethernet(bytes).unwrap();
        let (v4, v6) = match sliced.net.as_ref().unwrap() {
            NetSlice::Ipv4(ip) => {
                assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
                (Some(ip.header().to_header()), None)
            }
            NetSlice::Ipv6(ip) => (None, Some(ip.header().to_header())),
            NetSlice::Arp(_) => panic!("IP"),
        };
        match sliced.transport.as_ref().unwrap() {
            TransportSlice::Tcp(tcp) => {
                let sum = match (&v4, &v6) {
                    (Some(ip), _) => tcp.calc_checksum_ipv4(ip.source, ip.destination),
                    (_, Some(ip)) => tcp.calc_checksum_ipv6(ip.source, ip.destination),
                    _ => unreachable!(),
                };
                // A sum of zero may be written either way: both are zero in ones' complement.
                let canonical = |sum: u16| if sum == 0xffff { 0 } else { sum };
                assert_eq!(canonical(sum.unwrap()), canonical(tcp.checksum()));
                tcp.payload().to_vec()
            }
            TransportSlice::Udp(udp) => {
                let header = udp.to_header();
                let sum = match (&v4, &v6) {
                    (Some(ip), _) => header.calc_checksum_ipv4(ip, udp.payload()),
                    (_, Some(ip)) => header.calc_checksum_ipv6(ip, udp.payload()),
                    _ => unreachable!(),
                };
                assert_eq!(sum.unwrap(), udp.checksum());
                assert_eq!(usize::from(udp.length()), udp.payload().len() + 8);
                udp.payload().to_vec()
            }
            _ => panic!("TCP or UDP"),
        }
    }

    proptest! {
        #[test]
        fn packets_make_up_the_payload_and_their_sums_are_right(
            v6: bool, tcp: bool, vlan: bool, options: bool, size in 1..1500usize, split in 100..70_000usize, length in 1..60_000usize,
        ) {
            let segmentation = if tcp { Segmentation::Tcp } else { Segmentation::Udp };
            let payload: Vec<u8> = (0..length).map(|i| ((i * 31) >> 3) as u8).collect();
            let bytes = large(v6, segmentation, vlan, options, &payload);
            let (head, tail) = bytes.split_at(split.min(bytes.len()));
            let frame = SplitFrame { head, tail };
            let plan = SegmentPlan::new(frame, segmentation, size, start(v6, vlan)).unwrap();
            let mut whole = Vec::new();
            for i in 0..plan.packets() {
                let mut out = vec![0; plan.len(i)];
                plan.write(frame, i, &mut out);
                prop_assert!(complete(&mut out));
                let part = checked(&out);
                prop_assert!(part.len() == size || i + 1 == plan.packets());
                let l4 = start(v6, vlan);
                if segmentation == Segmentation::Tcp {
                    let sequence = u32::from_be_bytes(out[l4 + 4..l4 + 8].try_into().unwrap());
                    prop_assert_eq!(sequence, (u32::MAX - 5000).wrapping_add(whole.len() as u32));
                    let first = if i == 0 { CWR } else { 0 };
                    let last = if i + 1 == plan.packets() { FIN | PSH } else { 0 };
                    prop_assert_eq!(out[l4 + 13] & FLAGS, first | last);
                }
                whole.extend(part);
            }
            prop_assert_eq!(whole, payload);
        }

        #[test]
        fn no_bytes_make_it_panic(
            noise in proptest::collection::vec((0..100usize, any::<u8>()), 0..6), v6: bool, tcp: bool, size in 0..300usize, cut_at in 0..300usize,
        ) {
            let segmentation = if tcp { Segmentation::Tcp } else { Segmentation::Udp };
            let mut bytes = large(v6, segmentation, false, true, &[7; 200]);
            for (at, value) in noise {
                bytes[at] = value;
            }
            bytes.truncate(cut_at.max(1));
            let (head, tail) = bytes.split_at(bytes.len() / 2 + 1);
            let frame = SplitFrame { head, tail };
            if let Some(plan) = SegmentPlan::new(frame, segmentation, size, start(v6, false)) {
                for i in 0..plan.packets() {
                    plan.write(frame, i, &mut vec![0; plan.len(i)]);
                }
            }
        }
    }

    #[test]
    fn identifications_count_up() {
        let bytes = large(false, Segmentation::Tcp, false, false, &[0; 3000]);
        let frame = SplitFrame { head: &bytes, tail: &[] };
        let plan = SegmentPlan::new(frame, Segmentation::Tcp, 1000, 34).unwrap();
        let ids = (0..3).map(|i| {
            let mut out = vec![0; plan.len(i)];
            plan.write(frame, i, &mut out);
            u16::from_be_bytes([out[18], out[19]])
        });
        assert_eq!(ids.collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_tunnel_is_not_segmented() {
        let bytes = large(false, Segmentation::Udp, false, false, &[0; 3000]);
        let frame = SplitFrame { head: &bytes, tail: &[] };
        assert_eq!(SegmentPlan::new(frame, Segmentation::Udp, 1000, 34 + 50), None);
        assert_eq!(SegmentPlan::new(frame, Segmentation::Tcp, 1000, 34), None);
    }
}
