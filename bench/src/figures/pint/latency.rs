//! PINT's Figure 9: the error of latency quantiles, against the packets of a flow and the space of
//! a sketch. The latencies are those of flows in the simulated network of Figures 7 and 8.

use std::fmt::Write as _;

use anyhow::Result;
use weir::pisa::hash::HashFamily;
use weir::program::pint::samples::Samples;
use weir::trace::Cdf;

use super::super::experiment::Trials;
use super::super::hpcc::runs::{Job, Run, all};
use super::super::plot::{Axis, Curve, Figure, Panel};
use super::quantiles::{Alone, Told, errors, exact, mean};
use crate::hpcc::{Kept, MAX_HOPS, RANGE, Telemetry, Tree};

/// Seeds, the time in picoseconds in which flows begin, and their load in percent.
const SEEDS: u64 = 5;
const DURATION: u64 = 20_000_000_000;
const LOAD: u32 = 50;

/// Packets of a sample, when they are what changes, and those of the flows. Every flow has the most.
const BY_PACKETS: [usize; 6] = [100, 200, 500, 1000, 2000, 5000];
const MOST: usize = BY_PACKETS[BY_PACKETS.len() - 1];

/// Bytes of a hop's sketch, when they are what changes.
const BY_SPACE: [u32; 5] = [50, 100, 150, 200, 300];

/// Packets of a sample, when the space of the sketch is what changes, as the paper has it.
const PACKETS: usize = 500;

/// Bytes of a sketch, when the packets are what changes: a hundred digests.
const SPACE: u32 = 100;

/// How samples are carried and kept.
struct Scheme {
    name: &'static str,
    bits: u32,
    sketched: bool,
}

const SCHEMES: [Scheme; 4] = [
    Scheme { name: "8 bits", bits: 8, sketched: false },
    Scheme { name: "8 bits, sketch", bits: 8, sketched: true },
    Scheme { name: "4 bits", bits: 4, sketched: false },
    Scheme { name: "4 bits, sketch", bits: 4, sketched: true },
];

const WORKLOADS: [Cdf; 2] = [Cdf::WebSearch, Cdf::Hadoop];

/// The workloads and quantiles that the paper draws.
const PANELS: [(&str, Cdf, f64); 3] = [
    ("web search, tail", Cdf::WebSearch, 0.99),
    ("Hadoop, tail", Cdf::Hadoop, 0.99),
    ("Hadoop, median", Cdf::Hadoop, 0.5),
];

/// The figures, and tables with their names.
pub struct Drawn {
    pub figures: [Figure; 3],
    pub tables: [(&'static str, String); 2],
}

/// Runs the simulations and draws Figure 9. `whole` takes the paper's tree.
pub fn run(quick: bool, whole: bool, progress: impl Fn(&str) + Sync) -> Result<Drawn> {
    let tree = if whole { Tree::PAPER } else { Tree::SMALL };
    let (seeds, duration) = if quick { (1, DURATION / 10) } else { (SEEDS, DURATION) };
    // Each packet has two bytes: one steers the senders, and the other is the latency's.
    let job = |sizes, seed| Job { tree, sizes, load: LOAD, telemetry: Telemetry::Alone, duration, seed, kept: MOST };
    let jobs: Vec<_> = WORKLOADS.iter().flat_map(|sizes| (1..=seeds).map(move |seed| job(*sizes, seed))).collect();
    let say = |run: &Run| {
        let Job { sizes, seed, .. } = run.job;
        progress(&format!("{}, seed {seed}, {} flows kept, {:?}", sizes.name(), run.kept.len(), run.totals));
    };
    let runs = all(&jobs, say);
    let hops = hops(&runs)?;
    let (figures, quantiles) = quantiles(&runs, progress)?;
    Ok(Drawn { figures, tables: [("pint_latency_hops.csv", hops), ("pint_latency.csv", quantiles)] })
}

/// The latencies that occur, by hop.
fn hops(runs: &[Run]) -> Result<String> {
    let mut lines = String::from("workload,hop,ns_p1,ns_p50,ns_p90,ns_p99,ns_max,beyond_codes,packets,flows,seeds\n");
    for sizes in WORKLOADS {
        let runs: Vec<_> = runs.iter().filter(|run| run.job.sizes == sizes).collect();
        let flows = || runs.iter().flat_map(|run| &run.kept);
        for hop in 0..MAX_HOPS {
            let mut all: Vec<_> = flows().flat_map(|kept| &kept.packets).map(|packet| packet.latencies[hop]).collect();
            if all.is_empty() {
                continue;
            }
            let [p1, p50, p90, p99, max] = [0.01, 0.5, 0.9, 0.99, 1.0].map(|rank| exact(&mut all, rank));
            let beyond = all.iter().filter(|latency| **latency > RANGE.to).count();
            let (name, hop, packets, seeds) = (sizes.name(), hop + 1, all.len(), runs.len());
            let flows = flows().count();
            writeln!(lines, "{name},{hop},{p1},{p50},{p90},{p99},{max},{beyond},{packets},{flows},{seeds}")?;
        }
    }
    Ok(lines)
}

/// The flows of a seed, with the codes that their packets carry.
struct Seed<'a> {
    alone: Alone,
    flows: Vec<(&'a Kept, Vec<Told>)>,
}

impl<'a> Seed<'a> {
    fn new(run: &'a Run, bits: u32) -> Self {
        let alone = Alone::new(bits, &HashFamily::reproducible(run.job.seed));
        let flows = run.kept.iter().map(|kept| (kept, alone.told(&kept.packets))).collect();
        Self { alone, flows }
    }

    /// The mean relative error over the flows' hops, `None` without flows.
    fn error(&self, point: &Point, rank: f64, bits: u32) -> Option<f64> {
        let (codes, empty) = (self.alone.codes(), Samples::new(bits, point.space));
        let of_flow = |(kept, told): &(&Kept, Vec<Told>)| {
            let sample = (0..point.packets).map(|number| told[number * point.of / point.packets]);
            errors(&kept.packets[..point.of], sample, codes, rank, &empty)
        };
        mean(self.flows.iter().flat_map(of_flow))
    }
}

/// A point of a curve: a sample of packets, evenly spread over the first `of` packets of a flow. The
/// exact quantile is that of all `of` packets.
struct Point {
    x: f64,
    packets: usize,
    of: usize,
    space: Option<u32>,
}

/// The paper's two rows, and flows of which each packet is in the sample.
const ROWS: [&str; 3] = ["pint_latency_packets", "pint_latency_space", "pint_latency_flows"];

/// The points of a curve in each row.
fn points(sketched: bool) -> [Vec<Point>; 3] {
    let space = |space| sketched.then_some(space);
    let packets = BY_PACKETS.map(|packets| Point { x: packets as f64, packets, of: MOST, space: space(SPACE) });
    let by_space = BY_SPACE.map(|bytes| Point { x: bytes.into(), packets: PACKETS, of: MOST, space: space(bytes) });
    let flows = BY_PACKETS.map(|packets| Point { x: packets as f64, packets, of: packets, space: space(SPACE) });
    [packets.into(), by_space.into(), flows.into()]
}

/// The rows, and their table.
fn quantiles(runs: &[Run], progress: impl Fn(&str)) -> Result<([Figure; 3], String)> {
    let mut lines = String::from(
        "figure,workload,quantile,scheme,packets,of_packets,space_bytes,error_mean,error_min,error_max,seeds\n",
    );
    let mut panels = ROWS.map(|_| Vec::new());
    for (title, sizes, rank) in PANELS {
        let mut curves = ROWS.map(|_| Vec::new());
        for (color, Scheme { name, bits, sketched }) in SCHEMES.iter().enumerate() {
            let seeds: Vec<_> =
                runs.iter().filter(|run| run.job.sizes == sizes).map(|run| Seed::new(run, *bits)).collect();
            for ((figure, curves), points) in ROWS.iter().zip(&mut curves).zip(points(*sketched)) {
                let mut measured = Vec::new();
                for point in points {
                    let errors: Vec<_> = seeds.iter().filter_map(|seed| seed.error(&point, rank, *bits)).collect();
                    let trials = Trials::of(&errors);
                    let Point { x, packets, of, space } = point;
                    if let Some(Trials { mean, min, max, count }) = &trials {
                        let space = space.map_or_else(String::new, |space| space.to_string());
                        let (sizes, name) = (sizes.name(), name.replace(", ", " "));
                        write!(lines, "{figure},{sizes},{rank},{name},{packets},{of},{space},")?;
                        writeln!(lines, "{mean:.4},{min:.4},{max:.4},{count}")?;
                    }
                    measured.push((x, trials));
                }
                curves.push(Curve::percent(name, color, measured));
            }
            progress(&format!("{title}, {name}"));
        }
        for (panels, curves) in panels.iter_mut().zip(curves) {
            panels.push(Panel { title: title.into(), order: "", zoom: None, curves });
        }
    }
    let packets = |of| Axis::new(of, "packets").log();
    let space = Axis::new("bytes of a hop's sketch", "space_bytes").range(0.0, 320.0);
    let [by_packets, by_space, flows] = panels;
    let figures = [
        figure(ROWS[0], "sketches of 100 bytes", packets("packets of the sample"), by_packets),
        figure(ROWS[1], "samples of 500 packets", space, by_space),
        figure(ROWS[2], "all packets of a flow", packets("packets of the flow"), flows),
    ];
    Ok((figures, lines))
}

fn figure(name: &'static str, title: &str, x: Axis, panels: Vec<Panel>) -> Figure {
    Figure {
        name,
        title: format!("PINT: error of latency quantiles, {title}"),
        note: format!(
            "Flows over five switches under HPCC at {LOAD} % load; mean over hops and flows, bars: range over the seeds. The paper prints no numbers."
        ),
        x,
        y: Axis::new("relative error (%)", "error_percent"),
        panels,
    }
}
