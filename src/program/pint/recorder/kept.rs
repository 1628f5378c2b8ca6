//! Flows in bounded memory, one home for what the recorders keep of them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What is known of flows, of as many as there is room for. Between two calls of
/// [`trim`](Self::trim) there are up to twice as many.
pub struct Kept<K, V> {
    flows: HashMap<K, V>,
    room: usize,
    /// How much a flow is worth keeping: those of the least go first.
    worth: fn(&V) -> u64,
    /// Chooses among flows that are worth the same, anew each time.
    turn: u64,
    evicted: u64,
}

impl<K: Clone + Eq + Hash + Ord, V> Kept<K, V> {
    /// `turn` is another one where what is kept begins anew with each epoch.
    pub fn new(room: usize, worth: fn(&V) -> u64, turn: u64) -> Self {
        Self { flows: HashMap::new(), room, worth, turn, evicted: 0 }
    }

    /// The flow with this key; what is known of a new one is `fresh`.
    pub fn flow(&mut self, key: K, fresh: impl FnOnce() -> V) -> &mut V {
        if self.flows.len() >= 2 * self.room && !self.flows.contains_key(&key) {
            self.trim();
        }
        self.flows.entry(key).or_insert_with(fresh)
    }

    /// Evicts the flows that are worth least until there is room for the others. Of flows that are
    /// worth the same a hash chooses, another one each time, so that none is evicted in every
    /// epoch.
    pub fn trim(&mut self) {
        let surplus = self.flows.len().saturating_sub(self.room);
        if surplus > 0 {
            let order = |(key, known): (&K, &V)| ((self.worth)(known), hash(self.turn, key), key.clone());
            let mut order: Vec<_> = self.flows.iter().map(order).collect();
            order.select_nth_unstable(surplus - 1);
            order[..surplus].iter().for_each(|(_, _, key)| _ = self.flows.remove(key));
            self.evicted += surplus as u64;
            self.turn = self.turn.wrapping_add(1);
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

/// A hash of a key, the same in all runs.
fn hash(turn: u64, key: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (turn, key).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten flows that send in each epoch have room for eight: none of them is evicted in more than
    /// half of the epochs, and none always stays. The same flows are evicted in each run.
    #[test]
    fn steady_flows_take_turns() {
        let run = || {
            let mut kept = Kept::new(8, |epoch: &u64| *epoch, 0);
            let mut evictions = [0; 10];
            for epoch in 1..=100 {
                (0..10usize).for_each(|flow| *kept.flow(flow, || 0) = epoch);
                // One that is silent goes before all of them.
                kept.flow(10, || 0);
                kept.trim();
                assert!(kept.len() == 8 && kept.get(&10).is_none());
                (0..10).filter(|flow| kept.get(flow).is_none()).for_each(|flow| evictions[flow] += 1);
            }
            evictions
        };
        let evictions = run();
        assert!(evictions.iter().all(|number| (5..50).contains(number)), "{evictions:?}");
        assert_eq!((evictions.iter().sum::<usize>(), run()), (200, evictions));
    }
}
