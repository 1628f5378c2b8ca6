//! A replica: the code at the way out, and what it reports where a packet leaves the network, or
//! comes back.

use std::any::Any;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::dataplane::{Coded, MAX_HOPS, Measured, Scheme};
use super::encoding::switch_id;
use super::loops::dataplane::{Carried, Checked, LoopCode};
use super::loops::record::Looped;
use super::parameters::Coding;
use super::query::Value;
use super::record::{Arrival, Digests, PlanUse, PlanUses, Room};
use super::sample::Sampled;
use super::utilisation::link::Links;
use super::utilisation::ports::Ports;
use super::values::dataplane::{Codes, ValueCode};
use super::{Config, Pint, PlanParameters};
use crate::pisa::hash::HashFamily;
use crate::pisa::{AccessTrace, BatchOrder, CellTrace, Disposition, HashUse, Phv, Probe, ProgramUse, StageUse};
use crate::program::{AnyRecord, Bank, Dataplane, Derived, Needs, Program, ReportBuffer, Schedule};
use crate::wire::shim::{EPOCH_BITS, MAX_HOP, epoch_of};
use crate::wire::{FiveTuple, Fragment};

/// Plans that a replica knows at a time: that of the running epoch, one before it, and one to come.
const PLANS: usize = 3;
/// Beside a digest packets carry four bits of their epoch's number, which tell it from those that
/// are so much older.
const OLD: u32 = 16;

/// PINT on one core.
pub struct Replica {
    family: HashFamily,
    /// Their codes, which the controller's end of the schedule works out.
    schedule: Derived<Coding>,
    /// By the epoch from which on they hold. A plan that is alone also holds for packets of earlier
    /// epochs.
    plans: ArrayVec<InForce, PLANS>,
    epochs: Epochs,
    name: Arc<str>,
    /// The utilisations of links. They outlive epochs.
    ports: Ports,
    reports: Sampled,
    loops: ReportBuffer<Looped>,
    limit: u32,
    room: Room,
}

/// A plan, and how this switch writes by it.
struct InForce {
    /// The epoch, as packets carry it.
    from: u32,
    coding: Arc<Coding>,
    own: Coded,
    /// Where it asks for utilisations.
    links: Option<Links>,
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
    fn new(from: u32, coding: &Arc<Coding>, name: &str) -> Self {
        let coding = coding.clone();
        let own = coding.scheme.switch(switch_id(name));
        let links = coding.parameters.query(Value::Utilisation).map(|query| query.links);
        Self { from, coding, own, links }
    }

    /// Reports a packet that came back here, if it carries the loop query.
    #[inline(always)]
    fn check_loop(&self, phv: &mut Phv, measured: Measured, reports: &mut ReportBuffer<Looped>) {
        let carried = Carried { digest: phv.digest, matches: phv.shim.loops() };
        let checked = self.coding.scheme.check_loop(&self.own, measured, carried);
        let Some(Checked { carried, is_loop }) = checked else { return };
        (phv.digest, phv.shim) = (carried.digest, phv.shim.with_loops(carried.matches));
        if is_loop && let Some(flow) = FiveTuple::of(&phv.headers) {
            let Measured { hop: hops, identity, .. } = measured;
            reports.push(Looped { time_ns: phv.egress_ns, flow, hops, identity });
        }
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

impl Replica {
    /// It follows the plans of `schedule`.
    pub fn new(config: &Config, hashes: &HashFamily, schedule: &Schedule<Pint>) -> Self {
        let family = hashes.clone();
        let mut schedule =
            schedule.derived(move |parameters: &PlanParameters| Coding::new(parameters.clone(), &family));
        let start = InForce::new(0, schedule.at(0), "");
        let mut replica = Self {
            family: hashes.clone(),
            schedule,
            plans: [start].into_iter().collect(),
            epochs: Epochs::default(),
            name: "".into(),
            ports: Ports::default(),
            reports: Sampled::new(hashes, 0),
            loops: ReportBuffer::with_capacity(0),
            limit: config.reports,
            room: Room::of(config),
        };
        replica.keep_ports();
        replica
    }

    /// Plans have changed: there are registers for the links of each.
    fn keep_ports(&mut self) {
        self.ports.keep(self.plans.iter().filter_map(|plan| plan.links));
    }

    /// The links that a packet's plan asks about.
    #[inline(always)]
    fn links(&self, phv: &Phv) -> Option<Links> {
        plan_at(&self.plans, phv.shim.epoch())?.links
    }

    /// Writes the digest of a packet that leaves, and reports it where it leaves to a host.
    /// `utilisation` is that of the link that it leaves by.
    #[inline(always)]
    fn packet(&mut self, phv: &mut Phv, utilisation: u32) {
        let counted = phv.enters || phv.headers.shim;
        let plan = plan_at(&self.plans, phv.shim.epoch()).filter(|plan| counted && plan.coding.scheme.sets() > 0);
        let Some(plan) = plan.filter(|_| phv.headers.fragment == Fragment::Whole) else {
            // The number of switches before this one is not known, packets before it had another
            // identity, or the plan is not known yet. The highest count says so to all switches behind.
            phv.shim = phv.shim.with_hop(MAX_HOP);
            return;
        };
        let hops = phv.shim.hop();
        let measured = measured(phv, utilisation);
        phv.digest = plan.coding.scheme.encode(&plan.own, measured, phv.digest);
        plan.check_loop(phv, measured, &mut self.loops);
        if phv.disposition == Disposition::ToHost
            && usize::from(hops) <= MAX_HOPS
            && let Some(flow) = FiveTuple::of(&phv.headers)
        {
            let (time_ns, plan) = (phv.egress_ns, plan.coding.id);
            let arrival = Arrival { time_ns, plan, flow, hops, identity: phv.identity, digest: phv.digest };
            self.reports.report(arrival);
        }
    }

    /// The plan of all packets of these epochs.
    fn plan_of(&self, first: u64, last: u64) -> PlanUse {
        let [first, last] = [first, last].map(epoch_of);
        let id = |epoch| plan_at(&self.plans, epoch).map_or(PlanUse::Unknown, |plan| PlanUse::All(plan.coding.id));
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

    /// Also the latency, which the plan of now may not ask for and a later one does. Queues and times
    /// only as long as a plan in force asks for them.
    fn needs(&self) -> Needs {
        let needs = Needs::DIGEST | Needs::IDENTITY | Needs::TIME | Needs::SHIM | Needs::LATENCY;
        let asked = self.plans.iter().flat_map(|plan| plan.coding.scheme.values());
        asked.fold(needs, |needs, code| match code.value {
            Value::Queue | Value::Congestion => needs | Needs::QUEUE_DEPTH,
            Value::IngressTime => needs | Needs::HELD,
            _ => needs,
        })
    }

    #[inline(always)]
    fn egress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        // Where another program has them here, packets that end in the switch come as well.
        for phv in phvs.iter_mut().filter(|phv| phv.disposition.leaves()) {
            let utilisation = if self.ports.is_empty() { 0 } else { self.ports.packet(phv, self.links(phv)) };
            self.packet(phv, utilisation);
        }
    }

    /// Tells of the registers of links, and what each query's bits of the digest were and are. A packet
    /// that is not measured has no stage of the digest.
    fn trace_egress(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        if !phv.disposition.leaves() {
            return;
        }
        let before = if phv.shim.hop() == 1 { 0 } else { phv.digest };
        let utilisation = self.ports.trace(phv, self.links(phv), probe);
        self.packet(phv, utilisation);
        let hops = phv.shim.hop();
        let plan = plan_at(&self.plans, phv.shim.epoch()).filter(|_| usize::from(hops) <= MAX_HOPS);
        let Some(Coding { scheme, .. }) = plan.map(|plan| &*plan.coding) else { return };
        probe.stage();
        for part in scheme.parts(phv.identity) {
            let [before, after] = [before, phv.digest].map(|digest| format!("{:#06x}", part.of(digest)));
            let output = format!("switch {hops} of its way, the digest is {:#06x}", phv.digest);
            let cell = CellTrace { slot: part.shift, before, after, output };
            let array = format!("digest, {}", part.value.name());
            probe.access(AccessTrace { array, hash_bits: 0, cell: Some(cell) });
        }
    }

    fn allocate(&mut self) {
        self.ports.allocate();
        let mut bank = self.spare();
        self.exchange(bank.as_mut());
        self.exchange_egress(bank.as_mut());
    }

    fn name_switch(&mut self, name: &str) {
        self.plans.iter_mut().for_each(|plan| plan.own = plan.coding.scheme.switch(switch_id(name)));
        self.name = name.into();
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
        let coding = self.schedule.at(epoch);
        if plan_at(&self.plans, at).is_none_or(|plan| plan.coding.parameters != coding.parameters) {
            let next = InForce::new(at, coding, &self.name);
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
            None => {
                let start = InForce::new(epoch_of(epoch), self.schedule.at(epoch), &self.name);
                self.plans.clear();
                self.plans.push(start);
                self.keep_ports();
            }
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
        let (family, name) = (self.family.clone(), self.name.clone());
        Box::new(ReplicaBank { reports, loops, family, room: self.room, name, plans: PlanUses::default() })
    }

    fn exchange(&mut self, _: &mut dyn Bank) {
        self.epochs.ended = self.epochs.running.map(|running| (self.epochs.began, running));
    }

    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = (spare as &mut dyn Any).downcast_mut::<ReplicaBank>() {
            std::mem::swap(&mut self.reports, &mut spare.reports);
            std::mem::swap(&mut self.loops, &mut spare.loops);
            if let Some((first, last)) = self.epochs.ended {
                let next = last + 1;
                let entered = self.epochs.running >= Some(next);
                let of_next = if entered { self.plan_of(next, next) } else { PlanUse::Unknown };
                spare.plans = PlanUses { epoch: self.plan_of(first, last), next: of_next };
            }
        }
    }

    fn usage(&self) -> ProgramUse {
        let hash = |name, bits, added| HashUse { name, bits, added };
        let identity = || StageUse::hashing(vec![hash("identity", 32, false)]);
        let mut chains = Vec::new();
        let scheme = self.plans.first().map(|plan| &plan.coding.scheme);
        if let Some(path) = scheme.and_then(Scheme::path) {
            let each = |hashes: &[HashUse]| {
                let all = (0..path.instances()).flat_map(|_| hashes.iter().cloned());
                StageUse::hashing(all.collect())
            };
            let packet = ["packet for g", "packet for h"].map(|name| hash(name, 32, false));
            let middle = ["middle CRC of layer", "middle CRC of g", "middle CRC of h"].map(|name| hash(name, 32, true));
            let last = [hash("layer", 32, true), hash("g", 32, true), hash("h", path.bits(), true)];
            chains.push(vec![
                identity(),
                each(&packet),
                each(&middle),
                each(&last),
                StageUse::default(),
                StageUse::default(),
            ]);
        }
        let three = |first: StageUse, name: [&'static str; 3], bits| {
            vec![
                first,
                StageUse::hashing(vec![hash(name[0], 32, false)]),
                StageUse::hashing(vec![hash(name[1], 32, true)]),
                StageUse::hashing(vec![hash(name[2], bits, true)]),
            ]
        };
        // The utilisation counts its own stages, which end with the digest; to be of hops it takes the
        // hashes that choose one beside these.
        let codes = scheme.map_or(&[][..], Scheme::values).iter();
        let is_apart = |code: &&ValueCode| code.value != Value::Utilisation || code.aggregation.is_of_hops();
        let codes: Vec<_> = codes.filter(is_apart).collect();
        for code in &codes {
            // One identity serves all chains.
            let first = if chains.is_empty() { identity() } else { StageUse::default() };
            // The value is known beside the hashes; its code is looked up, then written.
            let [packet, middle, last] = hash_names(code.value);
            let acts = if code.aggregation.is_of_hops() {
                three(first, [packet, middle, last], 32)
            } else {
                vec![first, StageUse::default(), StageUse::default(), StageUse::default()]
            };
            chains.push([acts, vec![StageUse::default(), StageUse::default()]].concat());
        }
        if !codes.is_empty() {
            let rounds = ["packet for rounding", "middle CRC of rounding", "rounding"];
            let bits = if codes.iter().all(|code| matches!(code.codes(), Codes::Times(_))) { 4 } else { 32 };
            chains.push(three(StageUse::default(), rounds, bits));
        }
        let loops = scheme.and_then(Scheme::loops);
        if let Some(bits) = loops.map(LoopCode::bits) {
            let first = if chains.is_empty() { identity() } else { StageUse::default() };
            let acts = three(first, ["packet for g of loops", "middle CRC of g of loops", "g of loops"], 32);
            // The comparison with the digest, then the write.
            chains.push([acts, vec![StageUse::default(), StageUse::default()]].concat());
            chains.push(three(
                StageUse::default(),
                ["packet for h of loops", "middle CRC of h of loops", "h of loops"],
                bits,
            ));
        }
        if let Some(ports) = self.ports.usage() {
            chains.push(ports);
            if let [only] = &mut chains[..] {
                only[0].hashes.push(hash("identity", 32, false));
            }
        }
        if scheme.is_some_and(|scheme| scheme.sets() > 1) {
            chains.push(three(StageUse::default(), ["packet for q", "middle CRC of q", "q"], 32));
        }
        // A report of a loop is counted as wide as one of a digest, which is a little wider.
        let more = if loops.is_some() { self.room.loops as u32 } else { 0 };
        let reports = Some(ReportBuffer::<Arrival>::usage(self.limit + more));
        ProgramUse { program: Pint::NAME, chains, reports }
    }
}

/// The hashes that choose the hop whose value a packet carries.
fn hash_names(value: Value) -> [&'static str; 3] {
    match value {
        Value::Latency => ["packet for g of latency", "middle CRC of g of latency", "g of latency"],
        Value::Queue => ["packet for g of queue", "middle CRC of g of queue", "g of queue"],
        Value::Congestion => ["packet for g of congestion", "middle CRC of g of congestion", "g of congestion"],
        Value::IngressPort => ["packet for g of ingress port", "middle CRC of g of ingress port", "g of ingress port"],
        Value::EgressPort => ["packet for g of egress port", "middle CRC of g of egress port", "g of egress port"],
        Value::IngressTime => ["packet for g of ingress time", "middle CRC of g of ingress time", "g of ingress time"],
        Value::Utilisation => ["packet for g of utilisation", "middle CRC of g of utilisation", "g of utilisation"],
        // They have hashes of their own.
        Value::Path | Value::Loops => ["packet for g", "middle CRC of g", "g"],
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
}

impl Bank for ReplicaBank {
    fn clear(&mut self) {
        self.reports.clear();
        self.loops.clear();
        self.plans = PlanUses::default();
    }

    fn record(&self) -> AnyRecord {
        let digests = Digests::of(&self.family, self.room, &self.reports.read());
        Box::new(digests.with_loops(&self.loops.read()).planned(self.plans).at(&self.name))
    }
}
