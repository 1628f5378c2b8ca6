//! A replica: the code at the way out, and what it reports where a packet leaves the network.

use std::any::Any;
use std::sync::Arc;

use super::dataplane::{Code, Coded, MAX_HOPS};
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
    code: Arc<Code>,
    own: Coded,
    name: Arc<str>,
    reports: ReportBuffer<Arrival>,
    limit: u32,
    room: Room,
}

impl Replica {
    pub fn new(config: &Config, hashes: &HashFamily) -> Self {
        let code = Arc::new(config.code(hashes));
        Self {
            own: code.switch(0),
            code,
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
        phv.digest = self.code.encode(&self.own, hops, phv.identity, phv.digest);
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
        Needs::DIGEST | Needs::IDENTITY | Needs::TIME | Needs::SHIM
    }

    fn egress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        phvs.iter_mut().for_each(|phv| self.packet(phv));
    }

    fn trace_egress(&mut self, phv: &mut Phv, _: &mut dyn Probe) {
        self.packet(phv);
    }

    fn name_switch(&mut self, name: &str) {
        self.own = self.code.switch(switch_id(name));
        self.name = name.into();
    }

    fn spare(&self) -> Box<dyn Bank> {
        let reports = ReportBuffer::with_capacity(self.limit as usize);
        Box::new(ReplicaBank { reports, code: self.code.clone(), room: self.room, name: self.name.clone() })
    }

    fn exchange(&mut self, _: &mut dyn Bank) {}

    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = (spare as &mut dyn Any).downcast_mut::<ReplicaBank>() {
            std::mem::swap(&mut self.reports, &mut spare.reports);
        }
    }

    fn usage(&self) -> ProgramUse {
        let hash = |name, bits, added| HashUse { name, bits, added };
        let each = |hashes: &[HashUse]| {
            let all = (0..self.code.instances()).flat_map(|_| hashes.iter().cloned());
            StageUse::hashing(all.collect())
        };
        let packet = ["packet for g", "packet for h"].map(|name| hash(name, 32, false));
        let middle = ["layer, first", "g, first", "h, first"].map(|name| hash(name, 32, true));
        let last = [hash("layer", 32, true), hash("g", 32, true), hash("h", self.code.bits(), true)];
        let egress = vec![
            StageUse::hashing(vec![hash("identity", 32, false)]),
            each(&packet),
            each(&middle),
            each(&last),
            StageUse::default(),
            StageUse::default(),
        ];
        let reports = Some(ReportBuffer::<Arrival>::usage(self.limit));
        ProgramUse { program: Pint::NAME, chains: vec![egress], reports }
    }
}

/// What was reported in one epoch.
struct ReplicaBank {
    reports: ReportBuffer<Arrival>,
    code: Arc<Code>,
    room: Room,
    name: Arc<str>,
}

impl Bank for ReplicaBank {
    fn clear(&mut self) {
        self.reports.clear();
    }

    fn record(&self) -> AnyRecord {
        Box::new(Digests::of(&self.code, self.room, &self.reports.read()).at(&self.name))
    }
}
