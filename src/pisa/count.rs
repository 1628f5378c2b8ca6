//! A counter that one worker writes and anyone reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with a single writer: an addition is a plain load and store.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Takes over what another part of the worker has counted.
    #[inline(always)]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
