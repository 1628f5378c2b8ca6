//! A telemetry program of one's own with arrays side by side and random numbers: CocoSketch, which
//! finds heavy flows, or heavy sources from the same buckets. docs/program.md explains its stages.
//!
//! *Paper:* Zhang, Liu, Wang, Yang, Li, Chen, Ben Basat, Tarkoma, Jiang: "CocoSketch: High-Performance
//! Sketch-based Measurement over Arbitrary Partial Key Query", SIGCOMM 2021. It is the version for
//! hardware (§4.2).
//!
//! *Shape:* d arrays of w buckets, side by side. A packet goes to one bucket of each array, at a slot that
//! the array's hash of its five-tuple names. It adds 1 to the bucket's count, and with the probability
//! 1 / count its five-tuple takes the bucket's place for the key.
//!
//! *Guarantee:* in one array the estimate of a flow is the count of its bucket if the bucket has its key,
//! else 0. It is right in the mean, and so is the sum over all flows of a source. With N packets in all,
//! its variance is at most f N / w for a flow or source with f packets. The answer is the median over the
//! arrays, of two the mean.
//!
//! *Memory:* 352 bits a bucket.
//!
//! *Deviations:*
//! - The probability is taken by logarithms from tables (`weir::pisa::chance`), and is off by at most a
//!   30th of itself, in the mean over counts by less than 0.3 %.
//! - The paper merges buckets by drawing one of their keys. Here a record has a count for each key of an
//!   array, and records add up, which is right in the mean as well.
//! - A counter stays at 2³² − 1, and an estimate with one is at least that many.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use weir::answers::{FlowCount, FlowName, FoundFlows};
use weir::history::Reason;
use weir::pisa::hash::{HashFamily, IndexSlots};
use weir::pisa::{Array, ArrayGroup, Compute, Draws, Excess, GroupRegisters, GroupSalu, Phv, Registers};
use weir::pisa::{Salu, Slot, Stage, Step, Then, chance};
use weir::program::bytes::{MAX_U64, Reader, Writer};
use weir::program::*;
use weir::wire::{FiveTuple, Flow};

const MAX_ARRAYS: usize = 4;
const MAX_BUCKETS: u32 = 1 << 24;

/// The key that packets are counted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    #[default]
    Flow,
    Source,
}

impl By {
    pub fn name(self, flow: &Flow) -> Flow {
        match self {
            Self::Flow => *flow,
            Self::Source => Flow { src: flow.src, ..Flow::default() },
        }
    }
}

/// Parameters, as the configuration file and `--program` give them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Arrays side by side.
    #[schemars(range(min = 1, max = MAX_ARRAYS))]
    pub arrays: u32,
    /// Buckets an array.
    #[schemars(range(min = 1, max = MAX_BUCKETS))]
    pub buckets: u32,
    /// The key that packets are counted by.
    pub by: By,
}

impl Default for Config {
    fn default() -> Self {
        Self { arrays: 3, buckets: 8192, by: By::Flow }
    }
}

/// The slot of a flow in each array.
pub fn slots(config: &Config, family: &HashFamily) -> IndexSlots<MAX_ARRAYS> {
    let arrays: Vec<_> = (0..config.arrays).map(|array| ("coco_sketch/array", array, config.buckets)).collect();
    IndexSlots::new(family, "coco_sketch/shared", &arrays).over(FiveTuple::FIELDS)
}

/// The random numbers of a packet, one an array.
pub fn draws(config: &Config, family: &HashFamily) -> Draws<MAX_ARRAYS> {
    Draws::new(family, "coco_sketch/draws", "coco_sketch/draw", config.arrays as usize)
}

/// A packet as the stages see it.
#[derive(Clone, Copy)]
pub struct Packet {
    tuple: FiveTuple,
    slots: [u32; MAX_ARRAYS],
    draws: [u32; MAX_ARRAYS],
    counts: [u32; MAX_ARRAYS],
    takes: [bool; MAX_ARRAYS],
}

/// The counts of an array.
#[derive(Clone, Copy)]
pub struct Count(usize);

impl Salu for Count {
    type Phv = Packet;
    type Cell = u32;
    type Out = u32;

    fn slot(&self, packet: &Packet) -> Slot {
        Slot(packet.slots[self.0])
    }

    fn rmw(&self, count: u32, _: &Packet) -> (u32, u32) {
        (count.saturating_add(1), count.saturating_add(1))
    }

    fn commit(&self, count: u32, packet: &mut Packet) {
        packet.counts[self.0] = count;
    }
}

/// Decides in which of this number of arrays the packet takes the bucket.
#[derive(Clone, Copy)]
pub struct Take(usize);

impl Compute for Take {
    type Phv = Packet;

    fn compute(&self, packet: &mut Packet) {
        for array in 0..self.0 {
            packet.takes[array] = chance::happens(packet.draws[array], 1, packet.counts[array]);
        }
    }

    fn describe(&self, packet: &Packet) -> String {
        let arrays: Vec<_> = (1..).zip(packet.takes).filter(|(_, takes)| *takes).map(|(array, _)| array).collect();
        if arrays.is_empty() { "no bucket".into() } else { format!("the buckets of arrays {arrays:?}") }
    }
}

/// The keys of an array's buckets, a register array for each word.
#[derive(Clone, Copy)]
pub struct Key(usize);

impl GroupSalu<5> for Key {
    type Phv = Packet;
    type Cell = u64;

    fn enabled(&self, packet: &Packet) -> bool {
        packet.takes[self.0]
    }

    fn slot(&self, packet: &Packet) -> Slot {
        Slot(packet.slots[self.0])
    }

    fn rmw(&self, word: usize, _: u64, packet: &Packet) -> u64 {
        packet.tuple.0[word]
    }
}

/// Counts and keys, array by array.
pub type Memory = (Vec<Registers<u32>>, ((), Vec<GroupRegisters<u64, 5>>));

/// What leaves a switch at the end of an epoch: of each array the keys with their counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    config: Config,
    pub arrays: Vec<BTreeMap<FiveTuple, Counted>>,
}

impl Sketch {
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone(), arrays: vec![BTreeMap::new(); config.arrays as usize] }
    }

    pub fn read_out(&self, (counts, ((), keys)): &Memory) -> Self {
        let mut sketch = Self::new(&self.config);
        for ((array, counts), keys) in sketch.arrays.iter_mut().zip(counts).zip(keys) {
            for (&count, &key) in counts.cells().iter().zip(keys.cells()).filter(|(count, _)| **count > 0) {
                *array.entry(FiveTuple(key)).or_default() += Counted::of_register(count);
            }
        }
        sketch
    }

    /// The flows or sources, each with its estimate.
    pub fn found(&self, by: By) -> FoundFlows {
        let mut estimates = BTreeMap::<Flow, [Counted; MAX_ARRAYS]>::new();
        for (at, array) in self.arrays.iter().enumerate() {
            for (key, count) in array {
                estimates.entry(by.name(&key.flow())).or_default()[at] += *count;
            }
        }
        let (arrays, middle) = (self.arrays.len(), self.arrays.len() / 2);
        let median = |(flow, mut counts): (Flow, [Counted; MAX_ARRAYS])| {
            let counts = &mut counts[..arrays];
            counts.sort_unstable();
            let (low, high) = (counts[(arrays - 1) / 2], counts[middle]);
            let number = low.number.midpoint(high.number);
            FlowCount { flow: FlowName::Flow(flow), count: Counted { number, at_least: low.at_least | high.at_least } }
        };
        let flows = estimates.into_iter().map(median).filter(|flow| flow.count.number > 0).collect();
        FoundFlows { flows, lack: [Reason::BelowThreshold].into_iter().collect(), ..FoundFlows::default() }
    }

    pub fn decode(mut self, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(1)?;
        for array in &mut self.arrays {
            let number = from.number("the number of keys")?;
            let key = |from: &mut Reader<'_>| {
                let key = FiveTuple::from_bytes(from.take("a key")?);
                let number = from.number("a count")?;
                match from.take("whether it is at least that")? {
                    [mark @ (0 | 1)] => Ok((key, Counted { number, at_least: mark == 1 })),
                    _ => from.wrong("whether a count is at least that", "0 or 1"),
                }
            };
            *array = from.ascending("a key", number, key)?.into_iter().collect();
        }
        from.end().map(|()| self)
    }
}

impl Record for Sketch {
    const PROGRAM: &'static str = CocoSketch::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.config != other.config {
            return Err(MergeError::Shape { program: CocoSketch::NAME, what: "parameters" });
        }
        for (array, other) in self.arrays.iter_mut().zip(&other.arrays) {
            other.iter().for_each(|(key, count)| *array.entry(*key).or_default() += *count);
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut to = Writer(vec![1]);
        for array in &self.arrays {
            to.number(array.len() as u64);
            for (key, count) in array {
                to.bytes(&key.bytes());
                to.number(count.number);
                to.bytes(&[count.at_least.into()]);
            }
        }
        to.0
    }
}

/// The program.
pub enum CocoSketch {}

impl Program for CocoSketch {
    const NAME: &'static str = "coco_sketch";
    type Config = Config;
    type Parameters = ();
    type Setting = ();
    type Record = Sketch;
    type Analysis = HeavyAnalysis<Sketch>;

    fn validate(config: &Config) -> Result<(), ProgramError> {
        ProgramError::check(Self::NAME, "arrays", config.arrays, 1..=MAX_ARRAYS as u32)?;
        ProgramError::check(Self::NAME, "buckets", config.buckets, 1..=MAX_BUCKETS)
    }

    fn blame(_: &Config, _: &str, excess: Excess) -> (&'static str, &'static str) {
        (if excess == Excess::Memory { "buckets" } else { "arrays" }, "fewer")
    }

    fn start(_: &Config) {}

    fn dataplane(
        config: &Config,
        _: &str,
        family: &HashFamily,
        _: &Schedule<Self>,
    ) -> Result<Box<dyn Dataplane>, ProgramError> {
        Self::validate(config)?;
        let (slots, draws, arrays) = (slots(config, family), draws(config, family), config.arrays as usize);
        let count = |i| Array::planned("counts", Count(i), config.buckets).at(slots.source(i));
        let key = |i| ArrayGroup::planned("keys", Key(i), config.buckets).at(slots.source(i));
        let (counts, keys): (Vec<_>, Vec<_>) = (0..arrays).map(|i| (count(i), key(i))).unzip();
        let take = Step::new("take", Take(arrays), chance::logarithms("log of a count", arrays));
        let stages = Then(Stage(counts), Then(take, Stage(keys)));
        // The random numbers, and their logarithms, beside the hashes that name the slots.
        let [shared, sums, joined] = slots.usage();
        let logarithms = chance::logarithms("log of a draw", arrays);
        let hashing = [shared.drawing(draws.usage("draw")), sums.beside(logarithms), joined];
        let enter = move |phv: &Phv| {
            let tuple = FiveTuple::of(&phv.headers)?;
            let (slots, draws) = (slots.slots(tuple.bytes()), draws.of(phv));
            Some(Packet { tuple, slots, draws, counts: [0; MAX_ARRAYS], takes: [false; MAX_ARRAYS] })
        };
        let blank = Sketch::new(config);
        let staged = Staged::new(Self::NAME, hashing, stages, enter, move |memory| blank.read_out(memory));
        Ok(Box::new(staged.with_needs(Needs::DRAW)))
    }

    fn reader(config: &Config, _: &str, _: &HashFamily) -> impl ReadRecord<Sketch> {
        let blank = Sketch::new(config);
        move |bytes| blank.clone().decode(bytes)
    }

    fn longest(config: &Config) -> usize {
        let bucket = size_of::<FiveTuple>() + MAX_U64 + 1;
        1 + config.arrays as usize * (MAX_U64 + config.buckets as usize * MAX_REPLICAS * bucket)
    }

    fn analysis(config: &Config, _: u64) -> HeavyAnalysis<Sketch> {
        let by = config.by;
        HeavyAnalysis::new(move |sketch: &Sketch| sketch.found(by))
    }

    fn exact(config: &Config) -> impl Exact + 'static {
        let by = config.by;
        FlowCounts::by(Unit::Packets, move |flow: &Flow| by.name(flow))
    }
}

fn main() -> ExitCode {
    weir::cli::run(Programs::of_weir().with::<CocoSketch>())
}
