//! Several CRCs of the same keys.

use std::fmt;

#[cfg(target_arch = "x86_64")]
use arrayvec::ArrayVec;

#[cfg(target_arch = "x86_64")]
use super::simd::{Clmul, MANY, Planes, crcs_of_rows};
use super::{Crc, Polynomial};
use crate::pisa::cpu::Instructions;
use crate::pisa::{BATCH, Phv, Vectors};
#[cfg(target_arch = "x86_64")]
use crate::wire::Headers;
use crate::wire::{FlowKey, Tuple4};

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
                return crcs_of_rows(planes, (K::BITS as usize / 8, |byte| byte), keys.len(), number, hashes);
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

    /// The hashes of the IPv4 five-tuples of the packets of a batch, in order; of a packet that is not IPv4 a
    /// meaningless value. As [`Self::hash_keys`], with keys that need not be put together first where many are
    /// hashed at once.
    #[inline(always)]
    pub fn hash_packets(&self, phvs: &[Phv], hashes: &mut Columns<N>) {
        #[cfg(target_arch = "x86_64")]
        if let Some(planes) = self.planes.as_ref().filter(|_| phvs.len() >= MANY) {
            let words = |at: usize| phvs.get(at).map_or([0; 4], |phv| words(&phv.headers));
            let key = (Tuple4::BITS as usize / 8, |byte: usize| usize::from(PLACES[byte & (PLACES.len() - 1)]));
            return crcs_of_rows(planes, key, phvs.len(), words, hashes);
        }
        let mut keys = [Tuple4::default(); BATCH];
        Vectors::here().keys(phvs, &mut keys);
        self.hash_keys(&keys[..phvs.len().min(BATCH)], hashes);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn clmuls(&self) -> Option<[&Clmul; N]> {
        let units: ArrayVec<&Clmul, N> = self.units.iter().filter_map(Crc::clmul).collect();
        units.into_inner().ok()
    }
}

/// The fields of a five-tuple as headers have them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn words(headers: &Headers) -> [u32; 4] {
    let ports = u32::from(headers.sport) | u32::from(headers.dport) << 16;
    [headers.src_ip as u32, headers.dst_ip as u32, ports, headers.proto.into()]
}

/// Where each byte of [`words`] stands in the five-tuple, counted from its end; 255 for those that do not.
#[cfg(target_arch = "x86_64")]
const PLACES: [u8; 16] = [9, 10, 11, 12, 5, 6, 7, 8, 3, 4, 1, 2, 0, 255, 255, 255];

impl<const N: usize> fmt::Debug for Crcs<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Crcs(secret)")
    }
}
