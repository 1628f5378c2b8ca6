//! A switch with a telemetry program of one's own: a Count-Min sketch that finds heavy flows.
//! docs/program.md builds it step by step.
//!
//! *Paper:* Cormode, Muthukrishnan: "An Improved Data Stream Summary: The Count-Min Sketch and its
//! Applications", Journal of Algorithms 55(1), 2005.
//!
//! *Shape:* d rows of w counters. A packet adds 1 to one counter of each row, at a slot that the
//! row's hash of its five-tuple names; the least of them is the flow's estimate. Behind the rows
//! stands a table of cells with the largest estimate that came by and its flow: a flow whose
//! estimate exceeds the stored one takes the cell.
//!
//! *Guarantee:* an estimate is never below the flow's true number of packets. With N packets in all
//! it exceeds the truth by more than 2N/w with a probability of at most 2^−d. A flow is named if no
//! other flow of its cell has a larger estimate.
//!
//! *Memory:* 32 d w bits of counters, and 352 bits a cell of the table.
//!
//! *Deviations:*
//! - The paper keeps candidates in a heap, which no switch can. The table loses a heavy flow to a
//!   heavier one in its cell.
//! - The paper's hash functions are pairwise independent. Here they are index hashes
//!   (`weir::pisa::hash::index`).
//! - IPv4 and IPv6 share all arrays, so that an IPv4 flow takes as much room in the table as an
//!   IPv6 flow.
//! - A counter stays at 2³² − 1. A full one is left out of estimates, and a flow of which all are full
//!   has at least that many packets.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use weir::answers::{Estimate, FlowCount, FlowName, FoundFlows, excess};
use weir::history::Reason;
use weir::pisa::hash::{HashFamily, IndexSlots};
use weir::pisa::{
    Array, ArrayGroup, Excess, GroupRegisters, GroupSalu, Phv, Registers, Repeat, Salu, Slot, Stage, Then,
};
use weir::program::bytes::{MAX_U64, Reader, Writer};
use weir::program::*;
use weir::wire::{FiveTuple, Flow};

const MAX_ROWS: usize = 8;
const MAX_CELLS: u32 = 1 << 24;

/// Parameters, as the configuration file and `--program` give them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Rows of counters.
    #[schemars(range(min = 1, max = MAX_ROWS))]
    pub rows: u32,
    /// Counters a row.
    #[schemars(range(min = 1, max = MAX_CELLS))]
    pub columns: u32,
    /// Cells of the table of heavy flows.
    #[schemars(range(min = 1, max = MAX_CELLS))]
    pub flows: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { rows: 4, columns: 16_384, flows: 4096 }
    }
}

/// The slot of a flow in each row, and behind the last row in the table.
pub type Slots = IndexSlots<{ MAX_ROWS + 1 }>;

pub fn slots(config: &Config, family: &HashFamily) -> Slots {
    let rows = (0..config.rows).map(|row| ("count_min/row", row, config.columns));
    let arrays: Vec<_> = rows.chain([("count_min/flows", 0, config.flows)]).collect();
    Slots::new(family, "count_min/shared", &arrays).over(FiveTuple::FIELDS)
}

/// A packet as the stages see it.
#[derive(Clone, Copy)]
pub struct Packet {
    tuple: FiveTuple,
    slots: [u32; MAX_ROWS + 1],
    estimate: u32,
    wins: bool,
}

impl Packet {
    pub fn new(tuple: FiveTuple, slots: [u32; MAX_ROWS + 1]) -> Self {
        Self { tuple, slots, estimate: u32::MAX, wins: false }
    }
}

/// A row of counters. The least count that the packet meets is its flow's estimate.
#[derive(Clone, Copy)]
pub struct Row(pub usize);

impl Salu for Row {
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
        packet.estimate = packet.estimate.min(count);
    }
}

/// The estimates of the table: a flow whose estimate exceeds the stored one takes the cell.
#[derive(Clone, Copy)]
pub struct Largest(pub usize);

impl Salu for Largest {
    type Phv = Packet;
    type Cell = u32;
    type Out = bool;
    const DECIDES: bool = true;

    fn slot(&self, packet: &Packet) -> Slot {
        Slot(packet.slots[self.0])
    }

    fn rmw(&self, largest: u32, packet: &Packet) -> (u32, bool) {
        (largest.max(packet.estimate), packet.estimate > largest)
    }

    fn commit(&self, wins: bool, packet: &mut Packet) {
        packet.wins = wins;
    }
}

/// The five-tuples of the table, an array for each word.
#[derive(Clone, Copy)]
pub struct Words(pub usize);

impl GroupSalu<5> for Words {
    type Phv = Packet;
    type Cell = u64;

    fn enabled(&self, packet: &Packet) -> bool {
        packet.wins
    }

    fn slot(&self, packet: &Packet) -> Slot {
        Slot(packet.slots[self.0])
    }

    fn rmw(&self, word: usize, _: u64, packet: &Packet) -> u64 {
        packet.tuple.0[word]
    }
}

pub type Memory = (Vec<Registers<u32>>, (Registers<u32>, GroupRegisters<u64, 5>));

/// Stands for a counter that is full, and for each sum with one.
const FULL: u64 = u64::MAX;

/// Record of an epoch: all counters, row after row, and the flows of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    config: Config,
    family: HashFamily,
    pub counters: Vec<u64>,
    pub flows: BTreeSet<FiveTuple>,
}

impl Sketch {
    pub fn new(config: &Config, family: &HashFamily) -> Self {
        let counters = vec![0; config.rows as usize * config.columns as usize];
        Self { config: config.clone(), family: family.clone(), counters, flows: BTreeSet::new() }
    }

    pub fn read_out(&self, (rows, (_, words)): &Memory) -> Self {
        let counter = |&count: &u32| if count == u32::MAX { FULL } else { count.into() };
        let counters = rows.iter().flat_map(|row| row.cells()).map(counter).collect();
        let flows = words.cells().iter().map(|&words| FiveTuple(words)).filter(|flow| *flow != FiveTuple::default());
        Self { counters, flows: flows.collect(), ..Self::new(&self.config, &self.family) }
    }

    /// The smallest counter of a flow.
    fn smallest(&self, slots: &Slots, flow: &FiveTuple) -> u64 {
        let rows = self.counters.chunks(self.config.columns as usize).zip(slots.slots(flow.bytes()));
        rows.map(|(row, slot)| row[slot as usize]).min().unwrap_or_default()
    }

    /// The count of any flow. The counters of a row add up to all packets, so without a full one the
    /// excess is bounded.
    pub fn count(&self, flow: &Flow, doubt: f64) -> Estimate {
        let Some(flow) = FiveTuple::of_flow(flow) else { return Estimate::exact(0) };
        let number = self.smallest(&slots(&self.config, &self.family), &flow);
        if number == FULL {
            return Estimate::unbounded(u32::MAX.into());
        }
        let columns = vec![self.config.columns.into(); self.config.rows as usize];
        let total = self.counters[..self.config.columns as usize].iter().sum();
        let bound = || excess(total, &columns, doubt);
        let excess = if self.counters.contains(&FULL) { None } else { bound() };
        Estimate { number, least: 0, most: Some(number), excess }
    }

    /// The flows, each with its estimate.
    pub fn found(&self) -> FoundFlows {
        let slots = slots(&self.config, &self.family);
        let estimate = |flow: &FiveTuple| {
            let count = match self.smallest(&slots, flow) {
                FULL => Counted::of_register(u32::MAX),
                count => count.into(),
            };
            FlowCount { flow: FlowName::Flow(flow.flow()), count }
        };
        let lack = [Reason::BelowThreshold].into_iter().collect();
        FoundFlows { flows: self.flows.iter().map(estimate).collect(), lack, ..FoundFlows::default() }
    }

    pub fn decode(mut self, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(1)?;
        for counter in &mut self.counters {
            *counter = from.number("a counter")?;
        }
        let number = from.number("the number of flows")?;
        let flow = |from: &mut Reader<'_>| Ok((FiveTuple::from_bytes(from.take("a flow")?), ()));
        self.flows = from.ascending("a flow", number, flow)?.into_iter().map(|(flow, ())| flow).collect();
        from.end().map(|()| self)
    }
}

impl Record for Sketch {
    const PROGRAM: &'static str = CountMin::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if (&self.config, &self.family) != (&other.config, &other.family) {
            return Err(MergeError::Shape { program: CountMin::NAME, what: "parameters or hash functions" });
        }
        self.counters.iter_mut().zip(&other.counters).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        self.flows.extend(&other.flows);
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut to = Writer(vec![1]);
        self.counters.iter().chain([&(self.flows.len() as u64)]).for_each(|&number| to.number(number));
        self.flows.iter().for_each(|flow| to.bytes(&flow.bytes()));
        to.0
    }
}

/// The program.
pub enum CountMin {}

impl Program for CountMin {
    const NAME: &'static str = "count_min";
    type Config = Config;
    type Parameters = ();
    type Setting = ();
    type Record = Sketch;
    type Analysis = HeavyAnalysis<Sketch>;

    fn validate(config: &Config) -> Result<(), ProgramError> {
        ProgramError::check(Self::NAME, "rows", config.rows, 1..=MAX_ROWS as u32)?;
        ProgramError::check(Self::NAME, "columns", config.columns, 1..=MAX_CELLS)?;
        ProgramError::check(Self::NAME, "flows", config.flows, 1..=MAX_CELLS)
    }

    fn blame(_: &Config, array: &str, excess: Excess) -> (&'static str, &'static str) {
        match (excess, array) {
            (Excess::Memory, "counters") => ("columns", "fewer"),
            (Excess::Memory, _) => ("flows", "fewer"),
            _ => ("rows", "fewer"),
        }
    }

    fn start(_: &Config) {}

    fn dataplane(
        config: &Config,
        _: &str,
        family: &HashFamily,
        _: &Schedule<Self>,
    ) -> Result<Box<dyn Dataplane>, ProgramError> {
        Self::validate(config)?;
        let (slots, rows) = (slots(config, family), config.rows as usize);
        let row = |row| Stage(Array::planned("counters", Row(row), config.columns).at(slots.source(row)));
        let largest = Stage(Array::planned("largest", Largest(rows), config.flows).at(slots.source(rows)));
        let words = Stage(ArrayGroup::planned("words", Words(rows), config.flows).at(slots.source(rows)));
        let stages = Then(Repeat((0..rows).map(row).collect()), Then(largest, words));
        let (hashing, blank) = (slots.usage(), Sketch::new(config, family));
        let enter = move |phv: &Phv| {
            let tuple = FiveTuple::of(&phv.headers)?;
            Some(Packet::new(tuple, slots.slots(tuple.bytes())))
        };
        Ok(Box::new(Staged::new(Self::NAME, hashing, stages, enter, move |memory| blank.read_out(memory))))
    }

    fn reader(config: &Config, _: &str, family: &HashFamily) -> impl ReadRecord<Sketch> {
        let blank = Sketch::new(config, family);
        move |bytes| blank.clone().decode(bytes)
    }

    fn longest(config: &Config) -> usize {
        let numbers = 1 + config.rows as usize * config.columns as usize;
        1 + numbers * MAX_U64 + config.flows as usize * MAX_REPLICAS * size_of::<FiveTuple>()
    }

    fn analysis(_: &Config, _: u64) -> HeavyAnalysis<Sketch> {
        let bytes = |sketch: &Sketch| size_of_val(&sketch.counters[..]) + sketch.flows.len() * size_of::<FiveTuple>();
        HeavyAnalysis::new(Sketch::found).counting(bytes, Sketch::count)
    }
}

fn main() -> ExitCode {
    weir::cli::run(Programs::of_weir().with::<CountMin>())
}
