//! The program as the switch holds it: one pipeline for each address family, and the bank of their
//! registers.

use std::num::NonZeroU32;

use super::dataplane::{Carry, Cell, For, Insert, Merge};
use super::decoder::{self, Counts, Digests};
use super::key::{Name, SlotKey};
use super::{Config, Scope, Unit};
use crate::pisa::hash::{Digest, HashFamily, HashLayout, SlotHash, SlotRange};
use crate::pisa::{
    Added, Array, ArrayCells, BATCH, BatchOrder, HashUse, Layout, Pairs, Phv, Pipeline, Probe, Registers, Repeat, Side,
    Slot, Stage, StageUse, Then, Vectors, Word,
};
use crate::program::{AnyRecord, Bank, Dataplane, DistinctReports, ReportBuffer};
use crate::wire::{FiveTuple, FlowKey, Net, Tuple4, Tuple6};

type Stages<K, const OWN: usize> = Then<Stage<Array<For<Insert<OWN>, K>>>, Repeat<Stage<Array<For<Merge<OWN>, K>>>>>;

/// The tables of one address family.
struct Family<K: SlotKey, const OWN: usize> {
    stages: Option<Stages<K, OWN>>,
    unit: K::Unit,
    /// Room for a batch.
    carries: Box<[Carry<K, OWN>; BATCH]>,
}

/// Fields of packets that are read beside the key.
const READS: &[&str] = &["ip.version", "phv.wire_bytes", "phv.enters"];

/// What is counted: the unit, and of which packets.
type What = (Unit, Scope);

/// Whether a packet is counted among those of its address family.
#[inline(always)]
fn counts<K: FlowKey>(phv: &Phv, (_, scope): What) -> bool {
    (phv.headers.net == K::NET) & (phv.enters || scope == Scope::Switch)
}

/// What a packet adds to the count of its flow.
#[inline(always)]
fn weight(phv: &Phv, (unit, _): What) -> u32 {
    match unit {
        Unit::Packets => 1,
        Unit::Bytes => phv.wire_bytes,
    }
}

#[inline(always)]
fn carry<K: SlotKey, const OWN: usize>(phv: &Phv, unit: &K::Unit, what: What, vectors: Vectors) -> Carry<K, OWN> {
    // What branches first: across a branch the compiler takes a key apart.
    let count = weight(phv, what);
    let key = K::of_packet(unit, &phv.headers, vectors);
    Carry { own: [key; OWN], key, count, estimate: 0 }
}

/// Names the arrays in budgets and traces.
fn family(net: Net) -> &'static str {
    match net {
        Net::Ipv6 => "ipv6",
        _ => "ipv4",
    }
}

/// Names the stages of an address family to the [`HashFamily`].
pub fn label(net: Net) -> &'static str {
    match net {
        Net::Ipv6 => "hashpipe/ipv6/stage",
        _ => "hashpipe/ipv4/stage",
    }
}

impl<K: SlotKey, const OWN: usize> Family<K, OWN> {
    fn new(config: &Config, slots: u32, prefix: u8, hashes: &HashFamily) -> Self {
        let stages = NonZeroU32::new(slots).map(|n| {
            let (name, key) =
                (family(K::NET), K::FIELDS.iter().map(|field| field.cut(prefix.into())).collect::<Vec<_>>());
            let layout =
                |stage: u32| HashLayout::crc(label(K::NET), stage).over(key.clone()).within(SlotRange::Modulo(n));
            let unit = |layout: &HashLayout| SlotHash::of(layout, hashes);
            let first = layout(0);
            let first = Stage(Array::planned(name, For::new(Insert { hash: unit(&first) }), slots).at(first));
            let later = |layout: HashLayout| {
                Stage(Array::planned(name, For::new(Merge { hash: unit(&layout) }), slots).at(layout))
            };
            Then(first, Repeat((1..config.stages).map(layout).map(later).collect()))
        });
        let none = Carry { own: [K::default(); OWN], key: K::default(), count: 0, estimate: 0 };
        Self { stages, unit: K::unit(prefix), carries: Box::new([none; BATCH]) }
    }

    /// Whether a packet is counted here.
    fn measures(&self, phv: &Phv, what: What) -> bool {
        self.stages.is_some() && counts::<K>(phv, what)
    }

    /// Packet by packet.
    #[inline(always)]
    fn packets(&mut self, phvs: &mut [Phv], what: What) {
        let Some(stages) = &mut self.stages else { return };
        let vectors = Vectors::here();
        for phv in phvs.iter_mut().filter(|phv| counts::<K>(phv, what)) {
            let mut carry = carry(phv, &self.unit, what, vectors);
            stages.packet(&mut carry);
            phv.flow_estimate = carry.estimate;
        }
    }

    fn trace(&mut self, phv: &mut Phv, what: What, probe: &mut dyn Probe) {
        let Some(stages) = self.stages.as_mut().filter(|_| counts::<K>(phv, what)) else { return };
        let vectors = Vectors::here();
        let mut carry = carry(phv, &self.unit, what, vectors);
        stages.trace(&mut carry, probe);
        phv.flow_estimate = carry.estimate;
    }

    /// Stage by stage; at most [`BATCH`] packets.
    #[inline(always)]
    fn batch(&mut self, phvs: &mut [Phv], what: What) {
        let (mut places, mut len) = ([0; BATCH], 0);
        let vectors = Vectors::here();
        for (place, phv) in phvs.iter().enumerate().take(BATCH) {
            if counts::<K>(phv, what) {
                self.carries[len % BATCH] = carry(phv, &self.unit, what, vectors);
                places[len % BATCH] = place;
                len += 1;
            }
        }
        self.run(phvs, len, |at| places[at % BATCH]);
    }

    /// As [`Self::batch`], where all of the packets are counted.
    #[inline(always)]
    fn whole_batch(&mut self, phvs: &mut [Phv], what: What) {
        // A loop for each kind of CPU: in one that decides for each packet, the compiler takes keys apart.
        match (Vectors::here().picks(), Pairs::here()) {
            (Some(picks), _) => self.fill(phvs, what, picks.into()),
            (None, Some(pairs)) => self.fill(phvs, what, pairs.into()),
            (None, None) => self.fill(phvs, what, Vectors::NONE),
        }
        self.run(phvs, phvs.len(), |at| at);
    }

    #[inline(always)]
    fn fill(&mut self, phvs: &[Phv], what: What, vectors: Vectors) {
        for (room, phv) in self.carries.iter_mut().zip(phvs) {
            *room = carry(phv, &self.unit, what, vectors);
        }
    }

    /// Takes the first `len` carries through; `place` is where a carry's PHV stands.
    #[inline(always)]
    fn run(&mut self, phvs: &mut [Phv], len: usize, place: impl Fn(usize) -> usize) {
        let Self { stages: Some(Then(first, later)), carries, .. } = self else { return };
        let mut slots = [Slot(0); BATCH];
        let mut estimate = |at: usize, estimate: u32| {
            if let Some(phv) = phvs.get_mut(place(at)) {
                phv.flow_estimate = estimate;
            }
        };
        let left = first.sift(carries, len, &mut slots, |at, out| estimate(at, out.estimate));
        later.sift(carries, left, &mut slots);
        if OWN > 0 {
            // All are still there, and the later stages have added to it.
            carries.iter().enumerate().take(len).for_each(|(at, carry)| estimate(at, carry.estimate));
        }
    }

    /// The stages as a layout has them. A digest is hashed in a stage of its own before the first.
    fn usage(&self) -> Vec<StageUse> {
        let mut stages = Vec::new();
        let Some(own) = &self.stages else { return stages };
        if K::IS_DIGEST {
            let tuple = if K::NET == Net::Ipv6 { Tuple6::FIELDS } else { Tuple4::FIELDS };
            let digest = HashLayout::standard(Digest::<false>::STANDARD).over(tuple);
            stages.push(StageUse::hashing(vec![HashUse::new(
                "digest of the five-tuple",
                u32::BITS,
                Added::No,
                Some(&digest),
            )]));
        }
        own.usage(&mut stages);
        stages
    }

    fn exchange(&mut self, spare: &mut Tables<K>) {
        if let Some(Then(first, later)) = &mut self.stages {
            let mut spare = spare.0.iter_mut();
            if let Some(spare) = spare.next() {
                first.0.exchange(spare);
            }
            later.0.iter_mut().zip(spare).for_each(|(stage, spare)| stage.0.exchange(spare));
        }
    }
}

/// The registers of one family, first stage first; none when the family is not measured.
#[derive(Clone, Debug)]
pub struct Tables<K: FlowKey + Word>(pub Vec<Registers<Cell<K>>>);

impl<K: FlowKey + Word> Tables<K> {
    fn zeroed(stages: u32, slots: u32) -> Self {
        let stages = if slots == 0 { 0 } else { stages };
        Self((0..stages).map(|_| Registers::zeroed(slots)).collect())
    }
}

/// HashPipe with keys `A` for IPv4 and `B` for IPv6.
pub struct HashPipeDataplane<A: SlotKey, B: SlotKey, const OWN: usize> {
    v4: Family<A, OWN>,
    v6: Family<B, OWN>,
    config: Config,
    /// Where slots do not name flows: the estimate at which a packet reports its own.
    report_at: Option<u32>,
    names: DistinctReports<Name>,
}

impl<A: SlotKey, B: SlotKey, const OWN: usize> HashPipeDataplane<A, B, OWN> {
    pub fn new(config: &Config, hashes: &HashFamily) -> Self {
        Self {
            v4: Family::new(config, config.slots, config.prefix, hashes),
            v6: Family::new(config, config.slots6(), config.prefix6, hashes),
            config: config.clone(),
            report_at: config.report_at(),
            names: DistinctReports::with_room(0),
        }
    }

    /// Reports the packets with which the estimates of their flows reach the count. Out of line, as the
    /// common keys name their flows.
    #[inline(never)]
    fn report(&mut self, phvs: &[Phv], report_at: u32) {
        let (what, vectors) = (self.what(), Vectors::here());
        for phv in phvs {
            let before = phv.flow_estimate.saturating_sub(weight(phv, what));
            if phv.flow_estimate < report_at || before >= report_at {
                continue;
            }
            let hash = match phv.headers.net {
                Net::Ipv4 if self.v4.measures(phv, what) => A::of_packet(&self.v4.unit, &phv.headers, vectors).number(),
                Net::Ipv6 if self.v6.measures(phv, what) => B::of_packet(&self.v6.unit, &phv.headers, vectors).number(),
                _ => continue,
            };
            if let Some(tuple) = FiveTuple::of(&phv.headers) {
                self.names.see(hash as u32, Name(tuple));
            }
        }
    }

    fn what(&self) -> What {
        (self.config.count, self.config.scope)
    }
}

impl<A: SlotKey, B: SlotKey, const OWN: usize> Dataplane for HashPipeDataplane<A, B, OWN> {
    #[inline(always)]
    fn ingress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        let what = self.what();
        // The families share nothing, so their order does not matter.
        if order == BatchOrder::PacketMajor {
            self.v4.packets(phvs, what);
            self.v6.packets(phvs, what);
        } else {
            for phvs in phvs.chunks_mut(BATCH) {
                if phvs.iter().all(|phv| counts::<A>(phv, what)) {
                    self.v4.whole_batch(phvs, what);
                } else {
                    self.v4.batch(phvs, what);
                    self.v6.batch(phvs, what);
                }
            }
        }
        if let Some(report_at) = self.report_at {
            self.report(phvs, report_at);
        }
    }

    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        let what = self.what();
        self.v4.trace(phv, what, probe);
        self.v6.trace(phv, what, probe);
        if let Some(report_at) = self.report_at {
            self.report(std::slice::from_ref(phv), report_at);
        }
    }

    fn spare(&self) -> Box<dyn Bank> {
        Box::new(HashPipeBank::<A, B>::zeroed(&self.config))
    }

    fn exchange(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = spare.get_mut::<HashPipeBank<A, B>>() {
            self.v4.exchange(&mut spare.v4);
            self.v6.exchange(&mut spare.v6);
            std::mem::swap(&mut self.names, &mut spare.names);
        }
    }

    fn layout(&self) -> Layout {
        let (v4, v6) = (self.v4.usage(), self.v6.usage());
        let layout = Layout::new("hashpipe").with(Side::Ingress, v4).with(Side::Ingress, v6);
        let reports = self.report_at.map(|_| ReportBuffer::<Name>::usage(self.config.names()));
        Layout { reads: READS.into(), writes: &["phv.flow_estimate"], reports: reports.into_iter().collect(), ..layout }
    }
}

/// The registers of both families.
pub struct HashPipeBank<A: SlotKey, B: SlotKey> {
    pub v4: Tables<A>,
    pub v6: Tables<B>,
    pub names: DistinctReports<Name>,
}

impl<A: SlotKey, B: SlotKey> HashPipeBank<A, B> {
    pub fn zeroed(config: &Config) -> Self {
        Self {
            v4: Tables::zeroed(config.stages, config.slots),
            v6: Tables::zeroed(config.stages, config.slots6()),
            names: DistinctReports::with_room(config.names() as usize),
        }
    }
}

impl<A: SlotKey, B: SlotKey> Bank for HashPipeBank<A, B> {
    fn clear(&mut self) {
        self.v4.0.iter_mut().for_each(Registers::clear);
        self.v6.0.iter_mut().for_each(Registers::clear);
        self.names.clear();
    }

    fn record(&self) -> AnyRecord {
        let digests = A::IS_DIGEST.then(|| Digests::named(self.names.read()));
        let mut counts = Counts { digests, ..Counts::default() };
        decoder::read_out(&self.v4.0, &mut counts);
        decoder::read_out(&self.v6.0, &mut counts);
        Box::new(counts)
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        let v4 = self.v4.0.iter().map(Registers::read);
        v4.chain(self.v6.0.iter().map(Registers::read)).collect()
    }
}
