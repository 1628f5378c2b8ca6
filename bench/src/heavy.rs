//! What the figures ask of an algorithm that finds heavy flows.

use std::hash::{BuildHasherDefault, Hasher};

use weir::wire::Tuple4;

/// A heavy-hitter algorithm with a fixed memory.
pub trait HeavyHitter {
    fn packet(&mut self, key: Tuple4);

    fn burst(&mut self, keys: &[Tuple4]) {
        keys.iter().for_each(|&key| self.packet(key));
    }

    /// All table entries with their counts; a key may come more than once, and its counts are then
    /// to be added.
    fn read_out(self) -> Vec<(Tuple4, u64)>;
}

/// A five-tuple folded into 64 well mixed bits.
#[inline]
pub fn fold(Tuple4(bits): Tuple4) -> u64 {
    mix((bits as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix((bits >> 64) as u64))
}

/// A slot out of `slots` by hash function number `function` of a folded key. The functions are
/// independent of each other, unlike CRCs that differ in their initial value only.
#[inline]
pub fn slot(folded: u64, function: usize, slots: usize) -> usize {
    let hash = mix(folded ^ (function as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95));
    ((u128::from(hash) * slots as u128) >> 64) as usize
}

/// A number with its bits well mixed; no two numbers become one.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hashes a five-tuple for the standard hash map.
#[derive(Default)]
pub struct FoldHasher(u64);

impl Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.0 = mix(self.0 ^ u64::from(b)));
    }

    fn write_u32(&mut self, n: u32) {
        self.0 = mix(self.0 ^ u64::from(n));
    }

    fn write_u128(&mut self, bits: u128) {
        self.0 = fold(Tuple4(bits));
    }
}

pub type KeyMap<V> = std::collections::HashMap<Tuple4, V, BuildHasherDefault<FoldHasher>>;
