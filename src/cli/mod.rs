//! The command line: one file for each command.

#[cfg(feature = "control")]
mod archive;
mod budget;
#[cfg(feature = "control")]
mod capture;
mod captures;
mod config;
#[cfg(feature = "control")]
mod controller;
#[cfg(feature = "control")]
mod counts;
mod demo;
mod doctor;
#[cfg(feature = "control")]
mod evict;
pub mod help;
#[cfg(feature = "control")]
mod lab;
mod log;
pub mod manual;
mod measured;
#[cfg(feature = "control")]
mod names;
#[cfg(feature = "control")]
mod epochs;
#[cfg(feature = "control")]
mod notify;
#[cfg(feature = "control")]
mod openapi;
pub mod output;
mod p4;
#[cfg(feature = "control")]
mod page;
#[cfg(feature = "control")]
mod parameters;
#[cfg(feature = "control")]
mod port;
mod register_files;
#[cfg(feature = "control")]
mod registers;
#[cfg(feature = "control")]
mod remote;
#[cfg(feature = "control")]
mod query;
#[cfg(feature = "control")]
mod reload;
mod replay;
#[cfg(feature = "dpdk")]
mod rootless;
#[cfg(feature = "control")]
mod run;
#[cfg(feature = "control")]
pub mod screen;
#[cfg(feature = "control")]
mod show;
pub mod signals;
mod sim;
#[cfg(feature = "control")]
mod stats;
#[cfg(feature = "control")]
mod summary;
#[cfg(feature = "control")]
mod table;
#[cfg(feature = "control")]
mod top;
mod trace;

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::CompleteEnv;

use crate::assemble::{AssembleError, lesser, no_chip, place};
use crate::config::{Config, ConfigError, PortConfig};
use crate::pisa::Placement;
use crate::pisa::hash::HashFamily;
use crate::program::{self, ProgramConfig, ProgramError};

/// A software switch that measures what it forwards.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = help::examples(&[
    "weir demo",
    "weir run --port a=veth:port1 --port b=veth:port2 --program {program}",
    "weir show ports",
    "weir replay FILE.pcap --program {program} --score",
    "weir man run | man -l -",
]))]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print one JSON document instead of a table
    #[arg(long, global = true, help_heading = help::OUTPUT)]
    json: bool,
    /// Say more on stderr; twice for debugging
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = help::OUTPUT)]
    verbose: u8,
    /// How logs are written on stderr
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT", help_heading = help::OUTPUT)]
    log_format: log::Format,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Two switches with a lossy link between them, and the truth beside what they measured: no
    /// root, NIC or huge pages
    Demo(demo::Demo),
    #[cfg(feature = "control")]
    #[command(flatten)]
    Connected(Connected),
    /// Run the same dataplane over captures
    Replay(replay::Replay),
    /// Simulate a network of switches, with what they measure beside what is true
    Sim(sim::Sim),
    /// Show one packet's way through the pipeline: each match, each cell before and after, the
    /// verdict
    Trace(trace::Trace),
    /// Show what the pipeline takes of its hardware target, stage by stage
    ///
    /// What it takes is one set of registers. In this software each core has several, its banks:
    /// the last line says how much memory that is
    Budget(budget::Budget),
    P4(p4::P4),
    /// Check a configuration file, or print its JSON Schema
    Config(config::ConfigCommand),
    /// Say what is missing on this machine, each with the command that mends it
    Doctor(doctor::Doctor),
    /// Print the completions of a shell
    Completions(manual::Completions),
    /// Print a manual page, or write them all
    Man(manual::Man),
    /// A command that this build is without.
    #[cfg(not(feature = "control"))]
    #[command(external_subcommand)]
    Without(Vec<String>),
}

/// Commands that are a switch or a controller, ask one, or describe what it answers.
#[cfg(feature = "control")]
#[derive(Debug, Subcommand)]
enum Connected {
    /// Run the switch
    Run(run::Run),
    /// Collect from the switches of a network, answer for all of it, and decide what they measure
    Controller(controller::Controller),
    /// Ask a running switch
    Show(show::Show),
    /// Ask a running switch about certain flows
    Query(query::Query),
    /// A live network of switches and hosts on this machine, from a topology of `weir sim`: network
    /// namespaces, links, a controller
    Lab(lab::LabCommand),
    /// List the epochs that an archive has: programs, files, time, what is missing
    Archive(archive::ArchiveCommand),
    /// Watch a running switch, full screen
    Top(top::Top),
    /// Count the statistics of a running switch from now on
    Stats(stats::Stats),
    /// Print what a switch or controller counts and measures, for Prometheus
    Metrics(stats::Metrics),
    /// Be a host at a tap port of a running switch
    #[cfg(feature = "dpdk")]
    Shell(rootless::Shell),
    /// Add, remove or change a port of a running switch
    Port(port::Port),
    /// Read and change the tables of a running switch
    Table(table::Table),
    /// Dump the registers of a running switch
    Registers(registers::RegistersCommand),
    /// Have a running switch read its configuration file again
    Reload(reload::Reload),
    /// Remove a switch that left a controller's network for good
    Evict(evict::Evict),
    /// Change what the switches of a controller measure, from an epoch on that all of them know
    Parameters(parameters::ChangeParameters),
    /// Copy packets out of a running switch, as lines or as pcapng
    Capture(capture::Capture),
    /// Print an OpenAPI document of the API of switches and controllers
    Openapi(openapi::OpenApi),
}

#[cfg(feature = "control")]
impl Connected {
    fn run(self, json: bool) -> Result<(), Failure> {
        match self {
            Self::Run(command) => command.run(json),
            Self::Controller(command) => command.run(),
            Self::Show(command) => command.run(json),
            Self::Query(command) => command.run(json),
            Self::Lab(command) => command.run(json),
            Self::Archive(command) => command.run(json),
            Self::Top(command) => command.run(json),
            Self::Stats(command) => command.run(json),
            Self::Metrics(command) => command.run(json),
            #[cfg(feature = "dpdk")]
            Self::Shell(command) => command.run(),
            Self::Port(command) => command.run(json),
            Self::Table(command) => command.run(json),
            Self::Registers(command) => command.run(json),
            Self::Reload(command) => command.run(json),
            Self::Evict(command) => command.run(json),
            Self::Parameters(command) => command.run(json),
            Self::Capture(command) => command.run(json),
            Self::Openapi(command) => command.run(),
        }
    }
}

/// Why a command ended early, by exit code.
#[derive(Debug)]
pub enum Failure {
    /// 1: something went wrong while running.
    Failed(String),
    /// 2: wrong usage or configuration.
    Usage(String),
    /// 3: a threshold that was asked for was missed.
    Missed(String),
}

impl Failure {
    fn failed(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<ProgramError> for Failure {
    fn from(error: ProgramError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<AssembleError> for Failure {
    fn from(error: AssembleError) -> Self {
        match error {
            AssembleError::Randomness(_) => Self::failed(error),
            _ => Self::Usage(error.to_string()),
        }
    }
}

/// Places the pipeline on its target. If it does not fit, the error names the key and its line.
fn placed(config: &Config, file: Option<&Path>) -> Result<Placement, Failure> {
    place(config, &HashFamily::reproducible(0)).map_err(|error| match (error, file) {
        (AssembleError::Config(error), Some(file)) => error.in_file(file).into(),
        (error, _) => error.into(),
    })
}

/// Says that the pipeline fits no chip, where it was to be placed on one, and what would fit.
fn no_chip_text(config: &Config, placement: &Placement) -> Option<String> {
    let why = no_chip(config, placement);
    let chips = why.iter().map(|(target, why)| format!("\n  {target}: {why}"));
    let less = lesser(config, placement);
    let less = less.iter().map(|less| format!("\n  {}: fits {}", less.change, less.targets.join(", ")));
    let would = less.collect::<String>();
    let would = if would.is_empty() { would } else { format!("\nwith less it would fit:{would}") };
    (!why.is_empty()).then(|| format!("fits no chip, and is placed on software:{}{would}", chips.collect::<String>()))
}

/// The name, if a thing of this kind can have it.
#[cfg(feature = "control")]
fn possible_name<'a>(kind: &str, name: &'a str, listed: &str) -> Result<&'a str, Failure> {
    let wrong = || Failure::Usage(format!("no {kind} can be called {name:?}; {listed}"));
    crate::text::is_name(name).then_some(name).ok_or_else(wrong)
}

/// Takes a value of the command line in place of the configuration file's.
#[cfg(feature = "control")]
fn overrule<T: Clone>(value: &mut T, given: &Option<T>) {
    if let Some(given) = given {
        value.clone_from(given);
    }
}

/// The programs of a command, as `--program` gives them.
#[derive(Clone, Debug, Args)]
struct Programs {
    #[arg(
        long = "program",
        value_name = "P[:KEY=VALUE,…]",
        help_heading = help::MEASUREMENT,
        help = help::of_programs("A telemetry program and its parameters; may be given several times"),
        add = help::programs(),
    )]
    programs: Vec<String>,
}

impl Programs {
    fn parse(&self) -> Result<Vec<ProgramConfig>, ConfigError> {
        self.programs.iter().map(|text| text.parse()).collect()
    }

    /// The programs given, or the first that there is, with its default parameters.
    fn or_default(&self) -> Result<Vec<ProgramConfig>, ConfigError> {
        let programs = self.parse()?;
        Ok(if programs.is_empty() { ProgramConfig::defaults().take(1).collect() } else { programs })
    }

    /// The programs given, or the first whose records a controller takes.
    fn or_networked(&self) -> Result<Vec<ProgramConfig>, ConfigError> {
        let programs = self.parse()?;
        Ok(if programs.is_empty() { vec![ProgramConfig::networked()] } else { programs })
    }
}

/// Runs weir with these telemetry programs: parses the command line, runs the command, and turns
/// its end into an exit code.
///
/// ```no_run
/// weir::cli::run(weir::program::Programs::of_weir());
/// ```
pub fn run(programs: program::Programs) -> ExitCode {
    programs.install();
    // Ends the process where a shell asks for completions.
    CompleteEnv::with_factory(Cli::command).var(manual::COMPLETE).complete();
    main(Cli::parse())
}

/// Runs a command and turns its end into an exit code.
fn main(cli: Cli) -> ExitCode {
    output::Style::of_stdout().set();
    log::start(cli.verbose, cli.log_format);
    let json = cli.json;
    let ended = match cli.command {
        Command::Demo(command) => command.run(json),
        #[cfg(feature = "control")]
        Command::Connected(command) => command.run(json),
        Command::Replay(command) => command.run(json),
        Command::Sim(command) => command.run(json),
        Command::Trace(command) => command.run(json),
        Command::Budget(command) => command.run(json),
        Command::P4(command) => command.run(),
        Command::Config(command) => command.run(json),
        Command::Doctor(command) => match command.run(json) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
        #[cfg(not(feature = "control"))]
        Command::Without(words) => Err(without(&words)),
    };
    let (code, message) = match ended {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => (1, message),
        Err(Failure::Usage(message)) => (2, message),
        Err(Failure::Missed(message)) => (3, message),
    };
    log::failed(code, &message);
    ExitCode::from(code)
}

/// A command that is not there, or only in a build with everything.
#[cfg(not(feature = "control"))]
fn without(words: &[String]) -> Failure {
    let command = words.first().map(String::as_str).unwrap_or_default();
    Failure::Usage(format!(
        "{command:?} is no command of this build, which has no live ports, API or controller; weir help lists those \
         that it has, and make build makes one with all"
    ))
}

/// A configuration for commands that have no ports of their own: two in memory.
fn in_memory(programs: Vec<ProgramConfig>) -> Config {
    let port = |name| PortConfig { mtu: 9216, ..PortConfig::new(name, crate::port::Dev::Memory) };
    Config { ports: vec![port("a"), port("b")], programs, ..Config::default() }
}

#[cfg(all(test, feature = "control"))]
mod tests;
