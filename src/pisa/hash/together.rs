//! Several CRCs of the same keys.

use std::fmt;

#[cfg(target_arch = "x86_64")]
use arrayvec::ArrayVec;

#[cfg(target_arch = "x86_64")]
use super::simd::{Clmul, MANY, Planes, crcs_of_numbers};
use super::{Crc, Polynomial};
use crate::pisa::BATCH;
use crate::pisa::cpu::Instructions;
use crate::wire::FlowKey;

/// Hash units that have the same keys.
#[derive(Clone)]
pub struct Crcs<const N: usize> {
    units: [Crc; N],
    /// The form for many keys of a CPU without AVX-512.
    #[cfg(target_arch = "x86_64")]
    planes: Option<Box<[Planes; N]>>,
}

/// By hash unit a word for each key of a batch.
pub type Columns<const N: usize> = [[u32; BATCH]; N];

impl<const N: usize> Crcs<N> {
    pub fn new(polynomials: [Polynomial; N]) -> Self {
        Self::limited(polynomials, Instructions::Avx512)
    }

    /// The same units in the form for a CPU with no more than these instructions, for comparison.
    pub fn limited(polynomials: [Polynomial; N], limit: Instructions) -> Self {
        Self {
            units: polynomials.map(|polynomial| Crc::limited(polynomial, limit)),
            #[cfg(target_arch = "x86_64")]
            planes: Planes::of(polynomials, limit).map(Box::new),
        }
    }

    /// The hashes of a flow's key, one of each unit.
    #[inline(always)]
    pub fn hash_key<K: FlowKey>(&self, key: K) -> [u32; N] {
        std::array::from_fn(|unit| self.units[unit].hash_key(key))
    }

    /// The hashes of the keys of a batch, in order. What it leaves behind them is of no meaning.
    #[inline(always)]
    pub fn hash_keys<K: FlowKey>(&self, keys: &[K], hashes: &mut Columns<N>) {
        #[cfg(target_arch = "x86_64")]
        if K::NARROW {
            if let Some(planes) = self.planes.as_ref().filter(|_| keys.len() >= MANY) {
                let number = |at: usize| keys.get(at).map_or(0, |key| key.number());
                return crcs_of_numbers(planes, K::BITS as usize / 8, keys.len(), number, hashes);
            }
            if let Some(units) = self.clmuls()
                && Clmul::crcs_together(units, keys, hashes)
            {
                return;
            }
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
        let units: ArrayVec<&Clmul, N> = self.units.iter().filter_map(Crc::clmul).collect();
        units.into_inner().ok()
    }
}

impl<const N: usize> fmt::Debug for Crcs<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Crcs(secret)")
    }
}
