//! Loops: a packet that comes back to a switch finds its hash in the digest (§A.4, Algorithm 2).
//!
//! ```text
//! if digest = h(switch, packet):
//!     if c = T: report a loop
//!     c = c + 1
//! if c = 0 and g(packet, hop) < 1 / hop: digest = h(switch, packet)
//! ```
//! The counter c stands in two bits of the shim that no other query has; T is the query's
//! `threshold`. The digest is a part of the packet's digest that the query has for itself. It is not
//! the path query's, though that writes hashes of switches too: in an xor layer no hash of one switch
//! stands alone, so there is nothing to compare; and a digest that stays once it was equal, as the
//! algorithm wants it, would tell inference of another hop than the one that it expects.
//!
//! *False alarms:* a loop-free path of k switches compares k - 1 times, each time equal by chance
//! with probability 2⁻ᵇ. So a packet is taken for a looping one with the probability that
//! Binomial(k - 1, 2⁻ᵇ) exceeds T ([`false_alarms`]).

pub mod dataplane;
pub mod record;

use dataplane::LoopCode;

use super::encoding::{DIGEST_BITS, reservoir};
use super::hashes::{loop_acts, loop_values};
use crate::pisa::hash::{Addends, Global, HashFamily};

/// Fewest bits of a hash: with fewer most packets would seem to loop.
pub const MIN_BITS: u32 = 4;

/// The largest threshold that the counter in the shim has room for.
pub const MAX_THRESHOLD: u32 = crate::wire::shim::MAX_LOOPS as u32;

impl LoopCode {
    /// Hashes of `bits` bits, at most [`DIGEST_BITS`], and a threshold of at most
    /// [`MAX_THRESHOLD`].
    pub fn new(bits: u32, threshold: u32, family: &HashFamily) -> Self {
        let acts = Global::of(&loop_acts(), family);
        let hops = std::array::from_fn(|hop| acts.argument(&(hop as u32).to_be_bytes()));
        Self {
            mask: (1 << bits.clamp(1, DIGEST_BITS)) - 1,
            threshold: threshold.min(MAX_THRESHOLD) as u8,
            limits: reservoir(),
            acts,
            values: Global::of(&loop_values(), family),
            hops,
        }
    }

    /// The hash argument of a switch with this identifier.
    pub fn switch(&self, id: u32) -> Addends {
        self.values.argument(&id.to_be_bytes())
    }

    /// Matches that do not make a loop yet.
    pub fn threshold(&self) -> u8 {
        self.threshold
    }

    /// Bits of a hash.
    pub fn bits(&self) -> u32 {
        self.mask.count_ones()
    }
}

/// The probability that a packet on a loop-free path of `length` switches is reported.
pub fn false_alarms(length: u32, bits: u32, threshold: u32) -> f64 {
    let (trials, p) = (length.saturating_sub(1), 0.5f64.powi(bits as i32));
    // The terms of the tail, each from the one before; those of few matches are the largest.
    let mut term = (1.0 - p).powi(trials as i32);
    let mut tail = 0.0;
    for matches in 0..=trials {
        if matches > threshold {
            tail += term;
        }
        term *= f64::from(trials - matches) / f64::from(matches + 1) * p / (1.0 - p);
    }
    tail
}
