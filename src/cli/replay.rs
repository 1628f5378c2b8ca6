//! `weir replay`: the dataplane over captures, with exact counts beside it on request.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use super::budget::Memory;
use super::measured::{Measured, answer_frequencies};
use super::output::{self, Format, Page, Tables};
use super::register_files::{ExportOptions, FILES};
use super::{Failure, Programs, captures, help, in_memory, placed, signals};
use crate::answers::{ByRoute, Claim, Exact, NamedFlows, Query, Task};
use crate::api::view::{Lacking, Packets, Port, Tunnelled};
use crate::config::{BatchOrderConfig, Config, ForwardMode, Length};
use crate::history::{Gap, Window};
use crate::json::{Time, digits};
use crate::program::ProgramConfig;
use crate::replay::Replayer;
use crate::switch::KeyHeaders;
use crate::wire::Pattern;
use frames::FrameFiles;
use ingress::Ingress;
use reading::{Reading, Said, Totals};

mod frames;
mod ingress;
mod reading;

/// A group of options.
const ANSWERS: &str = "Answers";

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir replay FILE.pcap",
    "weir replay FILE.pcap --program {program} --score",
    "weir replay FILE.pcap.gz --epoch 100ms --top 20 --json",
    "weir replay FILE.pcap --frequency '10.0.0.0/24 → *:443 tcp' --score",
    "weir replay FILE.pcap --key inner",
    "weir replay FILE.pcap --epoch 1s --registers DIR --records DIR",
    "weir replay FILE.pcapng -c weir.toml --registers DIR --frames DIR",
    "tcpdump -w - -c 1000 | weir replay -",
]))]
pub struct Replay {
    /// Captures, pcap or pcapng, replayed one after the other; '-' reads one from stdin. gzip and
    /// zstd are recognised. Packets without an Ethernet header are given one
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Replay through the switch of a configuration file: its ports, in memory and not on their
    /// devices, its forwarding, tables, epochs and programs. A packet comes in by the port that has the
    /// name or the number of its interface
    #[arg(
        short,
        long,
        value_name = "FILE",
        conflicts_with_all = ["programs", "epoch", "order", "key", "reproducible"],
        help_heading = help::MEASUREMENT
    )]
    config: Option<PathBuf>,
    /// With --config: all packets come in by this port
    #[arg(long = "in", value_name = "PORT", requires = "config", help_heading = help::MEASUREMENT)]
    ingress: Option<String>,
    #[command(flatten)]
    programs: Programs,
    /// Report this many of the heaviest flows
    #[arg(long, default_value_t = 10, value_name = "K", help_heading = ANSWERS)]
    top: usize,
    /// Report how many packets (or bytes) the flows like this have, as "10.0.0.1:80 → 10.0.0.0/24:* tcp"
    /// (-> for the arrow, * for any); may be given several times
    #[arg(long, value_name = "FLOW", help_heading = ANSWERS)]
    frequency: Vec<Pattern>,
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
    /// Which headers name a packet's flow: those of a tunnel, or of the packet inside
    #[arg(long, value_enum, default_value_t, help_heading = help::MEASUREMENT)]
    key: KeyHeaders,
    /// Hash polynomials from this seed instead of secret ones
    #[arg(long, value_name = "SEED", help_heading = help::MEASUREMENT)]
    reproducible: Option<u64>,
    #[command(flatten)]
    exports: ExportOptions,
    /// Write the packets that leave into this new directory, as a capture of each port
    #[arg(long, value_name = "DIR", help_heading = FILES)]
    frames: Option<PathBuf>,
    #[cfg(feature = "control")]
    #[command(flatten)]
    archive: super::archive::RunArchive,
    #[command(flatten)]
    tables: Tables,
}

/// How the run was configured: with the seed it gives the same answers again.
#[derive(Serialize)]
struct Configuration {
    /// Null: all of the capture is one epoch.
    epoch_ns: Option<u64>,
    order: BatchOrderConfig,
    key: KeyHeaders,
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
    /// With --config: packets that went out by their interface, and are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    outbound_packets: Option<u64>,
    /// With --config.
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<Vec<Port>>,
    /// Packets whose flow lacks something.
    lacking: Lacking,
    tunnels: Tunnelled,
    captures: Said,
    /// Whether a signal ended the reading.
    interrupted: bool,
    /// Why reading ended before the end of the captures.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    programs: std::collections::BTreeMap<String, Measured>,
}

impl Replay {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let format = self.tables.clone().format(json)?;
        if self.files.iter().filter(|file| captures::is_stdin(file)).count() > 1 {
            return Err(Failure::Usage("'-' stands for stdin, which can be read once".into()));
        }
        let config = self.config()?;
        let programs = config.programs_here();
        if self.min_recall.is_some() && programs.iter().all(|program| program.rank(Task::Heavy).is_none()) {
            return Err(Failure::Usage("--min-recall: no program names heavy flows".into()));
        }
        answer_frequencies(&self.frequency, &programs)?;
        let ingress = match self.config {
            Some(_) => Ingress::new(&config, self.ingress.as_deref())?,
            None => Ingress::fixed(0),
        };
        let memory = Memory::of(&placed(&config, self.config.as_deref())?);
        let mut replayer = self.replayer(&config)?;
        let exports = self.exports.start(config.known_as(), &programs, replayer.collector())?;
        let frames = |path: &PathBuf| FrameFiles::start(path, &config.ports, &mut replayer);
        let frames = self.frames.as_ref().map(frames).transpose()?;
        #[cfg(feature = "control")]
        let mut archives = self.archive.begin(&programs)?;
        let mut exact: Vec<_> = programs.iter().filter(|_| self.score).map(|program| program.exact()).collect();

        let stop = signals::stop(signals::clear_line).map_err(Failure::failed)?;
        let started = Instant::now();
        let mut reading = Reading::new(&mut replayer, ingress, &mut exact, config.switch.tunnels());
        let read = self.files.iter().try_for_each(|file| {
            let read = reading.file(file, &stop);
            match (stop.load(Relaxed), captures::is_stdin(file)) {
                (false, _) => read,
                // A signal is how a capture on its way ends, also within a packet.
                (true, true) => Ok(()),
                (true, false) => Err(format!("{}: interrupted", captures::name(file))),
            }
        });
        let mut totals = reading.totals;
        totals.interrupted = stop.load(Relaxed);
        totals.error = match read {
            Err(error) if totals.packets == 0 => return Err(Failure::Failed(error)),
            read => read.err(),
        };
        replayer.finish();
        exports.check()?;
        frames.map_or(Ok(()), FrameFiles::finish)?;
        if let Some(packets @ 1..) = totals.captures.metadata.missed_packets {
            replayer.lacks(Gap::NotCaptured { packets });
        }
        let Lacking { no_ip_header_packets, no_ports_packets, .. } = replayer.lacking();
        if no_ip_header_packets + no_ports_packets > 0 {
            replayer.lacks(Gap::Headers { packets: no_ip_header_packets + no_ports_packets });
        }
        let seconds = started.elapsed().as_secs_f64();
        #[cfg(feature = "control")]
        {
            archives.take(&replayer.histories())?;
            archives.close()?;
        }
        self.report(&format, &config, &replayer, exact, totals, (seconds, memory))
    }

    /// The configuration of the switch, which is in memory.
    fn config(&self) -> Result<Config, Failure> {
        let Some(path) = &self.config else {
            let mut config = in_memory(self.programs.or_default()?);
            config.switch.forward = ForwardMode::Xconnect;
            config.switch.order = self.order;
            config.switch.key = self.key;
            config.switch.reproducible = self.reproducible;
            config.switch.epoch = self.epoch.unwrap_or(config.switch.epoch);
            config.validate()?;
            return Ok(config);
        };
        let config = Config::load(path)?.into_memory();
        if config.ports.is_empty() {
            return Err(Failure::Usage(format!("{}: no port: packets come in by a [[port]]", path.display())));
        }
        Ok(config)
    }

    /// Length of an epoch; `None` where all of the capture is one.
    fn epoch(&self, config: &Config) -> Option<Length> {
        if self.config.is_some() { Some(config.switch.epoch) } else { self.epoch }
    }

    fn replayer(&self, config: &Config) -> Result<Replayer, Failure> {
        let made = match self.epoch(config) {
            Some(_) => Replayer::new(config.clone()),
            None => Replayer::single_epoch(config.clone()),
        };
        // Without a configuration there is no MTU to hold a packet to.
        Ok(if self.config.is_some() { made? } else { made?.without_mtu() })
    }

    fn report(
        &self,
        format: &Format,
        config: &Config,
        replayer: &Replayer,
        exact: Vec<Box<dyn Exact>>,
        totals: Totals,
        (seconds, memory): (f64, Memory),
    ) -> Result<(), Failure> {
        let programs = &config.programs;
        let mut documents = std::collections::BTreeMap::new();
        let mut missed = None;
        let captured = totals.span_ns().map(|(first, last)| (Time(first), Time(last)));
        let histories = replayer.histories();
        let all = Query::new(Task::Heavy, Window::All);
        let names = ProgramConfig::named(programs).map(|(name, _)| name);
        for (i, (name, history)) in names.zip(&histories).enumerate() {
            let named = || ByRoute::new(Arc::new(NamedFlows::among(&histories, &all)));
            let (routes, exact) = (history.needs_routes().then(named), exact.get(i).map(|exact| &**exact));
            let mut measured = Measured::new(&**history, routes, self.top, &self.frequency, exact);
            if let (Some(score), Some(min)) = (&measured.score, self.min_recall)
                && score.recall < min
            {
                missed = Some(format!("recall {:.4} is below --min-recall {min}", score.recall));
            }
            if let Some(captured) = captured {
                let whole = |claim: &mut Claim| *claim = std::mem::take(claim).of_capture(captured);
                let of_counts = measured.frequencies.iter_mut().map(|found| &mut found.claim);
                measured.claims.values_mut().chain(of_counts).for_each(whole);
            }
            documents.insert(name, measured);
        }
        let epoch_ns = self.epoch(config).map(Length::nanos);
        let is_configured = self.config.is_some();
        let ports = replayer.ports();
        let document = Document {
            version: env!("CARGO_PKG_VERSION"),
            seed: config.switch.reproducible,
            configuration: Configuration {
                epoch_ns,
                order: config.switch.order,
                key: config.switch.key,
                programs: programs.clone(),
            },
            memory,
            packets: totals.packets,
            bytes: totals.bytes,
            seconds,
            captured_seconds: captured.map_or(0.0, |(Time(first), Time(last))| (last - first) as f64 / 1e9),
            start: captured.map(|(first, _)| first),
            end: captured.map(|(_, last)| last),
            drops: ports.packets,
            unmeasured_packets: replayer.unmeasured_packets(),
            cut_packets: totals.cut,
            reframed_packets: totals.reframed,
            outbound_packets: is_configured.then_some(totals.outbound),
            ports: is_configured.then_some(ports.ports),
            lacking: replayer.lacking(),
            tunnels: replayer.tunnels(),
            captures: totals.captures,
            interrupted: totals.interrupted,
            error: totals.error,
            programs: documents,
        };
        output::page(format, &document, page)?;
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

fn page(document: &Document) -> Page {
    document.programs.iter().fold(Page::default().text(head(document)), |page, (name, program)| {
        let truth = program.score.as_ref().map(|_| truth_text(document));
        page.and(program.page(name)).text(truth.unwrap_or_default())
    })
}

/// The packets of the capture, and how many were cut, lost or unmeasured.
fn head(document: &Document) -> String {
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
    document.captures.text().iter().for_each(|line| text += &format!("{line}\n"));
    if let Some(packets @ 1..) = document.outbound_packets {
        let packets = output::grouped(packets);
        text += &format!("packets that went out by their interface, which are left out: {packets}\n");
    }
    if document.unmeasured_packets > 0 {
        text += &format!(
            "{} without IP, which no program measures\n",
            output::count(document.unmeasured_packets, "packet")
        );
    }
    let of_packets = document.lacking.rows().into_iter().chain(document.tunnels.rows());
    for (packets, what) in of_packets.filter(|(packets, _)| *packets > 0) {
        text += &format!("{} {what}\n", output::grouped(packets));
    }
    if document.drops.dropped_packets > 0 {
        let were = if document.drops.dropped_packets == 1 { "was" } else { "were" };
        text += &format!("{} {were} dropped\n", output::count(document.drops.dropped_packets, "packet"));
    }
    text
}

/// The source of the exact counts behind the scores.
fn truth_text(document: &Document) -> String {
    let Lacking { no_ip_header_packets, no_ports_packets, .. } = document.lacking;
    let mut text = String::from("the truth: exact counts of the packets as this parser reads them");
    if document.cut_packets > 0 {
        text += &format!(", {} of them cut by the capture", output::grouped(document.cut_packets));
    }
    match no_ip_header_packets + no_ports_packets {
        0 => {}
        packets => text += &format!(", {} without the headers that tell flows apart", output::grouped(packets)),
    }
    text
}
