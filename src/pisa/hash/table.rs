//! The portable forms: look-ups by nibble, which stay small enough for the first-level cache.
//!
//! A CRC is linear, so each nibble of the key contributes its own word, whatever the rest of the
//! key is:
//! ```text
//! hash ← the complement of the xor, over both nibbles of each byte, of table[bytes that follow][which nibble][nibble]
//! ```

use std::hint::black_box;

use super::bitwise::advance;
use super::{INIT, LANES, MAX_KEY, Polynomial, XOROUT};

/// Bytes that [`Slices`] takes at once.
const SLICE: usize = 16;

/// One CRC of keys of any length: 2 KB.
#[derive(Clone, Copy)]
pub struct Slices([[u32; 16]; 2 * SLICE]);

impl Slices {
    pub fn new(polynomial: Polynomial) -> Self {
        let mut tables = nibbles(polynomial);
        Self(std::array::from_fn(|_| tables.next().expect("endless")))
    }

    #[inline(always)]
    pub fn crc(&self, key: &[u8]) -> u32 {
        let (head, blocks) = key.split_at(key.len() % SLICE);
        let register = self.block(INIT, head);
        blocks.chunks_exact(SLICE).fold(register, |register, block| self.block(register, block)) ^ XOROUT
    }

    /// The register after up to [`SLICE`] bytes.
    #[inline(always)]
    fn block(&self, register: u32, bytes: &[u8]) -> u32 {
        let carried = register.to_le_bytes();
        // What of the register lies beyond a block of fewer than four bytes is only shifted.
        let mut next = if bytes.len() < 4 { register >> (8 * bytes.len()) } else { 0 };
        for (i, &byte) in bytes.iter().enumerate() {
            let byte = byte ^ carried.get(i).copied().unwrap_or(0);
            let after = bytes.len() - 1 - i;
            next ^= self.0[2 * after][usize::from(byte & 15)] ^ self.0[2 * after + 1][usize::from(byte >> 4)];
        }
        next
    }
}

/// [`LANES`] CRCs at once: a row holds what one nibble contributes to each. 26 KB are in use for a
/// key of 13 bytes.
pub struct Rows(Box<[[[u32; LANES]; 16]]>);

impl Rows {
    pub fn new(polynomials: &[Polynomial; LANES]) -> Self {
        let mut tables = polynomials.map(nibbles);
        let mut next = || tables.each_mut().map(|t| t.next().expect("endless"));
        let rows = |lanes: [[u32; 16]; LANES]| std::array::from_fn(|nibble| lanes.map(|table| table[nibble]));
        Self((0..2 * MAX_KEY).map(|_| rows(next())).collect())
    }

    #[inline]
    pub fn crcs<const N: usize>(&self, key: &[u8; N]) -> [u32; LANES] {
        let tables = &self.0[..2 * N];
        let mut hashes = [XOROUT; LANES];
        for (i, &byte) in key.iter().enumerate() {
            // Hidden from the compiler, which would else do all rows at once by gathers where there
            // is AVX-512, five times slower.
            let byte = black_box(if i < 4 { byte ^ 0xff } else { byte });
            let after = N - 1 - i;
            add(&mut hashes, &tables[2 * after][usize::from(byte & 15)]);
            add(&mut hashes, &tables[2 * after + 1][usize::from(byte >> 4)]);
        }
        hashes
    }
}

#[inline(always)]
fn add(hashes: &mut [u32; LANES], row: &[u32; LANES]) {
    for (hash, word) in hashes.iter_mut().zip(row) {
        *hash ^= word;
    }
}

/// What each bit of a byte adds to the register, for a byte with 0, 1, 2, … bytes behind it.
pub fn contributions(polynomial: Polynomial) -> impl Iterator<Item = [u32; 8]> {
    let last = std::array::from_fn(|bit| advance(polynomial, 1 << bit, 8));
    std::iter::successors(Some(last), move |bits| Some(bits.map(|word| advance(polynomial, word, 8))))
}

/// What each value of the low and of the high nibble of such a byte adds.
pub fn nibbles(polynomial: Polynomial) -> impl Iterator<Item = [u32; 16]> {
    contributions(polynomial).flat_map(|bits| {
        let sum = |nibble: usize, bits: &[u32]| (0..4).filter(|b| nibble >> b & 1 == 1).fold(0, |sum, b| sum ^ bits[b]);
        [&bits[..4], &bits[4..]].map(|half| std::array::from_fn(|nibble| sum(nibble, half)))
    })
}
