//! HashPipe as the paper's Algorithm 3 prints it, line by line: what the tests hold the dataplane
//! to.

/// d tables of slots, each empty or a key with its count.
pub struct Oracle<K, H> {
    pub tables: Vec<Vec<Option<(K, u32)>>>,
    /// `hash(i, key)` is the slot of `key` in table `i`.
    hash: H,
}

impl<K: Copy + PartialEq, H: Fn(usize, K) -> usize> Oracle<K, H> {
    pub fn new(stages: usize, slots: usize, hash: H) -> Self {
        Self { tables: vec![vec![None; slots]; stages], hash }
    }

    pub fn packet(&mut self, key: K, weight: u32) {
        let slot = (self.hash)(0, key);
        let mut carried = match self.tables[0][slot] {
            Some((stored, count)) if stored == key => {
                self.tables[0][slot] = Some((key, count.saturating_add(weight)));
                return;
            }
            None => {
                self.tables[0][slot] = Some((key, weight));
                return;
            }
            Some(evicted) => {
                self.tables[0][slot] = Some((key, weight));
                evicted
            }
        };
        for stage in 1..self.tables.len() {
            let slot = (self.hash)(stage, carried.0);
            match &mut self.tables[stage][slot] {
                Some((stored, count)) if *stored == carried.0 => {
                    *count = count.saturating_add(carried.1);
                    return;
                }
                empty @ None => {
                    *empty = Some(carried);
                    return;
                }
                Some(stored) if stored.1 < carried.1 => std::mem::swap(stored, &mut carried),
                Some(_) => {}
            }
        }
    }
}
