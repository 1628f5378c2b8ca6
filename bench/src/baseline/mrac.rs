//! MRAC (Kumar et al. 2004): one row of 32-bit counters, and the flow sizes that are most likely
//! behind them.
//!
//! The published expectation maximisation lists the ways to split a counter's value and cuts the
//! list off. Here it is weir's own, which needs no list and takes all ways below 255 packets.

use weir::program::chamelemon::decoder::estimate::distribution;
use weir::program::chamelemon::decoder::{Distribution, Level};
use weir::wire::Tuple4;

use crate::heavy::{fold, slot};
use crate::summary::Summary;

const COUNTER_BYTES: usize = 4;

pub struct Mrac {
    counters: Vec<u32>,
    seed: u64,
}

impl Mrac {
    pub fn new(bytes: usize, seed: u64) -> Self {
        Self { counters: vec![0; (bytes / COUNTER_BYTES).max(1)], seed }
    }
}

impl Summary for Mrac {
    fn burst(&mut self, keys: &[Tuple4]) {
        for &key in keys {
            let at = slot(fold(key) ^ self.seed, 0, self.counters.len());
            self.counters[at] += 1;
        }
    }

    fn size(&self, key: Tuple4) -> u64 {
        self.counters[slot(fold(key) ^ self.seed, 0, self.counters.len())].into()
    }

    fn distribution(&self) -> Option<Distribution> {
        distribution(&[Level::new(32, self.counters.clone())], None)
    }
}
