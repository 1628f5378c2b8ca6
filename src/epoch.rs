//! Epochs: numbered slices of time, and the hand-over of the registers at their end.
//!
//! An epoch's number is `floor(now / length)` of the wall clock, so that hosts with synchronised clocks agree without a
//! message. At its end the switch swaps its registers with a zeroed spare: no copying, no clearing, no waiting. Those of the
//! ingress stages change at the end itself. Those of the egress stages change when the transit time is over, in which the
//! epoch's last packets leave; then both are sent off together. When the collector has not given a spare back, the registers go on
//! into the next epoch; the record then says that it covers both, and the occurrence is counted.

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::program::Bank;
use crate::wire::shim;

/// Nanoseconds of the wall clock since 1970, or of a capture's or simulation's clock.
pub type Nanos = u64;

/// The default length, a power of two so that a switch reads subepochs straight from a timestamp's bits: 67 ms.
pub const DEFAULT_LENGTH: Nanos = 1 << 26;

/// The default transit time: 10 ms.
pub const DEFAULT_TRANSIT: Nanos = 10_000_000;

/// A clock that goes back by no more than so many nanoseconds is waited for.
const MOST_SLEW: u64 = 10_000_000;

/// One replica's registers over one epoch, or over several when the collector was late.
pub struct Banks {
    pub replica: usize,
    pub first_epoch: u64,
    pub last_epoch: u64,
    /// Whether the epochs were over, with their transit time, when the registers were handed over.
    pub over: bool,
    /// One for each program, in the order of the configuration.
    pub banks: Vec<Box<dyn Bank>>,
}

/// The switch's end of the hand-over.
pub struct HandOver {
    replica: usize,
    length: Option<Nanos>,
    transit: Nanos,
    /// The epoch in which the registers in use were put in place, and the one that is running.
    first: u64,
    running: Option<u64>,
    /// When there is something to do next.
    due: Nanos,
    /// What the clock that counts epochs is behind the one that the switch is driven by, which never goes back.
    behind: Nanos,
    /// The last epoch's, of which packets may still be on their way.
    leaving: Option<Banks>,
    /// The next epoch has been prepared.
    prepared: bool,
    /// Whether the switch goes on, rather than ends within an epoch.
    goes_on: bool,
    full: Sender<Banks>,
    spares: Receiver<Vec<Box<dyn Bank>>>,
}

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing.
    Stay,
    /// The first epoch begins.
    Start(u64),
    /// The transit time is over: registers of the egress stages are handed over.
    Transit,
    /// This epoch begins in less than the transit time.
    Prepare(u64),
    /// The running epoch has ended, and this one begins. Registers that still wait for the transit time are handed over before.
    End(u64),
}

/// The collector's end.
#[derive(Clone)]
pub struct Collecting {
    pub full: Receiver<Banks>,
    pub spares: Sender<Vec<Box<dyn Bank>>>,
}

/// Both ends. `depth` spares at the most are under way. Without a length there is one epoch, which ends when the switch
/// is drained.
pub fn hand_over(replica: usize, length: Option<Nanos>, depth: usize) -> (HandOver, Collecting) {
    let (full, full_receiver) = bounded(depth + 1);
    let (spares_sender, spares) = bounded(depth + 1);
    let switch = HandOver {
        replica,
        length: length.map(|length| length.max(1)),
        transit: 0,
        first: 0,
        running: None,
        due: 0,
        behind: 0,
        leaving: None,
        prepared: false,
        goes_on: true,
        full,
        spares,
    };
    (switch, Collecting { full: full_receiver, spares: spares_sender })
}

impl HandOver {
    /// Lets packets leave for so long after the end of their epoch; at most half an epoch.
    pub fn with_transit(self, transit: Nanos) -> Self {
        let most = self.length.map_or(0, Self::longest_transit);
        Self { transit: transit.min(most), ..self }
    }

    /// For epochs of this length.
    pub fn longest_transit(length: Nanos) -> Nanos {
        length / 2
    }

    pub fn transit(&self) -> Nanos {
        self.transit
    }

    /// The time by which epochs are counted is behind the switch's by so much from now on. When it went back by little it stands still
    /// until it has caught up; else epochs begin anew with the one that it tells, also one that has been.
    pub fn set_behind(&mut self, behind: Nanos) {
        let change = behind.wrapping_sub(self.behind) as i64;
        self.due = if change.unsigned_abs() <= MOST_SLEW { self.due.saturating_add_signed(change) } else { 0 };
        self.behind = behind;
    }

    /// What [`Self::set_behind`] was told.
    pub fn behind(&self) -> Nanos {
        self.behind
    }

    /// Whether there is something to do at `now`.
    #[inline(always)]
    pub fn is_due(&self, now: Nanos) -> bool {
        now >= self.due
    }

    /// What there is to do at `now`; to be asked again until nothing is left.
    pub fn turn(&mut self, now: Nanos) -> Turn {
        let now = now.saturating_sub(self.behind);
        let epoch = self.length.map_or(0, |length| now / length);
        let start = self.length.map_or(0, |length| epoch * length);
        let end = self.length.map_or(Nanos::MAX, |length| start.saturating_add(length));
        let (left, soon) = (start.saturating_add(self.transit), end - self.transit);
        match self.running {
            None => {
                (self.first, self.running) = (epoch, Some(epoch));
                Turn::Start(epoch)
            }
            Some(running) if running != epoch => Turn::End(epoch),
            Some(_) if self.leaving.is_some() && now >= left => Turn::Transit,
            Some(_) if !self.prepared && now >= soon && self.transit > 0 => {
                self.prepared = true;
                Turn::Prepare(epoch + 1)
            }
            Some(_) => {
                let prepares = self.transit > 0 && !self.prepared;
                let due = if self.leaving.is_some() {
                    left
                } else if prepares {
                    soon
                } else {
                    end
                };
                self.due = due.saturating_add(self.behind);
                Turn::Stay
            }
        }
    }

    /// The running epoch, once time has been told.
    pub fn started(&self) -> Option<u64> {
        self.running
    }

    pub fn running(&self) -> u64 {
        self.running.unwrap_or_default()
    }

    /// The epochs of packets that carry an epoch's lowest bit alone: the running one, and the next one once it is prepared, before
    /// that the last one.
    pub fn by_bit(&self) -> [u32; 2] {
        let running = self.running();
        let other = if self.prepared { running + 1 } else { running.wrapping_sub(1) };
        let [this, other] = [running, other].map(shim::epoch_of);
        if running & 1 == 0 { [this, other] } else { [other, this] }
    }

    /// The first and the last epoch that packets can be of which came between these times, when a packet's
    /// lowest bit does not tell all of them apart.
    pub fn confused(&self, since: Nanos, until: Nanos) -> Option<(u64, u64)> {
        let length = self.length?;
        let first = since.saturating_sub(self.behind).saturating_sub(self.transit) / length;
        let last = until.saturating_sub(self.behind).saturating_add(self.transit) / length;
        (last >= first.saturating_add(2)).then_some((first, last))
    }

    /// A zeroed spare, if the collector has given one back.
    pub fn spare(&self) -> Option<Vec<Box<dyn Bank>>> {
        self.spares.try_recv().ok()
    }

    /// Enters `epoch` with other registers: those that `banks` now holds are of the epochs until now.
    pub fn end(&mut self, banks: Vec<Box<dyn Bank>>, epoch: u64) -> Banks {
        let (first_epoch, last_epoch) = (self.first, self.running());
        let banks = Banks { replica: self.replica, first_epoch, last_epoch, over: true, banks };
        (self.first, self.running, self.prepared) = (epoch, Some(epoch), false);
        banks
    }

    /// Enters `epoch` with the registers as they are.
    pub fn carry_on(&mut self, epoch: u64) {
        if epoch <= self.first {
            // The clock went back. What the registers hold is not of one epoch.
            self.first = epoch.saturating_sub(1);
        }
        (self.running, self.prepared) = (Some(epoch), false);
    }

    /// Keeps registers until the transit time is over.
    pub fn hold(&mut self, banks: Banks) {
        self.leaving = Some(banks);
    }

    /// Those that were [kept](Self::hold).
    pub fn held(&mut self) -> Option<Banks> {
        self.leaving.take()
    }

    /// The switch ends here: what is sent from now on is not all of its epoch.
    pub fn stop(&mut self) {
        self.goes_on = false;
    }

    /// Sends registers off. False when the collector is gone or behind.
    pub fn send(&self, banks: Banks) -> bool {
        self.full.try_send(Banks { over: banks.over && self.goes_on, ..banks }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is to be done at each of these times.
    fn turns(hand_over: &mut HandOver, times: &[Nanos]) -> Vec<(Nanos, Turn)> {
        let mut done = Vec::new();
        for &now in times {
            while hand_over.is_due(now) {
                let turn = hand_over.turn(now);
                match turn {
                    Turn::Stay => break,
                    Turn::End(epoch) => {
                        hand_over.held();
                        let banks = hand_over.end(Vec::new(), epoch);
                        hand_over.hold(banks);
                    }
                    Turn::Transit => assert!(hand_over.held().is_some()),
                    Turn::Start(_) | Turn::Prepare(_) => {}
                }
                done.push((now, turn));
            }
        }
        done
    }

    #[test]
    fn an_epoch_has_three_turns() {
        use Turn::{End, Prepare, Start, Transit};
        let (hand_over, _collecting) = hand_over(0, Some(100), 2);
        let mut hand_over = hand_over.with_transit(20);
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
        assert_eq!(turns(&mut hand_over, &all), expected);
        assert_eq!(
            turns(&mut hand_over, &[790, 791, 830]),
            [(790, End(7)), (790, Transit), (790, Prepare(8)), (830, End(8)), (830, Transit)]
        );
    }

    /// What is handed over when the transit time is over makes room for the next epoch, which is prepared behind it.
    #[test]
    fn the_longest_transit_time() {
        let (hand_over, _collecting) = hand_over(0, Some(100), 2);
        let mut hand_over = hand_over.with_transit(50);
        let all: Vec<_> = (340..455).collect();
        let expected = [
            (340, Turn::Start(3)),
            (350, Turn::Prepare(4)),
            (400, Turn::End(4)),
            (450, Turn::Transit),
            (450, Turn::Prepare(5)),
        ];
        assert_eq!(turns(&mut hand_over, &all), expected);
    }

    /// A clock that is set back by much begins with the epoch that it tells, by little it is waited for, and forward it jumps.
    #[test]
    fn clocks_step() {
        use Turn::{End, Prepare, Start, Transit};
        const MS: Nanos = 1_000_000;
        let (hand_over, _collecting) = hand_over(0, Some(100 * MS), 2);
        let mut hand_over = hand_over.with_transit(20 * MS);
        let at = |times: std::ops::Range<Nanos>| times.map(|ms| ms * MS).collect::<Vec<_>>();
        let done = |hand_over: &mut HandOver, times| {
            let turns = turns(hand_over, &at(times)).into_iter();
            turns.map(|(now, turn)| (now / MS, turn)).collect::<Vec<_>>()
        };
        assert_eq!(
            done(&mut hand_over, 10_050..10_103),
            [(10_050, Start(100)), (10_080, Prepare(101)), (10_100, End(101))]
        );
        hand_over.set_behind(5 * MS);
        assert_eq!(done(&mut hand_over, 10_103..10_190), [(10_125, Transit), (10_185, Prepare(102))]);
        assert_eq!(hand_over.running(), 101, "it was 10 098 ms again, and the epoch did not come twice");
        hand_over.set_behind(5 * MS + 3000 * MS);
        assert_eq!(
            done(&mut hand_over, 10_190..10_310),
            [
                (10_190, End(71)),
                (10_190, Transit),
                (10_190, Prepare(72)),
                (10_205, End(72)),
                (10_225, Transit),
                (10_285, Prepare(73)),
                (10_305, End(73))
            ]
        );
        hand_over.set_behind(0);
        assert_eq!(done(&mut hand_over, 10_310..10_311), [(10_310, End(103))]);
    }

    /// Packets of a time are of its epoch, or of a neighbour within the transit time. One bit tells two
    /// epochs in a row apart.
    #[test]
    fn one_bit_confuses_every_other_epoch() {
        let (hand_over, _collecting) = hand_over(0, Some(100), 2);
        let mut hand_over = hand_over.with_transit(20);
        let cases = [
            ((520, 679), None),
            ((520, 680), Some((5, 7))),
            ((519, 579), None),
            ((519, 580), Some((4, 6))),
            ((5, 950), Some((0, 9))),
        ];
        for ((since, until), confused) in cases {
            assert_eq!(hand_over.confused(since, until), confused, "{since} to {until}");
        }
        hand_over.set_behind(300);
        assert_eq!(hand_over.confused(820, 980), Some((5, 7)));
    }

    #[test]
    fn without_transit_time_or_length() {
        let (mut plain, _collecting) = hand_over(0, Some(100), 2);
        assert_eq!(turns(&mut plain, &[0, 99, 100]), [(0, Turn::Start(0)), (100, Turn::End(1)), (100, Turn::Transit)]);
        let (mut single, _collecting) = hand_over(0, None, 2);
        assert_eq!(turns(&mut single, &[7, 8, Nanos::MAX - 1]), [(7, Turn::Start(0))]);
        let (long, _collecting) = hand_over(0, Some(100), 2);
        assert_eq!(long.with_transit(90).transit(), 50, "at most half an epoch");
    }
}
