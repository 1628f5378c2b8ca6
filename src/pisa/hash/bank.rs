//! All the index hashes that a packet's own key needs, a burst at a time.

use std::fmt;

use super::index::index_hash;
use super::table::Rows;
use super::{LANES, MAX_KEY, Polynomial};

/// Receives the index hashes of a key.
pub trait HashLanes {
    fn lanes(&mut self) -> &mut [u32; LANES];
}

impl HashLanes for [u32; LANES] {
    #[inline(always)]
    fn lanes(&mut self) -> &mut [u32; LANES] {
        self
    }
}

/// A key of `N` bytes, one of many that are hashed together.
pub trait BurstKey<const N: usize>: Copy {
    const ZERO: Self;
    fn bytes(&self) -> [u8; N];
    /// The keys as words whose first `N` bytes in memory are the key; `None` for keys of another form.
    fn words(keys: &[Self; 8]) -> Option<&[[u32; 4]; 8]>;
}

impl<const N: usize> BurstKey<N> for [u8; N] {
    const ZERO: Self = [0; N];

    #[inline(always)]
    fn bytes(&self) -> [u8; N] {
        *self
    }

    #[inline(always)]
    fn words(_: &[Self; 8]) -> Option<&[[u32; 4]; 8]> {
        None
    }
}

/// The first `N` bytes of the words in memory order, which a CPU takes from a register.
impl<const N: usize> BurstKey<N> for [u32; 4] {
    const ZERO: Self = [0; 4];

    #[inline(always)]
    fn bytes(&self) -> [u8; N] {
        let words = self.map(u32::to_ne_bytes);
        let bytes = words.as_flattened();
        std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
    }

    #[inline(always)]
    fn words(keys: &[Self; 8]) -> Option<&[[u32; 4]; 8]> {
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
    #[cfg(target_arch = "x86_64")]
    Eight(super::simd::Nibbles<1>),
    #[cfg(target_arch = "x86_64")]
    Sixteen(super::simd::Nibbles<2>),
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
        if used <= LANES / 2 {
            if let Some(nibbles) = super::simd::Nibbles::new(lanes) {
                return Self::Eight(nibbles);
            }
        } else if let Some(nibbles) = super::simd::Nibbles::new(lanes) {
            return Self::Sixteen(nibbles);
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

    /// Lane i + 1 of `out[k]` becomes index hash i of key k. Three, seven or eleven hashes take less
    /// time than fifteen. Keys are 4 to [`MAX_KEY`] bytes long; those that stand in words take less
    /// time than those that stand without gaps.
    ///
    /// # Panics
    /// If `out` is not as long as `keys`.
    #[inline]
    pub fn hash_burst<const N: usize, K: BurstKey<N>, L: HashLanes>(&self, keys: &[K], out: &mut [L]) {
        const { assert!(N >= 4 && N <= MAX_KEY) };
        assert_eq!(keys.len(), out.len());
        match &self.form {
            #[cfg(target_arch = "x86_64")]
            Form::Affine(affine) => affine.hashes(keys, out),
            #[cfg(target_arch = "x86_64")]
            Form::Eight(nibbles) => nibbles.hashes(keys, out),
            #[cfg(target_arch = "x86_64")]
            Form::Sixteen(nibbles) => nibbles.hashes(keys, out),
            Form::Rows(rows) => {
                for (key, out) in keys.iter().zip(out.iter_mut()) {
                    *out.lanes() = rows.crcs(&key.bytes());
                }
                // In a loop of its own, or the compiler would compute the shared lane twice.
                out.iter_mut().for_each(|out| join_shared(out.lanes()));
            }
        }
    }
}

/// From the CRCs of all lanes to index hashes.
#[inline(always)]
fn join_shared(lanes: &mut [u32; LANES]) {
    let shared = lanes[0];
    lanes.iter_mut().for_each(|lane| *lane = index_hash(*lane, shared));
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
