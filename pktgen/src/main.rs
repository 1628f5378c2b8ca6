//! Traffic with known truth.

mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Trace(arguments) => trace::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pktgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}
