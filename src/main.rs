//! Parses arguments, dispatches, and sets the exit code.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    weir::cli::main(weir::cli::Cli::parse())
}
