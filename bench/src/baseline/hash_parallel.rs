//! HashParallel: Algorithm 2 of the HashPipe paper over d disjoint tables (§3.3).
//!
//! Left open by the paper: which of several empty slots, or of several minima, is taken. Here the
//! first table's.

use weir::wire::Tuple4;

use super::{Entry, occupied};
use crate::heavy::{HeavyHitter, fold, slot};

pub struct HashParallel {
    tables: Vec<Vec<Entry>>,
}

impl HashParallel {
    pub fn new(counters: usize, tables: usize) -> Self {
        Self { tables: vec![vec![Entry::default(); (counters / tables).max(1)]; tables] }
    }
}

impl HeavyHitter for HashParallel {
    fn packet(&mut self, key: Tuple4) {
        let folded = fold(key);
        let mut min: Option<&mut Entry> = None;
        for (i, table) in self.tables.iter_mut().enumerate() {
            let slots = table.len();
            let entry = &mut table[slot(folded, i, slots)];
            if entry.count > 0 && entry.key == key {
                entry.count += 1;
                return;
            }
            // An empty slot has count 0, so the least is an empty one wherever there is one.
            if min.as_ref().is_none_or(|min| entry.count < min.count) {
                min = Some(entry);
            }
        }
        if let Some(min) = min {
            *min = Entry { key, count: min.count + 1 };
        }
    }

    fn read_out(self) -> Vec<(Tuple4, u64)> {
        occupied(self.tables.into_iter().flatten())
    }
}
