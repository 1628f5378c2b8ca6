//! A workload as text: `LAW/ORDER,key=value,…`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::lengths::{MAX_FRAME, MIN_FRAME};
use super::{Cdf, Keys, Lengths, MAX_FLOWS, MAX_PACKETS, Order, SizeLaw, Workload};

/// Packets per flow where only one of the two numbers is given: the mean of the `isp` workload.
const PACKETS_PER_FLOW: u64 = 25;

/// An error in a workload's text.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WorkloadError {
    #[error(
        "unknown flow sizes `{0}`: one of isp, isp-scaled, zipfS (such as zipf1.1), websearch (dctcp), datamining (vl2), hadoop, cache, keyvalue"
    )]
    Law(String),
    #[error("unknown order `{0}`: uniform or burst")]
    Order(String),
    #[error("`{0}` is not key=value")]
    NoValue(String),
    #[error("unknown key `{0}`: one of flows, packets, longest, seed, keys, ipv6, len, rate")]
    Key(String),
    #[error("{key}={value}: expected {expected}")]
    Value { key: String, value: String, expected: String },
    #[error("{flows} flows need at least as many packets, not {packets}")]
    TooFewPackets { flows: u32, packets: u64 },
    #[error("about {0} packets are more than the {MAX_PACKETS} that a workload may have: fewer flows")]
    TooManyPackets(u64),
    #[error("{law} draws each flow's size: give flows or packets, not both")]
    BothCounts { law: String },
}

impl fmt::Display for SizeLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Isp => f.write_str("isp"),
            Self::IspScaled => f.write_str("isp-scaled"),
            Self::Zipf(s) => write!(f, "zipf{s}"),
            Self::Cdf(cdf) => f.write_str(cdf.name()),
        }
    }
}

impl FromStr for SizeLaw {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        if let Some(law) = [Self::Isp, Self::IspScaled].into_iter().find(|law| law.to_string() == text) {
            return Ok(law);
        }
        // The names that ChameleMon calls them by.
        let text = match text {
            "dctcp" => "websearch",
            "vl2" => "datamining",
            _ => text,
        };
        if let Some(cdf) = Cdf::ALL.into_iter().find(|cdf| cdf.name() == text) {
            return Ok(Self::Cdf(cdf));
        }
        let exponent = text.strip_prefix("zipf").and_then(|s| s.parse::<f64>().ok());
        match exponent {
            Some(s) if (0.0..=10.0).contains(&s) => Ok(Self::Zipf(s)),
            _ => Err(WorkloadError::Law(text.to_owned())),
        }
    }
}

impl FromStr for Order {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let order = Self::ALL.into_iter().find(|order| order.name() == text);
        order.ok_or_else(|| WorkloadError::Order(text.to_owned()))
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(length) => write!(f, "{length}"),
            Self::Imix => f.write_str("imix"),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.law, self.order.name())?;
        if self.flows > 0 {
            write!(f, ",flows={}", self.flows)?;
        }
        if self.packets > 0 {
            write!(f, ",packets={}", self.packets)?;
        }
        if self.longest > 0 {
            write!(f, ",longest={}", self.longest)?;
        }
        if self.keys != Keys::Random {
            write!(f, ",keys={}", self.keys.name())?;
        }
        let Self { seed, ipv6, lengths, rate, .. } = self;
        write!(f, ",seed={seed},ipv6={ipv6},len={lengths},rate={rate}")
    }
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let (law, order) = name.split_once('/').unwrap_or((name, "burst"));
        let mut workload = Self { law: law.parse()?, order: order.parse()?, flows: 0, packets: 0, ..Self::default() };
        for part in parts.filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| WorkloadError::NoValue(part.to_owned()))?;
            workload.set(key.trim(), value.trim())?;
        }
        workload.complete()?;
        Ok(workload)
    }
}

impl Workload {
    fn set(&mut self, key: &str, value: &str) -> Result<(), WorkloadError> {
        match key {
            "flows" => self.flows = count(key, value, u64::from(MAX_FLOWS))? as u32,
            "packets" => self.packets = count(key, value, MAX_PACKETS)?,
            "longest" => self.longest = count(key, value, u64::from(u32::MAX))? as u32,
            "rate" => self.rate = count(key, value, 1_000_000_000)?,
            "seed" => self.seed = value.parse().map_err(|_| wrong(key, value, "a whole number below 2^64"))?,
            "keys" => {
                let keys = Keys::ALL.into_iter().find(|keys| keys.name() == value);
                self.keys = keys.ok_or_else(|| wrong(key, value, "random, scan, range or clients"))?;
            }
            "ipv6" => {
                let share = value.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
                self.ipv6 = share.ok_or_else(|| wrong(key, value, "a share from 0 to 1"))?;
            }
            "len" if value == "imix" => self.lengths = Lengths::Imix,
            "len" => {
                let length = value.parse::<u16>().ok().filter(|n| (MIN_FRAME..=MAX_FRAME).contains(n));
                let expected = format!("imix, or {MIN_FRAME} to {MAX_FRAME} bytes (without FCS)");
                self.lengths = Lengths::Fixed(length.ok_or_else(|| wrong(key, value, &expected))?);
            }
            _ => return Err(WorkloadError::Key(key.to_owned())),
        }
        Ok(())
    }

    /// Fills in the counts that were not given and checks that they go together.
    fn complete(&mut self) -> Result<(), WorkloadError> {
        let default = Self::default();
        match (self.law.is_ranked(), self.flows, self.packets) {
            (true, 0, 0) => (self.flows, self.packets) = (default.flows, default.packets),
            (true, flows, 0) => self.packets = u64::from(flows) * PACKETS_PER_FLOW,
            (true, 0, packets) => self.flows = ((packets / PACKETS_PER_FLOW).max(1)).min(u64::from(MAX_FLOWS)) as u32,
            (true, flows, packets) if u64::from(flows) > packets => {
                return Err(WorkloadError::TooFewPackets { flows, packets });
            }
            (true, _, _) => {}
            (false, 0, 0) => self.packets = default.packets,
            (false, 0, _) => {}
            (false, flows, 0) => {
                // The smallest flow is one packet, so this is never too low.
                let longest = if self.longest == 0 { f64::INFINITY } else { self.longest.into() };
                let expected = f64::from(flows) * (1.0 + self.law.mean_packets().min(longest));
                if expected > MAX_PACKETS as f64 {
                    return Err(WorkloadError::TooManyPackets(expected as u64));
                }
            }
            (false, _, _) => return Err(WorkloadError::BothCounts { law: self.law.to_string() }),
        }
        Ok(())
    }
}

fn count(key: &str, value: &str, max: u64) -> Result<u64, WorkloadError> {
    let plain = value.replace('_', "");
    let (digits, unit) = match plain.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1000),
        None => plain.strip_suffix('M').map_or((plain.as_str(), 1), |digits| (digits, 1_000_000)),
    };
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).filter(|n| (1..=max).contains(n));
    number.ok_or_else(|| wrong(key, value, &format!("a whole number from 1 to {max} (k and M are understood)")))
}

fn wrong(key: &str, value: &str, expected: &str) -> WorkloadError {
    WorkloadError::Value { key: key.to_owned(), value: value.to_owned(), expected: expected.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_round() {
        for text in [
            "isp",
            "isp/uniform",
            "isp-scaled,flows=63k,packets=2300k",
            "zipf1.25/burst,flows=10,packets=1k,seed=9",
            "hadoop,flows=2k",
            "cache",
            "vl2,flows=10,longest=4k",
            "isp/burst,packets=2M,ipv6=0.25,len=imix,rate=1000",
            "zipf1,flows=7,len=1514",
            "isp/uniform,flows=9,keys=clients",
            "isp,flows=9,keys=range,ipv6=0.5",
        ] {
            let workload = Workload::from_str(text).unwrap();
            assert_eq!(Workload::from_str(&workload.to_string()), Ok(workload), "{text}");
        }
        assert_eq!(Workload::from_str("isp/burst"), Ok(Workload::default()));
        assert_eq!(Workload::from_str("isp,packets=1M").unwrap().flows, 40_000);
    }

    #[test]
    fn errors_say_what_would_be_right() {
        let wrong = [
            "",
            "caida",
            "zipf-1",
            "isp/random",
            "isp,flows",
            "isp,flow=3",
            "isp,flows=0",
            "isp,packets=2G",
            "isp,ipv6=2",
            "isp,len=20",
            "isp,keys=row",
            "isp,seed=-1",
            "isp,flows=10,packets=9",
            "cache,flows=1,packets=1",
            "datamining,flows=1M",
        ];
        let errors = wrong.map(|text| format!("{text}: {}", Workload::from_str(text).unwrap_err()));
        insta::assert_snapshot!(errors.join("\n"), @r"
        : unknown flow sizes ``: one of isp, isp-scaled, zipfS (such as zipf1.1), websearch (dctcp), datamining (vl2), hadoop, cache, keyvalue
        caida: unknown flow sizes `caida`: one of isp, isp-scaled, zipfS (such as zipf1.1), websearch (dctcp), datamining (vl2), hadoop, cache, keyvalue
        zipf-1: unknown flow sizes `zipf-1`: one of isp, isp-scaled, zipfS (such as zipf1.1), websearch (dctcp), datamining (vl2), hadoop, cache, keyvalue
        isp/random: unknown order `random`: uniform or burst
        isp,flows: `flows` is not key=value
        isp,flow=3: unknown key `flow`: one of flows, packets, longest, seed, keys, ipv6, len, rate
        isp,flows=0: flows=0: expected a whole number from 1 to 16777216 (k and M are understood)
        isp,packets=2G: packets=2G: expected a whole number from 1 to 1000000000 (k and M are understood)
        isp,ipv6=2: ipv6=2: expected a share from 0 to 1
        isp,len=20: len=20: expected imix, or 60 to 1514 bytes (without FCS)
        isp,keys=row: keys=row: expected random, scan, range or clients
        isp,seed=-1: seed=-1: expected a whole number below 2^64
        isp,flows=10,packets=9: 10 flows need at least as many packets, not 9
        cache,flows=1,packets=1: cache draws each flow's size: give flows or packets, not both
        datamining,flows=1M: about 8439799066 packets are more than the 1000000000 that a workload may have: fewer flows
        ");
    }
}
