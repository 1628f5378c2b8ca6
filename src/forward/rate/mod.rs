//! Rate limits of ports: token buckets that workers share.
//!
//! A bucket is one number: the time up to which its rate is spent. A packet that takes `cost`
//! nanoseconds at the rate passes when that time and `cost` do not reach beyond now; a bucket that
//! was left alone is at most `burst` behind. A worker reads the number before a burst and adds what
//! the burst spent after it. So over any window, from the first packet to the last, the bytes that
//! pass are at most `rate × window + burst`; and while `n` workers use the same bucket at the same
//! instant, at most `n − 1` of their bursts more, which the bucket then makes up for.

mod limit;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use limit::Limit;

use crate::pisa::PortId;

/// Time in a bucket is in 2⁻⁸ ns: 1.1 years may pass between two packets, and the error for a
/// packet is below 0.1 % at 100 Gbit/s.
const TIME_SHIFT: u32 = 8;
/// A byte's cost has as many more binary places.
const COST_SHIFT: u32 = 16;

/// The time up to which a rate is spent.
#[derive(Debug)]
struct Bucket {
    spent: AtomicU64,
    /// Time that one unit takes at the rate, with [`COST_SHIFT`] more places.
    unit: u64,
    /// How far behind `spent` may be.
    burst: i64,
}

/// The tokens of a bucket that may be spent now; below 0 is a debt.
#[derive(Clone, Copy, Debug)]
struct Grant {
    read: u64,
    begun: i64,
    left: i64,
}

impl Bucket {
    /// Largest debt, three days: a larger one means that a clock was set back.
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

    /// Cost of `units`, rounded up, so that the rate is never passed.
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
    /// Whether a packet of `bytes` bytes passes; one that does not spends nothing.
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
