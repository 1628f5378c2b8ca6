//! From digests to the path: candidate elimination (§4.2).
//!
//! For each hop there is a set of candidates, at first all switches. A digest that one hop wrote
//! keeps those candidates whose value it holds. A digest of several hops does so as soon as all
//! these but one are decided, or so few candidates are left at the others that their combinations
//! do not fill the digest's values. With a topology, candidates through which no walk leads go too.
//!
//! *Order:* whatever is looked at first, the same candidates are left in the end: candidates only go,
//! and fewer at one hop never keep more at another. So digests of one undecided hop, which leave the
//! fewest, come before those of several, and these wait until candidates of another hop went.
//!
//! *Guarantee:* the true path is never eliminated, as long as its switches are among the
//! candidates, its digests are those that its switches wrote, and the topology has its links. Then
//! a path that is decided is the true one. Where one of these does not hold, nearly always some
//! digest contradicts; [`Evidence`] says when that is as good as certain.

mod confirm;
mod equations;
mod fragments;
mod links;
#[cfg(test)]
mod naive;
mod set;
mod standing;
#[cfg(test)]
mod tests;
mod universe;

use arrayvec::ArrayVec;

use super::dataplane::{Code, MAX_CODED_HOPS};
use super::encoding::Observed;
use super::hops::Hops;
use crate::pisa::hash::Wanted;

pub use confirm::Evidence;
use equations::{Equation, MAX_COMBINATIONS, MAX_OPEN, Sums};
pub use fragments::FragmentInference;
pub use links::Links;
use links::Walks;
use set::Set;
pub use standing::{Mark, Standing};
pub use universe::Universe;

/// What is known of one flow's path.
#[derive(Clone, Debug)]
pub struct Inference<'a> {
    code: &'a Code,
    universe: &'a Universe,
    candidates: Vec<Set>,
    walks: Option<Walks>,
    /// In the order in which they came.
    observed: Vec<Observed>,
    /// Of each of these.
    equations: Vec<Equation>,
    /// The equations that each undecided hop has a part in.
    by_hop: Vec<Vec<usize>>,
    /// Hops with one candidate.
    decided: Hops,
    contradicted: bool,
    /// Hops whose candidates changed, equations of one unknown or none, and of several.
    changed: Vec<usize>,
    single: Vec<usize>,
    several: Vec<usize>,
    sums: Sums,
}

impl<'a> Inference<'a> {
    /// Nothing is known of a path of `length` switches.
    pub fn new(code: &'a Code, universe: &'a Universe, length: usize) -> Self {
        let length = length.min(MAX_CODED_HOPS);
        let mut candidates = vec![Set::all(universe.switches.len()); length];
        let walks = universe.links.as_ref().map(|links| Walks::all(links, &mut candidates));
        let mut none = Self {
            code,
            universe,
            candidates,
            walks,
            observed: Vec::new(),
            equations: Vec::new(),
            by_hop: vec![Vec::new(); length],
            decided: Hops::default(),
            contradicted: false,
            changed: (0..length).collect(),
            single: Vec::new(),
            several: Vec::new(),
            sums: Sums::default(),
        };
        none.settle();
        none
    }

    /// The hop (from 1) is this switch, as is known from elsewhere: the sink knows itself.
    pub fn fix(&mut self, hop: usize, switch: usize) {
        if let Some(candidates) = self.candidates.get_mut(hop.wrapping_sub(1)) {
            if candidates.retain(|candidate| candidate == switch) {
                self.changed.push(hop - 1);
            }
            self.settle();
        }
    }

    /// Takes the digest of another packet.
    pub fn add(&mut self, identity: u32, digest: u16) {
        self.add_all([(identity, digest)]);
    }

    /// Takes the digests of several packets, which is less work than one after the other.
    pub fn add_all(&mut self, packets: impl IntoIterator<Item = (u32, u16)>) {
        for (identity, digest) in packets {
            let parts = 0..self.code.instances();
            for instance in parts {
                let observed = self.code.read(instance, self.candidates.len(), identity, digest);
                observed.into_iter().for_each(|observed| self.observe(observed));
            }
        }
        self.settle();
    }

    fn observe(&mut self, observed: Observed) {
        let (number, mut equation) = (self.equations.len(), Equation::new(&observed));
        for hop in observed.hops.and(self.decided).iter() {
            if let Some(switch) = self.candidates[hop - 1].only() {
                equation.decide(hop, self.universe.value(self.code, &observed, switch));
            }
        }
        equation.open.iter().for_each(|hop| self.by_hop[hop - 1].push(number));
        self.observed.push(observed);
        self.equations.push(equation);
        self.queue(number);
    }

    /// The places of the path's switches, if one path alone agrees with all digests.
    pub fn path(&self) -> Option<Vec<usize>> {
        let is_decided = !self.contradicted && self.decided.len() == self.candidates.len();
        if is_decided { self.candidates.iter().map(Set::only).collect() } else { None }
    }

    /// Whether no path agrees with all digests.
    pub fn is_contradicted(&self) -> bool {
        self.contradicted
    }

    /// The switch at each hop where one alone is left.
    pub fn hops(&self) -> impl Iterator<Item = Option<usize>> {
        self.candidates.iter().map(|candidates| candidates.only().filter(|_| !self.contradicted))
    }

    /// How well the digests bear the path out, each hop by itself.
    pub fn evidence(&self) -> Evidence {
        Evidence::of(self.code, &self.observed, self.candidates.len())
    }

    /// Follows what is new to its end.
    fn settle(&mut self) {
        while !self.contradicted {
            if let Some(hop) = self.changed.pop() {
                self.spread(hop);
            } else if let Some(number) = self.single.pop() {
                self.solve(number);
            } else if let Some(number) = self.several.pop() {
                self.combine(number);
            } else {
                break;
            }
        }
        self.changed.clear();
        self.single.clear();
        self.several.clear();
    }

    /// An equation is to be looked at.
    fn queue(&mut self, number: usize) {
        let equation = &mut self.equations[number];
        if equation.unknowns <= 1 {
            self.single.push(number);
        } else if !equation.is_queued && usize::from(equation.unknowns) <= MAX_OPEN {
            equation.is_queued = true;
            self.several.push(number);
        }
    }

    /// A hop (from 0) has fewer candidates than before.
    fn spread(&mut self, hop: usize) {
        match self.candidates[hop].len() {
            0 => self.contradicted = true,
            1 if !self.decided.contains(hop + 1) => self.decide(hop),
            number if number <= MAX_COMBINATIONS => {
                let mut equations = std::mem::take(&mut self.by_hop[hop]);
                equations.retain(|number| !self.equations[*number].is_used);
                equations.iter().for_each(|number| self.queue(*number));
                self.by_hop[hop] = equations;
            }
            _ => {}
        }
        if let (Some(walks), Some(links)) = (&mut self.walks, &self.universe.links) {
            walks.keep(links, &mut self.candidates, hop, &mut self.changed);
        }
    }

    /// A hop (from 0) has one candidate.
    fn decide(&mut self, hop: usize) {
        self.decided.insert(hop + 1);
        let Some(switch) = self.candidates[hop].only() else { return };
        for number in std::mem::take(&mut self.by_hop[hop]) {
            let equation = &mut self.equations[number];
            if !equation.is_used {
                equation.decide(hop + 1, self.universe.value(self.code, &self.observed[number], switch));
                self.queue(number);
            }
        }
    }

    /// Keeps the candidates that agree with an equation of one unknown at most.
    fn solve(&mut self, number: usize) {
        let equation = &mut self.equations[number];
        if std::mem::replace(&mut equation.is_used, true) {
            return;
        }
        let rest = equation.rest;
        match equation.open.iter().next() {
            Some(hop) => self.filter(hop - 1, number, &Wanted::one(self.code.mask(), rest)),
            None => self.contradicted |= rest != 0,
        }
    }

    /// Keeps the candidates of several undecided hops whose value some candidates of the others
    /// complete to what they xor to.
    fn combine(&mut self, number: usize) {
        let equation = &mut self.equations[number];
        equation.is_queued = false;
        if equation.is_used || equation.unknowns <= 1 {
            return;
        }
        let open: ArrayVec<usize, MAX_OPEN> = equation.open.iter().map(|hop| hop - 1).collect();
        let most = MAX_COMBINATIONS.min(1 << self.code.bits());
        for (place, &hop) in open.iter().enumerate() {
            let others = || open.iter().filter(|other| **other != hop).map(|other| &self.candidates[*other]);
            let combinations = others().fold(1usize, |product, other| product.saturating_mul(other.len()));
            let seen = others().map(|other| other.len() as u32).sum();
            let equation = &mut self.equations[number];
            if combinations >= most || std::mem::replace(&mut equation.seen[place], seen) == seen {
                continue;
            }
            let observed = self.observed[number];
            if self.sums.collect(equation.rest, others(), (self.code, self.universe, &observed)) {
                self.filter_by_sums(hop, number);
            }
        }
    }

    /// Keeps the candidates of a hop (from 0) whose value is one of the sums.
    fn filter_by_sums(&mut self, hop: usize, number: usize) {
        if self.code.bits() <= Wanted::SET_BITS {
            let mut wanted = Wanted::none(self.code.mask());
            self.sums.values.iter().for_each(|sum| _ = wanted.add(*sum));
            return self.filter(hop, number, &wanted);
        }
        let (code, universe, observed, sums) = (self.code, self.universe, &self.observed[number], &self.sums.values);
        let is_wanted = |switch| sums.binary_search(&universe.value(code, observed, switch)).is_ok();
        if self.candidates[hop].retain(is_wanted) {
            self.changed.push(hop);
        }
    }

    fn filter(&mut self, hop: usize, number: usize, wanted: &Wanted) {
        if self.universe.select(self.code, &self.observed[number], wanted, &mut self.candidates[hop]) {
            self.changed.push(hop);
        }
    }
}
