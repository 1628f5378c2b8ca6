//! A set of small numbers, a bit each.

use crate::program::pint::hops::Bits;

/// Numbers below a bound that is given when the set is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    words: Vec<u64>,
    len: usize,
}

impl Set {
    pub fn none(bound: usize) -> Self {
        Self { words: vec![0; bound.div_ceil(64)], len: 0 }
    }

    pub fn all(bound: usize) -> Self {
        let mut all = Self::none(bound);
        all.words.fill(u64::MAX);
        if let (Some(last), rest @ 1..) = (all.words.last_mut(), bound % 64) {
            *last = (1 << rest) - 1;
        }
        all.len = bound;
        all
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub fn add(&mut self, number: usize) {
        if let Some(word) = self.words.get_mut(number / 64) {
            let bit = 1 << (number % 64);
            self.len += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
        self.len = 0;
    }

    /// Its only number, if it has no other.
    pub fn only(&self) -> Option<usize> {
        if self.len == 1 { self.iter().next() } else { None }
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, &word)| Bits(word).map(move |bit| 64 * at + bit))
    }

    /// Keeps the numbers for which `keep` holds. Whether there were others.
    pub fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) -> bool {
        let before = self.len;
        for (at, word) in self.words.iter_mut().enumerate() {
            for bit in Bits(*word) {
                if !keep(64 * at + bit) {
                    *word &= !(1 << bit);
                    self.len -= 1;
                }
            }
        }
        self.len < before
    }

    /// Lets `keep` clear bits, number 64 · i + j in bit j of word i. Whether it did.
    pub fn narrow(&mut self, keep: impl FnOnce(&mut [u64])) -> bool {
        let before = self.len;
        keep(&mut self.words);
        self.len = self.words.iter().map(|word| word.count_ones() as usize).sum();
        self.len < before
    }

    /// Keeps the numbers that are in `other`. Whether there were others.
    pub fn intersect(&mut self, other: &Self) -> bool {
        self.narrow(|words| words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other))
    }
}
