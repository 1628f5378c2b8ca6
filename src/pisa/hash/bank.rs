//! All the index hashes that a packet's own key needs, a burst at a time.

use std::fmt;

use super::burst::Words;
use super::index::index_hash;
#[cfg(target_arch = "x86_64")]
use super::simd::MANY;
use super::table::Rows;
use super::{LANES, MAX_KEY, Polynomial};
use crate::pisa::BATCH;

/// By lane a word for each key of a burst.
pub type Lanes = [Words; LANES];

/// A key of `N` bytes, one of many that are hashed together.
pub trait BurstKey<const N: usize>: Copy {
    fn bytes(&self) -> [u8; N];
    /// The keys as words whose bytes, the highest of each word first, begin with the key; `None`
    /// for keys of another form.
    fn words<const M: usize>(keys: &[Self; M]) -> Option<&[[u32; 4]; M]>;
}

impl<const N: usize> BurstKey<N> for [u8; N] {
    #[inline(always)]
    fn bytes(&self) -> [u8; N] {
        *self
    }

    #[inline(always)]
    fn words<const M: usize>(_: &[Self; M]) -> Option<&[[u32; 4]; M]> {
        None
    }
}

/// The first `N` bytes of the words in network order, which a CPU takes from a register.
impl<const N: usize> BurstKey<N> for [u32; 4] {
    #[inline(always)]
    fn bytes(&self) -> [u8; N] {
        let words = self.map(u32::to_be_bytes);
        let bytes = words.as_flattened();
        std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
    }

    #[inline(always)]
    fn words<const M: usize>(keys: &[Self; M]) -> Option<&[[u32; 4]; M]> {
        const { assert!(N <= 16) };
        Some(keys)
    }
}

/// Up to [`MAX_HASHES`](super::MAX_HASHES) index hashes of the same key, which share one CRC
/// ([`super::index`]).
pub struct IndexBank {
    len: usize,
    form: Form,
}

enum Form {
    #[cfg(target_arch = "x86_64")]
    Affine(super::simd::Affine),
    /// For few keys, and for many.
    #[cfg(target_arch = "x86_64")]
    Eight(super::simd::Nibbles<1>, super::simd::PlaneBank),
    #[cfg(target_arch = "x86_64")]
    Sixteen(super::simd::Nibbles<2>, super::simd::PlaneBank),
    Rows(Rows),
}

impl Form {
    /// Returns the fastest form for this CPU. `used` is the number of lanes in use.
    fn new(lanes: &[Polynomial; LANES], used: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(affine) = super::simd::Affine::new(lanes, used) {
            return Self::Affine(affine);
        }
        Self::without_affine(lanes, used)
    }

    /// As [`Self::new`], without AVX-512 and GFNI.
    fn without_affine(lanes: &[Polynomial; LANES], used: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(planes) = super::simd::PlaneBank::new(lanes, used) {
            if used > LANES / 2 {
                if let Some(nibbles) = super::simd::Nibbles::new(lanes) {
                    return Self::Sixteen(nibbles, planes);
                }
            } else if let Some(nibbles) = super::simd::Nibbles::new(lanes) {
                return Self::Eight(nibbles, planes);
            }
        }
        _ = used;
        Self::Rows(Rows::new(lanes))
    }
}

impl IndexBank {
    /// Index hash i is in lane i + 1. The contents of lane 0 and of the lanes behind the last hash
    /// are unspecified.
    ///
    /// # Panics
    /// With more than [`MAX_HASHES`](super::MAX_HASHES) polynomials of their own: the budget
    /// refuses those before.
    pub fn new(shared: Polynomial, own: &[Polynomial]) -> Self {
        Self { len: own.len(), form: Form::new(&fill(shared, own), 1 + own.len()) }
    }

    /// The same bank in the form for CPUs without AVX-512 and GFNI, for comparison.
    pub fn without_affine(shared: Polynomial, own: &[Polynomial]) -> Self {
        Self { len: own.len(), form: Form::without_affine(&fill(shared, own), 1 + own.len()) }
    }

    /// The same bank in the form that runs on every CPU, for comparison.
    pub fn portable(shared: Polynomial, own: &[Polynomial]) -> Self {
        Self { len: own.len(), form: Form::Rows(Rows::new(&fill(shared, own))) }
    }

    /// Number of index hashes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Word k of lane i + 1 becomes index hash i of key k, for the first `number` keys. What else
    /// stands in `out` is of no meaning. Fewer hashes take less time, by pairs with the shared CRC.
    /// Keys are 4 to [`MAX_KEY`] bytes long; those that stand in words take less time than those
    /// that stand without gaps.
    #[inline]
    pub fn hash_burst<const N: usize, K: BurstKey<N>>(&self, keys: &[K; BATCH], number: usize, out: &mut Lanes) {
        const { assert!(N >= 4 && N <= MAX_KEY) };
        match &self.form {
            #[cfg(target_arch = "x86_64")]
            Form::Affine(affine) => affine.hashes(keys, number, out),
            #[cfg(target_arch = "x86_64")]
            Form::Eight(_, planes) | Form::Sixteen(_, planes) if number >= MANY => planes.hashes(keys, number, out),
            #[cfg(target_arch = "x86_64")]
            Form::Eight(nibbles, _) => nibbles.hashes(keys, number, out),
            #[cfg(target_arch = "x86_64")]
            Form::Sixteen(nibbles, _) => nibbles.hashes(keys, number, out),
            Form::Rows(rows) => {
                for (at, key) in keys.iter().enumerate().take(number) {
                    let crcs = rows.crcs(&key.bytes());
                    for (lane, crc) in out.iter_mut().zip(crcs) {
                        lane.as_flattened_mut()[at] = index_hash(crc, crcs[0]);
                    }
                }
            }
        }
    }
}

fn fill(shared: Polynomial, own: &[Polynomial]) -> [Polynomial; LANES] {
    assert!(own.len() < LANES, "a bank has at most {} index hashes", LANES - 1);
    std::array::from_fn(|i| if i == 0 { shared } else { own.get(i - 1).copied().unwrap_or(shared) })
}

impl fmt::Debug for IndexBank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexBank").field("len", &self.len).finish_non_exhaustive()
    }
}
