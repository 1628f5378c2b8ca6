//! Range match: from a lower to an upper end, both included; the highest priority wins.

use std::ops::RangeInclusive;

use super::{Key, Shape, TableError, TableUse};

/// Entries in order of priority, searched from the top, for hundreds of entries at most.
#[derive(Clone, Debug)]
pub struct Range<K, A> {
    shape: Shape,
    entries: Vec<(u32, RangeInclusive<K>, A)>,
}

impl<K: Key, A> Range<K, A> {
    pub fn new(shape: Shape) -> Self {
        Self { shape, entries: Vec::new() }
    }

    #[inline]
    pub fn get(&self, key: K) -> Option<&A> {
        self.entries.iter().find(|(_, range, _)| range.contains(&key)).map(|(_, _, action)| action)
    }

    /// Higher numbers win; among equals the entry that was inserted first. The same range at the
    /// same priority is replaced.
    pub fn insert(&mut self, priority: u32, range: RangeInclusive<K>, action: A) -> Result<Option<A>, TableError> {
        if range.is_empty() {
            return Err(TableError::EmptyRange);
        }
        if let Some((_, _, old)) = self.entries.iter_mut().find(|(n, r, _)| *n == priority && *r == range) {
            return Ok(Some(std::mem::replace(old, action)));
        }
        self.shape.check(self.entries.len())?;
        let at = self.entries.partition_point(|(n, _, _)| *n >= priority);
        self.entries.insert(at, (priority, range, action));
        Ok(None)
    }

    pub fn remove(&mut self, priority: u32, range: &RangeInclusive<K>) -> Option<A> {
        let at = self.entries.iter().position(|(n, r, _)| *n == priority && r == range)?;
        Some(self.entries.remove(at).2)
    }

    /// Highest priority first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &RangeInclusive<K>, &A)> {
        self.entries.iter().map(|(priority, range, action)| (*priority, range, action))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A TCAM holds prefixes, and a range of w-bit keys may need 2w − 2 of them.
    pub fn usage(&self) -> TableUse {
        self.shape.ternary(u64::from(2 * self.shape.key_bits).saturating_sub(2).max(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equals_a_scan(entries in prop::collection::vec((0..3u32, 0..50u16, 0..50u16), 0..40)) {
            let mut table = Range::new(Shape { capacity: 25, key_bits: 16, action_bits: 8 });
            let mut oracle: Vec<(u32, u16, u16, usize)> = Vec::new();
            for (action, (priority, low, high)) in entries.into_iter().enumerate() {
                let at = oracle.iter().position(|e| (e.0, e.1, e.2) == (priority, low, high));
                let inserted = table.insert(priority, low..=high, action);
                match at {
                    _ if low > high => prop_assert_eq!(inserted, Err(TableError::EmptyRange)),
                    // Every third repetition takes the entry out again.
                    Some(at) if action % 3 == 0 => {
                        prop_assert!(inserted.is_ok());
                        oracle.remove(at);
                        prop_assert_eq!(table.remove(priority, &(low..=high)), Some(action));
                    }
                    Some(at) => prop_assert_eq!(inserted, Ok(Some(std::mem::replace(&mut oracle[at].3, action)))),
                    None if oracle.len() == 25 => prop_assert_eq!(inserted, Err(TableError::Full { capacity: 25 })),
                    None => oracle.push((priority, low, high, action)),
                }
            }
            for key in 0..51 {
                let matches = oracle.iter().filter(|(_, low, high, _)| *low <= key && key <= *high);
                let best = matches.rev().max_by_key(|entry| entry.0).map(|entry| &entry.3);
                prop_assert_eq!(table.get(key), best);
            }
        }
    }

    #[test]
    fn declares_what_it_takes() {
        let table = Range::<u16, u8>::new(Shape { capacity: 10, key_bits: 16, action_bits: 8 });
        assert_eq!(table.usage(), TableUse { sram_bits: 10 * 30 * 8, tcam_bits: 10 * 30 * 16, hashes: 0 });
    }
}
