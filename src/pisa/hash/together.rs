//! Several CRCs of the same keys.

use std::fmt;

#[cfg(target_arch = "x86_64")]
use arrayvec::ArrayVec;

#[cfg(target_arch = "x86_64")]
use super::simd::Clmul;
use super::{Crc, Polynomial};
use crate::pisa::BATCH;
use crate::pisa::cpu::Instructions;
use crate::wire::FlowKey;

/// Hash units that have the same keys.
#[derive(Clone)]
pub struct Crcs<const N: usize>([Crc; N]);

/// By hash unit a word for each key of a batch.
pub type Columns<const N: usize> = [[u32; BATCH]; N];

impl<const N: usize> Crcs<N> {
    pub fn new(polynomials: [Polynomial; N]) -> Self {
        Self(polynomials.map(Crc::new))
    }

    /// The same units in the form for a CPU with no more than these instructions, for comparison.
    pub fn limited(polynomials: [Polynomial; N], limit: Instructions) -> Self {
        Self(polynomials.map(|polynomial| Crc::limited(polynomial, limit)))
    }

    /// The hashes of a flow's key, one of each unit.
    #[inline(always)]
    pub fn hash_key<K: FlowKey>(&self, key: K) -> [u32; N] {
        std::array::from_fn(|unit| self.0[unit].hash_key(key))
    }

    /// The hashes of the keys of a batch, in order. What it leaves behind them is of no meaning.
    #[inline(always)]
    pub fn hash_keys<K: FlowKey>(&self, keys: &[K], hashes: &mut Columns<N>) {
        #[cfg(target_arch = "x86_64")]
        if K::NARROW
            && let Some(units) = self.clmuls()
            && Clmul::crcs_together(units, keys, hashes)
        {
            return;
        }
        for (at, key) in keys.iter().enumerate().take(BATCH) {
            for (hashes, hash) in hashes.iter_mut().zip(self.hash_key(*key)) {
                hashes[at] = hash;
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn clmuls(&self) -> Option<[&Clmul; N]> {
        let units: ArrayVec<&Clmul, N> = self.0.iter().filter_map(Crc::clmul).collect();
        units.into_inner().ok()
    }
}

impl<const N: usize> fmt::Debug for Crcs<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Crcs(secret)")
    }
}
