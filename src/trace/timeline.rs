//! The times of captures as a measurement takes them: in one order, without those that cannot be
//! right.
//!
//! A time that is far from those of the packets around it is wrong. To see the packets behind it,
//! packets are held where times jump, and nowhere else.

use std::collections::VecDeque;

use super::Captured;

/// Times that are further apart are looked at, in nanoseconds: a minute. A capturer that reads
/// several queues in turn puts packets in a wrong order by less.
const FAR: u64 = 60_000_000_000;
/// A gap between a single packet at an end of a capture and the rest that is not believed, in
/// nanoseconds: a year.
const NOT_BELIEVED: u64 = 365 * 86_400 * 1_000_000_000;
/// Packets that may be wrong in a row. More of them are a clock that was set.
const HELD: usize = 8;

/// Puts the packets of captures, one capture after the other, on one clock.
///
/// Times go back within a capture where its queues were read in turn, and stay as they are. Where
/// they go back by more than a minute, as after a clock was set, the packets behind that follow at
/// once and with their own gaps.
#[derive(Debug, Default)]
pub struct Timeline {
    /// The time of the newest packet that is right, on the capture's clock.
    near: Option<u64>,
    held: VecDeque<Held>,
    /// What is added to the capture's clock, in nanoseconds.
    offset: i128,
    latest: u64,
    mistimed: u64,
    set_back: u64,
}

/// A packet that waits for the times of those behind it.
#[derive(Debug)]
struct Held {
    /// Its fields but the ones below.
    packet: Captured<'static>,
    bytes: Vec<u8>,
    interface: Option<String>,
    comment: Option<String>,
}

impl Held {
    fn new(captured: &Captured<'_>) -> Self {
        Self {
            packet: Captured { bytes: &[], interface: None, comment: None, ..*captured },
            bytes: captured.bytes.to_vec(),
            interface: captured.interface.map(str::to_owned),
            comment: captured.comment.map(str::to_owned),
        }
    }

    fn captured(&self) -> Captured<'_> {
        let (interface, comment) = (self.interface.as_deref(), self.comment.as_deref());
        Captured { bytes: &self.bytes, interface, comment, ..self.packet }
    }
}

impl Timeline {
    /// Takes the capture's next packet, and hands on the packets that have their times, in the
    /// capture's order.
    #[inline]
    pub fn take(&mut self, captured: Captured<'_>, mut on: impl FnMut(Captured<'_>)) {
        if self.held.is_empty() && self.near.is_some_and(|near| near.abs_diff(captured.at_ns) <= FAR) {
            self.near = Some(captured.at_ns);
            on(Captured { at_ns: self.place(captured.at_ns), ..captured });
            return;
        }
        self.held.push_back(Held::new(&captured));
        self.settle(false, &mut on);
    }

    /// The capture ends: hands on the packets that wait.
    pub fn end(&mut self, mut on: impl FnMut(Captured<'_>)) {
        self.settle(true, &mut on);
        (self.near, self.offset) = (None, 0);
    }

    /// Packets whose time could not be right: each has that of the packet before, the first one that
    /// of the second.
    pub fn mistimed_packets(&self) -> u64 {
        self.mistimed
    }

    /// How often times went back by more than a minute, from one capture to the next included.
    pub fn set_back(&self) -> u64 {
        self.set_back
    }

    fn settle(&mut self, has_ended: bool, on: &mut dyn FnMut(Captured<'_>)) {
        while let Some(is_right) = self.judge(has_ended) {
            let Some(held) = self.held.pop_front() else { return };
            let first = held.packet.at_ns;
            let at_ns = match (is_right, self.near) {
                (true, _) => first,
                (false, Some(near)) => near,
                (false, None) => self.held.front().map_or(first, |second| second.packet.at_ns),
            };
            self.mistimed += u64::from(!is_right);
            self.near = Some(at_ns);
            let at_ns = self.place(at_ns);
            on(Captured { at_ns, ..held.captured() });
        }
    }

    /// Whether the first of the held packets has a time that can be right; `None` while the packets
    /// behind it are not there that say so.
    fn judge(&self, has_ended: bool) -> Option<bool> {
        let mut times = self.held.iter().map(|held| held.packet.at_ns);
        let first = times.next()?;
        let are_all = has_ended || self.held.len() == HELD;
        let Some(near) = self.near else {
            return match (times.next(), times.next()) {
                (Some(second), _) if first.abs_diff(second) <= NOT_BELIEVED => Some(true),
                (Some(second), Some(third)) => Some(third.abs_diff(first) < third.abs_diff(second)),
                _ => are_all.then_some(true),
            };
        };
        if near.abs_diff(first) <= FAR {
            return Some(true);
        }
        if times.clone().any(|later| near.abs_diff(later) <= FAR) {
            return Some(false);
        }
        if !are_all {
            return None;
        }
        // The two behind it come back from where it is; a gap is one for them as well.
        let comes_back = |later: u64| near.abs_diff(later) < near.abs_diff(first) && first.abs_diff(later) > FAR;
        let mut behind = times.take(2).map(comes_back);
        Some(match behind.next() {
            Some(back) => !(back && behind.all(|back| back)),
            None => near.abs_diff(first) <= NOT_BELIEVED,
        })
    }

    /// The place of a time of the capture's clock.
    #[inline]
    fn place(&mut self, at_ns: u64) -> u64 {
        let placed = |offset: i128| u64::try_from((i128::from(at_ns) + offset).max(0)).unwrap_or(u64::MAX);
        let mut at = placed(self.offset);
        if at.saturating_add(FAR) < self.latest {
            self.set_back += 1;
            self.offset = i128::from(self.latest) - i128::from(at_ns);
            at = placed(self.offset);
        }
        self.latest = self.latest.max(at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::LinkType;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;
    const YEAR: u64 = 365 * 86_400;

    /// The seconds at which packets of these seconds are, in captures one after the other; and how
    /// many times were wrong or went back.
    fn placed(captures: &[&[u64]]) -> (Vec<u64>, u64, u64) {
        let (mut timeline, mut at, mut number) = (Timeline::default(), Vec::new(), 0u32);
        for seconds in captures {
            let mut on = |captured: Captured<'_>| {
                assert_eq!(captured.bytes, (at.len() as u32).to_be_bytes(), "in their order");
                at.push(captured.at_ns / SECOND);
            };
            for second in *seconds {
                let bytes = &number.to_be_bytes()[..];
                number += 1;
                let (link, wire_len, at_ns) = (LinkType::Ethernet, 60, second * SECOND);
                let captured = Captured {
                    at_ns,
                    link,
                    wire_len,
                    bytes,
                    interface_id: 0,
                    interface: None,
                    flags: 0,
                    comment: None,
                };
                timeline.take(captured, &mut on);
            }
            timeline.end(&mut on);
        }
        (at, timeline.mistimed_packets(), timeline.set_back())
    }

    /// The first is 2023.
    const NOW: u64 = 1_700_000_000;

    #[test]
    fn one_time_that_cannot_be_right_spoils_itself_alone() {
        let far = NOW + 71 * YEAR;
        for wrong in [far, NOW + 600, 0, NOW - 600] {
            let times = [NOW, NOW + 1, wrong, NOW + 2, NOW + 3];
            assert_eq!(placed(&[&times]), (vec![NOW, NOW + 1, NOW + 1, NOW + 2, NOW + 3], 1, 0), "{wrong}");
        }
        for wrong in [far, 0] {
            assert_eq!(placed(&[&[wrong, NOW, NOW + 1]]), (vec![NOW, NOW, NOW + 1], 1, 0), "the first, {wrong}");
            assert_eq!(placed(&[&[NOW, NOW + 1, wrong]]), (vec![NOW, NOW + 1, NOW + 1], 1, 0), "the last, {wrong}");
            let second = placed(&[&[NOW, wrong, NOW + 1]]);
            assert_eq!(second, (vec![NOW, NOW, NOW + 1], 1, 0), "the second, {wrong}");
        }
        let burst = [&[NOW; 3][..], &[far; 7], &[NOW + 1; 9]].concat();
        assert_eq!(placed(&[&burst]), ([&[NOW; 10][..], &[NOW + 1; 9]].concat(), 7, 0), "a burst of them");
    }

    #[test]
    fn long_gaps_are_gaps() {
        let sparse: Vec<_> = (0..20).map(|i| NOW + 7200 * i).collect();
        assert_eq!(placed(&[&sparse]), (sparse.clone(), 0, 0));
        let with = |at| [&sparse[..11], &[at], &sparse[11..]].concat();
        for wrong in [NOW + 9 * YEAR, 0] {
            assert_eq!(placed(&[&with(wrong)]), (with(sparse[10]), 1, 0), "packets two hours apart, and {wrong}");
        }
        let paused: Vec<_> = (0..30).map(|i| NOW + i + 86_400 * (i / 15)).collect();
        assert_eq!(placed(&[&paused]), (paused.clone(), 0, 0), "a day between two runs");
        assert_eq!(placed(&[&[NOW]]), (vec![NOW], 0, 0));
        assert_eq!(placed(&[&[0, NOW]]), (vec![0, 0], 1, 0), "of two the second is called wrong");
    }

    #[test]
    fn queues_that_are_read_in_turn_stay_as_they_are() {
        let queues = [NOW + 5, NOW, NOW + 6, NOW + 1, NOW + 60, NOW + 2];
        assert_eq!(placed(&[&queues]), (queues.to_vec(), 0, 0));
    }

    /// A clock that was set back, and a capture that is older than the one before it: gaps go on.
    #[test]
    fn what_goes_back_goes_on_from_there() {
        let early: Vec<_> = (0..12).map(|i| NOW + i).collect();
        let late: Vec<_> = early.iter().map(|at| at + 3600).collect();
        let expected: Vec<_> = late.iter().copied().chain((0..12).map(|i| NOW + 3611 + i)).collect();
        assert_eq!(placed(&[&[&late[..], &early].concat()]), (expected.clone(), 0, 1));
        assert_eq!(placed(&[&late, &early]), (expected, 0, 1));
        let rising = [&early[..], &late].concat();
        assert_eq!(placed(&[&early, &late]), (rising, 0, 0));
    }

    proptest! {
        /// Whatever the times are, each packet is handed on once, in its order, and memory is
        /// bounded.
        #[test]
        fn any_times_are_taken(times in proptest::collection::vec(prop_oneof![any::<u64>(), 0..100u64], 0..60)) {
            let (mut timeline, mut taken) = (Timeline::default(), 0);
            for at_ns in &times {
                let bytes = &[7u8; 60][..];
                let (link, wire_len) = (LinkType::Ethernet, 60);
                let captured = Captured { at_ns: *at_ns, link, wire_len, bytes, interface_id: 0, interface: None, flags: 0, comment: None };
                timeline.take(captured, |_| taken += 1);
                prop_assert!(timeline.held.len() < HELD);
            }
            timeline.end(|_| taken += 1);
            prop_assert_eq!(taken, times.len());
        }
    }
}
