//! Joins packets into the large frame that a kernel would segment into them (GSO): the inverse of
//! [`SegmentPlan`].
//!
//! Packets are joined when that plan, for the frame made of them, gives each of them back bit for
//! bit. So it does not matter what became of them in between: one that was changed, or follows one
//! that was lost, begins another frame.

use super::{
    checksum::Transport,
    gso::{SegmentPlan, Segmentation},
};
use crate::dpdk::{JOINED_HEADERS, VnetHeader};

const ETHERNET: usize = 14;
const IPV6: usize = 40;
/// Longest IP packet of a frame: with its Ethernet header it is below 64 KB, beyond which a kernel
/// segments it.
const LONGEST: usize = 65_535 - ETHERNET;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// A packet whose transport checksum is partial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    /// Its first bytes, all headers among them.
    pub bytes: &'a [u8],
    /// Length of all.
    pub length: usize,
}

/// Packets that are one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    pub packets: usize,
    /// Bytes of headers, which the frame has once.
    pub header: usize,
    pub vnet: VnetHeader,
}

/// Finds how many packets from the first on can be one frame, and writes its headers. `None` when
/// these are fewer than two. `longest`: the longest IP packet that the interface takes.
pub(super) fn join<'a>(
    mut packets: impl Iterator<Item = Packet<'a>>,
    longest: usize,
    head: &mut [u8; JOINED_HEADERS],
) -> Option<Joined> {
    let front = Front::new(packets.next()?, longest)?;
    let (mut count, mut total, mut ends) = (1, front.payload, front.flags_of(front.first) & (FIN | PSH));
    while ends == 0 && total % front.payload == 0 {
        let Some(next) = packets.next() else { break };
        let Some(payload) =
            front.continues(next, count).filter(|more| front.header - ETHERNET + total + more <= LONGEST)
        else {
            break;
        };
        ends = front.flags_of(next.bytes) & (FIN | PSH);
        (count, total) = (count + 1, total + payload);
    }
    if count < 2 {
        return None;
    }
    let headers = head.get_mut(..front.header)?;
    headers.copy_from_slice(&front.first[..front.header]);
    if front.segmentation == Segmentation::Tcp {
        headers[front.transport.l4 + 13] |= ends;
    }
    front.plan.number(headers, 0, total, FIN | PSH);
    Some(Joined { packets: count, header: front.header, vnet: front.vnet() })
}

/// The first packet of a frame, and how later ones follow from it.
struct Front<'a> {
    first: &'a [u8],
    transport: Transport,
    segmentation: Segmentation,
    plan: SegmentPlan,
    header: usize,
    payload: usize,
}

impl<'a> Front<'a> {
    /// Of a TCP or UDP packet right behind an Ethernet header, without options of IPv6.
    fn new(packet: Packet<'a>, longest: usize) -> Option<Self> {
        let Packet { bytes, length } = packet;
        let transport = Transport::find(bytes, length)?;
        let segmentation = match transport.proto {
            6 => Segmentation::Tcp,
            17 => Segmentation::Udp,
            _ => return None,
        };
        let plain = transport.l3 == ETHERNET && (!transport.ipv6 || transport.l4 == ETHERNET + IPV6);
        let whole = transport.end == length && length - ETHERNET <= longest;
        if !plain || !whole {
            return None;
        }
        let plan = SegmentPlan::of_packet(bytes, transport, segmentation)?;
        let (header, payload) = (plan.header(), length - plan.header());
        let front = Self { first: bytes, transport, segmentation, plan, header, payload };
        // What is wrong in the first packet would be put right in the frame.
        (payload > 0 && header <= JOINED_HEADERS && front.continues(packet, 0).is_some()).then_some(front)
    }

    /// The payload of a packet that is the `i`th of the frame.
    fn continues(&self, packet: Packet<'_>, i: usize) -> Option<usize> {
        let headers = packet.bytes.get(..self.header)?;
        let payload = packet.length.checked_sub(self.header).filter(|bytes| (1..=self.payload).contains(bytes))?;
        let mut expected = [0; JOINED_HEADERS];
        let expected = &mut expected[..self.header];
        expected.copy_from_slice(&self.first[..self.header]);
        let ends = self.flags_of(packet.bytes) & (FIN | PSH);
        if self.segmentation == Segmentation::Tcp {
            expected[self.transport.l4 + 13] |= ends;
        }
        self.plan.number(expected, i, payload, ends);
        (headers == expected).then_some(payload)
    }

    /// The flags of a TCP packet, 0 of another.
    fn flags_of(&self, bytes: &[u8]) -> u8 {
        let at = self.transport.l4 + 13;
        if self.segmentation == Segmentation::Tcp { bytes.get(at).copied().unwrap_or_default() } else { 0 }
    }

    fn vnet(&self) -> VnetHeader {
        let (kind, field) = match (self.segmentation, self.transport.ipv6) {
            (Segmentation::Tcp, false) => (VnetHeader::TCP4, 16),
            (Segmentation::Tcp, true) => (VnetHeader::TCP6, 16),
            (Segmentation::Udp, _) => (VnetHeader::UDP, 6),
        };
        let with_cwr = self.flags_of(self.first) & CWR != 0;
        VnetHeader::segmented(kind, with_cwr, self.header, self.payload, (self.transport.l4, field))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{
            checksum::is_partial,
            gso::{
                SplitFrame,
                tests::{large, start},
            },
        },
        *,
    };

    const LONGEST_HERE: usize = 1500;

    fn cut(frame: &[u8], segmentation: Segmentation, payload: usize, start: usize) -> Vec<Vec<u8>> {
        let frame = SplitFrame { head: frame, tail: &[] };
        let plan = SegmentPlan::new(frame, segmentation, payload, start).unwrap();
        let packet = |i| {
            let mut out = vec![0; plan.len(i)];
            plan.write(frame, i, &mut out);
            out
        };
        (0..plan.packets()).map(packet).collect()
    }

    /// Bytes of payload beside the headers, of a packet whose payload lies elsewhere.
    const BESIDE: usize = 8;
    /// Longest headers of any [`Kind`].
    const LONGEST_HEADERS: usize = 14 + 4 * 4 + 40 + 80 + 60;

    fn beside(bytes: &[u8]) -> &[u8] {
        &bytes[..bytes.len().min(LONGEST_HEADERS + BESIDE)]
    }

    /// The headers of a large frame.
    #[derive(Clone, Copy, Debug)]
    struct Kind {
        v6: bool,
        udp: bool,
        tags: usize,
        /// Options of IPv4, or a header of IPv6, in units of 4 or 8 bytes.
        ip_options: usize,
        /// In units of 4 bytes.
        tcp_options: usize,
    }

    impl Kind {
        fn segmentation(self) -> Segmentation {
            if self.udp { Segmentation::Udp } else { Segmentation::Tcp }
        }

        /// Where the transport header begins.
        fn start(self) -> usize {
            let options = if self.v6 { 8 } else { 4 } * self.ip_options;
            start(self.v6, false) + 4 * self.tags + options
        }

        fn header(self) -> usize {
            self.start() + if self.udp { 8 } else { 20 + 4 * self.tcp_options }
        }

        fn frame(self, payload: &[u8]) -> Vec<u8> {
            let mut bytes = large(self.v6, self.segmentation(), false, false, payload);
            let l4 = start(self.v6, false);
            if !self.udp {
                // A window scale, and then no operation.
                let options: Vec<u8> = (0..4 * self.tcp_options).map(|at| [3, 3, 7, 1][at.min(3)]).collect();
                bytes[l4 + 12] += (self.tcp_options as u8) << 4;
                bytes.splice(l4 + 20..l4 + 20, options);
            }
            match self.v6 {
                // Destination options, padded.
                true if self.ip_options > 0 => {
                    let length = 8 * self.ip_options;
                    let mut header = vec![bytes[20], self.ip_options as u8 - 1, 1, length as u8 - 4];
                    header.resize(length, 0);
                    bytes[20] = 60;
                    bytes.splice(l4..l4, header);
                }
                true => {}
                false => {
                    bytes[14] += self.ip_options as u8;
                    bytes.splice(l4..l4, vec![1; 4 * self.ip_options]);
                }
            }
            let length = bytes.len() - if self.v6 { 54 } else { 14 };
            bytes[if self.v6 { 18 } else { 16 }..][..2].copy_from_slice(&(length as u16).to_be_bytes());
            if !self.v6 {
                super::super::checksum::ipv4_header(&mut bytes[14..l4 + 4 * self.ip_options]);
            }
            for tag in 0..self.tags {
                bytes.splice(12..12, [0x81, 0, 0x20, tag as u8 + 7]);
            }
            bytes
        }

        /// The packets of such a frame.
        fn packets(self, payload: usize, total: usize) -> Vec<(Vec<u8>, bool)> {
            let bytes: Vec<u8> = (0..total).map(|at| (at % 251) as u8).collect();
            let packets = cut(&self.frame(&bytes), self.segmentation(), payload, self.start());
            packets.into_iter().map(|bytes| (bytes, true)).collect()
        }

        /// Whether such packets leave as one frame.
        fn is_joined(self) -> bool {
            self.tags == 0 && !(self.v6 && self.ip_options > 0) && self.header() <= JOINED_HEADERS
        }
    }

    fn kind() -> impl Strategy<Value = Kind> {
        (any::<bool>(), any::<bool>(), 0..3usize, 0..=10usize, 0..=10usize).prop_map(
            |(v6, udp, tags, ip_options, tcp_options)| Kind {
                v6,
                udp,
                tags: tags.saturating_sub(1),
                // Of IPv6 mostly none: with them packets are not joined.
                ip_options: if v6 { ip_options.saturating_sub(8) } else { ip_options },
                tcp_options,
            },
        )
    }

    /// The packets into which the kernel cuts the frames that it is given.
    fn cut_again(packets: &[(Vec<u8>, bool)]) -> Vec<Vec<u8>> {
        let mut again = Vec::new();
        for (frame, vnet) in sent(packets) {
            match vnet {
                Some(vnet) => {
                    let (start, _) = vnet.checksum().unwrap();
                    let cut = cut(&frame, segmentation(&vnet), vnet.gso_size.into(), start);
                    assert!(cut.len() > 1);
                    again.extend(cut);
                }
                None => again.push(frame),
            }
        }
        again
    }

    /// What goes to the kernel for these packets, of which it is known where the checksum is
    /// partial: frames, and how each is to be segmented.
    fn sent(packets: &[(Vec<u8>, bool)]) -> Vec<(Vec<u8>, Option<VnetHeader>)> {
        let (mut rest, mut sent) = (packets, Vec::new());
        while let [(first, _), ..] = rest {
            let partial = rest.iter().take_while(|(_, partial)| *partial);
            // All headers and a bit, as of packets whose payload lies elsewhere.
            let packets = partial.map(|(bytes, _)| Packet { bytes: beside(bytes), length: bytes.len() });
            let mut head = [0; JOINED_HEADERS];
            match join(packets, LONGEST_HERE, &mut head) {
                Some(Joined { packets, header, vnet }) => {
                    let mut frame = head[..header].to_vec();
                    rest[..packets].iter().for_each(|(bytes, _)| frame.extend(&bytes[header..]));
                    sent.push((frame, Some(vnet)));
                    rest = &rest[packets..];
                }
                None => {
                    sent.push((first.clone(), None));
                    rest = &rest[1..];
                }
            }
        }
        sent
    }

    fn segmentation(vnet: &VnetHeader) -> Segmentation {
        if vnet.segmentation() == VnetHeader::UDP { Segmentation::Udp } else { Segmentation::Tcp }
    }

    proptest! {
        /// The frame that was cut is the frame that is joined.
        #[test]
        fn a_frame_goes_on_as_it_came(
            v6: bool, udp: bool, options: bool, payload in 200..1400usize, cwr: bool,
            total in 1..20_000usize, byte: u8,
        ) {
            let kind = if udp { Segmentation::Udp } else { Segmentation::Tcp };
            let mut frame = large(v6, kind, false, options, &vec![byte; total]);
            let l4 = start(v6, false);
            if !cwr && !udp {
                frame[l4 + 13] &= !CWR;
            }
            let packets: Vec<_> = cut(&frame, kind, payload, l4).into_iter().map(|bytes| (bytes, true)).collect();
            let sent = sent(&packets);
            prop_assert_eq!(sent.len(), 1);
            let (joined, vnet) = &sent[0];
            prop_assert_eq!(joined.len(), frame.len());
            prop_assert_eq!(vnet.is_some(), total > payload);
            if let Some(vnet) = vnet {
                let field = if udp { 6 } else { 16 };
                let right = match (udp, v6) {
                    (true, _) => VnetHeader::UDP,
                    (_, true) => VnetHeader::TCP6,
                    _ => VnetHeader::TCP4,
                };
                let header = frame.len() - total;
                prop_assert_eq!(*vnet, VnetHeader::segmented(right, cwr && !udp, header, payload, (l4, field)));
                prop_assert!(is_partial(joined));
                // But for its checksum, which the sender had completed.
                let mut partial = frame.clone();
                partial[l4 + field..][..2].copy_from_slice(&joined[l4 + field..][..2]);
                prop_assert_eq!(joined, &partial);
            }
        }

        /// Whatever became of packets on the way, what is sent is cut into these packets, bit for bit.
        #[test]
        fn what_is_joined_is_cut_into_the_same(
            kind in kind(), payload in 30..600usize, total in 1..8_000usize,
            lost in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
            complete in proptest::collection::vec(any::<prop::sample::Index>(), 0..3),
            changed in proptest::collection::vec(
                (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..=255u8), 0..6),
            hops in 0..3u8, twice: bool,
        ) {
            let mut packets = kind.packets(payload, total);
            let (l3, l4) = (14 + 4 * kind.tags, kind.start());
            for packet in &mut packets {
                // A router: MACs, time to live, checksum.
                packet.0[5] = hops;
                packet.0[l3 + if kind.v6 { 7 } else { 8 }] -= hops;
                if !kind.v6 {
                    super::super::checksum::ipv4_header(&mut packet.0[l3..l4]);
                }
            }
            prop_assert!(packets.len() < 2 || !kind.is_joined() || sent(&packets)[0].1.is_some());
            for (at, byte, by) in changed {
                let packet = &mut packets[at.index(total.div_ceil(payload))].0;
                let byte = byte.index(packet.len().min(kind.header() + BESIDE));
                packet[byte] ^= by;
            }
            complete.iter().for_each(|at| {
                let at = at.index(packets.len());
                packets[at].1 = false;
            });
            if twice {
                packets.extend(packets.clone());
            }
            lost.iter().for_each(|at| if packets.len() > 1 { drop(packets.remove(at.index(packets.len()))) });

            let expected: Vec<_> = packets.iter().map(|(bytes, _)| bytes.clone()).collect();
            prop_assert_eq!(cut_again(&packets), expected);
        }

        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..140), length in 0..70_000usize, ip in 0..3u8,
            proto in prop_oneof![Just(6u8), Just(17)],
        ) {
            let mut bytes = bytes;
            if bytes.len() > 40 && ip > 0 {
                let head = if ip == 1 { [8, 0, 0x45] } else { [0x86, 0xdd, 0x60] };
                bytes[12..15].copy_from_slice(&head);
                bytes[if ip == 1 { 23 } else { 20 }] = proto;
                let total = (length as u16).wrapping_sub(if ip == 1 { 14 } else { 54 });
                bytes[if ip == 1 { 16 } else { 18 }..][..2].copy_from_slice(&total.to_be_bytes());
            }
            let packet = Packet { bytes: &bytes, length: length.max(bytes.len()) };
            join([packet; 4].into_iter(), 65_535, &mut [0; JOINED_HEADERS]);
        }
    }

    /// Each bit of all headers, in each of three packets.
    #[test]
    fn a_changed_bit_is_sent_as_it_is() {
        let (none, some, most) = (0, 3, 10);
        let lengths = [(none, none), (none, some), (none, most), (1, none), (some, some), (most, none), (most, most)];
        for (v6, udp, tags) in (0..12).map(|i| (i & 1 == 1, i & 2 == 2, i >> 2)) {
            for (ip_options, tcp_options) in lengths {
                let kind = Kind { v6, udp, tags, ip_options, tcp_options };
                let packets = kind.packets(40, 110);
                assert_eq!((packets.len(), sent(&packets).len() == 1), (3, kind.is_joined()), "{kind:?}");
                let places = (0..3).flat_map(|packet| (0..8 * kind.header()).map(move |bit| (packet, bit)));
                for (packet, bit) in places {
                    let mut packets = packets.clone();
                    packets[packet].0[bit / 8] ^= 1 << (bit % 8);
                    let expected: Vec<_> = packets.iter().map(|(bytes, _)| bytes.clone()).collect();
                    assert_eq!(cut_again(&packets), expected, "bit {bit} of packet {packet}, {kind:?}");
                }
            }
        }
    }

    /// A packet that the interface would refuse for its length is not hidden in a frame.
    #[test]
    fn packets_beyond_the_mtu_go_one_by_one() {
        let frame = large(false, Segmentation::Tcp, false, false, &[1; 6000]);
        let packets = cut(&frame, Segmentation::Tcp, LONGEST_HERE - 39, 34);
        assert!(sent(&packets.into_iter().map(|bytes| (bytes, true)).collect::<Vec<_>>()).len() > 4);
    }
}
