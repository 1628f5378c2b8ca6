//! The networks of Figure 10.

use std::collections::VecDeque;

use weir::trace::SplitMix64;

/// Switches and the links between them.
pub struct Graph {
    pub name: &'static str,
    /// Links, a pair of switches each.
    pub links: Vec<[usize; 2]>,
    neighbours: Vec<Vec<usize>>,
    /// From each switch to each, in links.
    distances: Vec<Vec<usize>>,
}

impl Graph {
    pub fn new(name: &'static str, links: Vec<[usize; 2]>) -> Self {
        let switches = links.iter().flatten().max().map_or(0, |last| last + 1);
        let mut neighbours = vec![Vec::new(); switches];
        for [a, b] in &links {
            neighbours[*a].push(*b);
            neighbours[*b].push(*a);
        }
        let distances = (0..switches).map(|from| distances(&neighbours, from)).collect();
        Self { name, links, neighbours, distances }
    }

    pub fn kentucky_datalink() -> Self {
        Self::new("Kentucky Datalink", read(include_str!("../../../data/topology_zoo/kentucky_datalink.csv")))
    }

    pub fn us_carrier() -> Self {
        Self::new("US Carrier", read(include_str!("../../../data/topology_zoo/us_carrier.csv")))
    }

    /// The fat tree of `k` ports a switch: core switches, then for each pod its aggregation and its
    /// edge switches.
    pub fn fat_tree(k: usize) -> Self {
        let (half, core) = (k / 2, k * k / 4);
        let mut links = Vec::new();
        for pod in 0..k {
            let aggregation = |at: usize| core + pod * k + at;
            for at in 0..half {
                links.extend((0..half).map(|up| [at * half + up, aggregation(at)]));
                links.extend((0..half).map(|edge| [aggregation(at), aggregation(half + edge)]));
            }
        }
        Self::new("fat tree K = 8", links)
    }

    pub fn switches(&self) -> usize {
        self.neighbours.len()
    }

    /// The most switches on a shortest path.
    pub fn longest(&self) -> usize {
        self.distances.iter().flatten().max().map_or(0, |links| links + 1)
    }

    /// The two ends of each shortest path with this number of switches.
    pub fn ends(&self, length: usize) -> Vec<[usize; 2]> {
        let all = (0..self.switches()).flat_map(|from| (0..self.switches()).map(move |to| [from, to]));
        all.filter(|[from, to]| self.distances[*from][*to] + 1 == length).collect()
    }

    /// A shortest path between these ends, drawn link by link.
    pub fn path(&self, [from, to]: [usize; 2], rng: &mut SplitMix64) -> Vec<usize> {
        let left = &self.distances[to];
        let mut path = vec![from];
        while let Some(&at) = path.last()
            && at != to
        {
            let nearer: Vec<_> = self.neighbours[at].iter().filter(|next| left[**next] < left[at]).collect();
            path.push(*nearer[rng.below(nearer.len() as u64) as usize]);
        }
        path
    }
}

fn read(csv: &str) -> Vec<[usize; 2]> {
    let link = |line: &str| {
        let (a, b) = line.split_once(',')?;
        Some([a.parse().ok()?, b.parse().ok()?])
    };
    csv.lines().skip(1).filter_map(link).collect()
}

fn distances(neighbours: &[Vec<usize>], from: usize) -> Vec<usize> {
    let mut distances = vec![usize::MAX; neighbours.len()];
    distances[from] = 0;
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for &next in &neighbours[at] {
            if distances[next] == usize::MAX {
                distances[next] = distances[at] + 1;
                queue.push_back(next);
            }
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The switches and the longest paths of papers/pint.txt, one switch more in the two files.
    #[test]
    fn the_networks_are_those_of_the_paper() {
        let shape = |graph: Graph| (graph.switches(), graph.links.len(), graph.longest());
        assert_eq!(shape(Graph::kentucky_datalink()), (754, 895, 59));
        assert_eq!(shape(Graph::us_carrier()), (158, 189, 36));
        assert_eq!(shape(Graph::fat_tree(8)), (80, 256, 5));
        let graph = Graph::kentucky_datalink();
        let ends = graph.ends(59);
        assert_eq!(ends.len(), 12);
        let path = graph.path(ends[0], &mut SplitMix64::new(1));
        assert_eq!((path.len(), path[0], path[58]), (59, ends[0][0], ends[0][1]));
    }
}
