//! What a worker does when nothing comes: it spins for a while, then offers its core to others,
//! then sleeps.
//!
//! Waking takes longer than many a round trip. So a worker stays awake for longer while the silences of
//! late ended soon, as those of a conversation do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::dpdk::Waiting;
use crate::pisa::{MAX_PORTS, PortId};
use crate::port::RxQueue;
use crate::telemetry::epoch::Nanos;

/// Rounds of the loop without a packet after which the core is offered to others between rounds.
const YIELD_AFTER: u32 = 1 << 10;
/// Silence after which the worker sleeps: requests and answers of a conversation come closer than
/// that.
const SLEEP_AFTER: Nanos = 1_000_000;
/// The same as long as most of the last silences ended within it.
const SLEEP_LATE: Nanos = 4_000_000;
/// Where every queue can wake the worker it need not look by itself, but for epochs that end and
/// changes that wait.
const WOKEN: Duration = Duration::from_millis(10);
/// The first sleep.
const SHORTEST: Nanos = 1_000;

/// The longest that a packet may wait for a worker that sleeps; zero for one that never does. Can
/// be set at any time.
#[derive(Debug, Default)]
pub struct IdleTimeout(AtomicU64);

impl IdleTimeout {
    pub fn new(longest: Option<Duration>) -> Self {
        let idle_timeout = Self::default();
        idle_timeout.set(longest);
        idle_timeout
    }

    pub fn set(&self, longest: Option<Duration>) {
        self.0.store(longest.map_or(0, |longest| longest.as_nanos() as u64), Relaxed);
    }
}

/// One worker's idleness.
pub(super) struct Idle {
    idle_timeout: Arc<IdleTimeout>,
    /// When the first round without a packet was seen.
    since: Option<Nanos>,
    rounds: u32,
    silences: Silences,
    sleep: Nanos,
    waiting: Waiting,
    /// Every queue can wake the worker.
    woken: bool,
    /// The last sleep was ended by a queue that had nothing to give, as one whose port is down: it
    /// would end each at once.
    in_vain: bool,
}

impl Idle {
    pub fn new(idle_timeout: Arc<IdleTimeout>) -> Self {
        let waiting = Waiting::with_capacity(MAX_PORTS);
        let silences = Silences::default();
        Self { idle_timeout, since: None, rounds: 0, silences, sleep: SHORTEST, waiting, woken: false, in_vain: false }
    }

    /// The queues that the worker polls from now on.
    pub fn watch(&mut self, queues: &[(PortId, RxQueue)]) {
        self.waiting.watch(queues.iter().filter_map(|(_, queue)| queue.descriptor()));
        self.woken = self.waiting.len() == queues.len();
    }

    /// A packet has come.
    #[inline(always)]
    pub fn end(&mut self, now: Nanos) {
        if let Some(since) = self.since.take() {
            self.silences.add(now.saturating_sub(since));
        }
    }

    /// A round has found nothing.
    #[inline]
    pub fn wait(&mut self, now: Nanos) {
        let since = *self.since.get_or_insert_with(|| {
            (self.rounds, self.sleep, self.in_vain) = (0, SHORTEST, false);
            now
        });
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds <= YIELD_AFTER {
            return;
        }
        let longest = self.idle_timeout.0.load(Relaxed);
        if longest == 0 || now.saturating_sub(since) < self.silences.sleep_after() {
            return std::thread::yield_now();
        }
        self.sleep(longest);
    }

    #[cold]
    fn sleep(&mut self, longest: Nanos) {
        if self.woken && !self.in_vain {
            self.in_vain = self.waiting.wait(WOKEN);
            return;
        }
        self.sleep = (self.sleep * 2).min(longest);
        let length = Duration::from_nanos(self.sleep);
        if self.in_vain {
            self.waiting.sleep(length);
            self.in_vain = false;
        } else {
            self.in_vain = self.waiting.wait(length);
        }
    }
}

/// The last silences that were longer than [`SLEEP_AFTER`]: a bit each, set where a packet came within
/// [`SLEEP_LATE`].
#[derive(Default)]
struct Silences(u8);

impl Silences {
    #[inline]
    fn add(&mut self, silence: Nanos) {
        if silence >= SLEEP_AFTER {
            self.0 = self.0 << 1 | u8::from(silence < SLEEP_LATE);
        }
    }

    /// Silence after which the worker sleeps.
    #[inline]
    fn sleep_after(&self) -> Nanos {
        if self.0.count_ones() > u8::BITS / 2 { SLEEP_LATE } else { SLEEP_AFTER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// A worker stays awake while most silences end within 4 ms; those that end within 1 ms do not matter.
    #[test]
    fn workers_stay_awake_in_a_conversation() {
        let mut silences = Silences::default();
        let mut after = |lengths: &[Nanos]| {
            lengths.iter().for_each(|length| silences.add(*length));
            silences.sleep_after()
        };
        assert_eq!(after(&[]), MS, "at first");
        assert_eq!(after(&[2 * MS; 4]), MS);
        assert_eq!(after(&[2 * MS]), 4 * MS);
        assert_eq!(after(&[MS / 2; 100]), 4 * MS, "busy");
        assert_eq!(after(&[MS, 3 * MS, 4 * MS - 1]), 4 * MS);
        assert_eq!(after(&[4 * MS; 3]), 4 * MS);
        assert_eq!(after(&[4 * MS]), MS, "half of them");
        assert_eq!(after(&[500 * MS; 10]), MS);
        assert_eq!(after(&[2 * MS, 500 * MS].repeat(10)), MS);
    }

    /// The silence before a packet is counted once, from the first round without one.
    #[test]
    fn a_packet_ends_a_silence() {
        let mut idle = Idle::new(Arc::default());
        for round in 0..5 {
            let begin = 10 * MS * round;
            [begin, begin + MS].into_iter().for_each(|now| idle.wait(now));
            [begin + 2 * MS, begin + 9 * MS].into_iter().for_each(|now| idle.end(now));
            let expected = if round < 4 { MS } else { 4 * MS };
            assert_eq!(idle.silences.sleep_after(), expected, "{round}");
        }
    }
}
