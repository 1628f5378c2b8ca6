//! The hash that puts flows into groups: the same in all switches of a network.

use std::fmt;
use std::num::NonZeroU32;

use crate::pisa::hash::{Crcs, HashFamily, HashLayout, HighSlots, SlotRange, index_hash};
use crate::pisa::{Added, BATCH, HashUse, Phv, StageUse};
use crate::wire::{Flow, FlowKey, Headers, Net, Tuple4, Tuple6};

/// The labels of the two CRCs.
const SHARED: &str = "hopcounters/shared";
const GROUP: &str = "hopcounters/group";

/// The hash units.
#[derive(Clone)]
pub struct Hashes {
    /// The group's own and the shared one.
    crcs: Crcs<2>,
    family: HashFamily,
}

/// The index hash of an address family's five-tuples. Its highest bits are the group.
fn layout<K: FlowKey>(groups: u32) -> HashLayout {
    let range = SlotRange::Parts(HighSlots { slots: NonZeroU32::new(groups).unwrap_or(NonZeroU32::MIN), spare: 0 });
    HashLayout::index(SHARED, GROUP, 0).over(K::FIELDS).within(range)
}

impl Hashes {
    pub fn new(family: &HashFamily) -> Self {
        let hash = layout::<Tuple4>(1);
        let crcs = Crcs::new([hash.polynomial(family), hash.shared_polynomial(family)]);
        Self { crcs, family: family.clone() }
    }

    /// The hash functions of the deployment, of which these are some.
    pub fn family(&self) -> &HashFamily {
        &self.family
    }

    /// Whether they are of this deployment.
    pub fn are_of(&self, family: &HashFamily) -> bool {
        self.family == *family
    }

    #[inline(always)]
    fn of_key<K: FlowKey>(&self, key: K) -> u32 {
        let [own, shared] = self.crcs.hash_key(key);
        index_hash(own, shared)
    }

    /// The hash of a packet's flow; of a packet that is not IP a meaningless value.
    #[inline(always)]
    pub fn of_headers(&self, headers: &Headers) -> u32 {
        match headers.net {
            Net::Ipv6 => self.of_key(Tuple6::of(headers)),
            _ => self.of_key(Tuple4::of(headers)),
        }
    }

    /// The hashes of the packets of a batch, in order; of a packet that is not IP a meaningless value.
    #[inline(always)]
    pub fn of_batch(&self, phvs: &[Phv], hashes: &mut [u32; BATCH]) {
        self.of_ipv4(phvs, hashes);
        let packets = hashes.iter_mut().zip(phvs).filter(|(_, phv)| phv.headers.net == Net::Ipv6);
        packets.for_each(|(hash, phv)| *hash = self.of_key(Tuple6::of(&phv.headers)));
    }

    /// As [`Self::of_batch`], of packets that all are IPv4.
    #[inline(always)]
    pub fn of_ipv4(&self, phvs: &[Phv], hashes: &mut [u32; BATCH]) {
        let mut crcs = [[0; BATCH]; 2];
        self.crcs.hash_packets(phvs, &mut crcs);
        let [own, shared] = &crcs;
        for (hash, (own, shared)) in hashes.iter_mut().zip(own.iter().zip(shared)) {
            *hash = index_hash(*own, *shared);
        }
    }

    /// The hash of a five-tuple; `None` of a flow that is named by other fields.
    pub fn of_flow(&self, flow: &Flow) -> Option<u32> {
        Headers::of_flow(flow).map(|headers| self.of_headers(&headers))
    }

    /// The hash that names a counter of a row with this number of counters.
    pub fn source(groups: u32) -> HashLayout {
        layout::<Tuple4>(groups)
    }

    /// The hash of packets that are not IPv4.
    pub fn of_ipv6(groups: u32) -> HashLayout {
        layout::<Tuple6>(groups)
    }

    /// The stages in front of the counters: the shared CRC, the sum, and its halves joined.
    pub fn usage(groups: u32) -> [StageUse; 3] {
        let hash = layout::<Tuple4>(groups);
        let sum = HashUse::new("hash of a flow", u32::BITS, Added::Field, Some(&hash));
        let shared = HashUse::new("shared hash", u32::BITS, Added::No, None);
        [StageUse::hashing(vec![shared]), StageUse::hashing(vec![sum]), StageUse::default()]
    }
}

impl PartialEq for Hashes {
    fn eq(&self, other: &Self) -> bool {
        self.family == other.family
    }
}

impl fmt::Debug for Hashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hashes(secret)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A batch, a packet and a flow have the hash that the layout defines.
        #[test]
        fn units_are_their_layout(seed: u64, tuple in 0u128..1 << 104, src: u128, dst: u128, ports in 0u64..1 << 40) {
            let family = HashFamily::reproducible(seed);
            let hashes = Hashes::new(&family);
            let flows = [Tuple4(tuple).flow(), Tuple6(src, dst, ports).flow()];
            let headers = flows.map(|flow| Headers::of_flow(&flow).unwrap());
            let phvs = headers.map(|headers| Phv { headers, ..Phv::default() });
            let (mut batch, mut ipv4) = ([0; BATCH], [0; BATCH]);
            hashes.of_batch(&phvs, &mut batch);
            hashes.of_ipv4(&[phvs[0]; 2], &mut ipv4);
            prop_assert_eq!([batch[0]; 2], [ipv4[0], ipv4[1]]);
            let keys: [Vec<u8>; 2] = [Tuple4(tuple).bytes().to_vec(), Tuple6(src, dst, ports).bytes().to_vec()];
            let layouts = [Hashes::source(64), Hashes::of_ipv6(64)];
            for (place, layout) in layouts.iter().enumerate() {
                let right = layout.of_key(&family, &keys[place]);
                let found = [hashes.of_flow(&flows[place]).unwrap(), hashes.of_headers(&headers[place]), batch[place]];
                prop_assert_eq!(found, [right; 3]);
                prop_assert_eq!(layout.slot_of_key(&family, &keys[place]), Some(right >> 26));
            }
        }
    }
}
