//! Sample and hold (Estan and Varghese 2002) with a flow table that is a list (§2.2, §5.3 of the
//! HashPipe paper).
//!
//! A packet of a flow in the table is counted. Any other is sampled with probability p, and its
//! flow then enters the table, until the table is full. Left open by the paper:
//! - p "according to the available flow table size". Here p = entries / packets, the largest for
//!   which the expected number of sampled packets does not pass the table.
//! - Whether the 1 / p packets missed on average before the first sample are added to a count. Here
//!   they are not, and the paper's Figure 9, which shows underestimates, says the same.

use weir::trace::SplitMix64;
use weir::wire::Tuple4;

use crate::heavy::{HeavyHitter, KeyMap};

pub struct SampleAndHold {
    table: KeyMap<u64>,
    entries: usize,
    /// A packet is sampled when a draw of 64 bits is below this.
    threshold: u64,
    rng: SplitMix64,
}

impl SampleAndHold {
    pub fn new(entries: usize, packets: usize, seed: u64) -> Self {
        let threshold = ((entries as u128) << 64) / packets.max(1) as u128;
        let threshold = u64::try_from(threshold).unwrap_or(u64::MAX);
        Self { table: KeyMap::default(), entries, threshold, rng: SplitMix64::new(seed) }
    }
}

impl HeavyHitter for SampleAndHold {
    fn packet(&mut self, key: Tuple4) {
        if let Some(count) = self.table.get_mut(&key) {
            *count += 1;
        } else if self.table.len() < self.entries && self.rng.next_u64() < self.threshold {
            self.table.insert(key, 1);
        }
    }

    fn read_out(self) -> Vec<(Tuple4, u64)> {
        self.table.into_iter().collect()
    }
}
