//! The vector forms for x86-64. Each type here can only be made on a CPU that has the instructions
//! it uses; that is what the unsafe blocks rest on.

#![allow(unsafe_code)]

mod identities;
mod joins;
mod nibbles;
mod planes;
mod together;

use core::arch::x86_64::*;

use super::bank::{BurstKey, Lanes};
use super::bitwise::advance;
use super::burst::Words;
use super::table::contributions;
use super::{INIT, LANES, MAX_KEY, Polynomial, XOROUT};
use crate::pisa::cpu::{self, Instructions};
use crate::pisa::{BATCH, Slot};

pub use identities::Identities;
pub use joins::Joins;
pub use nibbles::Nibbles;
pub use planes::{MANY, PlaneBank, Planes, crcs_of_rows};

/// One CRC by carry-less multiplication.
///
/// Let bit i of a word, lowest first, stand for yⁱ with y = 1/x, and let P be the polynomial in y
/// (33 bits, lowest bit 1). One zero bit then takes the register to register / y mod P, so an n-bit
/// key takes it to (key xor init) / yⁿ mod P.
/// ```text
/// w₀ … wₖ ← the key, padded with zero bytes in front to whole 64-bit words; init xored into its first four bytes
/// s ← wₖ xor Σ wᵢ · (y^(−64(k−i)) mod P)            at most 96 bits; the products do not wait for each other
/// q ← low half of s · P⁻¹ mod y⁶⁴                   so that s xor q·P is divisible by y⁶⁴
/// register ← (s xor q·P) / y⁶⁴                      32 bits: Montgomery's reduction
/// ```
#[derive(Clone, Copy)]
pub struct Clmul {
    /// P⁻¹ mod y⁶⁴, and P.
    reduce: [u64; 2],
    /// y^(−64), y^(−128), … mod P.
    fold: [u64; Self::WORDS - 1],
    /// What the CPU has.
    level: Instructions,
}

/// Reverses the bytes of each 64-bit word of a vector.
const REVERSE: [u8; 16] = [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8];

impl Clmul {
    const WORDS: usize = 8;
    /// Bytes taken at once.
    const BLOCK: usize = 8 * Self::WORDS;

    /// With no more than these instructions.
    pub fn new(polynomial: Polynomial, limit: Instructions) -> Option<Self> {
        let levels = [Instructions::Avx512, Instructions::Avx2, Instructions::Clmul];
        let level = levels.into_iter().find(|level| *level <= limit && cpu::uses(*level))?;
        let modulus = u64::from(polynomial.reflected()) << 1 | 1;
        let fold = std::array::from_fn(|i| u64::from(advance(polynomial, 1, 64 * (i as u32 + 1))));
        Some(Self { reduce: [inverse(modulus), modulus], fold, level })
    }

    #[inline(always)]
    pub fn crc(&self, key: &[u8]) -> u32 {
        let register = match key.len() {
            0 => INIT,
            // Where the length is known, all of `block` becomes straight-line code.
            1..=Self::BLOCK => self.block(INIT, key),
            _ => key.chunks(Self::BLOCK).fold(INIT, |register, block| self.block(register, block)),
        };
        register ^ XOROUT
    }

    /// The register after 1 to [`Self::BLOCK`] bytes.
    #[inline(always)]
    fn block(&self, register: u32, bytes: &[u8]) -> u32 {
        let words = bytes.len().div_ceil(8);
        let pad = 8 * (8 * words - bytes.len()) as u32;
        // `register` is 32 bits wide from bit `pad` on; what passes the first word's end goes into
        // the second.
        let init = u128::from(register) << pad;
        let (init, mut spilled) = (init as u64, (init >> 64) as u64);

        let first = word(bytes, 0, 8 - pad as usize / 8) << pad ^ init;
        if words == 1 {
            return self.reduce(pair(first, spilled));
        }
        let mut sum = self.multiply(first, words - 1);
        for i in 1..words {
            let word = word(bytes, 8 * i - pad as usize / 8, 8) ^ std::mem::take(&mut spilled);
            let term = if i == words - 1 { pair(word, 0) } else { self.multiply(word, words - 1 - i) };
            sum = xor(sum, term);
        }
        self.reduce(sum)
    }

    /// The CRCs of the keys of these, of each the bits in `mask`; of a few places behind them as
    /// well. A key is the last `bytes` bytes of a number, 4 to 16, in network order. False, and
    /// nothing done, where the CPU has no more than [`Self::crc`] takes.
    ///
    /// Each key is loaded by itself: a wider load would wait for the stores of several.
    #[inline(always)]
    pub fn crcs<T>(&self, bytes: u32, of: &[T], key: impl Fn(&T) -> u128, mask: u32, crcs: &mut [Slot; BATCH]) -> bool {
        let init = u128::from(INIT) << (8 * bytes - u32::BITS);
        match self.level {
            // SAFETY: the CPU has the features, as the level says.
            Instructions::Avx512 => unsafe { self.crcs_of_fours(init, of, key, mask, crcs) },
            // SAFETY: as above.
            Instructions::Avx2 => unsafe { self.crcs_one_by_one(init, of, key, mask, crcs) },
            _ => return false,
        }
        true
    }

    /// Of each number w₀ w₁: (w₀ / y⁶⁴ + w₁) reduced, four at a time.
    #[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
    #[inline]
    fn crcs_of_fours<T>(&self, init: u128, of: &[T], key: impl Fn(&T) -> u128, mask: u32, crcs: &mut [Slot; BATCH]) {
        /// The truth table of a xor (b and c).
        const XOR_AND: i32 = 0x78;
        let each = |number: u128| _mm512_broadcast_i32x4(halves(number));
        let (reverse, init) = (_mm512_broadcast_i32x4(bytes_of(&REVERSE)), each(init));
        let (fold, reduce) = (each(self.fold[0].into()), _mm512_broadcast_i32x4(pair(self.reduce[0], self.reduce[1])));
        let (low, mask) = (each(u64::MAX.into()), _mm512_set1_epi32(mask as i32));
        let thirds = _mm512_setr_epi32(2, 6, 10, 14, 2, 6, 10, 14, 2, 6, 10, 14, 2, 6, 10, 14);
        let four_crcs = |[a, b, c, d]: [__m128i; 4], crcs: &mut [Slot; 4]| {
            let keys = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
            let keys = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(keys, c), d);
            let words = _mm512_shuffle_epi8(_mm512_xor_si512(keys, init), reverse);
            let product = _mm512_clmulepi64_epi128::<0x01>(words, fold);
            let sum = _mm512_ternarylogic_epi64::<XOR_AND>(product, words, low);
            let quotient = _mm512_clmulepi64_epi128::<0x00>(sum, reduce);
            let multiple = _mm512_clmulepi64_epi128::<0x10>(quotient, reduce);
            let register = _mm512_ternarylogic_epi64::<XNOR_AND>(sum, multiple, mask);
            let packed = _mm512_castsi512_si128(_mm512_permutexvar_epi32(thirds, register));
            // SAFETY: `crcs` is 16 writable bytes, for a `Slot` is its number; the store needs no
            // alignment.
            unsafe { _mm_storeu_si128(crcs.as_mut_ptr().cast(), packed) }
        };
        let (fours, rest) = of.as_chunks::<4>();
        let (crcs, _) = crcs.as_chunks_mut::<4>();
        let mut crcs = crcs.iter_mut();
        for (four, crcs) in fours.iter().zip(&mut crcs) {
            four_crcs(four.each_ref().map(|one| halves(key(one))), crcs);
        }
        if let (Some(last), Some(crcs)) = (rest.last(), crcs.next()) {
            four_crcs(std::array::from_fn(|i| halves(key(rest.get(i).unwrap_or(last)))), crcs);
        }
    }

    #[target_feature(enable = "avx2,pclmulqdq")]
    #[inline]
    fn crcs_one_by_one<T>(&self, init: u128, of: &[T], key: impl Fn(&T) -> u128, mask: u32, crcs: &mut [Slot; BATCH]) {
        let (reverse, init) = (bytes_of(&REVERSE), halves(init));
        let (fold, reduce) = (pair(self.fold[0], 0), pair(self.reduce[0], self.reduce[1]));
        for (one, crc) in of.iter().zip(crcs) {
            let words = _mm_shuffle_epi8(xor(halves(key(one)), init), reverse);
            let sum = xor(_mm_clmulepi64_si128::<0x01>(words, fold), _mm_move_epi64(words));
            let quotient = _mm_clmulepi64_si128::<0x00>(sum, reduce);
            let multiple = _mm_clmulepi64_si128::<0x10>(quotient, reduce);
            *crc = Slot((third(xor(sum, multiple)) ^ XOROUT) & mask);
        }
    }

    /// word / y^(64 places) mod P, not yet reduced.
    #[inline(always)]
    fn multiply(&self, word: u64, places: usize) -> __m128i {
        self.product::<0x00>(pair(word, 0), pair(self.fold[places - 1], 0))
    }

    #[inline(always)]
    fn reduce(&self, sum: __m128i) -> u32 {
        let constants = pair(self.reduce[0], self.reduce[1]);
        let quotient = self.product::<0x00>(sum, constants);
        let multiple = self.product::<0x10>(quotient, constants);
        third(xor(sum, multiple))
    }

    /// The carry-less product of a half of `a` and a half of `b`: bit 0 of `HALVES` says which of
    /// a, bit 4 which of b.
    ///
    /// The intrinsic cannot be inlined into a caller that is not compiled for the instruction, and
    /// a call costs as much as the whole hash. Assembly can. In a caller that is compiled for AVX the form
    /// without it would wait for the upper halves of registers, twenty times as long as it works.
    #[inline(always)]
    fn product<const HALVES: i32>(&self, a: __m128i, b: __m128i) -> __m128i {
        let mut product = a;
        if self.level >= Instructions::Avx2 {
            // SAFETY: the CPU has PCLMULQDQ and AVX, as the level says. It reads and writes nothing but the
            // registers.
            unsafe {
                core::arch::asm!(
                    "vpclmulqdq {product}, {product}, {b}, {halves}",
                    product = inout(xmm_reg) product,
                    b = in(xmm_reg) b,
                    halves = const HALVES,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            return product;
        }
        // SAFETY: the CPU has PCLMULQDQ, for there is a `self`. It reads and writes nothing but the
        // two registers.
        unsafe {
            core::arch::asm!(
                "pclmulqdq {product}, {b}, {halves}",
                product = inout(xmm_reg) product,
                b = in(xmm_reg) b,
                halves = const HALVES,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        product
    }
}

/// `len` bytes from `from` on, lowest first.
#[inline(always)]
fn word(bytes: &[u8], from: usize, len: usize) -> u64 {
    let mut word = [0; 8];
    word[..len].copy_from_slice(&bytes[from..from + len]);
    u64::from_le_bytes(word)
}

/// The inverse modulo y⁶⁴ of a polynomial whose lowest coefficient is 1, bit by bit: cancel the
/// lowest 1 of what is left.
fn inverse(modulus: u64) -> u64 {
    let mut rest = 1u64;
    (0..64).fold(0, |inverse, bit| {
        let digit = rest >> bit & 1;
        rest ^= if digit == 1 { modulus << bit } else { 0 };
        inverse | digit << bit
    })
}

#[inline(always)]
fn pair(low: u64, high: u64) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_set_epi64x(high as i64, low as i64) }
}

#[inline(always)]
fn four([a, b, c, d]: [u32; 4]) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_setr_epi32(a as i32, b as i32, c as i32, d as i32) }
}

#[inline(always)]
fn halves(number: u128) -> __m128i {
    pair(number as u64, (number >> 64) as u64)
}

/// As [`pair`], byte by byte.
#[inline(always)]
fn bytes_of(bytes: &[u8; 16]) -> __m128i {
    pair(word(bytes, 0, 8), word(bytes, 8, 8))
}

#[inline(always)]
fn xor(a: __m128i, b: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_xor_si128(a, b) }
}

/// Bits 64 to 95.
#[inline(always)]
fn third(a: __m128i) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_cvtsi128_si32(_mm_shuffle_epi32::<2>(a)) as u32 }
}

/// Index hashes of eight keys at once, from [`LANES`] CRCs each. What one byte of a key contributes
/// to one byte of a CRC is a product with an 8 × 8 matrix over GF(2), and GF2P8AFFINEQB takes eight
/// such products, of one matrix with the same byte of eight keys, a lane.
/// ```text
/// transpose the keys: byte i of all eight is one 64-bit word
/// for each two CRCs:  for each of their bytes and each i:  sum[CRC, byte] ^= matrix[bytes that follow, CRC, byte] · word i
/// gather from the sums each CRC of all eight keys, both in a vector
/// join each with the first CRC
/// ```
pub struct Affine {
    matrices: Box<[Matrices]>,
    /// CRCs that are wanted: the lanes behind them are not computed, but for one.
    used: usize,
}

/// The truth tables of a xor b xor c, and of (not (a xor b)) and c.
const XOR3: i32 = 0x96;
const XNOR_AND: i32 = 0x82;

/// For one position of the key, [`LANES`] × 4 matrices.
#[repr(align(64))]
struct Matrices([[u64; 8]; 8]);

impl Affine {
    pub fn new(polynomials: &[Polynomial; LANES], used: usize) -> Option<Self> {
        let mut columns = polynomials.map(contributions);
        let mut matrices = |_| {
            let columns = columns.each_mut().map(|c| c.next().expect("endless"));
            let of = |i: usize| matrix(&columns[i / 4], i as u32 % 4);
            Matrices(std::array::from_fn(|j| std::array::from_fn(|lane| of(8 * j + lane))))
        };
        cpu::uses(Instructions::Avx512).then(|| Self { matrices: (0..MAX_KEY).map(&mut matrices).collect(), used })
    }

    pub fn hashes<const N: usize, K: BurstKey<N>>(&self, keys: &[K; BATCH], number: usize, out: &mut Lanes) {
        // SAFETY: the CPU has the features, for there is a `self`.
        unsafe {
            match N {
                0..=16 => self.burst::<N, 2, K>(keys, number, out),
                _ => self.burst::<N, { MAX_KEY / 8 }, K>(keys, number, out),
            }
        }
    }

    /// Two CRCs after the other, so that their matrices stay in registers while the keys pass, of which a
    /// load spreads a byte of eight over all lanes. Columns of keys take `W` vectors.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn burst<const N: usize, const W: usize, K: BurstKey<N>>(&self, keys: &[K; BATCH], number: usize, out: &mut Lanes) {
        let mut columns = [[[0; 8]; W]; BATCH / 8];
        let mut shared = [[0u64; 8]; BATCH / 8];
        let number = number.div_ceil(8).min(columns.len());
        for (columns, keys) in columns.iter_mut().zip(keys.as_chunks().0).take(number) {
            transpose(keys, columns);
        }
        let (pairs, _) = out.as_chunks_mut::<2>();
        for (pair, lanes) in pairs.iter_mut().enumerate().take(self.used.div_ceil(2)) {
            let matrices: [__m512i; N] = std::array::from_fn(|i| load(&self.matrices[N - 1 - i].0[pair]));
            for (at, (columns, shared)) in columns.iter().zip(&mut shared).enumerate().take(number) {
                let crcs = crcs(&matrices, columns.as_flattened());
                if pair == 0 {
                    store(shared, _mm512_shuffle_i64x2::<0x44>(crcs, crcs));
                }
                store_hashes(crcs, load(shared), lanes, at);
            }
        }
    }
}

/// Two CRCs of eight keys whose columns these are, the first one of all of them first.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
#[inline]
fn crcs<const N: usize>(matrices: &[__m512i; N], columns: &[u64]) -> __m512i {
    const FROM: [u8; 64] = {
        let mut from = [0; 64];
        let mut i = 0;
        while i < 64 {
            // Byte i mod 4 of key i / 4 mod 8, of the first CRC and then of the second.
            from[i] = (i / 32 * 32 + i % 4 * 8 + i / 4 % 8) as u8;
            i += 1;
        }
        from
    };
    let product = |i: usize| _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(columns[i] as i64), matrices[i]);
    let mut sum = _mm512_set1_epi8(-1);
    // Two at a time, because one instruction adds three vectors.
    for i in (0..N - N % 2).step_by(2) {
        sum = _mm512_ternarylogic_epi64::<XOR3>(sum, product(i), product(i + 1));
    }
    if N % 2 == 1 {
        sum = _mm512_xor_si512(sum, product(N - 1));
    }
    _mm512_permutexvar_epi8(load(&FROM), sum)
}

/// Writes byte i of all eight keys into word i, with the init of the CRCs.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn transpose<const N: usize, K: BurstKey<N>>(keys: &[K; 8], words: &mut [[u64; 8]]) {
    match K::words(keys) {
        Some(keys) => transpose_words(keys, words),
        None => transpose_keys(&keys.each_ref().map(K::bytes), words),
    }
    let init = _mm512_setr_epi64(-1, -1, -1, -1, 0, 0, 0, 0);
    if let Some(first) = words.first_mut() {
        store(first, _mm512_xor_si512(load(first), init));
    }
}

/// Writes byte i of all eight keys into word i.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn transpose_keys<const N: usize>(keys: &[[u8; N]; 8], words: &mut [[u64; 8]]) {
    // Both lengths are constants, or `word` would copy byte by byte.
    for (g, words) in words.iter_mut().enumerate().take(N / 8) {
        store(words, transpose_bytes(gather(keys, 8 * g, 8)));
    }
    if let (false, Some(words)) = (N.is_multiple_of(8), words.get_mut(N / 8)) {
        store(words, transpose_bytes(gather(keys, N - N % 8, N % 8)));
    }
}

/// The same of keys of 16 bytes in network order.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn transpose_words(keys: &[[u32; 4]; 8], words: &mut [[u64; 8]]) {
    const FROM: [[u8; 64]; 2] = {
        let mut from = [[0; 64]; 2];
        let mut i = 0;
        while i < 128 {
            // Byte i / 8 of key i mod 8, which in memory counts from the other end of its word.
            from[i / 64][i % 64] = (16 * (i % 8) + ((i / 8) ^ 3)) as u8;
            i += 1;
        }
        from
    };
    let (halves, _) = keys.as_chunks::<4>();
    let (low, high) = (load(&halves[0]), load(&halves[1]));
    for (words, from) in words.iter_mut().zip(&FROM) {
        store(words, _mm512_permutex2var_epi8(low, load(from), high));
    }
}

/// `len` bytes of each key from `from` on, a key a lane.
#[target_feature(enable = "avx512f")]
#[inline]
fn gather<const N: usize>(keys: &[[u8; N]; 8], from: usize, len: usize) -> __m512i {
    let [a, b, c, d, e, f, g, h] = keys.each_ref().map(|key| word(key, from, len) as i64);
    _mm512_setr_epi64(a, b, c, d, e, f, g, h)
}

/// Joins two CRCs of eight keys with the shared one, as [`index_hash`](super::index_hash) has it, and stores
/// them in their lanes, as words 8 `at` and the next ones.
#[target_feature(enable = "avx512f")]
#[inline]
fn store_hashes(crcs: __m512i, shared: __m512i, lanes: &mut [Words; 2], at: usize) {
    let sums = _mm512_add_epi32(crcs, shared);
    let hashes = _mm512_xor_si512(sums, _mm512_slli_epi32::<16>(sums));
    let halves = [_mm512_castsi512_si256(hashes), _mm512_extracti64x4_epi64::<1>(hashes)];
    for (lane, half) in lanes.iter_mut().zip(halves) {
        store_eight(lane.as_flattened_mut(), at, half);
    }
}

/// Stores words 8 `at` to 8 `at` + 7, as far as there is room for all of them.
#[target_feature(enable = "avx")]
#[inline]
fn store_eight(out: &mut [u32], at: usize, words: __m256i) {
    if let Some(eight) = out.as_chunks_mut::<8>().0.get_mut(at) {
        // SAFETY: `eight` is 32 writable bytes, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(eight.as_mut_ptr().cast(), words) }
    }
}

/// Transposes 8 × 8 bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn transpose_bytes(bytes: __m512i) -> __m512i {
    const FROM: [u8; 64] = {
        let mut from = [0; 64];
        let mut i = 0;
        while i < 64 {
            from[i] = (i % 8 * 8 + i / 8) as u8;
            i += 1;
        }
        from
    };
    _mm512_permutexvar_epi8(load(&FROM), bytes)
}

/// Integers: no padding, and any bits make one.
trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u32 {}
impl Plain for u64 {}
impl<const N: usize> Plain for [u32; N] {}

#[target_feature(enable = "avx512f")]
#[inline]
fn load<T: Plain, const N: usize>(words: &[T; N]) -> __m512i {
    const { assert!(size_of::<[T; N]>() == 64) };
    // SAFETY: `words` is 64 readable bytes, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn store<T: Plain, const N: usize>(words: &mut [T; N], value: __m512i) {
    const { assert!(size_of::<[T; N]>() == 64) };
    // SAFETY: `words` is 64 writable bytes, the store needs no alignment, and any bits make a
    // `Plain`.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), value) }
}

/// The matrix of byte `byte` of the register, as GF2P8AFFINEQB wants it: the row for bit 0 of the
/// result in the highest byte.
fn matrix(columns: &[u32; 8], byte: u32) -> u64 {
    let bit_of = |column: u32, i: usize| (column >> (8 * byte + i as u32) & 1) as u8;
    let row = |i: usize| (0..8).fold(0, |row, bit| row | bit_of(columns[bit], i) << bit);
    u64::from_be_bytes(std::array::from_fn(row))
}
