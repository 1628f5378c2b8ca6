//! From digests to the path: candidate elimination (§4.2).
//!
//! For each hop there is a set of candidates, at first all switches. A digest that one hop wrote
//! keeps those candidates whose value it holds. A digest of several hops does so as soon as all
//! these but one are decided, or so few candidates are left at the others that their combinations
//! do not fill the digest's values. With a topology, candidates through which no walk leads go too.
//!
//! *Guarantee:* the true path is never eliminated, as long as its switches are among the
//! candidates, its digests are those that its switches wrote, and the topology has its links. Then
//! a path that is decided is the true one. Where one of these does not hold, nearly always some
//! digest contradicts; [`Evidence`] says when that is as good as certain.

mod confirm;
mod fragments;
mod links;
mod set;
#[cfg(test)]
mod tests;

use super::dataplane::{Code, Coded, MAX_CODED_HOPS};
use super::encoding::Observed;
use super::hops::Hops;

pub use confirm::Evidence;
pub use fragments::FragmentInference;
pub use links::Links;
use links::Walks;
use set::Set;

/// Combinations of candidates that are tried for a digest of several undecided hops.
const MAX_COMBINATIONS: usize = 256;

/// The switches that may be on a path.
#[derive(Clone, Debug)]
pub struct Universe {
    switches: Vec<Coded>,
    links: Option<Links>,
}

impl Universe {
    /// Switches by their identifiers; `links` are pairs of their places in this list.
    pub fn new(code: &Code, ids: impl IntoIterator<Item = u32>, links: Option<&[[usize; 2]]>) -> Self {
        let switches: Vec<_> = ids.into_iter().map(|id| code.switch(id)).collect();
        let links = links.map(|pairs| Links::new(switches.len(), pairs.iter().copied()));
        Self { switches, links }
    }

    /// The switch at a place of the list.
    pub fn switch(&self, place: usize) -> Option<&Coded> {
        self.switches.get(place)
    }

    /// The place of the switch with this identifier.
    pub fn place(&self, id: u32) -> Option<usize> {
        self.switches.iter().position(|switch| switch.id == id)
    }
}

/// What is known of one flow's path.
#[derive(Clone, Debug)]
pub struct Inference<'a> {
    code: &'a Code,
    universe: &'a Universe,
    candidates: Vec<Set>,
    walks: Option<Walks>,
    /// In the order in which they came.
    observed: Vec<Observed>,
    /// Those that say no more than the candidates do.
    used: Vec<bool>,
    /// The observations that each hop has a part in.
    by_hop: Vec<Vec<usize>>,
    /// Hops with one candidate.
    decided: Hops,
    contradicted: bool,
    /// Observations to look at, and hops whose candidates changed.
    queue: Vec<usize>,
    changed: Vec<usize>,
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
            used: Vec::new(),
            by_hop: vec![Vec::new(); length],
            decided: Hops::default(),
            contradicted: false,
            queue: Vec::new(),
            changed: (0..length).collect(),
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
        for instance in 0..self.code.instances() {
            let Some(observed) = self.code.read(instance, self.candidates.len(), identity, digest) else { continue };
            let number = self.observed.len();
            self.observed.push(observed);
            self.used.push(false);
            observed.hops.iter().for_each(|hop| self.by_hop[hop - 1].push(number));
            self.queue.push(number);
        }
        self.settle();
    }

    /// The places of the path's switches, if one path alone agrees with all digests.
    pub fn path(&self) -> Option<Vec<usize>> {
        if self.contradicted { None } else { self.candidates.iter().map(Set::only).collect() }
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
            } else if let Some(number) = self.queue.pop() {
                self.look_at(number);
            } else {
                break;
            }
        }
        self.queue.clear();
        self.changed.clear();
    }

    /// A hop (from 0) has fewer candidates than before.
    fn spread(&mut self, hop: usize) {
        match self.candidates[hop].len() {
            0 => self.contradicted = true,
            1 => self.decided.insert(hop + 1),
            _ => {}
        }
        if let (Some(walks), Some(links)) = (&mut self.walks, &self.universe.links) {
            walks.keep(links, &mut self.candidates, hop, &mut self.changed);
        }
        if self.candidates[hop].len() <= MAX_COMBINATIONS {
            let open = self.by_hop[hop].iter().copied().filter(|number| !self.used[*number]);
            self.queue.extend(open);
        }
    }

    /// Keeps the candidates that agree with an observation.
    fn look_at(&mut self, number: usize) {
        if self.used[number] {
            return;
        }
        let observed = self.observed[number];
        let decided = observed.hops.and(self.decided);
        let known = decided.iter().filter_map(|hop| self.candidates[hop - 1].only());
        let rest = known.fold(observed.value, |rest, switch| rest ^ self.value(&observed, switch));
        let open: Vec<usize> = observed.hops.without(self.decided).iter().map(|hop| hop - 1).collect();
        match open[..] {
            [] => {
                self.used[number] = true;
                self.contradicted |= rest != 0;
            }
            [hop] => {
                self.used[number] = true;
                self.filter(hop, &observed, |value| value == rest);
            }
            _ => self.combine(&observed, &open, rest),
        }
    }

    /// Keeps the candidates of several undecided hops whose value some candidates of the others
    /// complete to `rest`.
    fn combine(&mut self, observed: &Observed, open: &[usize], rest: u32) {
        let most = MAX_COMBINATIONS.min(1 << self.code.bits());
        let combinations = |hop: usize, sets: &[Set]| {
            let others = open.iter().filter(|other| **other != hop);
            others.fold(1usize, |product, other| product.saturating_mul(sets[*other].len()))
        };
        for &hop in open {
            if combinations(hop, &self.candidates) >= most {
                continue;
            }
            let mut sums = vec![rest];
            for other in open.iter().filter(|other| **other != hop) {
                let values: Vec<_> =
                    self.candidates[*other].iter().map(|switch| self.value(observed, switch)).collect();
                sums = sums.iter().flat_map(|sum| values.iter().map(move |value| sum ^ value)).collect();
            }
            sums.sort_unstable();
            sums.dedup();
            self.filter(hop, observed, |value| sums.binary_search(&value).is_ok());
        }
    }

    fn filter(&mut self, hop: usize, observed: &Observed, keep: impl Fn(u32) -> bool) {
        let (code, switches) = (self.code, &self.universe.switches);
        if self.candidates[hop].retain(|switch| keep(code.value(observed, &switches[switch]))) {
            self.changed.push(hop);
        }
    }

    fn value(&self, observed: &Observed, switch: usize) -> u32 {
        self.code.value(observed, &self.universe.switches[switch])
    }
}
