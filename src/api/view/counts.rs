//! Counters of one port or of several.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::{Form, large};
use crate::pisa::DropReason;
use crate::stats::PortStats;

/// Counters of one port, or of several ports added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    pub rx_packets: u64,
    #[serde(with = "large")]
    #[schemars(with = "Form")]
    pub rx_bytes: u64,
    pub tx_packets: u64,
    #[serde(with = "large")]
    #[schemars(with = "Form")]
    pub tx_bytes: u64,
    pub copied_packets: u64,
    pub without_shim_packets: u64,
    pub remarked_packets: u64,
    /// Packets that came in here and did not go out, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Packets lost by the device, by reason: they never came in, or were taken over and not sent.
    pub device: BTreeMap<String, u64>,
}

impl Counts {
    /// Adds what one worker counted of a port.
    pub fn count(&mut self, stats: &PortStats) {
        self.rx_packets += stats.rx_packets.get();
        self.rx_bytes += stats.rx_bytes.get();
        self.tx_packets += stats.tx_packets.get();
        self.tx_bytes += stats.tx_bytes.get();
        self.copied_packets += stats.copies.get();
        self.without_shim_packets += stats.without_shim.get();
        self.remarked_packets += stats.remarked.get();
        for reason in DropReason::ALL {
            *self.drops.entry(reason.name().into()).or_default() += stats.dropped(reason);
        }
    }

    pub fn add(&mut self, other: &Self) {
        *self = self.with(other, |sum, more| sum + more);
    }

    /// The counts since `earlier`, 0 at least.
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let each = |own: &BTreeMap<String, u64>, other: &BTreeMap<String, u64>| {
            let of = |counts: &BTreeMap<String, u64>, why: &String| counts.get(why).copied().unwrap_or_default();
            own.keys().chain(other.keys()).map(|why| (why.clone(), f(of(own, why), of(other, why)))).collect()
        };
        Self {
            rx_packets: f(self.rx_packets, other.rx_packets),
            rx_bytes: f(self.rx_bytes, other.rx_bytes),
            tx_packets: f(self.tx_packets, other.tx_packets),
            tx_bytes: f(self.tx_bytes, other.tx_bytes),
            copied_packets: f(self.copied_packets, other.copied_packets),
            without_shim_packets: f(self.without_shim_packets, other.without_shim_packets),
            remarked_packets: f(self.remarked_packets, other.remarked_packets),
            drops: each(&self.drops, &other.drops),
            device: each(&self.device, &other.device),
        }
    }

    /// Whether these may be the same counters as `earlier`, later: none that only grows is less.
    pub fn follow(&self, earlier: &Self) -> bool {
        let traffic = |counts: &Self| [counts.rx_packets, counts.rx_bytes, counts.tx_packets, counts.tx_bytes];
        traffic(self).iter().zip(traffic(earlier)).all(|(now, before)| *now >= before)
    }

    pub fn dropped_packets(&self) -> u64 {
        self.drops.values().sum()
    }
}
