//! ChameleMon's Figures 4, 5, 6 and 10, and what its FermatSketch does beyond them.
//!
//! The paper's CAIDA trace may not be passed on; sizes are those of `isp` with as many flows and
//! packets, and which packets a victim loses is drawn. Sketches with random IDs and hash functions
//! are as good as any trace, since what decodes depends on nothing else.

mod false_flows;
mod few;
mod fingerprint;
mod loss;
mod reference;
mod search;
mod sketch;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::plot::Figure;

/// What can be drawn alone.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Memory and time against victim flows
    Fig4,
    /// Memory and time against the loss rate
    Fig5,
    /// Memory and time against flows
    Fig6,
    /// Fingerprints
    Fig10,
    /// Flows named that are not there
    FalseFlows,
    /// One small array more; not drawn unless asked for
    Small,
    /// Hash functions; not drawn unless asked for
    Hashing,
}

const DEFAULT: [Part; 5] = [Part::Fig4, Part::Fig5, Part::Fig6, Part::Fig10, Part::FalseFlows];

pub fn run(out: &Path, only: &[Part], trials: u32) -> Result<()> {
    let start = Instant::now();
    let progress = move |what: &str| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    let mut losses = loss::Losses::new(trials, progress);
    let mut compared = String::from(loss::COMPARISON);
    let [victims, rate, flows] = loss::sweeps();
    for &part in if only.is_empty() { &DEFAULT[..] } else { only } {
        let mut sweep = |sweep: &loss::Sweep| {
            let (figures, lines) = loss::figures(sweep, &mut losses);
            compared += &lines;
            figures
        };
        let figures = match part {
            Part::Fig4 => sweep(&victims),
            Part::Fig5 => sweep(&rate),
            Part::Fig6 => sweep(&flows),
            Part::Fig10 => {
                let (figures, lines) = fingerprint::figures(trials, progress);
                table(out, "chamelemon_fingerprints.csv", &lines)?;
                figures
            }
            Part::FalseFlows => {
                let (figure, lines) = false_flows::figure(trials, progress);
                table(out, "chamelemon_false_flows_counted.csv", &lines)?;
                vec![figure]
            }
            Part::Small => vec![few::small(trials, progress)],
            Part::Hashing => vec![few::hashing(trials, progress)],
        };
        save(&figures, out, progress)?;
    }
    if compared != loss::COMPARISON {
        table(out, "chamelemon_losses.csv", &losses.csv())?;
        table(out, "chamelemon_losses_comparison.csv", &compared)?;
    }
    Ok(())
}

fn save(figures: &[Figure], out: &Path, progress: impl Fn(&str)) -> Result<()> {
    for figure in figures {
        figure.save(out)?;
        progress(&out.join(figure.name).with_extension("svg").display().to_string());
    }
    Ok(())
}

/// Writes a table and prints it.
fn table(out: &Path, name: &str, text: &str) -> Result<()> {
    let path = out.join(name);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    print!("{text}");
    Ok(())
}
