//! Queries in words: what is asked of packets, on how many bits and of which share of them (§3.3).
//!
//! The form is `VALUE[:key=value]…`, several queries joined by `+`:
//! `path:bits=8+latency:bits=8:frequency=15/16:space=100`. The configuration file and the command
//! line have the same form.

mod queries;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::compress::{Approximation, MAX_CODE_BITS, MIN_CODE_BITS, Range};
use super::encoding::DIGEST_BITS;
use super::loops::{MAX_THRESHOLD, MIN_BITS};
use super::plan::{Demand, Share};
use super::samples::MIN_FREQUENT_BYTES;
use super::utilisation::code::MAX_BITS;
use super::utilisation::filter::Filter;
use super::utilisation::link::{Links, RATES};
use super::values::dataplane::Codes;
use super::values::{Aggregation, SHARE_EXPONENT_BITS};
use super::window::PARTS;
use crate::answers::ValueUnit;
use crate::text::{named, scaled, short};
use crate::wire::{FiveTuple, Flow};
pub use queries::Queries;

named! {
    /// What a query asks for: a value of the switches (Table 1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Value {
        /// The switches that a flow crosses: static per flow.
        Path = "path",
        /// The time that a packet takes in a switch.
        Latency = "latency",
        /// Packets that come back to a switch (§A.4).
        Loops = "loops",
        /// The utilisation of the link that a packet leaves by.
        Utilisation = "utilisation",
        /// The number of the port by which a packet comes in.
        IngressPort = "ingress_port",
        /// The number of the port by which it leaves.
        EgressPort = "egress_port",
        /// When a switch receives a packet.
        IngressTime = "ingress_time",
        /// Packets that wait for the port ahead of it.
        Queue = "queue",
        /// The share of the queue's room that these take.
        Congestion = "congestion",
    }
}

named! {
    /// Which packets are one flow: those that share these fields.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum FlowDefinition {
        /// Addresses, ports and protocol.
        #[default]
        FiveTuple = "5tuple",
        /// Source and destination address.
        Pair = "pair",
        Source = "src",
        Destination = "dst",
    }
}

impl FlowDefinition {
    /// The fields of a packet's five-tuple that define its flow; others are 0.
    pub fn key(self, FiveTuple([ports, src_high, src, dst_high, dst]): FiveTuple) -> FiveTuple {
        let version = ports >> 40 << 40;
        FiveTuple(match self {
            Self::FiveTuple => [ports, src_high, src, dst_high, dst],
            Self::Pair => [version, src_high, src, dst_high, dst],
            Self::Source => [version, src_high, src, 0, 0],
            Self::Destination => [version, 0, 0, dst_high, dst],
        })
    }

    /// The flow with this [key](Self::key).
    pub fn flow(self, key: FiveTuple) -> Flow {
        let Flow { src, dst, sport, dport, proto } = key.flow();
        match self {
            Self::FiveTuple => Flow { src, dst, sport, dport, proto },
            Self::Pair => Flow { src, dst, sport: None, dport: None, proto: None },
            Self::Source => Flow { src, dst: None, sport: None, dport: None, proto: None },
            Self::Destination => Flow { src: None, dst, sport: None, dport: None, proto: None },
        }
    }
}

named! {
    /// What a switch writes of its identifier into the packets of the path query (§4.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum PathCoding {
        /// A hash of the identifier and of the packet. What decodes has to know the switches.
        #[default]
        Hash = "hash",
        /// A part of the identifier. What decodes need not know the switches, and needs more packets.
        Fragments = "fragments",
    }
}

named! {
    /// By what the hops that write a packet of the path query are drawn (§4.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum PathActs {
        /// One hash for each hop of each packet.
        #[default]
        Hashes = "hashes",
        /// Bit vectors of the packet. What decodes computes fewer hashes, and a switch one more.
        Vectors = "vectors",
    }
}

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub value: Value,
    /// Of values that have some: how those of hops or packets come together.
    pub aggregation: Aggregation,
    /// Bits of one hash or value.
    pub bits: u32,
    /// Of a path and of values of hops: hashes or values side by side, each of a hop of its own.
    pub instances: u32,
    /// Of a path: what switches write of their identifiers.
    pub coding: PathCoding,
    /// Of a path: by what the hops that write a packet are drawn.
    pub acts: PathActs,
    /// Of a path: bits of its checksum, which tells several paths of one flow apart; 0 is none.
    pub checksum: u32,
    /// The share of packets that are to carry it, at least.
    pub frequency: Share,
    /// What its answers are about.
    pub flow: FlowDefinition,
    /// Of values with codes: the numbers that these tell apart.
    pub range: Range,
    /// Of values for which there is a choice: how codes approximate numbers.
    pub compression: Approximation,
    /// Of values of hops: bytes that are kept for each hop of a flow; `None` keeps every sample.
    pub space: Option<u32>,
    /// Of latencies: answers are about the last packets alone, those of so many nanoseconds.
    pub window_ns: Option<u64>,
    /// Of loops: how often a switch finds its own hash on a packet without calling it a loop.
    pub threshold: u32,
    /// Of utilisations: the links of the network.
    pub links: Links,
}

/// Most packets that a queue's codes tell apart.
const MAX_QUEUE: u32 = 1 << 20;

/// Fewest and most bytes of a query's space budget: a sketch of 8-bit values has at least as many.
pub const SPACE_BYTES: std::ops::RangeInclusive<u32> = 50..=65_536;

/// The shortest and the longest window, in nanoseconds.
pub const WINDOW_NS: std::ops::RangeInclusive<u64> = 1_000_000..=86_400_000_000_000;

impl Query {
    /// A query of this value with its default bits, on all packets.
    pub fn new(value: Value) -> Self {
        Self {
            value,
            aggregation: value.aggregations().first().copied().unwrap_or(Aggregation::Quantiles),
            bits: 8,
            instances: 1,
            coding: PathCoding::default(),
            acts: PathActs::default(),
            checksum: 0,
            frequency: Share::ALL,
            flow: FlowDefinition::default(),
            range: value.range(),
            compression: value.compression().unwrap_or(Approximation::Multiplicative),
            space: None,
            window_ns: None,
            threshold: MAX_THRESHOLD,
            links: Links::default(),
        }
    }

    /// The query as switches know it, without what is made of the digests alone. Queries that are
    /// equal in this are one code, and share its bits of a packet.
    #[must_use]
    pub fn code(&self) -> Self {
        let of_hops = || self.value.aggregations().iter().copied().find(|of| of.is_of_hops());
        let aggregation = if self.aggregation.is_of_hops() { of_hops() } else { None };
        Self {
            aggregation: aggregation.unwrap_or(self.aggregation),
            frequency: Share::ALL,
            flow: FlowDefinition::default(),
            space: None,
            window_ns: None,
            ..*self
        }
    }

    /// What tells it apart from others: all but its frequency.
    #[must_use]
    pub fn identity(&self) -> Self {
        Self { frequency: Share::ALL, ..*self }
    }

    /// What it takes of packets.
    pub fn demand(&self) -> Demand {
        Demand { bits: self.bits * self.instances + self.checksum, share: self.frequency }
    }

    fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        let number = |range: std::ops::RangeInclusive<u32>| {
            let wrong = || format!("{key}={text}: a whole number from {} to {}", range.start(), range.end());
            text.parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
        };
        match (key, self.value) {
            ("bits", Value::Path) => self.bits = number(1..=DIGEST_BITS)?,
            ("bits", Value::Latency) => self.bits = number(MIN_CODE_BITS..=MAX_CODE_BITS)?,
            ("bits", Value::Loops) => self.bits = number(MIN_BITS..=DIGEST_BITS)?,
            ("threshold", Value::Loops) => self.threshold = number(0..=MAX_THRESHOLD)?,
            ("bits", Value::Utilisation | Value::IngressPort | Value::EgressPort) => self.bits = number(1..=MAX_BITS)?,
            ("bits", Value::IngressTime) => self.bits = number(4..=MAX_CODE_BITS)?,
            ("bits", Value::Queue | Value::Congestion) => self.bits = number(1..=MAX_CODE_BITS)?,
            ("aggregation", value) if !value.aggregations().is_empty() => self.aggregation = aggregation(value, text)?,
            ("instances", value) if value == Value::Path || !value.aggregations().is_empty() => {
                self.instances = number(1..=DIGEST_BITS)?;
            }
            ("compression", value) if value.compression().is_some() => {
                let names = || Approximation::ALL.map(Approximation::name).join(", ");
                let compression = Approximation::ALL.into_iter().find(|compression| compression.name() == text);
                self.compression = compression.ok_or_else(|| format!("{key}={text}: one of {}", names()))?;
            }
            ("coding", Value::Path) => {
                let names = || PathCoding::ALL.map(PathCoding::name).join(", ");
                let coding = PathCoding::ALL.into_iter().find(|coding| coding.name() == text);
                self.coding = coding.ok_or_else(|| format!("{key}={text}: one of {}", names()))?;
            }
            ("acts", Value::Path) => {
                let names = || PathActs::ALL.map(PathActs::name).join(", ");
                let acts = PathActs::ALL.into_iter().find(|acts| acts.name() == text);
                self.acts = acts.ok_or_else(|| format!("{key}={text}: one of {}", names()))?;
            }
            ("checksum", Value::Path) => self.checksum = number(1..=DIGEST_BITS - 1)?,
            ("frequency", _) => self.frequency = text.parse().map_err(|why| format!("{key}={text}: {why}"))?,
            ("flow", _) => {
                let names = || FlowDefinition::ALL.map(FlowDefinition::name).join(", ");
                let definition = FlowDefinition::ALL.into_iter().find(|definition| definition.name() == text);
                self.flow = definition.ok_or_else(|| format!("{key}={text}: one of {}", names()))?;
            }
            ("from", Value::Latency) => self.range.from = time(key, text)?,
            ("to", Value::Latency | Value::IngressTime) => self.range.to = time(key, text)?,
            ("from", Value::Queue) => self.range.from = number(1..=MAX_QUEUE)?,
            ("to", Value::Queue) => self.range.to = number(1..=MAX_QUEUE)?,
            ("space", value) if !value.aggregations().is_empty() => self.space = Some(number(SPACE_BYTES)?),
            ("window", value) if !value.aggregations().is_empty() => self.window_ns = Some(window(key, text)?),
            ("rate", Value::Utilisation) => self.links.bits_per_second = rate(key, text)?,
            ("period", Value::Utilisation) => self.links.period_ns = Some(time(key, text)?),
            ("filter", Value::Utilisation) => {
                let names = || Filter::ALL.map(Filter::name).join(", ");
                let filter = Filter::ALL.into_iter().find(|filter| filter.name() == text);
                self.links.filter = filter.ok_or_else(|| format!("{key}={text}: one of {}", names()))?;
            }
            (_, value) => return Err(format!("{key}: {} has {}", value.name(), value.keys())),
        }
        Ok(())
    }
}

impl FromStr for Query {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(':').map(str::trim);
        let name = words.next().unwrap_or_default();
        let names = || Value::ALL.map(Value::name).join(", ");
        let value = Value::ALL.into_iter().find(|value| value.name() == name);
        let mut query = Self::new(value.ok_or_else(|| format!("{name:?}: a query is one of {}", names()))?);
        let mut keys = BTreeSet::new();
        for word in words {
            let (key, text) = word.split_once('=').ok_or_else(|| format!("{word:?} is not of the form key=value"))?;
            if !keys.insert(key) {
                return Err(format!("{key}: it stands there twice"));
            }
            query.set(key, text)?;
        }
        if query.coding == PathCoding::Fragments && !query.bits.is_power_of_two() {
            return Err(format!("{name}: fragments have 1, 2, 4, 8 or 16 bits"));
        }
        if query.bits * query.instances > DIGEST_BITS {
            return Err(format!("{name}: bits × instances exceeds the {DIGEST_BITS} bits of a digest"));
        }
        if query.demand().bits > DIGEST_BITS {
            return Err(format!("{name}: bits × instances + checksum exceeds the {DIGEST_BITS} bits of a digest"));
        }
        if (query.space.is_some() || query.window_ns.is_some()) && !query.aggregation.is_of_hops() {
            let none = query.aggregation.name();
            return Err(format!("{name}: space and window are of the samples of hops, and {none} has none"));
        }
        if query.instances > 1 && query.value != Value::Path && !query.aggregation.is_of_hops() {
            let none = query.aggregation.name();
            return Err(format!("{name}: instances are of the values of hops, and {none} is of the whole way"));
        }
        let Range { from, to } = query.range;
        if from > to / 2 {
            return Err(format!("{name}: to is at least twice from"));
        }
        let of_share = query.value == Value::Congestion && query.compression == Approximation::Multiplicative;
        if of_share && query.bits < SHARE_EXPONENT_BITS {
            return Err(format!("{name}: multiplicative codes have {SHARE_EXPONENT_BITS} bits at least"));
        }
        let parts = if query.window_ns.is_some() { PARTS as u32 } else { 1 };
        let is_frequent = query.aggregation == Aggregation::Frequent;
        let least = parts * if is_frequent { MIN_FREQUENT_BYTES } else { *SPACE_BYTES.start() };
        if query.space.is_some_and(|space| space < least) {
            let with = match (is_frequent, parts > 1) {
                (true, false) => format!("with frequent space is at least {least}"),
                (true, true) => format!("with frequent and a window space is at least {least}, for its {PARTS} parts"),
                (false, _) => format!("with a window space is at least {least}, for its {PARTS} parts"),
            };
            return Err(format!("{name}: {with}"));
        }
        // Codes of equal factors reach whatever they are to reach.
        if let (Value::Queue | Value::Latency, Some(Codes::Numbers(codes))) = (query.value, Codes::new(&query)) {
            let most = codes.expand(u16::MAX);
            if most < to.into() {
                let bits = query.bits;
                return Err(format!("{name}: {bits} bits reach {most}, and to is {to}: more bits, or a smaller to"));
            }
        }
        if query.links.filter == Filter::Shifts && query.bits < MIN_CODE_BITS {
            return Err(format!("{name}: with filter = shifts bits is at least {MIN_CODE_BITS}"));
        }
        query.links.check().map_err(|why| format!("{name}: {why}"))?;
        Ok(query)
    }
}

impl Value {
    /// The keys of its queries.
    fn keys(self) -> &'static str {
        match self {
            Self::Path => "bits, instances, coding, acts, checksum, frequency and flow",
            Self::Loops => "bits, threshold, frequency and flow",
            Self::Latency | Self::Queue => {
                "bits, aggregation, instances, compression, frequency, flow, from, to, space and window"
            }
            Self::Utilisation => {
                "bits, aggregation, instances, frequency, flow, rate, period, filter, space and window"
            }
            Self::IngressPort | Self::EgressPort => "bits, aggregation, instances, frequency, flow, space and window",
            Self::IngressTime => "bits, aggregation, instances, frequency, flow, to, space and window",
            Self::Congestion => "bits, aggregation, instances, compression, frequency, flow, space and window",
        }
    }
}

/// An aggregation of a value, by its name.
fn aggregation(value: Value, text: &str) -> Result<Aggregation, String> {
    let all = value.aggregations();
    let names = || all.iter().map(|of| of.name()).collect::<Vec<_>>().join(", ");
    let named = all.iter().find(|of| of.name() == text).copied();
    named.ok_or_else(|| format!("aggregation={text}: one of {}", names()))
}

/// Bits per second of a rate that is written like `10Gbps`.
fn rate(key: &str, text: &str) -> Result<u64, String> {
    let [min, max] = [RATES.start(), RATES.end()].map(|rate| short(*rate));
    let wrong = || format!("{key}={text}: a rate is written like 10Gbps, {min}bps to {max}bps");
    scaled(text, "bps").filter(|rate| RATES.contains(rate)).ok_or_else(wrong)
}

/// Nanoseconds of a time that is written like `100us`.
fn time(key: &str, text: &str) -> Result<u32, String> {
    let ns = humantime::parse_duration(text).ok().and_then(|time| u32::try_from(time.as_nanos()).ok());
    ns.filter(|ns| *ns > 0).ok_or_else(|| format!("{key}={text}: a time is written like 100us, at most 4s"))
}

/// Nanoseconds of a window that is written like `10s`.
fn window(key: &str, text: &str) -> Result<u64, String> {
    let ns = humantime::parse_duration(text).ok().and_then(|time| u64::try_from(time.as_nanos()).ok());
    let wrong = || format!("{key}={text}: a time is written like 10s, 1ms to 1day");
    ns.filter(|ns| WINDOW_NS.contains(ns)).ok_or_else(wrong)
}

/// As [`time`] reads it, in one unit.
pub(super) fn written(ns: impl Into<u64>) -> String {
    let ns = ns.into();
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units.into_iter().find(|(unit, _)| ns.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{ns}ns"), |(unit, name)| format!("{}{name}", ns / unit))
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, aggregation, bits, instances, coding, acts, checksum, frequency, .. } = self;
        let Self { flow, range, compression, space, window_ns, threshold, links, .. } = self;
        write!(f, "{}:bits={bits}", value.name())?;
        if *aggregation != Self::new(*value).aggregation {
            write!(f, ":aggregation={}", aggregation.name())?;
        }
        if *instances > 1 {
            write!(f, ":instances={instances}")?;
        }
        if *coding != PathCoding::default() {
            write!(f, ":coding={}", coding.name())?;
        }
        if *acts != PathActs::default() {
            write!(f, ":acts={}", acts.name())?;
        }
        if *checksum > 0 {
            write!(f, ":checksum={checksum}")?;
        }
        if *frequency != Share::ALL {
            write!(f, ":frequency={frequency}")?;
        }
        if *flow != FlowDefinition::default() {
            write!(f, ":flow={}", flow.name())?;
        }
        if *threshold != MAX_THRESHOLD {
            write!(f, ":threshold={threshold}")?;
        }
        let default = value.range();
        let text = |number: u32| match value.unit() {
            Some(ValueUnit::Ns) => written(number),
            _ => number.to_string(),
        };
        for (key, number, default) in [("from", range.from, default.from), ("to", range.to, default.to)] {
            if number != default {
                write!(f, ":{key}={}", text(number))?;
            }
        }
        if *compression != Self::new(*value).compression {
            write!(f, ":compression={}", compression.name())?;
        }
        if let Some(space) = space {
            write!(f, ":space={space}")?;
        }
        if let Some(window) = window_ns {
            write!(f, ":window={}", written(*window))?;
        }
        links.fmt(f)
    }
}

#[cfg(test)]
mod tests;
