//! HashPipe's Figures 2, 5, 6, 8, 9, 10, 11 and 12.
//!
//! The paper's trace may not be passed on, so ours is the `isp` workload, which has the number of
//! packets and flows and the heavy flows' sizes of the paper's chunks. In burst order it comes
//! close to the paper; in uniform order every algorithm that makes room for newcomers has an easier
//! task. KB are the paper's: 17.5 bytes a counter, 1000 bytes a KB.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use weir::trace::Order;

use super::experiment::{
    Algorithm, CACHE_K, Experiment, MEMORY, MIDDLE, ORDERS, REPORTED, REPORTED_CURVES, STAGE_CURVES, STAGES, Setup,
};
use super::plot::{Axis, Curve, Figure, Panel};
use super::{compare, paper};

/// A counter in the paper: 13 bytes of five-tuple and 4.5 of count.
const COUNTER_BYTES: f64 = 17.5;

pub fn run(out: &Path, quick: bool) -> Result<()> {
    let start = Instant::now();
    let experiment = Experiment::run(quick, |what| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64()));
    for figure in figures(&experiment) {
        figure.save(out)?;
        eprintln!("{:6.1} s  {}", start.elapsed().as_secs_f64(), out.join(figure.name).with_extension("svg").display());
    }
    let table = compare::table(&experiment);
    fs::write(out.join("hashpipe_comparison.csv"), compare::csv(&table))?;
    if quick {
        eprintln!("the comparison with the authors' simulator needs the whole traces: run without --quick");
    } else {
        print!("{}", compare::text(&table));
    }
    Ok(())
}

fn figures(e: &Experiment) -> Vec<Figure> {
    vec![figure_2(e), figure_5(e), figure_6(e), figure_8(e), figure_9(e), figure_10(e), figure_11(e), figure_12(e)]
}

/// The frame that all figures share: a panel for each order.
fn figure(
    e: &Experiment,
    name: &'static str,
    title: &str,
    axes: (Axis, Axis),
    curves: impl Fn(Order) -> Vec<Curve>,
) -> Figure {
    let quick = if e.quick { " — QUICK, 1 M packets" } else { "" };
    let panel = |order: Order| {
        let how = match order {
            Order::Burst => "packets come in trains",
            Order::Uniform => "packets shuffled",
        };
        Panel { title: format!("isp/{}: {how}", order.name()), order: order.name(), zoom: None, curves: curves(order) }
    };
    Figure {
        name,
        title: format!("{title}{quick}"),
        note: note(e, "50 CAIDA chunks of 10 M packets"),
        x: axes.0,
        y: axes.1,
        panels: ORDERS.map(panel).into(),
    }
}

/// The small print; `chunks` is what the paper's points come from.
fn note(e: &Experiment, chunks: &str) -> String {
    format!(
        "Solid: weir on isp sizes, {} M packets, {} k flows; bars span the seeds where there are several. \
         Hollow: the paper, {chunks}. A counter is 17.5 bytes.",
        e.packets / 1_000_000,
        e.flows / 1000
    )
}

fn memory_axis() -> Axis {
    Axis::new("memory (KB of 1000 bytes)", "memory_kb").range(0.0, 115.0)
}

fn missed_axis() -> Axis {
    Axis::new("false negatives (%)", "false_negative_percent")
}

fn pipe(counters: usize, stages: usize) -> Setup {
    Setup { algorithm: Algorithm::HashPipe, counters, stages }
}

fn missed(e: &Experiment, setup: Setup, order: Order, k: usize) -> Option<super::experiment::Trials> {
    e.trials(setup, order, |outcome| outcome.score(k).map_or(f64::NAN, |s| s.false_negative))
}

/// Our curve of false negatives against memory, and the paper's in the same colour.
fn against_memory(
    e: &Experiment,
    order: Order,
    algorithm: Algorithm,
    k: usize,
    name: &str,
    color: usize,
) -> [Curve; 2] {
    let point = |counters: usize| {
        let setup = Setup { algorithm, counters, stages: STAGES };
        (counters as f64 * COUNTER_BYTES / 1000.0, missed(e, setup, order, k))
    };
    let key = match algorithm {
        Algorithm::HashPipe => "hashpipe",
        Algorithm::HashParallel => "hashparallel",
        Algorithm::SpaceSaving => "space-saving",
        Algorithm::SampleAndHold => "sample-and-hold",
        Algorithm::CountMin => "count-min",
    };
    [Curve::percent(name, color, MEMORY.map(point)), Curve::paper(name, color, paper::memory(key, k))]
}

fn figure_2(e: &Experiment) -> Figure {
    let x = Axis::new("stages d", "stages").range(1.6, 8.4);
    let title = "HashPipe, Figure 2: false negatives against the number of stages";
    figure(e, "hashpipe_fig2", title, (x, missed_axis()), |order| {
        let curves = STAGE_CURVES.into_iter().enumerate().flat_map(|(color, (counters, k))| {
            let name = format!("m = {counters}, k = {k}");
            let ours = (2..=8).map(|d| (d as f64, missed(e, pipe(counters, d), order, k)));
            [Curve::percent(&name, color, ours), Curve::paper(&name, color, paper::stages(counters, k))]
        });
        curves.collect()
    })
}

fn figure_5(e: &Experiment) -> Figure {
    let title = "HashPipe, Figure 5: false negatives against memory (d = 6)";
    figure(e, "hashpipe_fig5", title, (memory_axis(), missed_axis()), |order| {
        let ks = [60, 150, 300].into_iter().enumerate();
        ks.flat_map(|(color, k)| against_memory(e, order, Algorithm::HashPipe, k, &format!("k = {k}"), color)).collect()
    })
}

fn figure_6(e: &Experiment) -> Figure {
    let x = Axis::new("reported heavy flows k", "k").range(0.0, 155.0);
    let title = "HashPipe, Figure 6: false negatives against the number of reported flows (d = 6)";
    figure(e, "hashpipe_fig6", title, (x, missed_axis()), |order| {
        let curves = REPORTED_CURVES.into_iter().enumerate().flat_map(|(color, counters)| {
            let name = format!("m = {counters}");
            let ours = REPORTED.map(|k| (k as f64, missed(e, pipe(counters, STAGES), order, k)));
            [Curve::percent(&name, color, ours), Curve::paper(&name, color, paper::reported(counters))]
        });
        curves.collect()
    })
}

fn figure_8(e: &Experiment) -> Figure {
    let title = "HashPipe, Figure 8: false negatives of HashPipe and of what exists (k = 150)";
    figure(e, "hashpipe_fig8", title, (memory_axis(), missed_axis()), |order| {
        let all = [
            (Algorithm::HashPipe, "HashPipe"),
            (Algorithm::SampleAndHold, "sample and hold"),
            (Algorithm::CountMin, "count-min with cache"),
        ];
        all.into_iter().enumerate().flat_map(|(i, (a, name))| against_memory(e, order, a, CACHE_K, name, i)).collect()
    })
}

fn figure_9(e: &Experiment) -> Figure {
    let x = Axis::new("packets of the flow, at least", "packets").log();
    let y = Axis::new("mean error of the count (%)", "mean_error_percent");
    let title = "HashPipe, Figure 9: error of the counts of large flows (26 KB)";
    let drawn = figure(e, "hashpipe_fig9", title, (x, y), |order| {
        let all = [
            (Algorithm::HashPipe, "HashPipe", "hashpipe"),
            (Algorithm::SampleAndHold, "sample and hold", "sample-and-hold"),
            (Algorithm::CountMin, "count-min with cache", "count-min"),
        ];
        let curves = all.into_iter().enumerate().flat_map(|(color, (algorithm, name, key))| {
            let ours = size_errors(e, Setup { algorithm, ..MIDDLE }, order);
            [Curve::percent(name, color, ours), Curve::paper(name, color, paper::size_error(key))]
        });
        curves.collect()
    });
    Figure { note: note(e, "one CAIDA chunk, whose largest flows are larger"), ..drawn }
}

/// Mean error of the flows up to a rank, against the size at that rank.
fn size_errors(e: &Experiment, setup: Setup, order: Order) -> Vec<(f64, Option<super::experiment::Trials>)> {
    let ranks = [1, 2, 3, 4, 6, 8, 10, 14, 20, 28, 40, 56, 80, 112, 150, 200, 280, 400, 560, 800];
    let point = |rank: usize| {
        // Sizes do not depend on the seed.
        let size = e.runs(setup, order).next()?.outcome.size_errors.get(rank - 1)?.0;
        Some((
            size as f64,
            e.trials(setup, order, |o| o.size_errors.get(rank - 1).map_or(f64::NAN, |&(_, error)| error)),
        ))
    };
    ranks.into_iter().filter_map(point).collect()
}

fn figure_10(e: &Experiment) -> Figure {
    let x = Axis::new("minimum chosen (packets), at least", "minimum_packets").range(0.8, 1000.0).log();
    let y = Axis::new("how often (%)", "at_least_percent").log();
    let title = "HashPipe, Figure 10: the count that is evicted (26 KB, every 100th packet)";
    figure(e, "hashpipe_fig10", title, (x, y), |order| {
        let theirs = paper::minimum();
        let ours = theirs.iter().map(|&(minimum, _)| (minimum, at_least(e, order, minimum as u64)));
        let ours = Curve::percent("HashPipe", 0, ours.collect::<Vec<_>>());
        vec![ours, Curve::paper("HashPipe", 0, theirs)]
    })
}

/// Share of the evicted counts that is at least `minimum`; none where it did not come to that under
/// every seed.
fn at_least(e: &Experiment, order: Order, minimum: u64) -> Option<super::experiment::Trials> {
    let share = |o: &super::score::Outcome| {
        let all: u64 = o.evicted.values().sum();
        o.evicted.range(minimum..).map(|(_, n)| n).sum::<u64>() as f64 / all as f64
    };
    // A logarithmic axis has no place for a zero.
    e.trials(MIDDLE, order, share).filter(|t| t.min > 0.0)
}

fn figure_11(e: &Experiment) -> Figure {
    idealized(e, "hashpipe_fig11", "HashPipe, Figure 11: false negatives against idealized schemes (k = 150)", 150)
}

fn figure_12(e: &Experiment) -> Figure {
    idealized(e, "hashpipe_fig12", "HashPipe, Figure 12: false negatives against idealized schemes (k = 60)", 60)
}

fn idealized(e: &Experiment, name: &'static str, title: &str, k: usize) -> Figure {
    figure(e, name, title, (memory_axis(), missed_axis()), |order| {
        let all = [
            (Algorithm::HashPipe, "HashPipe"),
            (Algorithm::SpaceSaving, "Space-Saving"),
            (Algorithm::HashParallel, "HashParallel"),
        ];
        all.into_iter().enumerate().flat_map(|(i, (a, name))| against_memory(e, order, a, k, name, i)).collect()
    })
}
