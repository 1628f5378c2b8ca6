//! The time at which each packet is due, in cycles.

use std::time::Duration;

use super::arrivals::Exponential;
use super::{Arrivals, Rate};

/// What a schedule follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    Rate(Rate, Arrivals),
    /// Bursts of as many packets, each beginning an interval after the one before, at this rate.
    Bursts {
        rate: Rate,
        packets: u64,
        interval: Duration,
    },
    /// The source's own times, this many times as fast.
    Own(f64),
}

/// Cycles times 2³².
type Cycles = u128;

/// Due times of one core's packets, from 0 on.
///
/// A packet's due time does not depend on when those before it left, so a sender that is late
/// catches up. Times are kept with 32 binary places of a cycle, so the rate does not drift.
#[derive(Clone, Debug)]
pub struct Schedule {
    due: Cycles,
    /// Cycles that each packet takes, and each byte.
    per_packet: Cycles,
    per_byte: Cycles,
    /// Bytes of a packet that count, beside its frame without FCS.
    overhead: u16,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Max,
    Constant,
    Poisson(Exponential),
    /// Time that is left until sending pauses, how long it then goes on, and the pause.
    OnOff {
        left: Cycles,
        on: Cycles,
        off: Cycles,
    },
    /// Packets that are left of the burst, how many each has, when the next begins, and the time
    /// between two.
    Bursts {
        left: u64,
        packets: u64,
        next: Cycles,
        interval: Cycles,
    },
    /// Cycles for a nanosecond of the source's own time, times 2³².
    Own(u64),
}

const ONE: f64 = 4_294_967_296.0;

impl Schedule {
    /// For a clock of `hz`. The seed decides random gaps.
    pub fn new(pace: Pace, hz: u64, seed: u64) -> Self {
        let hz = hz as f64;
        let mut schedule = Self { due: 0, per_packet: 0, per_byte: 0, overhead: 0, kind: Kind::Max };
        let cycles = |time: Duration| (time.as_secs_f64() * hz * ONE) as Cycles;
        let (rate, arrivals) = match pace {
            Pace::Bursts { rate, packets, interval } => {
                schedule.at(rate, hz);
                let interval = cycles(interval);
                schedule.kind = Kind::Bursts { left: packets, packets, next: interval, interval };
                return schedule;
            }
            Pace::Own(factor) => {
                schedule.kind = Kind::Own((hz / 1e9 / factor * ONE) as u64);
                return schedule;
            }
            Pace::Rate(Rate::Max, _) => return schedule,
            Pace::Rate(rate, arrivals) => (rate, arrivals),
        };
        // A pause is made up for while sending.
        let faster = match arrivals {
            Arrivals::OnOff { on, off } => (on + off).as_secs_f64() / on.as_secs_f64(),
            Arrivals::Constant | Arrivals::Poisson => 1.0,
        };
        schedule.at(rate.part(faster), hz);
        schedule.kind = match arrivals {
            Arrivals::Constant => Kind::Constant,
            Arrivals::Poisson => Kind::Poisson(Exponential::new(seed)),
            Arrivals::OnOff { on, off } => Kind::OnOff { left: cycles(on), on: cycles(on), off: cycles(off) },
        };
        schedule
    }

    /// Packets take their time at this rate; none at the highest.
    fn at(&mut self, rate: Rate, hz: f64) {
        match rate {
            Rate::Max => {}
            Rate::Packets(n) => self.per_packet = (hz / n * ONE) as Cycles,
            Rate::Bits(layer, n) => {
                self.per_byte = (hz * 8.0 / n * ONE) as Cycles;
                self.overhead = (layer.bits(0) / 8) as u16;
            }
        }
    }

    /// Whether there is no time at which packets are due.
    #[inline(always)]
    pub fn is_unpaced(&self) -> bool {
        matches!(self.kind, Kind::Max)
    }

    /// Whether it follows the source's own times.
    pub fn is_the_sources(&self) -> bool {
        matches!(self.kind, Kind::Own(_))
    }

    /// The cycle from which the next packet may leave.
    #[inline(always)]
    pub fn due(&self) -> u64 {
        (self.due >> 32) as u64
    }

    /// A packet of this length, without FCS, was picked. `next_ns` is the source's own time of the one
    /// behind it.
    #[inline(always)]
    pub fn advance(&mut self, length: u16, next_ns: impl FnOnce() -> u64) {
        if self.is_unpaced() {
            return;
        }
        let cost = self.per_packet + self.per_byte * u128::from(length + self.overhead);
        match &mut self.kind {
            Kind::Max => {}
            Kind::Constant => self.due += cost,
            Kind::Poisson(gaps) => self.due += (cost * u128::from(gaps.draw())) >> 16,
            Kind::OnOff { left, on, off } => {
                let mut cost = cost;
                // At most a second at the slowest rate, and a period is at least a microsecond.
                while cost >= *left {
                    self.due += *left + *off;
                    cost -= *left;
                    *left = *on;
                }
                *left -= cost;
                self.due += cost;
            }
            Kind::Bursts { left, packets, next, interval } => {
                self.due += cost;
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.due = self.due.max(*next);
                    *next += *interval;
                    *left = *packets;
                }
            }
            Kind::Own(scale) => self.due = u128::from(next_ns()) * u128::from(*scale),
        }
    }

    /// Shifts all due times that are to come.
    pub fn delay(&mut self, cycles: u64) {
        let cycles = Cycles::from(cycles) << 32;
        self.due += cycles;
        if let Kind::Bursts { next, .. } = &mut self.kind {
            *next += cycles;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Layer;
    use proptest::prelude::*;

    const HZ: u64 = 2_400_000_000;

    /// Due times of packets of these lengths.
    fn dues(pace: Pace, lengths: impl IntoIterator<Item = u16>) -> Vec<u64> {
        let mut schedule = Schedule::new(pace, HZ, 1);
        let due = lengths.into_iter().map(|length| {
            let due = schedule.due();
            schedule.advance(length, || 0);
            due
        });
        due.collect()
    }

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    proptest! {
        /// After a million packets a constant schedule is off by less than a cycle in 10⁶.
        #[test]
        fn constant_rates_do_not_drift(packets in 1000.0f64..1e8) {
            let dues = dues(Pace::Rate(Rate::Packets(packets), Arrivals::Constant), std::iter::repeat_n(60, 100_001));
            let expected = 100_000.0 * HZ as f64 / packets;
            prop_assert!((dues[100_000] as f64 - expected).abs() < 2.0 + expected * 1e-6);
            let gap = HZ as f64 / packets;
            let even = dues.windows(2).all(|two| ((two[1] - two[0]) as f64 - gap).abs() <= 1.0);
            prop_assert!(even);
        }

        /// Of any mix of lengths as many bits are due as the rate says.
        #[test]
        fn bits_are_those_of_the_layer(lengths in proptest::collection::vec(60u16..9200, 1000..1001), l1: bool) {
            let layer = if l1 { Layer::L1 } else { Layer::L2 };
            let dues = dues(Pace::Rate(Rate::Bits(layer, 1e9), Arrivals::Constant), lengths.iter().copied());
            let bits: u64 = lengths[..999].iter().map(|length| layer.bits(*length)).sum();
            let expected = bits as f64 / 1e9 * HZ as f64;
            prop_assert!((dues[999] as f64 / expected - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn poisson_keeps_the_rate() {
        let dues = dues(Pace::Rate(rate("1Mpps"), Arrivals::Poisson), std::iter::repeat_n(60, 1_000_001));
        let seconds = dues[1_000_000] as f64 / HZ as f64;
        assert!((seconds - 1.0).abs() < 0.005, "{seconds}");
    }

    /// In each period all packets are due while it is on, and there are as many as the rate says.
    #[test]
    fn on_and_off() {
        let pace = Pace::Rate(rate("1Mpps"), "on-off:1ms,3ms".parse().unwrap());
        let dues = dues(pace, std::iter::repeat_n(60, 1_000_000));
        let period = HZ / 250;
        let mut counts = vec![0; 250];
        for due in dues {
            let (number, phase) = (due / period, due % period);
            assert!(phase <= HZ / 1000, "{phase} is off");
            counts[number as usize] += 1;
        }
        assert!(counts.iter().all(|count| (3999..=4001).contains(count)), "{counts:?}");
    }

    /// Each burst begins in its time, whatever the rate within one, and is put off by pauses.
    #[test]
    fn bursts_begin_together() {
        for (text, within) in [("max", 0), ("1Mpps", HZ / 1_000_000)] {
            let pace = Pace::Bursts { rate: rate(text), packets: 100, interval: Duration::from_millis(2) };
            for (packet, due) in (0..1000).zip(dues(pace, std::iter::repeat_n(60, 1000))) {
                let expected = packet / 100 * HZ / 500 + packet % 100 * within;
                assert!(due.abs_diff(expected) <= 1, "{packet}: {due} {expected}");
            }
        }
        let pace = Pace::Bursts { rate: Rate::Max, packets: 1, interval: Duration::from_millis(2) };
        let mut schedule = Schedule::new(pace, HZ, 1);
        schedule.delay(HZ / 1000);
        schedule.advance(60, || 0);
        assert!(schedule.due().abs_diff(3 * HZ / 1000) <= 1);
    }

    #[test]
    fn own_times_have_a_factor() {
        let mut schedule = Schedule::new(Pace::Own(2.0), HZ, 1);
        schedule.advance(60, || 1_000_000_000);
        assert!(schedule.due().abs_diff(HZ / 2) <= 1);
    }

    #[test]
    fn the_fastest_is_due_at_once() {
        assert_eq!(dues(Pace::Rate(Rate::Max, Arrivals::Constant), [60; 3]), [0; 3]);
    }
}
