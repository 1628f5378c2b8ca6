//! Exact match.

use super::{Key, Shape, TableError, TableUse};
use crate::pisa::hash::{Crc, Polynomial};

/// A hash table of fixed size, at most half full, with linear probing. The polynomial is a secret,
/// so that nobody who chooses the keys (a host chooses its address) can make them meet.
#[derive(Clone, Debug)]
pub struct Exact<K, A> {
    shape: Shape,
    crc: Crc,
    slots: Box<[Option<(K, A)>]>,
    len: usize,
}

impl<K: Key, A: Clone> Exact<K, A> {
    pub fn new(shape: Shape, polynomial: Polynomial) -> Self {
        let slots = (2 * shape.capacity).next_power_of_two().max(2);
        Self { shape, crc: Crc::new(polynomial), slots: vec![None; slots].into(), len: 0 }
    }

    #[inline]
    pub fn get(&self, key: K) -> Option<&A> {
        let (_, action) = self.slots[self.find(key)].as_ref()?;
        Some(action)
    }

    /// Inserts or replaces, and gives back the action data that was there.
    pub fn insert(&mut self, key: K, action: A) -> Result<Option<A>, TableError> {
        let slot = self.find(key);
        if self.slots[slot].is_none() {
            self.shape.check(self.len)?;
            self.len += 1;
        }
        Ok(self.slots[slot].replace((key, action)).map(|(_, old)| old))
    }

    pub fn remove(&mut self, key: K) -> Option<A> {
        let mut hole = self.find(key);
        let (_, action) = self.slots[hole].take()?;
        self.len -= 1;
        // Close the gap: an entry further on moves into the hole unless its home lies behind the
        // hole.
        let mut slot = self.after(hole);
        while let Some((key, _)) = &self.slots[slot] {
            if self.distance(self.home(*key), slot) >= self.distance(hole, slot) {
                self.slots.swap(hole, slot);
                hole = slot;
            }
            slot = self.after(slot);
        }
        Some(action)
    }

    /// In no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &A)> {
        self.slots.iter().flatten().map(|(key, action)| (*key, action))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub fn usage(&self) -> TableUse {
        self.shape.hashed()
    }

    /// The slot that holds the key, or the empty one where it belongs. There is one, as half the
    /// slots are empty.
    #[inline(always)]
    fn find(&self, key: K) -> usize {
        let mut slot = self.home(key);
        while self.slots[slot].as_ref().is_some_and(|(k, _)| *k != key) {
            slot = self.after(slot);
        }
        slot
    }

    #[inline(always)]
    fn home(&self, key: K) -> usize {
        key.hash_with(&self.crc) as usize & (self.slots.len() - 1)
    }

    #[inline(always)]
    fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u64, u16),
        Remove(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        // Few different keys, so that they meet, fill the table and leave holes in runs.
        prop_oneof![
            8 => (0..60u64, any::<u16>()).prop_map(|(k, a)| Op::Insert(k, a)),
            6 => (0..60u64).prop_map(Op::Remove),
        ]
    }

    proptest! {
        #[test]
        fn equals_a_map_with_a_bound(capacity in 0..40usize, ops in prop::collection::vec(op(), 0..300)) {
            let shape = Shape { capacity, key_bits: 60, action_bits: 16 };
            let mut table = Exact::new(shape, Polynomial::STANDARD[0]);
            let mut oracle = HashMap::new();
            for op in ops {
                match op {
                    Op::Insert(k, _) if oracle.len() == capacity && !oracle.contains_key(&k) => {
                        prop_assert_eq!(table.insert(k, 0), Err(TableError::Full { capacity }));
                    }
                    Op::Insert(k, a) => prop_assert_eq!(table.insert(k, a), Ok(oracle.insert(k, a))),
                    Op::Remove(k) => prop_assert_eq!(table.remove(k), oracle.remove(&k)),
                }
                prop_assert_eq!(table.len(), oracle.len());
                for k in 0..60 {
                    prop_assert_eq!(table.get(k), oracle.get(&k));
                }
            }
            prop_assert_eq!(table.iter().map(|(k, a)| (k, *a)).collect::<HashMap<_, _>>(), oracle);
        }
    }

    #[test]
    fn declares_what_it_takes() {
        let table =
            Exact::<u64, u16>::new(Shape { capacity: 8192, key_bits: 60, action_bits: 9 }, Polynomial::STANDARD[0]);
        assert_eq!(table.usage(), TableUse { sram_bits: 8192 * 69, tcam_bits: 0, hashes: 1 });
    }
}
