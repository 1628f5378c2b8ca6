//! ChameleMon's Figure 11: six tasks against memory (appendix C).
//!
//! The paper's CAIDA traces may not be passed on; ours are the two halves of an `isp-scaled`
//! workload, each with the paper's number of packets and about its number of flows. A KB has 1024
//! bytes, as in the authors' code. Competitors pay for flow IDs of 32 bits, as there; weir pays for
//! its own of 104 bits, and in a second curve for 32.

mod epochs;
mod paper;
mod runs;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use epochs::Epochs;
pub use runs::Algorithm;
use runs::{MEMORY, Runs, Task};
use weir::program::chamelemon::decoder::Analysis;
use weir::trace::Keys;

use crate::tower_fermat::{Layout, TowerFermat};

use super::plot::{Axis, Curve, Figure, Panel, Point, Source};

pub fn run(out: &Path, quick: bool, only: &[Algorithm]) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    let start = Instant::now();
    let algorithms = if only.is_empty() { &Algorithm::ALL[..] } else { only };
    let runs = Runs::new(quick, algorithms, |what| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64()));
    for task in Task::ALL {
        let figure = figure(&runs, task, quick);
        figure.save(out)?;
        eprintln!("{:6.1} s  {}", start.elapsed().as_secs_f64(), out.join(figure.name).with_extension("svg").display());
    }
    print!("{}", text(&runs));
    for kilobytes in [MEMORY[0], MEMORY[MEMORY.len() - 1]] {
        eprintln!("an epoch's answers from {kilobytes} KB take {:.1} ms", answer_ms(kilobytes, quick));
    }
    Ok(())
}

/// Milliseconds from one epoch's sketches to all six answers but for other epochs, the median of
/// some.
fn answer_ms(kilobytes: usize, quick: bool) -> f64 {
    let epochs = Epochs::new(epochs::workload(1, Keys::Random, quick));
    let sketch = epochs.both[0].feed(TowerFermat::new(kilobytes << 10, Layout::PAPER, 1), &epochs.keys);
    let once = || {
        let sketches = sketch.analysis().sketches().clone();
        let start = Instant::now();
        let analysis = Analysis::new(sketches);
        let answers = (analysis.heavy_hitters(0), analysis.cardinality(), analysis.distribution());
        let entropy = answers.2.as_ref().map(|distribution| distribution.entropy_bits());
        let time = start.elapsed();
        std::hint::black_box((answers, entropy));
        time
    };
    let mut times: Vec<_> = (0..15).map(|_| once()).collect();
    times.sort_unstable();
    1e3 * times[times.len() / 2].as_secs_f64()
}

struct Look {
    name: &'static str,
    title: &'static str,
    y: Axis,
    /// What a value is multiplied by.
    unit: f64,
}

fn look(task: Task) -> Look {
    let score = || Axis::new("F1 score (%)", "f1_percent").range(0.0, 100.0);
    let error = |label, column| Axis::new(label, column).log();
    let (name, title, y) = match task {
        Task::HeavyHitters => ("chamelemon_fig11a", "heavy hitters", score()),
        Task::FlowSize => {
            ("chamelemon_fig11b", "flow sizes", error("average relative error", "average_relative_error"))
        }
        Task::HeavyChanges => ("chamelemon_fig11c", "heavy changes", score()),
        Task::Distribution => (
            "chamelemon_fig11d",
            "distribution of flow sizes",
            error("weighted mean relative error", "weighted_mean_relative_error"),
        ),
        Task::Entropy => ("chamelemon_fig11e", "entropy", error("relative error", "relative_error")),
        Task::Cardinality => ("chamelemon_fig11f", "number of flows", error("relative error", "relative_error")),
    };
    let unit = if y.log { 1.0 } else { 100.0 };
    Look { name, title, y, unit }
}

/// F1 scores from here on are drawn a second time, enlarged: most algorithms are there, and the
/// paper's numbers.
const GOOD: f64 = 96.0;

fn figure(runs: &Runs, task: Task, quick: bool) -> Figure {
    let Look { name, title, y, unit } = look(task);
    let quick = if quick { " — QUICK, a tenth of the traffic" } else { "" };
    let curves = task.algorithms().iter().flat_map(|&algorithm| {
        let ours = MEMORY.iter().filter_map(|&kb| {
            let t = runs.trials(algorithm, kb, task)?;
            let [y, min, max] = [t.mean, t.min, t.max].map(|value| value * unit);
            Some(Point { x: kb as f64, y, min, max, trials: t.count })
        });
        let (name, color) = (algorithm.name(), algorithm.color());
        let ours = Curve { name: name.to_owned(), color, source: Source::Weir, points: ours.collect() };
        let printed = MEMORY.iter().filter_map(|&kb| Some((kb as f64, paper::printed(task, algorithm, kb)? * unit)));
        let printed = Curve::paper(name, color, printed.collect());
        [ours, printed].into_iter().filter(|curve| !curve.points.is_empty())
    });
    let curves: Vec<_> = curves.collect();
    let is_printed = curves.iter().any(|curve| curve.source == Source::Paper);
    let printed = if is_printed { " Hollow: the numbers in the paper's text, CAIDA." } else { "" };
    let mut panels = vec![Panel { title: String::new(), order: "burst", zoom: None, curves: curves.clone() }];
    if y.range.is_some() {
        "all".clone_into(&mut panels[0].title);
        panels.push(Panel { title: format!("{GOOD} % and more"), zoom: Some((GOOD, 100.0)), order: "burst", curves });
    }
    let [flows, candidates, ..] = runs.flows;
    // The files are named after the part of the figure.
    let part = &name[name.len() - 1..];
    Figure {
        name,
        title: format!("ChameleMon, Figure 11({part}): {title}{quick}"),
        note: format!(
            "Filled: means of {} seeds, bars span them; isp-scaled/burst, epochs of {flows:.0} flows, {candidates:.0} of \
             them with 250 packets or more.{printed} T+F is Tower+Fermat; clients' \
             keys are connections of 20 clients, their ports in a row, all others random. A KB is 1024 bytes.",
            runs.seeds
        ),
        x: Axis::new("memory (KB)", "memory_kb").range(180.0, 620.0),
        y,
        panels,
    }
}

fn text(runs: &Runs) -> String {
    let [flows, candidates, heavy, changes] = runs.flows;
    let mut text = format!(
        "{} seeds of two epochs. An epoch has {flows:.0} flows on average; {candidates:.0} have 250 packets or more, {heavy:.0} more \
         than 500; {changes:.0} change by more than 250.\nMean (range over all trials); the paper's, where its text says it, in brackets.\n",
        runs.seeds
    );
    for task in Task::ALL {
        let Look { title, y, unit, .. } = look(task);
        let header = MEMORY.map(|kb| format!("{:29}", format!("{kb} KB")));
        let header = header.join("");
        write!(text, "\n{title}: {}\n{:24} {}\n", y.label, "", header.trim_end()).expect("a string takes all");
        for &algorithm in task.algorithms() {
            let cell = |kb: usize| {
                let Some(t) = runs.trials(algorithm, kb, task) else { return String::new() };
                let [mean, min, max] = [t.mean, t.min, t.max].map(|value| short(value * unit));
                let printed = paper::printed(task, algorithm, kb).map(|value| format!(" [{}]", short(value * unit)));
                format!("{mean} ({min}–{max}){}", printed.unwrap_or_default())
            };
            let cells = MEMORY.map(|kb| format!("{:29}", cell(kb)));
            writeln!(text, "{:24} {}", algorithm.name(), cells.join("").trim_end()).expect("a string takes all");
        }
    }
    ratios(runs, &mut text);
    text
}

/// Errors of flow sizes as multiples of Tower+Fermat's: all that the paper says of them.
fn ratios(runs: &Runs, text: &mut String) {
    let error = |algorithm| runs.trials(algorithm, MEMORY[0], Task::FlowSize).map(|t| t.mean);
    let Some(ours) = error(Algorithm::TowerFermat) else { return };
    write!(text, "\nerror of flow sizes at {} KB, times Tower+Fermat's [the paper's]:", MEMORY[0])
        .expect("a string takes all");
    for (algorithm, ratio) in paper::SIZE_RATIOS {
        if let Some(error) = error(algorithm) {
            write!(text, " {} {:.2} [{ratio}]", algorithm.name(), error / ours).expect("a string takes all");
        }
    }
    text.push('\n');
}

/// Four significant digits at the most.
fn short(value: f64) -> String {
    if value >= 10.0 { format!("{value:.2}") } else { format!("{:.*}", decimals(value), value) }
}

fn decimals(value: f64) -> usize {
    match value {
        0.1.. => 3,
        0.01.. => 4,
        _ => 5,
    }
}
