//! PINT's Figure 11: three queries in 16 bits, beside each of them alone.

use std::fmt::Write as _;

use anyhow::Result;
use weir::pisa::hash::HashFamily;
use weir::program::pint::dataplane::Code;
use weir::program::pint::encoding::Layers;
use weir::program::pint::inference::{Inference, Universe};
use weir::program::pint::query::Value;
use weir::program::pint::samples::Samples;
use weir::trace::Cdf;

use super::super::experiment::Trials;
use super::super::hpcc::runs::{Job, PARTS, Run, all, ends};
use super::super::plot::{Axis, Curve, Figure, Panel, Point, Source};
use super::quantiles::{Alone, errors, mean};
use crate::hpcc::{Carried, MAX_HOPS, Shared, Telemetry, Tree, identifiers, query};

/// Seeds, the time in picoseconds in which flows begin, and their load in percent.
const SEEDS: u64 = 5;
const DURATION: u64 = 20_000_000_000;
const LOAD: u32 = 50;

/// The workload of the figure.
const SIZES: Cdf = Cdf::Hadoop;

/// The paper's numbers in percent: what short and long flows lose, what the median's error gains,
/// and the packets of a path.
const PAPER_SHORT: f64 = 6.6;
const PAPER_LONG: f64 = 0.0;
const PAPER_ERROR: f64 = 0.7;
const PAPER_PACKETS: f64 = 0.5;

/// Packets of a flow from the beginning of one run to that of the next, and runs of a flow.
const STEP: usize = 50;
const STARTS: usize = 10;

/// Packets of a flow from which its median latencies are estimated, and those that are kept.
const PACKETS: [usize; 4] = [100, 200, 500, 1000];
const KEPT: usize = PACKETS[PACKETS.len() - 1];
const _: () = assert!(STARTS * STEP < KEPT);

/// Shares of flows whose slowdowns are compared.
const SHARES: [f64; 3] = [0.5, 0.95, 0.99];

/// The figures, and tables with their names.
pub struct Drawn {
    pub figures: Vec<Figure>,
    pub tables: [(&'static str, String); 3],
}

/// Runs the simulations and compares. `whole` takes the paper's tree.
pub fn run(quick: bool, whole: bool, progress: impl Fn(&str) + Sync) -> Result<Drawn> {
    let tree = if whole { Tree::PAPER } else { Tree::SMALL };
    let (seeds, duration) = if quick { (1, DURATION / 10) } else { (SEEDS, DURATION) };
    let job = |(seed, telemetry)| {
        let kept = if telemetry == Telemetry::Shared { KEPT } else { 0 };
        Job { tree, sizes: SIZES, load: LOAD, telemetry, duration, seed, kept }
    };
    let jobs: Vec<_> = (1..=seeds).flat_map(|seed| [Telemetry::Alone, Telemetry::Shared].map(|t| (seed, t))).collect();
    let jobs: Vec<_> = jobs.into_iter().map(job).collect();
    let runs = all(&jobs, |run| progress(&format!("{:?}, seed {}, {:?}", run.job.telemetry, run.job.seed, run.totals)));
    let pairs: Vec<[&Run; 2]> = runs.chunks_exact(2).map(|pair| [&pair[0], &pair[1]]).collect();
    let (control, control_table) = control(&pairs)?;
    let (latency, latency_table) = latency(&pairs)?;
    progress("latencies");
    let (path, path_table) = path(&pairs)?;
    Ok(Drawn {
        figures: vec![control, latency, path],
        tables: [
            ("pint_together_control.csv", control_table),
            ("pint_together_latency.csv", latency_table),
            ("pint_together_path.csv", path_table),
        ],
    })
}

/// Slowdowns of flows by size: together over alone.
fn control(pairs: &[[&Run; 2]]) -> Result<(Figure, String)> {
    let mut lines =
        String::from("bytes_up_to,share_of_flows,alone,together,slower_percent,slower_min,slower_max,seeds\n");
    let mut curves = Vec::new();
    for (color, share) in SHARES.into_iter().enumerate() {
        let mut points = Vec::new();
        for (part, end) in ends(SIZES).iter().enumerate() {
            let slowdowns = |which: usize| pairs.iter().map(move |pair| pair[which].parts[part].quantile(share));
            let slower: Vec<_> =
                slowdowns(0).zip(slowdowns(1)).map(|(alone, both)| 100.0 * (both / alone - 1.0)).collect();
            let mean = |which| slowdowns(which).sum::<f64>() / pairs.len() as f64;
            let Some(Trials { mean: slower, min, max, count }) = Trials::of(&slower) else { continue };
            let (alone, both) = (mean(0), mean(1));
            writeln!(lines, "{end:.0},{share},{alone:.3},{both:.3},{slower:.2},{min:.2},{max:.2},{count}")?;
            points.push(Point { x: (100 * (part + 1) / PARTS) as f64, y: slower, min, max, trials: count });
        }
        curves.push(Curve { name: format!("{} % of the flows", 100.0 * share), color, source: Source::Weir, points });
    }
    writeln!(lines, "short,,,,{PAPER_SHORT},,,paper\nlong,,,,{PAPER_LONG},,,paper")?;
    let paper = vec![(100.0 / PARTS as f64, PAPER_SHORT), (100.0, PAPER_LONG)];
    curves.push(Curve::paper(&curves[1].name.clone(), 1, paper));
    let figure = Figure {
        name: "pint_together_control",
        title: format!("PINT: HPCC on a sixteenth of the packets, beside path and latency; Hadoop, {LOAD} % load"),
        note: "The slowdown that 50, 95 and 99 % of the flows do not exceed, by that with the utilisation on all packets. Each point is of a tenth of the flows, by size. Hollow: the paper's number for short flows, and that long ones lose nothing. Bars: range over the seeds.".into(),
        x: Axis::new("flows up to this size (%)", "flows_percent").range(0.0, 105.0),
        y: Axis::new("slower than alone (%)", "slower_percent").range(-5.0, 20.0),
        panels: vec![Panel { title: String::new(), order: "", zoom: None, curves }],
    };
    Ok((figure, lines))
}

/// A latency query, and how its digests come about.
struct Carrier {
    name: &'static str,
    bits: u32,
    /// Beside the other queries, or on all packets.
    shared: bool,
}

const CARRIERS: [Carrier; 3] = [
    Carrier { name: "together, 8 bits on 15/16", bits: 8, shared: true },
    Carrier { name: "alone, 8 bits", bits: 8, shared: false },
    Carrier { name: "alone, 12 bits", bits: 12, shared: false },
];

/// The mean relative error of the median latency over the flows' hops, from their first packets;
/// `None` without flows.
fn latency_error(run: &Run, carrier: &Carrier, packets: usize) -> Option<f64> {
    let family = HashFamily::reproducible(run.job.seed);
    let empty = Samples::new(carrier.bits, None);
    let flows = run.kept.iter().map(|kept| &kept.packets[..packets]);
    if carrier.shared {
        let shared = Shared::new(&run.job.tree, &family);
        let latency = shared.scheme().value(&query(Value::Latency, carrier.bits)).expect("the query is there");
        let told = |packet: &Carried| latency.hop(packet.identity, MAX_HOPS as u8, packet.digest);
        let codes = latency.code().codes();
        return mean(flows.flat_map(|packets| errors(packets, packets.iter().map(told), codes, 0.5, &empty)));
    }
    let alone = Alone::new(carrier.bits, &family);
    let told = |packets| alone.told(packets).into_iter();
    mean(flows.flat_map(|packets| errors(packets, told(packets), alone.codes(), 0.5, &empty)))
}

/// The error of the median latency against the packets of a flow, seed by seed.
fn latency(pairs: &[[&Run; 2]]) -> Result<(Figure, String)> {
    let mut lines = String::from("scheme,packets,error_mean,error_min,error_max,seeds,flows\n");
    let mut curves = Vec::new();
    for (color, carrier) in CARRIERS.iter().enumerate() {
        let mut points = Vec::new();
        for packets in PACKETS {
            let of_seed = |pair: &[&Run; 2]| latency_error(pair[1], carrier, packets);
            let trials = Trials::of(&pairs.iter().filter_map(of_seed).collect::<Vec<_>>());
            if let Some(Trials { mean, min, max, count }) = &trials {
                let number = pairs.iter().map(|pair| pair[1].kept.len()).sum::<usize>();
                let name = carrier.name.replace(", ", " ");
                writeln!(lines, "{name},{packets},{mean:.5},{min:.5},{max:.5},{count},{number}")?;
            }
            points.push((packets as f64, trials));
        }
        curves.push(Curve::percent(carrier.name, color, points));
    }
    let figure = Figure {
        name: "pint_together_latency",
        title: "PINT: error of the median latency of each hop, together and alone".into(),
        note: format!(
            "Flows of Hadoop under HPCC; mean over hops and flows, bars: range over the seeds. The paper prints one number: together the error is {PAPER_ERROR} % larger than alone."
        ),
        x: Axis::new("packets of the flow", "packets").log(),
        y: Axis::new("relative error (%)", "error_percent"),
        panels: vec![Panel { title: String::new(), order: "", zoom: None, curves }],
    };
    Ok((figure, lines))
}

/// Path queries: together, then alone by bits of a hash and hashes on a packet.
const PATHS: [(&str, Option<[u32; 2]>); 4] = [
    ("together, 8 bits", None),
    ("alone, 8 bits", Some([8, 1])),
    ("alone, 16 bits of one hop", Some([16, 1])),
    ("alone, 8 bits of two hops", Some([8, 2])),
];

/// Packets until a path is decided.
fn path(pairs: &[[&Run; 2]]) -> Result<(Figure, String)> {
    let mut lines = String::from(
        "scheme,packets_mean,mean_min,mean_max,packets_p50,packets_p99,wrong_paths,undecided,runs,seeds\n",
    );
    let mut curves = Vec::new();
    let mut means = Vec::new();
    for (color, (name, alone)) in PATHS.into_iter().enumerate() {
        let (mut all, mut by_seed) = (Vec::new(), Vec::new());
        let (mut wrong, mut undecided) = (0, 0);
        for pair in pairs {
            let Needed { packets, wrong: more, undecided: open } = needed(pair[1], alone);
            if !packets.is_empty() {
                by_seed.push(packets.iter().sum::<usize>() as f64 / packets.len() as f64);
            }
            all.extend(packets);
            (wrong, undecided) = (wrong + more, undecided + open);
        }
        all.sort_unstable();
        // Without a path there is no mean either, so the list is not empty.
        let Some(Trials { mean, min, max, count }) = Trials::of(&by_seed) else { continue };
        let quantile = |share: f64| all[((share * all.len() as f64).ceil() as usize).clamp(1, all.len()) - 1];
        let [p50, p99] = [0.5, 0.99].map(quantile);
        let (label, runs) = (name.replace(", ", " "), all.len());
        writeln!(lines, "{label},{mean:.3},{min:.3},{max:.3},{p50},{p99},{wrong},{undecided},{runs},{count}")?;
        means.push(mean);
        let shares = [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99].map(|percent| f64::from(percent) / 100.0);
        let point = |share: f64| {
            let (x, y) = (quantile(share) as f64, 100.0 * share);
            Point { x, y, min: y, max: y, trials: runs }
        };
        curves.push(Curve { name: name.into(), color, source: Source::Weir, points: shares.map(point).into() });
    }
    for (mean, (name, alone)) in means.iter().zip(PATHS) {
        if alone.is_some() {
            writeln!(lines, "together over {},{:.2} %", name.replace(", ", " "), 100.0 * (means[0] / mean - 1.0))?;
        }
    }
    writeln!(lines, "paper: together over alone two hashes of 8 bits,{PAPER_PACKETS} %")?;
    let figure = Figure {
        name: "pint_together_path",
        title: format!("PINT: paths of {MAX_HOPS} hops that are decided, together and alone"),
        note: format!(
            "The paper prints one number: together a path takes {PAPER_PACKETS} % more packets than with two hashes of 8 bits alone."
        ),
        x: Axis::new("packets", "packets").range(0.0, 15.0),
        y: Axis::new("paths decided (%)", "decided_percent").range(0.0, 101.0),
        panels: vec![Panel { title: String::new(), order: "", zoom: None, curves }],
    };
    Ok((figure, lines))
}

/// Packets of the runs that decided a path, and the others.
struct Needed {
    packets: Vec<usize>,
    wrong: usize,
    undecided: usize,
}

/// The packets that a path query needs on the flows of a run: as the packets carried it, or `alone`
/// with these bits and hashes.
fn needed(run: &Run, alone: Option<[u32; 2]>) -> Needed {
    let family = HashFamily::reproducible(run.job.seed);
    let shared = Shared::new(&run.job.tree, &family);
    let code =
        alone.map(|[bits, instances]| Code::new(bits, instances, &Layers::of_length(MAX_HOPS as u32, bits), &family));
    let code = code.as_ref().or(shared.scheme().path().map(|code| &**code)).expect("the query is there");
    let universe = Universe::new(code, identifiers(&run.job.tree), None);
    let switches: Vec<_> = identifiers(&run.job.tree).map(|id| code.switch(id)).collect();
    let mut found = Needed { packets: Vec::new(), wrong: 0, undecided: 0 };
    for kept in &run.kept {
        let truth: Vec<_> = kept.path.iter().map(|switch| *switch as usize).collect();
        let coded: Vec<_> = truth.iter().map(|switch| switches[*switch].clone()).collect();
        for start in (0..STARTS).map(|start| start * STEP) {
            let mut inference = Inference::new(code, &universe, MAX_HOPS);
            let decided = (1..).zip(&kept.packets[start..]).find_map(|(number, packet)| {
                let carried = || shared.scheme().path_part(packet.identity, packet.digest).unwrap_or_default();
                let digest = if alone.is_some() { code.digest(&coded, packet.identity) } else { carried() };
                inference.add(packet.identity, digest);
                Some((number, inference.path()?))
            });
            match decided {
                Some((number, path)) => {
                    found.packets.push(number);
                    found.wrong += usize::from(path != truth);
                }
                None => found.undecided += 1,
            }
        }
    }
    found
}
