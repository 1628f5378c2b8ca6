//! ChameleMon's Figures 7, 8 and 9, and 14 to 19, in the simulated testbed: what its controller makes of the memory.

mod paper;
mod runs;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use weir::sim::report::ChameleMonReport;

pub use runs::Sweep;
use runs::{PERIOD, Point, Run, WORKLOADS, is_decoded};

use super::plot::{self, Axis, Curve, Figure, Panel, Source};

/// Packets that flows are cut to, to see only that everything works.
const QUICK_SCALE: u32 = 200;

/// What is to be drawn.
#[derive(clap::Args)]
pub struct Options {
    /// Figures of chamelemon-network
    #[arg(long = "network-figure", value_enum, value_name = "N", value_delimiter = ',')]
    sweeps: Vec<Sweep>,
    /// Workloads of chamelemon-network: dctcp, cache, vl2, hadoop
    #[arg(long = "network-workload", value_name = "NAME", value_delimiter = ',', value_parser = workload)]
    workloads: Vec<usize>,
    /// chamelemon-network: flows are cut to so many packets; 0 cuts none, and takes hours
    #[arg(long, value_name = "PACKETS", default_value_t = 5000)]
    scale: u32,
    /// chamelemon-network: Figures 7 and 8 with all ten points, in place of every third one
    #[arg(long)]
    full: bool,
}

fn workload(text: &str) -> Result<usize, String> {
    let found = WORKLOADS.iter().position(|(name, _)| name.eq_ignore_ascii_case(text));
    found.ok_or_else(|| "dctcp, cache, vl2 or hadoop".into())
}

pub fn run(out: &Path, quick: bool, options: &Options) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    let start = Instant::now();
    let say = |what: String| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    let sweeps = if options.sweeps.is_empty() { &Sweep::ALL[..] } else { &options.sweeps };
    let every: Vec<usize> = (0..WORKLOADS.len()).collect();
    let workloads = if options.workloads.is_empty() { &every } else { &options.workloads };
    let scale = if quick { QUICK_SCALE } else { options.scale };
    let runs = runs::all(workloads, sweeps, (scale, options.full), say)?;
    for &sweep in sweeps {
        let of_sweep: Vec<_> = runs.iter().filter(|run| run.sweep == sweep).collect();
        for figure in figures(sweep, &of_sweep, scale, quick) {
            figure.save(out)?;
            say(out.join(figure.name).with_extension("svg").display().to_string());
        }
    }
    fs::write(out.join("chamelemon_network.csv"), csv(&runs))?;
    print!("{}", text(&runs, scale));
    Ok(())
}

/// What is drawn of a report.
type Value = fn(&ChameleMonReport) -> Option<f64>;

/// A quantity: what it is called in file names and on the axis, whether the axis is logarithmic, and its curves.
struct Quantity {
    names: [&'static str; 3],
    label: &'static str,
    column: &'static str,
    log: bool,
    curves: &'static [(&'static str, Value)],
}

const QUANTITIES: [Quantity; 4] = [
    Quantity {
        names: ["chamelemon_fig7a", "chamelemon_fig8a", "chamelemon_fig9a"],
        label: "buckets an array",
        column: "buckets",
        log: false,
        curves: &[
            ("heavy hitters", |r| Some(r.hh_buckets.into())),
            ("heavy losses", |r| Some(r.hl_buckets.into())),
            ("light losses", |r| Some(r.ll_buckets.into())),
        ],
    },
    Quantity {
        names: ["chamelemon_fig7b", "chamelemon_fig8b", "chamelemon_fig9b"],
        label: "flows, decoded or estimated",
        column: "flows",
        log: false,
        curves: &[
            ("heavy-hitter candidates of a switch", |r| r.hh_flows),
            ("heavy losses", |r| r.hl_flows),
            ("sampled light losses", |r| r.ll_flows),
        ],
    },
    Quantity {
        names: ["chamelemon_fig7c", "chamelemon_fig8c", "chamelemon_fig9c"],
        label: "threshold (packets)",
        column: "packets",
        log: true,
        curves: &[
            ("T_h", |r| Some(r.hh_threshold_packets.max(1).into())),
            ("T_l", |r| Some(r.hl_threshold_packets.max(1).into())),
        ],
    },
    Quantity {
        names: ["chamelemon_fig7d", "chamelemon_fig8d", "chamelemon_fig9d"],
        label: "sampled light-loss candidates (%)",
        column: "sampled_percent",
        log: false,
        curves: &[("sample rate", |r| Some(100.0 * r.sampled_share))],
    },
];

fn figures(sweep: Sweep, runs: &[&Run], scale: u32, quick: bool) -> Vec<Figure> {
    let figure = |quantity: &Quantity| {
        let panels: Vec<_> = runs.iter().map(|run| panel(run, quantity)).collect();
        let quick = if quick { " — QUICK" } else { "" };
        let (number, x) = axis(sweep);
        let y = Axis { log: quantity.log, ..Axis::new(quantity.label, quantity.column) };
        let name = quantity.names[sweep as usize];
        // The files are named after the part of the figure.
        let part = &name[name.len() - 1..];
        Figure {
            name,
            title: format!("ChameleMon, Figure {number}({part}): {}{quick}", quantity.label),
            note: format!("weir in the simulated testbed, 10 switches, 8 hosts; {}", cut(scale)),
            x,
            y,
            panels,
        }
    };
    QUANTITIES.iter().map(figure).collect()
}

fn cut(scale: u32) -> String {
    if scale == 0 { "flows are whole".into() } else { format!("flows are cut to {scale} packets") }
}

fn axis(sweep: Sweep) -> (u32, Axis) {
    let axis = |label, column, to| Axis::new(label, column).range(0.0, to);
    match sweep {
        Sweep::Flows => (7, axis("flows (thousands), a tenth of them victims", "kflows", 105.0)),
        Sweep::Victims => (8, axis("victims (%) of 50 000 flows", "victims_percent", 26.0)),
        Sweep::Time => (9, axis("epoch; a change every five", "epoch", 46.0)),
    }
}

fn panel(run: &Run, quantity: &Quantity) -> Panel {
    let curve = |(color, (name, value)): (usize, &(&str, Value))| {
        let point = |point: &Point| {
            let y = value(point.report()?)?;
            Some(plot::Point { x: point.x, y, min: y, max: y, trials: 1 })
        };
        let points = run.points.iter().filter_map(point).collect();
        Curve { name: (*name).into(), color, source: Source::Weir, points }
    };
    let (name, _) = WORKLOADS[run.workload];
    Panel {
        title: name.into(),
        order: name,
        zoom: None,
        curves: quantity.curves.iter().enumerate().map(curve).collect(),
    }
}

/// Epochs from each change of Figure 9 until all is decoded, in the state and with the memory for losses (to a tenth) with which the
/// time until the next change ends.
fn absorbed(points: &[Point]) -> Vec<Option<usize>> {
    let period = |points: &[Point]| {
        let last = points.last()?.report()?;
        points.iter().position(|point| {
            let shifted = point.report().is_some_and(|report| {
                report.state == last.state && report.hl_buckets.abs_diff(last.hl_buckets) * 10 <= last.hl_buckets
            });
            shifted && is_decoded(&point.epoch)
        })
    };
    points.chunks(PERIOD).skip(1).map(period).collect()
}

fn csv(runs: &[Run]) -> String {
    let mut text = String::from(
        "workload,figure,x,kflows,victims_percent,state,paper_state,hh_buckets,hl_buckets,ll_buckets,hh_threshold_packets,\
         hl_threshold_packets,sampled_share,hh_flows,hl_flows,ll_flows,load_percent,decoded,victims,found,exact,wrong,settled_epochs\n",
    );
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
    for run in runs {
        for point in &run.points {
            let Some(r) = point.report() else { continue };
            let losses = r.losses.unwrap_or_default();
            let paper = paper::state(run.workload, run.sweep, point.load).map_or("", |state| state.name());
            let fields = [
                WORKLOADS[run.workload].0.to_string(),
                (7 + run.sweep as u32).to_string(),
                point.x.to_string(),
                point.load.0.to_string(),
                point.load.1.to_string(),
                r.state.name().into(),
                paper.into(),
                r.hh_buckets.to_string(),
                r.hl_buckets.to_string(),
                r.ll_buckets.to_string(),
                r.hh_threshold_packets.to_string(),
                r.hl_threshold_packets.to_string(),
                format!("{:.5}", r.sampled_share),
                number(r.hh_flows),
                number(r.hl_flows),
                number(r.ll_flows),
                number(r.load.map(|load| 100.0 * load)),
                is_decoded(&point.epoch).to_string(),
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

/// The comparison with the paper's text, for people.
fn text(runs: &[Run], scale: u32) -> String {
    let mut text = format!("In the simulated testbed; {}.\n", cut(scale));
    for run in runs {
        let (name, _) = WORKLOADS[run.workload];
        writeln!(text, "\n{name}, Figure {}:", 7 + run.sweep as u32).expect("a string takes all");
        if run.sweep == Sweep::Time {
            let words = |epochs: &Option<usize>| epochs.map_or("not".into(), |epochs| epochs.to_string());
            let ours: Vec<_> = absorbed(&run.points).iter().map(words).collect();
            let theirs = if run.workload == 0 { format!(" (paper: {:?})", paper::ABSORBED) } else { String::new() };
            writeln!(text, "  epochs until each change is absorbed: {}{theirs}", ours.join(", "))
                .expect("a string takes all");
            continue;
        }
        for point in &run.points {
            let Some(r) = point.report() else { continue };
            let theirs = paper::state(run.workload, run.sweep, point.load).map_or("", |state| state.name());
            writeln!(
                text,
                "  {:5} {:8} paper {:8} HH {:4} HL {:4} LL {:4}  T_h {:5} T_l {:5}  sampled {:6.2} %  load {} (paper {})  {}",
                point.x,
                r.state.name(),
                theirs,
                r.hh_buckets,
                r.hl_buckets,
                r.ll_buckets,
                r.hh_threshold_packets,
                r.hl_threshold_packets,
                100.0 * r.sampled_share,
                r.load.map_or("-".into(), |load| format!("{:.0} %", 100.0 * load)),
                paper::load(run.workload, run.sweep).map_or("-".into(), |load| format!("≥ {load} %")),
                if is_decoded(&point.epoch) { "decoded" } else { "NOT DECODED" },
            )
            .expect("a string takes all");
        }
    }
    text
}
