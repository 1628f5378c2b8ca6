//! From fragments of identifiers to the path, without a list of switches (§4.2): each fragment of
//! each hop is an unknown of its own, and a digest is the xor of some of these.
//!
//! *Guarantee:* digests that the switches of one path wrote decide nothing but the truth. Digests of
//! several paths contradict each other sooner or later; [`Evidence`] says when that would have shown.

use super::Evidence;
use crate::program::pint::dataplane::{Code, MAX_CODED_HOPS};
use crate::program::pint::encoding::Observed;

/// What is known of the identifiers on one flow's path.
#[derive(Clone, Debug)]
pub struct FragmentInference<'a> {
    code: &'a Code,
    length: usize,
    /// The fragments that are decided, those of a hop side by side.
    fragments: Vec<Option<u32>>,
    /// In the order in which they came.
    observed: Vec<Observed>,
    /// The observations that each fragment has a part in.
    by_fragment: Vec<Vec<usize>>,
    contradicted: bool,
}

impl<'a> FragmentInference<'a> {
    /// Nothing is known of a path of `length` switches.
    pub fn new(code: &'a Code, length: usize) -> Self {
        let length = length.min(MAX_CODED_HOPS);
        let unknowns = length * code.fragments();
        Self {
            code,
            length,
            fragments: vec![None; unknowns],
            observed: Vec::new(),
            by_fragment: vec![Vec::new(); unknowns],
            contradicted: false,
        }
    }

    /// The hop (from 1) is the switch with this identifier, as is known from elsewhere.
    pub fn fix(&mut self, hop: usize, id: u32) {
        let (number, mask) = (self.code.fragments(), self.code.mask());
        for fragment in 0..number {
            let shift = self.code.place(fragment, mask).trailing_zeros();
            let at = hop.wrapping_sub(1).wrapping_mul(number).wrapping_add(fragment);
            self.decide(at, id >> shift & mask);
        }
    }

    /// Takes the digest of another packet.
    pub fn add(&mut self, identity: u32, digest: u16) {
        for instance in 0..self.code.instances() {
            let Some(observed) = self.code.read(instance, self.length, identity, digest) else { continue };
            let number = self.observed.len();
            self.observed.push(observed);
            cells(self.code, &observed).for_each(|at| self.by_fragment[at].push(number));
            if let Some((at, value)) = self.look_at(number) {
                self.decide(at, value);
            }
        }
    }

    /// Whether no path agrees with all digests.
    pub fn is_contradicted(&self) -> bool {
        self.contradicted
    }

    /// The identifier of each hop of which all fragments are decided.
    pub fn hops(&self) -> impl Iterator<Item = Option<u32>> {
        let whole = |fragments: &[Option<u32>]| {
            let placed = fragments.iter().enumerate();
            placed.map(|(number, fragment)| Some(self.code.place(number, (*fragment)?))).sum()
        };
        self.fragments.chunks(self.code.fragments()).map(whole)
    }

    /// How well the digests bear the path out, each fragment of each hop by itself.
    pub fn evidence(&self) -> Evidence {
        Evidence::of(self.code, &self.observed, self.length)
    }

    /// Decides a fragment, and those that follow from it.
    fn decide(&mut self, at: usize, value: u32) {
        let mut decided = vec![(at, value)];
        while let Some((at, value)) = decided.pop() {
            let Some(fragment) = self.fragments.get_mut(at) else { continue };
            if let Some(before) = fragment.replace(value) {
                self.contradicted |= before != value;
                continue;
            }
            for number in std::mem::take(&mut self.by_fragment[at]) {
                decided.extend(self.look_at(number));
            }
        }
    }

    /// The only fragment of an observation that is not decided, and its value. One without such a
    /// fragment is to agree with what is decided.
    fn look_at(&mut self, number: usize) -> Option<(usize, u32)> {
        let observed = self.observed[number];
        let (mut rest, mut open, mut several) = (observed.value, None, false);
        for at in cells(self.code, &observed) {
            match self.fragments[at] {
                Some(value) => rest ^= value,
                None => several |= open.replace(at).is_some(),
            }
        }
        self.contradicted |= open.is_none() && rest != 0;
        open.filter(|_| !several).map(|at| (at, rest))
    }
}

/// The places of the fragments that an observation is the xor of.
pub(super) fn cells(code: &Code, observed: &Observed) -> impl Iterator<Item = usize> + use<> {
    let (number, fragment) = (code.fragments(), code.fragment(observed));
    let hops = observed.hops;
    hops.iter().map(move |hop| (hop - 1) * number + fragment)
}
