//! What a worker does when nothing comes: it spins for a while, then offers its core to others,
//! then sleeps.

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
        Self { idle_timeout, since: None, rounds: 0, sleep: SHORTEST, waiting, woken: false, in_vain: false }
    }

    /// The queues that the worker polls from now on.
    pub fn watch(&mut self, queues: &[(PortId, RxQueue)]) {
        self.waiting.watch(queues.iter().filter_map(|(_, queue)| queue.descriptor()));
        self.woken = self.waiting.len() == queues.len();
    }

    /// A packet has come.
    #[inline(always)]
    pub fn end(&mut self) {
        self.since = None;
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
        if longest == 0 || now.saturating_sub(since) < SLEEP_AFTER {
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
