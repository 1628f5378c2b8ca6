//! The hash units: CRC-32s that differ in their polynomial. **What is hashed, and how, is pinned
//! here**, because the P4 twin and all switches of a network must agree on it.
//!
//! - **Bytes**: a key's fields in network order without padding (`wire::flow`), the first byte
//!   first.
//! - **CRC**: 32 bits, reflected in and out, init `0xFFFFFFFF`, xorout `0xFFFFFFFF`. Under
//!   0x04C11DB7 that is zlib's `crc32`, and the hash of "123456789" is 0xCBF43926.
//! - **BMv2**: `crc32_custom` with `set_crc32_parameters calc_i POLYNOMIAL 0xFFFFFFFF 0xFFFFFFFF
//!   true true`. **Tofino**: `CRCPolynomial<bit<32>>(POLYNOMIAL, true, false, false, 32w0xFFFFFFFF,
//!   32w0xFFFFFFFF)`, fixed at compile time.
//! - **Slot**: hash mod slots ([`Range`]), as `hash(index, algorithm, 32w0, key, slots)` has it.
//! - **Index hash** and its slot: [`index`], for arrays whose analysis assumes that they hash
//!   independently.
//!
//! Different polynomials, not different seeds: a CRC is linear, so two that differ in their init
//! collide on exactly the same pairs of keys. An init hides nothing either. The secret is the
//! polynomials, which [`HashFamily`] derives; nothing here shows them.
//!
//! Every form gives what [`bitwise`] gives; `new` takes the fastest that the CPU has.

mod bank;
pub mod bitwise;
pub mod burst;
mod digest;
mod family;
mod global;
mod identity;
pub mod index;
mod layout;
mod many;
mod poly;
mod range;
mod slot;
#[cfg(target_arch = "x86_64")]
mod simd;
mod table;
#[cfg(test)]
mod tests;
mod together;

use std::fmt;

use super::cpu::Instructions;
use super::{BATCH, Slot};
use crate::wire::FlowKey;

pub use bank::{BurstKey, IndexBank, Lanes};
pub use digest::{Digest, FlowDigests};
#[cfg(test)]
pub use family::CLASH;
pub use family::{Derived, HashFamily};
pub use global::{Addends, Global};
pub use identity::IdentityHash;
pub use index::{IndexHashes, IndexKey, IndexSlots, MAX_HASHES, index_hash};
pub use layout::{HashForm, HashLayout, HighSlots, SlotRange};
pub use many::{Arguments, Sixteen, Wanted};
pub use poly::Polynomial;
pub use range::{Four, HighRange, HighRanges, Range, Which};
pub use slot::SlotHash;
pub use together::{Columns, Crcs};

pub const INIT: u32 = 0xffff_ffff;
pub const XOROUT: u32 = 0xffff_ffff;
/// CRCs that an [`IndexBank`] takes at once.
pub const LANES: usize = 16;
/// The longest key of an [`IndexBank`]: an IPv6 five-tuple, 37 bytes, in whole words.
pub const MAX_KEY: usize = 40;

/// One hash unit.
#[derive(Clone, Copy)]
pub struct Crc(Form);

/// The branch on the form is the same for every packet; a call through a pointer would cost as much
/// as the hash.
#[derive(Clone, Copy)]
#[allow(
    clippy::large_enum_variant,
    reason = "a stateful ALU holds constants, not pointers; unused bytes stay out of the cache"
)]
enum Form {
    #[cfg(target_arch = "x86_64")]
    Clmul(simd::Clmul),
    Slices(table::Slices),
}

impl Crc {
    pub fn new(polynomial: Polynomial) -> Self {
        Self::limited(polynomial, Instructions::Avx512)
    }

    /// The same unit in the form that runs on every CPU, for comparison.
    pub fn portable(polynomial: Polynomial) -> Self {
        Self::limited(polynomial, Instructions::Portable)
    }

    /// The same unit in the form for a CPU with no more than these instructions, for comparison.
    pub fn limited(polynomial: Polynomial, limit: Instructions) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(clmul) = simd::Clmul::new(polynomial, limit) {
            return Self(Form::Clmul(clmul));
        }
        _ = limit;
        Self(Form::Slices(table::Slices::new(polynomial)))
    }

    #[inline(always)]
    pub fn hash<const N: usize>(&self, key: &[u8; N]) -> u32 {
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Form::Clmul(clmul) => clmul.crc(key),
            Form::Slices(slices) => slices.crc(key),
        }
    }

    /// The hashes of the keys of these, of each the bits in `mask`, in place of slots. What it
    /// leaves behind them is of no meaning.
    #[inline(always)]
    pub fn hash_keys<K: FlowKey, T>(&self, of: &[T], key: impl Fn(&T) -> K, mask: u32, hashes: &mut [Slot; BATCH]) {
        #[cfg(target_arch = "x86_64")]
        if let (Form::Clmul(clmul), true) = (&self.0, K::NARROW)
            && clmul.crcs(K::BITS / 8, of, |one| key(one).number(), mask, hashes)
        {
            return;
        }
        for (hash, one) in hashes.iter_mut().zip(of) {
            *hash = Slot(self.hash_key(key(one)) & mask);
        }
    }

    /// The hash of a flow's key.
    #[inline(always)]
    pub fn hash_key<K: FlowKey>(&self, key: K) -> u32 {
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Form::Clmul(clmul) => clmul.crc(key.bytes().as_ref()),
            Form::Slices(slices) => apart(slices, key),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn clmul(&self) -> Option<&simd::Clmul> {
        match &self.0 {
            Form::Clmul(clmul) => Some(clmul),
            Form::Slices(_) => None,
        }
    }
}

/// Out of line where there is another form, whose loops need the registers.
#[cfg_attr(target_arch = "x86_64", inline(never))]
fn apart<K: FlowKey>(slices: &table::Slices, key: K) -> u32 {
    slices.crc(key.bytes().as_ref())
}

impl fmt::Debug for Crc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Crc(secret)")
    }
}
