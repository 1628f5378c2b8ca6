//! The heaviest flows so far: a binary heap with the least count on top, in which a flow can be
//! found.

use weir::wire::Tuple4;

use crate::heavy::KeyMap;

pub struct Top {
    heap: Vec<(u64, Tuple4)>,
    place: KeyMap<usize>,
    capacity: usize,
}

impl Top {
    pub fn new(capacity: usize) -> Self {
        Self { heap: Vec::with_capacity(capacity), place: KeyMap::default(), capacity }
    }

    pub fn get(&self, key: Tuple4) -> Option<u64> {
        self.place.get(&key).map(|&at| self.heap[at].0)
    }

    pub fn entries(&self) -> impl Iterator<Item = (Tuple4, u64)> {
        self.heap.iter().map(|&(count, key)| (key, count))
    }

    /// Counts a packet of a flow that is here; says whether it is.
    pub fn count(&mut self, key: Tuple4) -> bool {
        let Some(&at) = self.place.get(&key) else { return false };
        self.heap[at].0 += 1;
        self.sink(at);
        true
    }

    /// A flow that is not here takes a free place, or that of the least one when it has more
    /// packets.
    pub fn offer(&mut self, key: Tuple4, count: u64) {
        if self.heap.len() < self.capacity {
            self.heap.push((count, key));
            let last = self.heap.len() - 1;
            self.place.insert(key, last);
            self.rise(last);
        } else if let Some(min) = self.heap.first_mut().filter(|min| min.0 < count) {
            self.place.remove(&min.1);
            *min = (count, key);
            self.place.insert(key, 0);
            self.sink(0);
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = (2 * at + 1..2 * at + 3).filter(|&child| child < self.heap.len());
            let Some(child) = children.min_by_key(|&child| self.heap[child].0) else { return };
            if self.heap[at].0 <= self.heap[child].0 {
                return;
            }
            self.swap(at, child);
            at = child;
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.heap[at].0 < self.heap[(at - 1) / 2].0 {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for at in [a, b] {
            self.place.insert(self.heap[at].1, at);
        }
    }
}
