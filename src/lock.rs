//! Locks whose holders leave no half-done change behind, so that a panic of one is no reason to refuse
//! the others.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that is held whether or not a former holder panicked.
pub trait Hold<T: ?Sized> {
    /// Waits for the lock.
    fn hold(&self) -> MutexGuard<'_, T>;
}

impl<T: ?Sized> Hold<T> for Mutex<T> {
    fn hold(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
