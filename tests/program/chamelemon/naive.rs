//! The naive reference: exact counts by flow, and a FermatSketch of whole numbers. Nothing of the
//! dataplane's or the collector's own arithmetic is used.

use std::collections::BTreeMap;

/// The paper's bucket with nothing reduced: a sum of fragments, each times its flow's packets, and
/// the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    pub sums: [i128; 4],
    pub packets: i128,
}

impl Bucket {
    /// What the hardware's counters hold: the sums modulo `prime`, and the packets.
    pub fn counters(&self, prime: u32) -> ([u32; 4], i128) {
        (self.sums.map(|sum| sum.rem_euclid(i128::from(prime)) as u32), self.packets)
    }
}

/// Rows of buckets of whole numbers. `bucket(row, flow)` is the flow's bucket in a row.
pub struct Sums<K, H, F> {
    pub rows: Vec<Vec<Bucket>>,
    pub truth: BTreeMap<K, i128>,
    bucket: H,
    fragments: F,
}

impl<K: Copy + Ord, H: Fn(usize, K) -> usize, F: Fn(K) -> [u32; 4]> Sums<K, H, F> {
    pub fn new(widths: &[usize], bucket: H, fragments: F) -> Self {
        let rows = widths.iter().map(|&width| vec![Bucket::default(); width]).collect();
        Self { rows, truth: BTreeMap::new(), bucket, fragments }
    }

    pub fn insert(&mut self, flow: K, packets: i64) {
        let packets = i128::from(packets);
        *self.truth.entry(flow).or_default() += packets;
        let fragments = (self.fragments)(flow);
        for (number, row) in self.rows.iter_mut().enumerate() {
            let bucket = &mut row[(self.bucket)(number, flow)];
            bucket.packets += packets;
            for (sum, fragment) in bucket.sums.iter_mut().zip(fragments) {
                *sum += i128::from(fragment) * packets;
            }
        }
    }
}

/// A TowerSketch of whole numbers. `counter(level, flow)` is the flow's counter in an array.
pub struct Tower<H> {
    pub levels: Vec<Vec<u64>>,
    /// The largest number of each array's counters, which means infinity.
    pub max: Vec<u64>,
    counter: H,
}

impl<H> Tower<H> {
    /// Arrays by length and bits of a counter.
    pub fn new(arrays: &[(usize, u32)], counter: H) -> Self {
        let levels = arrays.iter().map(|&(length, _)| vec![0; length]).collect();
        Self { levels, max: arrays.iter().map(|&(_, bits)| (1 << bits) - 1).collect(), counter }
    }

    /// Counts a packet and says how large its flow seems: the smallest of its counters that are not
    /// full, `None` when all are.
    pub fn packet<K: Copy>(&mut self, flow: K) -> Option<u64>
    where
        H: Fn(usize, K) -> usize,
    {
        let mut smallest = None;
        for (number, (counters, &max)) in self.levels.iter_mut().zip(&self.max).enumerate() {
            let counter = &mut counters[(self.counter)(number, flow)];
            *counter = (*counter + 1).min(max);
            if *counter < max {
                smallest = Some(smallest.map_or(*counter, |min: u64| min.min(*counter)));
            }
        }
        smallest
    }
}
