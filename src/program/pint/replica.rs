//! A replica: the code at the way out, and what it reports where a packet leaves the network, or
//! comes back.

pub(super) mod usage;

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::burst::Columns;
use super::dataplane::{MAX_HOPS, Measured};
use super::loops::dataplane::{Carried, Checked};
use super::loops::record::Looped;
use super::prepared::Prepared;
use super::query::Value;
use super::record::{Arrival, Digests, PlanUse, PlanUses, Room};
use super::sample::Sampled;
use super::utilisation::filter::Memory;
use super::utilisation::link::Links;
use super::utilisation::ports::{PLANS, Ports};
use super::{Config, Pint, PlanId, PlanParameters};
use crate::pisa::hash::HashFamily;
use crate::pisa::hash::burst::Words;
use crate::pisa::{AccessTrace, ArrayCells, BATCH, BatchOrder, CellTrace, Disposition, Layout, Phv, Probe};
use crate::program::{AnyRecord, Bank, Dataplane, Derived, Needs, ReportBuffer, Schedule};
use crate::wire::shim::{EPOCH_BITS, MAX_HOP, epoch_of};
use crate::wire::{FiveTuple, Fragment, Net};

/// Beside a digest packets carry four bits of their epoch's number, which tell it from those that
/// are so much older.
const OLD: u32 = 16;

/// PINT on one core.
pub struct Replica {
    family: HashFamily,
    plans_of: Schedule<Pint>,
    /// The same with what follows from each, which the controller's end of the schedule works out.
    schedule: Derived<Prepared>,
    /// By the epoch from which on they hold. A plan that is alone also holds for packets of earlier
    /// epochs.
    plans: ArrayVec<InForce, PLANS>,
    epochs: Epochs,
    name: Arc<str>,
    /// The utilisations of links. They outlive epochs.
    ports: Ports,
    columns: Box<Columns>,
    /// Hosts read the digests of packets that they receive.
    reads_digests: bool,
    reports: Sampled,
    loops: ReportBuffer<Looped>,
    limit: u32,
    room: Room,
}

/// A plan, and from when on it holds.
struct InForce {
    /// The epoch, as packets carry it.
    from: u32,
    prepared: Arc<Prepared>,
}

/// Whose packets are in the registers.
#[derive(Clone, Copy, Debug, Default)]
struct Epochs {
    running: Option<u64>,
    /// The first epoch of the registers in use.
    began: u64,
    /// The first and the last epoch of registers that the ingress stages have done with.
    ended: Option<(u64, u64)>,
    /// The epoch whose plan has been looked up last.
    prepared: Option<u64>,
}

impl InForce {
    fn new(from: u32, prepared: &Arc<Prepared>) -> Self {
        Self { from, prepared: prepared.clone() }
    }

    /// Reports a packet that came back here, if it carries the loop query.
    #[inline(always)]
    fn check_loop(&self, phv: &mut Phv, reports: &mut ReportBuffer<Looped>) {
        let carried = Carried { digest: phv.digest, matches: phv.shim.loops() };
        let (packet, Prepared { coding, own, .. }) = (measured(phv, 0), &*self.prepared);
        let checked = coding.scheme.check_loop(own, packet, carried);
        let Some(Checked { carried, is_loop }) = checked else { return };
        (phv.digest, phv.shim) = (carried.digest, phv.shim.with_loops(carried.matches));
        if is_loop && let Some(flow) = FiveTuple::of(&phv.headers) {
            let Measured { hop: hops, identity, .. } = packet;
            reports.push(Looped { time_ns: phv.egress_ns, flow, hops, identity });
        }
    }
}

/// Whether the switches that a packet passed are counted, and it had one identity in all of them.
#[inline(always)]
fn is_counted(phv: &Phv) -> bool {
    (phv.enters | phv.headers.shim) & (phv.headers.fragment == Fragment::Whole)
}

/// Whether a packet that is counted is reported where it leaves, unless others are chosen.
#[inline(always)]
fn is_reported(phv: &Phv) -> bool {
    let is_last = phv.disposition == Disposition::ToHost;
    is_last & (usize::from(phv.shim.hop()) <= MAX_HOPS) & (phv.headers.net != Net::Other)
}

#[inline(always)]
fn report(phv: &Phv, plan: PlanId, reports: &mut Sampled) {
    let Phv { egress_ns: time_ns, identity, digest, .. } = *phv;
    if let Some(flow) = FiveTuple::of(&phv.headers) {
        reports.report(Arrival { time_ns, plan, flow, hops: phv.shim.hop(), identity, digest });
    }
}

/// A packet at its way out.
#[inline(always)]
fn measured(phv: &Phv, utilisation: u32) -> Measured {
    let Phv { identity, latency_ns, ingress, egress, egress_ns, held_ns, queue_depth, queue_used, .. } = *phv;
    let (hop, ingress_ns, queue_packets) = (phv.shim.hop(), egress_ns.saturating_sub(held_ns.into()), queue_depth);
    Measured { hop, identity, latency_ns, utilisation, ingress, egress, ingress_ns, queue_packets, queue_used }
}

/// Whether an epoch is that one or a later one, both as packets carry them.
#[inline(always)]
fn is_since(from: u32, epoch: u32) -> bool {
    epoch_of(u64::from(epoch.wrapping_sub(from))) < 1 << (EPOCH_BITS - 1)
}

/// The plan of packets of an epoch, as they carry it. `None` for packets that are older than the
/// plans that are known.
#[inline(always)]
fn plan_at(plans: &[InForce], epoch: u32) -> Option<&InForce> {
    match plans {
        [only] => Some(only),
        _ => plans.iter().rev().find(|plan| is_since(plan.from, epoch)),
    }
}

/// What follows from the plans of a schedule for a switch with this name, with registers that have
/// memory or without.
fn prepared(schedule: &Schedule<Pint>, hashes: &HashFamily, name: &str, allocated: bool) -> Derived<Prepared> {
    let (family, name) = (hashes.clone(), name.to_owned());
    let of = move |parameters: &PlanParameters| Prepared::new(parameters, &family, &name, allocated);
    schedule.derived(of)
}

impl Replica {
    /// It follows the plans of `schedule`.
    pub fn new(config: &Config, switch: &str, hashes: &HashFamily, schedule: &Schedule<Pint>) -> Self {
        let mut replica = Self {
            family: hashes.clone(),
            plans_of: schedule.clone(),
            schedule: prepared(schedule, hashes, switch, false),
            plans: ArrayVec::new(),
            epochs: Epochs::default(),
            name: switch.into(),
            ports: Ports::default(),
            columns: Box::default(),
            reads_digests: false,
            reports: Sampled::new(hashes, 0),
            loops: ReportBuffer::with_capacity(0),
            limit: config.reports,
            room: Room::of(config),
        };
        replica.start(0);
        replica
    }

    /// There is one plan, that of this epoch.
    fn start(&mut self, epoch: u64) {
        self.plans.clear();
        self.plans.push(InForce::new(epoch_of(epoch), self.schedule.at(epoch)));
        self.keep_ports();
    }

    /// Plans have changed: there are registers for the links of each.
    fn keep_ports(&mut self) {
        self.ports.keep(self.plans.iter().map(|plan| &plan.prepared));
    }

    /// The links that a packet's plan asks about.
    #[inline(always)]
    fn links(&self, phv: &Phv) -> Option<Links> {
        plan_at(&self.plans, phv.shim.epoch())?.prepared.links()
    }

    /// Takes a burst through, as its packets one by one. False, and nothing done, where packets are
    /// hashed one by one, of few packets, and while packets of several plans are on their way.
    #[inline(always)]
    fn burst(&mut self, phvs: &mut [Phv]) -> bool {
        let Self { plans, ports, columns, reports, loops, reads_digests, .. } = self;
        let [plan] = &plans[..] else { return false };
        let Prepared { coding, own, burst: Some(units), .. } = &*plan.prepared else { return false };
        if phvs.len() < units.least {
            return false;
        }
        let is_known = coding.scheme.sets() > 0;
        let mut identities = Words::default();
        let (mut counted, mut reported) = (0, 0);
        for (place, (phv, identity)) in phvs.iter_mut().zip(identities.as_flattened_mut()).enumerate() {
            *identity = phv.identity;
            let leaves = phv.disposition.leaves();
            if leaves && !(is_known && is_counted(phv)) {
                phv.shim = phv.shim.with_hop(MAX_HOP);
            }
            counted |= u64::from(leaves & (usize::from(phv.shim.hop()) <= MAX_HOPS)) << place;
            reported |= u64::from(is_reported(phv)) << place;
        }
        reported &= counted;
        let mut utilisations = [0; BATCH];
        if !ports.is_empty() {
            let links = plan.prepared.links();
            for (phv, utilisation) in phvs.iter().zip(&mut utilisations) {
                *utilisation = ports.packet(phv, links);
            }
        }
        // The digest of a packet that leaves the network is of use in its report alone, and its loops.
        let is_last = !*reads_digests && coding.scheme.loops().is_none();
        let sample = reports.chooses_within(phvs.len()).filter(|_| is_last && reported != 0);
        if let Some(chosen) = sample.and_then(|sample| sample.of_burst(&identities, phvs.len())) {
            let missed = reported & !chosen;
            reports.miss(missed.count_ones());
            (counted, reported) = (counted & !missed, reported & !missed);
        }
        if counted == 0 {
            return true;
        }
        columns.take(phvs, counted);
        columns.encode(units, &coding.scheme, own, |place, value| {
            phvs.get(place).map_or(0, |phv| measured(phv, utilisations[place % BATCH]).value(value))
        });
        for (place, digest) in columns.digests() {
            let Some(phv) = phvs.get_mut(place) else { break };
            phv.digest = digest;
            plan.check_loop(phv, loops);
            if reported >> place & 1 == 1 {
                report(phv, coding.id, reports);
            }
        }
        true
    }

    /// Writes the digest of a packet that leaves, and reports it where it leaves to a host.
    #[inline(always)]
    fn packet(&mut self, phv: &mut Phv) {
        let utilisation = if self.ports.is_empty() { 0 } else { self.ports.packet(phv, self.links(phv)) };
        self.write(phv, utilisation, self.reads_digests);
    }

    /// The same with the utilisation of the link that it leaves by. `reads`: its digest is read though it
    /// is not reported.
    #[inline(always)]
    fn write(&mut self, phv: &mut Phv, utilisation: u32, reads: bool) {
        let plan = plan_at(&self.plans, phv.shim.epoch()).filter(|plan| plan.prepared.coding.scheme.sets() > 0);
        let Some(plan) = plan.filter(|_| is_counted(phv)) else {
            // The number of switches before this one is not known, packets before it had another
            // identity, or the plan is not known yet. The highest count says so to all switches behind.
            phv.shim = phv.shim.with_hop(MAX_HOP);
            return;
        };
        let Prepared { coding, own, .. } = &*plan.prepared;
        let is_reported = is_reported(phv);
        if is_reported && !reads && coding.scheme.loops().is_none() {
            let sample = self.reports.chooses_within(0);
            if sample.is_some_and(|sample| !sample.has(phv.identity)) {
                return self.reports.miss(1);
            }
        }
        phv.digest = coding.scheme.encode(own, measured(phv, utilisation), phv.digest);
        plan.check_loop(phv, &mut self.loops);
        if is_reported {
            report(phv, coding.id, &mut self.reports);
        }
    }

    /// The plan of all packets of these epochs.
    fn plan_of(&self, first: u64, last: u64) -> PlanUse {
        let [first, last] = [first, last].map(epoch_of);
        let id =
            |epoch| plan_at(&self.plans, epoch).map_or(PlanUse::Unknown, |plan| PlanUse::All(plan.prepared.coding.id));
        let span = epoch_of(u64::from(last.wrapping_sub(first)));
        let begins = |plan: &&InForce| (1..=span).contains(&epoch_of(u64::from(plan.from.wrapping_sub(first))));
        match self.plans.iter().skip(1).find(begins) {
            Some(_) => PlanUse::Several,
            None => id(first).and(id(last)),
        }
    }
}

impl Dataplane for Replica {
    fn ingress(&mut self, _: &mut [Phv], _: BatchOrder) {}

    fn trace(&mut self, _: &mut Phv, _: &mut dyn Probe) {}

    /// Latencies, queues and times of arrival only as long as a plan in force asks for them.
    fn needs(&self) -> Needs {
        let needs = Needs::DIGEST | Needs::IDENTITY | Needs::TIME | Needs::SHIM | Needs::TRANSIT;
        let asked = self.plans.iter().flat_map(|plan| plan.prepared.coding.scheme.values());
        asked.fold(needs, |needs, code| match code.query.value {
            Value::Queue | Value::Congestion => needs | Needs::QUEUE_DEPTH,
            Value::IngressTime => needs | Needs::HELD,
            Value::Latency => needs | Needs::LATENCY,
            Value::Utilisation if self.ports.knows_queues() => needs | Needs::QUEUE_DEPTH,
            _ => needs,
        })
    }

    #[inline(always)]
    fn egress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        for phvs in phvs.chunks_mut(BATCH) {
            if order == BatchOrder::PacketMajor || !self.burst(phvs) {
                // Where another program has them here, packets that end in the switch come as well.
                // A loop: a closure that several callers have is compiled without the CPU's own instructions.
                for phv in phvs.iter_mut().filter(|phv| phv.disposition.leaves()) {
                    self.packet(phv);
                }
            }
        }
    }

    fn read_digests(&mut self) {
        self.reads_digests = true;
    }

    /// Tells of the registers of links, and what each query's bits of the digest were and are. A packet
    /// that is not measured has no stage of the digest.
    fn trace_egress(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        if !phv.disposition.leaves() {
            return;
        }
        let before = if phv.shim.hop() == 1 { 0 } else { phv.digest };
        let utilisation = self.ports.trace(phv, self.links(phv), probe);
        self.write(phv, utilisation, true);
        let hops = phv.shim.hop();
        let plan = plan_at(&self.plans, phv.shim.epoch()).filter(|_| usize::from(hops) <= MAX_HOPS);
        let Some(scheme) = plan.map(|plan| &plan.prepared.coding.scheme) else { return };
        let writes = usage::Writes::of(scheme, self.ports.usage());
        for part in scheme.parts(phv.identity) {
            probe.stage();
            let [before, after] = [before, phv.digest].map(|digest| format!("{:#06x}", part.of(digest)));
            let output = format!("switch {hops} of its way, the digest is {:#06x}", phv.digest);
            let cell = CellTrace { slot: part.shift, before, after, output };
            let array = format!("digest, {}", scheme.name(part));
            let logical = writes.stage(part);
            probe.access(AccessTrace { array, logical, hash_bits: 0, cell: Some(cell), computed: None });
        }
    }

    fn allocate(&mut self) {
        // Follows the plans anew, with memory.
        self.schedule = prepared(&self.plans_of, &self.family, &self.name, true);
        self.ports.keep(std::iter::empty());
        self.start(0);
        let mut bank = self.spare();
        self.exchange(bank.as_mut());
        self.exchange_egress(bank.as_mut());
    }

    fn set_queue_room(&mut self, bytes: u64) {
        self.ports.set_queue_room(bytes);
    }

    fn prepare(&mut self, epoch: u64) {
        self.epochs.prepared = Some(epoch);
        let at = epoch_of(epoch);
        let mut changed = false;
        // Of epochs before these no packet is told apart.
        while self.plans.get(1).is_some_and(|next| is_since(next.from, at.wrapping_sub(OLD))) {
            self.plans.remove(0);
            changed = true;
        }
        let prepared = self.schedule.at(epoch);
        let parameters = &prepared.coding.parameters;
        if plan_at(&self.plans, at).is_none_or(|plan| plan.prepared.coding.parameters != *parameters) {
            let next = InForce::new(at, prepared);
            if self.plans.is_full() {
                self.plans.remove(0);
            }
            self.plans.push(next);
            changed = true;
        }
        if changed {
            self.keep_ports();
        }
    }

    fn enter(&mut self, epoch: u64, fresh: bool) {
        match self.epochs.running {
            // Nothing has been measured by the plan that was there at first.
            None => self.start(epoch),
            Some(_) if self.epochs.prepared != Some(epoch) => self.prepare(epoch),
            Some(_) => {}
        }
        self.epochs.running = Some(epoch);
        if fresh {
            self.epochs.began = epoch;
        }
    }

    fn spare(&self) -> Box<dyn Bank> {
        let reports = Sampled::new(&self.family, self.limit as usize);
        let loops = ReportBuffer::with_capacity(self.room.loops);
        let (family, name, ports) = (self.family.clone(), self.name.clone(), self.ports.zeroed());
        Box::new(ReplicaBank { reports, loops, family, room: self.room, name, plans: PlanUses::default(), ports })
    }

    fn exchange(&mut self, _: &mut dyn Bank) {
        self.epochs.ended = self.epochs.running.map(|running| (self.epochs.began, running));
    }

    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = spare.get_mut::<ReplicaBank>() {
            std::mem::swap(&mut self.reports, &mut spare.reports);
            std::mem::swap(&mut self.loops, &mut spare.loops);
            spare.ports.iter_mut().for_each(|memory| self.ports.copy_to(memory));
            if let Some((first, last)) = self.epochs.ended {
                let next = last + 1;
                let entered = self.epochs.running >= Some(next);
                let of_next = if entered { self.plan_of(next, next) } else { PlanUse::Unknown };
                spare.plans = PlanUses { epoch: self.plan_of(first, last), next: of_next };
            }
        }
    }

    fn layout(&self) -> Layout {
        let ports = self.ports.usage();
        usage::of(self.plans.first().map(|plan| &plan.prepared.coding.scheme), ports, self.limit, self.room)
    }
}

/// What was reported in one epoch.
struct ReplicaBank {
    reports: Sampled,
    loops: ReportBuffer<Looped>,
    plans: PlanUses,
    family: HashFamily,
    room: Room,
    name: Arc<str>,
    /// A copy of the registers of links, which outlive the epoch.
    ports: Option<Memory>,
}

impl Bank for ReplicaBank {
    fn clear(&mut self) {
        self.reports.clear();
        self.loops.clear();
        self.plans = PlanUses::default();
        self.ports.iter_mut().for_each(Memory::clear);
    }

    fn record(&self) -> AnyRecord {
        let (reports, halvings) = self.reports.read();
        let digests = Digests::of(&self.family, self.room, &reports, halvings);
        Box::new(digests.with_loops(&self.loops.read()).planned(self.plans).at(&self.name))
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        self.ports.iter().flat_map(Memory::read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The budget has as many reports of each kind as a bank has places for.
    #[test]
    fn the_budget_is_what_a_bank_takes() {
        let family = HashFamily::reproducible(1);
        for reports in [1, 100, 16_384] {
            let config = Config { reports, ..Config::default() };
            let schedule = Schedule::<Pint>::new(config.clone(), config.parameters());
            let replica = Replica::new(&config, "s", &family, &schedule);
            let mut spare = replica.spare();
            let bank = spare.get_mut::<ReplicaBank>().unwrap();
            let counted: Vec<_> = replica.layout().reports.iter().map(|of| of.reports as usize).collect();
            assert_eq!(counted, [bank.reports.places(), bank.loops.places()]);
        }
    }
}
