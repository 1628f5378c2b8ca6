//! Queries in words: what is asked of packets, on how many bits and of which share of them (§3.3).
//!
//! The form is `VALUE[:key=value]…`, several queries joined by `+`:
//! `path:bits=8+latency:bits=8:frequency=15/16:space=100`. The configuration file and the command
//! line have the same form.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::compress::{MAX_CODE_BITS, MIN_CODE_BITS, Range};
use super::encoding::DIGEST_BITS;
use super::loops::{MAX_THRESHOLD, MIN_BITS};
use super::plan::{Demand, MAX_QUERIES, Share};
use super::utilisation::code::MAX_BITS;
use super::utilisation::link::{Links, RATES};
use super::values::Aggregation;
use super::values::dataplane::Codes;
use super::window::PARTS;
use crate::program::answers::ValueUnit;
use crate::text::{named, scaled, serde_as_text, short};
use crate::wire::{FiveTuple, Flow};

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

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub value: Value,
    /// Of values that have some: how those of hops or packets come together.
    pub aggregation: Aggregation,
    /// Bits of one hash or value.
    pub bits: u32,
    /// Of a path: hashes side by side, each of a hop of its own.
    pub instances: u32,
    /// Of a path: what switches write of their identifiers.
    pub coding: PathCoding,
    /// Of a path: bits of its checksum, which tells several paths of one flow apart; 0 is none.
    pub checksum: u32,
    /// The share of packets that are to carry it, at least.
    pub frequency: Share,
    /// What its answers are about.
    pub flow: FlowDefinition,
    /// Of values with codes: the numbers that these tell apart.
    pub range: Range,
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
            checksum: 0,
            frequency: Share::ALL,
            flow: FlowDefinition::default(),
            range: value.range(),
            space: None,
            window_ns: None,
            threshold: MAX_THRESHOLD,
            links: Links::default(),
        }
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
            ("instances", Value::Path) => self.instances = number(1..=DIGEST_BITS)?,
            ("coding", Value::Path) => {
                let names = || PathCoding::ALL.map(PathCoding::name).join(", ");
                let coding = PathCoding::ALL.into_iter().find(|coding| coding.name() == text);
                self.coding = coding.ok_or_else(|| format!("{key}={text}: one of {}", names()))?;
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
        let Range { from, to } = query.range;
        if from > to / 2 {
            return Err(format!("{name}: to is at least twice from"));
        }
        let least = *SPACE_BYTES.start() * PARTS as u32;
        if query.window_ns.is_some() && query.space.is_some_and(|space| space < least) {
            return Err(format!("{name}: with a window space is at least {least}, for its {PARTS} parts"));
        }
        // Codes of equal factors reach whatever they are to reach.
        if let (Value::Queue | Value::Latency, Some(Codes::Numbers(codes))) = (query.value, Codes::new(&query)) {
            let most = codes.expand(u16::MAX);
            if most < to.into() {
                let bits = query.bits;
                return Err(format!("{name}: {bits} bits reach {most}, and to is {to}: more bits, or a smaller to"));
            }
        }
        query.links.check().map_err(|why| format!("{name}: {why}"))?;
        Ok(query)
    }
}

impl Value {
    /// The keys of its queries.
    fn keys(self) -> &'static str {
        match self {
            Self::Path => "bits, instances, coding, checksum, frequency and flow",
            Self::Loops => "bits, threshold, frequency and flow",
            Self::Latency | Self::Queue => "bits, aggregation, frequency, flow, from, to, space and window",
            Self::Utilisation => "bits, aggregation, frequency, flow, rate, period, space and window",
            Self::IngressPort | Self::EgressPort => "bits, aggregation, frequency, flow, space and window",
            Self::IngressTime => "bits, aggregation, frequency, flow, to, space and window",
            Self::Congestion => "bits, aggregation, frequency, flow, space and window",
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
        let Self { value, aggregation, bits, instances, coding, checksum, frequency, flow, .. } = self;
        let Self { range, space, window_ns, threshold, links, .. } = self;
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
        if let Some(space) = space {
            write!(f, ":space={space}")?;
        }
        if let Some(window) = window_ns {
            write!(f, ":window={}", written(*window))?;
        }
        links.fmt(f)
    }
}

/// The queries of a network, each value once, at most [`MAX_QUERIES`]. None stands for the path
/// query of the other parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queries(pub Vec<Query>);

impl Queries {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

const EXAMPLE: &str = "path:bits=8+latency:bits=8:frequency=15/16:space=100";

impl FromStr for Queries {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let queries = text.split('+').map(|query| query.trim().parse()).collect::<Result<Vec<Query>, _>>()?;
        if queries.len() > MAX_QUERIES {
            return Err(format!("there are at most {MAX_QUERIES} queries"));
        }
        let twice = queries.iter().enumerate().find(|(i, query)| queries[..*i].iter().any(|q| q.value == query.value));
        match twice {
            Some((_, query)) => Err(format!("{} is asked for twice", query.value.name())),
            None => Ok(Self(queries)),
        }
    }
}

impl fmt::Display for Queries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(Query::to_string).collect::<Vec<_>>().join("+"))
    }
}

serde_as_text!(Queries);

impl schemars::JsonSchema for Queries {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Queries".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "examples": [EXAMPLE] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_they_are_written() {
        for text in [
            EXAMPLE,
            "path:bits=4:instances=2:flow=dst",
            "path:bits=5:instances=2:checksum=6:flow=pair",
            "path:bits=4:instances=2:coding=fragments:checksum=6",
            "latency:bits=3:frequency=1/65536:from=1us:to=1500us:space=65536",
            "latency:bits=8:space=400:window=1500ms+path:bits=8",
            "loops:bits=12:frequency=1/4:flow=pair:threshold=1+path:bits=4",
            "path:bits=8:frequency=15/16+utilisation:bits=8:frequency=1/16",
            "utilisation:bits=1:flow=src:rate=2500Mbps:period=100us",
            "utilisation:bits=8:aggregation=quantiles:frequency=1/2:space=100:rate=1Gbps+queue:bits=8:frequency=1/2",
            "latency:bits=8:aggregation=sum:from=1us+ingress_port:bits=8",
            "ingress_time:bits=12:to=1s:space=100+queue:bits=4:aggregation=frequent:to=100",
            "egress_port:bits=4:space=50+congestion:bits=3:aggregation=max+queue:bits=8:aggregation=min:from=2:to=4",
        ] {
            assert_eq!(text.parse::<Queries>().unwrap().to_string(), text);
        }
        let queries: Queries = "latency : frequency=50% + path:bits=1".parse().unwrap();
        assert_eq!(queries.to_string(), "latency:bits=8:frequency=1/2+path:bits=1");
    }

    #[test]
    fn flows_are_those_of_their_definition() {
        let tuple = FiveTuple([4 << 40 | 7 << 24 | 80 << 8 | 6, 0, 0x0a00_0001, 0, 0x0a00_0002]);
        let named = FlowDefinition::ALL.map(|definition| definition.flow(definition.key(tuple)).to_string());
        assert_eq!(named, ["10.0.0.1:7 → 10.0.0.2:80 tcp", "10.0.0.1 → 10.0.0.2", "10.0.0.1 → *", "* → 10.0.0.2"]);
        let other = FiveTuple([4 << 40 | 9 << 24 | 17, 0, 0x0a00_0001, 0, 0x0a00_0003]);
        let same = FlowDefinition::ALL.map(|definition| definition.key(tuple) == definition.key(other));
        assert_eq!(same, [false, false, true, false]);
    }

    #[test]
    fn wrong_queries_say_what_would_be_right() {
        let refused = |text: &str| text.parse::<Queries>().unwrap_err();
        assert_eq!(
            refused("paths"),
            "\"paths\": a query is one of path, latency, loops, utilisation, \
             ingress_port, egress_port, ingress_time, queue, congestion"
        );
        assert_eq!(refused("path+path:bits=3"), "path is asked for twice");
        assert_eq!(refused("path:bits"), "\"bits\" is not of the form key=value");
        assert_eq!(refused("path:bits=17"), "bits=17: a whole number from 1 to 16");
        assert_eq!(refused("latency:bits=1"), "bits=1: a whole number from 3 to 12");
        let keys = "bits, aggregation, frequency, flow, from, to, space and window";
        assert_eq!(refused("latency:instances=2"), format!("instances: latency has {keys}"));
        assert_eq!(refused("queue:threshold=2"), format!("threshold: queue has {keys}"));
        assert_eq!(refused("queue:aggregation=mean"), "aggregation=mean: one of quantiles, frequent, max, min, sum");
        assert_eq!(refused("egress_port:aggregation=max"), "aggregation=max: one of frequent");
        assert_eq!(refused("ingress_port:bits=9"), "bits=9: a whole number from 1 to 8");
        assert_eq!(refused("ingress_time:bits=3"), "bits=3: a whole number from 4 to 12");
        assert_eq!(refused("queue:to=1"), "queue: to is at least twice from");
        let none = "space and window are of the samples of hops, and max has none";
        assert_eq!(refused("congestion:space=99:aggregation=max"), format!("congestion: {none}"));
        assert_eq!(refused("path:space=100"), "space: path has bits, instances, coding, checksum, frequency and flow");
        assert_eq!(refused("loops:bits=3"), "bits=3: a whole number from 4 to 16");
        assert_eq!(refused("loops:threshold=4"), "threshold=4: a whole number from 0 to 3");
        assert_eq!(refused("loops:space=100"), "space: loops has bits, threshold, frequency and flow");
        assert_eq!(
            refused("path:threshold=1"),
            "threshold: path has bits, instances, coding, checksum, frequency and flow"
        );
        assert_eq!(refused("path:bits=9:instances=2"), "path: bits × instances exceeds the 16 bits of a digest");
        let sum = "path: bits × instances + checksum exceeds the 16 bits of a digest";
        assert_eq!(refused("path:bits=5:instances=2:checksum=7"), sum);
        assert_eq!(refused("path:coding=parts"), "coding=parts: one of hash, fragments");
        assert_eq!(refused("path:bits=5:coding=fragments"), "path: fragments have 1, 2, 4, 8 or 16 bits");
        assert_eq!(refused("queue:bits=3"), "queue: 3 bits reach 64, and to is 2048: more bits, or a smaller to");
        let far = refused("latency:aggregation=sum:bits=4");
        assert!(far.starts_with("latency: 4 bits reach "), "{far}");
        assert_eq!(refused("path:checksum=0"), "checksum=0: a whole number from 1 to 15");
        assert_eq!(refused("latency:flow=vlan"), "flow=vlan: one of 5tuple, pair, src, dst");
        assert_eq!(refused("latency:to=5s"), "to=5s: a time is written like 100us, at most 4s");
        assert_eq!(refused("latency:from=1ms:to=1ms"), "latency: to is at least twice from");
        assert_eq!(refused("latency:window=2days"), "window=2days: a time is written like 10s, 1ms to 1day");
        let parts = "latency: with a window space is at least 400, for its 8 parts";
        assert_eq!(refused("latency:window=1s:space=399"), parts);
        assert_eq!(refused("utilisation:space=100"), format!("utilisation: {none}"));
        let keys = "utilisation has bits, aggregation, frequency, flow, rate, period, space and window";
        assert_eq!(refused("utilisation:to=100"), format!("to: {keys}"));
        assert_eq!(refused("utilisation:bits=9"), "bits=9: a whole number from 1 to 8");
        let rates = "a rate is written like 10Gbps, 100kbps to 800Gbps";
        assert_eq!(refused("utilisation:rate=10"), format!("rate=10: {rates}"));
        assert_eq!(refused("utilisation:rate=1Mbps:rate=2Mbps"), "rate: it stands there twice");
        let volume = "utilisation: rate × period is 10kB to 4MB, not 125000000 B";
        assert_eq!(refused("utilisation:rate=1Gbps:period=1s"), volume);
        assert_eq!(refused("utilisation:period=1us"), "utilisation: rate × period is 10kB to 4MB, not 1250 B");
        assert!(refused("path:frequency=3/2").contains("more than 0, at most 1"));
        assert!(refused("").contains("a query is one of"));
    }
}
