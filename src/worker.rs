//! The poll loop that drives [`Switch::process`] on a core of its own.

mod idle;
mod commands;
mod rounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::dpdk::{Eal, Lcore, LcoreError, Mbuf, cycles, cycles_per_second, free_burst, sleep_precisely};
use crate::pisa::{DropReason, MAX_PORTS, PortId};
use crate::port::{Burst, RxQueue, Sent, TxQueue};
use crate::switch::{Switch, TxBursts};
use crate::telemetry::epoch::Nanos;
use idle::Idle;
use rounds::Rounds;

pub use commands::{Change, Died, Queues, WorkerCommands, WorkerHandle, channel};
pub use idle::IdleTimeout;

/// What one worker owns.
pub struct Worker {
    switch: Switch,
    /// The receive queues that it polls.
    rx: Vec<(PortId, RxQueue)>,
    /// A transmit queue of every port, by number.
    tx: Vec<Option<TxQueue>>,
    /// One more than the highest number in `tx` that ever had one.
    ports: usize,
    tx_bursts: TxBursts<Mbuf>,
    /// Packets that came in the last round.
    handled: u64,
    /// Without them nobody changes the worker.
    commands: Option<WorkerCommands>,
    idle_timeout: Arc<IdleTimeout>,
}

impl Worker {
    /// A worker that never sleeps and takes no commands. `ports` is one more than the highest
    /// number of a port.
    pub fn new(switch: Switch, mut queues: Queues, ports: usize) -> Self {
        let mut worker = Self {
            switch,
            rx: Vec::with_capacity(MAX_PORTS),
            tx: (0..MAX_PORTS).map(|_| None).collect(),
            ports: 0,
            tx_bursts: TxBursts::new(ports),
            handled: 0,
            commands: None,
            idle_timeout: Arc::default(),
        };
        worker.take_over(&mut queues);
        worker
    }

    /// Lets the worker be changed while it runs, and sleep when there is nothing to do.
    pub fn controlled(self, commands: WorkerCommands, idle_timeout: Arc<IdleTimeout>) -> Self {
        Self { commands: Some(commands), idle_timeout, ..self }
    }

    /// Polls until `stop`, on CPU `core`, and gives the registers of the last epoch over. Calls
    /// `ready` when it polls.
    pub fn run(mut self, eal: &Eal, core: usize, stop: &AtomicBool, ready: impl FnOnce()) -> Result<(), LcoreError> {
        let _lcore = Lcore::register(eal, Some(core))?;
        sleep_precisely();
        let mut clock = Clock::new(cycles_per_second(eal));
        let (mut behind, mut last) = (0, clock.now());
        let mut rounds = Rounds::new(clock.read);
        let mut burst = Burst::new();
        let stats = Arc::clone(self.switch.stats());
        let mut idle = Idle::new(self.idle_timeout.clone());
        idle.watch(&self.rx);
        ready();
        while !stop.load(Relaxed) {
            let now = clock.now();
            stats.clock.set(now);
            rounds.begin(clock.read, &stats);
            if clock.behind != behind {
                behind = clock.behind;
                self.switch.set_behind(behind);
            }
            if now.saturating_sub(last) > self.switch.longest_wait() {
                self.stood_still(last, now);
            }
            last = now;
            let busy = self.round(now, &mut burst);
            rounds.found(busy, self.handled, &stats);
            if self.commands.as_ref().is_some_and(WorkerCommands::waiting) {
                self.apply(&mut idle);
            }
            // A round is busy without a packet while a fault holds one back, and an epoch may end
            // in it.
            self.switch.tick(now);
            if busy {
                idle.end();
                continue;
            }
            idle.wait(now);
        }
        rounds.begin(cycles(), &stats);
        self.switch.finish();
        Ok(())
    }

    /// One burst from each queue. Whether there was any packet, or one is held back.
    #[inline(always)]
    fn round(&mut self, now: Nanos, burst: &mut Burst) -> bool {
        let mut busy = false;
        self.handled = 0;
        for queue in self.tx[..self.ports].iter_mut().flatten().filter(|queue| queue.holds()) {
            queue.flush();
            busy = true;
        }
        for (port, queue) in &mut self.rx {
            queue.receive(burst);
            if burst.is_empty() {
                busy |= queue.holds();
                continue;
            }
            busy = true;
            self.handled += burst.len() as u64;
            if let Some(since) = queue.waiting_since() {
                self.switch.waited(*port, burst, since, now);
            }
            while !burst.is_empty() {
                self.switch.process(*port, burst, now, &mut self.tx_bursts);
                send(&mut self.tx, &mut self.switch, &mut self.tx_bursts, now);
            }
        }
        busy
    }

    /// The last round began at `since`, and this one only now. What the queues hold may have waited
    /// meanwhile; what the last round handled may have come in, or gone out, after the pause.
    #[cold]
    fn stood_still(&mut self, since: Nanos, now: Nanos) {
        self.switch.stood_still(since, now, self.handled);
        self.rx.iter_mut().for_each(|(_, queue)| queue.stood_still(since));
    }

    /// Makes the change that waits. The tx bursts are empty now, so no packet is under way.
    #[cold]
    fn apply(&mut self, idle: &mut Idle) {
        let Some(commands) = &self.commands else { return };
        let Some(mut change) = commands.take() else { return };
        self.give_up(&change.remove, &mut change.old);
        self.take_over(&mut change.queues);
        self.switch.exchange(&mut change.parts);
        if let Some(tx_bursts) = &mut change.tx_bursts {
            std::mem::swap(&mut self.tx_bursts, tx_bursts);
        }
        // Queues that are given back may be closed at once.
        idle.watch(&self.rx);
        if let Some(commands) = &self.commands {
            commands.give_back(change);
        }
    }

    fn take_over(&mut self, queues: &mut Queues) {
        self.rx.append(&mut queues.rx);
        for (port, queue) in queues.tx.drain(..) {
            if let Some(slot) = self.tx.get_mut(usize::from(port)) {
                *slot = Some(queue);
                self.ports = self.ports.max(usize::from(port) + 1);
            }
        }
    }

    fn give_up(&mut self, ports: &[PortId], old: &mut Queues) {
        while let Some(at) = self.rx.iter().position(|(port, _)| ports.contains(port)) {
            old.rx.push(self.rx.remove(at));
        }
        let give = |&port: &PortId| Some((port, self.tx.get_mut(usize::from(port))?.take()?));
        old.tx.extend(ports.iter().filter_map(give));
    }
}

/// Hands every tx burst to its port. What does not get out is counted with the port it was for: a
/// full queue, a port without a link, or a frame that the device refused.
#[inline(always)]
fn send(tx: &mut [Option<TxQueue>], switch: &mut Switch, tx_bursts: &mut TxBursts<Mbuf>, now: Nanos) {
    for (port, frames) in tx_bursts.queues() {
        let stats = switch.stats().port(port);
        let offered = frames.len();
        let mut queue = tx.get_mut(usize::from(port)).and_then(Option::as_mut);
        let sent = queue.as_mut().map_or(Sent::default(), |queue| queue.transmit(frames));
        stats.tx_packets.add(sent.packets as u64);
        stats.tx_bytes.add(sent.bytes);
        if sent.packets < offered {
            stats.drop(DropReason::TxRefused, (offered - frames.len() - sent.packets) as u64);
            let up = queue.is_some_and(|queue| queue.is_up());
            let reason = if up { DropReason::TxFull } else { DropReason::PortDown };
            stats.drop(reason, frames.len() as u64);
            switch.observers().dropped(port, frames, reason, now);
            free_burst(frames);
        }
    }
}

/// The wall clock by the cycle counter, set right now and then.
struct Clock {
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
    fn new(hz: u64) -> Self {
        let scale = ((1_000_000_000u128 << 32) / u128::from(hz.max(1))) as u64;
        Self { scale, cycles: cycles(), nanos: wall_clock(), read: 0, interval: hz / 100, behind: 0 }
    }

    /// Never goes back, also when the system's clock is set.
    #[inline(always)]
    fn now(&mut self) -> Nanos {
        self.read = cycles();
        let passed = self.read.wrapping_sub(self.cycles);
        let now = self.nanos + ((u128::from(passed) * u128::from(self.scale)) >> 32) as u64;
        if passed > self.interval {
            self.set_right(now);
        }
        now
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
