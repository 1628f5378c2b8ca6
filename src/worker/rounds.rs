//! What a worker does with its time: busy and idle cycles.

use crate::stats::SwitchStats;

/// The rounds of the poll loop. A round lasts until the next one begins, so that one look at the
/// cycle counter a round divides all of the worker's time.
pub(super) struct Rounds {
    /// When the running round began, in cycles.
    began: u64,
    busy: bool,
}

impl Rounds {
    pub fn new(cycles: u64) -> Self {
        Self { began: cycles, busy: false }
    }

    /// A round begins at `cycles`; the time until then was the last one's. Whoever stops polling
    /// calls it once more.
    #[inline(always)]
    pub fn begin(&mut self, cycles: u64, stats: &SwitchStats) {
        let spent = cycles.saturating_sub(self.began);
        if self.busy { &stats.busy_cycles } else { &stats.idle_cycles }.add(spent);
        self.began = cycles;
    }

    /// The round found `packets`, or is busy without.
    #[inline(always)]
    pub fn found(&mut self, busy: bool, packets: u64, stats: &SwitchStats) {
        self.busy = busy;
        stats.polls.add(1);
        if busy {
            stats.busy_polls.add(1);
            stats.packets.add(packets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cycle_is_busy_or_idle() {
        let (stats, mut rounds) = (SwitchStats::default(), Rounds::new(1000));
        let mut now = 1000;
        // Busy or not, packets, and cycles until the next round: one that sleeps is a long one.
        for (busy, packets, cycles) in
            [(true, 32, 2000), (false, 0, 50), (false, 0, 10_000_000), (true, 1, 300), (true, 0, 70), (false, 0, 50)]
        {
            rounds.begin(now, &stats);
            rounds.found(busy, packets, &stats);
            now += cycles;
        }
        rounds.begin(now, &stats);
        let read = |stats: &SwitchStats| (stats.busy_cycles.get(), stats.idle_cycles.get());
        assert_eq!(read(&stats), (2370, 10_000_100));
        assert_eq!(stats.busy_cycles.get() + stats.idle_cycles.get(), now - 1000);
        assert_eq!((stats.packets.get(), stats.polls.get(), stats.busy_polls.get()), (33, 6, 3));
        // A counter that goes back, as of another core, is no time.
        rounds.begin(now - 500, &stats);
        assert_eq!(read(&stats), (2370, 10_000_100));
    }
}
