//! Epochs: numbered slices of time, and the rotation of banks at their end.
//!
//! An epoch's number is `floor(now / length)` of the wall clock, so that hosts with synchronised
//! clocks agree without a message. A replica has one [`EpochClock`]. It tells when an epoch ends,
//! when the transit time is over, in which the epoch's last packets leave, and when the next epoch
//! is to be prepared. Each program of the replica has a [`BankRotation`] of its own.

mod rotation;

use crate::program::SubEpoch;
use crate::wire::shim;

pub use rotation::{BankChannel, BankRotation, Collecting, End, FullBank};

/// Nanoseconds of the wall clock since 1970, or of a capture's or simulation's clock.
pub type Nanos = u64;

/// The system's time since 1970.
pub fn wall_clock() -> Nanos {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as Nanos)
}

/// Default length of an epoch, 67 ms. A power of two, so that a hardware switch reads sub-epochs
/// from the bits of a timestamp.
pub const DEFAULT_LENGTH: Nanos = 1 << 26;

/// Default transit time: 10 ms.
pub const DEFAULT_TRANSIT: Nanos = 10_000_000;

/// Maximum step back of the clock that is waited for, in nanoseconds. After a larger one epochs
/// begin anew with the one that the clock tells.
const MAX_SLEW: u64 = 10_000_000;

/// The epochs of one replica.
#[derive(Clone, Debug)]
pub struct EpochClock {
    length: Option<Nanos>,
    transit: Nanos,
    running: Option<u64>,
    /// When there is something to do next, on the driver's clock.
    due: Nanos,
    /// What the clock that counts epochs is behind the driver's, which never goes back.
    behind: Nanos,
    /// The transit time of the epoch before is not over.
    leaving: bool,
    /// The next epoch has been prepared.
    prepared: bool,
}

/// What time brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochEvent {
    /// The first epoch begins.
    Start(u64),
    /// The transit time of the epoch before is over.
    Transit,
    /// This epoch begins in less than the transit time.
    Prepare(u64),
    /// The running epoch has ended, and this one begins.
    End(u64),
}

impl EpochClock {
    /// Epochs of this length. Without one there is a single epoch, which ends with the switch.
    pub fn new(length: Option<Nanos>) -> Self {
        let length = length.map(|length| length.max(1));
        Self { length, transit: 0, running: None, due: 0, behind: 0, leaving: false, prepared: false }
    }

    /// Lets packets leave for this long after the end of their epoch, at most half an epoch.
    #[must_use]
    pub fn with_transit(self, transit: Nanos) -> Self {
        let max = self.length.map_or(0, Self::longest_transit);
        Self { transit: transit.min(max), ..self }
    }

    /// For epochs of this length.
    pub fn longest_transit(length: Nanos) -> Nanos {
        length / 2
    }

    pub fn transit(&self) -> Nanos {
        self.transit
    }

    /// Puts the clock that counts epochs this far behind the driver's. After a small step back it
    /// stands still until it has caught up; after a large one epochs begin anew with the one that
    /// it tells, also one that has been.
    pub fn set_behind(&mut self, behind: Nanos) {
        let change = behind.wrapping_sub(self.behind) as i64;
        self.due = if change.unsigned_abs() <= MAX_SLEW { self.due.saturating_add_signed(change) } else { 0 };
        self.behind = behind;
    }

    /// The argument of the last [`Self::set_behind`].
    pub fn behind(&self) -> Nanos {
        self.behind
    }

    /// Whether there is something to do at `now`.
    #[inline(always)]
    pub fn is_due(&self, now: Nanos) -> bool {
        now >= self.due
    }

    /// When there is something to do next, on the driver's clock.
    pub fn due(&self) -> Nanos {
        self.due
    }

    /// The time that counts epochs.
    pub fn time(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.behind)
    }

    /// What there is to do at `now`; to be asked again until nothing is left. The clock is to
    /// [enter](Self::enter) the epoch of [`EpochEvent::Start`] and [`EpochEvent::End`].
    pub fn event(&mut self, now: Nanos) -> Option<EpochEvent> {
        let now = self.time(now);
        let epoch = self.length.map_or(0, |length| now / length);
        let start = self.start(epoch);
        let end = self.length.map_or(Nanos::MAX, |length| start.saturating_add(length));
        let (left, soon) = (start.saturating_add(self.transit), end - self.transit);
        let prepares = self.transit > 0 && !self.prepared;
        match self.running {
            None => return Some(EpochEvent::Start(epoch)),
            Some(running) if running != epoch => return Some(EpochEvent::End(epoch)),
            Some(_) if self.leaving && now >= left => {
                self.leaving = false;
                return Some(EpochEvent::Transit);
            }
            Some(_) if prepares && now >= soon => {
                self.prepared = true;
                return Some(EpochEvent::Prepare(epoch + 1));
            }
            Some(_) => {}
        }
        let due = match (self.leaving, prepares) {
            (true, _) => left,
            (false, true) => soon,
            (false, false) => end,
        };
        self.due = due.saturating_add(self.behind);
        None
    }

    /// Time that has passed at `time` since the transit time after `epoch`. 0 within an eighth of the
    /// transit time, a delay that a loaded machine causes without a packet waiting for long.
    pub fn overdue(&self, epoch: u64, time: Nanos) -> Nanos {
        if self.length.is_none() {
            return 0;
        }
        let left = self.start(epoch.saturating_add(1)).saturating_add(self.transit);
        let overdue = time.saturating_sub(left);
        if overdue > self.transit / 8 { overdue } else { 0 }
    }

    /// There is something to do at `time` at the latest, on the clock that counts epochs.
    pub fn wake_by(&mut self, time: Nanos) {
        self.due = self.due.min(time.saturating_add(self.behind));
    }

    /// Enters `epoch`.
    pub fn enter(&mut self, epoch: u64) {
        self.leaving = self.transit > 0 && self.is_next(epoch);
        (self.running, self.prepared) = (Some(epoch), false);
    }

    /// Whether `epoch` follows the running one, so that packets of both can be told apart.
    pub fn is_next(&self, epoch: u64) -> bool {
        self.running.is_some_and(|running| running + 1 == epoch)
    }

    fn start(&self, epoch: u64) -> Nanos {
        self.length.map_or(0, |length| epoch.saturating_mul(length))
    }

    /// The sub-epoch in which `time` lies, of those into which the running epoch is cut.
    pub fn sub_epoch(&self, time: Nanos, of: u32) -> SubEpoch {
        let into = u128::from(time.saturating_sub(self.start(self.running())));
        let index = self.length.map_or(0, |length| into * u128::from(of) / u128::from(length));
        SubEpoch { index: index.min(u128::from(of.saturating_sub(1))) as u32, of }
    }

    /// When a sub-epoch of the running epoch ends; never for the last one, which ends with its
    /// epoch.
    pub fn end_of(&self, SubEpoch { index, of }: SubEpoch) -> Nanos {
        let Some(length) = self.length.filter(|_| index + 1 < of) else { return Nanos::MAX };
        let into = (u128::from(length) * u128::from(index + 1)).div_ceil(u128::from(of));
        self.start(self.running()).saturating_add(into as Nanos)
    }

    /// Whether epochs can be cut.
    pub fn is_cut(&self) -> bool {
        self.length.is_some()
    }

    /// The running epoch, once time has been told.
    pub fn started(&self) -> Option<u64> {
        self.running
    }

    pub fn running(&self) -> u64 {
        self.running.unwrap_or_default()
    }

    /// The epochs of packets that carry the lowest bit of their epoch alone: the running one, and
    /// the next one once it is prepared, before that the last one.
    pub fn by_bit(&self) -> [u32; 2] {
        let running = self.running();
        let other = if self.prepared { running + 1 } else { running.wrapping_sub(1) };
        let [this, other] = [running, other].map(shim::epoch_of);
        if running & 1 == 0 { [this, other] } else { [other, this] }
    }

    /// The first and the last epoch of packets that came between these times, when a packet's
    /// lowest bit does not tell all of them apart.
    pub fn ambiguous(&self, since: Nanos, until: Nanos) -> Option<(u64, u64)> {
        let length = self.length?;
        let first = self.time(since).saturating_sub(self.transit) / length;
        let last = self.time(until).saturating_add(self.transit) / length;
        (last >= first.saturating_add(2)).then_some((first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is to be done at each of these times.
    fn events(clock: &mut EpochClock, times: &[Nanos]) -> Vec<(Nanos, EpochEvent)> {
        let mut done = Vec::new();
        for &now in times.iter() {
            if !clock.is_due(now) {
                continue;
            }
            while let Some(event) = clock.event(now) {
                if let EpochEvent::Start(epoch) | EpochEvent::End(epoch) = event {
                    clock.enter(epoch);
                }
                done.push((now, event));
            }
        }
        done
    }

    #[test]
    fn an_epoch_has_three_events() {
        use EpochEvent::{End, Prepare, Start, Transit};
        let mut clock = EpochClock::new(Some(100)).with_transit(20);
        let all: Vec<_> = (305..525).collect();
        let expected = [
            (305, Start(3)),
            (380, Prepare(4)),
            (400, End(4)),
            (420, Transit),
            (480, Prepare(5)),
            (500, End(5)),
            (520, Transit),
        ];
        assert_eq!(events(&mut clock, &all), expected);
        assert_eq!(
            events(&mut clock, &[790, 791, 830]),
            [(790, End(7)), (790, Prepare(8)), (830, End(8)), (830, Transit)],
            "nothing is left of epoch 5 when 7 begins"
        );
    }

    /// The transit time ends before the next epoch is prepared.
    #[test]
    fn the_longest_transit_time() {
        let mut clock = EpochClock::new(Some(100)).with_transit(50);
        let all: Vec<_> = (340..455).collect();
        let expected = [
            (340, EpochEvent::Start(3)),
            (350, EpochEvent::Prepare(4)),
            (400, EpochEvent::End(4)),
            (450, EpochEvent::Transit),
            (450, EpochEvent::Prepare(5)),
        ];
        assert_eq!(events(&mut clock, &all), expected);
    }

    /// A clock that is set back by much begins with the epoch that it tells, by little it is waited
    /// for, and forward it jumps.
    #[test]
    fn clocks_step() {
        use EpochEvent::{End, Prepare, Start, Transit};
        const MS: Nanos = 1_000_000;
        let mut clock = EpochClock::new(Some(100 * MS)).with_transit(20 * MS);
        let at = |times: std::ops::Range<Nanos>| times.map(|ms| ms * MS).collect::<Vec<_>>();
        let done = |clock: &mut EpochClock, times| {
            let events = events(clock, &at(times)).into_iter();
            events.map(|(now, event)| (now / MS, event)).collect::<Vec<_>>()
        };
        assert_eq!(
            done(&mut clock, 10_050..10_103),
            [(10_050, Start(100)), (10_080, Prepare(101)), (10_100, End(101))]
        );
        clock.set_behind(5 * MS);
        assert_eq!(done(&mut clock, 10_103..10_190), [(10_125, Transit), (10_185, Prepare(102))]);
        assert_eq!(clock.running(), 101, "it was 10 098 ms again, and the epoch did not come twice");
        clock.set_behind(5 * MS + 3000 * MS);
        assert_eq!(
            done(&mut clock, 10_190..10_310),
            [
                (10_190, End(71)),
                (10_190, Prepare(72)),
                (10_205, End(72)),
                (10_225, Transit),
                (10_285, Prepare(73)),
                (10_305, End(73))
            ]
        );
        clock.set_behind(0);
        assert_eq!(done(&mut clock, 10_310..10_311), [(10_310, End(103))]);
    }

    /// Packets of a time are of its epoch, or of a neighbour within the transit time. One bit tells
    /// two epochs in a row apart.
    #[test]
    fn one_bit_leaves_every_other_epoch_ambiguous() {
        let mut clock = EpochClock::new(Some(100)).with_transit(20);
        let cases = [
            ((520, 679), None),
            ((520, 680), Some((5, 7))),
            ((519, 579), None),
            ((519, 580), Some((4, 6))),
            ((5, 950), Some((0, 9))),
        ];
        for ((since, until), confused) in cases {
            assert_eq!(clock.ambiguous(since, until), confused, "{since} to {until}");
        }
        clock.set_behind(300);
        assert_eq!(clock.ambiguous(820, 980), Some((5, 7)));
    }

    /// A short delay after the transit time is not an overdue rotation.
    #[test]
    fn what_is_overdue() {
        let clock = EpochClock::new(Some(100)).with_transit(16);
        let cases = [(350, 0), (400, 0), (416, 0), (418, 0), (419, 3), (600, 184), (299, 0)];
        for (time, overdue) in cases {
            assert_eq!(clock.overdue(3, time), overdue, "at {time}");
        }
        assert_eq!(EpochClock::new(None).overdue(0, Nanos::MAX), 0);
    }

    #[test]
    fn without_transit_time_or_length() {
        let mut plain = EpochClock::new(Some(100));
        assert_eq!(events(&mut plain, &[0, 99, 100]), [(0, EpochEvent::Start(0)), (100, EpochEvent::End(1))]);
        let mut single = EpochClock::new(None);
        assert_eq!(events(&mut single, &[7, 8, Nanos::MAX - 1]), [(7, EpochEvent::Start(0))]);
        assert_eq!(EpochClock::new(Some(100)).with_transit(90).transit(), 50, "at most half an epoch");
    }

    /// Every instant of an epoch is in one sub-epoch, which ends when the next one begins.
    #[test]
    fn sub_epochs_cut_an_epoch() {
        for (length, of) in [(100, 1), (100, 4), (100, 64), (64, 64), (1000, 7)] {
            let mut clock = EpochClock::new(Some(length));
            clock.event(3 * length);
            clock.enter(3);
            let (mut last, mut nanos) = (0, vec![0; of as usize]);
            for time in 3 * length..4 * length {
                let sub_epoch = clock.sub_epoch(time, of);
                nanos[sub_epoch.index as usize] += 1;
                let (end, next) = (clock.end_of(sub_epoch), clock.sub_epoch(time + 1, of).index);
                assert_eq!(end == time + 1, next > sub_epoch.index, "{length} / {of} at {time}");
                assert!(sub_epoch.index == last || sub_epoch.index == last + 1);
                last = sub_epoch.index;
            }
            let shortest = length / u64::from(of);
            assert!(nanos.iter().all(|nanos| (shortest..=shortest + 1).contains(nanos)), "{nanos:?}");
            assert_eq!(clock.end_of(clock.sub_epoch(4 * length - 1, of)), Nanos::MAX);
        }
        let mut single = EpochClock::new(None);
        single.event(5);
        single.enter(0);
        assert_eq!(single.sub_epoch(1 << 40, 8).index, 0);
        assert!(!single.is_cut());
    }
}
