//! All the CRCs that a packet's own key needs, a burst at a time.

use std::fmt;

use super::table::Rows;
use super::{LANES, MAX_KEY, Polynomial};

/// Up to [`LANES`] hash units that see the same key.
pub struct CrcBank {
    len: usize,
    form: Form,
}

enum Form {
    #[cfg(target_arch = "x86_64")]
    Affine(super::simd::Affine),
    Rows(Rows),
}

impl CrcBank {
    /// Lane i hashes with polynomial i; what lanes beyond the last hold is not specified.
    ///
    /// # Panics
    /// With no polynomial or more than [`LANES`]: the pipeline's budget has refused those before.
    pub fn new(polynomials: &[Polynomial]) -> Self {
        let lanes = fill(polynomials);
        #[cfg(target_arch = "x86_64")]
        if let Some(affine) = super::simd::Affine::new(&lanes, polynomials.len()) {
            return Self { len: polynomials.len(), form: Form::Affine(affine) };
        }
        Self { len: polynomials.len(), form: Form::Rows(Rows::new(&lanes)) }
    }

    /// The same bank in the form that runs on every CPU, for comparison.
    pub fn portable(polynomials: &[Polynomial]) -> Self {
        Self { len: polynomials.len(), form: Form::Rows(Rows::new(&fill(polynomials))) }
    }

    /// Number of hash units.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// `out[k][i]` becomes the hash of key k under polynomial i. Four or eight polynomials take less time than sixteen. Keys are 4 to [`MAX_KEY`] bytes long.
    ///
    /// # Panics
    /// If `out` is not as long as `keys`.
    #[inline]
    pub fn hash_burst<const N: usize>(&self, keys: &[[u8; N]], out: &mut [[u32; LANES]]) {
        const { assert!(N >= 4 && N <= MAX_KEY) };
        assert_eq!(keys.len(), out.len());
        match &self.form {
            #[cfg(target_arch = "x86_64")]
            Form::Affine(affine) => affine.crcs(keys, out),
            Form::Rows(rows) => {
                for (key, out) in keys.iter().zip(out) {
                    *out = rows.crcs(key);
                }
            }
        }
    }
}

fn fill(polynomials: &[Polynomial]) -> [Polynomial; LANES] {
    assert!((1..=LANES).contains(&polynomials.len()), "a bank has 1 to {LANES} polynomials");
    std::array::from_fn(|i| polynomials.get(i).copied().unwrap_or(polynomials[0]))
}

impl fmt::Debug for CrcBank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrcBank").field("len", &self.len).finish_non_exhaustive()
    }
}
