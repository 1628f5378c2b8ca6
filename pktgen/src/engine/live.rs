//! What other threads see of a run while it goes on: numbers that its cores write.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::latency::coarse::{LiveTimes, Times};

/// A core's counts while it runs: one writer, any reader.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Live {
    pub sent: AtomicU64,
    pub sent_bytes: AtomicU64,
    /// Of the packets sent, malformed ones.
    pub malformed: AtomicU64,
    pub received: AtomicU64,
    pub received_bytes: AtomicU64,
    pub reordered: AtomicU64,
    pub duplicates: AtomicU64,
    pub uncertain: AtomicU64,
    pub foreign: AtomicU64,
    pub late_ns: AtomicU64,
    /// Both written only where somebody wants them.
    pub latency: LiveTimes,
    pub lateness: LiveTimes,
}

/// Totals while a run goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    pub seconds: f64,
    pub sent: u64,
    /// Without FCS.
    pub sent_bytes: u64,
    pub malformed: u64,
    /// First copies of this run's frames.
    pub received: u64,
    /// Of all frames that came in, without FCS.
    pub received_bytes: u64,
    pub reordered: u64,
    pub duplicates: u64,
    pub uncertain: u64,
    pub foreign: u64,
    /// Lateness of the last burst of the latest core.
    pub late_ns: u64,
}

impl Progress {
    /// All frames that came in.
    pub fn came(&self) -> u64 {
        self.received + self.duplicates + self.uncertain + self.foreign
    }

    /// Frames that were sent and did not come back so far: lost, or on their way.
    pub fn missing(&self) -> u64 {
        (self.sent - self.malformed.min(self.sent)).saturating_sub(self.received)
    }
}

/// The cores' numbers, and when they began.
#[derive(Debug)]
pub struct Watch {
    cores: Box<[Live]>,
    start: OnceLock<Instant>,
}

impl Watch {
    pub fn new(cores: usize) -> Self {
        Self { cores: (0..cores).map(|_| Live::default()).collect(), start: OnceLock::new() }
    }

    pub(super) fn cores(&self) -> &[Live] {
        &self.cores
    }

    pub(super) fn start(&self) {
        self.start.get_or_init(Instant::now);
    }

    pub fn progress(&self) -> Progress {
        let sum = |of: fn(&Live) -> &AtomicU64| self.cores.iter().map(|core| of(core).load(Relaxed)).sum();
        let late_ns = self.cores.iter().map(|core| core.late_ns.load(Relaxed)).max().unwrap_or_default();
        // Received first: what comes back meanwhile was sent before.
        let received = sum(|core| &core.received);
        Progress {
            seconds: self.start.get().map_or(0.0, |start| start.elapsed().as_secs_f64()),
            malformed: sum(|core| &core.malformed),
            sent: sum(|core| &core.sent),
            sent_bytes: sum(|core| &core.sent_bytes),
            received,
            received_bytes: sum(|core| &core.received_bytes),
            reordered: sum(|core| &core.reordered),
            duplicates: sum(|core| &core.duplicates),
            uncertain: sum(|core| &core.uncertain),
            foreign: sum(|core| &core.foreign),
            late_ns,
        }
    }

    /// Latencies until now.
    pub fn latency(&self) -> Times {
        Times::of(self.cores.iter().map(|core| &core.latency))
    }

    /// How late bursts left until now, one for each packet.
    pub fn lateness(&self) -> Times {
        Times::of(self.cores.iter().map(|core| &core.lateness))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_of_all_cores() {
        let watch = Watch::new(2);
        for core in watch.cores() {
            core.sent.store(10, Relaxed);
            core.malformed.store(1, Relaxed);
            core.received.store(6, Relaxed);
            core.foreign.store(2, Relaxed);
            core.latency.record(1000);
        }
        watch.cores()[1].late_ns.store(7, Relaxed);
        let progress = watch.progress();
        assert_eq!((progress.sent, progress.came(), progress.missing(), progress.late_ns), (20, 16, 6, 7));
        assert_eq!((watch.latency().count(), watch.lateness().count(), progress.seconds), (2, 0, 0.0));
    }
}
