//! A switch with a telemetry program of one's own: a Count-Min sketch that finds heavy flows. docs/program.md builds it
//! step by step.
//!
//! *Paper:* Cormode, Muthukrishnan: "An Improved Data Stream Summary: The Count-Min Sketch and its Applications",
//! Journal of Algorithms 55(1), 2005.
//!
//! *Shape:* d rows of w counters. A packet adds 1 to one counter of each row, at a slot that the row's hash of its
//! five-tuple names; the least of them is the flow's estimate. Behind the rows stands a table of cells with the largest
//! estimate that came by and its flow: a flow whose estimate exceeds the stored one takes the cell.
//!
//! *Guarantee:* an estimate is never below the flow's true number of packets. With N packets in all it exceeds the truth by
//! more than 2N/w with a probability of at most 2^−d. A flow is named if no other flow of its cell has a larger estimate.
//!
//! *Memory:* 32 d w bits of counters, and 352 bits a cell of the table.
//!
//! *Deviations:*
//! - The paper keeps candidates in a heap, which no switch can. The table loses a heavy flow to a heavier one in its cell.
//! - The paper's hash functions are pairwise independent. Here they are index hashes (`weir::pisa::hash::index`).
//! - IPv4 and IPv6 share all arrays, so that an IPv4 flow takes as much room in the table as an IPv6 flow.
//! - A counter stays at 2³² − 1, from which on an estimate may be too low: an epoch with as many packets takes hours.

use std::any::Any;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::process::ExitCode;

use arrayvec::ArrayVec;
use weir::pisa::hash::{HashFamily, HighRange, IndexHashes};
use weir::pisa::{
    Array, ArrayGroup, BATCH, Excess, GroupRegisters, GroupSalu, HashUse, Order, Phv, Pipeline, Probe, ProgramUse,
    Registers, Repeat, Salu, Slot, Stage, StageUse, Then,
};
use weir::program::answers::{FlowAnswers, FlowCount, FlowName, Reason};
use weir::program::bytes::{MAX_U64, Reader, Writer};
use weir::program::{
    AnyRecord, Bank, Dataplane, DecodeError, Exact, FlowCounts, HeavyAnalysis, MAX_REPLICAS, MergeError, NoSeries,
    Program, ProgramError, Programs, Record, RunAnswers, Schedule, Truth, Unit,
};
use weir::wire::{Flow, Headers, Net};

const MAX_ROWS: usize = 8;
const MAX_CELLS: u32 = 1 << 24;

/// Parameters, as the configuration and `--program` give them.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
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

/// A five-tuple as the switch stores it: IP version, ports and protocol, then the addresses, the high half first.
type Key = [u64; 5];

fn key(headers: &Headers) -> Option<Key> {
    let version = match headers.net {
        Net::Ipv4 => 4,
        Net::Ipv6 => 6,
        Net::Other => return None,
    };
    let ports = u64::from(headers.sport) << 24 | u64::from(headers.dport) << 8 | u64::from(headers.proto);
    let (src, dst) = (headers.src_ip, headers.dst_ip);
    Some([version << 40 | ports, (src >> 64) as u64, src as u64, (dst >> 64) as u64, dst as u64])
}

fn flow(&[first, src_high, src, dst_high, dst]: &Key) -> Flow {
    let ip = |high: u64, low: u64| match first >> 40 {
        4 => IpAddr::V4(Ipv4Addr::from(low as u32)),
        _ => IpAddr::V6(Ipv6Addr::from(u128::from(high) << 64 | u128::from(low))),
    };
    let (sport, dport, proto) = (Some((first >> 24) as u16), Some((first >> 8) as u16), Some(first as u8));
    Flow { src: Some(ip(src_high, src)), dst: Some(ip(dst_high, dst)), sport, dport, proto }
}

/// Where a flow's counters and its cell are. All replicas of a switch have the same.
struct Hashes {
    index: IndexHashes,
    columns: HighRange,
    flows: HighRange,
}

impl Hashes {
    fn new(config: &Config, family: &HashFamily) -> Self {
        let mut own = vec![family.derive("count_min/flows", 0)];
        own.extend((0..config.rows).map(|row| family.derive("count_min/row", row)));
        let range = |length| HighRange::new(NonZeroU32::new(length).unwrap_or(NonZeroU32::MIN), 4);
        let index = IndexHashes::new(family.derive("count_min/shared", 0), &own);
        Self { index, columns: range(config.columns), flows: range(config.flows) }
    }

    /// The slot in the table, then those in the rows.
    #[inline(always)]
    fn slots(&self, key: &Key) -> [u32; 1 + MAX_ROWS] {
        let mut bytes = [0; size_of::<Key>()];
        bytes.as_chunks_mut().0.iter_mut().zip(key).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
        let key = self.index.key(bytes);
        let range = |array| if array == 0 { self.flows } else { self.columns };
        std::array::from_fn(|array| range(array).slot(self.index.hash(array, &key)))
    }
}

/// A packet as the stages see it.
#[derive(Clone, Copy)]
pub struct Packet {
    key: Key,
    slots: [u32; 1 + MAX_ROWS],
    estimate: u32,
    wins: bool,
}

/// A row of counters: its number, and the bits that name a slot.
#[derive(Clone, Copy)]
pub struct Row(u32, u32);

impl Salu for Row {
    type Phv = Packet;
    type Cell = u32;
    type Out = u32;

    #[inline(always)]
    fn slot(&self, packet: &Packet) -> Slot {
        Slot(packet.slots[1 + self.0 as usize])
    }

    #[inline(always)]
    fn rmw(&self, count: u32, _: &Packet) -> (u32, u32) {
        let count = count.saturating_add(1);
        (count, count)
    }

    #[inline(always)]
    fn commit(&self, count: u32, packet: &mut Packet) {
        packet.estimate = packet.estimate.min(count);
    }

    fn describe(&self, count: &u32) -> String {
        format!("its flow has {count} packets at the most")
    }

    fn hash_bits(&self) -> u32 {
        self.1
    }
}

/// The table's estimates: a flow whose estimate exceeds the stored one takes the cell. It holds the bits that name a slot.
#[derive(Clone, Copy)]
pub struct Estimate(u32);

impl Salu for Estimate {
    type Phv = Packet;
    type Cell = u32;
    type Out = bool;
    const DECIDES: bool = true;

    #[inline(always)]
    fn slot(&self, packet: &Packet) -> Slot {
        Slot(packet.slots[0])
    }

    #[inline(always)]
    fn rmw(&self, largest: u32, packet: &Packet) -> (u32, bool) {
        (largest.max(packet.estimate), packet.estimate > largest)
    }

    #[inline(always)]
    fn commit(&self, wins: bool, packet: &mut Packet) {
        packet.wins = wins;
    }

    fn describe(&self, wins: &bool) -> String {
        if *wins { "its flow takes the cell" } else { "another flow keeps the cell" }.into()
    }

    fn hash_bits(&self) -> u32 {
        self.0
    }
}

/// The table's keys, an array for each word.
#[derive(Clone, Copy)]
pub struct Words(u32);

impl GroupSalu<5> for Words {
    type Phv = Packet;
    type Cell = u64;

    #[inline(always)]
    fn enabled(&self, packet: &Packet) -> bool {
        packet.wins
    }

    #[inline(always)]
    fn slot(&self, packet: &Packet) -> Slot {
        Slot(packet.slots[0])
    }

    #[inline(always)]
    fn rmw(&self, array: usize, _: u64, packet: &Packet) -> u64 {
        packet.key[array]
    }

    fn hash_bits(&self) -> u32 {
        self.0
    }
}

type Stages = Then<Repeat<Stage<Array<Row>>>, Then<Stage<Array<Estimate>>, Stage<ArrayGroup<Words, 5>>>>;

/// A replica of the program on one core.
struct Replica {
    config: Config,
    family: HashFamily,
    hashes: Hashes,
    stages: Stages,
}

impl Replica {
    fn new(config: &Config, family: &HashFamily) -> Self {
        let hashes = Hashes::new(config, family);
        let (column_bits, flow_bits) = (hashes.columns.bits(), hashes.flows.bits());
        let row = |row| Stage(Array::planned("counters", Row(row, column_bits), config.columns));
        let estimates = Stage(Array::planned("estimates", Estimate(flow_bits), config.flows));
        let keys = Stage(ArrayGroup::planned("keys", Words(flow_bits), config.flows));
        let stages = Then(Repeat((0..config.rows).map(row).collect()), Then(estimates, keys));
        Self { config: config.clone(), family: family.clone(), hashes, stages }
    }

    #[inline(always)]
    fn packet(&self, phv: &Phv) -> Option<Packet> {
        let key = key(&phv.headers)?;
        Some(Packet { key, slots: self.hashes.slots(&key), estimate: u32::MAX, wins: false })
    }
}

impl Dataplane for Replica {
    fn ingress(&mut self, phvs: &mut [Phv], order: Order) {
        for phvs in phvs.chunks(BATCH) {
            let mut packets: ArrayVec<_, BATCH> = phvs.iter().filter_map(|phv| self.packet(phv)).collect();
            self.stages.run(&mut packets, order);
        }
    }

    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        if let Some(mut packet) = self.packet(phv) {
            self.stages.trace(&mut packet, probe);
        }
    }

    fn spare(&self) -> Box<dyn Bank> {
        let Config { rows, columns, flows } = self.config;
        Box::new(Memory {
            blank: Sketch::new(&self.config, &self.family),
            rows: (0..rows).map(|_| Registers::zeroed(columns)).collect(),
            estimates: Registers::zeroed(flows),
            keys: GroupRegisters::zeroed(flows),
        })
    }

    fn exchange(&mut self, spare: &mut dyn Bank) {
        let Some(spare) = (spare as &mut dyn Any).downcast_mut::<Memory>() else { return };
        let Then(Repeat(rows), Then(Stage(estimates), Stage(keys))) = &mut self.stages;
        rows.iter_mut().zip(&mut spare.rows).for_each(|(Stage(row), spare)| row.exchange(spare));
        estimates.exchange(&mut spare.estimates);
        keys.exchange(&mut spare.keys);
    }

    fn usage(&self) -> ProgramUse {
        let hash = |name, added| HashUse { name, bits: u32::BITS, added };
        // An index hash takes three stages: the CRC that all share, the sums, and their halves joined.
        let sums = vec![hash("hash of an array", true); 1 + self.config.rows as usize];
        let shared = vec![hash("shared hash", false)];
        let mut stages = vec![StageUse::hashing(shared), StageUse::hashing(sums), StageUse::default()];
        self.stages.usage(&mut stages);
        ProgramUse { program: CountMin::NAME, chains: vec![stages] }
    }
}

/// The registers of a replica over one epoch.
struct Memory {
    blank: Sketch,
    rows: Vec<Registers<u32>>,
    estimates: Registers<u32>,
    keys: GroupRegisters<u64, 5>,
}

impl Bank for Memory {
    fn clear(&mut self) {
        self.rows.iter_mut().for_each(Registers::clear);
        self.estimates.clear();
        self.keys.clear();
    }

    fn record(&self) -> AnyRecord {
        let mut sketch = self.blank.clone();
        let cells = self.rows.iter().flat_map(|row| row.cells());
        sketch.counters.iter_mut().zip(cells).for_each(|(counter, cell)| *counter = u64::from(*cell));
        sketch.keys = self.keys.cells().iter().filter(|key| **key != Key::default()).copied().collect();
        AnyRecord::new(sketch)
    }
}

/// What leaves a switch at the end of an epoch: all counters, row after row, and the flows of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    config: Config,
    family: HashFamily,
    counters: Vec<u64>,
    keys: BTreeSet<Key>,
}

impl Sketch {
    const VERSION: u8 = 1;

    fn new(config: &Config, family: &HashFamily) -> Self {
        let counters = vec![0; config.rows as usize * config.columns as usize];
        Self { config: config.clone(), family: family.clone(), counters, keys: BTreeSet::new() }
    }

    /// The heaviest flows, each with its estimate.
    pub fn heaviest(&self, most: usize) -> FlowAnswers {
        let hashes = Hashes::new(&self.config, &self.family);
        let estimate = |key: &Key| {
            let slots = hashes.slots(key);
            let rows = self.counters.chunks_exact(self.config.columns as usize).zip(&slots[1..]);
            let count = rows.map(|(row, &slot)| row[slot as usize]).min().unwrap_or_default();
            FlowCount { flow: FlowName::Flow(flow(key)), count }
        };
        let lack = [Reason::BelowThreshold].into_iter().collect();
        FlowAnswers { lack, ..FlowAnswers::heaviest(Unit::Packets, self.keys.iter().map(estimate).collect(), most) }
    }

    fn decode(bytes: &[u8], mut sketch: Self) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(Self::VERSION)?;
        for counter in &mut sketch.counters {
            *counter = from.number("a counter")?;
        }
        for _ in 0..from.number("the number of flows")? {
            let mut key = Key::default();
            for word in &mut key {
                *word = u64::from_be_bytes(from.take("a flow")?);
            }
            if sketch.keys.last() >= Some(&key) {
                return from.wrong("a flow", "each once, in ascending order");
            }
            sketch.keys.insert(key);
        }
        from.end().map(|()| sketch)
    }
}

impl Record for Sketch {
    const PROGRAM: &'static str = CountMin::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if (&self.config, &self.family) != (&other.config, &other.family) {
            return Err(MergeError::Shape { program: CountMin::NAME, what: "parameters or hash functions" });
        }
        self.counters.iter_mut().zip(&other.counters).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        self.keys.extend(&other.keys);
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut to = Writer(vec![Self::VERSION]);
        self.counters.iter().for_each(|&counter| to.number(counter));
        to.number(self.keys.len() as u64);
        self.keys.iter().flatten().for_each(|word| to.bytes(&word.to_be_bytes()));
        to.0
    }

    fn is_hashed_with(&self, family: &HashFamily) -> bool {
        self.family == *family
    }
}

/// The program.
pub enum CountMin {}

impl Program for CountMin {
    const NAME: &'static str = "count_min";
    type Config = Config;
    type Parameters = ();
    type Record = Sketch;
    type Analysis = HeavyAnalysis<Sketch>;
    type Series = NoSeries<Sketch>;

    fn validate(config: &Config) -> Result<(), ProgramError> {
        ProgramError::check(Self::NAME, "rows", config.rows, 1..=MAX_ROWS as u64)?;
        ProgramError::check(Self::NAME, "columns", config.columns, 1..=MAX_CELLS.into())?;
        ProgramError::check(Self::NAME, "flows", config.flows, 1..=MAX_CELLS.into())
    }

    fn blame(_: &Config, array: &str, excess: Excess) -> (&'static str, &'static str) {
        match (excess, array) {
            (Excess::Memory, "counters") => ("columns", "fewer"),
            (Excess::Memory, _) => ("flows", "fewer"),
            _ => ("rows", "fewer"),
        }
    }

    fn start(_: &Config) {}

    fn dataplane(config: &Config, family: &HashFamily, _: &Schedule<Self>) -> Result<Box<dyn Dataplane>, ProgramError> {
        Self::validate(config)?;
        Ok(Box::new(Replica::new(config, family)))
    }

    fn reader(config: &Config, family: &HashFamily) -> impl Fn(&[u8]) -> Result<Sketch, DecodeError> + use<> {
        let blank = Sketch::new(config, family);
        move |bytes| Sketch::decode(bytes, blank.clone())
    }

    fn longest(config: &Config) -> usize {
        let counters = config.rows as usize * config.columns as usize;
        1 + (counters + 1) * MAX_U64 + config.flows as usize * MAX_REPLICAS * size_of::<Key>()
    }

    fn analysis(_: &Config, _: u64) -> HeavyAnalysis<Sketch> {
        HeavyAnalysis::new(Sketch::heaviest)
    }

    fn run(_: &Config, record: &Sketch, _: &NoSeries<Sketch>, _: Option<&Truth>, most: usize) -> RunAnswers {
        RunAnswers { heavy: record.heaviest(most), ..RunAnswers::default() }
    }

    fn exact(_: &Config) -> impl Exact + 'static {
        FlowCounts::new(Unit::Packets)
    }
}

fn main() -> ExitCode {
    weir::cli::run(Programs::of_weir().with::<CountMin>())
}
