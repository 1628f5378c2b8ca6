//! The papers' figures, drawn again.

mod compare;
mod disketch;
pub mod draw;
mod experiment;
mod hashpipe;
mod hpcc;
mod localise;
mod losses;
mod network;
mod paper;
mod pint;
pub mod plot;
mod score;
mod tasks;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ValueEnum;

#[derive(clap::Args)]
pub struct Arguments {
    /// The paper whose figures are drawn; without one all
    #[arg(value_enum)]
    paper: Option<Paper>,
    /// These figures alone (chamelemon-losses)
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', requires = "paper")]
    figure: Vec<losses::Part>,
    /// Most trials for one point; large sketches take fewer (chamelemon-losses, pint-path,
    /// pint-reference, pint-hashes, pint-layers)
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
    /// Directory for the CSV and SVG files
    #[arg(long, value_name = "DIR", default_value = "out/figures")]
    out: PathBuf,
    /// A tenth of the packets and one seed, at most 100 trials: to see that everything works, not
    /// for the numbers
    #[arg(long)]
    quick: bool,
    /// Run only these algorithms (chamelemon-tasks)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<tasks::Algorithm>,
    #[command(flatten)]
    network: network::Options,
    #[command(flatten)]
    hpcc: hpcc::Options,
    #[command(flatten)]
    disketch: disketch::Options,
    #[command(flatten)]
    localise: localise::Options,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Paper {
    Hashpipe,
    /// Figures 4, 5, 6 and 10 of ChameleMon: packet loss detection
    ChamelemonLosses,
    /// Figure 11 of ChameleMon: six tasks
    ChamelemonTasks,
    /// Figures 7, 8 and 9 of ChameleMon, and those of its appendix E: shifting attention, in the
    /// simulated testbed
    ChamelemonNetwork,
    /// Figures 5 and 10 of PINT: packets until the path of a flow is decided
    PintPath,
    /// Figure 9 of PINT: errors of latency quantiles
    PintLatency,
    /// Packets until a path is decided, beside a simulation of PINT's text
    PintReference,
    /// PINT's loop detection (appendix A.4): false alarms, and how soon a loop is reported
    PintLoops,
    /// Figures 7 and 8 of PINT: HPCC on what INT and PINT measure, in a simulated network
    PintHpcc,
    /// Figure 11 of PINT: path, latency and HPCC in 16 bits, beside each of them alone
    PintTogether,
    /// Packets until a path is decided with one and two hashes of 8 bits, for Figure 11 of PINT
    PintHashes,
    /// The search for PINT's layers by bits and lengths of paths; only where it is named
    PintLayers,
    /// Figure 12 of DiSketch: errors of flow sizes against memory
    DisketchFrequency,
    /// Figure 13 of DiSketch: errors of the entropy of flow sizes
    DisketchEntropy,
    /// Figure 14 of DiSketch: errors against unequal memories and loads of one path
    DisketchHeterogeneity,
    /// DiSketch: errors of flows whose path changes in the middle of an epoch
    DisketchPathChange,
    /// Figure 16 of DiSketch: errors by length of the path
    DisketchPathLength,
    /// Hop counters: lost packets that are given to the right link or switch
    Localise,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let wanted = |paper| arguments.paper.is_none_or(|only| only == paper);
    fs::create_dir_all(&arguments.out).with_context(|| format!("creating {}", arguments.out.display()))?;
    if wanted(Paper::Hashpipe) {
        hashpipe::run(&arguments.out, arguments.quick)?;
    }
    if wanted(Paper::ChamelemonLosses) {
        let trials = if arguments.quick { arguments.trials.min(100) } else { arguments.trials };
        losses::run(&arguments.out, &arguments.figure, trials)?;
    }
    if wanted(Paper::ChamelemonTasks) {
        tasks::run(&arguments.out, arguments.quick, &arguments.only)?;
    }
    if wanted(Paper::ChamelemonNetwork) {
        network::run(&arguments.out, arguments.quick, &arguments.network)?;
    }
    if wanted(Paper::PintPath) {
        let trials = if arguments.quick { arguments.trials.min(100) } else { arguments.trials };
        pint::run(&arguments.out, trials as usize)?;
    }
    if wanted(Paper::PintReference) {
        let trials = if arguments.quick { arguments.trials.min(100) } else { arguments.trials };
        pint::reference(&arguments.out, trials as usize)?;
    }
    if arguments.paper == Some(Paper::PintLayers) {
        pint::search(&arguments.out, if arguments.quick { 100 } else { arguments.trials as usize / 40 }.max(1))?;
    }
    if wanted(Paper::PintLatency) {
        pint::latency(&arguments.out, arguments.quick, arguments.hpcc.whole_tree)?;
    }
    if wanted(Paper::PintLoops) {
        pint::loops(&arguments.out, arguments.quick)?;
    }
    if wanted(Paper::PintHpcc) {
        hpcc::run(&arguments.out, arguments.quick, &arguments.hpcc)?;
    }
    if wanted(Paper::PintTogether) {
        pint::together(&arguments.out, arguments.quick, arguments.hpcc.whole_tree)?;
    }
    if wanted(Paper::PintHashes) {
        pint::hashes(&arguments.out, if arguments.quick { 100 } else { arguments.trials as usize / 5 }.max(1))?;
    }
    if wanted(Paper::DisketchFrequency) {
        disketch::frequency(&arguments.out, arguments.quick, &arguments.disketch)?;
    }
    if wanted(Paper::DisketchEntropy) {
        disketch::entropy(&arguments.out, arguments.quick, &arguments.disketch)?;
    }
    if wanted(Paper::DisketchHeterogeneity) {
        disketch::heterogeneity(&arguments.out, arguments.quick, &arguments.disketch)?;
    }
    if wanted(Paper::DisketchPathChange) {
        disketch::path_change(&arguments.out, arguments.quick, &arguments.disketch)?;
    }
    if wanted(Paper::DisketchPathLength) {
        disketch::path_length(&arguments.out, arguments.quick, &arguments.disketch)?;
    }
    if wanted(Paper::Localise) {
        localise::run(&arguments.out, arguments.quick, &arguments.localise)?;
    }
    Ok(())
}
