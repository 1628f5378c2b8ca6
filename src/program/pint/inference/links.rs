//! What the topology says of a path: consecutive switches are neighbours, and no packet goes back
//! to the switch that it came from.

use super::set::Set;

/// The links of a network, each in both directions, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// From which switch to which.
    ends: Vec<[usize; 2]>,
    /// The links by which a packet may go on, and those by which it may have come.
    next: Vec<Vec<usize>>,
    previous: Vec<Vec<usize>>,
    /// The links of each switch, by direction: out of it, into it.
    by_switch: [Vec<Vec<usize>>; 2],
}

impl Links {
    /// The links between `switches` switches; pairs that are there twice and links of a switch with
    /// itself count once and not at all.
    pub fn new(switches: usize, pairs: impl IntoIterator<Item = [usize; 2]>) -> Self {
        let mut ends: Vec<_> = pairs
            .into_iter()
            .filter(|[a, b]| a != b && *a < switches && *b < switches)
            .flat_map(|[a, b]| [[a, b], [b, a]])
            .collect();
        ends.sort_unstable();
        ends.dedup();
        let mut by_switch = [vec![Vec::new(); switches], vec![Vec::new(); switches]];
        for (link, [from, to]) in ends.iter().enumerate() {
            by_switch[0][*from].push(link);
            by_switch[1][*to].push(link);
        }
        let on = |direction: usize, [from, to]: [usize; 2]| -> Vec<usize> {
            let (here, back) = if direction == 0 { (to, from) } else { (from, to) };
            let others = by_switch[direction][here].iter().copied();
            others.filter(|link| ends[*link][1 - direction] != back).collect()
        };
        let next = ends.iter().map(|ends| on(0, *ends)).collect();
        let previous = ends.iter().map(|ends| on(1, *ends)).collect();
        Self { ends, next, previous, by_switch }
    }
}

/// The links that a path of a given length may take, by its gaps: gap 0 is between hops 1 and 2.
///
/// Each link of a gap has a next one in the gap behind it and a previous one in the gap before it,
/// and its ends are candidates of its hops. So a candidate is left only if a walk leads through it,
/// and when a hop's candidates change, the change spreads to both sides and comes back from none.
#[derive(Clone, Debug)]
pub struct Walks {
    gaps: Vec<Set>,
    reached: Set,
    ends: Set,
}

impl Walks {
    /// All walks through this number of switches, and the candidates that some walk leads through.
    pub fn all(links: &Links, candidates: &mut [Set]) -> Self {
        let (number, switches) = (links.ends.len(), links.by_switch[0].len());
        let gaps = vec![Set::all(number); candidates.len().saturating_sub(1)];
        let mut all = Self { gaps, reached: Set::none(number), ends: Set::none(switches) };
        // A walk that has begun may find no way on.
        (1..all.gaps.len()).for_each(|gap| _ = all.follow(links, gap, 0));
        (1..all.gaps.len()).for_each(|gap| _ = all.follow(links, all.gaps.len() - 1 - gap, 1));
        for gap in 0..all.gaps.len() {
            for (direction, hop) in [(0, gap), (1, gap + 1)] {
                all.gather(links, gap, direction);
                candidates[hop].intersect(&all.ends);
            }
        }
        all
    }

    /// The switches at an end of a gap's links.
    fn gather(&mut self, links: &Links, gap: usize, direction: usize) {
        self.ends.clear();
        self.gaps[gap].iter().for_each(|link| self.ends.add(links.ends[link][direction]));
    }

    /// Keeps the walks through the candidates of hop `at` (from 0), and the candidates that such
    /// walks lead through. Adds the other hops whose candidates changed to `changed`.
    pub fn keep(&mut self, links: &Links, candidates: &mut [Set], at: usize, changed: &mut Vec<usize>) {
        for (direction, near) in [(0, at), (1, at.wrapping_sub(1))] {
            let (mut near, mut first) = (near, true);
            while near < self.gaps.len() {
                let (hop, far_hop) = if direction == 0 { (near, near + 1) } else { (near + 1, near) };
                let shrank = if first {
                    self.leave(links, &candidates[hop], near, direction)
                } else {
                    self.follow(links, near, direction)
                };
                if !shrank {
                    break;
                }
                self.gather(links, near, 1 - direction);
                if candidates[far_hop].intersect(&self.ends) {
                    changed.push(far_hop);
                }
                first = false;
                near = if direction == 0 { near + 1 } else { near.wrapping_sub(1) };
            }
        }
    }

    /// Keeps the links of a gap that begin, or end, at a candidate.
    fn leave(&mut self, links: &Links, candidates: &Set, gap: usize, direction: usize) -> bool {
        if 4 * candidates.len() > links.by_switch[0].len() {
            return self.gaps[gap].retain(|link| candidates.contains(links.ends[link][direction]));
        }
        self.reached.clear();
        let of = |switch: usize| &links.by_switch[direction][switch];
        candidates.iter().flat_map(of).for_each(|link| self.reached.add(*link));
        self.gaps[gap].intersect(&self.reached)
    }

    /// Keeps the links of a gap that go on from one of the gap before, or behind.
    fn follow(&mut self, links: &Links, gap: usize, direction: usize) -> bool {
        let (from, on) = if direction == 0 { (gap - 1, &links.next) } else { (gap + 1, &links.previous) };
        self.reached.clear();
        self.gaps[from].iter().flat_map(|link| &on[link]).for_each(|link| self.reached.add(*link));
        self.gaps[gap].intersect(&self.reached)
    }
}
