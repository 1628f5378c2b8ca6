//! How flows went: their slowdown and goodput, by size.

use serde::Serialize;

use super::Hosts;
use crate::telemetry::epoch::Nanos;

/// A flow that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its payload.
    pub bytes: u32,
    /// From its beginning to its last acknowledgement.
    pub time: Nanos,
    /// The same if it were alone, sent at its link's rate, and its packets carried nothing that was
    /// measured.
    pub alone: Nanos,
}

/// Sums over all hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Base round-trip time.
    pub rtt_ns: Nanos,
    /// Bits a second of every link.
    pub rate: u64,
    pub flows: u64,
    /// Packets with payload, those of them that held some for a second time, and times that a
    /// sender waited in vain.
    pub packets: u64,
    pub again: u64,
    pub timeouts: u64,
}

/// What a simulation says of hosts with congestion control.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransportReport {
    /// As `--transport` gives it.
    pub transport: String,
    /// Base round-trip time T, for which a query for utilisations is to average.
    pub rtt_ns: Nanos,
    pub link_bits_per_second: u64,
    /// Flows that began, and those whose last byte was acknowledged.
    pub flows: u64,
    pub finished_flows: u64,
    /// Packets with payload; retransmitted ones held some that was sent before.
    pub sent_packets: u64,
    pub retransmitted_packets: u64,
    pub timeouts: u64,
    /// The longest queue of a switch.
    pub longest_queue_bytes: u64,
    /// Of the flows that have ended, by size.
    pub sizes: Vec<SizeClass>,
}

/// Flows of a range of sizes that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SizeClass {
    /// Above this.
    pub from_bytes: u64,
    /// Up to this; 0 where there is no end.
    pub to_bytes: u64,
    pub flows: u64,
    /// Completion time by that of the same flow alone in the network.
    pub slowdown_p50: f64,
    pub slowdown_p95: f64,
    pub slowdown_p99: f64,
    /// Mean of payload by completion time.
    pub goodput_bits_per_second: f64,
}

/// Where classes end.
const ENDS: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

impl TransportReport {
    pub fn new(hosts: &Hosts, longest_queue: Nanos) -> Self {
        let (completions, totals) = hosts.results();
        let longest = u128::from(longest_queue) * u128::from(totals.rate) / 8_000_000_000;
        Self {
            transport: hosts.transport().to_string(),
            rtt_ns: totals.rtt_ns,
            link_bits_per_second: totals.rate,
            flows: totals.flows,
            finished_flows: completions.len() as u64,
            sent_packets: totals.packets,
            retransmitted_packets: totals.again,
            timeouts: totals.timeouts,
            longest_queue_bytes: longest as u64,
            sizes: SizeClass::of(completions),
        }
    }
}

impl SizeClass {
    /// All classes that have flows.
    pub fn of(completions: &[Completion]) -> Vec<Self> {
        let starts = [0].into_iter().chain(ENDS);
        let ends = ENDS.into_iter().chain([0]);
        let classes = starts.zip(ends).map(|(from, to)| Self::new(completions, from, to));
        classes.filter(|class| class.flows > 0).collect()
    }

    fn new(completions: &[Completion], from: u64, to: u64) -> Self {
        let is_in = |flow: &&Completion| {
            let bytes = u64::from(flow.bytes);
            bytes > from && (to == 0 || bytes <= to)
        };
        let flows: Vec<_> = completions.iter().filter(is_in).collect();
        let slowdown = |flow: &&Completion| (flow.time as f64 / flow.alone.max(1) as f64).max(1.0);
        let mut slowdowns: Vec<_> = flows.iter().map(slowdown).collect();
        slowdowns.sort_by(f64::total_cmp);
        // The nearest rank.
        let percentile = |percent: usize| {
            let rank = (slowdowns.len() * percent).div_ceil(100).max(1);
            slowdowns.get(rank - 1).copied().unwrap_or_default()
        };
        let rate = |flow: &&Completion| f64::from(flow.bytes) * 8e9 / flow.time.max(1) as f64;
        Self {
            from_bytes: from,
            to_bytes: to,
            flows: flows.len() as u64,
            slowdown_p50: percentile(50),
            slowdown_p95: percentile(95),
            slowdown_p99: percentile(99),
            goodput_bits_per_second: flows.iter().map(rate).sum::<f64>() / flows.len().max(1) as f64,
        }
    }
}
