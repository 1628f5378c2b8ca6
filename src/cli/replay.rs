//! `weir replay`: the dataplane over captures, with exact counts beside it on request.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;

use super::budget::Memory;
use super::measured::Measured;
use super::{Failure, Programs, captures, help, in_memory, output, placed, signals};
use crate::api::view::{Claim, Packets};
use crate::config::{BatchOrderConfig, ForwardMode, Length};
use crate::json::{Time, digits};
use crate::program::answers::Task;
use crate::program::{Exact, ProgramConfig};
use crate::replay::Replayer;
use crate::telemetry::score::Score;
use crate::trace::LinkType;
use crate::wire::{Headers, parse};

/// A group of options.
const ANSWERS: &str = "Answers";

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir replay FILE.pcap",
    "weir replay FILE.pcap --program {program} --score",
    "weir replay FILE.pcap.gz --epoch 100ms --top 20 --json",
    "tcpdump -w - -c 1000 | weir replay -",
]))]
pub struct Replay {
    /// Captures, pcap or pcapng, replayed one after the other; '-' reads one from stdin. gzip and
    /// zstd are recognised. Packets without an Ethernet header are given one
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    programs: Programs,
    /// Report this many of the heaviest flows
    #[arg(long, default_value_t = 10, value_name = "K", help_heading = ANSWERS)]
    top: usize,
    /// Compare with exact counts
    #[arg(long, help_heading = ANSWERS)]
    score: bool,
    /// With --score: end with exit code 3 when fewer than this share of the heaviest flows is found
    /// (0 to 1)
    #[arg(long, value_name = "SHARE", requires = "score", value_parser = share, help_heading = ANSWERS)]
    min_recall: Option<f64>,
    /// Cut the capture into epochs of this length; by default all of it is one
    #[arg(long, value_name = "LENGTH", help_heading = help::MEASUREMENT)]
    epoch: Option<Length>,
    /// Run a burst through the pipeline packet by packet or stage by stage
    #[arg(long, value_enum, default_value_t, help_heading = help::MEASUREMENT)]
    order: BatchOrderConfig,
    /// Hash polynomials from this seed instead of secret ones
    #[arg(long, value_name = "SEED", help_heading = help::MEASUREMENT)]
    reproducible: Option<u64>,
}

/// How the run was configured: with the seed it gives the same answers again.
#[derive(Serialize)]
struct Configuration {
    /// Null: all of the capture is one epoch.
    epoch_ns: Option<u64>,
    order: BatchOrderConfig,
    programs: Vec<ProgramConfig>,
}

#[derive(Serialize)]
struct Document {
    version: &'static str,
    /// Of hash polynomials; null where they were secret.
    #[serde(with = "digits")]
    seed: Option<u64>,
    configuration: Configuration,
    memory: Memory,
    packets: u64,
    /// On the wire.
    bytes: u64,
    /// Wall-clock time that the dataplane and the reading of the captures took.
    seconds: f64,
    /// Time from the first packet to the last on the capture's clock, and when that was.
    captured_seconds: f64,
    start: Option<Time>,
    end: Option<Time>,
    drops: Packets,
    /// Packets that no program measures.
    unmeasured_packets: u64,
    /// Records that a capture's snap length cut short. Their headers are read from what is left.
    cut_packets: u64,
    /// Packets that were captured with another link type than Ethernet, and count with an Ethernet
    /// header in place of their own.
    reframed_packets: u64,
    /// Whether a signal ended the reading.
    interrupted: bool,
    /// Why reading ended before the end of the captures.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    programs: std::collections::BTreeMap<String, Measured>,
}

#[derive(Default)]
struct Totals {
    packets: u64,
    bytes: u64,
    cut: u64,
    reframed: u64,
    interrupted: bool,
    /// Why reading ended before the end of the captures.
    error: Option<String>,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Replay {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        if self.files.iter().filter(|file| captures::is_stdin(file)).count() > 1 {
            return Err(Failure::Usage("'-' stands for stdin, which can be read once".into()));
        }
        let programs = self.programs.or_default()?;
        if self.min_recall.is_some() && programs.iter().all(|program| program.rank(Task::Heavy).is_none()) {
            return Err(Failure::Usage("--min-recall: no program names heavy flows".into()));
        }
        let mut config = in_memory(programs.clone());
        config.switch.forward = ForwardMode::Xconnect;
        config.switch.order = self.order;
        config.switch.reproducible = self.reproducible;
        let single_epoch = self.epoch.is_none();
        if let Some(epoch) = self.epoch {
            config.switch.epoch = epoch;
        }
        config.validate()?;
        let memory = Memory::of(&placed(&config, None)?);
        let mut replayer =
            if single_epoch { Replayer::single_epoch(config) } else { Replayer::new(config) }?.without_mtu();
        let mut exact: Vec<_> = programs.iter().filter(|_| self.score).map(|program| program.exact()).collect();

        let stop = signals::stop(signals::clear_line).map_err(Failure::failed)?;
        let started = Instant::now();
        let mut totals = Totals::default();
        let read = self.files.iter().try_for_each(|file| {
            let read = self.replay(file, &stop, &mut replayer, &mut exact, &mut totals);
            match (stop.load(Relaxed), captures::is_stdin(file)) {
                (false, _) => read,
                // A signal is how a capture on its way ends, also within a packet.
                (true, true) => Ok(()),
                (true, false) => Err(format!("{}: interrupted", captures::name(file))),
            }
        });
        totals.interrupted = stop.load(Relaxed);
        totals.error = match read {
            Err(error) if totals.packets == 0 => return Err(Failure::Failed(error)),
            read => read.err(),
        };
        replayer.finish();
        let seconds = started.elapsed().as_secs_f64();
        self.report(json, &programs, &replayer, exact, totals, (seconds, memory))
    }

    /// Takes one capture in, up to the first record that cannot be read. The error says which that
    /// is.
    fn replay(
        &self,
        file: &Path,
        stop: &Arc<AtomicBool>,
        replayer: &mut Replayer,
        exact: &mut [Box<dyn Exact>],
        totals: &mut Totals,
    ) -> Result<(), String> {
        let name = captures::name(file);
        let broken = |error| format!("{name}: {error}");
        let mut reader = captures::open(file, stop)?;
        let progress = ProgressBar::new_spinner().with_message(format!("replaying {name}"));
        let mut headers = Headers::default();
        while let Some(captured) = reader.next() {
            let captured = captured.map_err(broken)?;
            totals.first_ns.get_or_insert(captured.at_ns);
            totals.last_ns = totals.last_ns.max(captured.at_ns);
            totals.packets += 1;
            let wire_len = captured.wire_len as usize;
            totals.bytes += wire_len as u64;
            totals.cut += u64::from(wire_len > captured.bytes.len());
            if captured.link != LinkType::Ethernet {
                if totals.reframed == 0 {
                    progress.suspend(|| captures::say_reframed(file, captured.link));
                }
                totals.reframed += 1;
            }
            replayer.cut_packet(0, captured.at_ns, captured.bytes, wire_len);
            if !exact.is_empty() && parse(captured.bytes, &mut headers).is_ok() {
                exact.iter_mut().for_each(|exact| exact.packet(&headers, wire_len));
            }
            if totals.packets.is_multiple_of(1 << 16) {
                progress.tick();
            }
        }
        progress.finish_and_clear();
        Ok(())
    }

    fn report(
        &self,
        json: bool,
        programs: &[ProgramConfig],
        replayer: &Replayer,
        exact: Vec<Box<dyn Exact>>,
        totals: Totals,
        (seconds, memory): (f64, Memory),
    ) -> Result<(), Failure> {
        let mut documents = std::collections::BTreeMap::new();
        let mut missed = None;
        let captured = totals.first_ns.map(|first| (Time(first), Time(totals.last_ns)));
        for (i, (name, _)) in ProgramConfig::named(programs).enumerate() {
            let mut measured =
                Measured::new(i, replayer.run(), (self.top, self.top), exact.get(i).map(|exact| &**exact))?;
            if let (Some(score), Some(min)) = (&measured.score, self.min_recall)
                && score.recall < min
            {
                missed = Some(format!("recall {:.4} is below --min-recall {min}", score.recall));
            }
            if let Some(captured) = captured {
                let whole = |claim: &mut Claim| *claim = std::mem::take(claim).of_capture(captured);
                measured.claims.values_mut().for_each(whole);
            }
            documents.insert(name, measured);
        }
        let epoch_ns = self.epoch.map(Length::nanos);
        let document = Document {
            version: env!("CARGO_PKG_VERSION"),
            seed: self.reproducible,
            configuration: Configuration { epoch_ns, order: self.order, programs: programs.to_vec() },
            memory,
            packets: totals.packets,
            bytes: totals.bytes,
            seconds,
            captured_seconds: captured.map_or(0.0, |(Time(first), Time(last))| (last - first) as f64 / 1e9),
            start: captured.map(|(first, _)| first),
            end: captured.map(|(_, last)| last),
            drops: replayer.ports().packets,
            unmeasured_packets: replayer.unmeasured_packets(),
            cut_packets: totals.cut,
            reframed_packets: totals.reframed,
            interrupted: totals.interrupted,
            error: totals.error,
            programs: documents,
        };
        if json {
            output::json(&document)?
        } else {
            output::print(&text(&document))?
        }
        match (document.error, missed) {
            (Some(error), _) => Err(Failure::Failed(format!("{error}; the report covers what came before"))),
            (None, Some(missed)) => Err(Failure::Missed(missed)),
            (None, None) => Ok(()),
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share from 0 to 1".into())
}

fn text(document: &Document) -> String {
    let mut text = format!(
        "{} packets, {} bytes, {:.3} s on the capture's clock, replayed in {:.3} s ({:.2} M packets/s)\n",
        output::grouped(document.packets),
        output::grouped(document.bytes),
        document.captured_seconds,
        document.seconds,
        document.packets as f64 / document.seconds / 1e6,
    );
    if document.interrupted {
        text += "interrupted: the answers cover the packets that were read before\n";
    }
    if document.cut_packets > 0 {
        text += &format!("{} packets were cut short by the capture\n", output::grouped(document.cut_packets));
    }
    if document.unmeasured_packets > 0 {
        text += &format!(
            "{} without IP, which no program measures\n",
            output::count(document.unmeasured_packets, "packet")
        );
    }
    if document.drops.dropped_packets > 0 {
        let were = if document.drops.dropped_packets == 1 { "was" } else { "were" };
        text += &format!("{} {were} dropped\n", output::count(document.drops.dropped_packets, "packet"));
    }
    for (name, program) in &document.programs {
        text += &format!("\n{name}: {}\n{}\n", program.title(), program.text());
        if let Some(score) = &program.score {
            text += &format!("\n{}\n", score_text(score));
        }
    }
    text.trim_end().to_string()
}

pub fn score_text(score: &Score) -> String {
    let row = |name: &str, value: f64| [name.to_string(), output::percent(value)];
    output::table(
        [&format!("top {} of {} flows", output::grouped(score.k as u64), output::grouped(score.flows as u64)), ">"],
        [
            row("precision", score.precision),
            row("recall", score.recall),
            row("false negatives", score.false_negatives),
            row("false positives", score.false_positives),
            row("average relative error", score.average_relative_error),
        ],
    )
}
