//! Two ports, of clients and of servers, and the core that holds conversations between them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use weir::dpdk::{Lcore, Mempool, cycles, cycles_per_second, free_burst};
use weir::live::Devices;
use weir::port::{Burst, Port, PortStats, Sent};
use weir::wire::Frame;

use super::core::{MAX_BURST, Queues};
use super::rig::{Setup, have_link, open_devices};
use crate::conversations::{Conversations, Side};
use crate::pace::Schedule;

/// How often progress is told.
const LOOK: Duration = Duration::from_millis(20);
const NAMES: [&str; 2] = ["client", "server"];

/// Open ports, and the queues of their core.
#[derive(Debug)]
pub struct Pair {
    /// Of the client's port and of the server's, if it is another.
    queues: Vec<Queues>,
    core: Option<usize>,
    longest: usize,
    devices: Devices,
}

/// When conversations start, and how long they are waited for.
pub struct PairPlan<'a> {
    pub schedule: Schedule,
    /// How many are to be started.
    pub conversations: u64,
    /// None is due after it.
    pub duration: Option<Duration>,
    /// How long those that are open behind the last start may take.
    pub drain: Duration,
    /// Ends the starting.
    pub stop: &'a AtomicBool,
}

/// Conversations until now.
#[derive(Debug, Default)]
pub struct PairProgress {
    pub started: AtomicU64,
    pub finished: AtomicU64,
    pub given_up: AtomicU64,
    pub not_started: AtomicU64,
}

/// What a run was.
#[derive(Debug)]
pub struct PairResult {
    pub conversations: Conversations,
    /// What the devices took, by the end that sent.
    pub sent: [Sent; 2],
    /// Frames that they did not take before the end.
    pub unsent: u64,
    /// Time in which conversations were started, and until the last one ended.
    pub starting_seconds: f64,
    pub seconds: f64,
}

impl Pair {
    /// Opens the ports: that of clients is `tx` of the setup, that of servers `rx`.
    ///
    /// # Errors
    /// If DPDK or a port does not open; nor will they again in this process.
    pub fn open(setup: &Setup) -> Result<Self> {
        let (devices, _) = open_devices(setup, NAMES, false)?;
        let queues = devices.ports.iter().zip(NAMES).map(|(port, name)| {
            let tx = port.tx_queue(0).with_context(|| format!("no transmit queue of the {name}'s port"))?;
            Ok(Queues { tx, rx: (0..port.rx_queues()).filter_map(|queue| port.rx_queue(queue)).collect() })
        });
        let queues = queues.collect::<Result<Vec<_>>>()?;
        let core = setup.cores.first().copied().flatten();
        Ok(Self { queues, core, longest: setup.longest.into(), devices })
    }

    /// Waits until the ports have a link. False when one has none in time.
    pub fn wait_for_link(&self, timeout: Duration) -> bool {
        have_link(&self.devices.ports, timeout)
    }

    pub fn hz(&self) -> u64 {
        cycles_per_second(&self.devices.eal)
    }

    /// Name and counters of each port.
    pub fn port_stats(&self) -> Vec<(&'static str, PortStats)> {
        NAMES.into_iter().zip(self.devices.ports.iter().map(Port::stats)).collect()
    }

    /// Holds the conversations. `progress` is called now and then.
    ///
    /// # Errors
    /// If the core does not start.
    pub fn run(
        &mut self,
        conversations: Conversations,
        plan: PairPlan<'_>,
        mut progress: impl FnMut(&PairProgress),
    ) -> Result<PairResult> {
        let (hz, live) = (self.hz(), PairProgress::default());
        let (devices, core, longest) = (&self.devices, self.core, self.longest);
        let job = Job {
            queues: &mut self.queues,
            pool: &devices.pool,
            longest,
            hz,
            plan,
            live: &live,
            conversations,
            came: Burst::new(),
            going: [Burst::new(), Burst::new()],
            sent: [Sent::default(); 2],
        };
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let _lcore = Lcore::register(&devices.eal, core).context("the core does not start")?;
                Ok::<_, anyhow::Error>(job.run())
            });
            while !thread.is_finished() {
                thread::sleep(LOOK);
                progress(&live);
            }
            thread.join().map_err(|_| anyhow!("the core has died"))?
        })
    }
}

/// The core at work.
struct Job<'a> {
    queues: &'a mut [Queues],
    pool: &'a Mempool,
    /// The longest frame without FCS.
    longest: usize,
    hz: u64,
    plan: PairPlan<'a>,
    live: &'a PairProgress,
    conversations: Conversations,
    came: Burst,
    /// Frames that a device has still to take, by the end that sends them.
    going: [Burst; 2],
    sent: [Sent; 2],
}

impl Job<'_> {
    fn run(mut self) -> PairResult {
        let (start, hz) = (cycles(), self.hz);
        let scale = ((1_000_000_000u128 << 32) / u128::from(hz.max(1))) as u64;
        let to_cycles = |time: Duration| (time.as_secs_f64() * hz as f64) as u64;
        let end = self.plan.duration.map_or(u64::MAX, to_cycles);
        let drain = to_cycles(self.plan.drain);
        let mut started = None;
        let now = loop {
            let now = cycles().saturating_sub(start);
            let now_ns = ((u128::from(now) * u128::from(scale)) >> 32) as u64;
            self.receive(now_ns);
            self.conversations.tick(now_ns);
            if started.is_none() && self.begin(now, now_ns, end) {
                started = Some(now);
            }
            self.send(now_ns);
            self.tell();
            if let Some(since) = started {
                let is_over = self.conversations.is_idle() && self.going.iter().all(|going| going.is_empty());
                if is_over || now >= since.saturating_add(drain) {
                    break now;
                }
            }
        };
        let unsent = self.going.iter().map(|going| going.len() as u64).sum();
        self.going.iter_mut().for_each(free_burst);
        let seconds = |cycles: u64| cycles as f64 / hz as f64;
        PairResult {
            conversations: self.conversations,
            sent: self.sent,
            unsent,
            starting_seconds: seconds(started.unwrap_or(now)),
            seconds: seconds(now),
        }
    }

    /// Starts what is due, at most a burst at once. True when no more will be.
    fn begin(&mut self, now: u64, now_ns: u64, end: u64) -> bool {
        if self.plan.stop.load(Relaxed) {
            return true;
        }
        let schedule = &mut self.plan.schedule;
        for _ in 0..MAX_BURST {
            // The gap behind the last one is its own.
            if schedule.due() >= end || self.conversations.due() >= self.plan.conversations {
                return now >= end.min(schedule.due());
            }
            let is_late = now >= end && schedule.is_unpaced();
            if is_late || schedule.due() > now || schedule.is_unpaced() && !self.conversations.has_room() {
                return is_late;
            }
            self.conversations.start(now_ns);
            schedule.advance(0, || 0);
        }
        false
    }

    fn receive(&mut self, now_ns: u64) {
        let is_shared = self.queues.len() == 1;
        for (queues, side) in self.queues.iter_mut().zip(Side::BOTH) {
            for queue in &mut queues.rx {
                queue.receive(&mut self.came);
                for frame in &self.came {
                    self.conversations.take((!is_shared).then_some(side), frame.bytes(), now_ns);
                }
                free_burst(&mut self.came);
            }
            queues.tx.flush();
        }
    }

    /// Sends what is due, as far as the devices take it.
    fn send(&mut self, now_ns: u64) {
        let last = self.queues.len() - 1;
        for side in Side::BOTH {
            let at = side as usize;
            let going = &mut self.going[at];
            if going.is_empty() {
                let waiting = self.conversations.waiting(side).min(MAX_BURST);
                if waiting == 0 || !self.pool.alloc_bulk(going, waiting) {
                    continue;
                }
                let mut filled = 0;
                for frame in going.iter_mut() {
                    // Buffers hold the longest frame.
                    let is_large = frame.resize(self.longest);
                    let length = self.conversations.write(side, now_ns, frame.bytes_mut());
                    let Some(length) = length.filter(|_| is_large) else { break };
                    frame.resize(length);
                    filled += 1;
                }
                going.truncate(filled);
            }
            let sent = self.queues[at.min(last)].tx.transmit(going);
            self.sent[at].packets += sent.packets;
            self.sent[at].bytes += sent.bytes;
        }
    }

    fn tell(&self) {
        let (counts, live) = (self.conversations.counts(), self.live);
        live.started.store(counts.started, Relaxed);
        live.finished.store(counts.finished, Relaxed);
        live.given_up.store(counts.given_up, Relaxed);
        live.not_started.store(counts.not_started, Relaxed);
    }
}
