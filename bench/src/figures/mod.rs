//! The papers' figures, drawn again.

mod chamelemon;
mod compare;
mod draw;
mod experiment;
mod hashpipe;
mod paper;
mod plot;
mod score;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ValueEnum;

#[derive(clap::Args)]
pub struct Arguments {
    /// The paper whose figures are drawn; without one all
    #[arg(value_enum)]
    paper: Option<Paper>,
    /// Of ChameleMon's figures these alone, by their names
    #[arg(long, value_enum, value_delimiter = ',', requires = "paper")]
    only: Vec<chamelemon::Part>,
    /// Most trials for one point of ChameleMon's figures; large sketches take fewer
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
    /// Directory for the CSV and SVG files
    #[arg(long, value_name = "DIR", default_value = "out/figures")]
    out: PathBuf,
    /// A tenth of the packets and one seed, at most 100 trials: to see that everything works, not for the numbers
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Paper {
    Hashpipe,
    Chamelemon,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let wanted = |paper| arguments.paper.is_none_or(|only| only == paper);
    fs::create_dir_all(&arguments.out).with_context(|| format!("creating {}", arguments.out.display()))?;
    if wanted(Paper::Hashpipe) {
        hashpipe::run(&arguments.out, arguments.quick)?;
    }
    if wanted(Paper::Chamelemon) {
        let trials = if arguments.quick { arguments.trials.min(100) } else { arguments.trials };
        chamelemon::run(&arguments.out, &arguments.only, trials)?;
    }
    Ok(())
}
