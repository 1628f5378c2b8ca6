//! Sixteen hashes at once, on CPUs with AVX-512 and GFNI.

use core::arch::x86_64::*;

use super::super::{XOR3, contributions, load, matrix, store};
use crate::pisa::cpu::{self, Instructions};
use crate::pisa::hash::Polynomial;
use crate::pisa::hash::many::{Sixteen, Wanted};

/// Two CRCs of 32-bit words, chained as [`Global`](crate::pisa::hash::Global) has it. Byte j of such
/// a CRC is the sum of four products, each of a byte of the word and an 8 × 8 matrix:
/// ```text
/// for r = 0 … 3:  bytes = byte (j + r) mod 4 of all words, for each j
///                 sum  ^= matrix[r, j] · bytes
/// ```
#[derive(Clone)]
pub struct AffineJoins([[[u64; 8]; 4]; 2]);

/// From words to their bytes j + r, those of all words together for each j.
const APART: [[u8; 64]; 4] = {
    let mut from = [[0; 64]; 4];
    let mut i = 0;
    while i < 256 {
        let (r, at) = (i / 64, i % 64);
        from[r][at] = (4 * (at % 16) + (at / 16 + r) % 4) as u8;
        i += 1;
    }
    from
};

/// And back to words.
const TOGETHER: [u8; 64] = {
    let mut from = [0; 64];
    let mut at = 0;
    while at < 64 {
        from[at] = (16 * (at % 4) + at / 4) as u8;
        at += 1;
    }
    from
};

impl AffineJoins {
    /// Of the inner CRC's polynomial and the outer one's.
    pub fn new(polynomials: [Polynomial; 2]) -> Option<Self> {
        let of = |polynomial| {
            let columns: Vec<_> = contributions(polynomial).take(4).collect();
            let lane = |r: usize, j: usize| matrix(&columns[(j + r) % 4], j as u32);
            std::array::from_fn(|r| std::array::from_fn(|at| lane(r, at / 2)))
        };
        cpu::uses(Instructions::Avx512).then(|| Self(polynomials.map(of)))
    }

    pub fn hashes(&self, packet: u32, arguments: &[[Sixteen; 2]], out: &mut [Sixteen]) {
        // SAFETY: the CPU has the features, for there is a `self`.
        unsafe { self.all(packet, arguments, out) }
    }

    pub fn select(&self, packet: u32, arguments: &[[Sixteen; 2]], wanted: &Wanted, among: &mut [u64]) {
        // SAFETY: the CPU has the features, for there is a `self`.
        unsafe { self.choose(packet, arguments, wanted, among) }
    }

    pub fn at_most(&self, packet: u32, arguments: &[[Sixteen; 2]], limits: &[Sixteen]) -> u64 {
        // SAFETY: the CPU has the features, for there is a `self`.
        unsafe { self.compare(packet, arguments, limits) }
    }

    pub fn of_packets(&self, packets: &[Sixteen], argument: [u32; 2], out: &mut [Sixteen]) {
        // SAFETY: the CPU has the features, for there is a `self`.
        unsafe { self.many_with_one(packets, argument, out) }
    }

    #[inline(always)]
    pub fn packets_at_most(&self, packets: &[Sixteen], argument: [u32; 2], limit: u32) -> u64 {
        // SAFETY: the CPU has the features, for there is a `self`.
        unsafe { self.compare_packets(packets, argument, limit) }
    }

    pub fn of_pairs(&self, packets: &[Sixteen], arguments: &[[Sixteen; 2]], out: &mut [Sixteen]) {
        // SAFETY: the CPU has the features, for there is a `self`.
        unsafe { self.pairs(packets, arguments, out) }
    }

    pub fn inner_of_packets(&self, packets: &[Sixteen], argument: u32, out: &mut [Sixteen]) {
        // SAFETY: the CPU has the features, for there is a `self`.
        unsafe { self.inner(packets, argument, out) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn many_with_one(&self, packets: &[Sixteen], argument: [u32; 2], out: &mut [Sixteen]) {
        let [inner, outer] = argument.map(|addend| _mm512_set1_epi32(addend as i32));
        for (packets, out) in packets.iter().zip(out) {
            store(out, self.chained(_mm512_add_epi32(load(packets), inner), outer));
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn compare_packets(&self, packets: &[Sixteen], argument: [u32; 2], limit: u32) -> u64 {
        let [inner, outer] = argument.map(|addend| _mm512_set1_epi32(addend as i32));
        let limit = _mm512_set1_epi32(limit as i32);
        packets.iter().enumerate().fold(0, |bits, (at, packets)| {
            let hashes = self.chained(_mm512_add_epi32(load(packets), inner), outer);
            bits | u64::from(_mm512_cmple_epu32_mask(hashes, limit)) << (16 * at)
        })
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn pairs(&self, packets: &[Sixteen], arguments: &[[Sixteen; 2]], out: &mut [Sixteen]) {
        for ((packets, [inner, outer]), out) in packets.iter().zip(arguments).zip(out) {
            store(out, self.chained(_mm512_add_epi32(load(packets), load(inner)), load(outer)));
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn inner(&self, packets: &[Sixteen], argument: u32, out: &mut [Sixteen]) {
        let addend = _mm512_set1_epi32(argument as i32);
        for (packets, out) in packets.iter().zip(out) {
            store(out, crc(&self.0[0], _mm512_add_epi32(load(packets), addend)));
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn compare(&self, packet: u32, arguments: &[[Sixteen; 2]], limits: &[Sixteen]) -> u64 {
        arguments.iter().zip(limits).enumerate().fold(0, |bits, (at, (arguments, limits))| {
            let are_small = _mm512_cmple_epu32_mask(self.sixteen(packet, arguments), load(limits));
            bits | u64::from(are_small) << (16 * at)
        })
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn all(&self, packet: u32, arguments: &[[Sixteen; 2]], out: &mut [Sixteen]) {
        for (arguments, out) in arguments.iter().zip(out) {
            store(out, self.sixteen(packet, arguments));
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn choose(&self, packet: u32, arguments: &[[Sixteen; 2]], wanted: &Wanted, among: &mut [u64]) {
        let ones = _mm512_set1_epi32(1);
        let mask = _mm512_set1_epi32(wanted.mask as i32);
        let value = _mm512_set1_epi32(wanted.value as i32);
        let table = load(&wanted.table);
        for (word, arguments) in among.iter_mut().zip(arguments.chunks(4)).filter(|(word, _)| **word != 0) {
            let mut kept = 0;
            for (at, arguments) in arguments.iter().enumerate() {
                let hashes = _mm512_and_si512(self.sixteen(packet, arguments), mask);
                let are_wanted = if wanted.is_one {
                    _mm512_cmpeq_epi32_mask(hashes, value)
                } else {
                    let words = _mm512_permutexvar_epi32(_mm512_srli_epi32::<5>(hashes), table);
                    // Of the number of places the last five bits count.
                    let places = _mm512_and_si512(hashes, _mm512_set1_epi32(31));
                    _mm512_test_epi32_mask(_mm512_srlv_epi32(words, places), ones)
                };
                kept |= u64::from(are_wanted) << (16 * at);
            }
            *word &= kept;
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    #[inline]
    fn sixteen(&self, packet: u32, [inner, outer]: &[Sixteen; 2]) -> __m512i {
        self.chained(_mm512_add_epi32(_mm512_set1_epi32(packet as i32), load(inner)), load(outer))
    }

    /// The outer CRC of the sum of `outer` and the inner CRC.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    #[inline]
    fn chained(&self, sums: __m512i, outer: __m512i) -> __m512i {
        crc(&self.0[1], _mm512_add_epi32(crc(&self.0[0], sums), outer))
    }
}

/// The CRCs of sixteen words, the highest byte of each first.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
#[inline]
fn crc(matrices: &[[u64; 8]; 4], words: __m512i) -> __m512i {
    let ones = _mm512_set1_epi32(-1);
    let words = _mm512_xor_si512(words, ones);
    let product = |r: usize| {
        let bytes = _mm512_permutexvar_epi8(load(&APART[r]), words);
        _mm512_gf2p8affine_epi64_epi8::<0>(bytes, load(&matrices[r]))
    };
    let three = _mm512_ternarylogic_epi64::<XOR3>(product(0), product(1), product(2));
    let sum = _mm512_ternarylogic_epi64::<XOR3>(three, product(3), ones);
    _mm512_permutexvar_epi8(load(&TOGETHER), sum)
}
