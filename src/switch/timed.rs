//! Programs that are timed: what the live worker wraps around each, and no other driver.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::{BURST, Switch, Telemetry};
use crate::pisa::{BatchOrder, DropAt, DropReason, Layout, Phv, Probe};
use crate::program::{Bank, Dataplane, Needs, SubEpoch};
use crate::stats::{ProgramStats, SwitchStats};

/// One burst in this many is timed, and counts for as many. A prime, because bursts of several
/// ports come in turn, and a divisor of their number would time the same ports each time.
const ONE_IN: u64 = 17;

/// Longest time of a sample, in cycles. Stages take some hundred cycles a packet, so in a longer
/// sample the worker was interrupted. It is left out, because it does not stand for the others.
const LONGEST: u64 = 1 << 20;

impl Switch {
    /// Counts the cycles of its programs by `clock`, in its statistics, and tells programs that
    /// need it how long packets take in the switch. `hz` is the clock's rate. To be called once,
    /// before the switch is driven.
    pub fn time_programs(&mut self, clock: impl Fn() -> u64 + Clone + Send + 'static, hz: u64) {
        self.telemetry.time(&self.stats, clock, hz);
    }
}

impl Telemetry {
    /// As [`Switch::time_programs`], in `stats`.
    pub fn timed(mut self, stats: &SwitchStats, clock: impl Fn() -> u64 + Clone + Send + 'static, hz: u64) -> Self {
        self.time(stats, clock, hz);
        self
    }

    fn time(&mut self, stats: &SwitchStats, clock: impl Fn() -> u64 + Clone + Send + 'static, hz: u64) {
        let programs = std::mem::take(&mut self.programs).into_iter();
        let timed = |program| Box::new(Timed::new(program, stats, clock.clone(), hz)) as Box<dyn Dataplane>;
        self.programs = programs.map(timed).collect();
    }
}

/// A program whose packets are counted, and its cycles on one burst in [`ONE_IN`].
struct Timed<C> {
    program: Box<dyn Dataplane>,
    clock: C,
    stats: Arc<ProgramStats>,
    /// Bursts before the next one that is timed.
    untimed: u64,
    /// The running burst is timed.
    times: bool,
    /// Nanoseconds a cycle, times 2³².
    scale: u64,
    /// The program needs to know how long packets take.
    adds_latency: bool,
    /// When its ingress stages began with the running burst.
    began: u64,
}

impl<C: Fn() -> u64> Timed<C> {
    fn new(program: Box<dyn Dataplane>, stats: &SwitchStats, clock: C, hz: u64) -> Self {
        let stats = stats.program(program.layout().program);
        // The middle burst stands for those around it.
        let scale = ((1_000_000_000u128 << 32) / u128::from(hz.max(1))) as u64;
        let adds_latency = program.needs().contains(Needs::LATENCY);
        Self { program, clock, stats, untimed: ONE_IN / 2, times: false, scale, adds_latency, began: 0 }
    }

    /// What the program needs may have changed, between two bursts.
    fn update_needs(&mut self) {
        self.adds_latency = self.program.needs().contains(Needs::LATENCY);
    }

    #[inline(always)]
    fn begin(&mut self) {
        if self.adds_latency {
            self.began = (self.clock)();
        }
    }

    /// Adds the time since then to the packets' latencies while `stages` run: another program began
    /// at another time.
    #[inline(always)]
    fn with_latency(&mut self, phvs: &mut [Phv], stages: impl FnOnce(&mut Self, &mut [Phv])) {
        if !self.adds_latency {
            return stages(self, phvs);
        }
        let cycles = (self.clock)().saturating_sub(self.began);
        let worked = ((u128::from(cycles) * u128::from(self.scale)) >> 32).try_into().unwrap_or(u32::MAX);
        let held: ArrayVec<u32, BURST> = phvs.iter().map(|phv| phv.latency_ns).take(BURST).collect();
        phvs.iter_mut().for_each(|phv| phv.latency_ns = phv.latency_ns.saturating_add(worked));
        stages(self, phvs);
        phvs.iter_mut().zip(held).for_each(|(phv, held)| phv.latency_ns = held);
    }

    #[inline(always)]
    fn measure(&mut self, stages: impl FnOnce(&mut dyn Dataplane)) {
        if !self.times {
            return stages(self.program.as_mut());
        }
        let since = (self.clock)();
        stages(self.program.as_mut());
        let cycles = (self.clock)().saturating_sub(since);
        if cycles <= LONGEST {
            self.stats.cycles.add(cycles * ONE_IN);
        }
    }
}

/// Every function goes to the program, also those that have a default.
impl<C: Fn() -> u64 + Send> Dataplane for Timed<C> {
    fn set_queue_room(&mut self, bytes: u64) {
        self.program.set_queue_room(bytes);
    }

    fn read_digests(&mut self) {
        self.program.read_digests();
    }

    fn ingress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        self.stats.packets.add(phvs.len() as u64);
        self.times = self.untimed == 0;
        self.untimed = if self.times { ONE_IN - 1 } else { self.untimed - 1 };
        self.begin();
        self.measure(|program| program.run_ingress(phvs, order));
    }

    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        self.stats.packets.add(1);
        self.begin();
        self.program.trace(phv, probe);
    }

    fn needs(&self) -> Needs {
        self.program.needs()
    }

    fn egress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        self.with_latency(phvs, |timed, phvs| timed.measure(|program| program.run_egress(phvs, order)));
    }

    fn egress_as_entered(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        self.with_latency(phvs, |timed, phvs| timed.measure(|program| program.run_egress_as_entered(phvs, order)));
    }

    fn trace_egress(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        let program = |timed: &mut Self, phvs: &mut [Phv]| {
            phvs.iter_mut().for_each(|phv| timed.program.trace_egress(phv, probe));
        };
        self.with_latency(std::slice::from_mut(phv), program);
    }

    fn dropped(&mut self, phv: &Phv, reason: DropReason, at: DropAt) {
        self.program.dropped(phv, reason, at);
    }

    fn count_ambiguous(&mut self, epoch: u64, packets: u64) {
        self.program.count_ambiguous(epoch, packets);
    }

    fn prepare(&mut self, epoch: u64) {
        self.program.prepare(epoch);
        self.update_needs();
    }

    fn enter(&mut self, epoch: u64, fresh: bool) {
        self.program.enter(epoch, fresh);
        self.update_needs();
    }

    fn sub_epochs(&self) -> u32 {
        self.program.sub_epochs()
    }

    fn enter_sub_epoch(&mut self, sub_epoch: SubEpoch, fresh: bool) {
        self.program.enter_sub_epoch(sub_epoch, fresh);
    }

    fn allocate(&mut self) {
        self.program.allocate();
    }

    fn spare(&self) -> Box<dyn Bank> {
        self.program.spare()
    }

    fn exchange(&mut self, spare: &mut dyn Bank) {
        self.program.exchange(spare);
    }

    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        self.program.exchange_egress(spare);
    }

    fn layout(&self) -> Layout {
        self.program.layout()
    }
}

#[cfg(test)]
mod tests;
