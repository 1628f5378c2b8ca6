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
    burst: i64,
}

/// What may be spent of a bucket now; below 0 is a debt.
#[derive(Clone, Copy, Debug)]
struct Grant {
    read: u64,
    begun: i64,
    left: i64,
}

impl Bucket {
    /// A debt beyond this, three days, is none: a clock was set back.
    const MAX_DEBT: i64 = 1 << 56;

    /// Full. `units`: bytes or packets a second; `burst`: of them.
    fn new(units_per_second: u64, eighths: u64, burst: u64) -> Self {
        let second = (1_000_000_000u128 << (TIME_SHIFT + COST_SHIFT)) * u128::from(eighths);
        let unit = u64::try_from(second.div_ceil(u128::from(units_per_second.max(1)))).unwrap_or(u64::MAX);
        let burst = (u128::from(burst) * u128::from(unit)) >> COST_SHIFT;
        Self { spent: AtomicU64::new(0), unit, burst: i64::try_from(burst).unwrap_or(i64::MAX) }
    }

    #[inline(always)]
    fn open(&self, now: u64) -> Grant {
        let read = self.spent.load(Relaxed);
        let left = (now << TIME_SHIFT).wrapping_sub(read) as i64;
        let begun = if (-Self::MAX_DEBT..=self.burst).contains(&left) { left } else { self.burst };
        Grant { read, begun, left: begun }
    }

    /// What `units` take, rounded up, so that the rate is never passed.
    #[inline(always)]
    fn cost(&self, units: u64) -> i64 {
        ((units * self.unit + ((1 << COST_SHIFT) - 1)) >> COST_SHIFT) as i64
    }

    #[inline(always)]
    fn close(&self, now: u64, grant: Grant) {
        if grant.left == grant.begun {
            return;
        }
        let spent = (now << TIME_SHIFT).wrapping_sub(grant.left as u64);
        if self.spent.compare_exchange(grant.read, spent, Relaxed, Relaxed).is_err() {
            // Another worker was there meanwhile: what this one spent comes on top.
            self.spent.fetch_add((grant.begun - grant.left) as u64, Relaxed);
        }
    }
}

/// A limit at work, and what it did.
#[derive(Debug)]
pub struct Limiter {
    limit: Limit,
    bytes: Option<Bucket>,
    packets: Option<Bucket>,
    passed: AtomicU64,
    dropped: AtomicU64,
}

/// A limiter during one burst of packets.
#[derive(Debug)]
pub struct Meter<'a> {
    limiter: &'a Limiter,
    now: u64,
    bytes: Option<(&'a Bucket, Grant)>,
    packets: Option<(&'a Bucket, Grant)>,
    passed: u64,
    dropped: u64,
}

impl Limiter {
    pub fn new(limit: Limit) -> Self {
        let bytes = limit.bits_per_second.map(|rate| Bucket::new(rate, 8, limit.burst_bytes()));
        let packets = limit.packets_per_second.map(|rate| Bucket::new(rate, 1, Limit::burst_packets(rate)));
        Self { limit, bytes, packets, passed: AtomicU64::new(0), dropped: AtomicU64::new(0) }
    }

    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Packets that passed, and those that did not.
    pub fn counts(&self) -> (u64, u64) {
        (self.passed.load(Relaxed), self.dropped.load(Relaxed))
    }

    /// Begins a burst of packets.
    #[inline]
    pub fn open(&self, now: u64) -> Meter<'_> {
        let open = |bucket: &'_ Bucket| bucket.open(now);
        Meter {
            limiter: self,
            now,
            bytes: self.bytes.as_ref().map(|bucket| (bucket, open(bucket))),
            packets: self.packets.as_ref().map(|bucket| (bucket, open(bucket))),
            passed: 0,
            dropped: 0,
        }
    }
}

impl Meter<'_> {
    /// Whether a packet of so many bytes passes; one that does not spends nothing.
    #[inline]
    pub fn pass(&mut self, bytes: usize) -> bool {
        let cost = |of: &Option<(&Bucket, Grant)>, units: u64| match of {
            Some((bucket, grant)) => Some(bucket.cost(units)).filter(|cost| *cost <= grant.left),
            None => Some(0),
        };
        let (Some(by_bytes), Some(by_packets)) = (cost(&self.bytes, bytes as u64), cost(&self.packets, 1)) else {
            self.dropped += 1;
            return false;
        };
        for (of, cost) in [(&mut self.bytes, by_bytes), (&mut self.packets, by_packets)] {
            if let Some((_, grant)) = of {
                grant.left -= cost;
            }
        }
        self.passed += 1;
        true
    }

    /// Ends the burst.
    #[inline]
    pub fn close(self) {
        for (bucket, grant) in [self.bytes, self.packets].into_iter().flatten() {
            bucket.close(self.now, grant);
        }
        self.limiter.passed.fetch_add(self.passed, Relaxed);
        if self.dropped > 0 {
            self.limiter.dropped.fetch_add(self.dropped, Relaxed);
        }
    }
}

/// The limits of all ports, by number; ports behind the last have none.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    pub rx: Vec<Option<Arc<Limiter>>>,
    pub tx: Vec<Option<Arc<Limiter>>>,
}

impl Limits {
    #[inline(always)]
    pub fn rx(&self, port: PortId) -> Option<&Limiter> {
        self.rx.get(usize::from(port))?.as_deref()
    }

    #[inline(always)]
    pub fn tx(&self, port: PortId) -> Option<&Limiter> {
        self.tx.get(usize::from(port))?.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any time of the wall clock.
    const NOW: u64 = 1_790_000_000_000_000_000;

    fn limiter(text: &str) -> Limiter {
        Limiter::new(text.parse().unwrap())
    }

    #[test]
    fn words_go_round() {
        for text in ["1Gbps", "500kpps", "1Gbps,burst=64kB", "8kbps,1pps,burst=10kB", "1500bps", "12345678pps"] {
            match text.parse::<Limit>() {
                Ok(limit) => assert_eq!(limit.to_string(), text),
                Err(_) => assert_eq!(text, "1500bps"),
            }
        }
        assert_eq!("1.5Gbps".parse::<Limit>().unwrap().bits_per_second, Some(1_500_000_000));
        for (text, says) in [
            ("", "a rate such as"),
            ("fast", "a rate such as"),
            ("1Gb", "a rate such as"),
            ("-1bps", "a rate such as"),
            ("1Tbps", "a rate such as"),
            ("99999999999999999999Gbps", "a rate such as"),
            ("1kbps", "8000bps to 800000000000bps"),
            ("0pps", "1pps to 1000000000pps"),
            ("1Gbps,burst=1KB", "10000B to 1073741824B"),
            ("1Gbps,2Gbps", "each part once"),
            ("burst=64KB", "a rate such as"),
            ("1kpps,burst=64KB", "a burst goes with a rate in bps"),
        ] {
            let error = text.parse::<Limit>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    /// What passes in any window, from one packet to another: at most rate × window + burst.
    fn check_windows(passed: &[(u64, u64)], per_second: u128, burst: u128) -> Result<(), TestCaseError> {
        for (i, (from, _)) in passed.iter().enumerate() {
            let mut sum = 0;
            for (at, units) in &passed[i..] {
                sum += u128::from(*units) * 1_000_000_000;
                prop_assert!(sum <= per_second * u128::from(at - from) + burst * 1_000_000_000);
            }
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_window_keeps_the_rate(
            megabits in prop::sample::select(vec![1u64, 10, 1000, 40_000, 800_000]),
            bursts in prop::collection::vec((0..200_000u64, prop::collection::vec(60..9200usize, 1..30)), 1..40),
        ) {
            let limiter = limiter(&format!("{megabits}Mbps,burst=20KB"));
            let (mut now, mut passed) = (NOW, Vec::new());
            // The oracle: an exact bucket of bytes × 10⁹, which lets everything through that this one does.
            let (rate, full) = (u128::from(megabits) * 125_000, 20_000 * 1_000_000_000u128);
            let (mut tokens, mut last) = (full, now);
            for (wait, sizes) in bursts {
                now += wait;
                tokens = full.min(tokens + rate * u128::from(now - last));
                last = now;
                let mut meter = limiter.open(now);
                for size in sizes {
                    if meter.pass(size) {
                        let cost = size as u128 * 1_000_000_000;
                        prop_assert!(cost <= tokens);
                        tokens -= cost;
                        passed.push((now, size as u64));
                    }
                }
                meter.close();
            }
            check_windows(&passed, rate, 20_000)?;
            prop_assert_eq!(limiter.counts().0, passed.len() as u64);
        }
    }

    #[test]
    fn who_offers_enough_gets_the_rate() {
        for (text, size, per_second) in [
            ("1Mbps", 1000, 125_000),
            ("10Gbps", 64, 1_250_000_000),
            ("100Gbps", 64, 12_500_000_000),
            ("50kpps", 1, 50_000u64),
        ] {
            let (limiter, mut sum) = (limiter(text), 0);
            let rounds = 1_000_000;
            // A bucket that begins full gives its burst besides: it is emptied first.
            while {
                let mut meter = limiter.open(NOW);
                let passed = meter.pass(size);
                meter.close();
                passed
            } {}
            for round in 1..=rounds {
                let mut meter = limiter.open(NOW + round * 1000);
                for _ in 0..BURSTS {
                    sum += if meter.pass(size) { size as u64 } else { 0 };
                }
                meter.close();
            }
            let most = per_second * rounds / 1_000_000;
            assert!(
                sum <= most + size as u64 && sum as f64 >= most as f64 * 0.998 - size as f64,
                "{text}: {sum} of {most}"
            );
        }
    }

    const BURSTS: usize = 256;

    #[test]
    fn both_limits_hold_and_a_bucket_left_alone_is_full_again() {
        let limiter = limiter("800Mbps,100pps,burst=10KB");
        let mut passing = |now: u64, size: usize| {
            let mut meter = limiter.open(now);
            let passed = (0..1000).filter(|_| meter.pass(size)).count();
            meter.close();
            passed
        };
        assert_eq!(passing(NOW, 100), 64, "the packets' burst");
        assert_eq!(passing(NOW, 100), 0);
        assert_eq!(passing(NOW + 1_000_000_000, 1000), 10, "the bytes' burst");
        assert_eq!(passing(NOW + 30_000_000_000_000, 100), 64);
        assert_eq!(limiter.counts(), (138, 3862));
    }

    #[test]
    fn workers_share_a_bucket() {
        const WORKERS: u64 = 4;
        let limiter = limiter("1Gbps,burst=100KB");
        let clock = AtomicU64::new(NOW);
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut meter = limiter.open(clock.fetch_add(1000, Relaxed));
                        let bytes: u64 = (0..32).filter(|_| meter.pass(1000)).map(|_| 1000).sum();
                        meter.close();
                        passed.fetch_add(bytes, Relaxed);
                    }
                });
            }
        });
        let window = clock.load(Relaxed) - NOW;
        let (passed, rate) = (passed.load(Relaxed), window / 8);
        // A burst of another worker's at the same instant; the debt is paid back, so it does not add up.
        assert!(passed <= rate + 100_000 + (WORKERS - 1) * 32_000, "{passed} of {rate}");
        assert!(passed as f64 >= rate as f64 * 0.99, "{passed} of {rate}");
    }
}
