//! What `pktgen run` prints.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use pktgen::engine::{Limit, Rig, RunResult};
use pktgen::latency::Latency;
use pktgen::pace::Pace;
use pktgen::traffic::{FCS, Source, WIRE_OVERHEAD};
use pktgen::truth::{OPEN, ScoreSummary};
use serde::Serialize;
use weir::json::large;
use weir::port::PortStats;
use weir::trace::Metadata;

use super::drops::limited;
use super::options::Arguments;
use crate::Failure;

/// A rate is held within this part of it.
const HELD: f64 = 0.001;

#[derive(Debug, Serialize)]
pub struct Report {
    pub traffic: String,
    /// Time of sending.
    pub seconds: f64,
    pub sent: Sent,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<Received>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Latency of a frame that comes back at once: the generator's own part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<Latency>,
    pub ports: BTreeMap<&'static str, Counters>,
    /// With --score of a switch: what it dropped during the run, by reason, whoever sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_drops: Option<BTreeMap<String, u64>>,
    /// Of a capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<Recorded>,
    /// A switch's answers beside what was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<ScoreSummary>,
    /// With --truth: epochs whose counts were not kept, as they came faster than they were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_epochs: Option<u64>,
    /// Why truth or scores are not whole.
    #[serde(skip)]
    pub error: Option<anyhow::Error>,
}

/// How the frames sent differ from the capture, and the capture's statements about itself.
#[derive(Clone, Debug, Serialize)]
pub struct Recorded {
    /// Frames that are shorter than they were on the wire, or than their IP headers say.
    pub cut_packets: u64,
    /// Jumps of the capture's time by more than --max-gap, which are not waited for.
    pub time_jumps: u64,
    #[serde(flatten)]
    pub said: Metadata,
}

impl Recorded {
    /// A line for each that is not 0; jumps where they matter, with the longest gap.
    pub fn text(&self, longest_gap: Option<Duration>) -> Vec<String> {
        let mut lines = self.said.text();
        if self.cut_packets > 0 {
            let n = self.cut_packets;
            lines.push(format!(
                "{n} frames are shorter than their headers or the capture say; they are sent as they are"
            ));
        }
        if let (Some(longest), n @ 1..) = (longest_gap, self.time_jumps) {
            lines.push(format!(
                "the capture's time jumps {n} times by more than {longest:?}: ahead it is a gap of that, back none"
            ));
        }
        lines
    }
}

#[derive(Debug, Serialize)]
pub struct Sent {
    pub packets: u64,
    /// Without FCS.
    #[serde(with = "large")]
    pub bytes: u64,
    pub malformed_packets: u64,
    /// Most packets that left at once.
    pub largest_burst_packets: u64,
    /// Made, and not taken by the device before the end.
    pub unsent_packets: u64,
    pub packets_per_second: f64,
    pub l1_bits_per_second: f64,
    pub l2_bits_per_second: f64,
    /// What was asked for; null for the fastest, and for a capture's own timing.
    pub asked_packets_per_second: Option<f64>,
    /// Reached ÷ asked − 1.
    pub rate_error: Option<f64>,
    /// Whether that is at most 0.1 %.
    pub rate_held: Option<bool>,
    /// Why it was not faster: null where as much was sent as asked for.
    pub limited_by: Option<Limit>,
    /// From when a packet was due to when its burst left.
    pub lateness: Option<Latency>,
    /// Rounds without a packet buffer.
    pub starved_rounds: u64,
}

#[derive(Debug, Serialize)]
pub struct Received {
    /// First copies of frames that were sent.
    pub packets: u64,
    /// Of all frames that came, without FCS.
    #[serde(with = "large")]
    pub bytes: u64,
    /// None of a capture, whose frames cannot be told apart.
    #[serde(flatten)]
    pub losses: Option<Losses>,
    pub reordered_packets: u64,
    pub duplicate_packets: u64,
    /// So far behind that they may be first copies or further ones: of the lost packets, as many may
    /// have come.
    pub uncertain_packets: u64,
    /// Without a signature of this run.
    pub foreign_packets: u64,
    /// With --truth: frames that came more than three epochs after theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_packets: Option<u64>,
    /// Of these, frames that are in no row of the truth: they came when it had been written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unplaced_packets: Option<u64>,
}

#[derive(Debug, Serialize)]
pub struct Losses {
    pub lost_packets: u64,
    pub lost_share: f64,
    /// Flows that lost packets.
    pub lossy_flows: u64,
}

/// A port's own counters.
#[derive(Debug, Serialize)]
pub struct Counters {
    pub rx_packets: u64,
    pub tx_packets: u64,
    /// Losses of the device and of faults, those that are not 0.
    pub lost: BTreeMap<&'static str, u64>,
    /// What faults did besides.
    pub fault_effects: BTreeMap<&'static str, u64>,
}

impl From<&PortStats> for Counters {
    fn from(stats: &PortStats) -> Self {
        Self {
            rx_packets: stats.rx_packets,
            tx_packets: stats.tx_packets,
            lost: stats.drops().filter(|(_, n)| *n > 0).map(|(why, n)| (why.name(), n)).collect(),
            fault_effects: stats.faults.named().filter(|(_, n)| *n > 0).collect(),
        }
    }
}

impl Report {
    /// `late`: frames that truth could not count with their epochs.
    pub fn new<S: Source>(
        pace: Pace,
        receives: bool,
        rig: &Rig,
        result: &RunResult<S>,
        late: Option<(u64, u64)>,
    ) -> Self {
        let received = receives.then(|| received(result, late));
        Self {
            traffic: String::new(),
            seconds: result.seconds(),
            sent: sent(pace, result),
            received,
            latency: Latency::of(&result.latency()),
            own: None,
            switch_drops: None,
            capture: None,
            score: None,
            unknown_epochs: None,
            error: None,
            ports: rig.port_stats().iter().map(|(name, stats)| (*name, stats.into())).collect(),
        }
    }

    pub fn losses(&self) -> Option<&Losses> {
        self.received.as_ref()?.losses.as_ref()
    }

    /// Whether the thresholds that were asked for are kept.
    pub fn judge(&self, arguments: &Arguments) -> Result<(), Failure> {
        if let (Some(max), Some(losses)) = (arguments.max_loss, self.losses())
            && losses.lost_share > max
        {
            let (lost, share) = (losses.lost_packets, 100.0 * losses.lost_share);
            return Err(Failure::Missed(format!("{lost} packets lost, {share:.4} %: --max-loss {}%", 100.0 * max)));
        }
        let Some((max, score)) = arguments.max_error.zip(self.score.as_ref()) else { return Ok(()) };
        let unknown = score.unscored_epochs + score.unanswered_epochs;
        if unknown > 0 {
            return Err(Failure::Missed(format!("{unknown} epochs were not scored: --max-error {max}")));
        }
        match score.error() {
            Some(error) if error <= max => Ok(()),
            Some(error) => Err(Failure::Missed(format!("an error of {error:.6}: --max-error {max}"))),
            None => Err(Failure::Missed("no answer was scored: --max-error".into())),
        }
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        // A string takes all.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        let Self { traffic, seconds, sent, .. } = self;
        writeln!(text, "{traffic}")?;
        let rate = sent.packets_per_second / 1e6;
        let (l1, l2) = (sent.l1_bits_per_second / 1e9, sent.l2_bits_per_second / 1e9);
        writeln!(
            text,
            "sent       {} packets in {seconds:.3} s: {rate:.6} Mpps, {l2:.4} Gbit/s (L2), {l1:.4} Gbit/s (L1)",
            sent.packets
        )?;
        if let (Some(asked), Some(error)) = (sent.asked_packets_per_second, sent.rate_error) {
            // Rounded before, as a rate that is a little too low would be off by -0.
            let percent = (1e6 * error).round() / 1e4 + 0.0;
            writeln!(text, "rate       asked {:.6} Mpps, off by {percent:+.4} %", asked / 1e6)?;
        }
        if let Some(limit) = sent.limited_by {
            let who = match limit {
                Limit::Device => "the device, whose queue was full",
                Limit::Generator => "the generator: more cores, larger frames or fewer flows send faster",
            };
            writeln!(text, "limited by {who}")?;
        }
        if let Some(late) = &sent.lateness {
            writeln!(text, "late       {}", micros(late))?;
        }
        for (name, n) in [("malformed", sent.malformed_packets), ("unsent", sent.unsent_packets)] {
            if n > 0 {
                writeln!(text, "{name:10} {n} packets")?;
            }
        }
        self.received_text(text)?;
        if let Some(score) = &self.score {
            writeln!(text, "score      {}", score.line())?;
        }
        if let Some(epochs) = self.unknown_epochs {
            writeln!(text, "unknown    {epochs} epochs, whose truth was not kept")?;
        }
        for (port, counters) in &self.ports {
            for (why, n) in counters.lost.iter().chain(&counters.fault_effects) {
                writeln!(text, "port {port}    {why} {n}")?;
            }
        }
        Ok(())
    }

    /// What the generator can say of why packets were lost.
    fn loss_text(&self, text: &mut String, lost: u64) -> std::fmt::Result {
        if lost == 0 {
            return Ok(());
        }
        let drops = self.switch_drops.as_ref();
        if let Some(drops) = drops.filter(|drops| !drops.is_empty()) {
            let words: Vec<_> = drops.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
            writeln!(text, "           the switch dropped: {}", words.join(", "))?;
        }
        let limited = drops.map(limited);
        if let Some(limited @ 1..) = limited {
            let packets = limited.min(lost);
            writeln!(text, "           up to {packets} of them by its rate limits: refused, and not lost on a way")?;
        }
        let burst = self.sent.largest_burst_packets;
        if burst > 1 && limited != Some(0) {
            writeln!(
                text,
                "           up to {burst} frames left at once: a rate limit or queue with room for fewer drops the rest (--burst 1)"
            )?;
        }
        Ok(())
    }

    fn received_text(&self, text: &mut String) -> std::fmt::Result {
        let Some(received) = &self.received else { return Ok(()) };
        writeln!(text, "received   {} packets", received.packets)?;
        if let Some(Losses { lost_packets, lost_share, lossy_flows }) = &received.losses {
            let share = 100.0 * lost_share;
            writeln!(text, "lost       {lost_packets} packets ({share:.4} %) of {lossy_flows} flows")?;
            self.loss_text(text, *lost_packets)?;
        }
        let others = [
            ("reordered", received.reordered_packets),
            ("duplicates", received.duplicate_packets),
            ("uncertain", received.uncertain_packets),
            ("foreign", received.foreign_packets),
        ];
        for (name, n) in others.into_iter().filter(|(_, n)| *n > 0) {
            writeln!(text, "{name:10} {n} packets")?;
        }
        if let Some(late @ 1..) = received.late_packets {
            writeln!(text, "late back  {late} packets came more than {} epochs after theirs", OPEN - 1)?;
        }
        if let Some(unplaced @ 1..) = received.unplaced_packets {
            writeln!(text, "           {unplaced} of these are in no row of the truth, and count as lost there")?;
        }
        if let Some(latency) = &self.latency {
            writeln!(text, "latency    {}", micros(latency))?;
        }
        if let Some(own) = &self.own {
            let (min, median) = (own.min_ns as f64 / 1e3, own.p50_ns as f64 / 1e3);
            writeln!(text, "           of that the generator's own: {min:.2} µs least, {median:.2} µs median")?;
        }
        Ok(())
    }
}

/// Prints a document, or its text.
pub fn print(json: bool, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let text = if json { serde_json::to_string_pretty(document).map_err(anyhow::Error::from)? + "\n" } else { text() };
    match std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()) {
        // A reader that goes away is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written.map_err(anyhow::Error::from)?),
    }
}

fn micros(latency: &Latency) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    format!(
        "min {:.2}  mean {:.2}  p50 {:.2}  p99 {:.2}  p99.9 {:.2}  max {:.2} µs",
        us(latency.min_ns),
        latency.mean_ns / 1e3,
        us(latency.p50_ns),
        us(latency.p99_ns),
        us(latency.p999_ns),
        us(latency.max_ns)
    )
}

fn sent<S: Source>(pace: Pace, result: &RunResult<S>) -> Sent {
    let (sent, seconds) = (result.sent(), result.seconds().max(1e-9));
    let per_second = |n: u64| n as f64 / seconds;
    let mean = sent.bytes as f64 / sent.packets.max(1) as f64 + f64::from(FCS);
    let packets_per_second = per_second(sent.packets);
    let asked = super::asked(pace, mean);
    let rate_error = asked.map(|asked| packets_per_second / asked - 1.0);
    let rate_held = rate_error.map(|error| error.abs() <= HELD);
    // A capture's own timing is no rate.
    let is_short = !matches!(pace, Pace::Own(_)) && rate_error.is_none_or(|error| error < -HELD);
    let frames = sent.bytes + u64::from(FCS) * sent.packets;
    Sent {
        packets: sent.packets,
        bytes: sent.bytes,
        malformed_packets: sent.malformed,
        largest_burst_packets: result.largest_burst(),
        unsent_packets: result.unsent(),
        packets_per_second,
        l1_bits_per_second: 8.0 * per_second(frames + u64::from(WIRE_OVERHEAD) * sent.packets),
        l2_bits_per_second: 8.0 * per_second(frames),
        asked_packets_per_second: asked,
        rate_error,
        rate_held,
        limited_by: (is_short && sent.packets > 0).then(|| result.limit()),
        lateness: Latency::of(&result.lateness()),
        starved_rounds: result.cores.iter().map(|core| core.starved_rounds).sum(),
    }
}

fn received<S: Source>(result: &RunResult<S>, late: Option<(u64, u64)>) -> Received {
    let counts = result.counts();
    Received {
        packets: counts.received,
        bytes: counts.bytes,
        losses: S::IS_SIGNED.then(|| losses(result)),
        reordered_packets: counts.reordered,
        duplicate_packets: counts.duplicates,
        uncertain_packets: counts.uncertain,
        foreign_packets: counts.foreign,
        late_packets: late.map(|(all, _)| all),
        unplaced_packets: late.map(|(_, unplaced)| unplaced),
    }
}

fn losses<S: Source>(result: &RunResult<S>) -> Losses {
    let (sent, counts) = (result.sent(), result.counts());
    let came = result.received();
    let mut lossy_flows = 0;
    for core in &result.cores {
        for flow in 0..core.source.flows() as u32 {
            let received = came.get(core.source.number(flow) as usize).copied().unwrap_or_default();
            lossy_flows += u64::from(core.source.sent(flow) > received);
        }
    }
    let expected = sent.packets - sent.malformed;
    let lost = expected.saturating_sub(counts.received);
    Losses { lost_packets: lost, lost_share: lost as f64 / expected.max(1) as f64, lossy_flows }
}
