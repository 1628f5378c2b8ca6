//! The faults of a queue: set by the port, applied by the worker that has the queue.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::{Engine, FaultSpec, Sealed, Way};
use crate::{
    dpdk::{Burst, Mbuf, cycles},
    port::{PortDrop, checksum, stats::QueueCounters},
    wire::Frame,
};

impl Sealed for Mbuf {
    fn seal(&mut self) {
        if self.needs_checksum() {
            checksum::complete(self.bytes_mut());
            self.set_needs_checksum(false);
        }
    }

    fn set_held_ns(&mut self, held_ns: u32) {
        Mbuf::set_held_ns(self, held_ns);
    }
}

type EngineUpdate = Option<Box<Engine<Mbuf>>>;

/// The port's side.
#[derive(Debug)]
pub(in crate::port) struct FaultPoint {
    /// Grows with each update.
    generation: AtomicU32,
    updates: (Sender<EngineUpdate>, Receiver<EngineUpdate>),
}

impl Default for FaultPoint {
    fn default() -> Self {
        Self { generation: AtomicU32::new(0), updates: bounded(1) }
    }
}

impl FaultPoint {
    /// Sets the faults of the port's queue number `queue`. One caller at a time.
    pub fn set(&self, spec: Option<&FaultSpec>, way: Way, queue: u16, hz: u64) {
        let rules = || spec.iter().flat_map(|spec| &spec.rules).filter(|rule| rule.way == way);
        let update = rules().next().is_some().then(|| Box::new(Engine::new(rules(), queue, hz)));
        // An update that no worker has taken is out of date.
        while self.updates.1.try_recv().is_ok() {}
        let _ = self.updates.0.try_send(update);
        self.generation.fetch_add(1, Ordering::Release);
    }
}

/// The queue's side.
#[derive(Debug)]
pub(in crate::port) struct FaultEnd {
    point: Arc<FaultPoint>,
    counters: Arc<QueueCounters>,
    seen: u32,
    engine: EngineUpdate,
}

impl FaultEnd {
    pub fn new(point: &Arc<FaultPoint>, counters: &Arc<QueueCounters>) -> Self {
        Self { point: point.clone(), counters: counters.clone(), seen: 0, engine: None }
    }

    /// Whether packets must be given to [`Self::pass`].
    #[inline(always)]
    pub fn is_on(&mut self) -> bool {
        let generation = self.point.generation.load(Ordering::Acquire);
        if generation != self.seen {
            self.change(generation);
        }
        self.engine.is_some()
    }

    /// Whether packets are held back. Costs no look at what others write.
    #[inline(always)]
    pub fn holds(&self) -> bool {
        self.held() > 0
    }

    /// Packets that are held back.
    #[inline(always)]
    pub fn held(&self) -> usize {
        self.engine.as_ref().map_or(0, |engine| engine.held())
    }

    /// The same where some rule delays packets, or some are still held back.
    #[inline(always)]
    pub fn delayed(&self) -> Option<usize> {
        let engine = self.engine.as_ref()?;
        (engine.delays() || engine.held() > 0).then(|| engine.held())
    }

    #[cold]
    fn change(&mut self, generation: u32) {
        self.seen = generation;
        match (self.point.updates.1.try_recv(), &mut self.engine) {
            (Ok(Some(mut new)), engine) => {
                if let Some(earlier) = engine {
                    new.take_over(earlier);
                }
                *engine = Some(new);
            }
            (Ok(None), Some(engine)) => engine.disarm(),
            _ => {}
        }
    }

    /// Lets the packets from `from` on meet their faults; what goes on now is left in the burst.
    #[inline(never)]
    pub fn pass(&mut self, burst: &mut Burst, from: usize) {
        let Some(engine) = &mut self.engine else { return };
        let counts = engine.pass(cycles(), burst, from);
        self.counters.lose(PortDrop::FaultDrop, counts.dropped);
        self.counters.lose(PortDrop::FaultOverflow, counts.overflow);
        self.counters.faults.add(&counts);
        if engine.is_idle() {
            self.engine = None;
        }
    }

    /// Drops the packets that are held back; the faults stay.
    pub fn forget(&mut self) {
        let held = self.engine.as_mut().map_or(0, |engine| engine.forget());
        self.counters.lose(PortDrop::FaultHeld, held as u64);
    }
}

impl Drop for FaultEnd {
    fn drop(&mut self) {
        self.forget();
    }
}
