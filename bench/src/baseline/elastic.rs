//! ElasticSketch (Yang et al. 2018), the hardware version, and the heavy part that FCM takes from
//! it.
//!
//! As ChameleMon's appendix C has it: a heavy part of 4 stages with 3072 buckets, a light part of
//! one row of 8-bit counters in the rest of the memory. From the authors' code: a bucket has 12
//! bytes (32-bit flow ID, packets, votes), and a newcomer takes it when votes / 32 reach the
//! packets; it inherits their number, and who leaves carries votes / 32 on. Left open: what meets
//! the next stage after that. Here the one who left, with the packets it carries.
//!
//! The light part's distribution is estimated as weir's own, from each counter's value, and
//! corrected for the flows of the heavy part.

use std::collections::BTreeMap;

use weir::program::chamelemon::decoder::estimate::{distribution, linear_counting};
use weir::program::chamelemon::decoder::{Distribution, INFINITE, Level};
use weir::wire::Tuple4;

use crate::heavy::{KeyMap, fold, slot};
use crate::summary::Summary;

const STAGES: usize = 4;
const BUCKETS: usize = 3072;
const BUCKET_BYTES: usize = 12;
const VOTES: u64 = 32;

#[derive(Clone, Copy, Default)]
struct Bucket {
    key: Tuple4,
    count: u64,
    votes: u64,
}

/// The heavy part.
pub struct Heavy {
    stages: Vec<Vec<Bucket>>,
    seed: u64,
}

impl Heavy {
    pub const BYTES: usize = STAGES * BUCKETS * BUCKET_BYTES;

    pub fn new(seed: u64) -> Self {
        Self { stages: vec![vec![Bucket::default(); BUCKETS]; STAGES], seed }
    }

    /// Takes a packet; what it does not keep goes to the light part.
    pub fn packet(&mut self, key: Tuple4) -> Option<(Tuple4, u64)> {
        let mut carried = (key, 1);
        for (number, stage) in self.stages.iter_mut().enumerate() {
            let bucket = &mut stage[slot(fold(carried.0) ^ self.seed, number, BUCKETS)];
            bucket.votes += carried.1;
            if bucket.count == 0 || bucket.key == carried.0 {
                bucket.key = carried.0;
                bucket.count += carried.1;
                return None;
            }
            if bucket.votes / VOTES >= bucket.count {
                let evicted = (bucket.key, bucket.votes / VOTES);
                bucket.key = carried.0;
                bucket.count += carried.1;
                carried = evicted;
            }
        }
        Some(carried)
    }

    pub fn get(&self, key: Tuple4) -> u64 {
        let folded = fold(key) ^ self.seed;
        let buckets = self.stages.iter().enumerate().map(|(number, stage)| stage[slot(folded, number, BUCKETS)]);
        buckets.filter(|bucket| bucket.key == key).map(|bucket| bucket.count).sum()
    }

    pub fn flows(&self) -> KeyMap<u64> {
        let mut flows = KeyMap::default();
        for bucket in self.stages.iter().flatten().filter(|bucket| bucket.count > 0) {
            *flows.entry(bucket.key).or_default() += bucket.count;
        }
        flows
    }

    /// The light part's number of flows and these: those that have been in both are there once too
    /// often.
    pub fn flows_with(&self, light: f64, query: impl Fn(Tuple4) -> u64) -> f64 {
        self.flows().keys().filter(|key| query(**key) == 0).count() as f64 + light
    }

    /// The light part's flows with these put where they belong.
    pub fn sizes_with(&self, light: &Distribution, query: impl Fn(Tuple4) -> u64) -> Distribution {
        let mut sizes: BTreeMap<u32, f64> = light.0.iter().copied().collect();
        for (key, count) in self.flows() {
            let light = query(key);
            if light > 0 {
                sizes.entry(light as u32).and_modify(|flows| *flows = (*flows - 1.0).max(0.0));
            }
            *sizes.entry((count + light) as u32).or_default() += 1.0;
        }
        Distribution(sizes.into_iter().collect())
    }
}

pub struct Elastic {
    heavy: Heavy,
    light: Vec<u8>,
    seed: u64,
}

impl Elastic {
    pub fn new(bytes: usize, seed: u64) -> Self {
        let light = vec![0; bytes.saturating_sub(Heavy::BYTES).max(1)];
        Self { heavy: Heavy::new(seed), light, seed }
    }

    fn light(&self, key: Tuple4) -> usize {
        slot(fold(key) ^ self.seed, STAGES, self.light.len())
    }

    fn query(&self, key: Tuple4) -> u64 {
        self.light[self.light(key)].into()
    }
}

impl Summary for Elastic {
    fn burst(&mut self, keys: &[Tuple4]) {
        for &key in keys {
            if let Some((key, packets)) = self.heavy.packet(key) {
                let at = self.light(key);
                self.light[at] = self.light[at].saturating_add(u8::try_from(packets).unwrap_or(u8::MAX));
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
        let sizes = self.light.iter().map(|&count| if count == u8::MAX { INFINITE } else { count.into() });
        let light = distribution(&[Level::new(8, sizes.collect())], None)?;
        Some(self.heavy.sizes_with(&light, |key| self.query(key)))
    }

    fn cardinality(&self) -> Option<f64> {
        let empty = self.light.iter().filter(|&&count| count == 0).count();
        Some(self.heavy.flows_with(linear_counting(self.light.len(), empty)?, |key| self.query(key)))
    }
}
