//! The poll loop that drives [`Switch::process`] on a core of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::dpdk::{Eal, Lcore, LcoreError, Mbuf, cycles, cycles_per_second, free_burst};
use crate::epoch::Nanos;
use crate::pisa::{DropReason, PortId};
use crate::port::{Burst, RxQueue, Sent, TxQueue};
use crate::switch::{Outbox, Switch};

/// Rounds of the loop without a packet after which the core is offered to others between rounds.
const PATIENCE: u32 = 1 << 10;

/// What one worker owns.
pub struct Worker {
    pub switch: Switch,
    /// The receive queues that it polls.
    pub rx: Vec<(PortId, RxQueue)>,
    /// A transmit queue of every port.
    pub tx: Vec<TxQueue>,
}

impl Worker {
    /// Polls until `stop`, on CPU `core`, and gives the registers of the last epoch over. Calls `ready` when it polls.
    pub fn run(mut self, eal: &Eal, core: usize, stop: &AtomicBool, ready: impl FnOnce()) -> Result<(), LcoreError> {
        let _lcore = Lcore::register(eal, Some(core))?;
        let mut clock = Clock::new(cycles_per_second(eal));
        let mut outbox = Outbox::<Mbuf>::new(self.tx.len());
        let mut burst = Burst::new();
        let stats = Arc::clone(self.switch.stats());
        let mut idle = 0;
        ready();
        while !stop.load(Relaxed) {
            let now = clock.now();
            let busy = self.round(now, &mut burst, &mut outbox);
            stats.polls.add(1);
            if busy {
                stats.busy_polls.add(1);
                idle = 0;
                continue;
            }
            self.switch.tick(now);
            idle = u32::saturating_add(idle, 1);
            if idle > PATIENCE {
                std::thread::yield_now();
            }
        }
        self.switch.finish();
        Ok(())
    }

    /// One burst from each queue. Whether there was any packet.
    #[inline(always)]
    fn round(&mut self, now: Nanos, burst: &mut Burst, outbox: &mut Outbox<Mbuf>) -> bool {
        let mut busy = false;
        self.tx.iter_mut().for_each(TxQueue::flush);
        for (port, queue) in &mut self.rx {
            queue.receive(burst);
            if burst.is_empty() {
                continue;
            }
            busy = true;
            self.switch.process(*port, burst, now, outbox);
            send(&mut self.tx, &self.switch, outbox);
        }
        busy
    }
}

/// Hands every queue of the outbox to its port. What does not get out is counted with the port it was for: a full queue, a
/// port without a link, or a frame that the device refused.
#[inline(always)]
fn send(tx: &mut [TxQueue], switch: &Switch, outbox: &mut Outbox<Mbuf>) {
    for (port, frames) in outbox.queues() {
        let stats = switch.stats().port(port);
        let offered = frames.len();
        let sent = tx.get_mut(usize::from(port)).map_or(Sent::default(), |queue| queue.transmit(frames));
        stats.tx_packets.add(sent.packets as u64);
        stats.tx_bytes.add(sent.bytes);
        if sent.packets < offered {
            stats.drop(DropReason::TxRefused, (offered - frames.len() - sent.packets) as u64);
            let up = tx.get(usize::from(port)).is_some_and(TxQueue::is_up);
            stats.drop(if up { DropReason::TxFull } else { DropReason::PortDown }, frames.len() as u64);
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
    /// Cycles between two looks at the system's clock: 10 ms.
    interval: u64,
}

impl Clock {
    fn new(hz: u64) -> Self {
        let scale = ((1_000_000_000u128 << 32) / u128::from(hz.max(1))) as u64;
        Self { scale, cycles: cycles(), nanos: wall_clock(), interval: hz / 100 }
    }

    /// Never goes back, also when the system's clock is set.
    #[inline(always)]
    fn now(&mut self) -> Nanos {
        let passed = cycles().wrapping_sub(self.cycles);
        let now = self.nanos + ((u128::from(passed) * u128::from(self.scale)) >> 32) as u64;
        if passed > self.interval {
            self.set_right(now);
        }
        now
    }

    #[cold]
    fn set_right(&mut self, now: Nanos) {
        self.cycles = cycles();
        self.nanos = wall_clock().max(now);
    }
}

fn wall_clock() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as Nanos)
}
