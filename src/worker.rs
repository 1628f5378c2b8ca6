//! The poll loop that drives [`Switch::process`] on a core of its own.

mod clock;
mod idle;
mod commands;
mod rounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::dpdk::{Eal, Lcore, LcoreError, Mbuf, cycles, cycles_per_second, free_burst, sleep_precisely};
use crate::pisa::{DropReason, MAX_PORTS, PortId};
use crate::port::{Burst, RxQueue, Sent, TxQueue};
use crate::switch::{Backlog, Switch, TxBursts};
use crate::telemetry::epoch::Nanos;
use idle::Idle;
use rounds::Rounds;

pub use clock::Clock;
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
        let mut rounds = Rounds::new(clock.read());
        let mut burst = Burst::new();
        let stats = Arc::clone(self.switch.stats());
        let mut idle = Idle::new(self.idle_timeout.clone());
        idle.watch(&self.rx);
        ready();
        while !stop.load(Relaxed) {
            let now = clock.now();
            stats.clock.set(now);
            rounds.begin(clock.read(), &stats);
            if clock.behind() != behind {
                behind = clock.behind();
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
                idle.end(now);
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
                if self.switch.needs_queues() {
                    tell_backlogs(&self.tx[..self.ports], &mut self.tx_bursts);
                }
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

/// Tells the switch what waits in the transmit queues.
#[inline(never)]
fn tell_backlogs(tx: &[Option<TxQueue>], tx_bursts: &mut TxBursts<Mbuf>) {
    for (port, queue) in (0..).zip(tx) {
        let held = queue.as_ref().and_then(TxQueue::delayed);
        let backlog = held.map_or(Backlog::default(), |held| Backlog::new(held as u32, TxQueue::MAX_HELD));
        tx_bursts.set_backlog(port, backlog);
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
            switch.unsent(port, frames, reason);
            free_burst(frames);
        }
    }
}
