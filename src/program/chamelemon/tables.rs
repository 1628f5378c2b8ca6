//! The program as the switch holds it: classifier and upstream encoder in ingress, downstream
//! encoder in egress.

use std::any::Any;
use std::sync::Arc;

use super::bank::{ChameleMonBank, Counters, of_width};
use super::batch::{Batch, Hashing, NOWHERE};
use super::dataplane::{COUNTERS, ClassTable, Counter, Entry, Meta, Row, Tower, class};
use super::hashes::Hashes;
use super::runtime::{Runtime, Shape, counter_range};
use super::{Config, Schedule, Width};
use crate::pisa::hash::{HashFamily, HighRange};
use crate::pisa::table::Reader;
use crate::pisa::{
    Array, ArrayGroup, BATCH, Banked, BatchOrder, Disposition, HashUse, Members, Phv, Pipeline, Probe, ProgramUse,
    Repeat, Slot, Stage, StageUse,
};
use crate::program::{Bank, Dataplane, Needs, ProgramError, Steps, StrayRegisters};
use crate::wire::{Net, Shim, shim};

/// No epoch: no packet carries it.
const CLOSED: u32 = u32::MAX;

/// One counter array of the classifier.
enum TowerStage {
    Bits8(Stage<Array<Tower<u8>>>),
    Bits16(Stage<Array<Tower<u16>>>),
    Bits32(Stage<Array<Tower<u32>>>),
}

impl TowerStage {
    fn new(level: &super::Level, lane: u8) -> Self {
        fn stage<C: Counter>(lane: u8, range: HighRange) -> Stage<Array<Tower<C>>> {
            Stage(Array::planned("tower", Tower::new(lane, range), range.slots()).hashed(range.bits()))
        }
        let range = counter_range(level.counters);
        match level.width {
            Width::Bits8 => Self::Bits8(stage(lane, range)),
            Width::Bits16 => Self::Bits16(stage(lane, range)),
            Width::Bits32 => Self::Bits32(stage(lane, range)),
        }
    }
}

impl Banked for TowerStage {
    type Bank = Counters;

    fn zeroed(&self) -> Counters {
        match self {
            Self::Bits8(stage) => Counters::Bits8(stage.zeroed()),
            Self::Bits16(stage) => Counters::Bits16(stage.zeroed()),
            Self::Bits32(stage) => Counters::Bits32(stage.zeroed()),
        }
    }

    fn exchange(&mut self, spare: &mut Counters) {
        match (self, spare) {
            (Self::Bits8(stage), Counters::Bits8(spare)) => stage.exchange(spare),
            (Self::Bits16(stage), Counters::Bits16(spare)) => stage.exchange(spare),
            (Self::Bits32(stage), Counters::Bits32(spare)) => stage.exchange(spare),
            _ => {}
        }
    }

    fn clear(bank: &mut Counters) {
        bank.clear();
    }
}

impl Pipeline<Meta> for TowerStage {
    #[inline(always)]
    fn packet(&mut self, phv: &mut Meta) {
        of_width!(self, stage => stage.packet(phv));
    }

    #[inline(always)]
    fn batch(&mut self, phvs: &mut [Meta], members: &mut Members, slots: &mut [Slot; BATCH]) {
        of_width!(self, stage => stage.batch(phvs, members, slots));
    }

    fn trace(&mut self, phv: &mut Meta, probe: &mut dyn Probe) {
        of_width!(self, stage => stage.trace(phv, probe));
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        of_width!(self, stage => stage.usage(stages));
    }
}

pub(super) type Encoder = Repeat<Stage<ArrayGroup<Row, COUNTERS>>>;

fn encoder(name: &'static str, shape: &Shape, cells: impl Fn(u32) -> u32) -> Encoder {
    let row = |number: u32| {
        let cells = cells(number);
        let bits = u32::BITS - cells.saturating_mul(4).leading_zeros();
        Stage(ArrayGroup::planned(name, Row(number as u8), cells).hashed(bits))
    };
    Repeat((0..shape.rows()).map(row).collect())
}

/// The arrays of all these stages side by side, because none depends on another.
fn side_by_side(pipeline: &impl Pipeline<Meta>) -> StageUse {
    let mut stages = Vec::new();
    pipeline.usage(&mut stages);
    StageUse::of(stages.into_iter().flat_map(|stage| stage.arrays).collect())
}

/// The tables behind the classifier, by the parameters of an epoch.
fn class_table(runtime: &Runtime, shape: &Shape) -> ClassTable {
    let parts = runtime.upstream(shape);
    ClassTable {
        hh_threshold: runtime.hh_threshold,
        hl_threshold: runtime.hl_threshold,
        sample: runtime.sample,
        sample_seed: runtime.sample_seed,
        carried: ClassTable::carried(&parts),
        parts: parts.each_ref().map(Entry::new),
    }
}

/// What packets that leave with this epoch bit match, by class.
fn entries(runtime: &Runtime, shape: &Shape, bit: bool) -> [Entry; 4] {
    runtime.downstream(shape, bit).each_ref().map(Entry::new)
}

/// Signs and classifies a packet. A function: the compiler does not inline a closure that has several callers,
/// and the loops would call code without AVX2.
#[inline(always)]
fn mark(gate: &ClassTable, meta: &mut Meta, phv: &mut Phv) {
    // In this loop, for one of its own would be taken through sixteen packets at a time, which takes
    // longer: their fields lie far apart.
    meta.sign();
    phv.shim = phv.shim.with_class(gate.classify(meta));
}

/// What packets that leave match, by epoch bit and class.
type Parts = [[Entry; 4]; 2];

/// Finds the buckets of a packet that leaves, and returns whether it is encoded there.
#[inline(always)]
fn locate(parts: &Parts, open: [u32; 2], meta: &mut Meta, shim: Shim) -> bool {
    let epoch = shim.epoch();
    let half = (epoch & 1) as usize;
    parts[half][usize::from(shim.class() & 3)].locate(meta);
    meta.encoded &= open[half] == epoch;
    meta.encoded
}

/// ChameleMon in one switch.
pub struct ChameleMonDataplane {
    shape: Shape,
    hashing: Hashing,
    tower: Repeat<TowerStage>,
    upstream: Encoder,
    downstream: Encoder,
    gate: ClassTable,
    /// What packets that leave match, by epoch bit and class, and the epoch that is counted there,
    /// as packets carry it.
    downstream_parts: Parts,
    open: [u32; 2],
    /// The parameters by epoch bit, the bit of the running epoch, and what the next one begins
    /// with.
    runtimes: [Runtime; 2],
    bit: bool,
    /// The running epoch, and the one that its parameters have been looked up for.
    epoch: Option<u64>,
    prepared: Option<u64>,
    schedule: Reader<Steps<Runtime>>,
    /// Packets that left in a class or epoch that has no part.
    strays: StrayRegisters,
    /// Packets that went on without their class, and those that became several which nobody
    /// follows.
    unmarked: u64,
    unfollowed: u64,
}

impl ChameleMonDataplane {
    /// # Errors
    /// If the configuration is out of range.
    pub fn new(config: &Config, hashes: &HashFamily) -> Result<Self, ProgramError> {
        config.validate()?;
        let (shape, runtime) = (config.shape(), config.runtime());
        let hashes = Arc::new(Hashes::new(hashes, config.tower.0.len(), shape.rows() as usize));
        let hashing = Hashing::new(hashes);
        let tower_lane = hashing.tower_lane;
        Ok(Self {
            shape,
            hashing,
            tower: Repeat(
                (tower_lane..).zip(&config.tower.0).map(|(lane, level)| TowerStage::new(level, lane)).collect(),
            ),
            upstream: encoder("upstream", &shape, |row| shape.cells(row, shape.upstream)),
            downstream: encoder("downstream", &shape, |row| 2 * shape.cells(row, shape.downstream)),
            gate: class_table(&runtime, &shape),
            downstream_parts: [false, true].map(|bit| entries(&runtime, &shape, bit)),
            runtimes: [runtime; 2],
            bit: false,
            epoch: None,
            prepared: None,
            schedule: Schedule::new(config.clone(), runtime).reader(),
            open: [0, 1],
            strays: StrayRegisters::default(),
            unmarked: 0,
            unfollowed: 0,
        })
    }

    /// Takes its parameters from there from now on.
    pub fn follow(&mut self, schedule: &Schedule) {
        self.schedule = schedule.reader();
    }

    /// The parameters that packets entering now are measured with.
    pub fn runtime(&self) -> &Runtime {
        &self.runtimes[usize::from(self.bit)]
    }

    fn set_downstream_parts(&mut self, epoch: u64, runtime: Runtime) {
        let bit = epoch & 1 == 1;
        self.open[usize::from(bit)] = shim::epoch_of(epoch);
        self.runtimes[usize::from(bit)] = runtime;
        self.downstream_parts[usize::from(bit)] = entries(&runtime, &self.shape, bit);
    }

    fn close_downstream_parts(&mut self, bit: bool) {
        self.downstream_parts[usize::from(bit)] = Default::default();
        self.open[usize::from(bit)] = CLOSED;
    }

    #[inline(always)]
    fn enter_batch(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        self.hashing.take(phvs, |phv| phv.enters);
        let Self { tower, upstream, gate, hashing, .. } = self;
        let Batch { len, metas, places, .. } = &mut *hashing.batch;
        let metas = &mut metas[..*len];
        // A copy, whose fields a loop keeps in CPU registers.
        let gate = *gate;
        match order {
            BatchOrder::PacketMajor => {
                for (meta, &mut place) in metas.iter_mut().zip(places) {
                    tower.packet(meta);
                    if let Some(phv) = phvs.get_mut(usize::from(place)) {
                        mark(&gate, meta, phv);
                    }
                    upstream.packet(meta);
                }
            }
            BatchOrder::StageMajor | BatchOrder::Fastest => {
                tower.run(metas, order);
                if metas.len() == phvs.len() {
                    for (meta, phv) in metas.iter_mut().zip(phvs) {
                        mark(&gate, meta, phv);
                    }
                } else {
                    for (meta, &place) in metas.iter_mut().zip(&places[..]) {
                        if let Some(phv) = phvs.get_mut(usize::from(place)) {
                            mark(&gate, meta, phv);
                        }
                    }
                }
                upstream.run(metas, order);
            }
        }
    }

    /// Counts packets with a class that go on without it, and those that become several.
    #[cold]
    fn count_uncertain(&mut self, phvs: &[Phv]) {
        for phv in phvs.iter().take(BATCH) {
            match (phv.shim.class(), phv.disposition) {
                (class::NONE, _) => {}
                (_, Disposition::Unmarked) => self.unmarked += 1,
                (class, Disposition::Untracked) => self.unfollowed += u64::from(class != class::SEVERAL),
                _ => {}
            }
        }
    }

    /// The packets of a batch that leave and carry a class, each with its buckets. One of an epoch
    /// that is not counted now is a stray. One of several is counted as such: what became of the
    /// others is not known.
    #[inline(always)]
    fn leaving(&mut self, phvs: &[Phv]) {
        let in_place = self.hashing.all_leave_again(phvs);
        if !in_place {
            let uncertain = |phv: &Phv| matches!(phv.disposition, Disposition::Unmarked | Disposition::Untracked);
            if phvs.iter().any(uncertain) {
                self.count_uncertain(phvs);
            }
            self.hashing.take_again(phvs, |phv| {
                (phv.shim.class() != class::NONE) & phv.disposition.leaves_network() & (phv.headers.net != Net::Other)
            });
        }
        let (parts, open) = (&self.downstream_parts, self.open);
        let Batch { len, metas, places, .. } = &mut *self.hashing.batch;
        let len = (*len).min(BATCH);
        let mut counted = true;
        if in_place {
            for (meta, phv) in metas[..len].iter_mut().zip(phvs) {
                counted &= locate(parts, open, meta, phv.shim);
            }
        } else {
            for (meta, &place) in metas[..len].iter_mut().zip(&places[..len]) {
                match phvs.get(usize::from(place)) {
                    Some(phv) => counted &= locate(parts, open, meta, phv.shim),
                    None => meta.encoded = false,
                }
            }
        }
        if !counted {
            self.count_strays(phvs);
        }
    }

    /// Counts the packets of the batch that leave and are not encoded.
    #[cold]
    fn count_strays(&mut self, phvs: &[Phv]) {
        let Batch { len, metas, places, .. } = &*self.hashing.batch;
        for (meta, &place) in metas.iter().take(*len).zip(places) {
            let Some(phv) = phvs.get(usize::from(place)).filter(|_| !meta.encoded) else { continue };
            let epoch = phv.shim.epoch();
            // One of several has no part.
            if self.open[(epoch & 1) as usize] == epoch && phv.shim.class() == class::SEVERAL {
                self.unfollowed += 1;
            } else {
                self.strays.count(epoch, 1);
            }
        }
    }
}

impl Dataplane for ChameleMonDataplane {
    #[inline(always)]
    fn ingress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        for phvs in phvs.chunks_mut(BATCH) {
            self.enter_batch(phvs, order);
        }
    }

    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        self.hashing.take(std::slice::from_ref(phv), |phv| phv.enters);
        if let Some(meta) = self.hashing.batch.metas().first_mut() {
            self.tower.trace(meta, probe);
            meta.sign();
            phv.shim = phv.shim.with_class(self.gate.classify(meta));
            self.upstream.trace(meta, probe);
        }
    }

    fn needs(&self) -> Needs {
        Needs::ENDS
    }

    #[inline(always)]
    fn egress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        for phvs in phvs.chunks(BATCH) {
            self.leaving(phvs);
            self.downstream.run(self.hashing.batch.metas(), order);
        }
    }

    fn trace_egress(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        self.leaving(std::slice::from_ref(phv));
        let Batch { len, metas, places, .. } = &mut *self.hashing.batch;
        let leaving = metas.iter_mut().zip(places).take(*len).filter(|(_, place)| **place != NOWHERE);
        leaving.for_each(|(meta, _)| self.downstream.trace(meta, probe));
    }

    fn confuse(&mut self, epoch: u64, packets: u64) {
        if packets > 0 {
            self.strays.count(shim::epoch_of(epoch), packets);
        }
    }

    fn prepare(&mut self, epoch: u64) {
        let runtime = *self.schedule.load().at(epoch);
        self.set_downstream_parts(epoch, runtime);
        self.prepared = Some(epoch);
    }

    fn enter(&mut self, epoch: u64, fresh: bool) {
        let before = *self.runtime();
        if self.prepared != Some(epoch) {
            self.prepare(epoch);
        }
        self.bit = epoch & 1 == 1;
        if self.epoch.is_none_or(|last| last + 1 != epoch) {
            self.close_downstream_parts(!self.bit);
        }
        self.epoch = Some(epoch);
        if !fresh {
            // Registers that run on keep the parameters that they were filled with.
            self.set_downstream_parts(epoch, before);
        }
        self.gate = class_table(self.runtime(), &self.shape);
    }

    fn spare(&self) -> Box<dyn Bank> {
        Box::new(ChameleMonBank {
            tower: self.tower.zeroed(),
            upstream: self.upstream.zeroed(),
            downstream: self.downstream.zeroed(),
            shape: self.shape,
            hashes: self.hashing.hashes.clone(),
            runtimes: self.runtimes,
            bit: false,
            strays: StrayRegisters::default(),
            unmarked: 0,
            unfollowed: 0,
        })
    }

    fn exchange(&mut self, spare: &mut dyn Bank) {
        let spare: &mut dyn Any = spare;
        if let Some(spare) = spare.downcast_mut::<ChameleMonBank>() {
            self.tower.exchange(&mut spare.tower);
            self.upstream.exchange(&mut spare.upstream);
            spare.runtimes = self.runtimes;
            spare.bit = self.bit;
        }
    }

    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        let spare: &mut dyn Any = spare;
        if let Some(spare) = spare.downcast_mut::<ChameleMonBank>() {
            self.downstream.exchange(&mut spare.downstream);
            spare.runtimes = self.runtimes;
            std::mem::swap(&mut spare.strays, &mut self.strays);
            spare.unmarked = std::mem::take(&mut self.unmarked);
            spare.unfollowed = std::mem::take(&mut self.unfollowed);
            if self.epoch.is_some() {
                self.close_downstream_parts(!self.bit);
            }
        }
    }

    fn usage(&self) -> ProgramUse {
        // An index hash takes three stages: the CRC that all share, the sum, and its halves joined.
        // Those of the encoders' rows come a stage later than those of the classifier, and go along
        // to egress.
        let hash = |name, bits, added| HashUse { name, bits, added };
        let sums = |name, number: usize| vec![hash(name, u32::BITS, true); number];
        let mut encoders = sums("hash of a row", self.upstream.0.len());
        encoders.extend([hash("fingerprint", u32::BITS, true), hash("sampling hash", u32::BITS, true)]);
        let ingress = vec![
            StageUse::hashing(vec![hash("shared hash", u32::BITS, false)]),
            StageUse::hashing(sums("hash of a counter array", self.tower.0.len())),
            StageUse::hashing(encoders),
            side_by_side(&self.tower),
            side_by_side(&self.upstream),
        ];
        let chains = vec![ingress, vec![side_by_side(&self.downstream)]];
        ProgramUse { program: "chamelemon", chains, reports: Vec::new() }
    }
}
