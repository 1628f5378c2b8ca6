//! UnivMon (Liu et al. 2016): count sketches over samples of the flows, each level half of the one
//! above it.
//!
//! As ChameleMon's appendix C has it: 14 levels, each with the 1000 heaviest flows; 5 rows as in
//! the authors' code. The heaps take 112 KB with 32-bit flow IDs, the sketches share the rest
//! evenly.

use weir::wire::Tuple4;

use super::count_heap::CountHeap;
use crate::heavy::{KeyMap, fold, slot};
use crate::summary::Summary;

const LEVELS: usize = 14;
const HEAP: usize = 1000;
const ROWS: usize = 5;
/// Hash functions that sample, beyond those of the rows.
const SAMPLING: usize = 100;

pub struct UnivMon {
    levels: Vec<CountHeap<ROWS>>,
    packets: u64,
    seed: u64,
}

impl UnivMon {
    pub fn new(bytes: usize, seed: u64) -> Self {
        let level = |level: usize| CountHeap::new(bytes / LEVELS, HEAP, seed ^ (level as u64 + 1) << 32);
        Self { levels: (0..LEVELS).map(level).collect(), packets: 0, seed }
    }

    /// Σ g(packets) over all flows.
    fn sum(&self, g: impl Fn(f64) -> f64) -> f64 {
        let above = |sum: f64, (level, sketch): (usize, &CountHeap<ROWS>)| {
            let term = |(key, count): (Tuple4, u64)| match level + 1 {
                LEVELS => g(count as f64),
                below if sampled(fold(key) ^ self.seed, below) => -g(count as f64),
                _ => g(count as f64),
            };
            2.0 * sum + sketch.top.entries().map(term).sum::<f64>()
        };
        self.levels.iter().enumerate().rev().fold(0.0, above)
    }
}

/// Whether level `level` takes what the one above it has taken.
fn sampled(folded: u64, level: usize) -> bool {
    slot(folded, SAMPLING + level, 2) == 1
}

impl Summary for UnivMon {
    fn burst(&mut self, keys: &[Tuple4]) {
        self.packets += keys.len() as u64;
        for &key in keys {
            self.levels[0].packet(key);
            let folded = fold(key) ^ self.seed;
            for level in (1..LEVELS).take_while(|&level| sampled(folded, level)) {
                self.levels[level].packet(key);
            }
        }
    }

    /// From the deepest level that has it on top, where the fewest flows collide.
    fn size(&self, key: Tuple4) -> u64 {
        let known = self.levels.iter().rev().find_map(|level| level.top.get(key));
        known.unwrap_or_else(|| self.levels[0].query(key))
    }

    fn named(&self) -> KeyMap<u64> {
        self.levels.iter().flat_map(|level| level.top.entries()).collect()
    }

    fn entropy_bits(&self) -> Option<f64> {
        let packets = self.packets as f64;
        Some(packets.log2() - self.sum(|count| count * count.log2()) / packets)
    }

    fn cardinality(&self) -> Option<f64> {
        Some(self.sum(|_| 1.0))
    }
}
