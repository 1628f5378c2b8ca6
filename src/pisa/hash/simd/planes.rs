//! CRCs of many keys at once on CPUs with AVX2 and without GFNI.

use core::arch::x86_64::*;

use arrayvec::ArrayVec;

use super::{four, halves, store_eight};
use crate::pisa::BATCH;
use crate::pisa::cpu::{self, Instructions};
use crate::pisa::hash::bank::{BurstKey, Lanes};
use crate::pisa::hash::table::nibbles;
use crate::pisa::hash::{LANES, MAX_KEY, Polynomial, XOROUT};

/// Keys of which one byte each stands in a vector.
pub const KEYS: usize = 32;
/// The fewest keys that take less time in planes than one by one.
pub const MANY: usize = 20;
/// Bytes of keys that are put in planes together.
const PIECE: usize = 16;
/// Vectors of eight words that hold a word for each of [`KEYS`] keys, in their order.
pub type EightWords = [__m256i; KEYS / 8];
/// Both nibbles of a byte of `H` times [`KEYS`] keys, the low one first.
type Nibbles<const H: usize> = [[__m256i; H]; 2];

/// One CRC of up to [`MAX_KEY`] bytes. Keys stand in *planes*: a vector holds the same byte of [`KEYS`] keys. What
/// one nibble of a key contributes to one byte of the CRC is a look-up in 16 bytes, and VPSHUFB looks up the
/// nibbles of all these keys at once.
/// ```text
/// for each byte of the keys, and each of its nibbles:
///     for each byte of the CRC:  plane of the CRC ^= table[bytes that follow, which nibble, byte of the CRC][nibble]
/// ```
#[derive(Clone)]
pub struct Planes {
    /// By bytes that follow and nibble, the low one first: for each byte of the CRC its contributions.
    tables: Box<[[[u8; 16]; 4]]>,
    /// The CRCs of keys of zeros, by length.
    of_zeros: Box<[u32]>,
}

impl Planes {
    /// For keys of up to `bytes` bytes. `None` where the CPU has no AVX2.
    pub fn new(polynomial: Polynomial, bytes: usize) -> Option<Self> {
        let words: Vec<[u32; 16]> = nibbles(polynomial).take(2 * bytes).collect();
        let byte = |table: &[u32; 16], byte: usize| table.map(|word| word.to_le_bytes()[byte]);
        let tables = words.iter().map(|table| std::array::from_fn(|at| byte(table, at))).collect();
        // The init is xored onto the first four bytes.
        let of_zeros =
            |len: usize| words[2 * len.saturating_sub(4)..2 * len].iter().fold(XOROUT, |crc, table| crc ^ table[15]);
        let of_zeros = (0..=bytes).map(of_zeros).collect();
        cpu::uses(Instructions::Avx2).then_some(Self { tables, of_zeros })
    }

    /// Several for narrow keys, where they are the fastest form of a CPU with no more than these instructions.
    pub fn of<const N: usize>(polynomials: [Polynomial; N], limit: Instructions) -> Option<[Self; N]> {
        let has_avx512 = limit >= Instructions::Avx512 && cpu::uses(Instructions::Avx512);
        if limit < Instructions::Avx2 || has_avx512 {
            return None;
        }
        let planes: ArrayVec<Self, N> =
            polynomials.iter().filter_map(|polynomial| Self::new(*polynomial, PIECE)).collect();
        planes.into_inner().ok()
    }

    /// The CRCs of keys of which these are the nibbles, the last byte first.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn crcs<const H: usize>(&self, keys: &[Nibbles<H>]) -> [EightWords; H] {
        let mut sums = [[_mm256_setzero_si256(); 4]; H];
        for sums in &mut sums {
            for (sum, zeros) in sums.iter_mut().zip(self.of_zeros[keys.len()].to_le_bytes()) {
                *sum = _mm256_set1_epi8(zeros as i8);
            }
        }
        for (tables, nibbles) in self.tables.as_chunks::<2>().0.iter().zip(keys) {
            for (tables, nibbles) in tables.iter().zip(nibbles) {
                for (byte, table) in tables.iter().enumerate() {
                    let table = twice(table);
                    for (sums, nibbles) in sums.iter_mut().zip(nibbles) {
                        sums[byte] = _mm256_xor_si256(sums[byte], _mm256_shuffle_epi8(table, *nibbles));
                    }
                }
            }
        }
        for sums in &mut sums {
            *sums = words_of(*sums);
        }
        sums
    }

    /// The CRCs of [`KEYS`] words, the highest byte of each first.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub fn of_words(&self, words: EightWords) -> EightWords {
        let mut nibbles = [[[_mm256_setzero_si256()]; 2]; 4];
        for (nibbles, plane) in nibbles.iter_mut().zip(planes_of(words)) {
            let [low, high] = split(plane);
            *nibbles = [[low], [high]];
        }
        let [crcs] = self.crcs(&nibbles);
        crcs
    }
}

/// Index hashes of the keys of a burst ([`IndexBank`](crate::pisa::hash::IndexBank)).
pub struct PlaneBank {
    crcs: Box<[Planes]>,
}

impl PlaneBank {
    /// Of the first `used` lanes. `None` where the CPU has no AVX2.
    pub fn new(polynomials: &[Polynomial; LANES], used: usize) -> Option<Self> {
        let crcs = polynomials[..used].iter().map(|polynomial| Planes::new(*polynomial, MAX_KEY));
        let crcs: Box<[_]> = crcs.collect::<Option<_>>()?;
        // Only a CRC says that the CPU has it.
        (!crcs.is_empty()).then_some(Self { crcs })
    }

    pub fn hashes<const N: usize, K: BurstKey<N>>(&self, keys: &[K; BATCH], number: usize, out: &mut Lanes) {
        // SAFETY: the CPU has AVX2, for there is a `self`.
        unsafe {
            if number > KEYS {
                self.burst::<N, 2, K>(keys, out);
            } else {
                self.burst::<N, 1, K>(keys, out);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    fn burst<const N: usize, const H: usize, K: BurstKey<N>>(&self, keys: &[K; BATCH], out: &mut Lanes) {
        let mut nibbles = [[[_mm256_setzero_si256(); H]; 2]; MAX_KEY];
        match K::words(keys) {
            Some(words) => {
                // Byte i of a key, which in memory counts from the other end of its word.
                let place = |i: usize| (N - 1).wrapping_sub(i ^ 3);
                fill(&mut nibbles, N, place, |at| words[at]);
            }
            None => {
                for piece in 0..N.div_ceil(PIECE) {
                    let place = |i: usize| (N - 1).wrapping_sub(PIECE * piece + i);
                    fill(&mut nibbles, N, place, |at| piece_of(&keys[at].bytes(), PIECE * piece));
                }
            }
        }
        let mut shared = [[_mm256_setzero_si256(); KEYS / 8]; H];
        for (lane, (crc, out)) in self.crcs.iter().zip(out).enumerate() {
            let words = crc.crcs(&nibbles[..N]);
            if lane == 0 {
                shared = words;
                continue;
            }
            for (half, (words, shared)) in words.into_iter().zip(shared).enumerate() {
                for (eight, (own, shared)) in words.into_iter().zip(shared).enumerate() {
                    let sum = _mm256_add_epi32(own, shared);
                    let hashes = _mm256_xor_si256(sum, _mm256_slli_epi32::<16>(sum));
                    store_eight(out.as_flattened_mut(), KEYS / 8 * half + eight, hashes);
                }
            }
        }
    }
}

/// The bytes of a key in one of the forms that programs have them in.
pub trait Row {
    fn vector(self) -> __m128i;
}

/// A number, the lowest byte first.
impl Row for u128 {
    #[inline(always)]
    fn vector(self) -> __m128i {
        halves(self)
    }
}

/// Words, the lowest byte of each first.
impl Row for [u32; 4] {
    #[inline(always)]
    fn vector(self) -> __m128i {
        four(self)
    }
}

/// By each unit the CRCs of the first `number` keys of a batch, each of `bytes` bytes, at most 16; of some places
/// behind them as well. Byte i of a row is byte `place(i)` of the key from its end.
#[inline(always)]
pub fn crcs_of_rows<const N: usize, R: Row>(
    units: &[Planes; N],
    (bytes, place): (usize, impl Fn(usize) -> usize),
    number: usize,
    row: impl Fn(usize) -> R,
    crcs: &mut [[u32; BATCH]; N],
) {
    const { assert!(N > 0) };
    // SAFETY: the CPU has AVX2, for there are units.
    unsafe {
        if number > KEYS {
            by_units::<N, 2, R>(units, (bytes, place), row, crcs);
        } else {
            by_units::<N, 1, R>(units, (bytes, place), row, crcs);
        }
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn by_units<const N: usize, const H: usize, R: Row>(
    units: &[Planes; N],
    (bytes, place): (usize, impl Fn(usize) -> usize),
    row: impl Fn(usize) -> R,
    crcs: &mut [[u32; BATCH]; N],
) {
    let mut nibbles = [[[_mm256_setzero_si256(); H]; 2]; PIECE];
    let bytes = bytes.min(PIECE);
    fill(&mut nibbles, bytes, place, row);
    for (unit, crcs) in units.iter().zip(crcs) {
        for (half, words) in unit.crcs(&nibbles[..bytes]).into_iter().enumerate() {
            for (eight, words) in words.into_iter().enumerate() {
                store_eight(crcs, KEYS / 8 * half + eight, words);
            }
        }
    }
}

/// Puts the bytes of keys into planes: byte i of the rows of all keys at `place(i)`, if that is below `bytes`.
#[target_feature(enable = "avx2")]
#[inline]
fn fill<const H: usize, R: Row>(
    nibbles: &mut [Nibbles<H>],
    bytes: usize,
    place: impl Fn(usize) -> usize,
    row: impl Fn(usize) -> R,
) {
    for half in 0..H {
        let planes = transposed(|at| row(KEYS * half + at));
        for (i, plane) in planes.into_iter().enumerate() {
            if let Some(nibbles) = nibbles[..bytes].get_mut(place(i)) {
                let [low, high] = split(plane);
                (nibbles[0][half], nibbles[1][half]) = (low, high);
            }
        }
    }
}

/// Byte i of the rows of [`KEYS`] keys, for each i. In each half of a plane the keys stand as they do in
/// [`EightWords`]: a vector of eight words has its first four in the low half.
#[target_feature(enable = "avx2")]
#[inline]
fn transposed<R: Row>(of: impl Fn(usize) -> R) -> [__m256i; PIECE] {
    let mut rows = [_mm256_setzero_si256(); PIECE];
    for (place, row) in rows.iter_mut().enumerate() {
        let key = 8 * (place / 4) + place % 4;
        *row = _mm256_set_m128i(of(key + 4).vector(), of(key).vector());
    }
    // Each round moves the highest bit of a byte's row behind its place in the row, and the highest bit of
    // that place behind its row.
    for _ in 0..PIECE.ilog2() {
        let mut next = rows;
        for (pair, at) in next.as_chunks_mut::<2>().0.iter_mut().zip(0..) {
            let (low, high) = (rows[at], rows[at + PIECE / 2]);
            *pair = [_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)];
        }
        rows = next;
    }
    rows
}

/// From planes of the bytes of words, the lowest one first, to the words.
#[target_feature(enable = "avx2")]
#[inline]
fn words_of([a, b, c, d]: [__m256i; 4]) -> EightWords {
    let (low, high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
    let (low_of_high, high_of_high) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
    [
        _mm256_unpacklo_epi16(low, low_of_high),
        _mm256_unpackhi_epi16(low, low_of_high),
        _mm256_unpacklo_epi16(high, high_of_high),
        _mm256_unpackhi_epi16(high, high_of_high),
    ]
}

/// And back.
#[target_feature(enable = "avx2")]
#[inline]
fn planes_of([a, b, c, d]: EightWords) -> [__m256i; 4] {
    let (a, b, c, d) = (bytes_together(a), bytes_together(b), bytes_together(c), bytes_together(d));
    let (ab, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// In each half of a vector the lowest bytes of its four words, then the next ones.
#[target_feature(enable = "avx2")]
#[inline]
fn bytes_together(words: __m256i) -> __m256i {
    const FROM: [u8; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];
    _mm256_shuffle_epi8(words, twice(&FROM))
}

/// The low and the high nibbles of a plane.
#[target_feature(enable = "avx2")]
#[inline]
fn split(plane: __m256i) -> [__m256i; 2] {
    let mask = _mm256_set1_epi8(15);
    [_mm256_and_si256(plane, mask), _mm256_and_si256(_mm256_srli_epi16::<4>(plane), mask)]
}

/// The same 16 bytes in both halves.
#[target_feature(enable = "avx2")]
#[inline]
fn twice(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: 16 readable bytes, and the load needs no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

/// Up to [`PIECE`] bytes of a key from `from` on, the first one lowest.
#[inline(always)]
fn piece_of(key: &[u8], from: usize) -> u128 {
    let mut piece = [0; PIECE];
    piece.iter_mut().zip(&key[from..]).for_each(|(to, byte)| *to = *byte);
    u128::from_le_bytes(piece)
}
