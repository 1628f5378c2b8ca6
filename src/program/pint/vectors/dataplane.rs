//! What a switch does with the bits of a packet's vectors.

use crate::program::pint::dataplane::{Layer, Limits, MAX_CODED_HOPS};

/// Vectors of a packet. Their bits for eight hops are one hash, a byte each.
pub const VECTORS: u32 = 4;

/// The exponent of the hops of a hash.
pub const HOPS_LOG: usize = 3;

/// Hashes that have the bits of all hops.
pub const WORDS: usize = MAX_CODED_HOPS >> HOPS_LOG;

/// How hops are drawn by vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vectors {
    /// What the hash of a candidate is compared with. It is less rare than a hop that acts by the
    /// factor by which candidates are rarer than hops.
    pub limits: Limits,
    /// Ones at the bits that do not matter: of a baseline layer by the number of the hash, of each
    /// xor layer in every hash.
    pub(super) baseline: [u32; WORDS],
    pub(super) xor: Vec<u32>,
}

/// The number of the hash that has a hop's bits, and its place there.
#[inline(always)]
pub fn place(hop: usize) -> (usize, u32) {
    let bit = hop.wrapping_sub(1);
    (bit >> HOPS_LOG, (bit & ((1 << HOPS_LOG) - 1)) as u32)
}

impl Vectors {
    /// The candidates among the eight hops of hash number `word`, a bit each: the and of the
    /// vectors that count in this layer.
    #[inline(always)]
    pub fn candidates(&self, layer: Layer, word: usize, hash: u32) -> u32 {
        let free = match layer {
            Layer::Baseline => self.baseline.get(word),
            Layer::Xor(layer) => self.xor.get(layer),
        };
        let ones = hash | free.copied().unwrap_or_default();
        let ones = ones & ones >> 16;
        ones & ones >> 8 & 0xff
    }
}
