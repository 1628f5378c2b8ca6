//! `weir trace`: one packet through the pipeline, stage by stage.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

#[cfg(feature = "control")]
use super::show::Where;
use super::{Failure, Programs, captures, help, in_memory, output};
#[cfg(feature = "control")]
use crate::api::observers::TraceQuery;
use crate::api::view::packet::Packet;
use crate::config::{Config, ForwardMode, Length};
use crate::observe::PacketTrace;
use crate::pisa::PortId;
use crate::replay::Replayer;
use crate::telemetry::epoch::Nanos;
use crate::trace::{Captured, LinkType, Timeline};
use crate::wire::{Filter, Headers, parse};

mod text;

/// Longest frame that is taken from --hex: a jumbo frame with its headers.
const MAX_FRAME: usize = 9216 + 64;

/// A group of options.
const PACKET: &str = "Which packet";

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["read", "hex", "next"]))]
#[command(after_help = help::examples(&[
    "weir trace --read FILE.pcap --packet 1000",
    "weir trace --read FILE.pcap --filter 'tcp and dst host 10.0.0.2' -c weir.toml",
    "weir trace --next icmp --name edge1",
    "tcpdump -xx -c 1 | weir trace --hex -",
]))]
pub struct Trace {
    /// A packet of this capture, pcap or pcapng, with gzip and zstd or without; '-' reads stdin
    #[arg(short, long, value_name = "FILE", help_heading = PACKET)]
    read: Option<PathBuf>,
    /// A frame from the destination MAC on, in hexadecimal; '-' reads it from stdin
    #[arg(long, value_name = "BYTES", help_heading = PACKET)]
    hex: Option<String>,
    /// The next packet of a running switch that matches this filter; "" is any
    #[arg(long, value_name = "FILTER", help_heading = PACKET)]
    next: Option<Filter>,
    /// With --read: the packet with this number, from 1
    #[arg(long, value_name = "N", conflicts_with_all = ["filter", "hex", "next"], value_parser = clap::value_parser!(u64).range(1..), help_heading = PACKET)]
    packet: Option<u64>,
    /// With --read: the first packet that matches
    #[arg(long, value_name = "FILTER", conflicts_with_all = ["hex", "next"], help_heading = PACKET)]
    filter: Option<Filter>,
    /// With --read: start with empty registers and tables, not with what the packets before it left
    #[arg(long, conflicts_with_all = ["warm", "hex", "next"], help_heading = PACKET)]
    fresh: bool,
    /// With --read: let the packets before it pass first, which is the default
    #[arg(long, conflicts_with_all = ["hex", "next"], help_heading = PACKET)]
    warm: bool,
    /// The port that it comes in by; with a file or --hex the first port unless the capture names
    /// one
    #[arg(long, value_name = "NAME", help_heading = PACKET)]
    #[cfg_attr(feature = "control", arg(add = super::names::ports()))]
    port: Option<String>,
    /// Configuration file of the switch; its devices are not opened
    #[arg(short, long, value_name = "FILE", conflicts_with = "next", help_heading = help::MEASUREMENT)]
    config: Option<PathBuf>,
    #[command(flatten)]
    programs: Programs,
    /// How the output port is chosen; without a configuration file xconnect between two ports a and
    /// b
    #[arg(long, value_enum, conflicts_with = "next", help_heading = help::MEASUREMENT)]
    forward: Option<ForwardMode>,
    /// Cut the capture into epochs of this length; by default all of it is one
    #[arg(long, value_name = "LENGTH", conflicts_with_all = ["hex", "next"], help_heading = help::MEASUREMENT)]
    epoch: Option<Length>,
    /// Hash polynomials from this seed instead of secret ones
    #[arg(long, value_name = "SEED", conflicts_with = "next", help_heading = help::MEASUREMENT)]
    reproducible: Option<u64>,
    /// With --next: give up after this long
    #[arg(long, default_value = "10s", value_name = "LENGTH", help_heading = PACKET)]
    timeout: Length,
    #[cfg(feature = "control")]
    #[command(flatten)]
    at: Where,
}

/// A capture's way through the switch, up to the packet that is traced.
struct Way<'a> {
    config: &'a Config,
    replayer: Replayer,
    ingress: PortId,
    file: &'a Path,
    /// Packets that have passed.
    number: u64,
    traced: Option<Result<(Packet, String), Failure>>,
}

impl Trace {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let (packet, what) = match (&self.next, &self.read, &self.hex) {
            (Some(filter), ..) => self.next(filter)?,
            (None, Some(file), _) => self.captured(file)?,
            (None, None, Some(hex)) => self.hex(hex)?,
            (None, None, None) => return Err(Failure::Usage("give one of --read, --hex, --next".into())),
        };
        if json { output::json(&packet) } else { output::print(&text::text(&packet, &what)) }
    }

    #[cfg(not(feature = "control"))]
    fn next(&self, _: &Filter) -> Result<(Packet, String), Failure> {
        Err(Failure::Usage("--next: this build asks no running switch; make build makes one that does".into()))
    }

    /// The next packet of a running switch.
    #[cfg(feature = "control")]
    fn next(&self, filter: &Filter) -> Result<(Packet, String), Failure> {
        if !self.programs.parse()?.is_empty() {
            return Err(Failure::Usage("--program with --next: the switch runs what it runs".into()));
        }
        let (wait, max) = (self.timeout.0, std::time::Duration::from_secs(3600));
        let (filter, port) = (filter.to_string(), self.port.clone());
        let query = TraceQuery { filter, port, timeout_seconds: wait.as_secs_f64() };
        let packet: Option<Packet> = self.at.client()?.post_within("/v1/trace", &query, wait.min(max))?;
        let nothing = || Failure::Failed(format!("no packet matched within {}", self.timeout));
        Ok((packet.ok_or_else(nothing)?, "The packet".into()))
    }

    fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => Config::load(path)?.into_memory(),
            None => Config::default(),
        };
        let programs = self.programs.parse()?;
        if config.ports.is_empty() {
            let forward = if self.config.is_some() { config.switch.forward } else { ForwardMode::Xconnect };
            let whole = in_memory(self.programs.or_default()?);
            (config.ports, config.switch.forward) = (whole.ports, forward);
            if config.programs.is_empty() {
                config.programs = whole.programs;
            }
        } else {
            config.programs.extend(programs);
        }
        config.switch.forward = self.forward.unwrap_or(config.switch.forward);
        config.switch.reproducible = self.reproducible.or(config.switch.reproducible);
        config.switch.epoch = self.epoch.unwrap_or(config.switch.epoch);
        config.validate()?;
        Ok(config)
    }

    fn replayer(&self, config: &Config) -> Result<Replayer, Failure> {
        let config = config.clone();
        // Without a configuration there is no MTU to hold a packet to.
        let any = self.config.is_none();
        let replayer = if self.epoch.is_some() { Replayer::new(config) } else { Replayer::single_epoch(config) }?;
        Ok(if any { replayer.without_mtu() } else { replayer })
    }

    /// The port that packets come in by when nothing else says so.
    fn ingress(&self, config: &Config) -> Result<PortId, Failure> {
        let Some(name) = &self.port else { return Ok(0) };
        let names = || config.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
        let unknown = || Failure::Usage(format!("there is no port {name}; the ports are {}", names()));
        config.port(name).ok_or_else(unknown)
    }

    fn hex(&self, hex: &str) -> Result<(Packet, String), Failure> {
        let mut piped = String::new();
        let hex = if hex == "-" {
            std::io::stdin().lock().take(1 << 20).read_to_string(&mut piped).map_err(Failure::failed)?;
            &piped
        } else {
            hex
        };
        let bytes = bytes(hex)?;
        let config = self.config()?;
        let trace = self.replayer(&config)?.trace(self.ingress(&config)?, 0, &bytes, bytes.len());
        Ok((packet(&trace, &config), "The frame".into()))
    }

    fn captured(&self, file: &Path) -> Result<(Packet, String), Failure> {
        let name = captures::name(file);
        let config = self.config()?;
        let (replayer, ingress) = (self.replayer(&config)?, self.ingress(&config)?);
        let mut reader = captures::open(file, &Arc::default()).map_err(Failure::Failed)?;
        let mut way = Way { config: &config, replayer, ingress, file, number: 0, traced: None };
        let (mut timeline, mut read) = (Timeline::default(), Ok(()));
        while way.traced.is_none()
            && read.is_ok()
            && let Some(captured) = reader.next()
        {
            read = captured.map(|captured| timeline.take(captured, |captured| self.pass(&mut way, &captured)));
        }
        timeline.end(|captured| self.pass(&mut way, &captured));
        if let Some(traced) = way.traced {
            return traced;
        }
        read.map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
        let what = match (&self.filter, self.packet) {
            (Some(filter), _) => format!("matches {filter:?}", filter = filter.to_string()),
            (None, number) => format!("is number {}", number.unwrap_or(1)),
        };
        Err(Failure::Failed(format!("{name}: of {number} packets none {what}", number = way.number)))
    }

    /// Takes the capture's next packet through, up to the one that is wanted.
    fn pass(&self, way: &mut Way<'_>, captured: &Captured<'_>) {
        if way.traced.is_some() {
            return;
        }
        way.number += 1;
        let (number, config) = (way.number, way.config);
        let named = captured.interface.filter(|_| self.port.is_none()).and_then(|name| config.port(name));
        let (port, at, frame) = (named.unwrap_or(way.ingress), captured.at_ns, captured.bytes);
        let wire_len = captured.wire_len as usize;
        match (self.is_wanted(number, captured), captured.is_outbound()) {
            (true, true) => {
                let text = format!("packet {number} went out by its port; trace the one that came in");
                way.traced = Some(Err(Failure::Usage(text)));
            }
            (true, false) => {
                if captured.link != LinkType::Ethernet {
                    captures::say_reframed(way.file, captured.link);
                }
                let trace = way.replayer.trace(port, at, frame, wire_len);
                let what = format!("Packet {number} of {}", captures::name(way.file));
                way.traced = Some(Ok((packet(&trace, config), what)));
            }
            (false, false) if !self.fresh => way.replayer.cut_packet(port, at, frame, wire_len),
            (false, _) => {}
        }
    }

    fn is_wanted(&self, number: u64, captured: &Captured<'_>) -> bool {
        match &self.filter {
            None => number == self.packet.unwrap_or(1),
            // A packet that a port sent was traced when it came in.
            Some(_) if captured.is_outbound() => false,
            Some(filter) => {
                let mut headers = Headers::default();
                if parse(captured.bytes, &mut headers).is_err() {
                    headers = Headers::default();
                }
                filter.matches(&headers, captured.bytes, captured.wire_len)
            }
        }
    }
}

fn packet(trace: &PacketTrace, config: &Config) -> Packet {
    let name = |id: PortId| config.ports.get(usize::from(id)).map_or_else(|| id.to_string(), |port| port.name.clone());
    Packet { at_ns: trace.at_ns as Nanos, ..Packet::new(trace, &name) }
}

/// Hexadecimal digits with blanks and colons between them as one likes; offsets such as tcpdump's
/// `0x0010:` are left out.
fn bytes(text: &str) -> Result<Vec<u8>, Failure> {
    let wrong = |what: &str| Failure::Usage(format!("--hex: {what}"));
    let mut digits = Vec::new();
    for word in text.split_whitespace().filter(|word| !(word.starts_with("0x") && word.ends_with(':'))) {
        for c in word.strip_prefix("0x").unwrap_or(word).chars().filter(|&c| c != ':') {
            let digit = c.to_digit(16).ok_or_else(|| wrong(&format!("{c:?} is no hexadecimal digit")))?;
            digits.push(digit as u8);
        }
    }
    if digits.is_empty() || digits.len() % 2 == 1 {
        return Err(wrong(&format!("{} digits, where each byte has two", digits.len())));
    }
    if digits.len() > 2 * MAX_FRAME {
        return Err(wrong(&format!("{} bytes are more than any frame", digits.len() / 2)));
    }
    Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
