//! HashPipe, Algorithm 3 of the paper, word for word.
//!
//! Left open by the paper and taken from the authors' simulator: each stage has counters / stages slots, rounded down.

use weir::wire::Tuple4;

use super::{Entry, occupied};
use crate::heavy::{HeavyHitter, fold, slot};

pub struct HashPipe {
    pub(super) stages: Vec<Vec<Entry>>,
    evicted: Option<u64>,
}

impl HashPipe {
    pub fn new(counters: usize, stages: usize) -> Self {
        Self { stages: vec![vec![Entry::default(); (counters / stages).max(1)]; stages], evicted: None }
    }
}

impl HeavyHitter for HashPipe {
    fn packet(&mut self, key: Tuple4) {
        self.evicted = None;
        let slots = self.stages[0].len();
        let first = &mut self.stages[0][slot(fold(key), 0, slots)];
        if first.count == 0 || first.key == key {
            *first = Entry { key, count: first.count + 1 };
            return;
        }
        let mut carried = std::mem::replace(first, Entry { key, count: 1 });
        for (i, stage) in self.stages.iter_mut().enumerate().skip(1) {
            let entry = &mut stage[slot(fold(carried.key), i, slots)];
            if entry.count == 0 || entry.key == carried.key {
                *entry = Entry { key: carried.key, count: entry.count + carried.count };
                return;
            }
            if entry.count < carried.count {
                std::mem::swap(entry, &mut carried);
            }
        }
        self.evicted = Some(carried.count);
    }

    fn read_out(&self) -> Vec<(Tuple4, u64)> {
        occupied(self.stages.iter().flatten().copied())
    }

    fn evicted(&self) -> Option<u64> {
        self.evicted
    }
}
