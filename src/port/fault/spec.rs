//! The faults of a port, as a user writes them.
//!
//! `rx:drop=1%,dst=10.0.0.2;tx:delay=5ms,jitter=1ms,seed=7`: rules with a semicolon between them,
//! each a direction and settings.

use std::{fmt, net::IpAddr, ops::RangeInclusive, str::FromStr, time::Duration};

use schemars::JsonSchema;

use super::filter::Filter;
use crate::text::{self, serde_as_text};

/// Maximum rules of a port.
const MAX_RULES: usize = 16;
/// Longest time that a packet can be held back.
const LONGEST: Duration = Duration::from_secs(60);
/// The range of a link's rate, in bits a second.
const BITS_PER_SECOND: RangeInclusive<u64> = 8_000..=800_000_000_000;
/// How long a packet waits at most for a link with a rate, unless `queue` says otherwise.
pub const QUEUE: Duration = Duration::from_millis(20);
/// How long a packet waits that the ones behind it are to overtake, unless `gap` says otherwise.
const GAP: Duration = Duration::from_millis(1);

/// Faults of one port.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("pattern" = r"^[\s;]*(rx|tx|inside)\s*:"))]
pub struct FaultSpec {
    /// In the order in which a packet meets them; one that drops it is the last.
    pub rules: Vec<Rule>,
}

/// The direction of the packets that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the device to the switch.
    Rx,
    /// From the switch to the device.
    Tx,
    /// Between the programs' ingress stages and the port that a packet leaves by.
    Inside,
}

impl Way {
    const ALL: [Self; 3] = [Self::Rx, Self::Tx, Self::Inside];

    fn name(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Tx => "tx",
            Self::Inside => "inside",
        }
    }
}

/// A chance in units of 2⁻³²: 2³² is certainty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate(pub u64);

impl Rate {
    const WHOLE: f64 = 4_294_967_296.0;

    fn of(part: f64) -> Self {
        Self((part * Self::WHOLE).round() as u64)
    }
}

/// The faults of packets that pass a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub way: Way,
    pub filter: Filter,
    pub drop: Rate,
    /// The last `burst` of each `every` packets are dropped; 0 for none.
    pub every: u32,
    pub burst: u32,
    /// One bit, somewhere in the frame, is flipped.
    pub corrupt: Rate,
    pub duplicate: Rate,
    pub delay: Duration,
    /// At most as much more, evenly spread.
    pub jitter: Duration,
    /// Packets go one after another over a link of this rate; 0 where it takes no time.
    pub bits_per_second: u64,
    /// A packet that would wait longer for this link is dropped.
    pub queue: Duration,
    /// The packet waits for `gap`, and those behind it overtake it.
    pub reorder: Rate,
    pub gap: Duration,
    /// Seed of the random numbers: the same seed and the same packets give the same faults.
    pub seed: u64,
}

impl Rule {
    fn new(way: Way) -> Self {
        Self {
            way,
            filter: Filter::default(),
            drop: Rate(0),
            every: 0,
            burst: 1,
            corrupt: Rate(0),
            duplicate: Rate(0),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            bits_per_second: 0,
            queue: QUEUE,
            reorder: Rate(0),
            gap: GAP,
            seed: 1,
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "drop" => self.drop = rate(key, value)?,
            "corrupt" => self.corrupt = rate(key, value)?,
            "duplicate" => self.duplicate = rate(key, value)?,
            "reorder" => self.reorder = rate(key, value)?,
            "every" => self.every = number(key, value, 1)?,
            "burst" => self.burst = number(key, value, 1)?,
            "seed" => self.seed = number(key, value, 0)?,
            "delay" => self.delay = time(key, value)?,
            "jitter" => self.jitter = time(key, value)?,
            "gap" => self.gap = time(key, value)?,
            "rate" => self.bits_per_second = speed(key, value)?,
            "queue" => self.queue = time(key, value)?,
            _ => self.filter.set(key, value)?,
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.burst > 1 && self.every <= self.burst {
            return Err(format!("burst={}: less than every, as in every=100,burst=3", self.burst));
        }
        let idle = self.drop.0 | self.corrupt.0 | self.duplicate.0 | self.reorder.0 == 0
            && self.every == 0
            && self.bits_per_second == 0
            && (self.delay + self.jitter).is_zero();
        if self.way == Way::Inside && *self != (Self { drop: self.drop, ..Self::new(Way::Inside) }) {
            return Err("inside: has drop alone, as in inside:drop=1%".to_owned());
        }
        if idle {
            return Err("a rule needs one of drop, every, corrupt, duplicate, delay, jitter, reorder, rate".to_owned());
        }
        if self.queue != QUEUE && self.bits_per_second == 0 {
            return Err("queue: goes with a rate, as in rate=10Mbps,queue=50ms".to_owned());
        }
        Ok(())
    }
}

/// Why faults cannot be read, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no fault: {problem}")]
pub struct FaultError {
    pub given: String,
    pub problem: String,
}

impl FaultSpec {
    /// Of 2³² packets that come in by the port, the number that is lost inside the switch.
    pub fn inside(&self) -> u64 {
        let rules = self.rules.iter().filter(|rule| rule.way == Way::Inside);
        rules.map(|rule| rule.drop.0).max().unwrap_or_default()
    }
}

impl FromStr for FaultSpec {
    type Err = FaultError;

    fn from_str(given: &str) -> Result<Self, FaultError> {
        let rules = given.split(';').map(str::trim).filter(|text| !text.is_empty()).map(rule);
        let rules = rules.collect::<Result<Vec<_>, _>>();
        let checked = rules.and_then(|rules| match rules.len() {
            1..=MAX_RULES => Ok(Self { rules }),
            n => Err(format!("{n} rules; 1 to {MAX_RULES} of them with a semicolon between, as in rx:drop=1%")),
        });
        checked.map_err(|problem| FaultError { given: given.to_owned(), problem })
    }
}

fn rule(text: &str) -> Result<Rule, String> {
    let (way, settings) = text.split_once(':').unwrap_or((text, ""));
    let known = Way::ALL.into_iter().find(|known| known.name() == way.trim());
    let known = known.ok_or_else(|| format!("`{way}`: a rule begins with rx:, tx: or inside:, as in rx:drop=1%"))?;
    let mut rule = Rule::new(known);
    for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        let (key, value) =
            setting.split_once('=').ok_or_else(|| format!("`{setting}` is not of the form key=value"))?;
        rule.set(key.trim(), value.trim())?;
    }
    rule.check()?;
    Ok(rule)
}

/// `0.01` or `1%`.
fn rate(key: &str, value: &str) -> Result<Rate, String> {
    let part =
        text::rate(value).ok_or_else(|| format!("{key}={value}: write 0.01 or 1%, and 100% for every packet"))?;
    Ok(Rate::of(part))
}

/// `10Mbps`.
fn speed(key: &str, value: &str) -> Result<u64, String> {
    let speed = text::scaled(value, "bps").filter(|speed| BITS_PER_SECOND.contains(speed));
    speed.ok_or_else(|| format!("{key}={value}: bits a second from 8kbps to 800Gbps, as 10Mbps"))
}

pub(super) fn number<T: FromStr + PartialOrd + fmt::Display>(key: &str, value: &str, min: T) -> Result<T, String> {
    let number = value.parse().ok().filter(|number| *number >= min);
    number.ok_or_else(|| format!("{key}={value}: a whole number from {min}"))
}

fn time(key: &str, value: &str) -> Result<Duration, String> {
    let length = humantime::parse_duration(value).ok().filter(|length| *length <= LONGEST);
    length.ok_or_else(|| format!("{key}={value}: a length of time up to 60s, as 5ms"))
}

/// The shortest decimal fraction that is read as this rate, or `100%`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::of(1.0) {
            return f.write_str("100%");
        }
        let exact = self.0 as f64 / Self::WHOLE;
        let mut shorter = (0..10).map(|digits| format!("{exact:.digits$}"));
        let same = |text: &String| text.parse().is_ok_and(|value: f64| Self::of(value) == *self);
        f.write_str(&shorter.find(same).unwrap_or_else(|| exact.to_string()))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fresh = Self::new(self.way);
        let mut words = Vec::new();
        let mut word = |key: &str, value: String, there: bool| {
            if there {
                words.push(format!("{key}={value}"));
            }
        };
        for (key, rate) in [("drop", self.drop), ("corrupt", self.corrupt), ("duplicate", self.duplicate)] {
            word(key, rate.to_string(), rate != Rate(0));
        }
        word("every", self.every.to_string(), self.every != 0);
        word("burst", self.burst.to_string(), self.burst != 1);
        word("reorder", self.reorder.to_string(), self.reorder != Rate(0));
        for (key, time, usual) in
            [("delay", self.delay, fresh.delay), ("jitter", self.jitter, fresh.jitter), ("gap", self.gap, fresh.gap)]
        {
            word(key, humantime::format_duration(time).to_string().replace(' ', ""), time != usual);
        }
        word("rate", format!("{}bps", text::short(self.bits_per_second)), self.bits_per_second > 0);
        word("queue", humantime::format_duration(self.queue).to_string().replace(' ', ""), self.queue != QUEUE);
        word("seed", self.seed.to_string(), self.seed != fresh.seed);
        words.extend(self.filter.words());
        write!(f, "{}:{}", self.way.name(), words.join(","))
    }
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<_> = self.rules.iter().map(Rule::to_string).collect();
        f.write_str(&rules.join(";"))
    }
}

serde_as_text!(FaultSpec);

/// The prefix of a filter: an address, and how many of its leading bits count.
pub(super) fn prefix(key: &str, value: &str) -> Result<(IpAddr, u32), String> {
    let wrong = || format!("{key}={value}: an address or a prefix, as 10.0.0.2 or 10.0.0.0/8");
    let (address, length) = value.split_once('/').map_or((value, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Ok(max), |length| length.parse().map_err(|_| wrong()))?;
    if length > max { Err(wrong()) } else { Ok((address, length)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_back() {
        for text in [
            "rx:drop=0.5",
            "tx:every=100,burst=3,ecn=1",
            "rx:corrupt=0.25,duplicate=100%,reorder=0.125,gap=2ms",
            "rx:drop=100%,src=10.0.0.0/8,dst=fd00::1,proto=6,sport=80,dport=443;tx:delay=5ms,jitter=1ms,seed=7",
            "tx:delay=1s500ms",
            "tx:delay=5ms,rate=10Mbps,queue=50ms",
            "tx:rate=1500kbps",
            "rx:drop=0.001",
            "rx:drop=0.000000001",
            "inside:drop=0.25",
        ] {
            let spec: FaultSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!(spec.to_string().parse(), Ok(spec));
        }
        let percent: FaultSpec = " rx: drop=1% , proto=udp ; ".parse().unwrap();
        assert_eq!(percent.rules[0].drop, Rate(42_949_673));
        assert_eq!(percent, percent.to_string().parse().unwrap());
    }

    #[test]
    fn an_error_says_what_would_be_right() {
        for (text, hint) in [
            ("", "rx:drop=1%"),
            ("drop=1%", "begins with rx:, tx: or inside:"),
            ("inside:delay=1ms", "has drop alone"),
            ("inside:drop=1%,src=10.0.0.1", "has drop alone"),
            ("rx:", "a rule needs one of"),
            ("rx:proto=tcp", "a rule needs one of"),
            ("rx:drop", "key=value"),
            ("rx:drop=2", "0.01 or 1%"),
            ("rx:drop=1", "100% for every packet"),
            ("tx:delay=5ms,duplicate=1", "100% for every packet"),
            ("rx:drop=NaN", "0.01 or 1%"),
            ("rx:every=0", "whole number from 1"),
            ("rx:every=3,burst=3", "every=100,burst=3"),
            ("rx:delay=5", "5ms"),
            ("rx:delay=2h", "up to 60s"),
            ("tx:rate=1Mb", "as 10Mbps"),
            ("tx:rate=1kbps", "8kbps to 800Gbps"),
            ("tx:queue=5ms,drop=1%", "goes with a rate"),
            ("inside:rate=1Mbps", "has drop alone"),
            ("rx:drop=100%,ecn=4", "0 to 3"),
            ("rx:drop=100%,src=10.0.0.0/33", "10.0.0.0/8"),
            ("rx:drop=100%,proto=tpc", "tcp"),
            ("rx:drop=100%,sport=x", "0 to 65535"),
            ("rx:lose=1", "no such setting"),
        ] {
            let error = text.parse::<FaultSpec>().unwrap_err().to_string();
            assert!(error.contains(hint) && error.contains(text), "{error}");
        }
    }
}
