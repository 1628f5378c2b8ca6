//! The papers' figures, drawn again.

mod compare;
mod draw;
mod experiment;
mod hashpipe;
mod network;
mod paper;
mod plot;
mod score;

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;

#[derive(clap::Args)]
pub struct Arguments {
    /// The paper whose figures are drawn
    #[arg(value_enum, default_value_t = Paper::Hashpipe)]
    paper: Paper,
    /// Directory for the CSV and SVG files
    #[arg(long, value_name = "DIR", default_value = "out/figures")]
    out: PathBuf,
    /// A tenth of the packets and one seed: to see that everything works, not for the numbers
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    network: network::Options,
}

#[derive(Clone, Copy, ValueEnum)]
enum Paper {
    Hashpipe,
    /// Figures 7, 8 and 9 of ChameleMon, and those of its appendix E: shifting attention, in the simulated testbed
    ChamelemonNetwork,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments.paper {
        Paper::Hashpipe => hashpipe::run(&arguments.out, arguments.quick),
        Paper::ChamelemonNetwork => network::run(&arguments.out, arguments.quick, &arguments.network),
    }
}
