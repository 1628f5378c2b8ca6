//! Match-action tables: from a key to action data. Changed while packets flow through [`Shared`]: a
//! writer publishes a whole new table, and each worker sees it from its next burst on.
//!
//! There are no hit counters per entry: every core reads the same table, and a shared counter would
//! cost each of them a cache miss a packet.

mod exact;
mod lpm;
mod shared;

use std::fmt;
use std::ops::BitAnd;

pub use exact::Exact;
pub use lpm::Lpm;
pub use shared::{Reader, Shared};

use super::hash::Crc;

/// What a table is declared to hold, which is what the switch must set aside for it, full or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Entries at most.
    pub capacity: usize,
    /// Width of the key that is matched, which may be less than that of its Rust type.
    pub key_bits: u32,
    /// Width of an entry's action data.
    pub action_bits: u32,
}

/// What a table takes of the switch's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableUse {
    pub sram_bits: u64,
    pub tcam_bits: u64,
    /// Hash units: one for an exact table.
    pub hashes: u32,
}

impl Shape {
    /// Keys and action data in hashed SRAM.
    fn hashed(self) -> TableUse {
        let entry = u64::from(self.key_bits) + u64::from(self.action_bits);
        TableUse { sram_bits: self.capacity as u64 * entry, tcam_bits: 0, hashes: 1 }
    }

    /// Keys in TCAM, a row for each entry, action data in SRAM. TCAM is counted in bits of key, mask
    /// included, as vendors do.
    pub fn ternary(self) -> TableUse {
        let bits = |width: u32| self.capacity as u64 * u64::from(width);
        TableUse { sram_bits: bits(self.action_bits), tcam_bits: bits(self.key_bits), hashes: 0 }
    }

    /// Whether one more entry finds room.
    fn check(self, len: usize) -> Result<(), TableError> {
        if len < self.capacity { Ok(()) } else { Err(TableError::Full { capacity: self.capacity }) }
    }
}

/// Why an entry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("the table is full with {capacity} entries")]
    Full { capacity: usize },
    #[error("a prefix of {len} bits is longer than the key of {key_bits} bits")]
    PrefixTooLong { len: u32, key_bits: u32 },
}

/// A key of up to 128 bits. Narrower ones stand in the low bits.
pub trait Key: Copy + Eq + Ord + std::hash::Hash + fmt::Debug + BitAnd<Output = Self> {
    fn hash_with(self, crc: &Crc) -> u32;

    /// The high `len` of the low `width` bits.
    fn prefix_mask(len: u32, width: u32) -> Self;
}

macro_rules! keys {
    ($($word:ty)*) => { $(
        impl Key for $word {
            #[inline(always)]
            fn hash_with(self, crc: &Crc) -> u32 {
                crc.hash(&self.to_be_bytes())
            }

            fn prefix_mask(len: u32, width: u32) -> Self {
                let low = |bits: u32| (1 as $word).checked_shl(bits).map_or(!0, |bit| bit - 1);
                low(width) & !low(width - len)
            }
        }
    )* };
}

keys!(u16 u32 u64 u128);
