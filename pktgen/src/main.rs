//! Traffic with known truth.

mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use weir::cli::manual;

#[derive(Parser)]
#[command(name = "pktgen", version, about = "Traffic with known truth for weir")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a generated workload as a pcap file, and its exact counts beside it
    Trace(trace::Arguments),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man { directory: std::path::PathBuf },
    /// Print the completions of a shell
    Completions { shell: manual::Shell },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Man { directory } => manual::write_pages(Arguments::command(), &directory).map_err(Into::into),
        Command::Completions { shell } => {
            print!("{}", manual::completions(shell, Arguments::command()));
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pktgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}
