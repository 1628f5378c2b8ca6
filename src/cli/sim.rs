//! `weir sim`: a network of switches in memory, and what they measure beside what is true.

mod answers;
#[cfg(feature = "control")]
mod page;
mod transport;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::slice;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::measured::answer_frequencies;
use super::output::{self, Cell, Page, Table, Tables, row};
use super::{Failure, Programs, help, signals};
use crate::answers::{EpochAttention, attention_table};
use crate::config::Length;
use crate::forward::rate::Limit;
use crate::json::Epoch;
use crate::program::ProgramConfig;
use crate::sim::report::{LostAt, Measured};
use crate::sim::{
    Audit, EpochReport, Fabric, Fault, Loss, OwnSettings, ProgramReport, Setup, Shape, SimError, Simulation, Transport,
    TransportReport,
};
use crate::switch::TelemetryHeader;
use crate::telemetry::epoch::Nanos;
use crate::trace::Workload;
use crate::wire::Pattern;

/// Epochs of a simulation, and of one with a page, unless others are asked for.
const EPOCHS: u32 = 6;
const WATCHED_EPOCHS: u32 = 10_000;

/// Groups of options.
const NETWORK: &str = "Network";
const TRAFFIC: &str = "Traffic and faults";

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir sim --loss flows=10%,rate=1% --epochs 8",
    "weir sim --topology fat-tree:4 --workload dctcp/uniform,flows=5k --seed 7",
    "weir sim --frequency '* → * udp' --json",
    "weir sim --epochs 1000 --each --json",
    "weir sim --page 127.0.0.1:8080 --loss flows=10%,rate=1%",
    "weir sim --topology line:3 --loss link=all,rate=0.1% \\",
    "      --fault pause=s1,at=0.5s,for=120ms --json",
]))]
pub struct Sim {
    /// line:N, fat-tree:K, testbed (ChameleMon's: 10 switches, 8 hosts),
    /// spine-leaf:SPINES,LEAVES,HOSTS, or a file: .gml, .graphml
    #[arg(long, default_value = "testbed", value_name = "TOPOLOGY", help_heading = NETWORK)]
    topology: String,
    /// Each epoch's flows: LAW/ORDER[,flows=…,packets=…,longest=…]; laws are dctcp, hadoop, vl2,
    /// keyvalue, cache, isp, zipfS
    #[arg(long, default_value = "hadoop/uniform,flows=10k", value_name = "WORKLOAD", help_heading = TRAFFIC)]
    workload: Workload,
    #[command(flatten)]
    programs: Programs,
    /// Settings that one switch's program has in place of those of --program, such as
    /// s1:hashpipe:slots=512; may be given several times
    #[arg(long = "switch", value_name = "SWITCH:P:KEY=VALUE,…", help_heading = help::MEASUREMENT)]
    switches: Vec<OwnSettings>,
    /// A file with such settings, in a table `[[program]]` for each program of a switch: its keys are
    /// switch, name and the settings. --switch goes before it
    #[arg(long = "switches", value_name = "FILE", help_heading = help::MEASUREMENT)]
    own: Option<PathBuf>,
    /// Report in each epoch how many packets (or bytes) the flows like this have, beside their exact
    /// number: "10.0.0.1:80 → 10.0.0.0/24:* tcp" (-> for the arrow, * for any); may be given several
    /// times
    #[arg(long, value_name = "FLOW", help_heading = help::MEASUREMENT)]
    frequency: Vec<Pattern>,
    /// Epochs of traffic, by default 6, and 10000 with --page
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = help::MEASUREMENT)]
    epochs: Option<u32>,
    /// Length of an epoch
    #[arg(long, default_value = "50ms", value_name = "LENGTH", help_heading = help::MEASUREMENT)]
    epoch: Length,
    /// Losses: flows=1000,rate=1% or flows=10%,rate=1% (victims, new ones each epoch),
    /// link=all,rate=0.1% or link=3,rate=1%, switch=core0,rate=1% (within the switch)
    #[arg(long = "loss", value_name = "LOSS", help_heading = TRAFFIC)]
    losses: Vec<Loss>,
    /// Other faults: pause=SWITCH,at=1s,for=100ms, clock=SWITCH,by=-200ms[,at=1s],
    /// double=LINK,rate=1%, delay=LINK,rate=1%,by=100ms; switches by name, links by number, or all
    #[arg(long = "fault", value_name = "FAULT", help_heading = TRAFFIC)]
    faults: Vec<Fault>,
    /// Hosts that answer, with congestion control: hpcc, or hpcc,feedback=int,load=50%; feedback is
    /// int, digest or none. Needs --rate, and a workload with sizes in bytes. Flows come in at
    /// random, so flows= has no meaning
    #[arg(long, value_name = "TRANSPORT", help_heading = TRAFFIC)]
    transport: Option<Transport>,
    /// Decides everything that is drawn: flows, hosts, losses, hash polynomials
    #[arg(long, value_name = "SEED", help_heading = help::MEASUREMENT)]
    seed: Option<u64>,
    /// Delay of every link
    #[arg(long, default_value = "1us", value_name = "LENGTH", help_heading = NETWORK)]
    delay: Length,
    /// Rate of every link, such as 40Gbps; unlimited by default
    #[arg(long, value_name = "RATE", help_heading = NETWORK)]
    rate: Option<Limit>,
    /// With --rate: a packet that would wait longer for a link is lost
    #[arg(long, default_value = "1ms", value_name = "LENGTH", help_heading = NETWORK)]
    queue_timeout: Length,
    /// For so long after an epoch's end its packets may leave; then the switches' records are
    /// collected
    #[arg(long, default_value = "10ms", value_name = "LENGTH", help_heading = NETWORK)]
    transit: Length,
    /// From a switch to the controller, and back
    #[arg(long, default_value = "1ms", value_name = "LENGTH", help_heading = NETWORK)]
    latency: Length,
    /// Leave the programs' parameters as they are
    #[arg(long, help_heading = help::MEASUREMENT)]
    fixed: bool,
    /// How a packet's class and epoch travel between switches: a header of its own, or bits of
    /// its IP header
    #[arg(long, value_enum, default_value_t, value_name = "HEADER", help_heading = NETWORK)]
    telemetry_header: TelemetryHeader,
    /// Run the programs on all switches, not only on those with hosts; programs that write digests
    /// do so anyhow
    #[arg(long, help_heading = help::MEASUREMENT)]
    everywhere: bool,
    /// Report each epoch as soon as its answers are final, and nothing else; with --json one document
    /// a line
    #[arg(long, conflicts_with_all = ["faults", "transport"])]
    each: bool,
    #[cfg(feature = "control")]
    #[command(flatten)]
    archive: super::archive::RunArchive,
    #[cfg(feature = "control")]
    #[command(flatten)]
    page: super::page::LivePage,
    #[command(flatten)]
    tables: Tables,
}

#[derive(Serialize)]
struct Document {
    topology: TopologyDocument,
    workload: String,
    losses: Vec<String>,
    faults: Vec<String>,
    /// Settings that single switches have in place of the others'.
    switch_settings: Vec<String>,
    telemetry_header: TelemetryHeader,
    epoch_ns: Nanos,
    transit_ns: Nanos,
    /// Wall-clock time of the simulation.
    seconds: f64,
    sent_packets: u64,
    delivered_packets: u64,
    lost_packets: u64,
    /// Packets that links made of others: sent + doubled = delivered + lost.
    doubled_packets: u64,
    /// Packets that switches took in; each counts once at every switch.
    switched_packets: u64,
    switched_packets_per_second: f64,
    /// Packets that came to a host with a telemetry shim: none.
    shims_at_hosts: u64,
    epochs: Vec<EpochReport>,
    /// How the flows of hosts with congestion control went.
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<TransportReport>,
    /// With faults: whether answers that are called complete are right.
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<Audit>,
}

#[derive(Serialize)]
struct TopologyDocument {
    name: String,
    switches: usize,
    edge_switches: usize,
    links: usize,
    hosts: usize,
    diameter_links: u32,
}

impl Sim {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let format = self.tables.clone().format(json)?;
        let shape: Shape = self.topology.parse().map_err(|e| Failure::Usage(format!("--topology: {e}")))?;
        let programs = self.programs.or_networked()?;
        answer_frequencies(&self.frequency, &programs)?;
        let setup = self.setup(&shape, programs)?;
        #[cfg(feature = "control")]
        let listener = page::listener(&self.page)?;
        let started = Instant::now();
        let mut simulation = Simulation::new(&setup).map_err(failure)?;
        output::say(&format!(
            "{} switches, {} of them with hosts, {} links, {} hosts. Every packet is a real one, and goes through real switches …",
            setup.topology.switches().len(),
            setup.topology.edges().len(),
            setup.topology.links().len(),
            setup.topology.hosts().len(),
        ));
        signals::end(signals::clear_line).map_err(Failure::failed)?;
        #[cfg(feature = "control")]
        let mut archives = self.archive.begin(&setup.programs)?;
        #[cfg(feature = "control")]
        let live = page::SimPage::serve(listener, &self.page, shape.to_string(), (&setup, &simulation))?;
        let mut number = 0;
        let wait = || {
            #[cfg(feature = "control")]
            live.wait();
        };
        let epochs = self.epochs(&mut simulation, &setup, wait, |_simulation, reports| {
            #[cfg(feature = "control")]
            {
                archives.take(&_simulation.histories())?;
                live.passed(reports);
            }
            let mut is_read = true;
            for report in reports.iter().filter(|_| self.each) {
                number += 1;
                is_read &= output::next_page(&format, report, |report| tables(slice::from_ref(report)), number)?;
            }
            Ok(is_read)
        })?;
        #[cfg(feature = "control")]
        archives.close()?;
        if !self.each {
            let document = document(&shape, &setup, &simulation, epochs, started.elapsed());
            output::page(&format, &document, page)?;
        }
        #[cfg(feature = "control")]
        live.stay();
        Ok(())
    }

    /// Whether a page is asked for.
    fn is_watched(&self) -> bool {
        #[cfg(feature = "control")]
        return self.page.is_asked_for();
        #[cfg(not(feature = "control"))]
        return false;
    }

    fn setup(&self, shape: &Shape, programs: Vec<ProgramConfig>) -> Result<Setup, Failure> {
        let nanos = |length: Length| Nanos::try_from(length.0.as_nanos()).unwrap_or(Nanos::MAX);
        let check = |name: &str, length: Length, min: u64, max: u64| {
            let right = |length: u64| humantime::format_duration(Duration::from_nanos(length)).to_string();
            let wrong = || Failure::Usage(format!("--{name} {length}: {} to {}", right(min), right(max)));
            (min..=max).contains(&nanos(length)).then(|| nanos(length)).ok_or_else(wrong)
        };
        let rate = match self.rate.map(|limit| limit.bits_per_second) {
            Some(None) => return Err(Failure::Usage("--rate: bits per second, such as 40Gbps".into())),
            Some(rate) => rate,
            None => None,
        };
        if self.losses.iter().filter(|loss| matches!(loss, Loss::Flows(_))).count() > 1 {
            return Err(Failure::Usage("--loss flows=…: once at most".into()));
        }
        const SECOND: u64 = 1_000_000_000;
        let mut setup = Setup {
            topology: shape.build().map_err(|e| Failure::Usage(format!("--topology: {e}")))?,
            programs,
            everywhere: self.everywhere,
            workload: Workload { seed: self.seed.unwrap_or(self.workload.seed), ..self.workload.clone() },
            losses: self.losses.clone(),
            epoch: check("epoch", self.epoch, SECOND / 1000, 60 * SECOND)?,
            transit: check("transit", self.transit, 0, 30 * SECOND)?,
            latency: check("latency", self.latency, 0, 30 * SECOND)?,
            shifts: !self.fixed,
            delay: check("delay", self.delay, 100, SECOND)?,
            rate,
            queue_timeout: check("queue-timeout", self.queue_timeout, 0, SECOND)?,
            faults: self.faults.clone(),
            transport: self.transport.clone(),
            wait: None,
            patterns: self.frequency.clone(),
            watched: self.is_watched(),
            fabric: Fabric { telemetry_header: self.telemetry_header, own: self.switches.clone(), ..Fabric::default() },
        };
        if let Some(file) = &self.own {
            setup.fabric.own.splice(..0, OwnSettings::load(file)?);
        }
        Ok(setup)
    }

    /// `wait` is called before each epoch, and `passed` after it, with the reports that have become final; at its
    /// false the simulation ends.
    fn epochs(
        &self,
        simulation: &mut Simulation,
        setup: &Setup,
        wait: impl Fn(),
        mut passed: impl FnMut(&Simulation, &[EpochReport]) -> Result<bool, Failure>,
    ) -> Result<Vec<EpochReport>, Failure> {
        let epochs = self.epochs.unwrap_or(if setup.watched { WATCHED_EPOCHS } else { EPOCHS });
        let progress = ProgressBar::new(epochs.into()).with_style(
            ProgressStyle::with_template("{bar:40} {pos} of {len} epochs, {eta} to go")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        let mut reports = Vec::new();
        for _ in 0..epochs {
            wait();
            let before = reports.len();
            reports.extend(simulation.epoch(&setup.workload, setup.victims()));
            if setup.faults.is_empty() && !passed(simulation, &reports[before..])? {
                progress.finish_and_clear();
                return Ok(reports);
            }
            progress.inc(1);
        }
        let before = reports.len();
        reports.extend(simulation.finish());
        passed(simulation, &reports[before..])?;
        progress.finish_and_clear();
        Ok(reports)
    }
}

fn failure(error: SimError) -> Failure {
    match error {
        SimError::Assemble(error) => error.into(),
        error => Failure::Usage(error.to_string()),
    }
}

fn document(
    shape: &Shape,
    setup: &Setup,
    simulation: &Simulation,
    epochs: Vec<EpochReport>,
    took: Duration,
) -> Document {
    let network = simulation.network();
    let topology = network.topology();
    let sum = |count: fn(&EpochReport) -> u64| epochs.iter().map(count).sum();
    Document {
        topology: TopologyDocument {
            name: shape.to_string(),
            switches: topology.switches().len(),
            edge_switches: topology.edges().len(),
            links: topology.links().len(),
            hosts: topology.hosts().len(),
            diameter_links: topology.diameter(),
        },
        workload: setup.workload.to_string(),
        losses: setup.losses.iter().map(ToString::to_string).collect(),
        faults: setup.faults.iter().map(ToString::to_string).collect(),
        switch_settings: setup.fabric.own.iter().map(ToString::to_string).collect(),
        telemetry_header: setup.fabric.telemetry_header,
        epoch_ns: setup.epoch,
        transit_ns: setup.transit,
        seconds: took.as_secs_f64(),
        sent_packets: sum(|epoch| epoch.sent_packets),
        delivered_packets: sum(|epoch| epoch.delivered_packets),
        lost_packets: sum(|epoch| epoch.lost_packets),
        doubled_packets: sum(|epoch| epoch.doubled_packets),
        switched_packets: network.hops(),
        switched_packets_per_second: network.hops() as f64 / took.as_secs_f64(),
        shims_at_hosts: network.shims_at_hosts(),
        epochs,
        transport: network.transport(),
        audit: simulation.audit(),
    }
}

fn page(document: &Document) -> Page {
    let head = format!(
        "{}, {}: {} packets sent, {} delivered, {} lost. The switches took in {} in {:.1} s: {:.2} M packets/s.",
        document.topology.name,
        document.workload,
        output::grouped(document.sent_packets),
        output::grouped(document.delivered_packets),
        output::grouped(document.lost_packets),
        output::grouped(document.switched_packets),
        document.seconds,
        document.switched_packets_per_second / 1e6,
    );
    let tables = tables(&document.epochs);
    let transport = document.transport.as_ref().map(transport::page).unwrap_or_default();
    let audit = document.audit.as_ref().filter(|audit| audit.epochs > 0);
    Page::default().text(head).and(transport).and(tables).text(audit.map(audit_text).unwrap_or_default())
}

/// Whether programs said more than they knew.
fn audit_text(audit: &Audit) -> String {
    let Audit { epochs, complete_epochs, wrong_epochs, incomplete, gaps, exact_flows, miscalled_flows } = audit;
    let mut text = format!(
        "\nAfter the last record {complete_epochs} of {epochs} epochs are called complete, and {} of these are wrong.\n\
         {exact_flows} losses of flows are called exact, and {miscalled_flows} of these are wrong.\n",
        wrong_epochs.len()
    );
    incomplete.iter().for_each(|(reason, epochs)| text += &format!("  {epochs} not complete: {reason}\n"));
    gaps.iter().for_each(|(kind, epochs)| text += &format!("  {epochs} with the gap {kind}\n"));
    text
}

/// The tables, which are the same for every run of a seed.
fn tables(epochs: &[EpochReport]) -> Page {
    let names: BTreeSet<&String> = epochs.iter().flat_map(|epoch| epoch.programs.keys()).collect();
    names.into_iter().fold(
        Page::default().text("The truth, as hosts sent and received:").table("truth", truth_table(epochs)),
        |page, name| {
            let reports: Vec<_> = epochs.iter().filter_map(|epoch| Some((epoch, epoch.programs.get(name)?))).collect();
            let measured: Vec<_> = reports.iter().filter_map(|(epoch, report)| measured(epoch, report)).collect();
            let attention = match measured[..] {
                [] => Page::default(),
                _ => Page::default()
                    .text(format!("{name}, what it measured with, and what it found:"))
                    .table("attention", attention_table(&measured, None, true)),
            };
            let answers = attention.text(format!("{name}, its answers beside the truth:"));
            let answers = answers.table("answers", answers::table(&reports));
            page.and(answers.and(answers::frequencies(name, &reports)).of(name))
        },
    )
}

fn measured(epoch: &EpochReport, report: &ProgramReport) -> Option<EpochAttention> {
    let Measured { state, parameters, decided: why } = report.measured.clone()?;
    Some(EpochAttention {
        epoch: Epoch { number: epoch.epoch, ..Epoch::default() },
        state,
        parameters,
        why,
        ..EpochAttention::default()
    })
}

fn truth_table(epochs: &[EpochReport]) -> Table {
    let busiest = |losses: &[LostAt]| {
        let max = losses.iter().max_by_key(|at| at.packets);
        max.map_or_else(String::new, |at| match &at.towards {
            Some(towards) => format!("{} → {towards}", at.switch),
            None => at.switch.clone(),
        })
    };
    let row = |epoch: &EpochReport| {
        row![
            Cell::plain(epoch.epoch),
            epoch.flows,
            epoch.sent_packets,
            epoch.delivered_packets,
            epoch.lost_packets,
            epoch.victim_flows,
            busiest(&epoch.losses),
        ]
    };
    let columns = [
        ">epoch",
        ">flows",
        ">sent|sent_packets",
        ">delivered|delivered_packets",
        ">lost|lost_packets",
        ">flows with losses|victim_flows",
        "most of them at|most_lost_at",
    ];
    Table::new(columns, epochs.iter().map(row))
}

#[cfg(test)]
mod tests;
