//! Flows in bounded memory, one home for what the recorders keep of them.

use std::collections::HashMap;
use std::hash::Hash;

/// What is known of flows, of as many as there is room for. Between two calls of
/// [`trim`](Self::trim) there are up to twice as many.
pub struct Kept<K, V> {
    flows: HashMap<K, V>,
    room: usize,
    /// How much a flow is worth keeping: those of the least go first.
    worth: fn(&V) -> u64,
    evicted: u64,
}

impl<K: Clone + Eq + Hash + Ord, V> Kept<K, V> {
    pub fn new(room: usize, worth: fn(&V) -> u64) -> Self {
        Self { flows: HashMap::new(), room, worth, evicted: 0 }
    }

    /// The flow with this key; what is known of a new one is `fresh`.
    pub fn flow(&mut self, key: K, fresh: impl FnOnce() -> V) -> &mut V {
        if self.flows.len() >= 2 * self.room && !self.flows.contains_key(&key) {
            self.trim();
        }
        self.flows.entry(key).or_insert_with(fresh)
    }

    /// Evicts the flows that are worth least until there is room for the others.
    pub fn trim(&mut self) {
        let surplus = self.flows.len().saturating_sub(self.room);
        if surplus > 0 {
            let mut order: Vec<_> = self.flows.iter().map(|(key, known)| ((self.worth)(known), key.clone())).collect();
            order.sort_unstable();
            order.into_iter().take(surplus).for_each(|(_, key)| _ = self.flows.remove(&key));
            self.evicted += surplus as u64;
        }
    }

    /// Evicts all.
    pub fn clear(&mut self) {
        self.evicted += self.flows.len() as u64;
        self.flows.clear();
    }

    /// Flows that were evicted so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.flows.get(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.flows.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.flows.iter_mut()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.flows.len()
    }
}
