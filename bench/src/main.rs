//! weir's figures and comparisons.

mod baseline;
mod figures;
mod heavy;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "bench", version, about = "weir's figures, micro-benchmarks and comparisons with its peers")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Draw the papers' figures again: our curves with the paper's own points beside them, as CSV and SVG
    Figures(figures::Arguments),
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Figures(arguments) => figures::run(&arguments),
    }
}
