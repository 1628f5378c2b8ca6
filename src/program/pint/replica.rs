//! A replica: the code at the way out, and what it reports where a packet leaves the network.

use std::any::Any;
use std::sync::Arc;

use super::dataplane::{Coded, MAX_HOPS, Measured, Scheme};
use super::encoding::switch_id;
use super::record::{Arrival, Digests, Room};
use super::{Config, Pint};
use crate::pisa::hash::HashFamily;
use crate::pisa::{BatchOrder, Disposition, HashUse, Phv, Probe, ProgramUse, StageUse};
use crate::program::{AnyRecord, Bank, Dataplane, Needs, Program, ReportBuffer};
use crate::wire::shim::MAX_HOP;
use crate::wire::{FiveTuple, Fragment};

/// PINT on one core.
pub struct Replica {
    scheme: Arc<Scheme>,
    own: Coded,
    name: Arc<str>,
    reports: ReportBuffer<Arrival>,
    limit: u32,
    room: Room,
}

impl Replica {
    pub fn new(config: &Config, hashes: &HashFamily) -> Self {
        let scheme = Arc::new(config.scheme(hashes));
        Self {
            own: scheme.switch(0),
            scheme,
            name: "".into(),
            reports: ReportBuffer::with_capacity(0),
            limit: config.reports,
            room: Room::of(config),
        }
    }

    /// Writes the digest of a packet that leaves, and reports it where it leaves to a host.
    #[inline(always)]
    fn packet(&mut self, phv: &mut Phv) {
        let counted = phv.enters || phv.headers.shim;
        if !counted || phv.headers.fragment != Fragment::Whole {
            // The number of switches before this one is not known, or packets before it had another
            // identity. The highest count says so to all switches behind.
            phv.shim = phv.shim.with_hop(MAX_HOP);
            return;
        }
        let hops = phv.shim.hop();
        let measured = Measured { hop: hops, identity: phv.identity, latency_ns: phv.latency_ns };
        phv.digest = self.scheme.encode(&self.own, measured, phv.digest);
        if phv.disposition == Disposition::ToHost
            && usize::from(hops) <= MAX_HOPS
            && let Some(flow) = FiveTuple::of(&phv.headers)
        {
            let time_ns = phv.egress_ns;
            self.reports.push(Arrival { time_ns, flow, hops, identity: phv.identity, digest: phv.digest });
        }
    }
}

impl Dataplane for Replica {
    fn ingress(&mut self, _: &mut [Phv], _: BatchOrder) {}

    fn trace(&mut self, _: &mut Phv, _: &mut dyn Probe) {}

    fn needs(&self) -> Needs {
        let needs = Needs::DIGEST | Needs::IDENTITY | Needs::TIME | Needs::SHIM;
        if self.scheme.latency().is_some() { needs | Needs::LATENCY } else { needs }
    }

    fn egress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        phvs.iter_mut().for_each(|phv| self.packet(phv));
    }

    fn trace_egress(&mut self, phv: &mut Phv, _: &mut dyn Probe) {
        self.packet(phv);
    }

    fn name_switch(&mut self, name: &str) {
        self.own = self.scheme.switch(switch_id(name));
        self.name = name.into();
    }

    fn spare(&self) -> Box<dyn Bank> {
        let reports = ReportBuffer::with_capacity(self.limit as usize);
        Box::new(ReplicaBank { reports, scheme: self.scheme.clone(), room: self.room, name: self.name.clone() })
    }

    fn exchange(&mut self, _: &mut dyn Bank) {}

    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = (spare as &mut dyn Any).downcast_mut::<ReplicaBank>() {
            std::mem::swap(&mut self.reports, &mut spare.reports);
        }
    }

    fn usage(&self) -> ProgramUse {
        let hash = |name, bits, added| HashUse { name, bits, added };
        let mut chains = Vec::new();
        if let Some(path) = self.scheme.path() {
            let each = |hashes: &[HashUse]| {
                let all = (0..path.instances()).flat_map(|_| hashes.iter().cloned());
                StageUse::hashing(all.collect())
            };
            let packet = ["packet for g", "packet for h"].map(|name| hash(name, 32, false));
            let middle = ["layer, first", "g, first", "h, first"].map(|name| hash(name, 32, true));
            let last = [hash("layer", 32, true), hash("g", 32, true), hash("h", path.bits(), true)];
            chains.push(vec![
                StageUse::hashing(vec![hash("identity", 32, false)]),
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
        if self.scheme.latency().is_some() {
            // One identity serves all chains.
            let first = match self.scheme.path() {
                Some(_) => StageUse::default(),
                None => StageUse::hashing(vec![hash("identity", 32, false)]),
            };
            // The latency is computed beside the hashes; its code is looked up, then written.
            let acts = three(first, ["packet for g of latency", "g of latency, first", "g of latency"], 32);
            chains.push([acts, vec![StageUse::default(), StageUse::default()]].concat());
            let rounds = ["packet for rounding", "rounding, first", "rounding"];
            chains.push(three(StageUse::default(), rounds, 4));
        }
        if self.scheme.sets() > 1 {
            chains.push(three(StageUse::default(), ["packet for q", "q, first", "q"], 32));
        }
        let reports = Some(ReportBuffer::<Arrival>::usage(self.limit));
        ProgramUse { program: Pint::NAME, chains, reports }
    }
}

/// What was reported in one epoch.
struct ReplicaBank {
    reports: ReportBuffer<Arrival>,
    scheme: Arc<Scheme>,
    room: Room,
    name: Arc<str>,
}

impl Bank for ReplicaBank {
    fn clear(&mut self) {
        self.reports.clear();
    }

    fn record(&self) -> AnyRecord {
        Box::new(Digests::of(&self.scheme, self.room, &self.reports.read()).at(&self.name))
    }
}
