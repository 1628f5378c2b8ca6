//! Index hashes, for arrays whose analysis assumes that they hash independently.
//!
//! A CRC is linear over GF(2): crc(x) ⊕ crc(x⊕a) = crc(x⊕b) ⊕ crc(x⊕a⊕b) for all x, whatever the
//! polynomial. Keys in a row (a port scan, an address range, ephemeral ports) are full of such
//! quadruples x, x⊕a, x⊕b, x⊕a⊕b. When two of the four keys share a slot of an array, so do the
//! other two, and the same four keys sit on two slots in all arrays. Different polynomials do not
//! help, and CRCs in hardware are as linear. So here
//! ```text
//! sum i = CRC i (key) + CRC s (key) mod 2³²
//! hash i = sum i ⊕ (sum i << 16)                    slot = the highest bits of it (HighRange)
//! ```
//! with one CRC s that all arrays share: the carries of the sum are not linear. A carry enters each
//! bit from the bits below it and none enters the lowest, so a mask of low bits would keep a part
//! of the weakness. The sum alone is enough for decoding. But where two keys' CRCs differ in the
//! same bits, the sum often stays the same in its high half: among keys in a row such pairs are
//! many, and the number of counters in use then varies four times as much as with random keys. The
//! low half differs for nearly all of them. `docs/chamelemon.md` has the measurement.
//!
//! *Cost:* one more CRC for all arrays together, and one addition and one exclusive or an array. A
//! switch computes the shared CRC in one stage, adds each array's own in a later one, and joins the
//! halves of the sum in the next.

use super::{Crc, HashFamily, HashLayout, HighRange, HighSlots, LANES, Polynomial, SlotRange};
use crate::pisa::{Added, ChipForm, HashUse, SlotSource, StageUse};
use crate::wire::KeyField;

/// Maximum number of index hashes that are computed together.
pub const MAX_HASHES: usize = LANES - 1;

/// Index hashes of one key at a time: the same as [`IndexBank`](super::IndexBank) gives for a
/// burst.
#[derive(Clone, Debug)]
pub struct IndexHashes {
    shared: Crc,
    own: Vec<Crc>,
}

/// A key and its shared CRC.
#[derive(Clone, Copy)]
pub struct IndexKey<const N: usize> {
    bytes: [u8; N],
    shared: u32,
}

impl IndexHashes {
    pub fn new(shared: Polynomial, own: &[Polynomial]) -> Self {
        Self { shared: Crc::new(shared), own: own.iter().copied().map(Crc::new).collect() }
    }

    /// Computes the shared CRC.
    #[inline(always)]
    pub fn key<const N: usize>(&self, bytes: [u8; N]) -> IndexKey<N> {
        IndexKey { bytes, shared: self.shared.hash(&bytes) }
    }

    /// Index hash number `i`, or 0 when `i` is out of range.
    #[inline(always)]
    pub fn hash<const N: usize>(&self, i: usize, key: &IndexKey<N>) -> u32 {
        self.own.get(i).map_or(0, |own| index_hash(own.hash(&key.bytes), key.shared))
    }
}

/// The slots of a key in up to `N` arrays, each by an index hash of its own.
#[derive(Clone)]
pub struct IndexSlots<const N: usize> {
    index: IndexHashes,
    ranges: [Option<HighRange>; N],
    hashes: Vec<HashLayout>,
}

impl<const N: usize> IndexSlots<N> {
    /// Of every array: the label and the number by which the family knows it, and its length; of
    /// `shared` the label alone. More than `N` arrays are left out.
    pub fn new(family: &HashFamily, shared: &'static str, arrays: &[(&'static str, u32, u32)]) -> Self {
        /// A length that is no power of two is met to one value in 16.
        const SPARE: u32 = 4;
        let hash = |(label, index, cells): &(&'static str, u32, u32)| {
            HashLayout::index(shared, *label, *index)
                .derived_from(family)
                .within(SlotRange::High(HighSlots::new(*cells, SPARE)))
        };
        let hashes: Vec<_> = arrays.iter().take(N).map(hash).collect();
        let own: Vec<_> = hashes.iter().map(|hash| hash.polynomial(family)).collect();
        let range = |i: usize| HighSlots::new(arrays.get(i).filter(|array| array.2 > 0)?.2, SPARE).range().into();
        let ranges = std::array::from_fn(range);
        Self { index: IndexHashes::new(family.derive(shared, 0), &own), ranges, hashes }
    }

    /// Says which fields the bytes of keys are.
    #[must_use]
    pub fn over(self, key: &'static [KeyField]) -> Self {
        Self { hashes: self.hashes.into_iter().map(|hash| hash.over(key)).collect(), ..self }
    }

    /// The slots, 0 for arrays that are not there.
    #[inline(always)]
    pub fn slots<const B: usize>(&self, key: [u8; B]) -> [u32; N] {
        let key = self.index.key(key);
        std::array::from_fn(|i| self.ranges[i].map_or(0, |range| range.slot(self.index.hash(i, &key))))
    }

    /// What names a slot of array number `i`.
    pub fn source(&self, i: usize) -> SlotSource {
        self.hashes.get(i).cloned().map_or(SlotSource::default(), SlotSource::Hash)
    }

    /// The stages in front of the arrays: the CRC that all share, the sums, and their halves
    /// joined. A chip joins them on the way to the registers.
    pub fn usage(&self) -> [StageUse; 3] {
        let sum = |hash: &HashLayout| HashUse::new("hash of an array", u32::BITS, Added::Field, Some(hash));
        let sums = self.hashes.iter().map(sum).collect();
        let shared = HashUse::new("shared hash", u32::BITS, Added::No, None);
        let joined = StageUse::default().on_chips(ChipForm::steps_alone(Vec::new()));
        [StageUse::hashing(vec![shared]), StageUse::hashing(sums), joined]
    }
}

/// The index hash of two CRCs.
#[inline(always)]
pub const fn index_hash(own: u32, shared: u32) -> u32 {
    let sum = own.wrapping_add(shared);
    sum ^ sum << 16
}
