//! Rates as people write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::{json_schema, scaled, short};

const BITS_PER_SECOND: (u64, u64) = (8_000, 800_000_000_000);
const PACKETS_PER_SECOND: (u64, u64) = (1, 1_000_000_000);
/// Range of bursts. The smallest one lets the longest frame through.
const BURST_BYTES: (u64, u64) = (10_000, 1 << 30);

/// A rate: "1Gbps", "500kpps", "1Gbps,burst=64KB" or "1Gbps,500kpps".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Counts frames from the destination MAC on, without FCS.
    pub bits_per_second: Option<u64>,
    pub packets_per_second: Option<u64>,
    /// Bytes that may come at once; by default what passes in 50 ms, at least 64 KB.
    pub burst_bytes: Option<u64>,
}

impl Limit {
    pub(super) fn burst_bytes(&self) -> u64 {
        let usual = self.bits_per_second.unwrap_or_default() / 8 / 20;
        self.burst_bytes.unwrap_or(usual.clamp(64_000, BURST_BYTES.1))
    }

    /// Packets that may come at once: what passes in 50 ms, at least a burst of the switch.
    pub(super) fn burst_packets(packets_per_second: u64) -> u64 {
        (packets_per_second / 20).max(64)
    }
}

const RIGHT: &str = "a rate such as 1Gbps, 500kpps or 1Gbps,burst=64KB";

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut limit = Self { bits_per_second: None, packets_per_second: None, burst_bytes: None };
        for word in text.split(',').map(str::trim) {
            let (slot, value, (min, max), unit) = if let Some(burst) = word.strip_prefix("burst=") {
                (&mut limit.burst_bytes, scaled(burst, "B"), BURST_BYTES, "B")
            } else if word.ends_with("pps") {
                (&mut limit.packets_per_second, scaled(word, "pps"), PACKETS_PER_SECOND, "pps")
            } else {
                (&mut limit.bits_per_second, scaled(word, "bps"), BITS_PER_SECOND, "bps")
            };
            let value = value.ok_or(RIGHT)?;
            if !(min..=max).contains(&value) {
                return Err(format!("{min}{unit} to {max}{unit}"));
            }
            if slot.replace(value).is_some() {
                return Err(format!("{RIGHT}, each part once"));
            }
        }
        match limit {
            Self { bits_per_second: None, packets_per_second: None, .. } => Err(RIGHT.into()),
            Self { bits_per_second: None, burst_bytes: Some(_), .. } => Err("a burst goes with a rate in bps".into()),
            limit => Ok(limit),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            self.bits_per_second.map(|rate| format!("{}bps", short(rate))),
            self.packets_per_second.map(|rate| format!("{}pps", short(rate))),
            self.burst_bytes.map(|burst| format!("burst={}B", short(burst))),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

impl Serialize for Limit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|right| serde::de::Error::custom(format!("{text}: {right}")))
    }
}

json_schema!(Limit, {
    "type": "string",
    "pattern": r"^\s*([0-9.]+[kKMG]?[bp]ps|burst=[0-9.]+[kKMG]?B)\s*(,\s*([0-9.]+[kKMG]?[bp]ps|burst=[0-9.]+[kKMG]?B)\s*){0,2}$",
    "description": "A rate: 1Gbps, 500kpps, 1Gbps,burst=64KB",
});
