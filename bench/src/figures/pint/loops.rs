//! PINT's loop detection (appendix A.4): false alarms on paths without a loop, and how soon a loop
//! is reported.

use std::fmt::Write as _;
use std::thread;

use anyhow::Result;
use weir::pisa::hash::HashFamily;
use weir::program::pint::dataplane::MAX_HOPS;
use weir::program::pint::loops::dataplane::{Carried, LoopCode};
use weir::program::pint::loops::false_alarms;
use weir::trace::SplitMix64;

use super::super::experiment::Trials;
use super::super::plot::{Axis, Curve, Figure, Panel, Point, Source};

const THRESHOLDS: [u32; 3] = [0, 1, 3];

/// Bits of a hash, for false alarms.
const BITS: [u32; 6] = [4, 6, 8, 12, 15, 16];

/// Lengths of paths that are drawn.
const LENGTHS: [usize; 12] = [2, 3, 5, 8, 12, 16, 20, 26, 32, 40, 50, 62];

/// The paper's examples: threshold, bits, and the share of packets with a false alarm on a path of
/// 32 switches.
const PAPER: [(u32, u32, f64); 3] = [(0, 16, 5e-4), (1, 15, 5e-7), (3, 14, 5e-13)];
const PAPER_LENGTH: usize = 32;

/// Bits beside each threshold, as the paper has them: all in two bytes with the counter.
const DETECTION_BITS: [u32; 3] = [16, 15, 14];

/// Switches before the loop, and lengths of loops.
const BEFORE: [usize; 2] = [1, 5];
const CIRCLES: [usize; 11] = [2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30];

pub struct Effort {
    pub seeds: u64,
    /// Packets of a seed for each point.
    pub packets: u32,
    /// Packets of a seed for the paper's example that is seen once in two million packets.
    pub rare: u32,
}

impl Effort {
    pub fn new(quick: bool) -> Self {
        if quick {
            Self { seeds: 1, packets: 100_000, rare: 1_000_000 }
        } else {
            Self { seeds: 3, packets: 1_000_000, rare: 40_000_000 }
        }
    }

    /// The results of all seeds, each on a thread of its own.
    fn each<T: Send>(&self, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = (0..self.seeds).map(|seed| scope.spawn(move || run(seed))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a run does not panic")).collect()
        })
    }
}

/// The hop of the first report of each packet on a way through these switches.
fn first_reports(
    (bits, threshold): (u32, u32),
    way: &[u32],
    packets: u32,
    seed: u64,
) -> impl Iterator<Item = Option<usize>> {
    let code = LoopCode::new(bits, threshold, &HashFamily::reproducible(seed));
    let way: Vec<_> = way.iter().map(|switch| code.switch(*switch)).collect();
    let mut rng = SplitMix64::new(seed);
    (0..packets).map(move |_| {
        let identity = rng.next_u64() as u32;
        let mut carried = Carried { digest: 0, matches: 0 };
        (1..).zip(&way).find_map(|(hop, switch)| {
            let checked = code.check(*switch, hop, identity, carried);
            carried = checked.carried;
            checked.is_loop.then_some(usize::from(hop))
        })
    })
}

/// Packets with a false alarm on a path of each length, by length.
fn alarms(code: (u32, u32), longest: usize, packets: u32, seed: u64) -> Vec<u64> {
    let mut rng = SplitMix64::new(1000 + seed);
    let way: Vec<u32> = (0..longest).map(|_| rng.next_u64() as u32).collect();
    let mut first = vec![0u64; longest + 1];
    first_reports(code, &way, packets, seed).flatten().for_each(|hop| first[hop] += 1);
    // A packet that is reported at a hop is reported on each path that is longer.
    let add = |sum: &mut u64, alarms: &u64| {
        *sum += alarms;
        Some(*sum)
    };
    first.iter().scan(0, add).collect()
}

const MILLION: f64 = 1e6;

/// Of fewer alarms the share is not drawn: it would be noise.
const FEWEST_ALARMS: u64 = 10;

/// A point of one of the paper's examples, with its threshold and bits.
type Example = ((u32, u32), Point);

/// The paper's examples: those that have enough alarms as points, and all as lines of the table.
fn examples(effort: &Effort, progress: impl Fn(&str)) -> Result<(Vec<Example>, String)> {
    let (mut points, mut lines) = (Vec::new(), String::new());
    for (threshold, bits, paper) in PAPER {
        let packets = if threshold == 0 { effort.packets } else { effort.rare };
        let seeds = effort.each(|seed| alarms((bits, threshold), PAPER_LENGTH, packets, 100 + seed));
        let found: u64 = seeds.iter().map(|by_length| by_length[PAPER_LENGTH]).sum();
        let (all, formula) = (effort.seeds * u64::from(packets), false_alarms(PAPER_LENGTH as u32, bits, threshold));
        let share = found as f64 / all as f64;
        writeln!(lines, "{threshold},{bits},{PAPER_LENGTH},{found},{all},{share:.3e},{formula:.3e},{paper:e}")?;
        progress(&format!("T = {threshold}, {bits} bits: {found} of {all}"));
        let shares = seeds.iter().map(|by_length| MILLION * by_length[PAPER_LENGTH] as f64 / f64::from(packets));
        if let Some(Trials { mean: y, min, max, count: trials }) = Trials::of(&shares.collect::<Vec<_>>())
            && found >= FEWEST_ALARMS
        {
            points.push(((threshold, bits), Point { x: PAPER_LENGTH as f64, y, min, max, trials }));
        }
    }
    Ok((points, lines))
}

/// False alarms against the length of the path, with a table of all numbers.
pub fn alarm_figure(effort: &Effort, progress: impl Fn(&str)) -> Result<(Figure, String)> {
    let columns = "reported_packets,packets,share,formula_share,paper_share";
    let mut lines = format!("threshold,bits,switches,{columns}\n");
    let (examples, example_lines) = examples(effort, &progress)?;
    let mut panels = Vec::new();
    for threshold in THRESHOLDS {
        let mut curves = Vec::new();
        for (color, bits) in BITS.into_iter().enumerate() {
            let seeds = effort.each(|seed| alarms((bits, threshold), MAX_HOPS, effort.packets, seed));
            let mut points = Vec::new();
            for length in LENGTHS {
                let shares = seeds.iter().map(|by_length| by_length[length] as f64 / f64::from(effort.packets));
                let Some(Trials { mean, min, max, count }) = Trials::of(&shares.collect::<Vec<_>>()) else { continue };
                let found: u64 = seeds.iter().map(|by_length| by_length[length]).sum();
                let packets = effort.seeds * u64::from(effort.packets);
                let formula = false_alarms(length as u32, bits, threshold);
                writeln!(lines, "{threshold},{bits},{length},{found},{packets},{mean:.3e},{formula:.3e},")?;
                if found >= FEWEST_ALARMS {
                    let [y, min, max] = [mean, min, max].map(|share| MILLION * share);
                    points.push(Point { x: length as f64, y, min, max, trials: count });
                }
            }
            let of_curve = examples.iter().filter(|((t, b), _)| (*t, *b) == (threshold, bits));
            let is_there = |point: &Point| points.iter().any(|other: &Point| other.x == point.x);
            let more: Vec<_> = of_curve.map(|(_, point)| point.clone()).filter(|point| !is_there(point)).collect();
            points.extend(more);
            let name = format!("{bits} bits");
            let formula = |length: usize| {
                let y = MILLION * false_alarms(length as u32, bits, threshold);
                Point { x: length as f64, y, min: y, max: y, trials: 0 }
            };
            let model: Vec<_> = LENGTHS.into_iter().filter(|k| *k > threshold as usize + 1).map(formula).collect();
            curves.push(Curve { name: name.clone(), color, source: Source::Model, points: model });
            curves.push(Curve { name: name.clone(), color, source: Source::Weir, points });
            if let Some((.., share)) = PAPER.iter().find(|(t, b, _)| (*t, *b) == (threshold, bits)) {
                curves.push(Curve::paper(&name, color, vec![(PAPER_LENGTH as f64, MILLION * share)]));
            }
        }
        progress(&format!("false alarms, T = {threshold}"));
        panels.push(Panel { title: format!("T = {threshold}"), order: "", zoom: None, curves });
    }
    lines += &example_lines;
    let figure = Figure {
        name: "pint_loops_alarms",
        title: "PINT: packets that are wrongly reported to loop".into(),
        note: "Dashed: the tail of the binomial distribution. Hollow points: the numbers of the paper's text.".into(),
        x: Axis::new("switches on the path", "hops").range(0.0, 64.0),
        y: Axis::new("false alarms in a million packets", "false_alarms_per_million").range(0.01, 1e6).log(),
        panels,
    };
    Ok((figure, lines))
}

/// How soon packets of a loop are reported.
struct Detection {
    /// Share of the packets that are reported while their hops are counted.
    share: f64,
    /// Mean number of hops in the loop until they are.
    hops: f64,
}

fn detection(code: (u32, u32), (before, circle): (usize, usize), packets: u32, seed: u64) -> Detection {
    let place = |hop: usize| if hop < before { hop } else { before + (hop - before) % circle };
    let way: Vec<u32> = (0..MAX_HOPS).map(|hop| 1 + place(hop) as u32).collect();
    // A report at a hop before the loop is a false alarm.
    let in_loop = |hop: Option<usize>| hop?.checked_sub(before).filter(|hops| *hops > 0).map(|hops| hops as f64);
    let found: Vec<_> = first_reports(code, &way, packets, seed).filter_map(in_loop).collect();
    let share = found.len() as f64 / f64::from(packets);
    Detection { share, hops: found.iter().sum::<f64>() / found.len() as f64 }
}

/// Hops until a report, and packets until the first one, against the length of the loop.
pub fn detection_figures(effort: &Effort, progress: impl Fn(&str)) -> Result<([Figure; 2], String)> {
    let mut lines = String::from(
        "threshold,bits,switches_before,loop_switches,source,reported_share,hops_in_loop_mean,packets_mean,seeds\n",
    );
    let mut panels = [Vec::new(), Vec::new()];
    for before in BEFORE {
        let mut curves = [Vec::new(), Vec::new()];
        for ((color, threshold), bits) in THRESHOLDS.into_iter().enumerate().zip(DETECTION_BITS) {
            let mut points = [Vec::new(), Vec::new()];
            for circle in CIRCLES {
                let packets = effort.packets / 10;
                let seeds = effort.each(|seed| detection((bits, threshold), (before, circle), packets, seed));
                let shares = Trials::of(&seeds.iter().map(|seed| seed.share).collect::<Vec<_>>());
                // Of loops that are too long a few packets are reported by chance: that is no detection.
                let Some(shares) = shares.filter(|shares| shares.min > 0.02) else { continue };
                let hops = Trials::of(&seeds.iter().map(|seed| seed.hops).collect::<Vec<_>>());
                let Some(hops) = hops else { continue };
                let place = format!("{threshold},{bits},{before},{circle},weir");
                let first = 1.0 / shares.mean;
                writeln!(lines, "{place},{:.4},{:.2},{first:.3},{}", shares.mean, hops.mean, hops.count)?;
                let (x, trials) = (circle as f64, hops.count);
                points[0].push(Point { x, y: hops.mean, min: hops.min, max: hops.max, trials });
                points[1].push(Point { x, y: first, min: 1.0 / shares.max, max: 1.0 / shares.min, trials });
            }
            for (curves, points) in curves.iter_mut().zip(points) {
                let name = format!("T = {threshold}, {bits} bits");
                curves.push(Curve { name, color, source: Source::Weir, points });
            }
        }
        progress(&format!("detection, {before} before the loop"));
        for (panels, curves) in panels.iter_mut().zip(curves) {
            let switches = if before == 1 { "switch" } else { "switches" };
            let title = format!("{before} {switches} before the loop");
            panels.push(Panel { title, order: "", zoom: None, curves });
        }
    }
    let [hops, packets] = panels;
    let figure = |name, title: &str, y, panels| Figure {
        name,
        title: format!("PINT: {title}"),
        note: "A packet counts up to 62 hops, and may be reported until then. The lines' ranges are over seeds.".into(),
        x: Axis::new("switches in the loop", "loop_switches").range(0.0, 31.0),
        y,
        panels,
    };
    let figures = [
        figure(
            "pint_loops_hops",
            "hops in the loop until a packet is reported",
            Axis::new("hops, mean of the reported packets", "hops").range(0.0, 62.0),
            hops,
        ),
        figure(
            "pint_loops_packets",
            "packets in the loop until one is reported",
            Axis::new("packets, mean", "packets").log(),
            packets,
        ),
    ];
    Ok((figures, lines))
}
