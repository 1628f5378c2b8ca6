//! The command line: one file for each command.

mod budget;
mod capture;
mod captures;
mod config;
mod controller;
mod demo;
mod doctor;
mod evict;
mod log;
pub mod manual;
mod measured;
mod network;
mod notify;
mod output;
mod port;
mod remote;
mod reload;
mod replay;
#[cfg(feature = "dpdk")]
mod rootless;
mod run;
mod show;
mod sim;
mod stats;
mod summary;
mod table;
mod top;
mod trace;

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::assemble::{AssembleError, place};
use crate::config::{Config, ConfigError, PortConfig};
use crate::pisa::Placement;
use crate::pisa::hash::HashFamily;
use crate::program::{self, ProgramConfig, ProgramError};
use crate::text::is_name;

/// A software switch that measures what it forwards.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print one JSON document instead of a table
    #[arg(long, global = true)]
    json: bool,
    /// Say more on stderr; twice for debugging
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// How logs are written on stderr
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: log::Format,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Two virtual hosts, generated traffic and a report with the truth beside it: no root, NIC or
    /// huge pages
    Demo(demo::Demo),
    /// Run the switch
    Run(run::Run),
    /// Collect from the switches of a network, answer for all of it, and decide what they measure
    Controller(controller::Controller),
    /// Run the same dataplane over captures
    Replay(replay::Replay),
    /// Simulate a network of switches, with what they measure beside what is true
    Sim(sim::Sim),
    /// Ask a running switch
    Show(show::Show),
    /// Watch a running switch, full screen
    Top(top::Top),
    /// Count the statistics of a running switch from now on
    Stats(stats::Stats),
    /// Print the totals of a running switch for Prometheus (OpenMetrics, or its own text format)
    Metrics(stats::Metrics),
    /// Be a host at a tap port of a running switch
    #[cfg(feature = "dpdk")]
    Shell(rootless::Shell),
    /// Add, remove or change a port of a running switch
    Port(port::Port),
    /// Read and change the tables of a running switch
    Table(table::Table),
    /// Have a running switch read its configuration file again
    Reload(reload::Reload),
    /// Remove a switch that left a controller's network for good
    Evict(evict::Evict),
    /// Show one packet's way through the pipeline: each match, each cell before and after, the
    /// verdict
    Trace(trace::Trace),
    /// Copy packets out of a running switch, as lines or as pcapng
    Capture(capture::Capture),
    /// Show what the pipeline takes of its hardware target, stage by stage
    Budget(budget::Budget),
    /// Check a configuration file, or print its JSON Schema
    Config(config::ConfigCommand),
    /// Say what is missing on this machine, each with the command that mends it
    Doctor,
    /// Print the completions of a shell
    Completions(manual::Completions),
    /// Print a manual page, or write them all
    Man(manual::Man),
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

/// The name, if a thing of this kind can have it.
fn possible_name<'a>(kind: &str, name: &'a str, listed: &str) -> Result<&'a str, Failure> {
    let wrong = || Failure::Usage(format!("no {kind} can be called {name:?}; {listed}"));
    is_name(name).then_some(name).ok_or_else(wrong)
}

/// Takes a value of the command line in place of the configuration file's.
fn overrule<T: Clone>(value: &mut T, given: &Option<T>) {
    if let Some(given) = given {
        value.clone_from(given);
    }
}

/// The programs of a command, as `--program` gives them.
#[derive(Clone, Debug, Args)]
struct Programs {
    /// A telemetry program and its parameters; may be given several times
    #[arg(long = "program", value_name = "P[:KEY=VALUE,…]")]
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
    main(Cli::parse())
}

/// Runs a command and turns its end into an exit code.
fn main(cli: Cli) -> ExitCode {
    log::start(cli.verbose, cli.log_format);
    let json = cli.json;
    let ended = match cli.command {
        Command::Demo(command) => command.run(json),
        Command::Run(command) => command.run(json),
        Command::Controller(command) => command.run(),
        Command::Replay(command) => command.run(json),
        Command::Sim(command) => command.run(json),
        Command::Show(command) => command.run(json),
        Command::Top(command) => command.run(json),
        Command::Stats(command) => command.run(json),
        Command::Metrics(command) => command.run(json),
        #[cfg(feature = "dpdk")]
        Command::Shell(command) => command.run(),
        Command::Port(command) => command.run(json),
        Command::Table(command) => command.run(json),
        Command::Reload(command) => command.run(json),
        Command::Evict(command) => command.run(json),
        Command::Trace(command) => command.run(json),
        Command::Capture(command) => command.run(json),
        Command::Budget(command) => command.run(json),
        Command::Config(command) => command.run(json),
        Command::Doctor => return doctor::run(json),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
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

/// A configuration for commands that have no ports of their own: two in memory.
fn in_memory(programs: Vec<ProgramConfig>) -> Config {
    let port = |name| PortConfig { mtu: 9216, ..PortConfig::new(name, crate::port::Dev::Memory) };
    Config { ports: vec![port("a"), port("b")], programs, ..Config::default() }
}
