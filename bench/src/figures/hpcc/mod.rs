//! PINT's Figures 7 and 8: HPCC on the feedback of INT and of PINT.

pub mod runs;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use weir::trace::Cdf;

use super::experiment::Trials;
use super::plot::{Axis, Curve, Figure, Panel, Point, Source};
use crate::hpcc::{Picos, Telemetry, Tree};
use runs::{Job, PARTS, Run, ends};

#[derive(clap::Args)]
#[group(id = "hpcc")]
pub struct Options {
    /// Seeds of pint-hpcc, each a run of its own
    #[arg(long, value_name = "SEED", value_delimiter = ',', default_values_t = 1..=3u64)]
    hpcc_seeds: Vec<u64>,
    /// Loads of pint-hpcc in percent; the slowdowns are drawn at 50 alone
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_values_t = LOADS, value_parser = load)]
    hpcc_loads: Vec<u32>,
    /// pint-hpcc, pint-latency, pint-together: the paper's tree of 320 hosts in place of 64; seven times the time
    #[arg(long)]
    pub whole_tree: bool,
}

/// The ways by which utilisation comes to the hosts, with names for tables. INT by its standard has
/// 8 bytes and three values of 4 bytes for each of five hops (§2); HPCC's simulation has 42 bytes
/// in all.
const SCHEMES: [(&str, Telemetry); 5] = [
    ("INT 68 bytes", Telemetry::Int { bytes: 68 }),
    ("INT 42 bytes", Telemetry::Int { bytes: 42 }),
    ("PINT", Telemetry::Pint { one_in: 1 }),
    ("PINT on 1/16", Telemetry::Pint { one_in: 16 }),
    ("PINT on 1/256", Telemetry::Pint { one_in: 256 }),
];
const INT: [usize; 2] = [0, 1];
const PINT: usize = 2;

const WORKLOADS: [(&str, Cdf); 2] = [("web search", Cdf::WebSearch), ("Hadoop", Cdf::Hadoop)];

/// Time in which flows begin. The longest flow takes 2.5 ms alone; at the highest load it takes
/// tens of milliseconds until as many flows end as begin.
const DURATION: Picos = 20_000_000_000;
const DURATION_FULL: Picos = 60_000_000_000;

/// Loads of Figure 7(a) in percent, and the load of all other figures.
const LOADS: [u32; 3] = [30, 50, 70];
const LOAD: u32 = 50;

/// Figure 7(a) at 70 % load, as the text prints it: percent of goodput won.
const PAPER_GAIN: (f64, f64) = (70.0, 71.0);

/// Reads one of [`LOADS`].
fn load(text: &str) -> Result<u32, String> {
    let load = text.parse().ok().filter(|load| LOADS.contains(load));
    load.ok_or_else(|| format!("not one of {LOADS:?}"))
}

pub fn run(out: &Path, quick: bool, options: &Options) -> Result<()> {
    let start = Instant::now();
    let progress = |run: &Run| {
        let Job { sizes, load, telemetry, seed, .. } = run.job;
        let sums = format!("{:.1} Gbit/s of {} long flows, {:?}", run.goodput, run.long_flows, run.totals);
        eprintln!("{:6.1} s  {sizes:?}, {load} %, {telemetry:?}, seed {seed}: {sums}", start.elapsed().as_secs_f64());
    };
    let runs = runs::all(&jobs(quick, options), progress);
    table(out, "pint_hpcc_goodput.csv", &goodputs(&runs)?)?;
    let mut figures = vec![gain(&runs)];
    if options.hpcc_loads.contains(&LOAD) {
        table(out, "pint_hpcc_slowdown.csv", &slowdowns(&runs)?)?;
        figures.push(slowdown(&runs, "pint_hpcc_int", "INT and PINT", &[0, 1, 2]));
        figures.push(slowdown(&runs, "pint_hpcc_share", "PINT on a share of the packets", &[2, 3, 4]));
    }
    for figure in figures {
        let svg = out.join(figure.name).with_extension("svg");
        super::draw::draw(&figure, &svg).with_context(|| format!("drawing {}", svg.display()))?;
        eprintln!("{:6.1} s  {}", start.elapsed().as_secs_f64(), svg.display());
    }
    Ok(())
}

fn jobs(quick: bool, options: &Options) -> Vec<Job> {
    let tree = if options.whole_tree { Tree::PAPER } else { Tree::SMALL };
    let seeds = if quick { &options.hpcc_seeds[..1] } else { &options.hpcc_seeds };
    let mut jobs = Vec::new();
    for &seed in seeds {
        for (_, sizes) in WORKLOADS {
            let job = |load, telemetry| {
                let duration = if load == LOADS[LOADS.len() - 1] { DURATION_FULL } else { DURATION };
                let duration = if quick { duration / 10 } else { duration };
                Job { tree, sizes, load, telemetry, duration, seed, kept: 0 }
            };
            for &load in options.hpcc_loads.iter().filter(|load| **load == LOAD || sizes == Cdf::WebSearch) {
                let schemes = if load == LOAD { &SCHEMES[..] } else { &SCHEMES[..=PINT] };
                jobs.extend(schemes.iter().map(|(_, telemetry)| job(load, *telemetry)));
            }
        }
    }
    jobs
}

/// Writes a table and prints it.
fn table(out: &Path, name: &str, text: &str) -> Result<()> {
    let path = out.join(name);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    print!("{text}");
    Ok(())
}

fn name_of(telemetry: Telemetry) -> &'static str {
    SCHEMES.iter().find(|(_, scheme)| *scheme == telemetry).map_or("", |(name, _)| name)
}

/// Each part of each run at the load of Figures 7(b), 7(c) and 8.
fn slowdowns(runs: &[Run]) -> Result<String> {
    let mut text =
        String::from("workload,load_percent,scheme,seed,bytes_up_to,flows,slowdown_p50,slowdown_p95,slowdown_p99\n");
    for run in runs.iter().filter(|run| run.job.load == LOAD) {
        let Job { sizes, load, telemetry, seed, .. } = run.job;
        for (end, part) in ends(sizes).iter().zip(&run.parts) {
            let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|share| part.quantile(share));
            let (sizes, name) = (sizes.name(), name_of(telemetry));
            writeln!(text, "{sizes},{load},{name},{seed},{end:.0},{},{p50:.3},{p95:.3},{p99:.3}", part.flows())?;
        }
    }
    Ok(text)
}

/// Long flows of web search, by load.
fn goodputs(runs: &[Run]) -> Result<String> {
    let mut text = String::from("load_percent,scheme,seed,flows,goodput_gbit,longest_queue_bytes\n");
    for run in runs.iter().filter(|run| run.job.sizes == Cdf::WebSearch) {
        let Job { load, telemetry, seed, .. } = run.job;
        let (name, queue) = (name_of(telemetry), run.totals.longest_queue);
        writeln!(text, "{load},{name},{seed},{},{:.3},{queue}", run.long_flows, run.goodput)?;
    }
    Ok(text)
}

fn point(x: f64, trials: Trials) -> Point {
    Point { x, y: trials.mean, min: trials.min, max: trials.max, trials: trials.count }
}

/// Figure 7(a): what PINT wins, seed by seed.
fn gain(runs: &[Run]) -> Figure {
    let of = |load, scheme: usize| {
        let wanted = move |run: &&Run| {
            (run.job.sizes, run.job.load, run.job.telemetry) == (Cdf::WebSearch, load, SCHEMES[scheme].1)
        };
        runs.iter().filter(wanted).map(|run| run.goodput)
    };
    let gains = |int| {
        let gains = move |load| {
            let ratios: Vec<_> =
                of(load, PINT).zip(of(load, int)).map(|(pint, int)| 100.0 * (pint / int - 1.0)).collect();
            Some(point(load.into(), Trials::of(&ratios)?))
        };
        LOADS.into_iter().filter_map(gains).collect()
    };
    let names = ["over INT, 68 bytes", "over INT, 42 bytes"];
    let ours = INT.map(|int| Curve { name: names[int].into(), color: int, source: Source::Weir, points: gains(int) });
    let curves = ours.into_iter().chain([Curve::paper(names[0], 0, vec![PAPER_GAIN])]).collect();
    Figure {
        name: "pint_hpcc_goodput",
        title: "PINT: goodput of flows of more than 10 MB won over INT, web search".into(),
        note: "Hollow: the number that the paper prints. Bars: range over the seeds.".into(),
        x: Axis::new("load (%)", "load_percent").range(25.0, 75.0),
        y: Axis::new("goodput won (%)", "gain_percent"),
        panels: vec![Panel { title: String::new(), order: "", zoom: None, curves }],
    }
}

/// Figures 7(b), 7(c) and 8: slowdown by size of the flow, for some of the schemes.
fn slowdown(runs: &[Run], name: &'static str, what: &str, schemes: &[usize]) -> Figure {
    let panel = |(title, sizes): (&str, Cdf)| {
        let curve = |(color, &scheme): (usize, &usize)| {
            let (name, telemetry) = SCHEMES[scheme];
            let wanted = |run: &&Run| (run.job.sizes, run.job.load, run.job.telemetry) == (sizes, LOAD, telemetry);
            let of = |part: usize| {
                let slowdowns: Vec<_> = runs.iter().filter(wanted).map(|run| run.parts[part].quantile(0.95)).collect();
                Some(point((100 * (part + 1) / PARTS) as f64, Trials::of(&slowdowns)?))
            };
            Curve { name: name.into(), color, source: Source::Weir, points: (0..PARTS).filter_map(of).collect() }
        };
        Panel { title: title.into(), order: "", zoom: None, curves: schemes.iter().enumerate().map(curve).collect() }
    };
    Figure {
        name,
        title: format!("PINT: 95th percentile of slowdown under HPCC, {LOAD} % load, {what}"),
        note: "Each point is of a tenth of the flows, which end at 6.7, 20, 30, 50, 73, 200 kB, 1, 2, 5 and 30 MB in web search, and at 325, 400, 500, 600, 700 bytes, 1, 7, 46, 120 kB and 10 MB in Hadoop. Bars: range over the seeds.".into(),
        x: Axis::new("flows up to this size (%)", "flows_percent").range(0.0, 105.0),
        y: Axis::new("slowdown, 95 % of the flows", "slowdown_p95"),
        panels: WORKLOADS.map(panel).into(),
    }
}
