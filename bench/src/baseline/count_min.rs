//! A count-min sketch with a cache of heavy flows (§5.3 of the HashPipe paper).
//!
//! Each packet is counted in the sketch. When the estimate of its flow reaches the threshold, which
//! is the true count of the k-th heaviest flow, the flow enters the cache, a hash table in which
//! the key that is already there stays on a collision; from then on its packets are counted
//! exactly. Memory is divided in halves. Left open by the paper:
//! - The sketch's rows: 5, the value that stands in the authors' data files.
//! - The width of a sketch counter: 4.5 of the 17.5 bytes that the paper gives a counter with its
//!   five-tuple (13 bytes).
//! - Where an exact count starts: at the sketch's estimate. The paper's Figure 9 data show
//!   overestimates, which this explains.
//! - Whether packets of cached flows are still counted in the sketch. They are: the sketch comes
//!   first in the pipeline.

use weir::wire::Tuple4;

use super::{Entry, occupied};
use crate::heavy::{HeavyHitter, fold, slot};

pub const ROWS: usize = 5;
const ENTRY_BYTES: f64 = 17.5;
const COUNTER_BYTES: f64 = 4.5;

pub struct CountMin {
    rows: Vec<Vec<u64>>,
    cache: Vec<Entry>,
    threshold: u64,
}

impl CountMin {
    /// With the memory of `counters` counters of 17.5 bytes.
    pub fn new(counters: usize, threshold: u64) -> Self {
        let half_bytes = counters as f64 * ENTRY_BYTES / 2.0;
        let width = (half_bytes / COUNTER_BYTES / ROWS as f64) as usize;
        let cache = vec![Entry::default(); (counters / 2).max(1)];
        Self { rows: vec![vec![0; width.max(1)]; ROWS], cache, threshold }
    }
}

impl HeavyHitter for CountMin {
    fn packet(&mut self, key: Tuple4) {
        let folded = fold(key);
        let mut estimate = u64::MAX;
        for (i, row) in self.rows.iter_mut().enumerate() {
            let width = row.len();
            let counter = &mut row[slot(folded, i, width)];
            *counter += 1;
            estimate = estimate.min(*counter);
        }
        let slots = self.cache.len();
        let entry = &mut self.cache[slot(folded, ROWS, slots)];
        if entry.count > 0 && entry.key == key {
            entry.count += 1;
        } else if entry.count == 0 && estimate >= self.threshold {
            *entry = Entry { key, count: estimate };
        }
    }

    fn read_out(self) -> Vec<(Tuple4, u64)> {
        occupied(self.cache)
    }
}
