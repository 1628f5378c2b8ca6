//! What names a flow here: 104 bits, and the four fragments as which a bucket sums them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::offset_of;

use crate::answers::FlowName;
use crate::pisa::Picks;
use crate::pisa::hash::{BurstKey, Crc, HashFamily, HashLayout};
use crate::wire::{Flow, FlowKey, Headers, Net, Places, Tuple4, Tuple6, places};

/// Bits of the fingerprint that fills the fourth fragment.
pub const FINGERPRINT_BITS: u32 = 20;
const FINGERPRINT_MASK: u32 = (1 << FINGERPRINT_BITS) - 1;
/// Names the three CRCs of an IPv6 digest.
const LABEL: &str = "chamelemon/ipv6";
/// Bytes of an ID.
pub const KEY: usize = 13;
/// Fragments of an ID, each below 2³¹ < p.
pub const FRAGMENTS: usize = 4;
const LOW: u32 = (1 << 31) - 1;
/// Where an ID's last word has the protocol.
const PROTO_AT: u32 = 24;
/// IANA has reserved it: it marks an IPv6 digest.
const DIGEST_PROTO: u8 = 255;

/// An IPv4 five-tuple, or a digest of an IPv6 one: source 32 bits, destination 32, ports 2 × 16,
/// protocol 8.
///
/// **The digest** is three CRC-32s of the 37 bytes of the IPv6 five-tuple, in the places of source,
/// destination and ports, with the lowest bit of the ports set and protocol 255: 95 bits. No IPv4
/// packet has such a tuple, because a packet of protocol 255 has no ports, so IDs of the two
/// families never meet. Two of a million IPv6 flows share a digest once in 10¹⁶ networks.
///
/// The words are source, destination and ports, and the protocol in the highest byte of the fourth.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId([u32; 4]);

impl FlowId {
    pub fn of_v4(Tuple4(tuple): Tuple4) -> Self {
        Self::of_numbers([(tuple >> 72) as u32, (tuple >> 40) as u32, (tuple >> 8) as u32, u32::from(tuple as u8)])
    }

    /// Of source, destination, ports and protocol.
    #[inline(always)]
    fn of_numbers([source, destination, ports, proto]: [u32; 4]) -> Self {
        Self([source, destination, ports, proto << PROTO_AT])
    }

    /// Source, destination, ports, protocol.
    #[inline(always)]
    fn numbers(self) -> [u32; 4] {
        let [source, destination, ports, proto] = self.0;
        [source, destination, ports, proto >> PROTO_AT]
    }

    /// The ID of an IPv4 packet.
    #[inline(always)]
    pub fn of_ipv4(headers: &Headers) -> Self {
        let ports = u32::from(headers.sport) << 16 | u32::from(headers.dport);
        Self::of_numbers([headers.src_ip as u32, headers.dst_ip as u32, ports, headers.proto.into()])
    }

    /// The same, by a CPU that picks its bytes at once.
    #[inline(always)]
    pub fn picked(picks: Picks, headers: &Headers) -> Self {
        Self(picks.words(headers, &PLACES))
    }

    fn tuple(self) -> Tuple4 {
        let [source, destination, ports, proto] = self.numbers().map(u128::from);
        Tuple4(source << 72 | destination << 40 | ports << 8 | proto)
    }

    #[inline(always)]
    pub fn of_words(words: [u32; 4]) -> Self {
        Self(words)
    }

    /// The words whose first bytes in network order are hashed.
    #[inline(always)]
    pub fn words(self) -> [u32; 4] {
        self.0
    }

    /// A hash of it, if it is a digest: the first word is a CRC.
    pub fn hash(self) -> u32 {
        let [first, ..] = self.0;
        first
    }

    /// The bytes that are hashed, those of [`Tuple4`].
    #[inline(always)]
    pub fn bytes(self) -> [u8; KEY] {
        BurstKey::bytes(&self.0)
    }

    pub fn is_digest(self) -> bool {
        let [_, _, ports, proto] = self.numbers();
        proto == u32::from(DIGEST_PROTO) && ports & 1 == 1
    }

    /// The flow, when it is one of IPv4; a digest cannot name its own.
    pub fn flow(self) -> Option<Flow> {
        (!self.is_digest()).then(|| self.tuple().flow())
    }

    /// The name of the flow in answers.
    pub fn name(self) -> FlowName {
        let [a, b, c, d, e, f, g, h, i, j, k, l, _] = self.bytes();
        self.flow().map_or(FlowName::Digest([a, b, c, d, e, f, g, h, i, j, k, l]), FlowName::Flow)
    }

    /// Figure 13: the lower 31 bits of the source, of the destination and of the ports, then the
    /// three bits left over, the protocol and the fingerprint, which is the high bits of a hash.
    #[inline(always)]
    pub fn fragments(self, hash: u32) -> [u32; FRAGMENTS] {
        let [source, destination, ports, proto] = self.0;
        let left_over = source >> 31 << 30 | destination >> 31 << 29 | ports >> 31 << 28;
        let rest = left_over | proto >> (PROTO_AT - FINGERPRINT_BITS) | fingerprint(hash);
        [source & LOW, destination & LOW, ports & LOW, rest]
    }

    /// The ID and fingerprint of these fragments; `None` when one has more than 31 bits, which no
    /// ID's has.
    #[inline(always)]
    pub fn of_fragments([source, destination, ports, rest]: [u32; FRAGMENTS]) -> Option<(Self, u32)> {
        if (source | destination | ports | rest) > LOW {
            return None;
        }
        let (fingerprint, rest) = (rest & FINGERPRINT_MASK, rest >> FINGERPRINT_BITS);
        let whole = |low: u32, top: u32| low | (rest >> top & 1) << 31;
        let id = [whole(source, 10), whole(destination, 9), whole(ports, 8), u32::from(rest as u8)];
        Some((Self::of_numbers(id), fingerprint))
    }
}

/// As one number, which takes a hasher less time than four.
impl Hash for FlowId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.tuple().0);
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl fmt::Debug for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where headers have an IPv4 packet's ID.
const PLACES: Places = {
    let mut words = places(&[
        (offset_of!(Headers, src_ip), 4),
        (offset_of!(Headers, dst_ip), 4),
        (offset_of!(Headers, dport), 2),
        (offset_of!(Headers, sport), 2),
    ]);
    words[words.len() - 1] = offset_of!(Headers, proto) as u8;
    words
};

/// The fingerprint of an ID with this hash.
#[inline(always)]
pub fn fingerprint(hash: u32) -> u32 {
    hash >> (u32::BITS - FINGERPRINT_BITS)
}

/// The hashes of an IPv6 flow's digest.
pub fn digests() -> [HashLayout; 3] {
    [0, 1, 2].map(|index| HashLayout::crc(LABEL, index).over(Tuple6::FIELDS))
}

/// Gives packets their IDs.
#[derive(Clone, Copy, Debug)]
pub struct Naming {
    crcs: [Crc; 3],
}

impl Naming {
    pub fn new(hashes: &HashFamily) -> Self {
        Self { crcs: digests().map(|hash| Crc::new(hash.polynomial(hashes))) }
    }

    /// The ID of a packet's flow, `None` for what is neither IPv4 nor IPv6.
    #[inline(always)]
    pub fn id(&self, headers: &Headers) -> Option<FlowId> {
        match headers.net {
            Net::Ipv4 => Some(FlowId::of_ipv4(headers)),
            Net::Ipv6 => Some(self.digest(Tuple6::of(headers))),
            Net::Other => None,
        }
    }

    /// Whether that is the ID of a packet's flow.
    #[inline(always)]
    pub fn is_id(&self, id: FlowId, headers: &Headers) -> bool {
        self.id(headers) == Some(id)
    }

    /// Out of line: the loops over packets need the registers.
    #[inline(never)]
    pub fn digest(&self, tuple: Tuple6) -> FlowId {
        let [a, b, c] = self.crcs.each_ref().map(|crc| crc.hash_key(tuple));
        FlowId::of_numbers([a, b, c | 1, DIGEST_PROTO.into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pisa::Vectors;
    use crate::pisa::hash::Polynomial;
    use crate::wire::parse;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fragments_hold_the_id(id in 0u128..1 << 104, hash: u32) {
            let id = FlowId::of_v4(Tuple4(id));
            let fragments = id.fragments(hash);
            prop_assert!(fragments.iter().all(|&fragment| fragment < 1 << 31));
            prop_assert_eq!(FlowId::of_fragments(fragments), Some((id, hash >> 12)));
        }

        /// Its parts are those of the five-tuple, in the same order.
        #[test]
        fn an_id_is_a_five_tuple(one in 0u128..1 << 104, other in 0u128..1 << 104) {
            let ids = [one, other].map(|tuple| FlowId::of_v4(Tuple4(tuple)));
            prop_assert_eq!(ids.map(FlowId::tuple), [one, other].map(Tuple4));
            prop_assert_eq!(ids.map(FlowId::bytes), [one, other].map(|tuple| Tuple4(tuple).bytes()));
            prop_assert_eq!(ids[0].cmp(&ids[1]), one.cmp(&other));
        }

        /// What the parser makes of an IPv4 packet is never taken for a digest.
        #[test]
        fn no_ipv4_packet_is_a_digest(proto: u8, payload: [u8; 40]) {
            let mut frame = [0; 74];
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[17] = 60;
            frame[23] = proto;
            frame[26..66].copy_from_slice(&payload);
            let mut headers = Headers::default();
            parse(&frame, &mut headers).unwrap();
            let naming = Naming::new(&HashFamily::standard(LABEL));
            let id = naming.id(&headers).unwrap();
            prop_assert!(!id.is_digest());
            if let Some(picks) = Vectors::here().picks() {
                prop_assert_eq!(FlowId::picked(picks, &headers), id);
            }
            prop_assert!(naming.is_id(id, &headers));
            for other in [
                Headers { src_ip: headers.src_ip ^ 1, ..headers },
                Headers { dst_ip: headers.dst_ip ^ 1 << 31, ..headers },
                Headers { sport: headers.sport ^ 1, ..headers },
                Headers { dport: headers.dport ^ 1 << 15, ..headers },
                Headers { proto: headers.proto ^ 1, ..headers },
                Headers { net: Net::Ipv6, ..headers },
                Headers { net: Net::Other, ..headers },
            ] {
                prop_assert!(!naming.is_id(id, &other));
            }
            prop_assert_eq!(id.flow().unwrap().proto, Some(headers.proto));
        }
    }

    #[test]
    fn the_digest_is_pinned() {
        let naming = Naming::new(&HashFamily::standard(LABEL));
        let digest = naming.digest(Tuple6(1, 2, 3 << 24 | 4 << 8 | 17));
        assert!(digest.is_digest() && digest.flow().is_none());
        assert_ne!(digest, naming.digest(Tuple6(1, 2, 3 << 24 | 5 << 8 | 17)));
        let expected = [0, 1, 2].map(|i| {
            let bytes = Tuple6(1, 2, 3 << 24 | 4 << 8 | 17).bytes();
            let polynomial = Polynomial::STANDARD[i];
            crate::pisa::hash::bitwise::crc(polynomial, u32::MAX, u32::MAX, &bytes)
        });
        let text = format!("ipv6 flow {:08x}{:08x}{:08x}", expected[0], expected[1], expected[2] | 1);
        assert_eq!(digest.to_string(), text);
    }
}
