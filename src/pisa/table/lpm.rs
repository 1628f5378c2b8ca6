//! Longest-prefix match on keys of up to 128 bits.

use rustc_hash::FxHashMap;

use super::{Key, Shape, TableError, TableUse};

/// One hash table for each prefix length in use, the longest first. A routing table has few
/// lengths, and a look-up stops at the first that matches.
#[derive(Clone, Debug)]
pub struct Lpm<K, A> {
    shape: Shape,
    lengths: Vec<Length<K, A>>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Length<K, A> {
    bits: u32,
    mask: K,
    prefixes: FxHashMap<K, A>,
}

impl<K: Key, A> Lpm<K, A> {
    pub fn new(shape: Shape) -> Self {
        Self { shape, lengths: Vec::new(), len: 0 }
    }

    #[inline]
    pub fn get(&self, key: K) -> Option<&A> {
        self.lengths.iter().find_map(|length| length.prefixes.get(&(key & length.mask)))
    }

    /// Inserts or replaces the prefix of `len` bits of `key`; the bits behind it do not matter.
    pub fn insert(&mut self, key: K, len: u32, action: A) -> Result<Option<A>, TableError> {
        let key_bits = self.shape.key_bits;
        if len > key_bits {
            return Err(TableError::PrefixTooLong { len, key_bits });
        }
        let mask = K::prefix_mask(len, key_bits);
        let at = self.lengths.binary_search_by(|l| len.cmp(&l.bits));
        let known = at.is_ok_and(|at| self.lengths[at].prefixes.contains_key(&(key & mask)));
        if !known {
            self.shape.check(self.len)?;
            self.len += 1;
        }
        let at = at.unwrap_or_else(|at| {
            self.lengths.insert(at, Length { bits: len, mask, prefixes: FxHashMap::default() });
            at
        });
        Ok(self.lengths[at].prefixes.insert(key & mask, action))
    }

    pub fn usage(&self) -> TableUse {
        self.shape.ternary()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    /// The oracle: of all prefixes that match, the longest.
    fn scan(entries: &[(u128, u32, usize)], key: u128, width: u32) -> Option<&usize> {
        let matches =
            entries.iter().filter(|(prefix, len, _)| (0..*len).all(|bit| (prefix ^ key) >> (width - 1 - bit) & 1 == 0));
        matches.max_by_key(|(_, len, _)| *len).map(|(_, _, action)| action)
    }

    fn same((a, la): (u128, u32), (b, lb): (u128, u32), width: u32) -> bool {
        la == lb && scan(&[(a, la, 0)], b, width).is_some()
    }

    /// Keys that share long prefixes: a few base addresses with a few bits turned.
    fn key() -> impl Strategy<Value = u128> {
        (0..3u128, 0..128u32, 0..128u32).prop_map(|(base, a, b)| base << 126 ^ 1 << a ^ 1 << b)
    }

    fn equals_a_scan(width: u32, entries: Vec<(u128, u32)>, keys: Vec<u128>) {
        let mut table = Lpm::new(Shape { capacity: 20, key_bits: width, action_bits: 16 });
        let mut oracle: Vec<(u128, u32, usize)> = Vec::new();
        for (action, (key, len)) in entries.into_iter().enumerate() {
            let (key, len) = (key >> (128 - width), len % (width + 1));
            let at = oracle.iter().position(|(k, l, _)| same((*k, *l), (key, len), width));
            match at {
                Some(at) => {
                    let old = std::mem::replace(&mut oracle[at].2, action);
                    assert_eq!(table.insert(key, len, action), Ok(Some(old)));
                }
                None if oracle.len() == 20 => assert!(table.insert(key, len, action).is_err()),
                None => {
                    oracle.push((key, len, action));
                    assert_eq!(table.insert(key, len, action), Ok(None));
                }
            }
        }
        for key in keys {
            let key = key >> (128 - width);
            assert_eq!(table.get(key), scan(&oracle, key, width));
        }
    }

    proptest! {
        #[test]
        fn equals_a_scan_of_any_width(
            width in prop::sample::select(vec![1u32, 7, 32, 64, 127, 128]),
            entries in prop::collection::vec((key(), any::<u32>()), 0..60),
            keys in prop::collection::vec(key(), 40),
        ) {
            equals_a_scan(width, entries, keys);
        }
    }

    #[test]
    fn addresses() {
        let mut v4 = Lpm::new(Shape { capacity: 4, key_bits: 32, action_bits: 16 });
        let at = |text: &str| u32::from(text.parse::<Ipv4Addr>().unwrap());
        v4.insert(at("0.0.0.0"), 0, "default").unwrap();
        v4.insert(at("10.0.0.0"), 8, "ten").unwrap();
        v4.insert(at("10.1.0.0"), 16, "ten one").unwrap();
        v4.insert(at("10.1.2.3"), 32, "host").unwrap();
        let found = ["11.0.0.1", "10.2.0.1", "10.1.9.9", "10.1.2.3"].map(|a| *v4.get(at(a)).unwrap());
        assert_eq!(found, ["default", "ten", "ten one", "host"]);
        assert_eq!(v4.insert(0, 33, ""), Err(TableError::PrefixTooLong { len: 33, key_bits: 32 }));
        assert_eq!(v4.insert(0, 1, ""), Err(TableError::Full { capacity: 4 }));

        let mut v6 = Lpm::new(Shape { capacity: 2, key_bits: 128, action_bits: 16 });
        let at = |text: &str| u128::from(text.parse::<Ipv6Addr>().unwrap());
        v6.insert(at("2001:db8::"), 32, "site").unwrap();
        v6.insert(at("2001:db8::1"), 128, "host").unwrap();
        assert_eq!(v6.get(at("2001:db8:1::1")), Some(&"site"));
        assert_eq!(v6.get(at("2001:db8::1")), Some(&"host"));
        assert_eq!(v6.get(at("2001:db9::1")), None);
    }
}
