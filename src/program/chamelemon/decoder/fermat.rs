//! FermatSketch, decoded: add, subtract, decode (§3.1, Algorithms 1 and 2, appendix A).

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::dataplane::{MAX_ROWS, Part};
use super::super::field;
use super::super::hashes::{Hashes, Key};
use super::super::id::{self, FRAGMENTS, FlowId};
use crate::slices;

/// One bucket: sums of ID fragments modulo p, and the number of packets, below 0 after a
/// subtraction that took too much. The number wraps: decoding of records that no switch made may
/// double it again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    pub ids: [u32; FRAGMENTS],
    pub count: i64,
}

impl Bucket {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, other: &Self) {
        self.ids = std::array::from_fn(|i| field::add(self.ids[i], other.ids[i]));
        self.count = self.count.wrapping_add(other.count);
    }

    pub(super) fn sub(&mut self, other: &Self) {
        self.ids = std::array::from_fn(|i| field::sub(self.ids[i], other.ids[i]));
        self.count = self.count.wrapping_sub(other.count);
    }
}

/// How a bucket is found to hold one flow only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// The ID hashes to the bucket: wrong for 1 impure bucket in m.
    Rehash,
    /// And its fingerprint is right: wrong for 1 in 2²⁰ m (appendix A.4).
    #[default]
    Fingerprint,
}

/// Two sketches of different length or hash units cannot be added or subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sketches differ in length or hash functions")]
pub struct Mismatch;

/// What a sketch was found to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Packets of each flow; below 0 where more was subtracted than added.
    pub flows: FxHashMap<FlowId, i64>,
    /// Nothing is left over: these are the flows that the sketch holds, all of them and no others.
    /// If not, each of them was verified, but some are missing, and one may be wrong that a later
    /// step would have undone.
    pub complete: bool,
    /// Buckets that still hold something.
    pub buckets_left: usize,
}

/// A FermatSketch, or a part of a divided one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fermat {
    hashes: Arc<Hashes>,
    /// Each row's place among the buckets.
    pub(super) rows: Part,
    pub(super) buckets: Vec<Bucket>,
}

impl Fermat {
    /// An empty sketch whose rows begin at 0, as [`super::super::Shape::sketch`] lays them.
    pub fn new(hashes: Arc<Hashes>, mut rows: Part) -> Self {
        let mut cells = 0;
        for row in &mut rows {
            row.offset = cells;
            cells += row.range.slots();
        }
        Self { hashes, rows, buckets: vec![Bucket::default(); cells as usize] }
    }

    /// The buckets of a row.
    pub fn row(&self, row: usize) -> &[Bucket] {
        let place = self.rows.get(row).map(|row| row.offset as usize..(row.offset + row.range.slots()) as usize);
        place.and_then(|place| self.buckets.get(place)).unwrap_or_default()
    }

    pub(in super::super) fn row_mut(&mut self, row: usize) -> &mut [Bucket] {
        let place = self.rows.get(row).map(|row| row.offset as usize..(row.offset + row.range.slots()) as usize);
        place.and_then(|place| self.buckets.get_mut(place)).unwrap_or_default()
    }

    /// Whether nothing is in it.
    pub fn is_blank(&self) -> bool {
        self.nonempty() == 0
    }

    /// Packets that it holds: every row counts each packet once.
    pub fn packets(&self) -> i64 {
        self.row(0).iter().map(|bucket| bucket.count).fold(0, i64::saturating_add)
    }

    fn nonempty(&self) -> usize {
        self.buckets.iter().filter(|bucket| !bucket.is_empty()).count()
    }

    /// Takes in `packets` packets of a flow (Algorithm 1); a negative number takes them out.
    pub fn insert(&mut self, id: FlowId, packets: i64) {
        let key = self.hashes.key(id);
        let flow = self.bucket(id, &key, packets);
        for &at in &self.places(&key)[..self.rows.len()] {
            self.buckets[at as usize].add(&flow);
        }
    }

    pub(super) fn key(&self, id: FlowId) -> Key {
        self.hashes.key(id)
    }

    /// A bucket that holds this number of packets of one flow, whose key is `key`.
    pub(super) fn bucket(&self, id: FlowId, key: &Key, packets: i64) -> Bucket {
        let count = field::of(packets);
        let ids = id.fragments(self.hashes.fingerprint(key)).map(|fragment| field::mul(fragment, count));
        Bucket { ids, count: packets }
    }

    /// The flow's bucket in each row.
    #[inline(always)]
    pub(super) fn places(&self, key: &Key) -> [u32; MAX_ROWS] {
        let mut places = [0; MAX_ROWS];
        for ((number, row), place) in self.rows.iter().enumerate().zip(&mut places) {
            *place = row.bucket(self.hashes.row(number, key));
        }
        places
    }

    fn fits(&self, other: &Self) -> Result<(), Mismatch> {
        let fits = self.rows == other.rows && (Arc::ptr_eq(&self.hashes, &other.hashes) || self.hashes == other.hashes);
        fits.then_some(()).ok_or(Mismatch)
    }

    pub fn add(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.fits(other)?;
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(a, b)| a.add(b));
        Ok(())
    }

    pub fn subtract(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.fits(other)?;
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(a, b)| a.sub(b));
        Ok(())
    }

    /// The number of flows by linear counting on the median number of empty buckets of the full
    /// rows: what is known when decoding fails. `None` when no bucket is empty.
    pub fn estimated_flows(&self) -> Option<f64> {
        let width = self.row(0).len();
        if width == 0 {
            return Some(0.0);
        }
        let full = (0..self.rows.len()).map(|row| self.row(row)).filter(|row| row.len() == width);
        let mut empty: Vec<_> = full.map(|row| row.iter().filter(|bucket| bucket.is_empty()).count()).collect();
        empty.sort_unstable();
        super::estimate::linear_counting(width, empty[empty.len() / 2])
    }

    /// Extracts flow after flow from pure buckets (Algorithm 2). A flow that was wrongly extracted
    /// makes other buckets that verify with a count of the opposite sign; extracting those undoes
    /// it (appendix A.2). Time is linear in the number of buckets: each extraction asks for at most
    /// d more, and there are at most eight for each bucket.
    pub fn decode(self, verify: Verify) -> Decoded {
        self.decode_knowing(verify, [])
    }

    /// The same, and beyond it tells two flows apart that share all their buckets, when one is
    /// among `known`: flows that were found elsewhere. They are looked at only when something is
    /// left over.
    pub fn decode_knowing(mut self, verify: Verify, known: impl IntoIterator<Item = FlowId>) -> Decoded {
        let mut flows = self.peel(verify);
        if self.nonempty() > 0 {
            self.split_twins(known, |id, more| {
                let packets = flows.entry(id).or_insert(0i64);
                *packets = packets.wrapping_add(more);
            });
        }
        flows.retain(|_, packets| *packets != 0);
        let buckets_left = self.nonempty();
        Decoded { flows, complete: buckets_left == 0, buckets_left }
    }

    fn peel(&mut self, verify: Verify) -> FxHashMap<FlowId, i64> {
        let filled = (0u32..).zip(&self.buckets).filter(|(_, bucket)| bucket.count != 0).map(|(i, _)| i);
        let mut queue: VecDeque<_> = filled.collect();
        let mut flows = FxHashMap::with_capacity_and_hasher(queue.len() / self.rows.len().max(1), Default::default());
        let mut extractions = 8 * self.buckets.len();
        while let (Some(at), 1..) = (queue.pop_front(), extractions) {
            let flow = self.buckets[at as usize];
            let Some((id, key)) = self.pure(&flow, verify) else { continue };
            let places = self.places(&key);
            let places = &places[..self.rows.len()];
            if !places.contains(&at) {
                continue;
            }
            extractions -= 1;
            if extractions.is_multiple_of(64) {
                slices::check();
            }
            let packets = flows.entry(id).or_insert(0i64);
            *packets = packets.wrapping_add(flow.count);
            for &other in places {
                let bucket = &mut self.buckets[other as usize];
                bucket.sub(&flow);
                if bucket.count != 0 {
                    queue.push_back(other);
                }
            }
        }
        flows
    }

    /// The flow of a bucket that holds no other, and its key (§3.1: f = ID · count^(p − 2) mod p).
    /// Where the flow's buckets are is not asked yet.
    #[inline(always)]
    pub(super) fn pure(&self, bucket: &Bucket, verify: Verify) -> Option<(FlowId, Key)> {
        let inverse = field::inverse(bucket.count)?;
        let (flow, fingerprint) = FlowId::of_fragments(bucket.ids.map(|sum| field::mul(sum, inverse)))?;
        let key = self.hashes.key(flow);
        let wrong = id::fingerprint(self.hashes.fingerprint(&key)) != fingerprint;
        (verify == Verify::Rehash || !wrong).then_some((flow, key))
    }
}
