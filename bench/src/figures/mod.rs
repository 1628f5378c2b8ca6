//! The papers' figures, drawn again.

mod compare;
mod draw;
mod experiment;
mod hashpipe;
mod paper;
mod plot;
mod score;
mod tasks;

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
    /// Run only these algorithms (chamelemon-tasks)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<tasks::Algorithm>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Paper {
    Hashpipe,
    /// Figure 11 of ChameleMon: six tasks
    ChamelemonTasks,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments.paper {
        Paper::Hashpipe => hashpipe::run(&arguments.out, arguments.quick),
        Paper::ChamelemonTasks => tasks::run(&arguments.out, arguments.quick, &arguments.only),
    }
}
