//! Where the nodes of a map are drawn. The same map has the same layout.
//!
//! A network in tiers (fat tree, spine and leaf) has its edge switches in a row and the others above it, by their
//! distance from hosts. A chain is a row. Anything else is laid out by springs along its links.

use std::collections::VecDeque;
use std::f64::consts::TAU;

use super::{Edge, Map, NodeKind};

/// Least distance of two nodes of a row, and the distance of two rows.
const COLUMN: f64 = 96.0;
const ROW: f64 = 130.0;
/// Space between the nodes of a row, and where links lie in the row: room for a line with a rate above it.
const GAP: f64 = 16.0;
const LINK: f64 = 72.0;
/// The same where a row has many nodes.
const NARROW_GAP: f64 = 6.0;
const NARROW_LINK: f64 = 34.0;
/// Letters of a name that are drawn, in a wide and in a narrow row.
const NAME: usize = 12;
const NARROW_NAME: usize = 4;
/// A row with more nodes is narrow.
const MANY: usize = 14;
/// A row with more nodes is folded, and the distance of its lines.
const FOLD: usize = 44;
const LINE: f64 = 36.0;
/// Margin around all nodes.
const MARGIN: f64 = 60.0;
/// More nodes than that are put on a circle: springs take the square of their number.
const MOST_SPRUNG: usize = 512;
const ROUNDS: u32 = 120;
/// Fewer nodes have a plain circle.
const FEW: usize = 8;

/// Where nodes are drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    pub width: f64,
    pub height: f64,
    /// Of each node.
    pub at: Vec<[f64; 2]>,
    /// Nodes stand so close that their names have room for few letters.
    pub is_narrow: bool,
}

impl Layout {
    pub fn of(map: &Map) -> Self {
        let neighbours = map.neighbours();
        let chain = chain(&neighbours).or_else(|| map.edges.is_empty().then(|| (0..map.nodes.len()).collect()));
        if let Some(row) = chain {
            return rows(map, vec![row], [LINK, NARROW_LINK]);
        }
        match tiers(map, &neighbours) {
            Some(tiers) => rows(map, ordered(tiers, &neighbours), [GAP, NARROW_GAP]),
            None => sprung(map, &neighbours),
        }
    }
}

/// The end of a name that has more letters than are drawn: the beginning is what names have in common.
pub fn label(name: &str, is_narrow: bool) -> String {
    let letters = name.chars().count();
    match is_narrow {
        true => name.chars().skip(letters.saturating_sub(NARROW_NAME)).collect(),
        false if letters <= NAME => name.to_owned(),
        false => "…".chars().chain(name.chars().skip(letters - NAME + 1)).collect(),
    }
}

/// Half the width of a node with this label.
pub fn half_width(label: &str, is_narrow: bool) -> f64 {
    if is_narrow { 15.0 } else { (4.0 * label.chars().count() as f64 + 8.0).max(20.0) }
}

/// Distance of two nodes of a row that have this space between them.
fn column(map: &Map, is_narrow: bool, gap: f64) -> f64 {
    let half = map.nodes.iter().map(|node| half_width(&label(&node.name, is_narrow), is_narrow));
    2.0 * half.fold(0.0, f64::max) + gap
}

/// The nodes of a chain from one end to the other.
fn chain(neighbours: &[Vec<usize>]) -> Option<Vec<usize>> {
    let ends = neighbours.iter().filter(|of| of.len() == 1).count();
    if ends != 2 || neighbours.iter().any(|of| !(1..=2).contains(&of.len())) {
        return None;
    }
    let mut row = vec![neighbours.iter().position(|of| of.len() == 1)?];
    while let Some(next) = neighbours[row[row.len() - 1]].iter().find(|next| !row.contains(next)) {
        row.push(*next);
    }
    (row.len() == neighbours.len()).then_some(row)
}

/// The nodes by their distance from those at the edge, if all links lead from a tier to another.
fn tiers(map: &Map, neighbours: &[Vec<usize>]) -> Option<Vec<Vec<usize>>> {
    let distances = distances(neighbours, edge(map, neighbours))?;
    if map.edges.iter().any(|Edge { ends: [a, b], .. }| distances[*a] == distances[*b]) {
        return None;
    }
    let mut tiers = vec![Vec::new(); distances.iter().max()? + 1];
    distances.iter().enumerate().for_each(|(node, distance)| tiers[*distance].push(node));
    (tiers.len() > 1).then_some(tiers)
}

/// The nodes that stand at the edge: hosts, else switches with hosts, else those with fewest links.
fn edge(map: &Map, neighbours: &[Vec<usize>]) -> Vec<usize> {
    let nodes = || map.nodes.iter().enumerate();
    let outer: Vec<_> = nodes().filter(|(_, node)| node.kind != NodeKind::Switch).map(|(at, _)| at).collect();
    if !outer.is_empty() {
        return outer;
    }
    let edges: Vec<_> = nodes().filter(|(_, node)| node.hosts > 0).map(|(at, _)| at).collect();
    if !edges.is_empty() {
        return edges;
    }
    let least = neighbours.iter().map(Vec::len).min().unwrap_or_default();
    neighbours.iter().enumerate().filter(|(_, of)| of.len() == least).map(|(at, _)| at).collect()
}

/// Links to the nearest of these nodes; `None` where not all nodes have one.
fn distances(neighbours: &[Vec<usize>], from: Vec<usize>) -> Option<Vec<usize>> {
    let mut distances = vec![None; neighbours.len()];
    from.iter().for_each(|node| distances[*node] = Some(0));
    let mut next: VecDeque<_> = from.into();
    while let Some(node) = next.pop_front() {
        let further = distances[node].map(|distance: usize| distance + 1);
        for &neighbour in &neighbours[node] {
            if distances[neighbour].is_none() {
                distances[neighbour] = further;
                next.push_back(neighbour);
            }
        }
    }
    distances.into_iter().collect()
}

/// The tiers with their nodes over the middle of their neighbours below, so that few links cross.
fn ordered(mut tiers: Vec<Vec<usize>>, neighbours: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut place = vec![0.0; neighbours.len()];
    for tier in &mut tiers {
        let below = |node: &usize| neighbours[*node].iter().filter(|of| place[**of] > 0.0);
        let middle = |node: &usize| below(node).map(|of| place[*of]).sum::<f64>() / below(node).count().max(1) as f64;
        let mut middles: Vec<_> = tier.iter().map(|node| (middle(node), *node)).collect();
        middles.sort_by(|a, b| a.0.total_cmp(&b.0));
        *tier = middles.into_iter().map(|(_, node)| node).collect();
        let number = tier.len() as f64;
        tier.iter().enumerate().for_each(|(at, node)| place[*node] = (at + 1) as f64 / (number + 1.0));
    }
    tiers
}

/// Rows of nodes, the first at the bottom, with these spaces between nodes of wide and narrow rows. Long ones are
/// folded into lines.
fn rows(map: &Map, rows: Vec<Vec<usize>>, [wide, narrow]: [f64; 2]) -> Layout {
    let lines = |row: &Vec<usize>| row.len().div_ceil(FOLD).max(1);
    let line_length = |row: &Vec<usize>| row.len().div_ceil(lines(row));
    let longest = rows.iter().map(line_length).max().unwrap_or_default();
    let is_narrow = longest > MANY;
    let column = if is_narrow { column(map, true, narrow) } else { column(map, false, wide).max(COLUMN) };
    let width = 2.0 * MARGIN + column * longest.max(3) as f64;
    let (mut at, mut y) = (vec![[0.0, 0.0]; map.nodes.len()], MARGIN);
    for (above, row) in rows.iter().rev().enumerate() {
        y += if above > 0 { ROW } else { 0.0 };
        for (line, row) in row.chunks(line_length(row).max(1)).enumerate() {
            y += if line > 0 { LINE } else { 0.0 };
            let step = (width - 2.0 * MARGIN) / row.len() as f64;
            row.iter().enumerate().for_each(|(place, node)| at[*node] = [MARGIN + step * (place as f64 + 0.5), y]);
        }
    }
    Layout { width, height: y + MARGIN, at, is_narrow }
}

/// Springs along links pull, and all nodes push each other away (Fruchterman and Reingold, 1991). They begin on
/// a circle, so that nothing is drawn by chance.
fn sprung(map: &Map, neighbours: &[Vec<usize>]) -> Layout {
    let nodes = neighbours.len();
    let is_narrow = nodes > 3 * MANY;
    // The springs are as long as a name is wide.
    let length = column(map, is_narrow, GAP).max(COLUMN);
    let radius = length * (nodes as f64 / TAU).max(1.0).min(4.0 * (nodes as f64).sqrt());
    let angle = |node: usize| TAU * node as f64 / nodes.max(1) as f64;
    let mut at: Vec<[f64; 2]> = (0..nodes).map(|node| [-angle(node).cos(), -angle(node).sin()]).collect();
    at.iter_mut().for_each(|at| *at = at.map(|x| x * radius));
    if (FEW..=MOST_SPRUNG).contains(&nodes) {
        let most = |round: u32| length * 2.0 * (1.0 - f64::from(round) / f64::from(ROUNDS));
        (0..ROUNDS).for_each(|round| spring(map, &mut at, length, most(round)));
    }
    framed(at, is_narrow)
}

/// One round, in which no node moves further than `most`. Two linked nodes come to rest about `rest` apart.
fn spring(map: &Map, at: &mut [[f64; 2]], rest: f64, most: f64) {
    let mut pushed = vec![[0.0, 0.0]; at.len()];
    let mut push = |a: usize, b: usize, force: &dyn Fn(f64) -> f64| {
        let apart = [at[a][0] - at[b][0], at[a][1] - at[b][1]];
        let length = apart[0].hypot(apart[1]).max(1.0);
        for (axis, apart) in apart.into_iter().enumerate() {
            let by = apart / length * force(length);
            pushed[a][axis] += by;
            pushed[b][axis] -= by;
        }
    };
    for a in 0..at.len() {
        (0..a).for_each(|b| push(a, b, &|length| rest * rest / length));
    }
    map.edges.iter().for_each(|edge| push(edge.ends[0], edge.ends[1], &|length| -length * length / rest));
    for (at, by) in at.iter_mut().zip(pushed) {
        let length = by[0].hypot(by[1]).max(1e-9);
        let share = length.min(most) / length;
        *at = [at[0] + by[0] * share, at[1] + by[1] * share];
    }
}

/// The same with all nodes within the margins.
fn framed(at: Vec<[f64; 2]>, is_narrow: bool) -> Layout {
    let ends = |axis: usize| {
        let least = at.iter().map(|at| at[axis]).fold(f64::INFINITY, f64::min).min(f64::MAX);
        let most = at.iter().map(|at| at[axis]).fold(f64::NEG_INFINITY, f64::max).max(f64::MIN);
        (least, (most - least).max(0.0))
    };
    let ((left, width), (top, height)) = (ends(0), ends(1));
    let at = at.iter().map(|at| [at[0] - left + MARGIN, at[1] - top + MARGIN]).collect();
    Layout { width: width + 2.0 * MARGIN, height: height + 2.0 * MARGIN, at, is_narrow }
}

#[cfg(test)]
mod tests {
    use super::super::Node;
    use super::*;

    fn map(hosts: &[usize], links: &[[usize; 2]]) -> Map {
        let names: Vec<_> = (0..hosts.len()).map(|at| format!("s{at}")).collect();
        let nodes = names.iter().zip(hosts).map(|(name, hosts)| Node::switch(name, *hosts)).collect();
        let mut map = Map { nodes, edges: Vec::new() };
        links.iter().for_each(|ends| map.link(ends.map(|end| (&*names[end], "p"))));
        map
    }

    /// The nodes of each row, the highest row first.
    fn drawn(map: &Map) -> Vec<Vec<usize>> {
        let layout = Layout::of(map);
        let mut places: Vec<_> = layout.at.iter().enumerate().map(|(node, at)| (at.map(|x| x as i64), node)).collect();
        places.sort_by_key(|([x, y], _)| (*y, *x));
        places.chunk_by(|a, b| a.0[1] == b.0[1]).map(|row| row.iter().map(|(_, node)| *node).collect()).collect()
    }

    #[test]
    fn tiers_stand_above_each_other() {
        let spine_leaf = [[0, 2], [0, 3], [0, 4], [1, 2], [1, 3], [1, 4]];
        assert_eq!(drawn(&map(&[0, 0, 4, 4, 4], &spine_leaf)), [vec![0, 1], vec![2, 3, 4]]);
        // Without hosts the switches with fewest links are at the edge.
        assert_eq!(drawn(&map(&[0; 5], &spine_leaf)), [vec![0, 1], vec![2, 3, 4]]);
        // Crossed pods: aggregation switches stand over their edge switches.
        let pods = [[0, 3], [1, 2], [4, 2], [4, 3], [5, 2], [5, 3]];
        assert_eq!(drawn(&map(&[1, 1, 0, 0, 0, 0], &pods)), [[4, 5], [3, 2], [0, 1]]);
    }

    /// A row that is too long goes on in a line below.
    #[test]
    fn long_rows_are_folded() {
        let links: Vec<_> = (1..=2 * FOLD).flat_map(|leaf| [[0, leaf], [2 * FOLD + 1, leaf]]).collect();
        let mut hosts = vec![1; 2 * FOLD + 2];
        (hosts[0], hosts[2 * FOLD + 1]) = (0, 0);
        let drawn = drawn(&map(&hosts, &links));
        assert_eq!(drawn.iter().map(Vec::len).collect::<Vec<_>>(), [2, FOLD, FOLD]);
        assert_eq!((drawn[1][0], drawn[2][0]), (1, FOLD + 1));
    }

    #[test]
    fn a_chain_is_a_row() {
        assert_eq!(drawn(&map(&[1, 0, 1], &[[0, 1], [1, 2]])), [[0, 1, 2]]);
    }

    #[test]
    fn long_names_are_known_by_their_ends() {
        assert_eq!(["edge7", "rack-17-leaf-3"].map(|name| label(name, false)), ["edge7", "…k-17-leaf-3"]);
        assert_eq!(["s7", "rack-17-leaf-3"].map(|name| label(name, true)), ["s7", "af-3"]);
    }

    /// However long their names are, nodes cover neither each other nor the links between them.
    #[test]
    fn links_are_seen_between_long_names() {
        let named = |names: &[&str], links: &[[usize; 2]]| {
            let nodes = names.iter().map(|name| Node::switch(name, 1)).collect();
            let mut map = Map { nodes, edges: Vec::new() };
            links.iter().for_each(|ends| map.link(ends.map(|end| (names[end], "p"))));
            map
        };
        let names = ["Copenhagen-12", "Amsterdam-1", "s3"];
        for links in [[[0, 1], [1, 2]], [[0, 2], [1, 2]]] {
            let map = named(&names, &links);
            let layout = Layout::of(&map);
            let half = |node: usize| half_width(&label(&map.nodes[node].name, false), false);
            for Edge { ends: [a, b], .. } in &map.edges {
                let apart = (layout.at[*a][0] - layout.at[*b][0]).abs() - half(*a) - half(*b);
                assert!(apart >= LINK, "{layout:?}");
            }
        }
    }

    /// Any map is drawn, without two nodes in one place, and always in the same way.
    #[test]
    fn every_map_has_room() {
        let ring: Vec<_> = (0..200).map(|at| [at, (at + 1) % 200]).collect();
        for map in [map(&[1; 200], &ring), map(&[1; 9], &ring[..8]), map(&[1; 3], &[[0, 1], [1, 2], [2, 0]])] {
            let layout = Layout::of(&map);
            assert_eq!(layout, Layout::of(&map));
            for (node, [x, y]) in layout.at.iter().enumerate() {
                assert!((0.0..=layout.width).contains(x) && (0.0..=layout.height).contains(y), "{node}: {x} {y}");
                let near = |other: &[f64; 2]| (other[0] - x).hypot(other[1] - y) < 10.0;
                assert_eq!(layout.at.iter().filter(|other| near(other)).count(), 1, "{node}");
            }
        }
        for alone in [map(&[], &[]), map(&[1], &[]), map(&[1, 1], &[])] {
            let layout = Layout::of(&alone);
            assert!(layout.width.is_finite() && layout.at.iter().flatten().all(|x| x.is_finite()), "{layout:?}");
        }
    }
}
