//! Elimination without a thought for time: all rules for all digests, until nothing changes.

use std::collections::BTreeSet;

use super::super::dataplane::Code;
use super::super::encoding::Observed;
use super::MAX_COMBINATIONS;
use super::universe::Universe;

type Sets = Vec<BTreeSet<usize>>;

/// What is left at each hop.
pub struct Naive<'a> {
    code: &'a Code,
    universe: &'a Universe,
    links: Option<Vec<[usize; 2]>>,
    observed: Vec<Observed>,
    pub candidates: Sets,
    pub is_contradicted: bool,
}

impl<'a> Naive<'a> {
    pub fn new(code: &'a Code, universe: &'a Universe, pairs: Option<&[[usize; 2]]>, length: usize) -> Self {
        let number = universe.switches.len();
        let ends = |pairs: &[[usize; 2]]| {
            let both = pairs.iter().flat_map(|[a, b]| [[*a, *b], [*b, *a]]);
            both.filter(|[a, b]| a != b && *a < number && *b < number).collect()
        };
        let candidates = vec![(0..number).collect(); length];
        let (links, observed) = (pairs.map(ends), Vec::new());
        let mut naive = Self { code, universe, links, observed, candidates, is_contradicted: false };
        naive.eliminate();
        naive
    }

    pub fn fix(&mut self, hop: usize, switch: usize) {
        self.candidates[hop - 1].retain(|candidate| *candidate == switch);
        self.eliminate();
    }

    pub fn add(&mut self, identity: u32, digest: u16) {
        let read = |instance| self.code.read(instance, self.candidates.len(), identity, digest);
        self.observed.extend((0..self.code.instances()).filter_map(read));
        self.eliminate();
    }

    fn eliminate(&mut self) {
        loop {
            let before = self.candidates.clone();
            (0..self.observed.len()).for_each(|number| self.look_at(number));
            self.walk();
            if self.candidates == before {
                break;
            }
        }
        self.is_contradicted |= self.candidates.iter().any(BTreeSet::is_empty);
    }

    fn look_at(&mut self, number: usize) {
        let observed = self.observed[number];
        let value = |switch: &usize| self.code.value(&observed, &self.universe.switches[*switch]);
        let hops: Vec<_> = observed.hops.iter().map(|hop| hop - 1).collect();
        let most = MAX_COMBINATIONS.min(1 << self.code.bits());
        let mut left = Vec::new();
        for hop in &hops {
            let others = || hops.iter().filter(|other| *other != hop).map(|other| &self.candidates[*other]);
            if others().map(|set| set.len() as f64).product::<f64>() >= most as f64 {
                continue;
            }
            let none = BTreeSet::from([observed.value]);
            let sums = others().fold(none, |sums, set| {
                let values: Vec<_> = set.iter().map(value).collect();
                sums.iter().flat_map(|sum| values.iter().map(move |value| sum ^ value)).collect()
            });
            let stays = |switch: &&usize| sums.contains(&value(switch));
            left.push((*hop, self.candidates[*hop].iter().filter(stays).copied().collect()));
        }
        self.is_contradicted |= hops.is_empty() && observed.value != 0;
        left.into_iter().for_each(|(hop, set)| self.candidates[hop] = set);
    }

    /// Keeps the candidates through which a walk leads that never turns back.
    fn walk(&mut self) {
        let (Some(links), false) = (&self.links, self.candidates.len() < 2) else { return };
        let sets = &self.candidates;
        let gaps = sets.len() - 1;
        let are_candidates = |gap: usize, [a, b]: &[usize; 2]| sets[gap].contains(a) && sets[gap + 1].contains(b);
        let mut on_way: Vec<BTreeSet<[usize; 2]>> =
            (0..gaps).map(|gap| links.iter().filter(|link| are_candidates(gap, link)).copied().collect()).collect();
        for gap in 1..gaps {
            let before = on_way[gap - 1].clone();
            on_way[gap].retain(|[a, b]| before.iter().any(|[from, to]| to == a && from != b));
        }
        for gap in (1..gaps).rev() {
            let behind = on_way[gap].clone();
            on_way[gap - 1].retain(|[a, b]| behind.iter().any(|[from, to]| from == b && to != a));
        }
        for (gap, links) in on_way.iter().enumerate() {
            self.candidates[gap].retain(|switch| links.iter().any(|[a, _]| a == switch));
            self.candidates[gap + 1].retain(|switch| links.iter().any(|[_, b]| b == switch));
        }
    }
}
