//! The program as the switch holds it: the hash units, the counters and their banks.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::counter::Counter;
use super::dataplane::{Add, Counted};
use super::hashes::{EpochConstants, Place, SLOT};
use super::record::{Fragment, Part, Shape};
use super::{Config, Cuts, DiSketch, SketchKind, Unit};
use crate::pisa::{
    Array, ArrayCells, BATCH, Banked, BatchOrder, Layout, Phv, Pipeline, Probe, Registers, Side, Slot, Stage,
};
use crate::program::{AnyRecord, Bank, Coverage, Dataplane, Needs, Program, Schedule, SettingReader, SubEpoch};
use crate::wire::{FlowKey, Net, Tuple4};

/// Fields of packets that are read beside the key.
const READS: &[&str] = &["ip.version", "phv.wire_bytes"];
const SINGLE_HOP_READS: &[&str] = &["ip.version", "phv.wire_bytes", "phv.enters", "phv.disposition"];

/// The state of the running epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Now {
    constants: EpochConstants,
    /// The binary logarithm of the number of sub-epochs.
    cuts: u32,
    sub_epoch: u32,
}

impl Now {
    /// Whether a flow is counted at this place now. Single hops are counted half an epoch later as well.
    #[inline(always)]
    fn samples(&self, place: Place, is_single_hop: bool) -> bool {
        let away = place.sub_epoch(self.cuts) ^ self.sub_epoch;
        away == 0 || is_single_hop && away == (1 << self.cuts) >> 1
    }
}

/// A replica with counters `C`.
pub struct FragmentReplica<C: Counter, const SIGNED: bool> {
    shape: Arc<Shape>,
    counters: Stage<Array<Add<C, SIGNED>>>,
    settings: SettingReader<Cuts>,
    now: Now,
    coverage: Coverage,
    /// Room for the CRCs of a batch.
    crcs: Box<[[Slot; BATCH]; 3]>,
}

impl<C: Counter, const SIGNED: bool> FragmentReplica<C, SIGNED> {
    pub fn new(shape: Arc<Shape>, schedule: &Schedule<DiSketch>) -> Self {
        let array = Array::planned("counters", Add::default(), shape.config.width().get()).at(SLOT);
        Self {
            shape,
            counters: Stage(array),
            settings: schedule.setting(),
            now: Now::default(),
            coverage: Coverage::default(),
            crcs: Box::new([[Slot(0); BATCH]; 3]),
        }
    }

    /// Takes packets through; at most [`BATCH`].
    #[inline(always)]
    fn batch(&mut self, phvs: &[Phv], order: BatchOrder) {
        let Self { shape, now, crcs, .. } = self;
        let Shape { config, hashes } = &**shape;
        let mut counted: ArrayVec<Counted, BATCH> = ArrayVec::new();
        if phvs.iter().all(|phv| phv.headers.net == Net::Ipv4) {
            hashes.crcs(phvs, |phv| Tuple4::of(&phv.headers), crcs);
            for (at, phv) in phvs.iter().enumerate() {
                let place = hashes.place_of(crcs, at % BATCH, now.constants);
                if now.samples(place, is_single_hop(config, phv)) {
                    counted.push(packet(config, place, phv));
                }
            }
        } else {
            counted.extend(phvs.iter().filter_map(|phv| sampled(shape, now, phv)));
        }
        self.counters.run(&mut counted, order);
    }

    fn is_at_egress(&self) -> bool {
        self.shape.config.single_hop
    }

    fn trace_through(&mut self, phv: &Phv, probe: &mut dyn Probe) {
        if let Some(mut packet) = sampled(&self.shape, &self.now, phv) {
            self.counters.trace(&mut packet, probe);
        }
    }

    fn swap(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = spare.get_mut::<FragmentBank<C, SIGNED>>() {
            self.counters.exchange(&mut spare.counters);
            spare.coverage = self.coverage;
        }
    }
}

/// A packet that comes from a host and leaves to one.
#[inline(always)]
fn is_single_hop(config: &Config, phv: &Phv) -> bool {
    config.single_hop && phv.enters && phv.disposition.leaves_network()
}

#[inline(always)]
fn packet(config: &Config, place: Place, phv: &Phv) -> Counted {
    let weight = if config.count == Unit::Packets { 1 } else { phv.wire_bytes };
    Counted { slot: place.slot, weight, is_negative: place.is_negative }
}

/// The packet as the counters see it, if it is counted now.
#[inline(always)]
fn sampled(shape: &Shape, now: &Now, phv: &Phv) -> Option<Counted> {
    let Shape { config, hashes } = shape;
    let place = hashes.join(hashes.of_headers(&phv.headers)?, now.constants);
    now.samples(place, is_single_hop(config, phv)).then(|| packet(config, place, phv))
}

impl<C: Counter, const SIGNED: bool> Dataplane for FragmentReplica<C, SIGNED> {
    #[inline(always)]
    fn ingress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        if !self.is_at_egress() {
            phvs.chunks(BATCH).for_each(|phvs| self.batch(phvs, order));
        }
    }

    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        if !self.is_at_egress() {
            self.trace_through(phv, probe);
        }
    }

    fn needs(&self) -> Needs {
        let egress = if self.is_at_egress() { Needs::EGRESS } else { Needs::NONE };
        Needs::SUB_EPOCHS | egress
    }

    #[inline(always)]
    fn egress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        if self.is_at_egress() {
            phvs.chunks(BATCH).for_each(|phvs| self.batch(phvs, order));
        }
    }

    fn trace_egress(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        if self.is_at_egress() {
            self.trace_through(phv, probe);
        }
    }

    fn enter(&mut self, epoch: u64, fresh: bool) {
        // Counters that run on are filled as before.
        if fresh {
            let cuts = self.settings.at(epoch).0;
            self.now = Now { constants: self.shape.hashes.constants(epoch), cuts, sub_epoch: 0 };
        }
    }

    fn sub_epochs(&self) -> u32 {
        1 << self.now.cuts
    }

    fn enter_sub_epoch(&mut self, sub_epoch: SubEpoch, fresh: bool) {
        self.coverage.enter(sub_epoch, fresh);
        self.now.sub_epoch = sub_epoch.index;
    }

    fn spare(&self) -> Box<dyn Bank> {
        Box::new(FragmentBank::<C, SIGNED> {
            shape: self.shape.clone(),
            counters: self.counters.zeroed(),
            coverage: Coverage::default(),
        })
    }

    fn exchange(&mut self, spare: &mut dyn Bank) {
        if !self.is_at_egress() {
            self.swap(spare);
        }
    }

    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        if self.is_at_egress() {
            self.swap(spare);
        }
    }

    fn layout(&self) -> Layout {
        let Shape { config, hashes } = &*self.shape;
        let mut stages = hashes.usage(config);
        self.counters.usage(&mut stages);
        let (side, reads) = if self.is_at_egress() { (Side::Egress, SINGLE_HOP_READS) } else { (Side::Ingress, READS) };
        let layout = Layout::new(DiSketch::NAME).with(side, stages);
        Layout { reads: reads.into(), other_hashes: hashes.of_ipv6(), ..layout }
    }
}

/// The counters of one sub-epoch.
struct FragmentBank<C: Counter, const SIGNED: bool> {
    shape: Arc<Shape>,
    counters: Registers<C>,
    coverage: Coverage,
}

impl<C: Counter, const SIGNED: bool> Bank for FragmentBank<C, SIGNED> {
    fn clear(&mut self) {
        self.counters.clear();
        self.coverage = Coverage::default();
    }

    fn record(&self) -> AnyRecord {
        let mut is_full = false;
        let read = |&counter: &C| {
            let (number, full) = counter.held(SIGNED);
            let held = number.clamp(i32::MIN.into(), i32::MAX.into());
            is_full |= full || held != number;
            held as i32
        };
        let counters = self.counters.cells().iter().map(read).collect();
        let mut fragment = Fragment::new(self.shape.clone());
        fragment.parts.push(Part::new(self.coverage, is_full, counters));
        Box::new(fragment)
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        vec![self.counters.read()]
    }
}

/// The replica of this shape.
pub(super) fn build(shape: Arc<Shape>, schedule: &Schedule<DiSketch>) -> Box<dyn Dataplane> {
    fn of<C: Counter>(shape: Arc<Shape>, schedule: &Schedule<DiSketch>) -> Box<dyn Dataplane> {
        match shape.config.sketch {
            SketchKind::Count => Box::new(FragmentReplica::<C, true>::new(shape, schedule)),
            SketchKind::CountMin => Box::new(FragmentReplica::<C, false>::new(shape, schedule)),
        }
    }
    match shape.config.counter_bits {
        8 => of::<u8>(shape, schedule),
        16 => of::<u16>(shape, schedule),
        _ => of::<u32>(shape, schedule),
    }
}
