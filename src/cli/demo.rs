//! `weir demo`: two virtual hosts talk through a switch in memory, and the report stands beside the
//! truth.

use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::measured::Measured;
use super::replay::score_text;
use super::{Failure, Programs, in_memory, output, show};
use crate::api::view::{Drops, Ports};
use crate::config::ForwardMode;
use crate::pisa::PortId;
use crate::program::{Exact, ProgramConfig};
use crate::replay::Replayer;
use crate::trace::{Frames, Trace, Workload};
use crate::wire::Mac;

#[derive(Debug, Args)]
pub struct Demo {
    /// The traffic: LAW/ORDER[,flows=…,packets=…,seed=…]
    #[arg(long, default_value = "isp/burst,flows=400000,packets=10000000")]
    workload: String,
    #[command(flatten)]
    programs: Programs,
    /// Show this many of the heaviest flows
    #[arg(long, default_value_t = 10, value_name = "K")]
    top: usize,
}

/// The heavy flows that the score is taken over: the paper's largest k.
const SCORED: usize = 300;

const HOST_A: Mac = Mac([2, 0, 0, 0, 0, 0x0a]);
const HOST_B: Mac = Mac([2, 0, 0, 0, 0, 0x0b]);

#[derive(Serialize)]
struct Document {
    workload: String,
    packets: u64,
    bytes: u64,
    /// Time to make the packets and to switch them.
    seconds: f64,
    /// Time in the switch alone.
    switching_seconds: f64,
    packets_per_second: f64,
    memory_bytes: u64,
    programs: std::collections::BTreeMap<String, Measured>,
    ports: Ports,
}

impl Demo {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let workload: Workload = self.workload.parse().map_err(|e| Failure::Usage(format!("--workload: {e}")))?;
        let programs = self.programs.or_default()?;
        let mut config = in_memory(programs.clone());
        config.switch.forward = ForwardMode::Learn;
        let mut replayer = Replayer::single_epoch(config)?;

        output::say("Two hosts, a and b, each on a port of a switch in memory. Making their traffic …");
        let trace = workload.generate();
        let seconds = drive(&trace, &mut replayer);
        let document = self.document(&programs, &trace, &replayer, seconds);
        output::document(json, &document, text)
    }

    fn document(&self, programs: &[ProgramConfig], trace: &Trace, replayer: &Replayer, seconds: f64) -> Document {
        let ports = replayer.ports();
        let packets = trace.sequence.len() as u64;
        let switching = replayer.switching().as_secs_f64();
        let mut documents = std::collections::BTreeMap::new();
        for (i, (name, program)) in ProgramConfig::named(programs).enumerate() {
            let exact = exact(trace, program);
            let measured = Measured::new(i, replayer.run(), (self.top, SCORED), Some(&*exact));
            documents.insert(name, measured);
        }
        Document {
            workload: self.workload.clone(),
            packets,
            bytes: ports.ports.iter().map(|port| port.counts.rx_bytes).sum(),
            seconds,
            switching_seconds: switching,
            packets_per_second: packets as f64 / switching,
            memory_bytes: replayer.memory_bits() / 8,
            programs: documents,
            ports,
        }
    }
}

/// Sends the trace through: flows with an even number from a to b, the others from b to a, and now
/// and then a frame that no switch should let through. Returns the seconds that it took.
fn drive(trace: &Trace, replayer: &mut Replayer) -> f64 {
    let from_a = Frames::new(HOST_A, HOST_B);
    let from_b = Frames::new(HOST_B, HOST_A);
    let tuples = trace.tuples();
    let progress = ProgressBar::new(trace.sequence.len() as u64).with_style(
        ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} packets, {per_sec}, {eta} to go")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let mut buffer = [0; 16 * 1024];
    let started = Instant::now();
    for (number, &flow) in (0u64..).zip(&trace.sequence) {
        let tuple = tuples[flow as usize];
        let frame = &mut buffer[..trace.workload.frame_len(number, tuple)];
        let (port, frames): (PortId, _) = if flow.is_multiple_of(2) { (0, &from_a) } else { (1, &from_b) };
        frames.fill(tuple, number, frame);
        let at = trace.workload.at_ns(number);
        replayer.packet(port, at, frame);
        if number.is_multiple_of(100_000) {
            hostile(number / 100_000, port, at, frame, replayer);
        }
        if number.is_multiple_of(1 << 16) {
            progress.set_position(number);
        }
    }
    replayer.finish();
    progress.finish_and_clear();
    started.elapsed().as_secs_f64()
}

/// A runt, a telemetry shim from a host, and a frame for the bridge itself, in turn.
fn hostile(turn: u64, port: PortId, at: u64, frame: &mut [u8], replayer: &mut Replayer) {
    match turn % 3 {
        0 => replayer.packet(port, at, &frame[..9]),
        1 => {
            frame[12..14].copy_from_slice(&crate::wire::ethertype::SHIM.to_be_bytes());
            replayer.packet(port, at, frame);
        }
        _ => {
            frame[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0]);
            frame[12..14].copy_from_slice(&[0, 3]);
            replayer.packet(port, at, frame);
        }
    }
}

/// Exact counts in the program's own terms.
fn exact(trace: &Trace, program: &ProgramConfig) -> Box<dyn Exact> {
    let mut exact = program.exact();
    trace.truth().flows().iter().for_each(|flow| exact.flow(&flow.flow, flow.packets, flow.bytes));
    exact
}

fn text(document: &Document) -> String {
    let mut text = format!(
        "{} packets ({}) made and switched in {:.1} s.\nThe switch took {:.2} s of it on one core: {:.1} M packets/s.\n",
        output::grouped(document.packets),
        document.workload,
        document.seconds,
        document.switching_seconds,
        document.packets_per_second / 1e6,
    );
    for (name, program) in &document.programs {
        text += &format!(
            "\n{name} found these flows to be the heaviest, in {} KB of registers, the truth beside them:\n\n{}\n\n{}\n",
            output::grouped(document.memory_bytes / 1000),
            program.text(),
            program.score.as_ref().map(score_text).unwrap_or_default(),
        );
    }
    text += &format!(
        "\nEvery packet that came in went out or is counted:\n\n{}\n\n{}\n",
        show::ports_text(&document.ports),
        show::drops_text(&Drops::of(&document.ports)),
    );
    text + NEXT
}

const NEXT: &str = "
What next:
  weir replay FILE.pcap --score    your own capture through the same dataplane, beside exact counts
  weir budget                      what the pipeline takes of a switch ASIC, stage by stage
  weir doctor                      what this machine lacks for live ports
  weir run --help                  two hosts of your own, through TAP or veth ports (README.md walks through it)";
