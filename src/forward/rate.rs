//! Rate limits of ports: token buckets that workers share.
//!
//! A bucket is one number: the time up to which its rate is spent. A packet that takes `cost` nanoseconds at the rate passes
//! when that time and `cost` do not reach beyond now; a bucket that was left alone is at most `burst` behind. A worker
//! reads the number before a burst and adds what the burst spent after it. So over any window, from the first packet to
//! the last, the bytes that pass are at most `rate × window + burst`; and while `n` workers use the same bucket
//! at the same instant, at most `n − 1` of their bursts more, which the bucket then makes up for.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pisa::PortId;

/// Time in a bucket is in 2⁻⁸ ns: 1.1 years may pass between two packets, and the error for a packet is below 0.1 % at 100 Gbit/s.
const TIME_SHIFT: u32 = 8;
/// A byte's cost has as many more binary places.
const COST_SHIFT: u32 = 16;
const BITS_PER_SECOND: (u64, u64) = (8_000, 800_000_000_000);
const PACKETS_PER_SECOND: (u64, u64) = (1, 1_000_000_000);
/// The least burst lets the longest frame through.
const BURST_BYTES: (u64, u64) = (10_000, 1 << 30);

/// A rate: "1Gbps", "500kpps", "1Gbps,burst=64KB" or "1Gbps,500kpps".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Of frames from the destination MAC on, without FCS.
    pub bits_per_second: Option<u64>,
    pub packets_per_second: Option<u64>,
    /// Bytes that may come at once; by default what passes in 50 ms, at least 64 KB.
    pub burst_bytes: Option<u64>,
}

impl Limit {
    fn burst_bytes(&self) -> u64 {
        let usual = self.bits_per_second.unwrap_or_default() / 8 / 20;
        self.burst_bytes.unwrap_or(usual.clamp(64_000, BURST_BYTES.1))
    }

    /// Packets that may come at once: what passes in 50 ms, at least a burst of the switch.
    fn burst_packets(packets_per_second: u64) -> u64 {
        (packets_per_second / 20).max(64)
    }
}

const RIGHT: &str = "a rate such as 1Gbps, 500kpps or 1Gbps,burst=64KB";

/// `1.5G` is 1 500 000 000; no more than nine decimals.
fn scaled(text: &str, unit: &str) -> Option<u64> {
    let number = text.strip_suffix(unit)?;
    let (number, scale) = match number.char_indices().last()? {
        (at, 'k' | 'K') => (&number[..at], 1_000),
        (at, 'M') => (&number[..at], 1_000_000),
        (at, 'G') => (&number[..at], 1_000_000_000),
        _ => (number, 1u64),
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > 9 {
        return None;
    }
    let (whole, decimals): (u64, u64) = (whole.parse().ok()?, format!("{decimals:0<9}").parse().ok()?);
    whole.checked_mul(scale)?.checked_add((u128::from(decimals) * u128::from(scale) / 1_000_000_000) as u64)
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut limit = Self { bits_per_second: None, packets_per_second: None, burst_bytes: None };
        for word in text.split(',').map(str::trim) {
            let (slot, value, (least, most), unit) = if let Some(burst) = word.strip_prefix("burst=") {
                (&mut limit.burst_bytes, scaled(burst, "B"), BURST_BYTES, "B")
            } else if word.ends_with("pps") {
                (&mut limit.packets_per_second, scaled(word, "pps"), PACKETS_PER_SECOND, "pps")
            } else {
                (&mut limit.bits_per_second, scaled(word, "bps"), BITS_PER_SECOND, "bps")
            };
            let value = value.ok_or(RIGHT)?;
            if !(least..=most).contains(&value) {
                return Err(format!("{least}{unit} to {most}{unit}"));
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
        let short = |n: u64| match n {
            n if n % 1_000_000_000 == 0 => format!("{}G", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
            n if n % 1_000 == 0 => format!("{}k", n / 1_000),
            n => n.to_string(),
        };
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

impl JsonSchema for Limit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "description": "A rate: 1Gbps, 500kpps, 1Gbps,burst=64KB"})
    }
}

/// The time up to which a rate is spent.
#[derive(Debug)]
struct Bucket {
    spent: AtomicU64,
    /// Time that one unit takes at the rate, with [`COST_SHIFT`] more places.
    unit: u64,
    /// How far behind `spent` may be.
    burst: u64,
}

impl Bucket {
    /// Full. `units`: bytes or packets a second; `burst`: of them.
    fn new(units_per_second: u128, burst: u64) -> Self {
        let second = 1_000_000_000u128 << (TIME_SHIFT + COST_SHIFT);
        let unit = u64::try_from(second.div_ceil(units_per_second.max(1))).unwrap_or(u64::MAX);
        let burst = (u128::from(burst) * u128::from(unit)) >> COST_SHIFT;
        Self { spent: AtomicU64::new(0), unit, burst: u64::try_from(burst).unwrap_or(u64::MAX) }
    }

    /// Begins a burst of packets at `now`: the time up to which the rate is spent, relative to `now`, never more than `burst` ago.
    #[inline(always)]
    fn open(&self, now: u64) -> Grant {
        let read = self.spent.load(Relaxed);
        let left = (now << TIME_SHIFT).wrapping_sub(read);
        // A time ahead of now is a debt, up to a burst's; anything else is a clock that was set back, or a bucket unused for ages.
        let debt = left.wrapping_neg();
        let left = if left <= self.burst || (left as i64) < 0 && debt <= self.burst.max(1 << 34) { left as i64 } else { self.burst as i64 };
        Grant { read, left, begun: left }
    }

    /// Whether the packet passes.
    #[inline(always)]
    fn take(&self, grant: &mut Grant, units: u64) -> Option<i64> {
        let cost = ((units * self.unit) >> COST_SHIFT) as i64;
        (cost <= grant.left).then_some(cost)
    }

    /// Ends the burst of packets.
    #[inline(always)]
    fn close(&self, now: u64, grant: Grant) {
        let spent = (now << TIME_SHIFT).wrapping_sub(grant.left as u64);
        if self.spent.compare_exchange(grant.read, spent, Relaxed, Relaxed).is_err() {
            // Another worker was there meanwhile: what this one spent comes on top.
            self.spent.fetch_add((grant.begun - grant.left) as u64, Relaxed);
        }
    }
}

/// What may be spent of a bucket now.
#[derive(Clone, Copy, Debug, Default)]
struct Grant {
    read: u64,
    begun: i64,
    left: i64,
}
