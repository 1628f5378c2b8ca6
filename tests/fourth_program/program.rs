//! A throw-away program that has what weir's own programs do not have all at once: egress stages
//! that know time and queue depth, reports about single packets, sub-epochs whose number changes
//! from epoch to epoch, parameters that its analysis adapts, another number of cells in each switch,
//! hashes by switch, and a setting that each switch decides alone.
//!
//! *Shape:* In ingress a packet adds 1 to a counter at a slot that its five-tuple names; the first
//! flow of a slot owns it. In egress it adds 1 to the counter of its queue depth, and a packet at
//! `depth` or deeper is reported with its time: each of them, or one in 2, 4 and so on where the
//! switch's reports found no room.
//!
//! *Guarantee:* the counters of an epoch's sub-epochs add up to the packets that entered and left.
//! A flow that shares its slot with no other is counted exactly.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir::answers::{FlowCount, FlowName, FoundFlows, Task};
use weir::history::{Adaptation, Described, Gap, Reason, Reasons, SwitchGap};
use weir::pisa::hash::{HashFamily, IndexSlots};
use weir::pisa::table::Reader as TableReader;
use weir::pisa::{
    Array, ArrayCells, ArrayGroup, BATCH, Banked, BatchOrder, Excess, GroupRegisters, GroupSalu, Layout, Phv, Pipeline,
    Probe, Registers, Salu, Side, Slot, Stage, Then,
};
use weir::program::bytes::{DecodeError, MAX_U64, Reader, Writer};
use weir::program::*;
use weir::wire::FiveTuple;

/// Queue depths that are told apart; the last one stands for all that are deeper.
pub const DEPTHS: usize = 64;
/// A switch reports one in 2 to this power at least.
const MAX_THINNING: u32 = 15;
/// Memory is bounded by these.
const MAX_SLOTS: u32 = 1 << 16;
const MAX_REPORTS: u32 = 1 << 12;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Counters of flows.
    pub slots: u32,
    /// Reports that a bank keeps.
    pub reports: u32,
    /// Queue depth in packets from which on a packet is reported, in the first epoch.
    pub depth: u32,
    /// Sub-epochs of the first epoch.
    pub sub_epochs: u32,
    /// Most sub-epochs that the switch can cut an epoch into.
    pub cuts: u32,
    /// Let depth and sub-epochs follow what the epochs show.
    pub adapt: bool,
    /// Carry a digest in each packet.
    pub digest: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { slots: 4096, reports: 64, depth: 8, sub_epochs: 4, cuts: MAX_SUB_EPOCHS, adapt: true, digest: false }
    }
}

/// What changes from epoch to epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub depth: u32,
    pub sub_epochs: u32,
}

impl Parameters for Settings {
    fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        [self.depth, self.sub_epochs].into_iter().for_each(|number| to.number(number.into()));
        to.0
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        let settings = Self { depth: from.u32("the depth")?, sub_epochs: from.u32("the sub-epochs")? };
        from.end().map(|()| settings)
    }

    fn describe(&self) -> Option<Described> {
        let described = json!({ "depth_packets": self.depth, "sub_epochs": self.sub_epochs });
        Some(Described { state: "measuring".into(), parameters: described.as_object()?.clone() })
    }
}

/// What a switch decides alone: of packets in deep queues one in 2 to this power is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thinning(pub u32);

impl Thinning {
    /// Whether packet number `nth` in deep queues is reported.
    pub fn keeps(self, nth: u64) -> bool {
        nth & ((1 << self.0) - 1) == 0
    }
}

/// A packet in ingress.
#[derive(Clone, Copy)]
pub struct Packet {
    tuple: FiveTuple,
    slot: u32,
    owns: bool,
}

#[derive(Clone, Copy)]
pub struct Count;

impl Salu for Count {
    type Phv = Packet;
    type Cell = u32;
    type Out = bool;
    const DECIDES: bool = true;

    fn slot(&self, packet: &Packet) -> Slot {
        Slot(packet.slot)
    }

    fn rmw(&self, count: u32, _: &Packet) -> (u32, bool) {
        (count.saturating_add(1), count == 0)
    }

    fn commit(&self, owns: bool, packet: &mut Packet) {
        packet.owns = owns;
    }
}

#[derive(Clone, Copy)]
pub struct Owner;

impl GroupSalu<5> for Owner {
    type Phv = Packet;
    type Cell = u64;

    fn enabled(&self, packet: &Packet) -> bool {
        packet.owns
    }

    fn slot(&self, packet: &Packet) -> Slot {
        Slot(packet.slot)
    }

    fn rmw(&self, word: usize, _: u64, packet: &Packet) -> u64 {
        packet.tuple.0[word]
    }
}

/// Packets by queue depth, in egress.
#[derive(Clone, Copy)]
pub struct Depth;

impl Salu for Depth {
    type Phv = u16;
    type Cell = u32;
    type Out = ();

    fn slot(&self, depth: &u16) -> Slot {
        Slot(u32::from(*depth).min(DEPTHS as u32 - 1))
    }

    fn rmw(&self, count: u32, _: &u16) -> (u32, ()) {
        (count.saturating_add(1), ())
    }

    fn commit(&self, (): (), _: &mut u16) {}
}

/// A packet that stood in a long queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waited {
    pub time_ns: u64,
    pub port: u16,
    pub depth: u16,
    pub wire_bytes: u32,
}

impl Report for Waited {
    const BITS: u32 = 64 + 16 + 16 + 32;
    const MAX_BYTES: usize = 4 * MAX_U64;

    fn encode(&self, to: &mut Writer) {
        to.number(self.time_ns);
        to.number(self.port.into());
        to.number(self.depth.into());
        to.number(self.wire_bytes.into());
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let time_ns = from.number("a time")?;
        let (port, depth) = (from.u16("a port")?, from.u16("a depth")?);
        Ok(Self { time_ns, port, depth, wire_bytes: from.u32("a length")? })
    }
}

type Flows = Then<Stage<Array<Count>>, Stage<ArrayGroup<Owner, 5>>>;
type Depths = Stage<Array<Depth>>;

/// A replica.
pub struct Microbursting {
    config: Config,
    slots: IndexSlots<1>,
    flows: Flows,
    depths: Depths,
    reports: ReportBuffer<Waited>,
    coverage: Coverage,
    settings: Settings,
    schedule: TableReader<Steps<Settings>>,
    thinning: Thinning,
    thinnings: SettingReader<Thinning>,
    /// Packets in deep queues since the registers were exchanged.
    deep: u64,
}

/// The slot of each flow, another one in each switch. Tests hash alike.
pub fn slots(config: &Config, switch: &str, family: &HashFamily) -> IndexSlots<1> {
    let arrays = [("microbursts/flows", 0, config.slots)];
    IndexSlots::new(&family.of_switch(switch), "microbursts/shared", &arrays).over(FiveTuple::FIELDS)
}

impl Microbursting {
    fn new(config: &Config, switch: &str, family: &HashFamily, schedule: &Schedule<Microbursts>) -> Self {
        let slots = slots(config, switch, family);
        let count = Stage(Array::planned("packets", Count, config.slots).at(slots.source(0)));
        let owner = Stage(ArrayGroup::planned("owners", Owner, config.slots).at(slots.source(0)));
        Self {
            config: config.clone(),
            slots,
            flows: Then(count, owner),
            depths: Stage(Array::planned("depths", Depth, DEPTHS as u32).at("phv.queue_depth")),
            reports: ReportBuffer::with_capacity(0),
            coverage: Coverage::default(),
            settings: Microbursts::start(config),
            schedule: schedule.reader(),
            thinning: Thinning::default(),
            thinnings: schedule.setting(),
            deep: 0,
        }
    }

    fn packet(&self, phv: &Phv) -> Option<Packet> {
        let tuple = FiveTuple::of(&phv.headers)?;
        let [slot] = self.slots.slots(tuple.bytes());
        Some(Packet { tuple, slot, owns: false })
    }

    fn report(&mut self, phv: &Phv) {
        if u32::from(phv.queue_depth) < self.settings.depth {
            return;
        }
        if self.thinning.keeps(self.deep) {
            let (time_ns, port, depth) = (phv.egress_ns, phv.egress, phv.queue_depth);
            self.reports.push(Waited { time_ns, port, depth, wire_bytes: phv.wire_bytes });
        }
        self.deep += 1;
    }
}

impl Dataplane for Microbursting {
    fn ingress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        for phvs in phvs.chunks(BATCH) {
            let mut packets: ArrayVec<Packet, BATCH> = phvs.iter().filter_map(|phv| self.packet(phv)).collect();
            self.flows.run(&mut packets, order);
        }
    }

    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        if let Some(mut packet) = self.packet(phv) {
            self.flows.trace(&mut packet, probe);
        }
    }

    fn needs(&self) -> Needs {
        let digest = if self.config.digest { Needs::DIGEST } else { Needs::NONE };
        Needs::TIME | Needs::QUEUE_DEPTH | Needs::SUB_EPOCHS | digest
    }

    fn egress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        for phvs in phvs.chunks(BATCH) {
            let mut depths: ArrayVec<u16, BATCH> = phvs.iter().map(|phv| phv.queue_depth).collect();
            self.depths.run(&mut depths, order);
            phvs.iter().for_each(|phv| self.report(phv));
        }
    }

    fn trace_egress(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        self.depths.trace(&mut { phv.queue_depth }, probe);
        self.report(phv);
    }

    fn enter(&mut self, epoch: u64, fresh: bool) {
        // Registers that run on keep the settings that they were filled with.
        if fresh {
            self.settings = *self.schedule.load().at(epoch);
            self.thinning = *self.thinnings.at(epoch);
        }
    }

    fn sub_epochs(&self) -> u32 {
        self.settings.sub_epochs
    }

    fn enter_sub_epoch(&mut self, sub_epoch: SubEpoch, fresh: bool) {
        self.coverage.enter(sub_epoch, fresh);
    }

    fn spare(&self) -> Box<dyn Bank> {
        Box::new(MicroburstBank {
            flows: self.flows.zeroed(),
            depths: self.depths.zeroed(),
            reports: ReportBuffer::with_capacity(self.config.reports as usize),
            coverage: Coverage::default(),
            thinning: Thinning::default(),
            config: self.config.clone(),
        })
    }

    fn exchange(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = spare.get_mut::<MicroburstBank>() {
            self.flows.exchange(&mut spare.flows);
            (spare.coverage, spare.thinning) = (self.coverage, self.thinning);
        }
    }

    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = spare.get_mut::<MicroburstBank>() {
            self.depths.exchange(&mut spare.depths);
            std::mem::swap(&mut self.reports, &mut spare.reports);
            self.deep = 0;
        }
    }

    fn layout(&self) -> Layout {
        let (mut ingress, mut egress) = (self.slots.usage().to_vec(), Vec::new());
        self.flows.usage(&mut ingress);
        self.depths.usage(&mut egress);
        let reports = vec![ReportBuffer::<Waited>::usage(self.config.reports)];
        let layout = Layout::new(Microbursts::NAME).with(Side::Ingress, ingress).with(Side::Egress, egress);
        Layout { reports, reads: vec!["phv.egress_ns", "phv.egress", "phv.wire_bytes"], ..layout }
    }
}

struct MicroburstBank {
    flows: (Registers<u32>, GroupRegisters<u64, 5>),
    depths: Registers<u32>,
    reports: ReportBuffer<Waited>,
    coverage: Coverage,
    thinning: Thinning,
    config: Config,
}

impl Bank for MicroburstBank {
    fn clear(&mut self) {
        Flows::clear(&mut self.flows);
        Depths::clear(&mut self.depths);
        self.reports.clear();
        self.coverage = Coverage::default();
    }

    fn record(&self) -> AnyRecord {
        let (counts, owners) = &self.flows;
        let mut flows = BTreeMap::<_, Counted>::new();
        for (&count, &words) in counts.cells().iter().zip(owners.cells()).filter(|(count, _)| **count > 0) {
            *flows.entry(FiveTuple(words)).or_default() += Counted::of_register(count);
        }
        let depths = std::array::from_fn(|depth| self.depths.cells()[depth].into());
        let packets = flows.values().map(|count| count.number).sum();
        let fragments = vec![Fragment { coverage: self.coverage, packets, depths }];
        let (config, thinning, reports) = (self.config.clone(), self.thinning, self.reports.read());
        Box::new(Bursts { config, thinning, fragments, flows, reports })
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        let mut arrays = Vec::new();
        Flows::read(&self.flows, &mut arrays);
        Depths::read(&self.depths, &mut arrays);
        arrays
    }
}

/// What was counted in some sub-epochs.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    pub coverage: Coverage,
    /// Packets that entered.
    pub packets: u64,
    /// Packets that left, by queue depth.
    pub depths: [u64; DEPTHS],
}

/// A record: flows of the epoch, and fragments that share no sub-epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Bursts {
    /// The switch's own.
    pub config: Config,
    pub thinning: Thinning,
    pub fragments: Vec<Fragment>,
    pub flows: BTreeMap<FiveTuple, Counted>,
    pub reports: Reports<Waited>,
}

impl Bursts {
    fn none(config: &Config) -> Self {
        let reports = Reports::none(config.reports as usize);
        let (config, thinning) = (config.clone(), Thinning::default());
        Self { config, thinning, fragments: Vec::new(), flows: BTreeMap::new(), reports }
    }

    /// Packets that left at this depth or deeper.
    pub fn left(&self, depth: usize) -> u64 {
        self.fragments.iter().flat_map(|fragment| &fragment.depths[depth..]).sum()
    }

    /// Fragments that cover the same time, of two replicas, become one.
    fn add(&mut self, mut fragment: Fragment) {
        while let Some(at) = self.fragments.iter().position(|own| own.coverage.overlaps(&fragment.coverage)) {
            let own = self.fragments.swap_remove(at);
            fragment.coverage.add(&own.coverage);
            fragment.packets = fragment.packets.saturating_add(own.packets);
            let depths = fragment.depths.iter_mut().zip(own.depths);
            depths.for_each(|(sum, more)| *sum = sum.saturating_add(more));
        }
        self.fragments.push(fragment);
        self.fragments.sort_by_key(|fragment| fragment.coverage);
    }

    /// The flows that were counted.
    pub fn found(&self) -> FoundFlows {
        let count = |(flow, &count): (&FiveTuple, &Counted)| FlowCount { flow: FlowName::Flow(flow.flow()), count };
        let mut found = FoundFlows { flows: self.flows.iter().map(count).collect(), ..FoundFlows::default() };
        found.lack.add_if(self.reports.overflow() > 0, Reason::Overflow);
        found
    }

    fn decode(config: &Config, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(2)?;
        let mut record = Self::none(config);
        record.thinning = match from.u32("the thinning")? {
            thinning @ 0..=MAX_THINNING => Thinning(thinning),
            _ => return from.wrong("the thinning", "up to 15"),
        };
        for _ in 0..from.number("the number of fragments")? {
            let coverage = Coverage {
                of: from.u32("sub-epochs")?,
                sub_epochs: from.number("sub-epochs")?,
                later_epochs: from.u32("epochs")?,
            };
            let last = record.fragments.last().map(|fragment| fragment.coverage);
            let apart = record.fragments.iter().all(|fragment| !fragment.coverage.overlaps(&coverage));
            // Fragments that do not overlap are no more than there are sub-epochs.
            if coverage.sub_epochs == 0 || last >= Some(coverage) || !apart {
                return from.wrong("a fragment", "some sub-epochs, each once, in ascending order");
            }
            let mut fragment = Fragment { coverage, packets: from.number("packets")?, depths: [0; DEPTHS] };
            for depth in &mut fragment.depths {
                *depth = from.number("packets of a depth")?;
            }
            record.fragments.push(fragment);
        }
        let flows = from.number("the number of flows")?;
        let flow = |from: &mut Reader<'_>| {
            let (tuple, number) = (FiveTuple::from_bytes(from.take("a flow")?), from.number("a count")?);
            match from.take("whether it is certain")? {
                [full @ 0..=1] => Ok((tuple, Counted { number, at_least: full == 1 })),
                _ => from.wrong("whether it is certain", "0 or 1"),
            }
        };
        record.flows = from.ascending("a flow", flows, flow)?.into_iter().collect();
        record.reports = Reports::decode(&mut from, config.reports as usize)?;
        from.end().map(|()| record)
    }
}

impl Record for Bursts {
    const PROGRAM: &'static str = Microbursts::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if (&self.config, self.thinning) != (&other.config, other.thinning) {
            return Err(MergeError::Shape { program: Self::PROGRAM, what: "parameters" });
        }
        other.fragments.iter().for_each(|fragment| self.add(fragment.clone()));
        for (flow, count) in &other.flows {
            *self.flows.entry(*flow).or_default() += *count;
        }
        self.reports.merge(&other.reports);
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut to = Writer(vec![2]);
        to.number(self.thinning.0.into());
        to.number(self.fragments.len() as u64);
        for Fragment { coverage: Coverage { of, sub_epochs, later_epochs }, packets, depths } in &self.fragments {
            let numbers = [(*of).into(), *sub_epochs, (*later_epochs).into(), *packets];
            numbers.iter().chain(depths).for_each(|&number| to.number(number));
        }
        to.number(self.flows.len() as u64);
        for (flow, count) in &self.flows {
            to.bytes(&flow.bytes());
            to.number(count.number);
            to.bytes(&[count.at_least.into()]);
        }
        self.reports.encode(&mut to);
        to.0
    }
}

/// The records of an epoch.
pub struct Network {
    settings: Settings,
    pub switches: Vec<(Arc<str>, Box<Bursts>)>,
}

type Burst = Epoch<Network>;

pub struct BurstAnalysis {
    adapts: bool,
}

impl Analysis for BurstAnalysis {
    const TASKS: &'static [Task] = &[Task::Heavy, Task::Attention];
    type Record = Bursts;
    type Parameters = Settings;
    type Network = Network;
    type Kept = KeptFlows<Bursts>;

    fn fits(&self, _: &Bursts) -> bool {
        true
    }

    fn epoch(&mut self, epoch: u64, settings: &Settings, reported: Vec<Reported<'_, Bursts>>) -> Burst {
        let (mut gaps, mut switches) = (Vec::new(), Vec::<(Arc<str>, Box<Bursts>)>::new());
        for Reported { switch, record, .. } in reported {
            let lacking = match &record {
                Err(gap) => Some(*gap),
                Ok(record) => {
                    let reports = record.reports.overflow();
                    (reports > 0).then_some(Gap::Overflow { reports })
                }
            };
            gaps.extend(lacking.map(|gap| SwitchGap { switch: switch.clone(), gap }));
            switches.extend(record.ok().map(|record| (switch, record)));
        }
        let names = switches.iter().map(|(switch, _)| switch.clone()).collect();
        Epoch { number: epoch, gaps, switches: names, network: Network { settings: *settings, switches } }
    }

    /// Cuts epochs in which packets come unevenly finer, and others coarser; reports as many
    /// packets as there is room for.
    fn decide(&mut self, burst: &Burst, latest: &Settings, _: u64) -> Decision<Settings> {
        if !self.adapts {
            return Decision { parameters: *latest, why: "as configured".into() };
        }
        let records = || burst.network.switches.iter().map(|(_, record)| record);
        let overflows = records().any(|record| record.reports.overflow() > 0);
        let silent = records().all(|record| record.reports.kept().is_empty());
        let depth = match (overflows, silent) {
            (true, _) => (latest.depth + 1).min(DEPTHS as u32 - 1),
            (false, true) => (latest.depth - 1).max(1),
            (false, false) => latest.depth,
        };
        let uneven = records().any(|record| {
            let packets = || record.fragments.iter().map(|fragment| fragment.packets);
            packets().max().unwrap_or_default() * record.fragments.len() as u64 > 2 * packets().sum::<u64>()
        });
        let finer = uneven || latest.sub_epochs == 1;
        let sub_epochs = if finer { latest.sub_epochs * 2 } else { latest.sub_epochs / 2 };
        // As every switch can.
        let cuts = records().map(|record| record.config.cuts).min().unwrap_or(latest.sub_epochs);
        let parameters = Settings { depth, sub_epochs: sub_epochs.clamp(1, cuts) };
        Decision { parameters, why: if finer { "finer" } else { "coarser" }.into() }
    }

    fn adaptation(&self, burst: &Burst) -> Option<Adaptation> {
        let fragments =
            burst.network.switches.iter().map(|(_, record)| record.fragments.len()).max().unwrap_or_default();
        let reports: usize = burst.network.switches.iter().map(|(_, record)| record.reports.kept().len()).sum();
        let switch = |(name, record): &(Arc<str>, Box<Bursts>)| {
            (name.to_string(), json!({ "slots": record.config.slots, "thinning": record.thinning.0 }))
        };
        let switches: serde_json::Map<_, _> = burst.network.switches.iter().map(switch).collect();
        let facts = json!({ "fragments": fragments, "reports": reports, "switches": switches });
        let measured = burst.settings.describe().unwrap_or_default();
        Some(Adaptation { measured, facts: facts.as_object()?.clone(), ..Adaptation::default() })
    }

    /// Each flow has the largest count of any switch.
    fn keep(&mut self, burst: Burst) -> KeptFlows<Bursts> {
        let mut largest: BTreeMap<FlowName, Counted> = BTreeMap::new();
        let mut lack = Reasons::default();
        for (_, record) in &burst.network.switches {
            let found = record.found();
            lack.extend(&found.lack);
            for FlowCount { flow, count } in found.flows {
                let largest = largest.entry(flow).or_default();
                *largest = (*largest).max(count);
            }
        }
        let flows = largest.into_iter().map(|(flow, count)| FlowCount { flow, count }).collect();
        KeptFlows::new(&FoundFlows { flows, lack, ..FoundFlows::default() })
    }
}

pub enum Microbursts {}

/// Lets configurations of this process name the program. To be called before one is read.
pub fn install() {
    Programs::of_weir().with::<Microbursts>().install();
}

impl Microbursts {
    fn check(key: &'static str, value: u32, max: u32) -> Result<(), ProgramError> {
        ProgramError::check(Self::NAME, key, value, 1..=max)
    }
}

impl Program for Microbursts {
    const NAME: &'static str = "microbursts";
    type Config = Config;
    type Parameters = Settings;
    type Setting = Thinning;
    type Record = Bursts;
    type Analysis = BurstAnalysis;

    fn local_only(_: &Config) -> Option<&'static str> {
        None
    }

    fn validate(config: &Config) -> Result<(), ProgramError> {
        Self::check("slots", config.slots, MAX_SLOTS)?;
        Self::check("reports", config.reports, MAX_REPORTS)?;
        Self::fits(config, &Self::start(config))
    }

    fn blame(_: &Config, _: &str, _: Excess) -> (&'static str, &'static str) {
        ("slots", "fewer")
    }

    fn start(config: &Config) -> Settings {
        Settings { depth: config.depth, sub_epochs: config.sub_epochs }
    }

    fn fits(config: &Config, settings: &Settings) -> Result<(), ProgramError> {
        ProgramError::check(Self::NAME, "depth", settings.depth, 0..=DEPTHS as u32 - 1)?;
        Self::check("sub_epochs", settings.sub_epochs, config.cuts.min(MAX_SUB_EPOCHS))
    }

    /// Reports fewer where some found no room, and more where three quarters of it stayed empty.
    fn settle(record: &Bursts, _: &Settings) -> Thinning {
        let (Thinning(now), kept) = (record.thinning, record.reports.kept().len());
        if record.reports.overflow() > 0 {
            Thinning((now + 1).min(MAX_THINNING))
        } else if 4 * kept < record.config.reports as usize {
            Thinning(now.saturating_sub(1))
        } else {
            record.thinning
        }
    }

    fn dataplane(
        config: &Config,
        switch: &str,
        family: &HashFamily,
        schedule: &Schedule<Self>,
    ) -> Result<Box<dyn Dataplane>, ProgramError> {
        Self::validate(config)?;
        Ok(Box::new(Microbursting::new(config, switch, family, schedule)))
    }

    fn reader(config: &Config, _: &str, _: &HashFamily) -> impl ReadRecord<Bursts> {
        let config = config.clone();
        move |bytes| Bursts::decode(&config, bytes)
    }

    fn longest(config: &Config) -> usize {
        // Each replica has owners of its own, and in each sub-epoch others.
        let owners = config.slots as usize * MAX_REPLICAS * MAX_SUB_EPOCHS as usize;
        let fragments = MAX_SUB_EPOCHS as usize * (4 + DEPTHS) * MAX_U64;
        let flows = owners * (size_of::<FiveTuple>() + MAX_U64 + 1);
        1 + 3 * MAX_U64 + fragments + flows + Reports::<Waited>::max_bytes(config.reports as usize)
    }

    /// All else of a switch is its own, or follows from the parameters.
    fn difference(config: &Config, other: &Config) -> Option<Difference> {
        let differ = || Difference { key: "digest", value: config.digest.to_string(), other: other.digest.to_string() };
        (config.digest != other.digest).then(differ)
    }

    fn adapts(config: &Config) -> bool {
        config.adapt
    }

    fn analysis(config: &Config, _: u64) -> BurstAnalysis {
        BurstAnalysis { adapts: config.adapt }
    }
}
