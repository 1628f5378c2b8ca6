//! The hashes of a fragment: the counter of a flow, its sign, and the sub-epoch in which it is counted.
//!
//! ```text
//! index  = join((CRC 0 (key) ⊕ a) + CRC 1 (key))     counter = its highest bits (HighRange)
//! sample = join((CRC 2 (key) ⊕ b) + CRC 1 (key))     sub-epoch = its highest bits; sign = bit 25
//! cover  = join((CRC 2 (key) ⊕ c) + CRC 1 (key))     sub-epoch = highest bits of its sum with a part of 2³²
//! depth  = join(CRC 0 (key) + CRC 2 (key))           its leading ones, at most 15
//! join(sum) = sum ⊕ (sum << 16)                      all modulo 2³²
//! ```
//! A flow of depth d is counted in the levels 0 to d, of a sketch that has levels: the level l has half
//! the flows of the level before it, its index has a ⊕ l · 9E3779B9h in place of a, and its sign is bit
//! 25 − l. The depth of a flow is the same in all switches and epochs.
//!
//! The CRCs are those of the network, so a query hashes a flow once. The words a and b follow from the
//! name of the switch and the number of the epoch: flows which share a counter in one switch and epoch
//! seldom do in another. The word c is b or, with `cover`, follows from the epoch
//! alone, and each place on a path adds a part of 2³² of its own: the sub-epochs of a flow are spread over
//! the epoch. An exclusive or with a CRC alone would change nothing: two keys collide under all
//! constants or under none. The carries of the sum break that, as they do in an
//! [index hash](crate::pisa::hash::index), which is joined for the same reason.

use std::fmt;

use super::{Config, SketchKind};
use crate::pisa::hash::{Columns, Crcs, HashFamily, HashLayout, HighRange, HighSlots, SlotRange, index_hash};
use crate::pisa::{Added, BATCH, COPY, ChipForm, ChipStep, HashUse, MatchUse, Phv, Slot, StageUse, StepTable, Vectors};
use crate::program::Naming;
use crate::trace::SplitMix64;
use crate::wire::{Flow, FlowKey, Headers, KeyField, Net, Tuple4, Tuple6};

/// The label of the CRCs; their indices are 0, 1 and 2.
pub const LABEL: &str = "disketch/crc";
/// A length that is no power of two is met to one value in 16.
const SPARE: u32 = 4;
/// Bits of a sub-epoch's number, of the sample hash.
const SUB_EPOCH_BITS: u32 = 6;
/// The field that names the counter.
pub const SLOT: &str = "disketch.slot";

/// Levels of a sketch that has levels.
pub const LEVELS: u32 = 16;

/// 2³² divided by the golden ratio. Its multiples are xored onto the index, one for each level.
pub const LEVEL_WORD: u32 = 0x9e37_79b9;

/// Multiples of [`LEVEL_WORD`], by level.
const LEVEL_WORDS: [u32; LEVELS as usize] = {
    let (mut words, mut level) = ([0u32; LEVELS as usize], 1);
    while level < words.len() {
        words[level] = words[level - 1].wrapping_add(LEVEL_WORD);
        level += 1;
    }
    words
};

/// The sign of a flow in a level.
#[inline(always)]
const fn sign(sample: u32, level: usize) -> bool {
    sample >> ((u32::BITS - SUB_EPOCH_BITS - 1) - (level as u32 & (LEVELS - 1))) & 1 == 1
}

/// By how many eighths of an epoch a flow is counted later than in the first switch of its path, for the
/// first switch, the second and so on.
const EIGHTHS: [u32; 8] = [0, 6, 2, 1, 4, 3, 5, 7];

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

    /// The same, moved by the place of the switch on the flow's path.
    #[inline(always)]
    #[must_use]
    pub fn moved(self, hop: u8) -> Self {
        let part = EIGHTHS[usize::from(hop.saturating_sub(1)) & (EIGHTHS.len() - 1)];
        Self { sample: self.sample.wrapping_add(part << (u32::BITS - 3)), ..self }
    }
}

/// The constants of a switch in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochConstants([u32; 3]);

impl EpochConstants {
    /// The words a, b and c.
    pub fn words(self) -> [u32; 3] {
        self.0
    }
}

/// The FNV-1a hash of the name of a switch.
fn salt(switch: &str) -> u64 {
    switch.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The CRCs of a flow's key, the same in all switches of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCrcs([u32; 3]);

impl KeyCrcs {
    /// The deepest level in which the flow is counted, where there are [`LEVELS`].
    #[inline(always)]
    pub fn depth(&self) -> u32 {
        let Self([index, _, sample]) = *self;
        index_hash(index, sample).leading_ones().min(LEVELS - 1)
    }

    /// The deepest level of this sketch in which the flow is counted.
    pub fn level_of(&self, sketch: SketchKind) -> usize {
        if sketch.levels() > 1 { self.depth() as usize } else { 0 }
    }
}

/// A flow in the levels of one switch and epoch.
#[derive(Clone, Copy, Debug)]
pub struct LevelHashes {
    index: u32,
    both: u32,
    sample: u32,
    pub depth: u32,
}

impl LevelHashes {
    /// The counter of the flow in a level.
    #[inline(always)]
    pub fn slot(&self, range: HighRange, level: usize) -> u32 {
        let word = LEVEL_WORDS[level & (LEVEL_WORDS.len() - 1)];
        range.slot(index_hash(self.index ^ word, self.both))
    }

    #[inline(always)]
    pub fn is_negative(&self, level: usize) -> bool {
        sign(self.sample, level)
    }
}

/// The packets of a batch, in columns: their CRCs and hashes.
pub struct Places {
    crcs: Columns<3>,
    slots: [Slot; BATCH],
    signs: [u32; BATCH],
    samples: [u32; BATCH],
}

impl Default for Places {
    fn default() -> Self {
        let zeros = [0; BATCH];
        Self { crcs: [zeros; 3], slots: [Slot(0); BATCH], signs: zeros, samples: zeros }
    }
}

impl Places {
    /// The CRCs of packet number `at`.
    #[inline(always)]
    pub fn crcs(&self, at: usize) -> KeyCrcs {
        KeyCrcs(self.crcs.each_ref().map(|crcs| crcs[at % BATCH]))
    }

    /// Where the flow of packet number `at` is counted.
    #[inline(always)]
    pub fn place(&self, at: usize) -> Place {
        let at = at % BATCH;
        Place { slot: self.slots[at].0, is_negative: sign(self.signs[at], 0), sample: self.samples[at] }
    }
}

/// The hash units of one switch.
#[derive(Clone)]
pub struct Hashes {
    family: HashFamily,
    crcs: Crcs<3>,
    range: HighRange,
    salt: u64,
    naming: Naming,
    /// The bits of keys that name a flow.
    masks: (Tuple4, Tuple6),
    covers: bool,
}

impl Hashes {
    pub fn new(config: &Config, switch: &str, family: &HashFamily) -> Self {
        let crcs = Crcs::new([0, 1, 2].map(|index| HashLayout::crc(LABEL, index).polynomial(family)));
        let (range, naming) = (HighRange::new(config.width(), SPARE), config.naming());
        let masks = (Tuple4::of(&naming.mask(false)), Tuple6::of(&naming.mask(true)));
        Self { crcs, range, salt: salt(switch), naming, masks, covers: config.cover, family: family.clone() }
    }

    /// The hash functions of the deployment, of which the CRCs are some.
    pub fn family(&self) -> &HashFamily {
        &self.family
    }

    /// Whether the CRCs are those of this deployment.
    pub fn are_of(&self, family: &HashFamily) -> bool {
        self.family == *family
    }

    /// The constants of the switch in this epoch: both halves of a word of the stream that its name seeds, and
    /// with `cover` one of a stream that is the same in all switches.
    pub fn constants(&self, epoch: u64) -> EpochConstants {
        let word = SplitMix64::new(self.salt).nth(epoch);
        let [a, b] = [(word >> 32) as u32, word as u32];
        let cover = SplitMix64::new(salt("")).nth(epoch) as u32;
        EpochConstants([a, b, if self.covers { cover } else { b }])
    }

    /// Where a flow is counted.
    #[inline(always)]
    pub fn join(&self, crcs: KeyCrcs, constants: EpochConstants) -> Place {
        self.place_in(0, crcs, constants)
    }

    /// Where a flow is counted in a level that counts it.
    #[inline(always)]
    pub fn place_in(&self, level: usize, crcs: KeyCrcs, constants: EpochConstants) -> Place {
        let hashes = self.in_levels(crcs, constants);
        let slot = hashes.slot(self.range, level);
        let (KeyCrcs([_, both, sample]), EpochConstants([_, _, cover])) = (crcs, constants);
        Place { slot, is_negative: hashes.is_negative(level), sample: index_hash(sample ^ cover, both) }
    }

    /// Where a flow is counted in all levels.
    #[inline(always)]
    pub fn in_levels(&self, crcs: KeyCrcs, EpochConstants([a, b, _]): EpochConstants) -> LevelHashes {
        let KeyCrcs([index, both, sample]) = crcs;
        LevelHashes { index: index ^ a, both, sample: index_hash(sample ^ b, both), depth: crcs.depth() }
    }

    /// The counters of a level.
    pub fn range(&self) -> HighRange {
        self.range
    }

    /// The key of an IPv4 packet.
    #[inline(always)]
    fn key4(&self, headers: &Headers) -> Tuple4 {
        Tuple4(Tuple4::of(headers).0 & self.masks.0.0)
    }

    /// The key of an IPv6 packet.
    #[inline(always)]
    fn key6(&self, headers: &Headers) -> Tuple6 {
        let (Tuple6(src, dst, ports), mask) = (Tuple6::of(headers), self.masks.1);
        Tuple6(src & mask.0, dst & mask.1, ports & mask.2)
    }

    /// The CRCs of the flow with this name; `None` of one that is named by other fields.
    pub fn of_flow(&self, flow: &Flow) -> Option<KeyCrcs> {
        self.of_headers(&self.naming.headers(flow)?)
    }

    /// The CRCs of an IPv4 or IPv6 packet's key; `None` of other packets.
    #[inline(always)]
    pub fn of_headers(&self, headers: &Headers) -> Option<KeyCrcs> {
        match headers.net {
            Net::Ipv4 => Some(self.key_crcs(self.key4(headers))),
            Net::Ipv6 => Some(self.key_crcs(self.key6(headers))),
            Net::Other => None,
        }
    }

    #[inline(always)]
    pub fn key_crcs<K: FlowKey>(&self, key: K) -> KeyCrcs {
        KeyCrcs(self.crcs.hash_key(key))
    }

    /// Where a flow with this key is counted.
    #[inline(always)]
    pub fn place<K: FlowKey>(&self, key: K, constants: EpochConstants) -> Place {
        self.join(self.key_crcs(key), constants)
    }

    /// Finds where the IPv4 packets of a batch are counted.
    #[inline(always)]
    pub fn locate(&self, phvs: &[Phv], constants: EpochConstants, batch: &mut Places) {
        let Places { crcs, slots, signs, samples } = batch;
        let len = phvs.len().min(BATCH);
        if self.masks.0 == Tuple4::mask(u8::MAX) {
            self.crcs.hash_packets(phvs, crcs);
        } else {
            let mut keys = [Tuple4(0); BATCH];
            Vectors::here().keys(phvs, &mut keys);
            keys.iter_mut().for_each(|key| key.0 &= self.masks.0.0);
            self.crcs.hash_keys(&keys[..len], crcs);
        }
        let [index, both, sample] = &*crcs;
        let EpochConstants([a, b, c]) = constants;
        let join = |crcs: &[u32; BATCH], constant: u32, hashes: &mut [u32; BATCH]| {
            for (hash, (crc, both)) in hashes.iter_mut().zip(crcs.iter().zip(both)).take(len) {
                *hash = index_hash(crc ^ constant, *both);
            }
        };
        join(index, a, samples);
        self.range.slots_of(&samples[..len], &mut slots[..len]);
        join(sample, b, signs);
        join(sample, c, samples);
    }

    /// The stages in front of the counters: the CRCs, the exclusive ors and sums, the halves joined,
    /// and what becomes of them: counter, sign and whether the packet is in its flow's sub-epoch. On a
    /// chip a table has the constants of the epoch, and index hashes are joined on the way to the counters.
    pub fn usage(&self, config: &Config) -> Vec<StageUse> {
        let hash = |name, index, added| HashUse::new(name, u32::BITS, added, Some(&self.layout::<Tuple4>(index)));
        let words = if self.covers { 3 } else { 2 };
        let constants = StepTable::direct("constants of the epoch", 1, words * u32::BITS);
        let constants = ChipForm::behind_steps(vec![ChipStep::looking_up(constants).behind(&[COPY])]);
        let crcs = StageUse::hashing(vec![hash("index", 0, Added::No), hash("sample", 2, Added::No)]);
        let sums = StageUse::hashing(vec![hash("both", 1, Added::Field)]);
        let width = config.width();
        let bits = SlotRange::High(HighSlots::new(width.get(), SPARE)).bits();
        // A power of two takes the highest bits as they are.
        let levels = config.sketch.levels();
        let number = if width.is_power_of_two() { 0 } else { levels as usize };
        let counter = MatchUse { name: "counter", entries: (1u64 << bits) / u64::from(width.get()), key_bits: bits };
        let sampled = MatchUse { name: "sub-epoch", entries: 2, key_bits: 2 * SUB_EPOCH_BITS };
        let by_depth = (levels > 1).then(|| MatchUse { name: "depth", entries: levels.into(), key_bits: levels });
        let matches = std::iter::repeat_n(counter, number).chain([sampled]).chain(by_depth).collect();
        let last = StageUse { matches, ..StageUse::default() };
        let sample = ("sub-epoch and signs", SUB_EPOCH_BITS + levels);
        let depth = (levels > 1).then_some(("depth of a flow", levels));
        let joins: Vec<_> = [sample].into_iter().chain(depth).collect();
        let joined = StageUse::default().on_chips(ChipForm::steps_alone(vec![ChipStep::joining(&joins)]));
        vec![crcs.on_chips(constants), sums, joined, last]
    }

    /// The CRCs over the keys of packets that are not IPv4.
    pub fn of_ipv6(&self) -> Vec<HashLayout> {
        (0..3).map(|index| self.layout::<Tuple6>(index)).collect()
    }

    fn layout<K: FlowKey>(&self, index: u32) -> HashLayout {
        let prefix = if K::NET == Net::Ipv6 { self.naming.prefix6 } else { self.naming.prefix };
        let kept = |(field, is_named): (&KeyField, bool)| {
            let cut = field.cut(prefix.into());
            if is_named { cut } else { KeyField { kept_bits: 0, ..cut } }
        };
        let fields: Vec<_> = K::FIELDS.iter().zip(self.naming.key.fields()).map(kept).collect();
        HashLayout::crc(LABEL, index).over(fields)
    }
}

/// Fragments fit each other when their hash units are of one switch.
impl PartialEq for Hashes {
    fn eq(&self, other: &Self) -> bool {
        let facts = |hashes: &Self| (hashes.range, hashes.salt, hashes.naming, hashes.covers);
        self.family == other.family && facts(self) == facts(other)
    }
}

impl fmt::Debug for Hashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hashes(secret)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Memory;
    use super::*;
    use crate::pisa::hash::bitwise;
    use crate::pisa::hash::{INIT, XOROUT};
    use proptest::prelude::*;

    fn hashes(bytes: u64) -> Hashes {
        let config = Config { memory: Memory(bytes), ..Config::default() };
        Hashes::new(&config, "s1", &HashFamily::reproducible(7))
    }

    /// The headers of a packet of this flow, and nothing else of it.
    fn packet(flow: &Flow) -> Phv {
        Phv { headers: Headers::of_flow(flow).unwrap(), ..Phv::default() }
    }

    proptest! {
        /// The units give what the module's formulas say, bit by bit, one by one and in a batch.
        #[test]
        fn units_are_their_definition(tuple in 0u128..1 << 104, epoch: u64, width in 1..5000u64) {
            let hashes = hashes(4 * width);
            let constants = hashes.constants(epoch);
            let key = Tuple4(tuple);
            let crc = |index| {
                let polynomial = HashLayout::crc(LABEL, index).polynomial(&hashes.family);
                bitwise::crc(polynomial, INIT, XOROUT, &key.bytes())
            };
            let EpochConstants([a, b, _]) = constants;
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
            let phvs = [Tuple4(0), key].map(|key| packet(&key.flow()));
            let mut places = Places::default();
            hashes.locate(&phvs, constants, &mut places);
            prop_assert_eq!((places.place(1), places.crcs(1)), (place, hashes.key_crcs(key)));
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

    /// Each level has half of the flows of the one before, and its own counters and signs.
    #[test]
    fn levels_have_half_of_the_flows() {
        let hashes = hashes(4 * 1000);
        let constants = hashes.constants(3);
        let crcs =
            |flow: u128| hashes.key_crcs(Tuple4((0x0a00_0001 + flow / 500) << 72 | (32_768 + flow % 500) << 24 | 6));
        let flows: Vec<_> = (0..64_000).map(crcs).collect();
        for level in 0..8u32 {
            let there = flows.iter().filter(|crcs| crcs.depth() >= level).count();
            assert!((there << level).abs_diff(64_000) < 16_000, "{level}: {there}");
        }
        assert!(flows.iter().all(|crcs| crcs.depth() < LEVELS));
        let (mut same_slot, mut same_sign) = (0, 0);
        for crcs in &flows {
            let [one, other] = [0, 1].map(|level| hashes.place_in(level, *crcs, constants));
            assert_eq!(one, hashes.join(*crcs, constants));
            same_slot += u32::from(one.slot == other.slot);
            same_sign += u32::from(one.is_negative == other.is_negative);
        }
        assert!((20..140).contains(&same_slot) && (31_000..33_000).contains(&same_sign), "{same_slot} {same_sign}");
    }

    /// Within each level flows share counters as seldom as they would by chance, and others than in the
    /// level before.
    #[test]
    fn levels_collide_by_chance() {
        const WIDTH: u64 = 1000;
        let hashes = hashes(4 * WIDTH);
        let constants = hashes.constants(100);
        let key = |flow: u128| {
            let (port, client) = (32_768 + flow % 200, 0x0a00_0001 + flow / 200);
            Tuple4(client << 72 | 0x0a00_0063 << 40 | port << 24 | 80 << 8 | 6)
        };
        let flows: Vec<_> = (0..8000).map(|flow| hashes.key_crcs(key(flow))).collect();
        for level in 0..4 {
            let there: Vec<_> = flows.iter().filter(|crcs| crcs.depth() as usize > level).collect();
            let slots =
                |level| there.iter().map(|crcs| hashes.place_in(level, **crcs, constants).slot).collect::<Vec<_>>();
            let (here, deeper) = (slots(level), slots(level + 1));
            let (mut shared, mut again) = (0u64, 0u64);
            for one in 0..here.len() {
                for other in 0..one {
                    let same = deeper[one] == deeper[other];
                    shared += u64::from(same);
                    again += u64::from(same && here[one] == here[other]);
                }
            }
            let pairs = (here.len() * here.len() / 2) as u64;
            assert!(shared.abs_diff(pairs / WIDTH) < pairs / WIDTH / 4, "{level}: {shared} of {pairs}");
            assert!(again < 25, "{level}: {again}");
        }
    }

    /// With `cover` the sub-epochs of a flow are those of the first switch, moved by each place on the path;
    /// index and sign stay each switch's own.
    #[test]
    fn sub_epochs_of_a_path_are_spread() {
        let family = HashFamily::reproducible(7);
        let of = |switch: &str, cover| {
            Hashes::new(&Config { memory: Memory(4000), cover, ..Config::default() }, switch, &family)
        };
        let [first, second] = ["s1", "s2"].map(|switch| of(switch, true));
        let mut slots = 0;
        for flow in 0..200u128 {
            let key = Tuple4(flow << 24 | 6);
            let [one, other] = [&first, &second].map(|hashes| hashes.place(key, hashes.constants(5)));
            assert_eq!(one.sample, other.sample);
            slots += u32::from(one.slot == other.slot);
            let place = of("s1", false).place(key, first.constants(5));
            assert_eq!((one.slot, one.is_negative), (place.slot, place.is_negative));
            let sub_epochs: BTreeSet<_> = (1..=8).map(|hop| one.moved(hop).sub_epoch(3)).collect();
            assert_eq!((sub_epochs.len(), one.moved(1), one.moved(0)), (8, one, one));
        }
        assert!(slots < 5, "{slots}");
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
