//! The look-up tables of logarithms and powers of two (appendix C). They are computed with integers
//! alone, so all switches have the same ones.

use super::dataplane::{FRACTION, INDEX_BITS, LOG_OF_ZERO, Tables};

const ENTRIES: usize = 1 << INDEX_BITS;

/// The tables of every switch: 3 × 1024 entries of 21, 16 and 17 bits.
pub static TABLES: Tables = Tables { small: small(), log: logarithms(), exp: powers() };

/// log₂ of a number in [1, 2) with 31 bits behind the point, in units of 2⁻¹⁶. Each squaring
/// brings out the next bit.
const fn fraction(mut x: u64) -> i32 {
    let (mut bits, mut left) = (0, FRACTION + 1);
    while left > 0 {
        x = (x * x) >> 31;
        let above = x >> 32;
        bits = bits << 1 | above as i32;
        x >>= above;
        left -= 1;
    }
    (bits + 1) >> 1
}

/// Logarithms of the numbers below 1024, which need no approximation.
const fn small() -> [i32; ENTRIES] {
    let (mut table, mut i) = ([LOG_OF_ZERO; ENTRIES], 1);
    while i < ENTRIES {
        let whole = i.ilog2();
        table[i] = (whole << FRACTION) as i32 + fraction((i as u64) << (31 - whole));
        i += 1;
    }
    table
}

/// Logarithms of 1 + (i + ½) / 1024: of the middle of all numbers with the same ten bits behind
/// their highest one.
const fn logarithms() -> [i32; ENTRIES] {
    let (mut table, mut i) = ([0; ENTRIES], 0);
    while i < ENTRIES {
        table[i] = fraction((1 << 31) + ((2 * i as u64 + 1) << (30 - INDEX_BITS)));
        i += 1;
    }
    table
}

/// 2 to the power of (i + ½) / 1024, with 16 bits behind the point.
const fn powers() -> [u32; ENTRIES] {
    let (mut table, mut i) = ([0; ENTRIES], 0);
    while i < ENTRIES {
        // The bits of the exponent choose among √2, √√2, …, each with 62 bits behind the point.
        let (exponent, mut bit) = (2 * i + 1, INDEX_BITS + 1);
        let (mut root, mut product) = (2u128 << 62, 1u128 << 62);
        while bit > 0 {
            bit -= 1;
            root = (root << 62).isqrt();
            if exponent >> bit & 1 == 1 {
                product = (product * root) >> 62;
            }
        }
        table[i] = (((product >> (61 - FRACTION)) + 1) >> 1) as u32;
        i += 1;
    }
    table
}
