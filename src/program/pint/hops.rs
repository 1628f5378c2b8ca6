//! Sets of hops.

use super::dataplane::MAX_CODED_HOPS;

const WORDS: usize = MAX_CODED_HOPS / u64::BITS as usize;

/// Some hops of a path, counted from 1 to [`MAX_CODED_HOPS`]. Others are in no set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hops([u64; WORDS]);

impl Hops {
    /// Hop 64 · i + j + 1 is there where bit j of word i is set.
    pub fn of_words(words: [u64; WORDS]) -> Self {
        Self(words)
    }

    pub fn insert(&mut self, hop: usize) {
        let bit = hop.wrapping_sub(1);
        if let Some(word) = self.0.get_mut(bit / 64) {
            *word |= 1 << (bit % 64);
        }
    }

    pub fn remove(&mut self, hop: usize) {
        let bit = hop.wrapping_sub(1);
        if let Some(word) = self.0.get_mut(bit / 64) {
            *word &= !(1 << (bit % 64));
        }
    }

    pub fn contains(self, hop: usize) -> bool {
        let bit = hop.wrapping_sub(1);
        self.0.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    pub fn len(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The hops, the first one first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(at, word)| Bits(word).map(move |bit| 64 * at + bit + 1))
    }
}

impl FromIterator<usize> for Hops {
    fn from_iter<I: IntoIterator<Item = usize>>(hops: I) -> Self {
        let mut all = Self::default();
        hops.into_iter().for_each(|hop| all.insert(hop));
        all
    }
}

/// The places of the bits that are set, the lowest first.
#[derive(Clone, Copy)]
pub struct Bits(pub u64);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        let any = self.0 != 0;
        self.0 &= self.0.wrapping_sub(1);
        any.then_some(bit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn they_are_sets(
            a in prop::collection::btree_set(0..=MAX_CODED_HOPS + 1, 0..20),
            b in prop::collection::btree_set(1..=MAX_CODED_HOPS, 0..200),
        ) {
            let [first, second]: [Hops; 2] = [&a, &b].map(|set| set.iter().copied().collect());
            let hops = |set: Hops| set.iter().collect::<BTreeSet<_>>();
            let a: BTreeSet<_> = a.into_iter().filter(|hop| (1..=MAX_CODED_HOPS).contains(hop)).collect();
            prop_assert_eq!(hops(first), a.clone());
            prop_assert_eq!((second.len(), first.is_empty()), (b.len(), a.is_empty()));
            prop_assert_eq!(hops(first.and(second)), &a & &b);
            prop_assert!((0..=MAX_CODED_HOPS + 1).all(|hop| first.contains(hop) == a.contains(&hop)));
            let mut rest = first;
            b.iter().for_each(|hop| rest.remove(*hop));
            prop_assert_eq!(rest, first.without(second));
            prop_assert_eq!(hops(first.without(second)), &a - &b);
        }
    }
}
