//! Hops that act on a packet, drawn by bit vectors, so that what decodes need not hash each hop
//! ("Reducing the Decoding Complexity", §4.2).
//!
//! *Paper:* global hashes make O(log 1/p) pseudo-random k-bit vectors of a packet, and hop i acts if
//! bit i of their bitwise and is set: a probability of 2⁻ᵗ with t vectors, which approximates p
//! within a factor of √2.
//!
//! *Here* p is exact:
//! ```text
//! t          = min(4, ⌊log₂ 1/p⌋)            p of the layer, in a baseline layer 1 / hop
//! candidate  = bit `hop` of v₁ ∧ … ∧ vₜ      a share of 2⁻ᵗ of the hops
//! acts       = candidate and g(packet, hop) < p · 2ᵗ
//! ```
//! so that each hop acts with the very probability that it has without vectors, and a path takes as
//! many packets. In the baseline layer p, and with it t, goes with the hop.
//!
//! *Hashes:* a hash has 32 bits, and k-bit vectors are k · t / 32 of them. The bits that all four
//! vectors have for eight hops stand in one hash, a byte a vector. So a switch computes one hash
//! more than without vectors, and not one for each vector, and the and of all vectors is two shifts
//! of each hash. More than four vectors would cost more than they save: with k · t / 32 hashes for
//! the vectors and k / 2ᵗ for the candidates, four and five take the fewest, 0.19 a hop, whatever k.
//!
//! What decodes takes the candidates from the hashes' set bits: in an xor layer all, in a baseline
//! layer the last first, until one acts (`reading.rs`).

pub(super) mod dataplane;
#[cfg(test)]
mod tests;

use dataplane::{HOPS_LOG, VECTORS, Vectors, WORDS, place};

use super::dataplane::{Layer, Limits};

/// Hops of a hash.
pub(super) const HOPS: usize = 1 << HOPS_LOG;

/// The argument of g that makes hash number `word`: no hop has it.
pub(super) fn argument(word: usize) -> u32 {
    1 << 16 | word as u32
}

/// What happens with a probability, given as the largest hash with which it happens: the vectors
/// whose bits are to be ones, and the largest hash of a candidate.
fn split(limit: u32) -> (u32, u32) {
    let hashes = u64::from(limit) + 1;
    let vectors = ((1 << u32::BITS) / hashes).ilog2().min(VECTORS);
    (vectors, ((hashes << vectors) - 1) as u32)
}

/// Ones at the bits of those vectors that do not count.
fn free(vectors: u32) -> u32 {
    u32::MAX.checked_shl(HOPS as u32 * vectors).unwrap_or_default()
}

impl Vectors {
    /// For the same probabilities as these limits.
    pub fn new(limits: &Limits) -> Self {
        let (mut scaled, mut baseline) = (limits.clone(), [u32::MAX; WORDS]);
        for (hop, limit) in scaled.hops.iter_mut().enumerate().skip(1) {
            let ((word, bit), (vectors, of_candidate)) = (place(hop), split(*limit));
            *limit = of_candidate;
            baseline[word] &= free(vectors) | !(0x0101_0101 << bit);
        }
        let xor = limits.xor.iter().map(|limit| split(*limit));
        let (vectors, of_candidates): (Vec<_>, Vec<_>) = xor.unzip();
        scaled.xor = of_candidates;
        Self { limits: scaled, baseline, xor: vectors.into_iter().map(free).collect() }
    }

    /// Places of a hash at which a match of an xor layer has to look: each hop has its own, unless all
    /// hops are candidates.
    pub fn places(&self, xor: usize) -> u64 {
        if self.candidates(Layer::Xor(xor), 0, 0) == 0 { HOPS as u64 } else { 1 }
    }
}
