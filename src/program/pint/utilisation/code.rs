//! Utilisations in a few bits: multiplicative compression with randomised rounding (§4.3,
//! example 3).
//!
//! Digests stand for utilisations in equal factors, from [`SMALLEST`] on ([`Scale`]). A hash of the
//! packet rounds its digest up or down, alike in all switches, so that the mean of a utilisation's
//! digests is its logarithm, and the largest digest on a packet's way is that of the largest
//! utilisation.

use std::sync::Arc;

use super::dataplane::{CODE_BITS, Codes, UNIT_BITS};
use crate::pisa::hash::{Addends, Global, HashFamily};
use crate::program::pint::hashes;

/// The utilisation of digest 0: HPCC's scale, 1/512.
pub const SMALLEST: f64 = 1.0 / 512.0;

/// The utilisation of the last digest of a live switch. A link whose true bandwidth is that of the
/// query has at most 1.
pub const LARGEST: f64 = 4.0;

/// Most bits of a digest.
pub const MAX_BITS: u32 = u8::BITS;

/// The factor by which the logarithm's table, and the registers' average with them, are off at most,
/// for links that [`Links`](super::link::Links) takes: 0.3 % of an average that packets hold up, and
/// 0.15 % more each time that it halves, which it does eleven times over the whole scale (`tests.rs`).
const ERROR_OF_ARITHMETIC: f64 = 1.02;

/// The utilisations that digests stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The last digest.
    last: u8,
    /// The factor between two digests.
    base: f64,
}

impl Scale {
    /// Digests of 1 to 8 bits from [`SMALLEST`] to [`LARGEST`].
    pub fn new(bits: u32) -> Self {
        let last = last(bits);
        Self { last, base: (LARGEST / SMALLEST).powf(1.0 / f64::from(last)) }
    }

    /// Digests of 1 to 8 bits with the factor (1 + ε)² between two of them, as the paper has it.
    pub fn of_epsilon(bits: u32, epsilon: f64) -> Self {
        Self { last: last(bits), base: (1.0 + epsilon.max(1e-3)).powi(2) }
    }

    /// The utilisation that a digest stands for.
    pub fn decode(&self, digest: u8) -> f64 {
        SMALLEST * self.base.powi(digest.into())
    }

    /// That of the last digest.
    pub fn largest(&self) -> f64 {
        self.decode(self.last)
    }

    /// The table of its digests. Above the largest one they stay there.
    pub fn codes(&self) -> Codes {
        let first = f64::from(UNIT_BITS) + SMALLEST.log2();
        let code = |index: usize| {
            let log = (index as f64 + 0.5) / f64::from(1 << CODE_BITS);
            (256.0 * ((log - first) / self.base.log2()).clamp(0.0, self.last.into())).round() as u16
        };
        Codes(Arc::new(std::array::from_fn(code)))
    }

    /// The factor by which a digest is off at most, of utilisations from [`SMALLEST`] to that of
    /// the last digest.
    pub fn error_factor(&self) -> f64 {
        self.base * ERROR_OF_ARITHMETIC
    }
}

fn last(bits: u32) -> u8 {
    u8::MAX >> (MAX_BITS - bits.clamp(1, MAX_BITS))
}

/// What a switch does with a utilisation to write a digest.
#[derive(Debug)]
pub struct Compression {
    pub codes: Codes,
    pub scale: Scale,
    rounding: Global,
    argument: Addends,
}

impl Compression {
    /// Digests of this scale.
    pub fn new(scale: Scale, family: &HashFamily) -> Self {
        let rounding = Global::of(&hashes::rounding(0), family);
        let argument = rounding.argument(&0u32.to_be_bytes());
        Self { codes: scale.codes(), scale, rounding, argument }
    }

    /// The hash of a packet by which all switches round its digest.
    #[inline(always)]
    pub fn hash(&self, identity: u32) -> u8 {
        (self.rounding.inner(identity, self.argument) >> 24) as u8
    }
}
