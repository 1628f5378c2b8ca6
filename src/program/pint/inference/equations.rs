//! What each digest says of the hops that are not decided yet.

use super::set::Set;
use super::universe::Universe;
use crate::pisa::hash::Wanted;
use crate::program::pint::dataplane::Code;
use crate::program::pint::encoding::Observed;
use crate::program::pint::hops::Hops;

/// Combinations of candidates that are tried for a digest of several undecided hops.
pub const MAX_COMBINATIONS: usize = 256;

/// Most undecided hops of a digest whose combinations are tried: without one of them there are two
/// candidates at least at each of the others.
pub const MAX_OPEN: usize = MAX_COMBINATIONS.ilog2() as usize;

/// The values that the undecided hops of an observation wrote xor to `rest`.
#[derive(Clone, Debug)]
pub struct Equation {
    pub rest: u32,
    pub open: Hops,
    /// Number of these.
    pub unknowns: u16,
    /// The candidates say all that it says.
    pub is_used: bool,
    pub is_queued: bool,
    /// For each undecided hop the candidates at the others, added up, when it was looked at last. They
    /// only become fewer, so an equal sum means the same ones.
    pub seen: [u32; MAX_OPEN],
}

impl Equation {
    /// Of hops none of which is decided.
    pub fn new(observed: &Observed) -> Self {
        let (open, rest) = (observed.hops, observed.value);
        Self { rest, open, unknowns: open.len() as u16, is_used: false, is_queued: false, seen: [0; MAX_OPEN] }
    }

    /// A hop wrote this value.
    pub fn decide(&mut self, hop: usize, value: u32) {
        self.rest ^= value;
        self.open.remove(hop);
        self.unknowns -= 1;
        self.seen = [0; MAX_OPEN];
    }
}

/// All values that candidates of some hops can xor to.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    pub values: Vec<u32>,
    next: Vec<u32>,
    of_hop: Vec<u32>,
}

impl Sums {
    /// Of candidates of `others`, and `rest`. Whether that leaves values out.
    pub fn collect<'a>(
        &mut self,
        rest: u32,
        others: impl Iterator<Item = &'a Set>,
        (code, universe, observed): (&Code, &Universe, &Observed),
    ) -> bool {
        self.values.clear();
        self.values.push(rest);
        for candidates in others {
            let Self { values, next, of_hop } = self;
            of_hop.clear();
            of_hop.extend(candidates.iter().map(|switch| universe.value(code, observed, switch)));
            next.clear();
            let mut known = Wanted::none(code.mask());
            let is_known = code.bits() <= Wanted::SET_BITS;
            for sum in values.iter() {
                let sums = of_hop.iter().map(|value| sum ^ value);
                next.extend(sums.filter(|sum| !is_known || known.add(*sum)));
            }
            if !is_known {
                next.sort_unstable();
                next.dedup();
            }
            std::mem::swap(values, next);
        }
        self.values.len() < 1 << code.bits()
    }
}
