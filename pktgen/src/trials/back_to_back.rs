//! `pktgen back-to-back`: RFC 9004.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use pktgen::buffer::{BufferTime, Bursts};
use pktgen::pace::Rate;
use pktgen::search::{Goals, longest_burst, throughput};
use pktgen::words;
use serde::Serialize;

use super::{Session, Until, told};
use crate::Failure;
use crate::run;

#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Bursts come in at --rate, which should be the highest of the link. The
buffer's time is corrected for what the device forwards while a burst comes in
(RFC 9004, section 5.4). That takes the throughput of RFC 2544: --throughput
gives it, else it is searched first, by trials of --duration [10s].

EXAMPLES
  pktgen back-to-back --tx veth:h1 --rx veth:h2 --size 64 --repeat 3")]
pub struct BackToBack {
    #[command(flatten)]
    run: run::Arguments,
    /// The longest burst that is tried
    #[arg(long, value_name = "N", value_parser = words::count, default_value = "1M")]
    max_packets: u64,
    /// How often the search is made
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// What the device forwards without a loss, as `pktgen throughput` tells it [searched first]
    #[arg(long, value_name = "PPS", value_parser = packets_per_second, conflicts_with = "duration")]
    throughput: Option<f64>,
}

/// Resolution of the search for the throughput, and its lowest load, as in `pktgen throughput`.
const RESOLUTION: f64 = 0.005;
const LOWEST: f64 = 0.001;

#[derive(Debug, Serialize)]
struct Report {
    /// The longest burst without a loss, of each search.
    bursts_packets: Vec<u64>,
    #[serde(flatten)]
    bursts: Bursts,
    /// Whether one was the longest that was tried.
    is_longest_tried: bool,
    /// Packets per second of the bursts, and what the device forwards of them in the long run.
    rate_packets_per_second: f64,
    throughput_packets_per_second: f64,
    /// Null where the buffer does not fill, or where longer bursts were not tried.
    buffer: Option<BufferTime>,
}

impl BackToBack {
    pub fn run(&self) -> Result<(), Failure> {
        let mut session = Session::open(&self.run)?;
        // Bursts are as fast as was asked for, also when a trial has put a number to the fastest.
        let rate = session.rate;
        let forwarded = self.forwarded(&mut session)?;
        let mut max_rate = None;
        let mut longest = Vec::new();
        for _ in 0..self.repeat {
            longest.push(longest_burst(self.max_packets, |packets| {
                let report = session.trial(rate, Until::Packets(packets))?;
                max_rate = max_rate.or(report.sent.asked_packets_per_second);
                whole(packets, &report)
            })?);
        }
        let reached = if let Rate::Packets(reached) = session.rate { reached } else { 0.0 };
        let report = Report::new(longest, self.max_packets, max_rate.unwrap_or(reached), forwarded)?;
        run::print(self.run.json, &report, || report.text())
    }

    /// The throughput, in packets per second.
    fn forwarded(&self, session: &mut Session) -> Result<f64> {
        if let Some(given) = self.throughput {
            if session.rate == Rate::Max {
                session.at(1.0)?;
            }
            return Ok(given);
        }
        crate::say(format_args!("throughput:"));
        let goals = Goals { losses: vec![0.0], resolution: RESOLUTION, min: LOWEST };
        let (found, _) = throughput(&goals, |part| session.at(part).map(|report| told(part, &report)))?;
        Ok(found.first().and_then(|found| found.load).unwrap_or_default())
    }
}

/// Whether nothing was lost of a burst.
fn whole(packets: u64, report: &run::Report) -> Result<bool> {
    let lost = report.losses().map_or(packets, |losses| losses.lost_packets);
    crate::say(format_args!("{packets} packets: {lost} lost"));
    if report.sent.packets != packets {
        return Err(anyhow!("only {} of {packets} packets were sent", report.sent.packets));
    }
    Ok(lost == 0)
}

/// Packets per second, such as 1.2Mpps.
fn packets_per_second(text: &str) -> Result<f64, String> {
    match text.parse::<Rate>()? {
        Rate::Packets(packets) => Ok(packets),
        _ => Err(format!("{text:?}: packets per second, such as 1.2Mpps")),
    }
}

impl Report {
    fn new(bursts_packets: Vec<u64>, longest: u64, max_rate: f64, throughput: f64) -> Result<Self> {
        let bursts = Bursts::of(&bursts_packets).ok_or_else(|| anyhow!("no search"))?;
        let is_longest_tried = bursts.max_packets >= longest;
        let buffer = BufferTime::of(&bursts, max_rate, throughput).filter(|_| !is_longest_tried);
        Ok(Self {
            bursts_packets,
            bursts,
            is_longest_tried,
            rate_packets_per_second: max_rate,
            throughput_packets_per_second: throughput,
            buffer,
        })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // A string takes all.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        let Bursts { mean_packets, min_packets, max_packets, standard_deviation_packets } = self.bursts;
        let note = if self.is_longest_tried { ", the longest that was tried" } else { "" };
        writeln!(text, "longest burst without a loss: {mean_packets:.1} packets{note}")?;
        let searches = self.bursts_packets.len();
        writeln!(
            text,
            "  of {searches} searches: least {min_packets}, most {max_packets}, standard deviation {standard_deviation_packets:.1}"
        )?;
        let [rate, forwarded] = [self.rate_packets_per_second, self.throughput_packets_per_second].map(|pps| pps / 1e6);
        writeln!(text, "throughput: {forwarded:.6} Mpps, bursts at {rate:.6} Mpps")?;
        match &self.buffer {
            Some(BufferTime { implied_seconds, corrected_seconds }) => {
                let [implied, corrected] = [implied_seconds, corrected_seconds].map(|seconds| 1e6 * seconds);
                writeln!(text, "buffer: {corrected:.2} µs, without the correction {implied:.2} µs")
            }
            None if self.is_longest_tried => writeln!(text, "buffer: more than the longest burst fills"),
            None => writeln!(text, "buffer: not filled, as the device forwards all that comes in"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_told_where_it_is_known() {
        let known = Report::new(vec![100, 120], 1000, 1e6, 5e5).unwrap();
        let text = known.text();
        assert!(text.contains("110.0 packets") && text.contains("least 100, most 120"), "{text}");
        assert!(text.contains("buffer: 55.00 µs, without the correction 110.00 µs"), "{text}");
        assert!(Report::new(vec![100, 1000], 1000, 1e6, 5e5).unwrap().text().contains("more than"));
        assert!(Report::new(vec![100], 1000, 1e6, 1e6).unwrap().text().contains("not filled"));
    }
}
