//! Reports about single packets: what a program tells beside its registers, bounded.
//!
//! A hardware switch sends a digest. Here a report goes to a buffer of the program's bank, which
//! was allocated with the bank, and travels with the record. A report that finds the buffer full
//! is counted.

use std::fmt;

use super::DecodeError;
use super::bytes::{MAX_U64, Reader, Writer};
use crate::pisa::ReportUse;

/// What a program tells of a single packet. Reports that a record has no room for are the last ones
/// in this order, so a time is best the first field.
pub trait Report: Copy + fmt::Debug + Ord + Send + Sync + 'static {
    /// Its size on hardware, in bits.
    const BITS: u32;
    /// Maximum length of its byte form.
    const MAX_BYTES: usize;

    fn encode(&self, to: &mut Writer);

    /// # Errors
    /// If these are not the bytes of a report.
    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// The reports of one replica, in its bank.
#[derive(Debug)]
pub struct ReportBuffer<T> {
    kept: Vec<T>,
    limit: usize,
    overflow: u64,
}

impl<T: Report> ReportBuffer<T> {
    /// Room for this number of reports.
    pub fn with_capacity(limit: usize) -> Self {
        Self { kept: Vec::with_capacity(limit), limit, overflow: 0 }
    }

    /// Keeps a report, or counts it when there is no room. Never allocates.
    #[inline]
    pub fn push(&mut self, report: T) {
        if self.kept.len() < self.limit {
            self.kept.push(report);
        } else {
            self.miss();
        }
    }

    /// Counts a report that is not kept.
    #[inline]
    pub fn miss(&mut self) {
        self.miss_many(1);
    }

    /// Counts several of them.
    #[inline]
    pub fn miss_many(&mut self, reports: u64) {
        self.overflow = self.overflow.saturating_add(reports);
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.kept.len() >= self.limit
    }

    pub fn get(&self, place: usize) -> Option<&T> {
        self.kept.get(place)
    }

    /// Removes a report, and counts it. The last one takes its place.
    pub fn remove(&mut self, place: usize) {
        if place < self.kept.len() {
            self.kept.swap_remove(place);
            self.miss();
        }
    }

    pub fn clear(&mut self) {
        self.kept.clear();
        self.overflow = 0;
    }

    /// The reports as a part of a record, which has room for as many.
    pub fn read(&self) -> Reports<T> {
        let mut kept = self.kept.clone();
        kept.sort_unstable();
        Reports { kept, limit: self.limit, overflow: self.overflow }
    }

    /// Reports for which memory is taken.
    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.kept.capacity()
    }

    /// What the budget says of them.
    pub fn usage(limit: u32) -> ReportUse {
        ReportUse { reports: limit, report_bits: T::BITS }
    }
}

/// Reports of which one replica keeps each once in an epoch: those of a switch whose learning filter
/// holds repeated ones back.
#[derive(Debug)]
pub struct DistinctReports<T> {
    reports: ReportBuffer<T>,
    /// Hash table of reports: the number of a report, from 1, or 0. A power of two; at most half of
    /// it is in use, so a search ends.
    places: Box<[u32]>,
}

impl<T: Report> DistinctReports<T> {
    /// Room for this number of reports. Without room none is kept, and memory is not taken.
    pub fn with_room(limit: usize) -> Self {
        let places = if limit == 0 { 0 } else { (limit << 1).next_power_of_two() };
        Self { reports: ReportBuffer::with_capacity(limit), places: vec![0; places].into() }
    }

    /// Keeps a report with this hash, unless it is there. Where there is no room, it is counted.
    /// Never allocates.
    pub fn see(&mut self, hash: u32, report: T) {
        let mask = self.places.len().wrapping_sub(1);
        let mut place = hash as usize;
        while let Some(number) = self.places.get_mut(place & mask) {
            match number.checked_sub(1) {
                Some(number) if self.reports.get(number as usize) == Some(&report) => return,
                Some(_) => place = place.wrapping_add(1),
                None if self.reports.is_full() => break,
                None => {
                    self.reports.push(report);
                    *number = self.reports.len() as u32;
                    return;
                }
            }
        }
        self.reports.miss();
    }

    pub fn clear(&mut self) {
        self.reports.clear();
        self.places.fill(0);
    }

    /// The reports as a part of a record.
    pub fn read(&self) -> Reports<T> {
        self.reports.read()
    }
}

/// The reports of a record, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reports<T> {
    kept: Vec<T>,
    limit: usize,
    overflow: u64,
}

impl<T: Report> Reports<T> {
    /// None, and room for this number.
    pub fn none(limit: usize) -> Self {
        Self { kept: Vec::new(), limit, overflow: 0 }
    }

    pub fn kept(&self) -> &[T] {
        &self.kept
    }

    /// Reports that found no room.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// Removes the others, and counts them.
    pub fn keep(&mut self, kept: impl FnMut(&T) -> bool) {
        let before = self.kept.len();
        self.kept.retain(kept);
        self.overflow = self.overflow.saturating_add((before - self.kept.len()) as u64);
    }

    /// Keeps the first ones of this number, and has room for no more.
    pub fn truncate(&mut self, limit: usize) {
        self.limit = limit;
        let surplus = self.kept.len().saturating_sub(limit) as u64;
        self.kept.truncate(limit);
        self.overflow = self.overflow.saturating_add(surplus);
    }

    /// Adds those of another replica, sub-epoch or switch. What there is no room for is counted.
    pub fn merge(&mut self, other: &Self) {
        self.merge_by(other, |_| {});
    }

    /// The same of reports that are facts and not events: one that both have is kept once.
    pub fn merge_distinct(&mut self, other: &Self) {
        self.merge_by(other, Vec::dedup);
    }

    fn merge_by(&mut self, other: &Self, sift: impl Fn(&mut Vec<T>)) {
        self.kept.extend_from_slice(&other.kept);
        self.kept.sort_unstable();
        sift(&mut self.kept);
        self.overflow = self.overflow.saturating_add(other.overflow);
        self.truncate(self.limit);
    }

    /// Writes the byte form.
    pub fn encode(&self, to: &mut Writer) {
        to.number(self.kept.len() as u64);
        self.kept.iter().for_each(|report| report.encode(to));
        to.number(self.overflow);
    }

    /// Reads the byte form of a record that has room for `limit` reports.
    ///
    /// # Errors
    /// If these are not the bytes of any.
    pub fn decode(from: &mut Reader<'_>, limit: usize) -> Result<Self, DecodeError> {
        let number = from.number("the number of reports")?;
        if number > limit as u64 {
            return from.wrong("the number of reports", "no more than there is room for");
        }
        let mut kept = Vec::with_capacity(number as usize);
        for _ in 0..number {
            let report = T::decode(from)?;
            if kept.last() > Some(&report) {
                return from.wrong("a report", "in ascending order");
            }
            kept.push(report);
        }
        let overflow = from.number("the overflow of reports")?;
        if overflow > 0 && kept.len() < limit {
            return from.wrong("the overflow of reports", "0 while there is room");
        }
        Ok(Self { kept, limit, overflow })
    }

    /// Maximum length of the byte form, with room for `limit` reports.
    pub fn max_bytes(limit: usize) -> usize {
        2 * MAX_U64 + limit * T::MAX_BYTES
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Report for u64 {
        const BITS: u32 = 64;
        const MAX_BYTES: usize = MAX_U64;

        fn encode(&self, to: &mut Writer) {
            to.number(*self);
        }

        fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
            from.number("a report")
        }
    }

    fn buffer(limit: usize, reports: &[u64]) -> ReportBuffer<u64> {
        let mut buffer = ReportBuffer::with_capacity(limit);
        reports.iter().for_each(|&report| buffer.push(report));
        buffer
    }

    #[test]
    fn a_full_buffer_counts_and_does_not_grow() {
        let mut buffer = buffer(3, &[9, 5]);
        let before = (buffer.kept.as_ptr(), buffer.kept.capacity());
        (0..100).for_each(|report| buffer.push(report));
        assert_eq!((buffer.kept.as_ptr(), buffer.kept.capacity()), before);
        let reports = buffer.read();
        assert_eq!((reports.kept(), reports.overflow()), (&[0, 5, 9][..], 99));
        buffer.clear();
        assert_eq!(buffer.read(), Reports::none(3));
        let mut none = ReportBuffer::with_capacity(0);
        none.push(1u64);
        assert_eq!((none.read().kept().len(), none.read().overflow()), (0, 1));
    }

    proptest! {
        /// Whatever the order in which they meet, the first ones are kept and all are counted.
        #[test]
        fn reports_merge_bounded(lists in prop::collection::vec(prop::collection::vec(0..50u64, 0..8), 1..6), limit in 0..12usize) {
            let parts: Vec<_> = lists.iter().map(|list| buffer(limit, list).read()).collect();
            let sum = |parts: &[Reports<u64>]| {
                let mut sum = Reports::none(limit);
                parts.iter().for_each(|part| sum.merge(part));
                sum
            };
            let (merged, reversed) = (sum(&parts), sum(&parts.iter().rev().cloned().collect::<Vec<_>>()));
            prop_assert_eq!(&merged, &reversed);
            let all = lists.iter().map(Vec::len).sum::<usize>() as u64;
            prop_assert_eq!(merged.kept().len() as u64 + merged.overflow(), all);
            prop_assert!(merged.kept().len() <= limit && merged.kept().is_sorted());
            let mut to = Writer::default();
            merged.encode(&mut to);
            prop_assert!(to.0.len() <= Reports::<u64>::max_bytes(limit));
            let mut from = Reader::new(&to.0);
            prop_assert_eq!(Reports::decode(&mut from, limit), Ok(merged));
            prop_assert_eq!(from.end(), Ok(()));
        }

        /// Facts are kept once, the first ones in any order of merging.
        #[test]
        fn facts_merge_once(lists in prop::collection::vec(prop::collection::btree_set(0..50u64, 0..8), 1..6), limit in 0..12usize) {
            let mut sum = Reports::none(limit);
            for list in &lists {
                sum.merge_distinct(&buffer(limit, &list.iter().copied().collect::<Vec<_>>()).read());
            }
            let all: std::collections::BTreeSet<_> = lists.iter().flatten().copied().collect();
            prop_assert_eq!(sum.kept(), &all.iter().copied().take(limit).collect::<Vec<_>>()[..]);
            // What was missed of one was kept of none, or found no room in the sum.
            prop_assert!(sum.overflow() == 0 || sum.kept().len() == limit);
            let mut to = Writer::default();
            sum.encode(&mut to);
            prop_assert_eq!(Reports::decode(&mut Reader::new(&to.0), limit), Ok(sum));
        }

        /// Whatever is seen, with hashes that collide: reports are kept once each, the first ones that
        /// there is room for, and all others are counted.
        #[test]
        fn distinct_reports_are_those_of_a_set(seen in prop::collection::vec(0..80u64, 0..300), limit in 0..60usize) {
            let mut distinct = DistinctReports::with_room(limit);
            let before = distinct.places.as_ptr();
            let (mut set, mut missed) = (std::collections::BTreeSet::new(), 0);
            for _ in 0..2 {
                distinct.clear();
                (set, missed) = (std::collections::BTreeSet::new(), 0);
                for &report in &seen {
                    distinct.see((report as u32 / 7).wrapping_mul(0x9e37_79b1), report);
                    if !set.contains(&report) {
                        if set.len() < limit { set.insert(report); } else { missed += 1; }
                    }
                }
            }
            let read = distinct.read();
            prop_assert_eq!(read.kept(), &set.iter().copied().collect::<Vec<_>>()[..]);
            prop_assert_eq!((read.overflow(), distinct.places.as_ptr()), (missed, before));
        }

        /// Bytes of a peer take no more memory than the limit, and have one form only.
        #[test]
        fn other_bytes_are_refused(bytes in prop::collection::vec(prop_oneof![0..6u8, any::<u8>()], 0..12), limit in 0..5usize) {
            let mut from = Reader::new(&bytes);
            if let Ok(reports) = Reports::<u64>::decode(&mut from, limit) {
                prop_assert!(reports.kept().len() <= limit);
                let mut to = Writer::default();
                reports.encode(&mut to);
                prop_assert_eq!(&to.0[..], &bytes[..bytes.len() - from.remaining()]);
            }
        }
    }
}
