//! How much is sent, in words.

use std::fmt;
use std::str::FromStr;

use weir::text::{scaled, short};

use crate::traffic::{FCS, WIRE_OVERHEAD};

/// What bits per second count of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// All that the wire is busy with: preamble, frame with FCS, gap.
    L1,
    /// The frame with FCS.
    L2,
}

impl Layer {
    /// Bits of a frame of this length without FCS.
    pub fn bits(self, length: u16) -> u64 {
        let overhead = if self == Self::L1 { WIRE_OVERHEAD } else { 0 };
        8 * u64::from(length + FCS + overhead)
    }
}

/// A rate of sending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As fast as the core and the device can.
    Max,
    /// Packets per second.
    Packets(f64),
    Bits(Layer, f64),
}

/// The slowest rate, in packets per second. A schedule counts cycles up to one second between two.
const SLOWEST: f64 = 1.0;
const FASTEST_PACKETS: f64 = 1e9;
const FASTEST_BITS: f64 = 1e12;

impl Rate {
    /// A part of it, for a core that has this share of the packets.
    #[must_use]
    pub fn part(self, share: f64) -> Self {
        match self {
            Self::Max => self,
            Self::Packets(n) => Self::Packets(n * share),
            Self::Bits(layer, n) => Self::Bits(layer, n * share),
        }
    }

    /// Packets per second of frames of this mean length with FCS; `None` for the fastest.
    pub fn packets(self, mean_length: f64) -> Option<f64> {
        match self {
            Self::Max => None,
            Self::Packets(n) => Some(n),
            Self::Bits(Layer::L2, n) => Some(n / 8.0 / mean_length),
            Self::Bits(Layer::L1, n) => Some(n / 8.0 / (mean_length + f64::from(WIRE_OVERHEAD))),
        }
    }

    fn of_line(percent: &str, line: &str) -> Result<Self, String> {
        let wrong = || format!("`{percent}%{line}`: write a percentage of a line rate, such as 50%of10Gbps");
        let percent: f64 = percent.parse().map_err(|_| wrong())?;
        let line = line.strip_prefix("of").and_then(|line| scaled(line, "bps")).ok_or_else(wrong)?;
        if !(percent > 0.0 && percent <= 100.0) {
            return Err(wrong());
        }
        Self::Bits(Layer::L1, line as f64 * percent / 100.0).checked()
    }

    fn checked(self) -> Result<Self, String> {
        let (n, range) = match self {
            Self::Max => return Ok(self),
            Self::Packets(n) => (n, SLOWEST..=FASTEST_PACKETS),
            Self::Bits(_, n) => (n, 1e5..=FASTEST_BITS),
        };
        let wrong = || format!("a rate of {n}: {} to {}", range.start(), range.end());
        if range.contains(&n) { Ok(self) } else { Err(wrong()) }
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        if let Some((percent, line)) = text.split_once('%') {
            return Self::of_line(percent, line);
        }
        if let Some(packets) = scaled(text, "pps") {
            return Self::Packets(packets as f64).checked();
        }
        for (layer, unit) in [(Layer::L1, "bps-l1"), (Layer::L2, "bps-l2")] {
            if let Some(bits) = scaled(text, unit) {
                return Self::Bits(layer, bits as f64).checked();
            }
        }
        if scaled(text, "bps").is_some() {
            return Err(format!(
                "{text:?}: bits of the frames ({text}-l2) or of the wire, with preamble and gap ({text}-l1)?"
            ));
        }
        Err(format!("{text:?} is no rate; write max, 1Mpps, 1Gbps-l2, 1Gbps-l1 or 50%of10Gbps"))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Max => f.write_str("max"),
            Self::Packets(n) => write!(f, "{}pps", short(n.round() as u64)),
            Self::Bits(Layer::L1, n) => write!(f, "{}bps-l1", short(n.round() as u64)),
            Self::Bits(Layer::L2, n) => write!(f, "{}bps-l2", short(n.round() as u64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_say() {
        for text in ["max", "1Mpps", "14880952pps", "1500Mbps-l2", "10Gbps-l1"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        assert_eq!("50%of10Gbps".parse(), Ok(Rate::Bits(Layer::L1, 5e9)));
        assert_eq!("2.5Mpps".parse(), Ok(Rate::Packets(2_500_000.0)));
        for wrong in ["1Gbps", "", "1", "0pps", "2000Gpps", "0%of10Gbps", "101%of10Gbps", "50%", "50%10G", "-1pps"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
        assert!("1Gbps".parse::<Rate>().unwrap_err().contains("1Gbps-l1"));
    }

    /// 10 Gbit/s of 64-byte frames are 14.88 Mpps, the number that everybody knows.
    #[test]
    fn a_line_rate_is_the_known_one() {
        let packets = "100%of10Gbps".parse::<Rate>().unwrap().packets(64.0).unwrap();
        assert!((packets - 14_880_952.4).abs() < 0.1, "{packets}");
        assert_eq!((Layer::L1.bits(60), Layer::L2.bits(60)), (672, 512));
    }
}
