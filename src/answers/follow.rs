//! Following a history: each epoch once, as soon as its answers are final.

use std::sync::Arc;

use super::Queryable;
use crate::history::{Entry, Window};

/// A history that is followed.
#[derive(Default)]
pub struct Follower {
    history: Option<Arc<dyn Queryable>>,
    length: u64,
    /// The epoch behind the last that was passed.
    next: Option<u64>,
    forgotten: u64,
}

/// An epoch that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    pub epoch: u64,
    /// Number of epochs before it that were not analysed, or were forgotten before they were passed.
    pub missing: u64,
    /// Number of epochs that its records cover and that were not passed before.
    pub covered: u64,
}

impl Follower {
    /// Follows this history from now on. Epochs of another history, or of another length, have other numbers;
    /// after a clock was set back, numbers come again. Returns whether it is another history or length.
    pub fn turn_to(&mut self, history: &Arc<dyn Queryable>) -> bool {
        let is_same = |own: &Arc<dyn Queryable>| std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(history));
        let is_other = !self.history.as_ref().is_some_and(is_same) || self.length != history.length();
        let forgotten = history.forgotten();
        if is_other {
            *self = Self { history: Some(history.clone()), length: history.length(), next: None, forgotten };
        }
        if forgotten != self.forgotten {
            self.forgotten = forgotten;
            let newest = history.newest().map_or(0, |newest| newest.saturating_add(1));
            self.next = self.next.map(|next| next.min(newest));
        }
        is_other
    }

    /// The epochs that have become final since the last one that was passed, up to the first that has not. An
    /// epoch has several entries when its record came in parts.
    pub fn fresh(&self) -> Vec<Entry<()>> {
        let window = Window::Between { from: self.next.unwrap_or_default(), until: u64::MAX };
        self.history.as_ref().map(|history| history.outlines_of(window, false)).unwrap_or_default()
    }

    /// Passes one epoch, all of whose entries these are.
    pub fn pass(&mut self, entries: &[Entry<()>]) -> Option<Passed> {
        let epoch = entries.first()?.epoch;
        let first = entries.iter().map(|entry| entry.first_epoch).fold(epoch, u64::min);
        let expected = self.next.unwrap_or(first);
        self.next = Some(epoch.saturating_add(1).max(expected));
        Some(Passed {
            epoch,
            missing: first.saturating_sub(expected),
            covered: epoch.saturating_add(1).saturating_sub(first.max(expected)),
        })
    }

    /// The epoch behind the last that was passed.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Length of an epoch, in nanoseconds.
    pub fn length(&self) -> u64 {
        self.length
    }
}
