//! FermatSketch as ChameleMon's paper has it in its simulations: IDs of 32 bits in one counter,
//! Algorithms 1 and 2, rehash verification, and optionally a fingerprint that extends the ID
//! (appendix A.4).
//!
//! The switch's own sketch has 104-bit IDs in four counters and a fingerprint in what is left of
//! them (`weir::program::chamelemon::decoder::Fermat`).

use std::collections::VecDeque;

use super::{ARRAYS, Packets, cells};
use crate::heavy::mix;

/// Sums modulo the prime 2^K − C, which is above all IDs of K bits but the last C. What K leaves of
/// 32 bits is fingerprint.
pub struct FermatSketch<const K: u32, const C: u64> {
    buckets: Vec<Bucket>,
    width: usize,
    seed: u64,
}

/// 8 bytes a bucket.
pub type Fermat = FermatSketch<32, 5>;
/// With an 8-bit fingerprint: 9 bytes a bucket.
pub type FermatFingerprint = FermatSketch<40, 87>;

const ID_BITS: u32 = 32;
const COUNT_BITS: u32 = 32;

#[derive(Clone, Copy, Default, PartialEq)]
struct Bucket {
    id: u64,
    count: i64,
}

impl<const K: u32, const C: u64> FermatSketch<K, C> {
    pub const PRIME: u64 = (1 << K) - C;
    pub const BUCKET_BYTES: f64 = (K + COUNT_BITS) as f64 / 8.0;

    /// With `width` buckets an array.
    pub fn new(width: usize, seed: u64) -> Self {
        Self { buckets: vec![Bucket::default(); ARRAYS * width], width, seed }
    }

    pub fn insert(&mut self, flow: u32, packets: i64) {
        let id = mul::<K, C>(self.extended(flow), packets.rem_euclid(Self::PRIME as i64) as u64);
        for cell in cells(flow.into(), self.seed, self.width) {
            self.buckets[cell].take(Bucket { id: Self::PRIME - id, count: -packets }, Self::PRIME);
        }
    }

    #[cfg(test)]
    pub fn subtract(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| mine.take(*theirs, Self::PRIME));
    }

    /// The ID with its fingerprint behind it.
    fn extended(&self, flow: u32) -> u64 {
        let bits = K - ID_BITS;
        u64::from(flow) << bits | mix(self.seed.rotate_left(32) ^ u64::from(flow)) & ((1 << bits) - 1)
    }

    /// All flows that could be extracted, and whether nothing was left.
    pub fn decode(mut self) -> (Packets, bool) {
        let mut queue: VecDeque<_> = (0..self.buckets.len()).filter(|&at| self.buckets[at].count != 0).collect();
        let mut flows = Packets::with_capacity_and_hasher(queue.len() / ARRAYS, Default::default());
        // False positives that call each other for ever must end some time.
        let mut extractions = 8 * self.buckets.len();
        while let (Some(at), 1..) = (queue.pop_front(), extractions) {
            let Some((flow, mapped)) = self.pure(at) else { continue };
            extractions -= 1;
            let taken = self.buckets[at];
            *flows.entry(flow).or_default() += taken.count;
            for cell in mapped {
                self.buckets[cell].take(taken, Self::PRIME);
                if self.buckets[cell].count != 0 {
                    queue.push_back(cell);
                }
            }
        }
        flows.retain(|_, packets| *packets != 0);
        (flows, self.buckets.iter().all(|bucket| *bucket == Bucket::default()))
    }

    fn pure(&self, at: usize) -> Option<(u32, [usize; ARRAYS])> {
        let bucket = self.buckets[at];
        let id = mul::<K, C>(bucket.id, inverse::<K, C>(bucket.count)?);
        let flow = u32::try_from(id >> (K - ID_BITS)).ok()?;
        let mapped = cells(flow.into(), self.seed, self.width);
        (mapped.contains(&at) && (K == ID_BITS || self.extended(flow) == id)).then_some((flow, mapped))
    }
}

impl Bucket {
    fn take(&mut self, other: Self, prime: u64) {
        let sum = self.id + prime - other.id;
        self.id = if sum >= prime { sum - prime } else { sum };
        self.count -= other.count;
    }
}

/// The product modulo 2^K − C: what lies above K bits comes back C-fold.
#[inline]
fn mul<const K: u32, const C: u64>(a: u64, b: u64) -> u64 {
    let (mask, prime) = ((1u128 << K) - 1, (1u128 << K) - u128::from(C));
    let mut x = u128::from(a) * u128::from(b);
    while x > mask {
        x = (x >> K) * u128::from(C) + (x & mask);
    }
    (if x >= prime { x - prime } else { x }) as u64
}

/// With p = q a + r, a⁻¹ = −q r⁻¹, and r < a. It is what a^(p − 2) gives, sooner.
#[inline]
fn inverse<const K: u32, const C: u64>(count: i64) -> Option<u64> {
    let prime = (1u64 << K) - C;
    let (mut a, mut factor) = (count.rem_euclid(prime as i64) as u64, 1);
    while a > 1 {
        (a, factor) = (prime % a, mul::<K, C>(factor, prime - prime / a));
    }
    (a == 1).then_some(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const K: u32, const C: u64>() {
        let prime = (1u64 << K) - C;
        assert!((2..1 << K.div_ceil(2)).all(|d| !prime.is_multiple_of(d)));
        for a in [1, 2, 3, 4, 1000, -1, -7, 123_456_789, i64::MAX, i64::MIN] {
            let modulo = a.rem_euclid(prime as i64) as u64;
            assert_eq!(u128::from(modulo) * u128::from(inverse::<K, C>(a).unwrap()) % u128::from(prime), 1);
            for b in [0, 1, prime - 1, prime / 3] {
                assert_eq!(u128::from(mul::<K, C>(modulo, b)), u128::from(modulo) * u128::from(b) % u128::from(prime));
            }
        }
        assert_eq!(inverse::<K, C>(0), None);
        assert_eq!(inverse::<K, C>(-(prime as i64)), None);
    }

    #[test]
    fn both_fields_are_fields() {
        check::<32, 5>();
        check::<40, 87>();
    }
}
