//! Ternary match: a value and a mask, the highest priority wins.

use super::{Key, Shape, TableError, TableUse};

/// Matches the keys that agree with `value` on the bits of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern<K> {
    pub value: K,
    pub mask: K,
}

/// Entries in order of priority, searched from the top as in a TCAM. In software that is for
/// hundreds of entries at most.
#[derive(Clone, Debug)]
pub struct Ternary<K, A> {
    shape: Shape,
    entries: Vec<(u32, Pattern<K>, A)>,
}

impl<K: Key, A> Ternary<K, A> {
    pub fn new(shape: Shape) -> Self {
        Self { shape, entries: Vec::new() }
    }

    #[inline]
    pub fn get(&self, key: K) -> Option<&A> {
        self.entries.iter().find(|(_, p, _)| key & p.mask == p.value).map(|(_, _, action)| action)
    }

    /// Higher numbers win; among equals the entry that was inserted first. The same pattern at the
    /// same priority is replaced.
    pub fn insert(&mut self, priority: u32, pattern: Pattern<K>, action: A) -> Result<Option<A>, TableError> {
        let pattern = canonical(pattern);
        if let Some((_, _, old)) = self.entries.iter_mut().find(|(n, p, _)| (*n, *p) == (priority, pattern)) {
            return Ok(Some(std::mem::replace(old, action)));
        }
        self.shape.check(self.entries.len())?;
        let at = self.entries.partition_point(|(n, _, _)| *n >= priority);
        self.entries.insert(at, (priority, pattern, action));
        Ok(None)
    }

    pub fn remove(&mut self, priority: u32, pattern: Pattern<K>) -> Option<A> {
        let pattern = canonical(pattern);
        let at = self.entries.iter().position(|(n, p, _)| (*n, *p) == (priority, pattern))?;
        Some(self.entries.remove(at).2)
    }

    /// Highest priority first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Pattern<K>, &A)> {
        self.entries.iter().map(|(priority, pattern, action)| (*priority, *pattern, action))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn usage(&self) -> TableUse {
        self.shape.ternary(1)
    }
}

/// Bits outside the mask match whatever they are.
fn canonical<K: Key>(Pattern { value, mask }: Pattern<K>) -> Pattern<K> {
    Pattern { value: value & mask, mask }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The oracle: all matches, unsorted, and the first of the highest.
    fn scan(entries: &[(u32, Pattern<u16>, usize)], key: u16) -> Option<&usize> {
        let matches = entries.iter().filter(|(_, p, _)| (key ^ p.value) & p.mask == 0);
        matches.rev().max_by_key(|(priority, _, _)| *priority).map(|(_, _, action)| action)
    }

    proptest! {
        #[test]
        fn equals_a_scan(
            patterns in prop::collection::vec((0..4u32, 0..64u16, 0..64u16, any::<bool>()), 0..60),
        ) {
            let mut table = Ternary::new(Shape { capacity: 30, key_bits: 6, action_bits: 8 });
            let mut oracle: Vec<(u32, Pattern<u16>, usize)> = Vec::new();
            for (action, (priority, value, mask, remove)) in patterns.into_iter().enumerate() {
                let pattern = Pattern { value, mask };
                let same = |(n, p, _): &(u32, Pattern<u16>, usize)| {
                    *n == priority && p.mask == mask && (p.value ^ value) & mask == 0
                };
                let at = oracle.iter().position(same);
                match at {
                    Some(at) if remove => {
                        prop_assert_eq!(table.remove(priority, pattern), Some(oracle.remove(at).2));
                    }
                    Some(at) => {
                        let old = std::mem::replace(&mut oracle[at].2, action);
                        prop_assert_eq!(table.insert(priority, pattern, action), Ok(Some(old)));
                    }
                    None if remove => prop_assert_eq!(table.remove(priority, pattern), None),
                    None if oracle.len() == 30 => {
                        prop_assert_eq!(table.insert(priority, pattern, action), Err(TableError::Full { capacity: 30 }));
                    }
                    None => {
                        oracle.push((priority, pattern, action));
                        prop_assert_eq!(table.insert(priority, pattern, action), Ok(None));
                    }
                }
                for key in 0..64 {
                    prop_assert_eq!(table.get(key), scan(&oracle, key));
                }
            }
        }
    }

    #[test]
    fn declares_what_it_takes() {
        let table = Ternary::<u128, u16>::new(Shape { capacity: 512, key_bits: 104, action_bits: 9 });
        assert_eq!(table.usage(), TableUse { sram_bits: 512 * 9, tcam_bits: 512 * 104, hashes: 0 });
    }
}
