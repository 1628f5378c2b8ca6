//! FCM-sketch with a top-k part (Song et al. 2020).
//!
//! As ChameleMon's appendix C has it: ElasticSketch's heavy part, and behind it two 16-ary trees of
//! 8, 16 and 32-bit counters, whose full counters (255, 65 535) overflow into their parent.
//!
//! The distribution: a leaf that is not full is estimated as weir estimates a row of 8-bit
//! counters, and the mean of both trees taken. Full leaves whose paths end in one counter are taken
//! for as many flows of equal size: beside the heavy part there are few.

use std::collections::BTreeMap;

use weir::program::chamelemon::decoder::estimate::{distribution, linear_counting};
use weir::program::chamelemon::decoder::{Distribution, INFINITE, Level};
use weir::wire::Tuple4;

use super::elastic::Heavy;
use crate::heavy::{KeyMap, fold, slot};
use crate::summary::Summary;

const TREES: usize = 2;
const ARITY: usize = 16;
/// The largest number that a counter of each layer says; one more is full.
const MOST: [u32; 3] = [254, 65_534, u32::MAX - 1];
/// Memory of a subtree: 256 leaves, 16 counters of 16 bits, one of 32.
const SUBTREE_LEAVES: usize = ARITY * ARITY;
const SUBTREE_BYTES: usize = SUBTREE_LEAVES + 2 * ARITY + 4;
/// Hash functions of the trees, beyond those of the heavy part.
const TREE: usize = 50;

pub struct Fcm {
    heavy: Heavy,
    trees: [[Vec<u32>; 3]; TREES],
    seed: u64,
}

impl Fcm {
    pub fn new(bytes: usize, seed: u64) -> Self {
        let leaves = (bytes.saturating_sub(Heavy::BYTES) / TREES / SUBTREE_BYTES).max(1) * SUBTREE_LEAVES;
        let layers = || [leaves, leaves / ARITY, leaves / ARITY / ARITY].map(|width| vec![0; width]);
        Self { heavy: Heavy::new(seed), trees: [layers(), layers()], seed }
    }

    fn leaf(&self, key: Tuple4, tree: usize) -> usize {
        slot(fold(key) ^ self.seed, TREE + tree, self.trees[tree][0].len())
    }

    fn query(&self, key: Tuple4) -> u64 {
        (0..TREES).map(|tree| path(&self.trees[tree], self.leaf(key, tree)).0).min().unwrap_or(0)
    }
}

/// Adds to a leaf; what does not fit goes to the parent.
fn add(tree: &mut [Vec<u32>; 3], leaf: usize, packets: u64) {
    let (mut at, mut left) = (leaf, packets);
    for (layer, max) in tree.iter_mut().zip(MOST) {
        let room = u64::from(max.saturating_sub(layer[at]));
        if left <= room {
            layer[at] += left as u32;
            return;
        }
        layer[at] = max + 1;
        left -= room;
        at /= ARITY;
    }
}

/// What the counters from a leaf up say, and where the path ends: layer and counter.
fn path(tree: &[Vec<u32>; 3], leaf: usize) -> (u64, (usize, usize)) {
    let (mut at, mut sum) = (leaf, 0);
    for (number, (layer, max)) in tree.iter().zip(MOST).enumerate() {
        sum += u64::from(layer[at].min(max));
        if layer[at] <= max || number == MOST.len() - 1 {
            return (sum, (number, at));
        }
        at /= ARITY;
    }
    (sum, (MOST.len() - 1, at))
}

/// Flows of each size in one tree.
fn sizes(tree: &[Vec<u32>; 3]) -> Option<Distribution> {
    let leaves = tree[0].iter().map(|&count| if count > MOST[0] { INFINITE } else { count });
    let small = distribution(&[Level::new(8, leaves.collect())], None)?;
    let mut ends = BTreeMap::<(usize, usize), (u32, u64)>::new();
    for leaf in (0..tree[0].len()).filter(|&leaf| tree[0][leaf] > MOST[0]) {
        let (sum, end) = path(tree, leaf);
        let (paths, packets) = ends.entry(end).or_default();
        // The counter where they meet is in each path's sum.
        let shared = if *paths > 0 { u64::from(tree[end.0][end.1].min(MOST[end.0])) } else { 0 };
        (*paths, *packets) = (*paths + 1, *packets + sum - shared);
    }
    let mut all: BTreeMap<u32, f64> = small.0.into_iter().collect();
    for (paths, packets) in ends.into_values() {
        *all.entry((packets / u64::from(paths)) as u32).or_default() += f64::from(paths);
    }
    Some(Distribution(all.into_iter().collect()))
}

impl Summary for Fcm {
    fn burst(&mut self, keys: &[Tuple4]) {
        for &key in keys {
            if let Some((key, packets)) = self.heavy.packet(key) {
                for tree in 0..TREES {
                    let leaf = self.leaf(key, tree);
                    add(&mut self.trees[tree], leaf, packets);
                }
            }
        }
    }

    fn size(&self, key: Tuple4) -> u64 {
        self.heavy.get(key) + self.query(key)
    }

    fn named(&self) -> KeyMap<u64> {
        self.heavy.flows().into_keys().map(|key| (key, self.size(key))).collect()
    }

    fn distribution(&self) -> Option<Distribution> {
        let mut mean = BTreeMap::<u32, f64>::new();
        for tree in &self.trees {
            for (size, flows) in sizes(tree)?.0 {
                *mean.entry(size).or_default() += flows / TREES as f64;
            }
        }
        Some(self.heavy.sizes_with(&Distribution(mean.into_iter().collect()), |key| self.query(key)))
    }

    fn cardinality(&self) -> Option<f64> {
        let leaves: usize = self.trees.iter().map(|tree| tree[0].len()).sum();
        let empty = self.trees.iter().flat_map(|tree| &tree[0]).filter(|&&count| count == 0).count();
        let light = linear_counting(leaves, empty)? / TREES as f64;
        Some(self.heavy.flows_with(light, |key| self.query(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters that are full overflow into their parent, and its parent.
    #[test]
    fn one_flow_is_exact_through_all_layers() {
        for packets in [1, 254, 255, 256, 65_788, 65_789, 70_000] {
            let mut tree = [vec![0; 512], vec![0; 32], vec![0; 2]];
            (0..packets).for_each(|_| add(&mut tree, 300, 1));
            assert_eq!(path(&tree, 300).0, packets);
            let mut max_burst = [vec![0; 512], vec![0; 32], vec![0; 2]];
            add(&mut max_burst, 300, packets);
            assert_eq!(max_burst, tree);
            let large = sizes(&tree).unwrap().0.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            assert!(large.0 == packets as u32 && (large.1 - 1.0).abs() < 0.05, "{large:?}");
        }
    }

    /// Two full leaves that meet in the second layer are two flows of half of what they say
    /// together.
    #[test]
    fn paths_that_meet_share_their_packets() {
        let mut tree = [vec![0; 256], vec![0; 16], vec![0; 1]];
        add(&mut tree, 3, 1000);
        add(&mut tree, 5, 3000);
        assert_eq!((path(&tree, 3).0, path(&tree, 5).0), (3746, 3746));
        assert_eq!(sizes(&tree).unwrap().0.last(), Some(&(2000, 2.0)));
    }
}
