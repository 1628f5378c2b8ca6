//! Index hashes on CPUs with AVX2 and without GFNI, a key at a time.

use core::arch::x86_64::*;

use super::store_eight;
use crate::pisa::BATCH;
use crate::pisa::cpu::{self, Instructions};
use crate::pisa::hash::bank::{BurstKey, Lanes};
use crate::pisa::hash::table::nibbles;
use crate::pisa::hash::{LANES, MAX_KEY, Polynomial, XOROUT};

/// Index hashes by look-ups of nibbles, as [`Rows`](crate::pisa::hash::table::Rows) makes them, eight CRCs a
/// vector and `V` vectors.
pub struct Nibbles<const V: usize>(Box<[[[Eight; V]; 16]]>);

/// Contributions of one nibble to eight CRCs.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Eight([u32; 8]);

impl<const V: usize> Nibbles<V> {
    pub fn new(polynomials: &[Polynomial; LANES]) -> Option<Self> {
        const { assert!(8 * V <= LANES) };
        let mut tables = polynomials.map(nibbles);
        let mut rows = |_| {
            let lanes = tables.each_mut().map(|table| table.next().expect("endless"));
            let eight = |nibble: usize, v: usize| Eight(std::array::from_fn(|lane| lanes[8 * v + lane][nibble]));
            std::array::from_fn(|nibble| std::array::from_fn(|v| eight(nibble, v)))
        };
        cpu::uses(Instructions::Avx2).then(|| Self((0..2 * MAX_KEY).map(&mut rows).collect()))
    }

    pub fn hashes<const N: usize, K: BurstKey<N>>(&self, keys: &[K; BATCH], number: usize, out: &mut Lanes) {
        // SAFETY: the CPU has AVX2, for there is a `self`.
        unsafe { self.burst(keys, number, out) }
    }

    #[target_feature(enable = "avx2")]
    fn burst<const N: usize, K: BurstKey<N>>(&self, keys: &[K; BATCH], number: usize, out: &mut Lanes) {
        let rows = &self.0[..2 * N];
        let (eights, _) = keys.as_chunks::<8>();
        for (at, keys) in eights.iter().enumerate().take(number.div_ceil(8)) {
            let mut hashes = [[_mm256_setzero_si256(); 8]; V];
            for (key, keyed) in keys.iter().enumerate().take(number - 8 * at) {
                let mut sums = [_mm256_set1_epi32(XOROUT as i32); V];
                for (i, byte) in keyed.bytes().into_iter().enumerate() {
                    let byte = if i < 4 { byte ^ 0xff } else { byte };
                    let after = 2 * (N - 1 - i);
                    let [low, high] = [&rows[after][usize::from(byte & 15)], &rows[after + 1][usize::from(byte >> 4)]];
                    for (sum, (low, high)) in sums.iter_mut().zip(low.iter().zip(high)) {
                        *sum = _mm256_xor_si256(*sum, _mm256_xor_si256(eight(low), eight(high)));
                    }
                }
                let shared = _mm256_broadcastd_epi32(_mm256_castsi256_si128(sums[0]));
                for (hashes, sum) in hashes.iter_mut().zip(sums) {
                    let joined = _mm256_add_epi32(sum, shared);
                    hashes[key] = _mm256_xor_si256(joined, _mm256_slli_epi32::<16>(joined));
                }
            }
            let (lanes, _) = out.as_chunks_mut::<8>();
            for (lanes, hashes) in lanes.iter_mut().zip(hashes) {
                for (lane, words) in lanes.iter_mut().zip(transpose(hashes)) {
                    store_eight(lane.as_flattened_mut(), at, words);
                }
            }
        }
    }
}

/// Transposes 8 × 8 words.
#[target_feature(enable = "avx2")]
#[inline]
fn transpose(rows: [__m256i; 8]) -> [__m256i; 8] {
    let pairs: [[__m256i; 2]; 4] = std::array::from_fn(|i| {
        let [a, b] = [rows[2 * i], rows[2 * i + 1]];
        [_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)]
    });
    // Columns i and i + 4 of rows 0 to 3, and of rows 4 to 7.
    let fours: [[__m256i; 4]; 2] = [0, 2].map(|half| {
        let [[a, b], [c, d]] = [pairs[half], pairs[half + 1]];
        [
            _mm256_unpacklo_epi64(a, c),
            _mm256_unpackhi_epi64(a, c),
            _mm256_unpacklo_epi64(b, d),
            _mm256_unpackhi_epi64(b, d),
        ]
    });
    std::array::from_fn(|column| {
        let [low, high] = [fours[0][column % 4], fours[1][column % 4]];
        if column < 4 {
            _mm256_permute2x128_si256::<0x20>(low, high)
        } else {
            _mm256_permute2x128_si256::<0x31>(low, high)
        }
    })
}

#[target_feature(enable = "avx2")]
#[inline]
fn eight(words: &Eight) -> __m256i {
    // SAFETY: `words` is 32 readable bytes, and aligned.
    unsafe { _mm256_load_si256(words.0.as_ptr().cast()) }
}
