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
/// Longest IP packet.
const LONGEST: usize = 65_535;
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
