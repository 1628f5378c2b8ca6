//! PINT's Figures 5 and 10: packets until the path of a flow is decided; 9: errors of latency
//! quantiles; and its loop detection; and 11: three queries together; and what the first two rest on.

mod graph;
mod hashes;
mod latency;
mod loops;
mod quantiles;
mod reference;
mod runs;
mod search;
mod together;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use weir::program::pint::encoding::Layers;

use super::draw::draw;
use super::plot::{Axis, Curve, Figure, Panel, Point, Source};
use graph::Graph;
use runs::{Other, Pint, Seeded, random_path};

/// Hops of Figure 5, and candidates for each: more than any combination of hops decides.
const FIG5_HOPS: usize = 25;
const FIG5_SWITCHES: usize = 300;
const FIG5_BITS: u32 = 16;

/// Packets of Figure 5(a), those from one point to the next, and most runs for it.
const FIG5_PACKETS: usize = 220;
const FIG5_STEP: usize = 10;
const FIG5_OPEN_RUNS: usize = 2000;

/// Figure 5 as the text prints it: median and 99th percentile.
const FIG5_PAPER: [(&str, [usize; 2]); 2] = [("baseline", [89, 189]), ("interleaved", [41, 68])];

/// Lengths of Figure 10 but the longest of a network have this part of the runs.
const OTHERS: usize = 3;

/// Figure 10 at 59 hops of Kentucky Datalink with 2 × 8 bits, as the text prints it: mean and 99th
/// percentile.
const FIG10_PAPER: [f64; 2] = [42.0, 94.0];

pub fn run(out: &Path, trials: usize) -> Result<()> {
    let start = Instant::now();
    let progress = move |what: &str| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    let (figures, lines) = layers(trials, progress)?;
    table(out, "pint_layers.csv", &lines)?;
    figures.iter().try_for_each(|figure| save(out, figure, progress))?;
    let (figures, lines) = lengths(trials, progress)?;
    table(out, "pint_path.csv", &lines)?;
    figures.iter().try_for_each(|figure| save(out, figure, progress))
}

/// Weir's inference beside a simulation of the paper's text.
pub fn reference(out: &Path, trials: usize) -> Result<()> {
    let start = Instant::now();
    let progress = move |what: &str| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    table(out, "pint_path_reference.csv", &reference::table(trials, progress)?)
}

/// Layers by bits and lengths.
pub fn search(out: &Path, runs: usize) -> Result<()> {
    let start = Instant::now();
    let progress = move |what: &str| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    let path = out.join("pint_layers_search.csv");
    fs::write(&path, search::table(runs, progress)?).with_context(|| format!("writing {}", path.display()))
}

/// Figure 9.
pub fn latency(out: &Path, quick: bool, whole_tree: bool) -> Result<()> {
    let start = Instant::now();
    let progress = move |what: &str| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    let drawn = latency::run(quick, whole_tree, progress)?;
    drawn.tables.iter().try_for_each(|(name, text)| table(out, name, text))?;
    drawn.figures.iter().try_for_each(|figure| save(out, figure, progress))
}

/// Loop detection.
pub fn loops(out: &Path, quick: bool) -> Result<()> {
    let start = Instant::now();
    let progress = move |what: &str| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    let effort = loops::Effort::new(quick);
    let (figures, lines) = loops::detection_figures(&effort, progress)?;
    table(out, "pint_loops_detection.csv", &lines)?;
    figures.iter().try_for_each(|figure| save(out, figure, progress))?;
    let (figure, lines) = loops::alarm_figure(&effort, progress)?;
    table(out, "pint_loops_alarms.csv", &lines)?;
    save(out, &figure, progress)
}

/// One and two hashes of a path, for Figure 11.
pub fn hashes(out: &Path, runs: usize) -> Result<()> {
    let start = Instant::now();
    let progress = move |what: &str| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    table(out, "pint_two_hashes.csv", &hashes::table(runs, progress)?)
}

/// Figure 11.
pub fn together(out: &Path, quick: bool, whole_tree: bool) -> Result<()> {
    let start = Instant::now();
    let progress = move |what: &str| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    let drawn = together::run(quick, whole_tree, progress)?;
    drawn.tables.iter().try_for_each(|(name, text)| table(out, name, text))?;
    drawn.figures.iter().try_for_each(|figure| save(out, figure, progress))
}

fn save(out: &Path, figure: &Figure, progress: impl Fn(&str)) -> Result<()> {
    let svg = out.join(figure.name).with_extension("svg");
    draw(figure, &svg).with_context(|| format!("drawing {}", svg.display()))?;
    progress(&svg.display().to_string());
    Ok(())
}

/// Writes a table and prints it.
fn table(out: &Path, name: &str, text: &str) -> Result<()> {
    let path = out.join(name);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    print!("{text}");
    Ok(())
}

/// Figure 5: (a) the hops that are not decided, and (b) how likely the path is decided, against the
/// packets.
fn layers(trials: usize, progress: impl Fn(&str)) -> Result<([Figure; 2], String)> {
    let schemes = [
        ("baseline", Layers::baseline()),
        ("xor, p = 1/d", Layers { baseline: 0.0, xor: vec![1.0 / FIG5_HOPS as f64] }),
        ("interleaved", Layers::interleaved(FIG5_HOPS as u32)),
        ("appendix A.3", Layers::of_paper(FIG5_HOPS as u32)),
        ("weir's default", Layers::of_length(FIG5_HOPS as u32, FIG5_BITS)),
    ];
    let (mut open, mut decided) = (Vec::new(), Vec::new());
    let columns = "packets_mean,mean_min,mean_max,packets_p50,packets_p99,p99_min,p99_max,wrong_paths,runs,seeds";
    let mut lines = format!("layers,tau_baseline,xor_probabilities,source,{columns}\n");
    for (color, (name, layers)) in schemes.into_iter().enumerate() {
        let shares = shares(&layers);
        let pint = Pint { bits: FIG5_BITS, instances: 1, layers, switches: FIG5_SWITCHES, links: None };
        let path = random_path(FIG5_SWITCHES, FIG5_HOPS);
        let packets = pint.run_seeds(trials, &path);
        let name = name.replace(", ", " ");
        writeln!(lines, "{name},{shares},weir,{}", seeded(&packets))?;
        progress(&format!("{name}: {}", seeded(&packets)));
        let all = &packets.all;
        let percents = [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99].map(|percent| f64::from(percent) / 100.0);
        let point = |share: f64| {
            let x = all.quantile(share) as f64;
            Point { x, y: 100.0 * share, min: 100.0 * share, max: 100.0 * share, trials: all.runs() }
        };
        let curve = |points| Curve { name: name.clone(), color, source: Source::Weir, points };
        decided.push(curve(percents.map(point).into()));
        let runs = trials.min(FIG5_OPEN_RUNS);
        let hops = pint.open_hops(runs, FIG5_PACKETS, &path);
        let point = |(packets, y): (usize, f64)| Point { x: packets as f64, y, min: y, max: y, trials: runs };
        let points = std::iter::once(FIG5_HOPS as f64).chain(hops).enumerate().step_by(FIG5_STEP).map(point);
        open.push(curve(points.collect()));
        if let Some((_, [median, tail])) = FIG5_PAPER.iter().find(|(of, _)| *of == name) {
            writeln!(lines, "{name},{shares},paper,,,,{median},{tail},,,,10000,")?;
            decided.push(Curve::paper(&name, color, vec![(*median as f64, 50.0), (*tail as f64, 99.0)]));
        }
    }
    let figure = |name, what: &str, note: &str, y, curves| Figure {
        name,
        title: format!("PINT: {what}, {FIG5_HOPS} hops, whole identifiers"),
        note: note.into(),
        x: Axis::new("packets", "packets").range(0.0, 220.0),
        y,
        panels: vec![Panel { title: String::new(), order: "", zoom: None, curves }],
    };
    let (hops, percent) = (Axis::new("hops", "hops"), Axis::new("paths decided (%)", "decided_percent"));
    let figures = [
        figure("pint_open_hops", "hops that are not decided", "Means.", hops.range(0.0, FIG5_HOPS as f64), open),
        figure(
            "pint_layers",
            "paths that are decided",
            "Hollow: the medians and 99th percentiles that the paper prints.",
            percent.range(0.0, 101.0),
            decided,
        ),
    ];
    Ok((figures, lines))
}

/// Layers as columns: the baseline's share, and the probabilities of xor layers.
fn shares(layers: &Layers) -> String {
    let xor: Vec<_> = layers.xor.iter().map(|p| format!("{p:.3}")).collect();
    format!("{:.3},{}", layers.baseline, xor.join(" "))
}

/// Packets as columns: mean, median and 99th percentile with their ranges over the seeds, and what they
/// rest on.
fn seeded(Seeded { all, means, tails }: &Seeded) -> String {
    let [p50, p99] = [0.5, 0.99].map(|share| all.quantile(share));
    let mean = format!("{:.2},{:.2},{:.2}", all.mean(), means.min, means.max);
    format!("{mean},{p50},{p99},{},{},{},{},{}", tails.min, tails.max, all.wrong, all.runs(), means.count)
}

/// A scheme of Figure 10.
enum Scheme {
    /// Bits, instances, and whether inference knows the links.
    Pint(u32, u32, bool),
    Other(Other),
}

/// Figure 10: mean and 99th percentile, against the length of the path.
fn lengths(trials: usize, progress: impl Fn(&str)) -> Result<([Figure; 2], String)> {
    // The lengths that are drawn. The layers are those of the longest.
    let networks = [
        (Graph::kentucky_datalink(), vec![5, 10, 20, 30, 40, 50, 59]),
        (Graph::us_carrier(), vec![4, 8, 12, 18, 24, 30, 36]),
        (Graph::fat_tree(8), vec![1, 3, 5]),
    ];
    let schemes = [
        ("2 × 8 bits, links known", Scheme::Pint(8, 2, true)),
        ("4 bits, links known", Scheme::Pint(4, 1, true)),
        ("1 bit, links known", Scheme::Pint(1, 1, true)),
        ("2 × 8 bits", Scheme::Pint(8, 2, false)),
        ("4 bits", Scheme::Pint(4, 1, false)),
        ("1 bit", Scheme::Pint(1, 1, false)),
        ("LNC, 16 bits", Scheme::Other(Other::LinearCoding { fragments: 1 })),
        ("AMS2, m = 5", Scheme::Other(Other::Ams2(5))),
        ("AMS2, m = 6", Scheme::Other(Other::Ams2(6))),
        ("PPM", Scheme::Other(Other::Ppm)),
    ];
    let columns = "packets_mean,mean_min,mean_max,packets_p50,packets_p99,p99_min,p99_max,wrong_paths,runs,seeds";
    let mut lines = format!("network,switches,path_length,hops,scheme,source,{columns}\n");
    let mut panels = [Vec::new(), Vec::new()];
    for (graph, lengths) in &networks {
        let mut curves = [Vec::new(), Vec::new()];
        for (color, (name, scheme)) in schemes.iter().enumerate() {
            let mut points = [Vec::new(), Vec::new()];
            for &length in lengths {
                let runs = if length == graph.longest() { trials } else { trials.div_ceil(OTHERS) };
                let packets = of_length(graph, length, scheme, runs);
                let numbers = seeded(&packets);
                progress(&format!("{}, {length} hops, {name}: {numbers}", graph.name));
                let place = format!("{},{},{},{length}", graph.name, graph.switches(), graph.longest());
                writeln!(lines, "{place},{},weir,{numbers}", name.replace(", ", " "))?;
                let Seeded { all, means, tails } = packets;
                for (points, (y, seeds)) in
                    points.iter_mut().zip([(all.mean(), means), (all.quantile(0.99) as f64, tails)])
                {
                    points.push(Point { x: length as f64, y, min: seeds.min, max: seeds.max, trials: all.runs() });
                }
            }
            for (curves, points) in curves.iter_mut().zip(points) {
                curves.push(Curve { name: (*name).into(), color, source: Source::Weir, points });
            }
        }
        for ((panels, mut curves), paper) in panels.iter_mut().zip(curves).zip(FIG10_PAPER) {
            if graph.longest() == 59 {
                curves.push(Curve::paper("2 × 8 bits", 3, vec![(59.0, paper)]));
            }
            panels.push(Panel { title: graph.name.into(), order: "", zoom: None, curves });
        }
    }
    let figure = |name, what: &str, label, column, panels| {
        Figure {
        name,
        title: format!("PINT: packets until a path is decided, {what}"),
        note: "Bars: range over the seeds. Hollow: the number that the paper prints. docs/pint.md says why inference that does not know the links cannot reach it.".into(),
        x: Axis::new("switches on the path", "hops").range(0.0, 62.0),
        y: Axis::new(label, column).log(),
        panels,
    }
    };
    let [mean, tail] = FIG10_PAPER;
    writeln!(lines, "Kentucky Datalink,753,,59,2 × 8 bits,paper,{mean},,,,{tail},,,,10000,")?;
    let [means, tails] = panels;
    let figures = [
        figure("pint_path_mean", "mean", "packets, mean", "packets_mean", means),
        figure("pint_path_p99", "99th percentile", "packets, 99th percentile", "packets_p99", tails),
    ];
    Ok((figures, lines))
}

fn of_length(graph: &Graph, length: usize, scheme: &Scheme, trials: usize) -> Seeded {
    let ends = graph.ends(length);
    let path = |rng: &mut weir::trace::SplitMix64| graph.path(ends[rng.below(ends.len() as u64) as usize], rng);
    match *scheme {
        Scheme::Pint(bits, instances, linked) => {
            let links = linked.then_some(&graph.links[..]);
            let layers = Layers::of_length(graph.longest() as u32, bits);
            Pint { bits, instances, layers, switches: graph.switches(), links }.run_seeds(trials, path)
        }
        Scheme::Other(other) => Seeded::new(trials, |seed, runs| other.run(seed, runs, length)),
    }
}
