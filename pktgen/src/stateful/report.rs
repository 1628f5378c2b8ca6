//! What `pktgen conversations` prints.

use std::collections::BTreeMap;
use std::fmt::Write;

use hdrhistogram::Histogram;
use pktgen::conversations::{Extracted, Scripts, Side};
use pktgen::engine::{Pair, PairResult};
use serde::Serialize;
use weir::json::large;

use super::Arguments;
use crate::run::Counters;

#[derive(Debug, Serialize)]
pub struct Report {
    pub capture: Extracted,
    /// From the first start until the last conversation ended, or was no longer waited for.
    pub seconds: f64,
    pub conversations: Held,
    /// From the start to the server's answer to the client's SYN.
    pub establish: Option<Times>,
    /// From the start to the last acknowledgement.
    pub finish: Option<Times>,
    pub client: End,
    pub server: End,
    pub unexpected: Unexpected,
    pub ports: BTreeMap<&'static str, Counters>,
}

/// Conversations, by how they ended: `started` = `finished` + `given_up` + `open`.
#[derive(Debug, Serialize)]
pub struct Held {
    pub started: u64,
    /// The client got the server's answer to its SYN.
    pub established: u64,
    /// All was sent, received and acknowledged, FINs too.
    pub finished: u64,
    /// A segment was sent again as often as it may be, or a minute passed without progress.
    pub given_up: u64,
    /// At the end of the run.
    pub open: u64,
    /// Due while as many as may be were open.
    pub not_started: u64,
    /// Over the time in which conversations were started; without a rate that was asked for over the whole.
    pub started_per_second: f64,
    /// Null for as many as may be open.
    pub asked_per_second: Option<f64>,
}

/// Counts of one side, over all conversations.
#[derive(Debug, Serialize)]
pub struct End {
    pub sent_packets: u64,
    /// Frames without FCS.
    #[serde(with = "large")]
    pub sent_bytes: u64,
    /// Of the packets sent, those with a segment that had been sent before.
    pub retransmitted_packets: u64,
    /// Those of conversations that were open.
    pub received_packets: u64,
    /// Of these, further copies of what was received before.
    pub repeated_packets: u64,
    /// Payload, each byte once.
    #[serde(with = "large")]
    pub received_payload_bytes: u64,
}

/// Frames that came in and were ignored.
#[derive(Debug, Serialize)]
pub struct Unexpected {
    /// Of conversations that had ended.
    pub late_packets: u64,
    /// Outside the sequence of their conversation.
    pub refused_packets: u64,
    /// With a wrong checksum, or payload that was not sent.
    pub damaged_packets: u64,
    /// Of no conversation of this run, or by the wrong port.
    pub foreign_packets: u64,
    /// Written, and not taken by a device before the end.
    pub unsent_packets: u64,
}

/// Of one histogram, so minimum ≤ percentiles ≤ maximum.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    pub min_ns: u64,
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

impl Times {
    /// `None` of an empty histogram.
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            max_ns: histogram.max(),
        })
    }
}

impl Report {
    pub fn new(arguments: &Arguments, scripts: &Scripts, pair: &Pair, result: &PairResult) -> Self {
        let (counts, asked) = (result.conversations.counts(), arguments.asked());
        // Where the next one waits for one that ends, these are part of the time.
        let starting_seconds = if asked.is_some() { result.starting_seconds } else { result.seconds };
        let end = |side: Side| {
            let (sent, own) = (result.sent[side as usize], counts.sides[side as usize]);
            End {
                sent_packets: sent.packets as u64,
                sent_bytes: sent.bytes,
                retransmitted_packets: own.retransmitted,
                received_packets: own.received,
                repeated_packets: own.repeated,
                received_payload_bytes: own.received_bytes,
            }
        };
        Self {
            capture: scripts.extracted().clone(),
            seconds: result.seconds,
            conversations: Held {
                started: counts.started,
                established: counts.established,
                finished: counts.finished,
                given_up: counts.given_up,
                open: counts.open(),
                not_started: counts.not_started,
                started_per_second: counts.started as f64 / starting_seconds.max(1e-9),
                asked_per_second: asked,
            },
            establish: Times::of(&counts.establish),
            finish: Times::of(&counts.finish),
            client: end(Side::Client),
            server: end(Side::Server),
            unexpected: Unexpected {
                late_packets: counts.late,
                refused_packets: counts.refused,
                damaged_packets: counts.damaged,
                foreign_packets: counts.foreign,
                unsent_packets: result.unsent,
            },
            ports: pair.port_stats().iter().map(|(name, stats)| (*name, stats.into())).collect(),
        }
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        // A string takes all.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        let Self { capture, conversations, .. } = self;
        writeln!(
            text,
            "{} conversations of a capture, {} turns, {} bytes of payload",
            capture.conversations, capture.turns, capture.payload_bytes
        )?;
        let asked = conversations.asked_per_second.map(|asked| format!(", {asked} asked")).unwrap_or_default();
        writeln!(
            text,
            "started     {} conversations in {:.3} s: {:.2} per second{asked}",
            conversations.started, self.seconds, conversations.started_per_second
        )?;
        let times = |times: &Option<Times>| times.as_ref().map(millis).unwrap_or_default();
        writeln!(text, "established {}{}", conversations.established, times(&self.establish))?;
        writeln!(text, "finished    {}{}", conversations.finished, times(&self.finish))?;
        for (name, n) in [
            ("given up", conversations.given_up),
            ("open", conversations.open),
            ("not started", conversations.not_started),
        ] {
            writeln!(text, "{name:11} {n}")?;
        }
        for (name, end) in [("client", &self.client), ("server", &self.server)] {
            writeln!(
                text,
                "{name:11} sent {} packets, {} of them again; received {} packets, {} of them again, with {} bytes of payload",
                end.sent_packets,
                end.retransmitted_packets,
                end.received_packets,
                end.repeated_packets,
                end.received_payload_bytes
            )?;
        }
        let Unexpected { late_packets, refused_packets, damaged_packets, foreign_packets, unsent_packets } =
            self.unexpected;
        for (name, n) in [
            ("late", late_packets),
            ("refused", refused_packets),
            ("damaged", damaged_packets),
            ("foreign", foreign_packets),
            ("unsent", unsent_packets),
        ] {
            if n > 0 {
                writeln!(text, "{name:11} {n} packets")?;
            }
        }
        for (port, counters) in &self.ports {
            for (why, n) in counters.lost.iter().chain(&counters.fault_effects) {
                writeln!(text, "port {port} {why} {n}")?;
            }
        }
        Ok(())
    }
}

fn millis(times: &Times) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    format!("   p50 {:.3}  p99 {:.3}  max {:.3} ms", ms(times.p50_ns), ms(times.p99_ns), ms(times.max_ns))
}
