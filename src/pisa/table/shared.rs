//! A value that one side changes while others read it.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

/// The writer's end. A change is a whole new value, seen at once or not at all; readers never wait
/// for it.
#[derive(Debug)]
pub struct Shared<T>(Arc<ArcSwap<T>>);

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(value)))
    }

    pub fn reader(&self) -> Reader<T> {
        Reader(Cache::new(self.0.clone()))
    }

    pub fn current(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// `&mut`, so that no two writers overtake each other.
    pub fn publish(&mut self, value: T) {
        self.0.store(Arc::new(value));
    }

    /// Changes a copy and publishes it.
    pub fn update<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R
    where
        T: Clone,
    {
        let mut value = T::clone(&self.0.load());
        let result = change(&mut value);
        self.publish(value);
        result
    }
}

/// A worker's end.
#[derive(Clone, Debug)]
pub struct Reader<T>(Cache<Arc<ArcSwap<T>>, Arc<T>>);

impl<T> Reader<T> {
    /// The newest value, to be held for a burst: one load and one comparison when nothing has
    /// changed.
    #[inline]
    pub fn load(&mut self) -> &T {
        self.0.load()
    }

    /// Brings `held` up to date, for a worker that reads it while it changes things of its own.
    #[inline]
    pub fn renew(&mut self, held: &mut Arc<T>) {
        let newest = self.0.load();
        if !Arc::ptr_eq(newest, held) {
            *held = newest.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::pisa::hash::Polynomial;
    use crate::pisa::table::{Exact, Shape};

    /// A table whose entries all carry the same number.
    fn filled(number: u64) -> Exact<u64, u64> {
        let shape = Shape { capacity: 100, key_bits: 64, action_bits: 64 };
        let mut table = Exact::new(shape, Polynomial::STANDARD[0]);
        (0..100).for_each(|key| assert_eq!(table.insert(key, number), Ok(None)));
        table
    }

    #[test]
    fn readers_see_whole_tables_in_order() {
        let mut shared = Shared::new(filled(0));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                let mut reader = shared.reader();
                let done = &done;
                scope.spawn(move || {
                    let mut last = 0;
                    loop {
                        let finished = done.load(Ordering::Acquire);
                        let table = reader.load();
                        let number = *table.get(0).unwrap();
                        assert!((0..100).all(|key| table.get(key) == Some(&number)), "a torn table");
                        assert!(number >= last, "an old table after a new one");
                        last = number;
                        if finished {
                            assert_eq!(last, 2000);
                            break;
                        }
                    }
                });
            }
            for number in 1..=2000 {
                if number % 2 == 0 {
                    shared.publish(filled(number));
                } else {
                    shared.update(|table| (0..100).for_each(|key| assert!(table.insert(key, number).is_ok())));
                }
            }
            done.store(true, Ordering::Release);
        });
    }
}
