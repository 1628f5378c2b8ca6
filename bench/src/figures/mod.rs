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
    /// The paper whose figures are drawn; without one all
    #[arg(value_enum)]
    paper: Option<Paper>,
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

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Paper {
    Hashpipe,
    /// Figure 11 of ChameleMon: six tasks
    ChamelemonTasks,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let wanted = |paper| arguments.paper.is_none_or(|only| only == paper);
    if wanted(Paper::Hashpipe) {
        hashpipe::run(&arguments.out, arguments.quick)?;
    }
    if wanted(Paper::ChamelemonTasks) {
        tasks::run(&arguments.out, arguments.quick, &arguments.only)?;
    }
    Ok(())
}
