//! The hashes of a fragment: the counter of a flow, its sign, and the sub-epoch in which it is counted.
//!
//! ```text
//! index  = join((CRC 0 (key) ⊕ a) + CRC 1 (key))     counter = its highest bits (HighRange)
//! sample = join((CRC 2 (key) ⊕ b) + CRC 1 (key))     sub-epoch = its highest bits; sign = bit 25
//! join(sum) = sum ⊕ (sum << 16)                      all modulo 2³²
//! ```
//! The CRCs are those of the network, so a query hashes a flow once. The words a and b follow from the
//! name of the switch and the number of the epoch: flows which share a counter in one switch and epoch
//! seldom do in another. An exclusive or with a CRC alone would change nothing: two keys collide under all
//! constants or under none. The carries of the sum break that, as they do in an
//! [index hash](crate::pisa::hash::index), which is joined for the same reason.

use std::fmt;

use super::Config;
use crate::pisa::hash::{Crc, HashFamily, HashLayout, HighRange, HighSlots, SlotRange, index_hash};
use crate::pisa::{BATCH, HashUse, MatchUse, Slot, StageUse};
use crate::trace::SplitMix64;
use crate::wire::{FlowKey, Headers, KeyField, Net, Tuple4, Tuple6};

/// The label of the CRCs; their indices are 0, 1 and 2.
pub const LABEL: &str = "disketch/crc";
/// A length that is no power of two is met to one value in 16.
const SPARE: u32 = 4;
/// Bits of a sub-epoch's number, of the sample hash.
const SUB_EPOCH_BITS: u32 = 6;
/// The field that names the counter.
pub const SLOT: &str = "disketch.slot";

/// Where a flow is counted in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub slot: u32,
    /// Count Sketch subtracts it.
    pub is_negative: bool,
    sample: u32,
}

impl Place {
    /// The sub-epoch in which the flow is counted, of 2 to the power of `cuts`.
    #[inline(always)]
    pub fn sub_epoch(&self, cuts: u32) -> u32 {
        (u64::from(self.sample) >> (u32::BITS - cuts)) as u32
    }
}

/// The constants of a switch in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochConstants([u32; 2]);

/// The FNV-1a hash of the name of a switch.
fn salt(switch: &str) -> u64 {
    switch.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The CRCs of a flow's key, the same in all switches of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCrcs([u32; 3]);

/// The hash units of one switch.
#[derive(Clone)]
pub struct Hashes {
    family: HashFamily,
    crcs: [Crc; 3],
    range: HighRange,
    salt: u64,
}

impl Hashes {
    pub fn new(config: &Config, switch: &str, family: &HashFamily) -> Self {
        let crcs = [0, 1, 2].map(|index| Crc::new(layout(index, Tuple4::FIELDS).polynomial(family)));
        Self { crcs, range: HighRange::new(config.width(), SPARE), salt: salt(switch), family: family.clone() }
    }

    /// The hash functions of the deployment, of which the CRCs are some.
    pub fn family(&self) -> &HashFamily {
        &self.family
    }

    /// Whether the CRCs are those of this deployment.
    pub fn are_of(&self, family: &HashFamily) -> bool {
        self.family == *family
    }

    /// The constants of the switch in this epoch: both halves of a word of the stream that its name seeds.
    pub fn constants(&self, epoch: u64) -> EpochConstants {
        let word = SplitMix64::new(self.salt).nth(epoch);
        EpochConstants([(word >> 32) as u32, word as u32])
    }

    /// Where a flow is counted.
    #[inline(always)]
    pub fn join(&self, KeyCrcs([index, both, sample]): KeyCrcs, EpochConstants([a, b]): EpochConstants) -> Place {
        let sample = index_hash(sample ^ b, both);
        Place {
            slot: self.range.slot(index_hash(index ^ a, both)),
            is_negative: sample >> (u32::BITS - SUB_EPOCH_BITS - 1) & 1 == 1,
            sample,
        }
    }

    /// The CRCs of an IPv4 or IPv6 five-tuple; `None` of other packets.
    #[inline(always)]
    pub fn of_headers(&self, headers: &Headers) -> Option<KeyCrcs> {
        match headers.net {
            Net::Ipv4 => Some(self.key_crcs(Tuple4::of(headers))),
            Net::Ipv6 => Some(self.key_crcs(Tuple6::of(headers))),
            Net::Other => None,
        }
    }

    #[inline(always)]
    pub fn key_crcs<K: FlowKey>(&self, key: K) -> KeyCrcs {
        KeyCrcs([0, 1, 2].map(|crc: usize| self.crcs[crc].hash_key(key)))
    }

    /// Where a flow with this key is counted.
    #[inline(always)]
    pub fn place<K: FlowKey>(&self, key: K, constants: EpochConstants) -> Place {
        self.join(self.key_crcs(key), constants)
    }

    /// The CRCs of a batch of keys, for [`Self::place_of`].
    #[inline(always)]
    pub fn crcs<K: FlowKey, T>(&self, of: &[T], key: impl Fn(&T) -> K + Copy, out: &mut [[Slot; BATCH]; 3]) {
        for (crc, out) in self.crcs.iter().zip(out) {
            crc.hash_keys(of, key, u32::MAX, out);
        }
    }

    /// Where the packet number `at` of a batch is counted.
    #[inline(always)]
    pub fn place_of(&self, crcs: &[[Slot; BATCH]; 3], at: usize, constants: EpochConstants) -> Place {
        self.join(KeyCrcs([crcs[0][at].0, crcs[1][at].0, crcs[2][at].0]), constants)
    }

    /// The stages in front of the counters: the CRCs, the exclusive ors and sums, the halves joined,
    /// and what becomes of them: counter, sign and whether the packet is in its flow's sub-epoch.
    pub fn usage(&self, config: &Config) -> Vec<StageUse> {
        let hash = |name, index, added| HashUse::new(name, u32::BITS, added, Some(&layout(index, Tuple4::FIELDS)));
        let crcs = StageUse::hashing(vec![hash("index", 0, false), hash("sample", 2, false)]);
        let sums = StageUse::hashing(vec![hash("both", 1, true)]);
        let width = config.width();
        let bits = SlotRange::High(HighSlots::new(width.get(), SPARE)).bits();
        // A power of two takes the highest bits as they are.
        let counter = (!width.is_power_of_two()).then(|| MatchUse {
            name: "counter",
            entries: (1u64 << bits) / u64::from(width.get()),
            key_bits: bits,
        });
        let sampled = MatchUse { name: "sub-epoch", entries: 2, key_bits: 2 * SUB_EPOCH_BITS };
        let last = StageUse { matches: counter.into_iter().chain([sampled]).collect(), ..StageUse::default() };
        vec![crcs, sums, StageUse::default(), last]
    }

    /// The CRCs over the keys of packets that are not IPv4.
    pub fn of_ipv6(&self) -> Vec<HashLayout> {
        (0..3).map(|index| layout(index, Tuple6::FIELDS)).collect()
    }
}

fn layout(index: u32, key: &'static [KeyField]) -> HashLayout {
    HashLayout::crc(LABEL, index).over(key)
}

/// Fragments fit each other when their hash units are of one switch.
impl PartialEq for Hashes {
    fn eq(&self, other: &Self) -> bool {
        (&self.family, self.range, self.salt) == (&other.family, other.range, other.salt)
    }
}

impl fmt::Debug for Hashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hashes(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Memory;
    use super::*;
    use crate::pisa::hash::bitwise;
    use crate::pisa::hash::{INIT, XOROUT};
    use proptest::prelude::*;

    fn hashes(bytes: u64) -> Hashes {
        let config = Config { memory: Memory(bytes), ..Config::default() };
        Hashes::new(&config, "s1", &HashFamily::reproducible(7))
    }

    proptest! {
        /// The units give what the module's formulas say, bit by bit, one by one and in a batch.
        #[test]
        fn units_are_their_definition(tuple in 0u128..1 << 104, epoch: u64, width in 1..5000u64) {
            let hashes = hashes(4 * width);
            let constants = hashes.constants(epoch);
            let key = Tuple4(tuple);
            let crc = |index| {
                let polynomial = layout(index, Tuple4::FIELDS).polynomial(&hashes.family);
                bitwise::crc(polynomial, INIT, XOROUT, &key.bytes())
            };
            let EpochConstants([a, b]) = constants;
            let join = |sum: u32| sum ^ sum << 16;
            let index = join((crc(0) ^ a).wrapping_add(crc(1)));
            let sample = join((crc(2) ^ b).wrapping_add(crc(1)));
            let place = hashes.place(key, constants);
            prop_assert_eq!(place.slot, hashes.range.slot(index));
            prop_assert!(u64::from(place.slot) < width);
            prop_assert_eq!(place.is_negative, sample >> 25 & 1 == 1);
            for cuts in 0..=6 {
                prop_assert_eq!(place.sub_epoch(cuts), (u64::from(sample) >> (32 - cuts)) as u32);
                prop_assert!(place.sub_epoch(cuts) < 1 << cuts);
            }
            let mut crcs = [[Slot(0); BATCH]; 3];
            hashes.crcs(&[Tuple4(0), key], |key| *key, &mut crcs);
            prop_assert_eq!(hashes.place_of(&crcs, 1, constants), place);
        }
    }

    /// All switches of a network, and a twin in hardware, place flows alike for ever.
    #[test]
    fn a_golden_vector() {
        let config = Config { memory: Memory(4000), ..Config::default() };
        let hashes = Hashes::new(&config, "s1", &HashFamily::reproducible(7));
        let key = Tuple4(0x0a_0000_010a_0000_0212_3400_5006);
        let place = Place { slot: 319, is_negative: true, sample: 1_204_646_593 };
        assert_eq!(hashes.place(key, hashes.constants(1)), place);
    }

    /// Flows that share a counter in one epoch or switch share one in another as seldom as others do, for
    /// ports in a row as well.
    #[test]
    fn collisions_do_not_last() {
        const WIDTH: usize = 1000;
        let (config, family) =
            (Config { memory: Memory(4 * WIDTH as u64), ..Config::default() }, HashFamily::reproducible(7));
        let slots = |switch: &str, epoch| {
            let hashes = Hashes::new(&config, switch, &family);
            let constants = hashes.constants(epoch);
            let key = |flow: u128| {
                let (port, client) = (32_768 + flow % 200, 0x0a00_0001 + flow / 200);
                Tuple4(client << 72 | 0x0a00_0063 << 40 | port << 24 | 80 << 8 | 6)
            };
            (0..4000).map(|flow| hashes.place(key(flow), constants).slot).collect::<Vec<_>>()
        };
        let first = slots("s1", 100);
        for (switch, epoch) in [("s1", 101), ("s1", 102), ("s2", 100), ("s3", 100)] {
            let second = slots(switch, epoch);
            let (mut shared, mut both) = (0u32, 0u32);
            for one in 0..first.len() {
                for other in 0..one {
                    let same = first[one] == first[other];
                    shared += u32::from(same);
                    both += u32::from(same && second[one] == second[other]);
                }
            }
            // 8 million pairs: 8 000 share a counter, and 8 of these again.
            assert!((7000..9000).contains(&shared) && both < 25, "{switch} {epoch}: {shared}, {both}");
        }
    }
}
