//! The program as the switch holds it: the hash units, the counters and their banks.

use std::marker::PhantomData;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::counter::Counter;
use super::dataplane::{Add, AddInLevel, Counted, CountedInLevels};
use super::hashes::{EpochConstants, Hashes, KeyCrcs, Place, Places, SLOT};
use super::record::{Fragment, Part, Shape};
use super::{Config, Cuts, DiSketch, SketchKind, Unit};
use crate::pisa::{Array, ArrayCells, BATCH, Banked, BatchOrder, Layout, Phv, Pipeline, Probe, Registers, Side, Stage};
use crate::program::{AnyRecord, Bank, Coverage, Dataplane, Needs, Program, Schedule, SettingReader, SubEpoch};
use crate::wire::Net;

/// Fields of packets that are read beside the key.
const READS: &[&str] = &["ip.version", "phv.wire_bytes"];
const SINGLE_HOP_READS: &[&str] = &["phv.enters", "phv.disposition"];
const COVER_READS: &[&str] = &["shim.hop"];

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

/// The arrays of a fragment: one, or one for each level side by side.
trait Rows<P>: Pipeline<P> + Banked + Send + 'static {
    fn planned(shape: &Shape) -> Self;

    /// A packet as the arrays see it.
    fn counted(hashes: &Hashes, crcs: KeyCrcs, place: Place, constants: EpochConstants, weight: u32) -> P;

    /// All counters, and whether one is full.
    fn held(bank: &Self::Bank) -> (Box<[i32]>, bool);
}

impl<C: Counter, const SIGNED: bool> Rows<Counted> for Stage<Array<Add<C, SIGNED>>> {
    fn planned(shape: &Shape) -> Self {
        Self(Array::planned("counters", Add::default(), shape.config.width().get()).at(SLOT))
    }

    #[inline(always)]
    fn counted(_: &Hashes, _: KeyCrcs, place: Place, _: EpochConstants, weight: u32) -> Counted {
        Counted { slot: place.slot, weight, is_negative: place.is_negative }
    }

    fn held(bank: &Registers<C>) -> (Box<[i32]>, bool) {
        held(bank.cells(), SIGNED)
    }
}

impl<C: Counter> Rows<CountedInLevels> for Stage<Vec<Array<AddInLevel<C>>>> {
    fn planned(shape: &Shape) -> Self {
        let Shape { config, hashes } = shape;
        let level = |level: u32| {
            let add = AddInLevel::new(level as u8, hashes.range());
            Array::planned("counters", add, config.width().get()).at(SLOT)
        };
        Self((0..config.sketch.levels()).map(level).collect())
    }

    #[inline(always)]
    fn counted(hashes: &Hashes, crcs: KeyCrcs, _: Place, constants: EpochConstants, weight: u32) -> CountedInLevels {
        CountedInLevels { hashes: hashes.in_levels(crcs, constants), weight }
    }

    fn held(bank: &Vec<Registers<C>>) -> (Box<[i32]>, bool) {
        let (levels, full): (Vec<_>, Vec<_>) = bank.iter().map(|level| held(level.cells(), true)).unzip();
        (levels.concat().into(), full.contains(&true))
    }
}

/// Counters as numbers of 32 bits, and whether one is full.
fn held<C: Counter>(counters: &[C], is_signed: bool) -> (Box<[i32]>, bool) {
    let mut is_full = false;
    let read = |&counter: &C| {
        let (number, full) = counter.held(is_signed);
        let held = number.clamp(i32::MIN.into(), i32::MAX.into());
        is_full |= full || held != number;
        held as i32
    };
    (counters.iter().map(read).collect(), is_full)
}

/// A replica with these arrays.
struct FragmentReplica<P, R: Rows<P>> {
    shape: Arc<Shape>,
    counters: R,
    settings: SettingReader<Cuts>,
    now: Now,
    coverage: Coverage,
    /// Room for a batch.
    places: Box<Places>,
    packets: PhantomData<fn(P)>,
}

impl<P: 'static, R: Rows<P>> FragmentReplica<P, R> {
    pub fn new(shape: Arc<Shape>, schedule: &Schedule<DiSketch>) -> Self {
        let counters = R::planned(&shape);
        Self {
            shape,
            counters,
            settings: schedule.setting(),
            now: Now::default(),
            coverage: Coverage::default(),
            places: Box::default(),
            packets: PhantomData,
        }
    }

    /// Takes packets through. A loop: a closure with two callers would be compiled without AVX2.
    #[inline(always)]
    fn batches(&mut self, phvs: &[Phv], order: BatchOrder) {
        for phvs in phvs.chunks(BATCH) {
            self.batch(phvs, order);
        }
    }

    /// As [`Self::batches`]; at most [`BATCH`].
    #[inline(always)]
    fn batch(&mut self, phvs: &[Phv], order: BatchOrder) {
        let Self { shape, now, places, .. } = self;
        let Shape { config, hashes } = &**shape;
        let mut counted: ArrayVec<P, BATCH> = ArrayVec::new();
        if phvs.iter().all(|phv| phv.headers.net == Net::Ipv4) {
            hashes.locate(phvs, now.constants, places);
            for (at, phv) in phvs.iter().enumerate() {
                let place = moved(config, places.place(at), phv);
                if now.samples(place, is_single_hop(config, phv)) {
                    counted.push(R::counted(hashes, places.crcs(at), place, now.constants, weight(config, phv)));
                }
            }
        } else {
            counted.extend(phvs.iter().filter_map(|phv| sampled::<P, R>(shape, now, phv)));
        }
        self.counters.run(&mut counted, order);
    }

    fn is_at_egress(&self) -> bool {
        self.shape.config.single_hop
    }

    fn trace_through(&mut self, phv: &Phv, probe: &mut dyn Probe) {
        if let Some(mut packet) = sampled::<P, R>(&self.shape, &self.now, phv) {
            self.counters.trace(&mut packet, probe);
        }
    }

    fn swap(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = spare.get_mut::<FragmentBank<P, R>>() {
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

/// 1, or the bytes of the packet.
#[inline(always)]
fn weight(config: &Config, phv: &Phv) -> u32 {
    if config.count == Unit::Packets { 1 } else { phv.wire_bytes }
}

/// Where the flow of a packet is counted, by its place on the path.
#[inline(always)]
fn moved(config: &Config, place: Place, phv: &Phv) -> Place {
    if config.cover { place.moved(phv.shim.hop()) } else { place }
}

/// The packet as the counters see it, if it is counted now.
#[inline(always)]
fn sampled<P, R: Rows<P>>(shape: &Shape, now: &Now, phv: &Phv) -> Option<P> {
    let Shape { config, hashes } = shape;
    let crcs = hashes.of_headers(&phv.headers)?;
    let place = moved(config, hashes.join(crcs, now.constants), phv);
    let is_counted = now.samples(place, is_single_hop(config, phv));
    is_counted.then(|| R::counted(hashes, crcs, place, now.constants, weight(config, phv)))
}

impl<P: 'static, R: Rows<P>> Dataplane for FragmentReplica<P, R> {
    #[inline(always)]
    fn ingress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        if !self.is_at_egress() {
            self.batches(phvs, order);
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
            self.batches(phvs, order);
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
        Box::new(FragmentBank::<P, R> {
            shape: self.shape.clone(),
            counters: self.counters.zeroed(),
            coverage: Coverage::default(),
            packets: PhantomData,
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
        let side = if self.is_at_egress() { Side::Egress } else { Side::Ingress };
        let single_hop = if config.single_hop { SINGLE_HOP_READS } else { &[] };
        let cover = if config.cover { COVER_READS } else { &[] };
        let reads = [READS, single_hop, cover].concat();
        let layout = Layout::new(DiSketch::NAME).with(side, stages);
        Layout { reads, other_hashes: hashes.of_ipv6(), ..layout }
    }
}

/// The counters of one sub-epoch.
struct FragmentBank<P, R: Rows<P>> {
    shape: Arc<Shape>,
    counters: R::Bank,
    coverage: Coverage,
    packets: PhantomData<fn(P)>,
}

impl<P: 'static, R: Rows<P>> Bank for FragmentBank<P, R> {
    fn clear(&mut self) {
        R::clear(&mut self.counters);
        self.coverage = Coverage::default();
    }

    fn record(&self) -> AnyRecord {
        let (counters, is_full) = R::held(&self.counters);
        let mut fragment = Fragment::new(self.shape.clone());
        fragment.parts.push(Part::new(self.coverage, is_full, counters));
        Box::new(fragment)
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        let mut arrays = Vec::new();
        R::read(&self.counters, &mut arrays);
        arrays
    }
}

/// The replica of this shape.
pub(super) fn build(shape: Arc<Shape>, schedule: &Schedule<DiSketch>) -> Box<dyn Dataplane> {
    fn of<C: Counter>(shape: Arc<Shape>, schedule: &Schedule<DiSketch>) -> Box<dyn Dataplane> {
        match shape.config.sketch {
            SketchKind::Count => Box::new(FragmentReplica::<_, Stage<Array<Add<C, true>>>>::new(shape, schedule)),
            SketchKind::CountMin => Box::new(FragmentReplica::<_, Stage<Array<Add<C, false>>>>::new(shape, schedule)),
            SketchKind::UnivMon => {
                Box::new(FragmentReplica::<_, Stage<Vec<Array<AddInLevel<C>>>>>::new(shape, schedule))
            }
        }
    }
    match shape.config.counter_bits {
        8 => of::<u8>(shape, schedule),
        16 => of::<u16>(shape, schedule),
        _ => of::<u32>(shape, schedule),
    }
}
