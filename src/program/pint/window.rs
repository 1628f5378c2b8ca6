//! What is known of the last time alone: a sliding window, in parts of equal length.
//!
//! The newest part holds the newest packet; with the parts before it there are [`PARTS`], and what
//! was in older ones is given up part by part. So nothing in a window is older than the window is
//! long, and of its oldest eighth some or all is missing.

use std::ops::RangeInclusive;

/// Parts of a window.
pub const PARTS: u64 = 8;

/// How long a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    part_ns: u64,
}

impl Window {
    /// `None` is all time: a window of one part.
    pub fn of(ns: Option<u64>) -> Self {
        Self { part_ns: ns.map_or(u64::MAX, |ns| (ns / PARTS).max(1)) }
    }

    /// The part that a time falls into.
    pub fn part(self, time_ns: u64) -> u64 {
        time_ns / self.part_ns
    }

    /// The parts of the window that ends with this time.
    pub fn until(self, newest_ns: u64) -> RangeInclusive<u64> {
        let newest = self.part(newest_ns);
        newest.saturating_sub(PARTS - 1)..=newest
    }
}

/// Something for each part of a window in which there was any, at most [`PARTS`] of them.
#[derive(Clone, Debug)]
pub struct Parts<T>(Vec<(u64, T)>);

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Parts<T> {
    /// Gives up what is not in the window. Where the clock was set back, that is also what is newer.
    pub fn slide(&mut self, window: &RangeInclusive<u64>) {
        self.0.retain(|(part, _)| window.contains(part));
    }

    /// That of a part.
    pub fn at(&mut self, part: u64, fresh: impl FnOnce() -> T) -> &mut T {
        let place = self.0.iter().position(|(other, _)| *other == part);
        let place = place.unwrap_or_else(|| {
            self.0.push((part, fresh()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }

    /// That of the only part in which there was any.
    pub fn only(&self) -> Option<&T> {
        match &self.0[..] {
            [(_, only)] => Some(only),
            _ => None,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, of)| of)
    }
}
