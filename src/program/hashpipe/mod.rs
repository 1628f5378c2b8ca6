//! HashPipe: the k heaviest flows, found entirely in the dataplane.
//!
//! *Paper:* Sivaraman, Narayana, Rottenstreich, Muthukrishnan, Rexford: "Heavy-Hitter Detection
//! Entirely in the Data Plane", SOSR 2017; Algorithm 3.
//!
//! *Shape:* d stages (default 6), each an array of (key, count) cells hashed with a polynomial of
//! its own. The first stage always takes the packet's key in; what it evicts is carried on, and
//! each later stage keeps the larger of the carried and the stored pair. What is carried past the
//! last stage is lost.
//!
//! *Guarantee:* a count that is read out never exceeds the flow's true count (each unit of weight
//! stands in at most one cell). There is no worst-case bound on what is lost: the paper gives none,
//! and the order of packets decides (trains of packets do worse than shuffled ones). `make figures`
//! shows both beside the paper's curves.
//!
//! *In a network:* with `scope = "network"` a packet is counted where it enters the network, by a
//! host port, and at no other switch. So the records of all switches add up to the network's, and a
//! count is again never more than the flow's packets, whatever ways they took and whenever they
//! passed a switch. A controller takes these records alone. (The largest count of any switch would
//! not do: packets under way as an epoch ends are in one epoch here and in the next one there, so
//! that the largest counts of several epochs can add up to more packets than there were; and a flow
//! that enters at several switches would count where it entered most.)
//!
//! *Memory:* stages × slots × (key + 32 count) bits; 136 bits a slot for IPv4 five-tuples. (The
//! paper's own accounting is 17.5 bytes a counter.)
//!
//! *Deviations:*
//! - IPv6 flows live in tables of their own, 296-bit keys, a quarter as many slots unless told
//!   otherwise: one table of wide keys would spend 328 bits on each IPv4 flow, and a digest does
//!   not name the flow. A packet touches one family.
//! - With `key = "digest32"` a slot holds the five-tuple's CRC-32, as in the P4 form for Tofino 2. Names
//!   come from reports of packets, and a count is that of all flows with the digest.
//! - Counts saturate at 2³² − 1 instead of wrapping.
//! - Byte counting inserts the packet's length where the paper inserts 1.
//! - Packets that are neither IPv4 nor IPv6 are not measured, and counted as such.
//! - A register that holds key 0 with count 0 is both empty and "equal" to an all-zero key; both
//!   cases store the same pair.

pub mod decoder;
pub mod dataplane;
mod key;
mod p4;
pub mod record;
mod replica;

use serde::{Deserialize, Serialize};

pub use decoder::{Counts, Digests};
pub use key::{Key, Name, SlotKey};
pub use replica::{HashPipeBank, HashPipeDataplane, Tables, label};

use super::{
    Dataplane, Difference, Exact, FlowCounts, HeavyAnalysis, Naming, P4Form, P4Request, Program, ProgramError,
    ReadRecord, Schedule, word,
};
pub use super::{Heavy, Unit};
use crate::pisa::Excess;
use crate::pisa::hash::{Digest, HashFamily};
use crate::wire::{Addr4, Addr6, Pair4, Pair6, Tuple4, Tuple6};

/// How far the dataplane goes to know the current packet's flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Estimate {
    /// The count in the first stage.
    #[default]
    First,
    /// The sum over the first stage and those later stages whose one access the carried pair left
    /// free.
    Sum,
}

/// The packets that are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All that the switch takes in.
    #[default]
    Switch,
    /// Those that enter the network here, by a host port. Counts of several switches add up.
    Network,
}

/// HashPipe's parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Stages.
    #[schemars(range(min = 1, max = Config::MAX_STAGES))]
    pub stages: u32,
    /// Slots a stage for IPv4 flows.
    #[schemars(range(min = 1, max = Config::MAX_SLOTS))]
    pub slots: u32,
    /// Slots a stage for IPv6 flows; by default a quarter of `slots`. 0 leaves IPv6 unmeasured.
    #[schemars(range(min = 0, max = Config::MAX_SLOTS))]
    pub slots6: Option<u32>,
    /// The fields that name a flow. With `digest32` a slot holds a digest of the five-tuple, and packets
    /// report five-tuples.
    pub key: Key,
    /// Leading bits of an IPv4 address that count, for keys of addresses.
    #[schemars(range(min = 0, max = 32))]
    pub prefix: u8,
    /// Leading bits of an IPv6 address that count, for keys of addresses.
    #[schemars(range(min = 0, max = 128))]
    pub prefix6: u8,
    /// What is counted: packets, or bytes from the destination MAC on.
    pub count: Unit,
    /// The packets that are counted: all that the switch takes in, or those that enter the network
    /// here, by a host port. With `network` a controller takes the records.
    pub scope: Scope,
    /// How far the dataplane goes to know the current packet's flow.
    pub estimate: Estimate,
    /// With `key = "digest32"`: a packet reports its five-tuple when the estimate of its flow reaches
    /// this count; by default 4 packets, or 2000 bytes.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub report_at: Option<u32>,
    /// With `key = "digest32"`: five-tuples that a switch reports in an epoch, each once; by default
    /// 32768. Digests of other flows have no name.
    #[schemars(range(min = 0, max = Config::MAX_NAMES))]
    pub names: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            stages: 6,
            slots: 4096,
            slots6: None,
            key: Key::Tuple,
            prefix: 32,
            prefix6: 128,
            count: Unit::Packets,
            scope: Scope::Switch,
            estimate: Estimate::First,
            report_at: None,
            names: None,
        }
    }
}

impl Config {
    /// Most slots a stage: an index hash has 32 bits, and a stage's memory has an end.
    pub const MAX_SLOTS: u32 = 1 << 24;
    pub const MAX_STAGES: u32 = 16;
    pub const MAX_NAMES: u32 = 1 << 16;
    /// Default count at which a flow is reported, of packets and of bytes. Each packet of another flow in
    /// its slot evicts a flow from the first stage, so few flows count far there, however heavy they are.
    const REPORT_AT: u32 = 4;
    const REPORT_AT_BYTES: u32 = 2000;
    const NAMES: u32 = 1 << 15;

    pub fn slots6(&self) -> u32 {
        self.slots6.unwrap_or((self.slots / 4).max(1))
    }

    /// How flows are named.
    pub fn naming(&self) -> Naming {
        Naming { key: self.key.fields(), prefix: self.prefix, prefix6: self.prefix6 }
    }

    /// The count at which a packet reports its five-tuple; `None` where the slots name flows.
    pub fn report_at(&self) -> Option<u32> {
        let default = match self.count {
            Unit::Packets => Self::REPORT_AT,
            Unit::Bytes => Self::REPORT_AT_BYTES,
        };
        (self.key == Key::Digest32).then(|| self.report_at.unwrap_or(default))
    }

    /// Room for the five-tuples of an epoch.
    pub fn names(&self) -> u32 {
        if self.key == Key::Digest32 { self.names.unwrap_or(Self::NAMES) } else { 0 }
    }

    /// Checks the ranges and what goes together.
    pub fn validate(&self) -> Result<(), ProgramError> {
        let range = |key, value, range| ProgramError::check(HashPipe::NAME, key, value, range);
        range("stages", self.stages, 1..=Self::MAX_STAGES)?;
        range("slots", self.slots, 1..=Self::MAX_SLOTS)?;
        range("slots6", self.slots6(), 0..=Self::MAX_SLOTS)?;
        range("report_at", self.report_at.unwrap_or(1), 1..=u32::MAX)?;
        range("names", self.names(), 0..=Self::MAX_NAMES)?;
        let is_other = |value: Option<u32>, default| value.is_some_and(|value| value != default);
        let belong = is_other(self.report_at, Self::REPORT_AT) || is_other(self.names, Self::NAMES);
        if self.key != Key::Digest32 && belong {
            let why = "report_at and names belong to key=digest32";
            return Err(ProgramError::Combination { program: HashPipe::NAME, why });
        }
        self.naming().validate(HashPipe::NAME)
    }
}

/// The program.
#[derive(Clone, Copy, Debug)]
pub enum HashPipe {}

impl Program for HashPipe {
    const NAME: &'static str = "hashpipe";
    type Config = Config;
    type Parameters = ();
    type Setting = ();
    type Record = Counts;
    type Analysis = HeavyAnalysis<Counts>;

    fn local_only(config: &Config) -> Option<&'static str> {
        (config.scope == Scope::Switch).then_some("with scope = \"network\" alone a controller takes its records")
    }

    fn validate(config: &Config) -> Result<(), ProgramError> {
        config.validate()
    }

    fn blame(config: &Config, array: &str, excess: Excess) -> (&'static str, &'static str) {
        match excess {
            Excess::Width | Excess::Outputs => ("key", "a narrower one, key = \"src\" and slots6 = 0"),
            Excess::Memory if array == "ipv6" && config.slots6.is_some() => ("slots6", "fewer"),
            Excess::Memory => ("slots", "fewer"),
            Excess::Stages | Excess::Computation => ("stages", "fewer"),
        }
    }

    /// Five-tuples, and all IPv6 addresses, are wider than what the stateful ALUs of most chips take.
    fn lesser(config: &Config) -> Vec<(String, Config)> {
        let (key, slots6) = (Key::Source, Some(0));
        vec![("with key=src and slots6=0".into(), Config { key, slots6, ..config.clone() })]
    }

    fn start(_: &Config) {}

    fn dataplane(
        config: &Config,
        _: &str,
        hashes: &HashFamily,
        _: &Schedule<Self>,
    ) -> Result<Box<dyn Dataplane>, ProgramError> {
        config.validate()?;
        fn of<A: SlotKey, B: SlotKey>(config: &Config, hashes: &HashFamily) -> Box<dyn Dataplane> {
            match config.estimate {
                Estimate::First => Box::new(HashPipeDataplane::<A, B, 0>::new(config, hashes)),
                Estimate::Sum => Box::new(HashPipeDataplane::<A, B, 1>::new(config, hashes)),
            }
        }
        Ok(match config.key {
            Key::Tuple => of::<Tuple4, Tuple6>(config, hashes),
            Key::Pair => of::<Pair4, Pair6>(config, hashes),
            Key::Source => of::<Addr4<false>, Addr6<false>>(config, hashes),
            Key::Destination => of::<Addr4<true>, Addr6<true>>(config, hashes),
            Key::Digest32 => of::<Digest<false>, Digest<true>>(config, hashes),
        })
    }

    fn reader(config: &Config, _: &str, _: &HashFamily) -> impl ReadRecord<Counts> {
        let room = record::Room::of(config);
        move |bytes| Counts::decode(bytes, &room)
    }

    fn longest(config: &Config) -> usize {
        record::longest(config)
    }

    /// Counts add up when they name flows by the same fields, and count the same of the same
    /// packets.
    fn difference(config: &Config, other: &Config) -> Option<Difference> {
        let values = |config: &Config| {
            [
                ("key", word(&config.key)),
                ("count", word(&config.count)),
                ("scope", word(&config.scope)),
                ("prefix", config.prefix.to_string()),
                ("prefix6", config.prefix6.to_string()),
                ("names", config.names().to_string()),
            ]
        };
        Difference::first(values(config), values(other))
    }

    fn analysis(config: &Config, _: u64) -> HeavyAnalysis<Counts> {
        let unit = config.count;
        let found = move |counts: &Counts| counts.found(unit);
        let analysis = match config.scope {
            Scope::Switch => HeavyAnalysis::new(found),
            Scope::Network => HeavyAnalysis::adding(found),
        };
        analysis.naming(|counts| counts.names().collect())
    }

    fn p4(request: &P4Request<'_, Config>) -> Result<Option<P4Form>, ProgramError> {
        p4::form(request).map(Some)
    }

    fn exact(config: &Config) -> impl Exact + 'static {
        let naming = config.naming();
        FlowCounts::by(config.count, move |flow| naming.narrow(flow))
    }
}
