//! Which polynomial hashes what, for the dataplane and the decoder alike.

use std::fmt;

use super::dataplane::{MAX_LEVELS, MAX_ROWS, lane};
use super::id::{FlowId, KEY, Naming};
use crate::pisa::hash::{HashFamily, HashLayout, IndexBank, IndexHashes, IndexKey, Polynomial};
use crate::wire::{FlowKey, Tuple4};

/// The names of the arrays' polynomials: classifier arrays, encoder rows, fingerprint, sampling,
/// and what these share. IPv6 digests have names of their own ([`super::id`]).
pub const TOWER: &str = "chamelemon/tower";
const ROWS: &str = "chamelemon/fermat";
const FINGERPRINT: &str = "chamelemon/fingerprint";
const SAMPLE: &str = "chamelemon/sample";
const SHARED: &str = "chamelemon/index/shared";

/// An index hash of an ID. The bytes of an IPv6 flow's ID are its [digest](super::id::digests): three
/// hashes, the last one with the lowest bit set, and 255.
fn of_id(label: &'static str, index: u32) -> HashLayout {
    HashLayout::index(SHARED, label, index).over(Tuple4::FIELDS)
}

/// The hash for a classifier array.
pub fn tower(level: u32) -> HashLayout {
    of_id(TOWER, level)
}

/// The hash for a row of both encoders.
pub fn row(row: u32) -> HashLayout {
    of_id(ROWS, row)
}

/// The hash whose high bits are the fingerprint.
pub fn fingerprint() -> HashLayout {
    of_id(FINGERPRINT, 0)
}

/// The hash that samples light-loss candidates.
pub fn sample() -> HashLayout {
    of_id(SAMPLE, 0)
}

/// An ID's bytes with what all its index hashes share.
pub type Key = IndexKey<KEY>;

/// The hash units of one deployment: all switches whose sketches are added or subtracted have the
/// same. Arrays, fingerprint and sampling take index hashes ([`crate::pisa::hash::index`]), since
/// their analysis assumes independence.
#[derive(Clone)]
pub struct Hashes {
    levels: usize,
    rows: usize,
    shared: Polynomial,
    /// Of the index hashes, in the order of their lanes.
    own: Vec<Polynomial>,
    index: IndexHashes,
    naming: Naming,
    family: HashFamily,
}

impl Hashes {
    /// For this number of classifier arrays (at most [`MAX_LEVELS`]) and encoder rows (at most
    /// [`MAX_ROWS`]).
    pub fn new(family: &HashFamily, levels: usize, rows: usize) -> Self {
        let (levels, rows) = (levels.min(MAX_LEVELS), rows.min(MAX_ROWS));
        let lanes = [fingerprint(), sample()].into_iter().chain((0..rows as u32).map(row));
        let own: Vec<_> = lanes.chain((0..levels as u32).map(tower)).map(|hash| hash.polynomial(family)).collect();
        let shared = fingerprint().shared_polynomial(family);
        let (index, naming) = (IndexHashes::new(shared, &own), Naming::new(family));
        Self { levels, rows, shared, own, index, naming, family: family.clone() }
    }

    /// The hash functions of the deployment, of which these are some.
    pub fn family(&self) -> &HashFamily {
        &self.family
    }

    /// Whether they are of this deployment.
    pub fn are_of(&self, family: &HashFamily) -> bool {
        self.family == *family
    }

    pub fn naming(&self) -> &Naming {
        &self.naming
    }

    #[inline(always)]
    pub fn key(&self, id: FlowId) -> Key {
        self.index.key(id.bytes())
    }

    /// The index hash for classifier array `level`.
    pub fn tower(&self, level: usize, key: &Key) -> u32 {
        self.lane(lane::ROW + self.rows + level, key)
    }

    /// The index hash for encoder row `row`.
    #[inline(always)]
    pub fn row(&self, row: usize, key: &Key) -> u32 {
        self.lane(lane::ROW + row, key)
    }

    /// The hash whose high bits are the fingerprint.
    #[inline(always)]
    pub fn fingerprint(&self, key: &Key) -> u32 {
        self.lane(lane::FINGERPRINT, key)
    }

    pub fn sample(&self, id: FlowId) -> u32 {
        self.lane(lane::SAMPLE, &self.key(id))
    }

    #[inline(always)]
    fn lane(&self, lane: usize, key: &Key) -> u32 {
        // Lane 0 has what all share.
        self.index.hash(lane - 1, key)
    }

    /// All of it at once, in their [lanes](lane), and the lane of the first classifier array; the
    /// others follow.
    pub fn bank(&self) -> (IndexBank, usize) {
        (IndexBank::new(self.shared, &self.own), lane::ROW + self.rows)
    }
}

/// Sketches fit each other when their hash units are of one deployment.
impl PartialEq for Hashes {
    fn eq(&self, other: &Self) -> bool {
        let sizes = |hashes: &Self| (hashes.levels, hashes.rows);
        self.family == other.family && sizes(self) == sizes(other)
    }
}

impl Eq for Hashes {}

impl fmt::Debug for Hashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hashes(secret)")
    }
}
