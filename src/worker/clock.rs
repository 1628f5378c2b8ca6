//! The worker's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::dpdk::cycles;
use crate::telemetry::epoch::Nanos;

/// The wall clock by the cycle counter, set right now and then.
#[derive(Debug)]
pub struct Clock {
    /// Nanoseconds a cycle, times 2³².
    scale: u64,
    cycles: u64,
    nanos: Nanos,
    /// The cycle counter at the last look.
    read: u64,
    /// Cycles between two looks at the system's clock: 10 ms.
    interval: u64,
    /// What the system's clock is behind, because it was set back or these cycles are too fast.
    /// Ages and rates need a time that never goes back; epochs are counted by the system's.
    behind: Nanos,
}

impl Clock {
    /// For a cycle counter of `hz`.
    pub fn new(hz: u64) -> Self {
        let scale = ((1_000_000_000u128 << 32) / u128::from(hz.max(1))) as u64;
        Self { scale, cycles: cycles(), nanos: wall_clock(), read: 0, interval: hz / 100, behind: 0 }
    }

    /// Never goes back, also when the system's clock is set.
    #[inline(always)]
    pub fn now(&mut self) -> Nanos {
        self.read = cycles();
        let passed = self.read.wrapping_sub(self.cycles);
        let now = self.nanos + ((u128::from(passed) * u128::from(self.scale)) >> 32) as u64;
        if passed > self.interval {
            self.set_right(now);
        }
        now
    }

    /// The cycle counter at the last [`Clock::now`].
    #[inline(always)]
    pub fn read(&self) -> u64 {
        self.read
    }

    /// What the system's clock was behind it at the last [`Clock::now`]: epochs are counted by the
    /// system's.
    #[inline(always)]
    pub fn behind(&self) -> Nanos {
        self.behind
    }

    #[cold]
    fn set_right(&mut self, now: Nanos) {
        self.cycles = cycles();
        (self.nanos, self.behind) = set_right(now, self.behind, wall_clock());
    }
}

/// A difference of the clocks that is left alone.
const SLACK: Nanos = 100_000;

/// A time that never goes back, and what the system's clock is behind it.
fn set_right(now: Nanos, behind: Nanos, wall: Nanos) -> (Nanos, Nanos) {
    let now = now.max(wall);
    // By less than that no epoch is off by more than its packets are given.
    let slack = if wall.abs_diff(now - behind.min(now)) < SLACK { behind } else { now - wall };
    (now, slack)
}

fn wall_clock() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time never goes back and epochs follow the system's clock, back and forth, as it steps
    /// and as the cycles run away from it.
    #[test]
    fn epochs_follow_the_systems_clock() {
        const MS: Nanos = 1_000_000;
        let (mut now, mut behind) = (1000 * MS, 0);
        let mut step = |wall: Nanos, passed: Nanos| {
            let before = now;
            (now, behind) = set_right(now + passed, behind, wall);
            assert!(now >= before + passed && (now - behind).abs_diff(wall) < SLACK, "{now} {behind} {wall}");
            (now / MS, behind / MS)
        };
        assert_eq!(step(1010 * MS, 10 * MS), (1010, 0));
        assert_eq!(step(1520 * MS, 10 * MS), (1520, 0), "set forward");
        assert_eq!(step(520 * MS, 10 * MS), (1530, 1010), "set back");
        assert_eq!(step(530 * MS, 10 * MS), (1540, 1010));
        assert_eq!(step(1040 * MS, 10 * MS), (1550, 510), "and forward again");
        assert_eq!(step(5000 * MS, 10 * MS), (5000, 0));
        for round in 1..100_000 {
            step(5000 * MS + round * 10 * MS, 10 * MS + 1000);
        }
    }
}
