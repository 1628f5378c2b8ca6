//! What a run was.

use hdrhistogram::Histogram;

use crate::tally::{Counts, Tally};

/// Frames that a device took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub packets: u64,
    /// Without FCS.
    pub bytes: u64,
    /// Of the packets, malformed ones.
    pub malformed: u64,
}

impl Sent {
    pub fn add(&mut self, other: &Self) {
        let Self { packets, bytes, malformed } = other;
        self.packets += packets;
        self.bytes += bytes;
        self.malformed += malformed;
    }
}

/// What one core did.
#[derive(Debug)]
pub struct CoreResult<S> {
    /// With the packets that were sent of each flow.
    pub source: S,
    pub sent: Sent,
    /// Most frames that the device took at once.
    pub largest_burst: u64,
    /// Frames that were made and that the device did not take.
    pub unsent: u64,
    pub tally: Tally,
    /// Nanoseconds from sending to receiving.
    pub latency: Histogram<u64>,
    /// Nanoseconds that bursts left after they were due.
    pub lateness: Histogram<u64>,
    /// Rounds with frames to send, and those of them in which the device did not take all.
    pub send_rounds: u64,
    pub full_rounds: u64,
    /// Rounds in which there was no packet buffer.
    pub starved_rounds: u64,
    /// Cycles from the start to the last frame, and the gap that was due behind it.
    pub cycles: u64,
}

/// Why a rate was not reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The device did not take frames as fast.
    Device,
    /// The generator did not make them as fast.
    Generator,
}

/// A run of all cores.
#[derive(Debug)]
pub struct RunResult<S> {
    pub cores: Vec<CoreResult<S>>,
    /// Of the cycle counter.
    pub hz: u64,
}

/// Share of rounds with a full queue from which on the device is what limits.
const OFTEN_FULL: f64 = 0.05;

impl<S> RunResult<S> {
    pub fn sent(&self) -> Sent {
        let mut sent = Sent::default();
        self.cores.iter().for_each(|core| sent.add(&core.sent));
        sent
    }

    pub fn largest_burst(&self) -> u64 {
        self.cores.iter().map(|core| core.largest_burst).max().unwrap_or_default()
    }

    pub fn unsent(&self) -> u64 {
        self.cores.iter().map(|core| core.unsent).sum()
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.cores.iter().for_each(|core| counts.add(core.tally.counts()));
        counts
    }

    /// Time of sending.
    pub fn seconds(&self) -> f64 {
        self.cores.iter().map(|core| core.cycles).max().unwrap_or_default() as f64 / self.hz as f64
    }

    pub fn latency(&self) -> Histogram<u64> {
        merged(self.cores.iter().map(|core| &core.latency))
    }

    pub fn lateness(&self) -> Histogram<u64> {
        merged(self.cores.iter().map(|core| &core.lateness))
    }

    /// What kept it from going faster.
    pub fn limit(&self) -> Limit {
        let sum = |of: fn(&CoreResult<S>) -> u64| self.cores.iter().map(of).sum::<u64>() as f64;
        let full = sum(|core| core.full_rounds) / sum(|core| core.send_rounds).max(1.0);
        if full > OFTEN_FULL { Limit::Device } else { Limit::Generator }
    }

    /// Frames received of each flow, over all cores.
    pub fn received(&self) -> Vec<u64> {
        let mut received = Vec::new();
        for core in &self.cores {
            let counts = core.tally.received();
            received.resize(received.len().max(counts.size_hint().0), 0);
            received.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        }
        received
    }
}

fn merged<'a>(mut histograms: impl Iterator<Item = &'a Histogram<u64>>) -> Histogram<u64> {
    let mut sum = histograms.next().cloned().unwrap_or_else(crate::latency::histogram);
    histograms.for_each(|histogram| sum.add(histogram).expect("the same bounds"));
    sum
}
