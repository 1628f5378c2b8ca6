//! Epochs of a history that a question is about.

use std::sync::Arc;

use super::{Entry, Nanos};

/// The epochs that a question is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Window {
    /// Those of the last seconds, and at least one.
    Last { seconds: f64 },
    /// The oldest epoch after this one.
    Next { after: u64 },
    /// The epoch that was published or changed first after the publication of this number.
    Since { sequence: u64 },
    /// This epoch.
    Epoch(u64),
    /// The epochs from one to another.
    Between { from: u64, until: u64 },
    /// All that are kept.
    All,
}

/// Epochs of a history, the oldest first.
#[derive(Debug)]
pub struct Epochs<K> {
    /// All that are kept up to the last of the window.
    pub(super) kept: Vec<Arc<Entry<K>>>,
    /// Those after the last of the window, of a program that [looks ahead](super::Kept::LOOKS_AHEAD).
    pub(super) later: Vec<Arc<Entry<K>>>,
    /// Place of the window's first epoch among them.
    pub(super) from: usize,
    /// The first epoch of the window, whether it is kept or not.
    pub first: u64,
    /// Length of an epoch; 0 where all of a capture is one.
    pub length: Nanos,
    /// Time after the end of its epoch by which a packet has left, or is lost: the transit time and
    /// the horizon. `None` for a switch alone.
    pub lost_after: Option<Nanos>,
    /// Number of the newest publication or change, for [`Window::Since`].
    pub sequence: u64,
    /// Time since the newest of them ended, when that is known.
    pub age: Option<Nanos>,
    /// They are older than the window that was asked for.
    pub outdated: bool,
    /// Older epochs of the window were forgotten, because there was no room for them.
    pub forgotten: bool,
}

impl<K> Epochs<K> {
    /// The epochs of the window.
    pub fn iter(&self) -> std::slice::Iter<'_, Arc<Entry<K>>> {
        self.kept[self.from..].iter()
    }

    /// The epochs of the window and those after it, of a program that
    /// [looks ahead](super::Kept::LOOKS_AHEAD).
    pub fn and_after(&self) -> impl Iterator<Item = &Entry<K>> {
        self.iter().chain(&self.later).map(|entry| &**entry)
    }

    pub fn newest(&self) -> Option<&Entry<K>> {
        self.iter().next_back().map(|entry| &**entry)
    }

    /// The epochs that are kept up to the newest of the window, the newest first.
    pub fn backwards(&self) -> impl Iterator<Item = &Entry<K>> {
        self.kept.iter().rev().map(|entry| &**entry)
    }

    /// The newest epoch alone.
    #[must_use]
    pub fn newest_alone(self) -> Self {
        let from = self.kept.len() - self.iter().len().min(1);
        let first = self.newest().map_or(self.first, |newest| newest.first_epoch);
        Self { from, first, forgotten: false, ..self }
    }

    /// The newest epoch and the one before it, whether that is kept or not.
    #[must_use]
    pub fn newest_and_before(self) -> Self {
        let alone = self.newest_alone();
        let Some(before) = alone.newest().and_then(|newest| newest.first_epoch.checked_sub(1)) else { return alone };
        let kept = alone.kept[..alone.from].partition_point(|entry| entry.epoch < before);
        Self { from: kept, first: before, ..alone }
    }

    /// The same at `now`, for a reader who wants the last `seconds`. Answers are final soon after an
    /// epoch's packets have left or are lost. Epochs that are older than that and than the window
    /// are outdated.
    #[must_use]
    pub fn as_of(self, now: Nanos, seconds: f64) -> Self {
        let Some(newest) = self.newest() else { return self };
        let age = now.saturating_sub((newest.epoch + 1).saturating_mul(self.length));
        let final_after = self.length.saturating_mul(2).saturating_add(self.lost_after.unwrap_or_default());
        let outdated = age as f64 / 1e9 > seconds.max(final_after as f64 / 1e9).max(1.0);
        Self { age: Some(age), outdated, ..self }
    }

    /// Number of epochs from the first to the newest that are not kept.
    pub fn missing(&self) -> u64 {
        let (mut from, mut missing) = (self.newest().map_or(self.first, |newest| newest.first_epoch), 0);
        for entry in self.iter().rev() {
            missing += from.saturating_sub(entry.epoch.saturating_add(1));
            from = from.min(entry.first_epoch);
        }
        missing + from.saturating_sub(self.first)
    }
}
