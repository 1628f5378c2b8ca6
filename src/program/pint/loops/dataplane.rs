//! What a switch does with a packet of the loop query: Algorithm 2 of the paper (§A.4). It has no
//! register and no state of a flow.

use crate::pisa::hash::{Addends, Global};
use crate::program::pint::dataplane::MAX_HOPS;

/// What a packet carries for the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The hash of a switch that the packet passed; the query's part of the packet's digest.
    pub digest: u16,
    /// How often a switch has found its own hash there.
    pub matches: u8,
}

/// A packet behind a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    pub carried: Carried,
    /// The switch found its own hash once more than the threshold.
    pub is_loop: bool,
}

/// The code of the loop query.
#[derive(Debug)]
pub struct LoopCode {
    /// As many ones as a hash has bits.
    pub(super) mask: u32,
    /// Matches that do not make a loop yet (T).
    pub(super) threshold: u8,
    /// The largest hash with which a hop acts, by hop.
    pub(in crate::program::pint) limits: [u32; MAX_HOPS + 1],
    pub(super) acts: Global,
    pub(super) values: Global,
    /// The hops as second arguments of `acts`.
    pub(super) hops: [Addends; MAX_HOPS + 1],
}

impl LoopCode {
    /// Algorithm 2 at the switch with the hash argument `switch`, hop number `hop` of the packet's
    /// way. A packet with more hops than are counted stays as it is.
    #[inline(always)]
    pub fn check(&self, switch: Addends, hop: u8, identity: u32, before: Carried) -> Checked {
        let Some(argument) = self.hops.get(usize::from(hop)) else {
            return Checked { carried: before, is_loop: false };
        };
        let value = self.values.join(identity, switch) & self.mask;
        // At the first hop nothing stands in the digest that could be equal.
        let equal = hop > 1 && u32::from(before.digest) == value;
        if equal && before.matches >= self.threshold {
            return Checked { carried: before, is_loop: true };
        }
        let matches = if hop > 1 { before.matches + u8::from(equal) } else { 0 };
        // A digest that was equal once stays, so that its writer finds it again.
        let acts = matches == 0 && self.acts.join(identity, *argument) <= self.limits[usize::from(hop)];
        let digest = if acts { value as u16 } else { before.digest };
        Checked { carried: Carried { digest, matches }, is_loop: false }
    }
}
