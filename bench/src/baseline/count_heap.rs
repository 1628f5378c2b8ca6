//! A count sketch with a heap of the heaviest flows (Charikar, Chen and Farach-Colton 2002).
//!
//! As ChameleMon's appendix C has it: 3 rows of 32-bit counters and a heap of 4096 flows, here paid
//! for out of the same memory at 8 bytes a flow (its flow IDs have 32 bits). UnivMon's levels are
//! the same with 5 rows.

use weir::wire::Tuple4;

use super::top::Top;
use crate::heavy::{KeyMap, fold, slot};
use crate::summary::Summary;

pub const ROWS: usize = 3;
pub const HEAP: usize = 4096;
/// A 32-bit flow ID and a 32-bit count.
pub const ENTRY_BYTES: usize = 8;
const COUNTER_BYTES: usize = 4;

pub struct CountHeap<const ROWS: usize> {
    rows: [Vec<i32>; ROWS],
    pub(super) top: Top,
    seed: u64,
}

impl<const ROWS: usize> CountHeap<ROWS> {
    pub fn new(bytes: usize, heap: usize, seed: u64) -> Self {
        let width = bytes.saturating_sub(heap * ENTRY_BYTES) / COUNTER_BYTES / ROWS;
        Self { rows: std::array::from_fn(|_| vec![0; width.max(1)]), top: Top::new(heap), seed }
    }

    /// Each row's counter for a key, and whether it counts up there.
    fn places(&self, key: Tuple4) -> [(usize, bool); ROWS] {
        let folded = fold(key) ^ self.seed;
        std::array::from_fn(|row| (slot(folded, row, self.rows[row].len()), slot(folded, ROWS + row, 2) == 1))
    }

    pub(super) fn packet(&mut self, key: Tuple4) {
        let places = self.places(key);
        for (row, (slot, up)) in self.rows.iter_mut().zip(places) {
            row[slot] += if up { 1 } else { -1 };
        }
        if !self.top.count(key) {
            self.top.offer(key, self.median(&places).max(1));
        }
    }

    fn median(&self, places: &[(usize, bool); ROWS]) -> u64 {
        let mut counts: [i32; ROWS] = std::array::from_fn(|row| {
            let (slot, up) = places[row];
            if up { self.rows[row][slot] } else { -self.rows[row][slot] }
        });
        counts.sort_unstable();
        counts[ROWS / 2].max(0) as u64
    }

    pub(super) fn query(&self, key: Tuple4) -> u64 {
        self.median(&self.places(key))
    }
}

impl<const ROWS: usize> Summary for CountHeap<ROWS> {
    fn burst(&mut self, keys: &[Tuple4]) {
        keys.iter().for_each(|&key| self.packet(key));
    }

    fn size(&self, key: Tuple4) -> u64 {
        self.top.get(key).unwrap_or_else(|| self.query(key))
    }

    fn named(&self) -> KeyMap<u64> {
        self.top.entries().collect()
    }
}
