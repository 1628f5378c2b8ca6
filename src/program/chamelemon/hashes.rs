//! Which polynomial hashes what, for the dataplane and the collector alike.

use std::fmt;

use super::dataplane::{MAX_LEVELS, MAX_ROWS};
use super::id::{FlowId, Naming};
use crate::pisa::hash::{IndexBank, IndexHashes, IndexKey, Polynomial, Polynomials};

/// Polynomial numbers: classifier arrays, encoder rows, fingerprint, sampling, what these share, three for IPv6 digests.
const TOWER: usize = 0;
const ROWS: usize = TOWER + MAX_LEVELS;
const FINGERPRINT: usize = ROWS + MAX_ROWS;
const SAMPLE: usize = FINGERPRINT + 1;
const SHARED: usize = SAMPLE + 1;
const DIGEST: usize = SHARED + 1;

/// An ID's bytes with what all its index hashes share.
pub type Key = IndexKey<13>;

/// The hash units of one deployment: all switches whose sketches are added or subtracted have the same. Arrays, fingerprint and
/// sampling take index hashes ([`crate::pisa::hash::index`]), since their analysis assumes independence.
#[derive(Clone)]
pub struct Hashes {
    levels: usize,
    rows: usize,
    index: IndexHashes,
    naming: Naming,
    family: Polynomials,
}

impl Hashes {
    /// For so many classifier arrays (at most [`MAX_LEVELS`]) and encoder rows (at most [`MAX_ROWS`]).
    pub fn new(polynomials: &Polynomials, levels: usize, rows: usize) -> Self {
        let (levels, rows) = (levels.min(MAX_LEVELS), rows.min(MAX_ROWS));
        let index = IndexHashes::new(polynomials.get(SHARED), &own(polynomials, levels, rows));
        Self { levels, rows, index, naming: Naming::new(polynomials, DIGEST), family: *polynomials }
    }

    /// Whether they are of this deployment.
    pub fn are_of(&self, polynomials: &Polynomials) -> bool {
        self.family == *polynomials
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
        self.index.hash(level, key)
    }

    /// The index hash for encoder row `row`.
    #[inline(always)]
    pub fn row(&self, row: usize, key: &Key) -> u32 {
        self.index.hash(self.levels + row, key)
    }

    /// The hash whose high bits are the fingerprint.
    #[inline(always)]
    pub fn fingerprint(&self, key: &Key) -> u32 {
        self.index.hash(self.levels + self.rows, key)
    }

    pub fn sample(&self, id: FlowId) -> u32 {
        self.index.hash(self.levels + self.rows + 1, &self.key(id))
    }

    /// All of it at once, in the lanes that [`Lanes`] names.
    pub fn bank(&self) -> (IndexBank, Lanes) {
        let own = own(&self.family, self.levels, self.rows);
        let row = 1 + self.levels as u8;
        let fingerprint = row + self.rows as u8;
        (IndexBank::new(self.family.get(SHARED), &own), Lanes { tower: 1, row, fingerprint, sample: fingerprint + 1 })
    }
}

/// The polynomials of the index hashes, in their order.
fn own(polynomials: &Polynomials, levels: usize, rows: usize) -> Vec<Polynomial> {
    let numbers = (TOWER..TOWER + levels).chain(ROWS..ROWS + rows).chain([FINGERPRINT, SAMPLE]);
    numbers.map(|i| polynomials.get(i)).collect()
}

/// Lanes of the bank of hash units: classifier array i has lane `tower + i`, row i of the encoders lane `row + i`.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    pub tower: u8,
    pub row: u8,
    pub fingerprint: u8,
    pub sample: u8,
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
