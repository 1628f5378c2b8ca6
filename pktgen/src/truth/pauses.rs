//! Pauses of sending before epochs end.

use std::time::Duration;

use super::epochs::OPEN;

/// The epochs of a run, and the pause before the end of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochTime {
    pub length: Duration,
    /// Nothing is sent for so long before an epoch ends: what is under way arrives in the epoch in
    /// which it was sent, and a switch counts it in the same one.
    pub pause: Duration,
}

/// The pauses of one core.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    length_ns: u64,
    pause_ns: u64,
    pause_cycles: u64,
    /// Pauses that have begun, since the wall clock's zero.
    begun: u64,
}

impl Pauses {
    /// From `now` on, in nanoseconds of the wall clock; cycles are of a counter of `hz`.
    pub fn new(time: EpochTime, now: u64, hz: u64) -> Self {
        let (length_ns, pause_ns) = (time.length.as_nanos() as u64, time.pause.as_nanos() as u64);
        let pause_cycles = (time.pause.as_secs_f64() * hz as f64) as u64;
        Self { length_ns, pause_ns, pause_cycles, begun: (now + pause_ns) / length_ns }
    }

    /// Whether there is a pause now, and the cycles of those that have begun since this was asked
    /// last. Each counts whole, also one that was slept through.
    #[inline(always)]
    pub fn at(&mut self, now: u64) -> (bool, u64) {
        if self.pause_ns == 0 {
            return (false, 0);
        }
        let begun = (now + self.pause_ns) / self.length_ns;
        let new = begun.saturating_sub(self.begun);
        self.begun = self.begun.max(begun);
        // More are a step of the clock, in which nothing was due.
        let new = new.min(OPEN + 1);
        (now % self.length_ns >= self.length_ns - self.pause_ns, new * self.pause_cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: EpochTime = EpochTime { length: Duration::from_millis(100), pause: Duration::from_millis(5) };
    const MS: u64 = 1_000_000;

    #[test]
    fn each_pause_counts_once() {
        let mut pauses = Pauses::new(TIME, 1010 * MS, 1_000_000_000);
        assert_eq!(pauses.at(1094 * MS), (false, 0));
        assert_eq!(pauses.at(1095 * MS), (true, 5 * MS));
        assert_eq!(pauses.at(1099 * MS), (true, 0));
        assert_eq!(pauses.at(1100 * MS), (false, 0));
        assert_eq!(pauses.at(1350 * MS), (false, 10 * MS), "slept through two");
        assert_eq!(pauses.at(3_601_350 * MS), (false, 25 * MS), "a step of an hour");
        let mut none = Pauses::new(EpochTime { pause: Duration::ZERO, ..TIME }, 0, 1);
        assert_eq!(none.at(99 * MS), (false, 0));
    }
}
