//! PINT's Figures 5 and 10: packets until the path of a flow is decided; 9: errors of latency
//! quantiles; and its loop detection; and 11: three queries together.

mod graph;
mod hashes;
mod latency;
mod loops;
mod runs;
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
use runs::{Other, Packets, Pint, random_path};

/// Hops of Figure 5, and candidates for each: more than any combination of hops decides.
const FIG5_HOPS: usize = 25;
const FIG5_SWITCHES: usize = 300;

/// Figure 5 as the text prints it: median and 99th percentile.
const FIG5_PAPER: [(&str, [usize; 2]); 2] = [("baseline", [89, 189]), ("interleaved", [41, 68])];

/// Figure 10 at 59 hops of Kentucky Datalink with 2 × 8 bits, as the text prints it: mean and 99th
/// percentile.
const FIG10_PAPER: [f64; 2] = [42.0, 94.0];

/// Our simulation of the scheme as the text has it, packet by packet.
const REFERENCE: &str = include_str!("../../../data/pint_path_packets.csv");

pub fn run(out: &Path, trials: usize) -> Result<()> {
    let start = Instant::now();
    let progress = move |what: &str| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    let (figure, lines) = layers(trials, progress)?;
    save(out, &figure, progress)?;
    table(out, "pint_layers.csv", &lines)?;
    table(out, "pint_path_reference.csv", &reference(trials, progress)?)?;
    let (figures, lines) = lengths(trials, progress)?;
    table(out, "pint_path.csv", &lines)?;
    figures.iter().try_for_each(|figure| save(out, figure, progress))
}

/// Figure 9.
pub fn latency(out: &Path, quick: bool) -> Result<()> {
    let start = Instant::now();
    let progress = move |what: &str| eprintln!("{:6.1} s  {what}", start.elapsed().as_secs_f64());
    let (figures, lines) = latency::figures(if quick { 1 } else { 5 }, quick, progress)?;
    table(out, "pint_latency.csv", &lines)?;
    figures.iter().try_for_each(|figure| save(out, figure, progress))
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

/// Figure 5(b): how likely the path is decided, against the packets.
fn layers(trials: usize, progress: impl Fn(&str)) -> Result<(Figure, String)> {
    let schemes = [
        ("baseline", Layers::baseline()),
        ("xor, p = 1/d", Layers { baseline: 0.0, xor: vec![1.0 / FIG5_HOPS as f64] }),
        ("interleaved", Layers::interleaved(FIG5_HOPS as u32)),
        ("appendix A.3", Layers::of_paper(FIG5_HOPS as u32)),
        ("weir's default", Layers::of_length(FIG5_HOPS as u32)),
    ];
    let mut curves = Vec::new();
    let mut lines =
        String::from("layers,tau_baseline,xor_probabilities,source,packets_p50,packets_p99,wrong_paths,runs\n");
    for (color, (name, layers)) in schemes.into_iter().enumerate() {
        // Whole identifiers, as the figure has them.
        let xor: Vec<_> = layers.xor.iter().map(|p| format!("{p:.3}")).collect();
        let shares = format!("{:.3},{}", layers.baseline, xor.join(" "));
        let pint = Pint { bits: 16, instances: 1, layers, switches: FIG5_SWITCHES, links: None };
        let packets = pint.run(trials, random_path(FIG5_SWITCHES, FIG5_HOPS));
        let [median, tail] = [0.5, 0.99].map(|share| packets.quantile(share));
        let name = name.replace(", ", " ");
        writeln!(lines, "{name},{shares},weir,{median},{tail},{},{}", packets.wrong, packets.runs())?;
        progress(&format!("{name}: median {median}, 99 % {tail}, {} wrong", packets.wrong));
        let percents = [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99].map(|percent| f64::from(percent) / 100.0);
        let point = |share: f64| {
            let x = packets.quantile(share) as f64;
            Point { x, y: 100.0 * share, min: 100.0 * share, max: 100.0 * share, trials: packets.runs() }
        };
        curves.push(Curve { name: name.clone(), color, source: Source::Weir, points: percents.map(point).into() });
        if let Some((_, [median, tail])) = FIG5_PAPER.iter().find(|(of, _)| *of == name) {
            writeln!(lines, "{name},{shares},paper,{median},{tail},,10000")?;
            curves.push(Curve::paper(&name, color, vec![(*median as f64, 50.0), (*tail as f64, 99.0)]));
        }
    }
    let figure = Figure {
        name: "pint_layers",
        title: "PINT: paths that are decided, 25 hops, whole identifiers".into(),
        note: "Hollow: the medians and 99th percentiles that the paper prints.".into(),
        x: Axis::new("packets", "packets").range(0.0, 220.0),
        y: Axis::new("paths decided (%)", "decided_percent").range(0.0, 101.0),
        panels: vec![Panel { title: String::new(), order: "", zoom: None, curves }],
    };
    Ok((figure, lines))
}

/// Each point of the reference, and what inference takes here with the same layers.
fn reference(trials: usize, progress: impl Fn(&str)) -> Result<String> {
    let columns = "mean_packets,p50,p99,wrong_paths,runs,reference_mean,reference_p50,reference_p99";
    let mut text = format!("hops,candidate_switches,hashes,bits,tau_baseline,xor_probability,{columns}\n");
    for line in REFERENCE.lines().skip(1) {
        let fields: Vec<f64> = line.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [hops, switches, instances, bits, baseline, p, _, mean, p50, p99] = fields[..] else { continue };
        let (hops, switches) = (hops as usize, switches as usize);
        let layers = Layers { baseline, xor: vec![p] };
        let pint = Pint { bits: bits as u32, instances: instances as u32, layers, switches, links: None };
        let ours = pint.run(trials, random_path(switches, hops));
        let (median, tail) = (ours.quantile(0.5), ours.quantile(0.99));
        let ours = format!("{:.1},{median},{tail},{},{}", ours.mean(), ours.wrong, ours.runs());
        writeln!(text, "{hops},{switches},{instances},{bits},{baseline},{p},{ours},{mean},{p50},{p99}")?;
        progress(&format!("{hops} hops, {instances} × {bits} bits: {ours}; reference {mean}, {p50}, {p99}"));
    }
    Ok(text)
}

/// A scheme of Figure 10.
enum Scheme {
    /// Bits, instances, and whether inference knows the links.
    Pint(u32, u32, bool),
    Other(Other),
}

/// Figure 10: mean and 99th percentile, against the length of the path.
fn lengths(trials: usize, progress: impl Fn(&str)) -> Result<([Figure; 2], String)> {
    // Typical lengths, from which the layers follow, and the lengths that are drawn.
    let networks = [
        (Graph::kentucky_datalink(), 40, vec![5, 10, 20, 30, 40, 50, 59]),
        (Graph::us_carrier(), 20, vec![4, 8, 12, 18, 24, 30, 36]),
        (Graph::fat_tree(8), 5, vec![1, 3, 5]),
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
    let mut lines =
        String::from("network,switches,hops,scheme,source,packets_mean,packets_p50,packets_p99,wrong_paths,runs\n");
    let mut panels = [Vec::new(), Vec::new()];
    for (graph, typical, lengths) in &networks {
        let mut curves = [Vec::new(), Vec::new()];
        for (color, (name, scheme)) in schemes.iter().enumerate() {
            let mut points = [Vec::new(), Vec::new()];
            for &length in lengths {
                let packets = of_length(graph, length, *typical, scheme, trials);
                let (mean, tail) = (packets.mean(), packets.quantile(0.99) as f64);
                progress(&format!("{}, {length} hops, {name}: {mean:.1}, {tail}, {} wrong", graph.name, packets.wrong));
                let place = format!("{},{},{length},{}", graph.name, graph.switches(), name).replace(", ", " ");
                let (median, wrong, runs) = (packets.quantile(0.5), packets.wrong, packets.runs());
                writeln!(lines, "{place},weir,{mean:.2},{median},{tail},{wrong},{runs}")?;
                let point = |y| Point { x: length as f64, y, min: y, max: y, trials: packets.runs() };
                points[0].push(point(mean));
                points[1].push(point(tail));
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
        note: "Hollow: the number that the paper prints. docs/pint.md says why inference that does not know the links cannot reach it.".into(),
        x: Axis::new("switches on the path", "hops").range(0.0, 62.0),
        y: Axis::new(label, column).log(),
        panels,
    }
    };
    let [mean, tail] = FIG10_PAPER;
    writeln!(lines, "Kentucky Datalink,753,59,2 × 8 bits,paper,{mean},,{tail},,10000")?;
    let [means, tails] = panels;
    let figures = [
        figure("pint_path_mean", "mean", "packets, mean", "packets_mean", means),
        figure("pint_path_p99", "99th percentile", "packets, 99th percentile", "packets_p99", tails),
    ];
    Ok((figures, lines))
}

fn of_length(graph: &Graph, length: usize, typical: u32, scheme: &Scheme, trials: usize) -> Packets {
    let ends = graph.ends(length);
    let path = |rng: &mut weir::trace::SplitMix64| graph.path(ends[rng.below(ends.len() as u64) as usize], rng);
    match *scheme {
        Scheme::Pint(bits, instances, linked) => {
            let links = linked.then_some(&graph.links[..]);
            let layers = Layers::of_length(typical);
            Pint { bits, instances, layers, switches: graph.switches(), links }.run(trials, path)
        }
        Scheme::Other(other) => other.run(trials, length),
    }
}
