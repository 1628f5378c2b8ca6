//! CocoSketch (Zhang et al. 2021), the hardware version.
//!
//! As ChameleMon's appendix C has it: one hash function. A bucket has a 32-bit flow ID and a 32-bit
//! count, 8 bytes; every packet adds to the count, and its flow takes the bucket with probability 1
//! / count. A flow that holds no bucket counts as none.

use weir::trace::SplitMix64;
use weir::wire::Tuple4;

use super::{Entry, occupied};
use crate::heavy::{KeyMap, fold, slot};
use crate::summary::Summary;

const BUCKET_BYTES: usize = 8;

pub struct Coco {
    buckets: Vec<Entry>,
    rng: SplitMix64,
    seed: u64,
}

impl Coco {
    pub fn new(bytes: usize, seed: u64) -> Self {
        let buckets = vec![Entry::default(); (bytes / BUCKET_BYTES).max(1)];
        Self { buckets, rng: SplitMix64::new(seed), seed }
    }

    fn bucket(&self, key: Tuple4) -> usize {
        slot(fold(key) ^ self.seed, 0, self.buckets.len())
    }
}

impl Summary for Coco {
    fn burst(&mut self, keys: &[Tuple4]) {
        for &key in keys {
            let at = self.bucket(key);
            let bucket = &mut self.buckets[at];
            bucket.count += 1;
            if bucket.key != key && self.rng.below(bucket.count) == 0 {
                bucket.key = key;
            }
        }
    }

    fn size(&self, key: Tuple4) -> u64 {
        let bucket = &self.buckets[self.bucket(key)];
        if bucket.key == key { bucket.count } else { 0 }
    }

    fn named(&self) -> KeyMap<u64> {
        occupied(self.buckets.iter().copied()).into_iter().collect()
    }
}
