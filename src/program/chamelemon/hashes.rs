//! Which polynomial hashes what, for the dataplane and the collector alike.

use std::fmt;

use super::dataplane::{MAX_LEVELS, MAX_ROWS};
use super::id::{FlowId, Naming};
use crate::pisa::hash::{Crc, CrcBank, Polynomials};

/// Polynomial numbers: classifier arrays, encoder rows, fingerprint, sampling, three for IPv6 digests.
const TOWER: usize = 0;
const ROWS: usize = TOWER + MAX_LEVELS;
const FINGERPRINT: usize = ROWS + MAX_ROWS;
const SAMPLE: usize = FINGERPRINT + 1;
const DIGEST: usize = 16;

/// The hash units of one deployment: all switches whose sketches are added or subtracted have the same.
#[derive(Clone)]
pub struct Hashes {
    tower: Vec<Crc>,
    rows: Vec<Crc>,
    fingerprint: Crc,
    sample: Crc,
    naming: Naming,
    family: Polynomials,
}

impl Hashes {
    /// For so many classifier arrays (at most [`MAX_LEVELS`]) and encoder rows (at most [`MAX_ROWS`]).
    pub fn new(polynomials: &Polynomials, levels: usize, rows: usize) -> Self {
        let crcs = |first: usize, n: usize| (first..first + n).map(|i| Crc::new(polynomials.get(i))).collect();
        Self {
            tower: crcs(TOWER, levels.min(MAX_LEVELS)),
            rows: crcs(ROWS, rows.min(MAX_ROWS)),
            fingerprint: Crc::new(polynomials.get(FINGERPRINT)),
            sample: Crc::new(polynomials.get(SAMPLE)),
            naming: Naming::new(polynomials, DIGEST),
            family: *polynomials,
        }
    }

    /// Whether they are of this deployment.
    pub fn are_of(&self, polynomials: &Polynomials) -> bool {
        self.family == *polynomials
    }

    pub fn naming(&self) -> &Naming {
        &self.naming
    }

    /// The base index in classifier array `level`.
    pub fn tower(&self, level: usize, id: FlowId) -> u32 {
        self.tower.get(level).map_or(0, |crc| crc.hash(&id.bytes()))
    }

    /// The base index in encoder row `row`.
    #[inline(always)]
    pub fn row(&self, row: usize, key: &[u8; 13]) -> u32 {
        self.rows.get(row).map_or(0, |crc| crc.hash(key))
    }

    /// The hash whose low bits are the fingerprint.
    #[inline(always)]
    pub fn fingerprint(&self, key: &[u8; 13]) -> u32 {
        self.fingerprint.hash(key)
    }

    pub fn sample(&self, id: FlowId) -> u32 {
        self.sample.hash(&id.bytes())
    }

    /// All of it at once, in the lanes that [`Lanes`] names.
    pub fn bank(&self) -> (CrcBank, Lanes) {
        let (levels, rows) = (self.tower.len(), self.rows.len());
        let numbers = (TOWER..TOWER + levels).chain(ROWS..ROWS + rows).chain([FINGERPRINT, SAMPLE]);
        let polynomials: Vec<_> = numbers.map(|i| self.family.get(i)).collect();
        let row = levels as u8;
        let fingerprint = row + rows as u8;
        (CrcBank::new(&polynomials), Lanes { row, fingerprint, sample: fingerprint + 1 })
    }
}

/// Lanes of the bank of hash units: classifier array i has lane i, row i of the encoders lane `row + i`.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    pub row: u8,
    pub fingerprint: u8,
    pub sample: u8,
}

/// Sketches fit each other when their hash units are of one deployment.
impl PartialEq for Hashes {
    fn eq(&self, other: &Self) -> bool {
        let sizes = |hashes: &Self| (hashes.tower.len(), hashes.rows.len());
        self.family == other.family && sizes(self) == sizes(other)
    }
}

impl Eq for Hashes {}

impl fmt::Debug for Hashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hashes(secret)")
    }
}
