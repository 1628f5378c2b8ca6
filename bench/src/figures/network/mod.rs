//! ChameleMon's Figures 7, 8 and 9, and 14 to 19, in the simulated testbed: what its controller
//! makes of the memory.

mod paper;
mod runs;
mod text;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::edges::EdgesReport;

pub use runs::Sweep;
use runs::{Job, ORDERS, PANELS, PERIOD, Point, Run, WORKLOADS};

use super::plot::{self, Axis, Curve, Figure, Panel, Source};

/// Packets that flows are cut to, to see only that everything works.
const QUICK_SCALE: u32 = 200;

/// What is to be drawn.
#[derive(clap::Args)]
#[group(id = "network")]
pub struct Options {
    /// Figures of chamelemon-network
    #[arg(long = "network-figure", value_enum, value_name = "N", value_delimiter = ',')]
    sweeps: Vec<Sweep>,
    /// Workloads of chamelemon-network: dctcp, cache, vl2, hadoop
    #[arg(long = "network-workload", value_name = "NAME", value_delimiter = ',', value_parser = workload)]
    workloads: Vec<usize>,
    /// Orders of chamelemon-network's packets: uniform, burst
    #[arg(long = "network-order", value_name = "NAME", value_delimiter = ',', value_parser = order)]
    orders: Vec<usize>,
    /// Seeds of chamelemon-network, each a run of its own
    #[arg(long = "network-seeds", value_name = "SEED", value_delimiter = ',', default_values_t = 1..=5u64)]
    seeds: Vec<u64>,
    /// chamelemon-network: flows are cut to so many packets, 0 for none; by default those of VL2 to
    /// 20 000
    #[arg(long, value_name = "PACKETS")]
    scale: Option<u32>,
    /// chamelemon-network: Figures 7 and 8 with all ten points, in place of every third one
    #[arg(long)]
    full: bool,
}

fn workload(text: &str) -> Result<usize, String> {
    let found = WORKLOADS.iter().position(|(name, _)| name.eq_ignore_ascii_case(text));
    found.ok_or_else(|| "dctcp, cache, vl2 or hadoop".into())
}

fn order(text: &str) -> Result<usize, String> {
    ORDERS.iter().position(|name| name.eq_ignore_ascii_case(text)).ok_or_else(|| "uniform or burst".into())
}

/// Those that are named, or all.
fn chosen(named: &[usize], all: usize) -> Vec<usize> {
    if named.is_empty() { (0..all).collect() } else { named.to_vec() }
}

pub fn run(out: &Path, quick: bool, options: &Options) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    let start = Instant::now();
    let say = |what: String| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    let sweeps = if options.sweeps.is_empty() { &Sweep::ALL[..] } else { &options.sweeps };
    let (workloads, orders) = (chosen(&options.workloads, WORKLOADS.len()), chosen(&options.orders, ORDERS.len()));
    let scale = if quick { Some(QUICK_SCALE) } else { options.scale };
    let seeds = if quick { &options.seeds[..1] } else { &options.seeds };
    let mut jobs = Vec::new();
    for &workload in &workloads {
        for &order in &orders {
            jobs.extend(
                sweeps.iter().flat_map(|&sweep| seeds.iter().map(move |&seed| Job { workload, order, sweep, seed })),
            );
        }
    }
    let runs = runs::all(&jobs, scale, options.full, say)?;
    for &sweep in sweeps {
        let of_sweep: Vec<_> = runs.iter().filter(|run| run.job.sweep == sweep).collect();
        for figure in figures(sweep, &of_sweep, scale, quick) {
            figure.save(out)?;
            say(out.join(figure.name).with_extension("svg").display().to_string());
        }
    }
    fs::write(out.join("chamelemon_network.csv"), csv(&runs))?;
    print!("{}", text::of(&runs, scale));
    Ok(())
}

/// What is drawn of a report.
type Value = fn(&EdgesReport) -> Option<f64>;

/// A quantity: what it is called in file names and on the axis, whether the axis is logarithmic,
/// its ends where the data do not give them, and its curves.
struct Quantity {
    names: [&'static str; 3],
    label: &'static str,
    column: &'static str,
    log: bool,
    range: Option<(f64, f64)>,
    curves: &'static [(&'static str, Value)],
}

const QUANTITIES: [Quantity; 4] = [
    Quantity {
        names: ["chamelemon_fig7a", "chamelemon_fig8a", "chamelemon_fig9a"],
        label: "buckets an array",
        column: "buckets",
        log: false,
        range: None,
        curves: &[
            ("heavy hitters", |r| Some(r.parameters.partition.hh.into())),
            ("heavy losses", |r| Some(r.parameters.partition.hl.into())),
            ("light losses", |r| Some(r.parameters.partition.ll.into())),
        ],
    },
    Quantity {
        names: ["chamelemon_fig7b", "chamelemon_fig8b", "chamelemon_fig9b"],
        label: "flows, decoded or estimated",
        column: "flows",
        log: false,
        range: None,
        curves: &[
            ("candidates of one switch", |r| r.hh_flows),
            ("heavy losses", |r| r.hl_flows),
            ("sampled light losses", |r| r.ll_flows),
        ],
    },
    Quantity {
        names: ["chamelemon_fig7c", "chamelemon_fig8c", "chamelemon_fig9c"],
        label: "threshold (packets)",
        column: "packets",
        log: true,
        range: None,
        curves: &[
            ("T_h", |r| Some(r.parameters.hh_threshold.max(1).into())),
            ("T_l", |r| Some(r.parameters.hl_threshold.max(1).into())),
        ],
    },
    Quantity {
        names: ["chamelemon_fig7d", "chamelemon_fig8d", "chamelemon_fig9d"],
        label: "sampled light-loss candidates (%)",
        column: "sampled_percent",
        log: false,
        range: Some((0.0, 105.0)),
        curves: &[("sample rate", |r| Some(100.0 * r.sampled_share))],
    },
];

fn figures(sweep: Sweep, runs: &[&Run], scale: Option<u32>, quick: bool) -> Vec<Figure> {
    let figure = |quantity: &Quantity| {
        let alike = runs.chunk_by(|a, b| (a.job.workload, a.job.order) == (b.job.workload, b.job.order));
        let panels: Vec<_> = alike.map(|seeds| panel(seeds, quantity)).collect();
        let points = panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.points);
        let means = match points.map(|point| point.trials).max() {
            Some(seeds @ 2..) => format!("Means of {seeds} seeds, bars span them."),
            _ => "One seed.".into(),
        };
        let cut = cut(scale, runs.iter().any(|run| is_vl2(run)));
        let quick = if quick { " — QUICK" } else { "" };
        let (number, x) = axis(sweep);
        let (log, range) = (quantity.log, quantity.range);
        let y = Axis { log, range, ..Axis::new(quantity.label, quantity.column) };
        let name = quantity.names[sweep as usize];
        // The files are named after the part of the figure.
        let part = &name[name.len() - 1..];
        Figure {
            name,
            title: format!("ChameleMon, Figure {number}({part}): {}{quick}", quantity.label),
            note: format!("weir in the simulated testbed, 10 switches, 8 hosts; {cut}. {means}"),
            x,
            y,
            panels,
        }
    };
    QUANTITIES.iter().map(figure).collect()
}

fn is_vl2(run: &Run) -> bool {
    WORKLOADS[run.job.workload].0 == "VL2"
}

fn cut(scale: Option<u32>, has_vl2: bool) -> String {
    match scale {
        None if has_vl2 => "flows are whole, but VL2's are cut to 20 000 packets".into(),
        None | Some(0) => "flows are whole".into(),
        Some(scale) => format!("flows are cut to {scale} packets"),
    }
}

fn axis(sweep: Sweep) -> (u32, Axis) {
    let axis = |label, column, to| Axis::new(label, column).range(0.0, to);
    match sweep {
        Sweep::Flows => (7, axis("flows (thousands), a tenth of them victims", "kflows", 105.0)),
        Sweep::Victims => (8, axis("victims (%) of 50 000 flows", "victims_percent", 26.0)),
        Sweep::Time => (9, axis("epoch; a change every five", "epoch", 46.0)),
    }
}

/// The runs of one workload in one order, which differ in their seeds.
fn panel(seeds: &[&Run], quantity: &Quantity) -> Panel {
    let point = |number: usize, value: Value| {
        let points: Vec<_> = seeds.iter().filter_map(|run| run.points.get(number)).collect();
        let values: Vec<f64> = points.iter().filter_map(|point| value(&point.report)).collect();
        let [min, max] = [f64::min, f64::max].map(|of| values.iter().copied().reduce(of));
        let y = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Some(plot::Point { x: points.first()?.x, y, min: min?, max: max?, trials: values.len() })
    };
    let length = seeds.iter().map(|run| run.points.len()).max().unwrap_or(0);
    let curve = |(color, &(name, value)): (usize, &(&str, Value))| {
        let points = (0..length).filter_map(|number| point(number, value)).collect();
        Curve { name: name.into(), color, source: Source::Weir, points }
    };
    let name = seeds.first().map_or("", |run| PANELS[run.job.workload][run.job.order]);
    Panel {
        title: name.into(),
        order: name,
        zoom: None,
        curves: quantity.curves.iter().enumerate().map(curve).collect(),
    }
}

/// Epochs from each change of Figure 9 until all is decoded, in the state and with the memory for
/// losses (to a tenth) with which the time until the next change ends.
fn absorbed(points: &[Point]) -> Vec<Option<usize>> {
    let period = |points: &[Point]| {
        let last = &points.last()?.report;
        let hl = last.parameters.partition.hl;
        points.iter().position(|Point { report, .. }| {
            let near = report.parameters.partition.hl.abs_diff(hl) * 10 <= hl;
            report.state == last.state && near && report.is_decoded()
        })
    };
    points.chunks(PERIOD).skip(1).map(period).collect()
}

fn csv(runs: &[Run]) -> String {
    let mut text = String::from(
        "workload,order,seed,figure,x,kflows,victims_percent,state,paper_state,hh_buckets,hl_buckets,ll_buckets,hh_threshold_packets,\
         hl_threshold_packets,sampled_share,hh_flows,hl_flows,ll_flows,load_percent,decoded,victims,found,exact,wrong,settled_epochs\n",
    );
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
    for run in runs {
        for point in &run.points {
            let r = &point.report;
            let losses = r.answers.losses.as_ref().and_then(|losses| losses.losses).unwrap_or_default();
            let Job { workload, order, sweep, seed } = run.job;
            let paper = paper::state(workload, sweep, point.load).map_or("", |state| state.name());
            let fields = [
                WORKLOADS[workload].0.to_string(),
                ORDERS[order].to_string(),
                seed.to_string(),
                (7 + sweep as u32).to_string(),
                point.x.to_string(),
                point.load.0.to_string(),
                point.load.1.to_string(),
                r.state.name().into(),
                paper.into(),
                r.parameters.partition.hh.to_string(),
                r.parameters.partition.hl.to_string(),
                r.parameters.partition.ll.to_string(),
                r.parameters.hh_threshold.to_string(),
                r.parameters.hl_threshold.to_string(),
                format!("{:.5}", r.sampled_share),
                number(r.hh_flows),
                number(r.hl_flows),
                number(r.ll_flows),
                number(r.load.map(|load| 100.0 * load)),
                r.is_decoded().to_string(),
                losses.true_flows.to_string(),
                losses.right_flows.to_string(),
                losses.exact_flows.to_string(),
                losses.wrong_flows.to_string(),
                point.settled.map_or_else(String::new, |epochs| epochs.to_string()),
            ];
            writeln!(text, "{}", fields.join(",")).expect("a string takes all");
        }
    }
    text
}
