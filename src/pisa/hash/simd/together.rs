//! Several CRCs of the same keys by carry-less multiplication: see [`Clmul`].

use core::arch::x86_64::*;

use super::{Clmul, REVERSE, bytes_of, halves, pair, third, xor};
use crate::pisa::BATCH;
use crate::pisa::cpu::Instructions;
use crate::pisa::hash::together::Columns;
use crate::pisa::hash::{INIT, XOROUT};
use crate::wire::FlowKey;

/// The truth tables of a xor (b and c), and of not (a xor b).
const XOR_AND: i32 = 0x78;
const XNOR: i32 = 0xc3;

/// The init where it is xored onto the number of a narrow key.
#[inline(always)]
fn init<K: FlowKey>() -> u128 {
    u128::from(INIT).checked_shl(K::BITS.saturating_sub(u32::BITS)).unwrap_or(0)
}

impl Clmul {
    /// The CRCs of [narrow](FlowKey::NARROW) keys by units of one form; of a few places behind them as
    /// well. False, and nothing done, where the CPU has no more than [`Self::crc`] takes.
    #[inline(always)]
    pub fn crcs_together<K: FlowKey, const N: usize>(units: [&Self; N], keys: &[K], crcs: &mut Columns<N>) -> bool {
        match units.first().map(|unit| unit.level) {
            // SAFETY: the CPU has the features, as the level says.
            Some(Instructions::Avx512) => unsafe { by_fours(units, keys, crcs) },
            // SAFETY: as above.
            Some(Instructions::Avx2) => unsafe { one_by_one(units, keys, crcs) },
            _ => return false,
        }
        true
    }
}

/// Of each number w₀ w₁: (w₀ / y⁶⁴ + w₁) reduced, four at a time.
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
#[inline]
fn by_fours<K: FlowKey, const N: usize>(units: [&Clmul; N], keys: &[K], crcs: &mut Columns<N>) {
    let each = |number: __m128i| _mm512_broadcast_i32x4(number);
    let (reverse, init, low) = (each(bytes_of(&REVERSE)), each(halves(init::<K>())), each(pair(u64::MAX, 0)));
    let units = units.map(|unit| (each(pair(unit.fold[0], 0)), each(pair(unit.reduce[0], unit.reduce[1]))));
    let thirds = _mm512_setr_epi32(2, 6, 10, 14, 2, 6, 10, 14, 2, 6, 10, 14, 2, 6, 10, 14);
    let four_crcs = |numbers: [u128; 4], at: usize, crcs: &mut Columns<N>| {
        // SAFETY: 64 readable bytes, and the load needs no alignment.
        let keys = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
        let words = _mm512_shuffle_epi8(_mm512_xor_si512(keys, init), reverse);
        for ((fold, reduce), crcs) in units.iter().zip(crcs) {
            let product = _mm512_clmulepi64_epi128::<0x01>(words, *fold);
            let sum = _mm512_ternarylogic_epi64::<XOR_AND>(product, words, low);
            let quotient = _mm512_clmulepi64_epi128::<0x00>(sum, *reduce);
            let multiple = _mm512_clmulepi64_epi128::<0x10>(quotient, *reduce);
            let register = _mm512_ternarylogic_epi64::<XNOR>(sum, multiple, low);
            let packed = _mm512_castsi512_si128(_mm512_permutexvar_epi32(thirds, register));
            if let Some(crcs) = crcs.as_chunks_mut::<4>().0.get_mut(at) {
                // SAFETY: 16 writable bytes; the store needs no alignment.
                unsafe { _mm_storeu_si128(crcs.as_mut_ptr().cast(), packed) }
            }
        }
    };
    let (fours, rest) = keys.as_chunks::<4>();
    for (at, four) in fours.iter().enumerate().take(BATCH / 4) {
        four_crcs(four.map(K::number), at, crcs);
    }
    if let Some(last) = rest.last() {
        four_crcs(std::array::from_fn(|i| rest.get(i).unwrap_or(last).number()), fours.len(), crcs);
    }
}

#[target_feature(enable = "avx2,pclmulqdq")]
#[inline]
fn one_by_one<K: FlowKey, const N: usize>(units: [&Clmul; N], keys: &[K], crcs: &mut Columns<N>) {
    let (reverse, init) = (bytes_of(&REVERSE), halves(init::<K>()));
    let units = units.map(|unit| (pair(unit.fold[0], 0), pair(unit.reduce[0], unit.reduce[1])));
    for (at, key) in keys.iter().enumerate().take(BATCH) {
        let words = _mm_shuffle_epi8(xor(halves(key.number()), init), reverse);
        for ((fold, reduce), crcs) in units.into_iter().zip(&mut *crcs) {
            let sum = xor(_mm_clmulepi64_si128::<0x01>(words, fold), _mm_move_epi64(words));
            let quotient = _mm_clmulepi64_si128::<0x00>(sum, reduce);
            let multiple = _mm_clmulepi64_si128::<0x10>(quotient, reduce);
            crcs[at] = third(xor(sum, multiple)) ^ XOROUT;
        }
    }
}
