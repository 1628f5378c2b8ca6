//! The program as the switch holds it: classifier and upstream encoder in ingress, downstream
//! encoder in egress.

use std::ops::Range;
use std::sync::Arc;

use super::bank::{ChameleMonBank, Counters, of_width};
use super::batch::{Hashing, NOWHERE};
use super::dataplane::{COUNTERS, ClassTable, Counter, MAX_LEVELS, Meta, PartTable, Row, Tower, class};
use super::hashes::{self, Hashes};
use super::layout;
use super::names::Names;
use super::parameters::{EncoderParameters, Shape, counter_slots, part};
use super::{Config, Level, Schedule, Width};
use crate::pisa::hash::{HashFamily, HighSlots, SlotRange};
use crate::pisa::table::Reader;
use crate::pisa::{
    Array, ArrayCells, ArrayGroup, BATCH, Banked, BatchOrder, Disposition, Layout, Members, Phv, Pipeline, Probe,
    Repeat, Slot, Stage, StageUse,
};
use crate::program::{Bank, Dataplane, Needs, ProgramError, Steps, StrayRegisters};
use crate::wire::{Net, shim};

/// No epoch: no packet carries it.
const CLOSED: u32 = u32::MAX;

/// One counter array of the classifier.
pub(super) enum TowerStage {
    Bits8(Stage<Array<Tower<u8>>>),
    Bits16(Stage<Array<Tower<u16>>>),
    Bits32(Stage<Array<Tower<u32>>>),
}

impl TowerStage {
    /// Array number `number`.
    fn new(number: u8, width: Width, slots: HighSlots) -> Self {
        fn stage<C: Counter>(number: u8, slots: HighSlots) -> Stage<Array<Tower<C>>> {
            let hash = hashes::tower(number.into()).within(SlotRange::High(slots));
            Stage(Array::planned("tower", Tower::new(number), slots.slots.get()).at(hash))
        }
        match width {
            Width::Bits8 => Self::Bits8(stage(number, slots)),
            Width::Bits16 => Self::Bits16(stage(number, slots)),
            Width::Bits32 => Self::Bits32(stage(number, slots)),
        }
    }

    /// Counts packets in these counters, and lowers the estimates to the sizes that these tell. An array
    /// without memory leaves what is there.
    #[inline(always)]
    pub fn count(&mut self, counters: &[Slot], estimates: &mut [u32]) {
        of_width!(self, stage => count(stage, counters, estimates));
    }
}

#[inline(always)]
fn count<C: Counter>(stage: &mut Stage<Array<Tower<C>>>, counters: &[Slot], estimates: &mut [u32]) {
    let mut counts = [C::INFINITY; BATCH];
    let counts = &mut counts[..counters.len().min(BATCH)];
    stage.with_slots(counters, &Meta::default(), counts);
    for (estimate, count) in estimates.iter_mut().zip(counts) {
        *estimate = count.size().min(*estimate);
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

    fn read(bank: &Counters, to: &mut Vec<ArrayCells>) {
        to.push(bank.cells());
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
        let hash = hashes::row(number).within(SlotRange::Parts(part(cells)));
        Stage(ArrayGroup::planned(name, Row(number as u8), cells).at(hash))
    };
    Repeat((0..shape.rows()).map(row).collect())
}

/// The tables behind the classifier, by the parameters of an epoch.
fn class_table(parameters: &EncoderParameters, shape: &Shape) -> ClassTable {
    let parts = parameters.upstream(shape);
    ClassTable {
        hh_threshold: parameters.hh_threshold,
        hl_threshold: parameters.hl_threshold,
        sample: parameters.sample,
        sample_seed: parameters.sample_seed,
        carried: ClassTable::carried(&parts),
        parts: PartTable::new(&parts),
    }
}

/// ChameleMon in one switch.
pub struct ChameleMonDataplane {
    shape: Shape,
    hashing: Hashing,
    tower: Repeat<TowerStage>,
    upstream: Encoder,
    downstream: Encoder,
    gate: ClassTable,
    /// The parts that encode packets which leave, by the packets' epoch bit.
    downstream_parts: [PartTable; 2],
    /// The epoch that is counted in each of these, as packets carry it.
    open: [u32; 2],
    /// The parameters by epoch bit, the bit of the running epoch, and what the next one begins
    /// with.
    parameters_by_bit: [EncoderParameters; 2],
    bit: bool,
    /// The running epoch, and the one that its parameters have been looked up for.
    epoch: Option<u64>,
    prepared: Option<u64>,
    schedule: Reader<Steps<EncoderParameters>>,
    /// Packets that left in a class or epoch that has no part.
    strays: StrayRegisters,
    /// Packets that went on without their class, and those that became several which nobody
    /// follows.
    unmarked: u64,
    unfollowed: u64,
    /// IPv6 flows that entered, and the room for those of an epoch.
    names: Names,
    max_names: u32,
}

impl ChameleMonDataplane {
    /// # Errors
    /// If the configuration is out of range.
    pub fn new(config: &Config, hashes: &HashFamily) -> Result<Self, ProgramError> {
        config.validate()?;
        let (shape, parameters) = (config.shape(), config.parameters());
        let hashes = Arc::new(Hashes::new(hashes, config.tower.0.len(), shape.rows() as usize));
        let levels = &config.tower.0;
        let slots = |level: &Level| counter_slots(level.counters);
        let hashing = Hashing::new(hashes, levels.iter().map(|level| slots(level).range()).take(MAX_LEVELS).collect());
        Ok(Self {
            shape,
            hashing,
            tower: Repeat((0..).zip(levels).map(|(i, level)| TowerStage::new(i, level.width, slots(level))).collect()),
            upstream: encoder("upstream", &shape, |row| shape.cells(row, shape.upstream)),
            downstream: encoder("downstream", &shape, |row| 2 * shape.cells(row, shape.downstream)),
            gate: class_table(&parameters, &shape),
            downstream_parts: [false, true].map(|bit| PartTable::new(&parameters.downstream(&shape, bit))),
            parameters_by_bit: [parameters; 2],
            bit: false,
            epoch: None,
            prepared: None,
            schedule: Schedule::new(config.clone(), parameters).reader(),
            open: [0, 1],
            strays: StrayRegisters::default(),
            unmarked: 0,
            unfollowed: 0,
            names: Names::with_room(0),
            max_names: config.names,
        })
    }

    /// Takes its parameters from there from now on.
    pub fn follow(&mut self, schedule: &Schedule) {
        self.schedule = schedule.reader();
    }

    /// The parameters that packets entering now are measured with.
    pub fn parameters(&self) -> &EncoderParameters {
        &self.parameters_by_bit[usize::from(self.bit)]
    }

    fn set_downstream_parts(&mut self, epoch: u64, parameters: EncoderParameters) {
        let bit = epoch & 1 == 1;
        self.open[usize::from(bit)] = shim::epoch_of(epoch);
        self.parameters_by_bit[usize::from(bit)] = parameters;
        self.downstream_parts[usize::from(bit)] = PartTable::new(&parameters.downstream(&self.shape, bit));
    }

    fn close_downstream_parts(&mut self, bit: bool) {
        self.downstream_parts[usize::from(bit)] = Default::default();
        self.open[usize::from(bit)] = CLOSED;
    }

    #[inline(always)]
    fn enter_batch(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        self.hashing.enter(phvs, |phv| phv.enters);
        self.hashing.find_counters();
        let len = self.hashing.batch.len;
        match order {
            BatchOrder::PacketMajor => {
                for at in 0..len {
                    self.enter_together(at..at + 1, phvs);
                }
            }
            BatchOrder::StageMajor | BatchOrder::Fastest => self.enter_together(0..len, phvs),
        }
        if self.hashing.batch.has_digests {
            self.hashing.batch.name(phvs, &mut self.names);
        }
    }

    /// Takes these packets of the batch through, stage by stage.
    #[inline(always)]
    fn enter_together(&mut self, packets: Range<usize>, phvs: &mut [Phv]) {
        let batch = &mut *self.hashing.batch;
        batch.count(&mut self.tower.0, packets.clone());
        batch.classify(&self.gate, packets.clone());
        batch.mark(packets.clone(), phvs);
        batch.encode(&mut self.upstream, packets);
    }

    /// Takes the packets of a batch that leave through the egress stages.
    #[inline(always)]
    fn leave_batch(&mut self, phvs: &[Phv], as_entered: bool, order: BatchOrder) {
        self.leaving(phvs, as_entered);
        let batch = &mut *self.hashing.batch;
        match order {
            BatchOrder::PacketMajor => {
                for at in 0..batch.len {
                    batch.encode(&mut self.downstream, at..at + 1);
                }
            }
            BatchOrder::StageMajor | BatchOrder::Fastest => batch.encode(&mut self.downstream, 0..batch.len),
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

    /// The packets of a batch that leave and carry a class, each with its buckets; others among them are
    /// not encoded. One of an epoch that is not counted now is a stray. One of several is counted as
    /// such: what became of the others is not known.
    #[inline(always)]
    fn leaving(&mut self, phvs: &[Phv], as_entered: bool) {
        let in_place = self.hashing.all_leave_again(phvs, as_entered);
        if !in_place {
            let uncertain = |phv: &Phv| matches!(phv.disposition, Disposition::Unmarked | Disposition::Untracked);
            if phvs.iter().any(uncertain) {
                self.count_uncertain(phvs);
            }
            self.hashing.take_again(phvs, |phv| {
                (phv.shim.class() != class::NONE) & phv.disposition.leaves_network() & (phv.headers.net != Net::Other)
            });
            self.hashing.batch.read_shims(phvs);
        }
        let batch = &mut *self.hashing.batch;
        if !batch.locate_leaving(&self.downstream_parts, self.open) {
            self.count_strays(phvs);
        }
    }

    /// Counts the packets of the batch that leave with a class and are not encoded.
    #[cold]
    fn count_strays(&mut self, phvs: &[Phv]) {
        let batch = &*self.hashing.batch;
        for (at, &place) in batch.places.iter().enumerate().take(batch.len) {
            let is_stray = |phv: &&Phv| phv.shim.class() != class::NONE && !batch.is_encoded(at);
            let Some(phv) = phvs.get(usize::from(place)).filter(is_stray) else { continue };
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
        if phvs.len() > BATCH {
            self.hashing.forget_entered();
        }
    }

    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        self.hashing.take(std::slice::from_ref(phv), |phv| phv.enters);
        self.hashing.find_counters();
        let batch = &mut *self.hashing.batch;
        if batch.len > 0 {
            let mut meta = batch.meta(0);
            self.tower.trace(&mut meta, probe);
            batch.set_estimate(0, meta.estimate);
            batch.classify(&self.gate, 0..1);
            batch.mark(0..1, std::slice::from_mut(phv));
            self.upstream.trace(&mut batch.meta(0), probe);
            batch.name(std::slice::from_ref(phv), &mut self.names);
        }
    }

    fn needs(&self) -> Needs {
        Needs::ENDS | Needs::TRANSIT
    }

    #[inline(always)]
    fn egress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        for phvs in phvs.chunks(BATCH) {
            self.leave_batch(phvs, false, order);
        }
    }

    #[inline(always)]
    fn egress_as_entered(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        if phvs.len() <= BATCH {
            self.leave_batch(phvs, true, order);
        } else {
            self.run_egress(phvs, order);
        }
    }

    fn trace_egress(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        self.leaving(std::slice::from_ref(phv), false);
        let batch = &*self.hashing.batch;
        let carries = phv.shim.class() != class::NONE;
        for at in (0..batch.len).filter(|at| carries && batch.places[*at] != NOWHERE) {
            self.downstream.trace(&mut batch.meta(at), probe);
        }
    }

    fn count_ambiguous(&mut self, epoch: u64, packets: u64) {
        if packets > 0 {
            self.strays.count(shim::epoch_of(epoch), packets);
        }
    }

    fn prepare(&mut self, epoch: u64) {
        let parameters = *self.schedule.load().at(epoch);
        self.set_downstream_parts(epoch, parameters);
        self.prepared = Some(epoch);
    }

    fn enter(&mut self, epoch: u64, fresh: bool) {
        let before = *self.parameters();
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
        self.gate = class_table(self.parameters(), &self.shape);
    }

    fn spare(&self) -> Box<dyn Bank> {
        Box::new(ChameleMonBank {
            tower: self.tower.zeroed(),
            upstream: self.upstream.zeroed(),
            downstream: self.downstream.zeroed(),
            shape: self.shape,
            hashes: self.hashing.hashes.clone(),
            parameters_by_bit: self.parameters_by_bit,
            bit: false,
            strays: StrayRegisters::default(),
            unmarked: 0,
            unfollowed: 0,
            names: Names::with_room(self.max_names as usize),
        })
    }

    fn exchange(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = spare.get_mut::<ChameleMonBank>() {
            self.tower.exchange(&mut spare.tower);
            self.upstream.exchange(&mut spare.upstream);
            std::mem::swap(&mut spare.names, &mut self.names);
            spare.parameters_by_bit = self.parameters_by_bit;
            spare.bit = self.bit;
        }
    }

    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = spare.get_mut::<ChameleMonBank>() {
            self.downstream.exchange(&mut spare.downstream);
            spare.parameters_by_bit = self.parameters_by_bit;
            std::mem::swap(&mut spare.strays, &mut self.strays);
            spare.unmarked = std::mem::take(&mut self.unmarked);
            spare.unfollowed = std::mem::take(&mut self.unfollowed);
            if self.epoch.is_some() {
                self.close_downstream_parts(!self.bit);
            }
        }
    }

    fn layout(&self) -> Layout {
        layout::of(&self.tower, &self.upstream, &self.downstream, self.max_names)
    }
}
