//! Figures 4, 5 and 6: memory and decoding time of packet loss detection.
//!
//! Memory is what one of the two sketches takes, the least with which 99.9 % of the decodings
//! succeed; time is that of decoding at this memory, on one thread.

use std::fmt::Write as _;

use crate::baseline::losses::{Fermat, FlowRadar, LossRadar};
use crate::figures::plot::{Axis, Curve, Figure, Panel, Point, Source};

use super::reference::{self, Row};
use super::search::{self, Least};
use super::sketch::{Link, Sketch, WEIR_BUCKET_BYTES};

/// Decodings that are timed.
const TIMED: u64 = 51;
const ALL: [Sketch; 5] = [Sketch::Fermat, Sketch::FlowRadar, Sketch::LossRadar, Sketch::Weir, Sketch::WeirClients];

impl Sketch {
    fn name(self) -> &'static str {
        match self {
            Self::Fermat => "FermatSketch",
            Self::Weir => "FermatSketch of the switch",
            Self::WeirClients => "the same, clients' keys",
            Self::FlowRadar => "FlowRadar",
            Self::LossRadar => "LossRadar",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Fermat => "fermat",
            Self::Weir => "weir",
            Self::WeirClients => "weir_clients",
            Self::FlowRadar => "flowradar",
            Self::LossRadar => "lossradar",
        }
    }

    fn bytes(self, width: usize) -> f64 {
        match self {
            Self::Fermat => 3.0 * width as f64 * Fermat::BUCKET_BYTES,
            Self::Weir | Self::WeirClients => 3.0 * width as f64 * WEIR_BUCKET_BYTES,
            Self::FlowRadar => FlowRadar::bytes(width),
            Self::LossRadar => LossRadar::bytes(width),
        }
    }
}

/// One sketch on one link.
#[derive(Clone)]
pub struct Measured {
    pub sketch: Sketch,
    pub items: usize,
    pub min: Least,
    /// Milliseconds, ascending.
    pub times: Vec<f64>,
    /// Of FlowRadar's timed decodings those with all losses exact: its filter may hide a victim.
    pub exact: Option<u64>,
}

impl Measured {
    pub fn bytes(&self) -> f64 {
        self.sketch.bytes(self.min.width)
    }

    pub fn median_ms(&self) -> f64 {
        quantile(&self.times, 0.5)
    }
}

/// The measurements of a run, each done once.
pub struct Losses {
    trials: u32,
    done: Vec<Measured>,
    progress: Box<dyn Fn(&str)>,
}

impl Losses {
    pub fn new(trials: u32, progress: impl Fn(&str) + 'static) -> Self {
        Self { trials, done: Vec::new(), progress: Box::new(progress) }
    }

    pub fn measure(&mut self, sketch: Sketch, link: Link) -> Measured {
        let items = link.items(sketch);
        // What a bucket of FermatSketch counts is the lost packets, but nothing else about them
        // matters.
        if let Some(done) = self.done.iter().find(|done| (done.sketch, done.items) == (sketch, items)) {
            return done.clone();
        }
        let trials = search::trials(self.trials, items);
        let min = search::min(items, trials, |width, trial| link.decodes(sketch, width, trial));
        let time = |trial| link.difference(sketch, min.width, trial).time();
        // The quickest of three: other processes take turns on the core.
        let quickest = |trial| (0..3).map(|_| time(trial)).min().map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let mut times: Vec<_> = (0..TIMED).map(quickest).collect();
        times.sort_by(f64::total_cmp);
        let exact = (sketch == Sketch::FlowRadar)
            .then(|| (0..TIMED).filter(|&trial| link.flow_radar_exact(min.width, trial)).count() as u64);
        let measured = Measured { sketch, items, min, times, exact };
        (self.progress)(&format!(
            "{:9} {items:7} items: {:9.0} bytes, {} of {trials} trials failed; {:.3} ms",
            sketch.key(),
            measured.bytes(),
            min.failures,
            measured.median_ms()
        ));
        self.done.push(measured.clone());
        measured
    }

    /// All that was measured.
    pub fn csv(&self) -> String {
        let mut text = String::from(
            "sketch,items,cells,bytes,too_few_bytes,trials,failures,decode_ms_p10,decode_ms,decode_ms_p90,timed,timed_exact\n",
        );
        for m in &self.done {
            let Measured { sketch, items, min, times, exact } = m;
            let [p10, median, p90] = [0.1, 0.5, 0.9].map(|share| quantile(times, share));
            writeln!(
                text,
                "{},{items},{},{:.0},{:.0},{},{},{p10:.4},{median:.4},{p90:.4},{},{}",
                sketch.key(),
                3 * min.width,
                m.bytes(),
                sketch.bytes(min.too_short),
                min.trials,
                min.failures,
                times.len(),
                exact.map_or_else(String::new, |n| n.to_string())
            )
            .expect("a string takes all");
        }
        text
    }
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// One of the three figures: what is varied, over what.
pub struct Sweep {
    name: [&'static str; 2],
    number: u32,
    against: &'static str,
    /// Label and column.
    x: (&'static str, &'static str),
    log: bool,
    links: Vec<(f64, Link)>,
    /// Up to how many times FermatSketch takes less memory and time than FlowRadar and LossRadar,
    /// by the paper's text.
    paper: [[f64; 2]; 2],
}

pub fn sweeps() -> [Sweep; 3] {
    let fixed = Link { flows: 10_000, victims: 100, loss: 0.01 };
    let victims = [500, 1000, 2000, 4000, 6000, 8000, 10_000];
    let losses = [0.001, 0.01, 0.03, 0.1, 0.2, 0.5];
    let flows = [10_000, 20_000, 40_000, 60_000, 80_000, 100_000];
    [
        Sweep {
            name: ["chamelemon_fig4a", "chamelemon_fig4b"],
            number: 4,
            against: "the number of victim flows (of 10 000 flows, 1 % loss)",
            x: ("victim flows", "victims"),
            log: false,
            links: victims.map(|victims| (victims as f64, Link { victims, ..fixed })).into(),
            paper: [[15.9, 23.2], [3.0, 4.6]],
        },
        Sweep {
            name: ["chamelemon_fig5a", "chamelemon_fig5b"],
            number: 5,
            against: "the loss rate (the largest 100 of 10 000 flows)",
            x: ("packets that victims lose (%)", "loss_percent"),
            log: true,
            links: losses.map(|loss| (100.0 * loss, Link { loss, ..fixed })).into(),
            paper: [[276.1, 6411.2], [64.5, 1585.6]],
        },
        Sweep {
            name: ["chamelemon_fig6a", "chamelemon_fig6b"],
            number: 6,
            against: "the number of flows (the largest 100 are victims, 1 % loss)",
            x: ("flows", "flows"),
            log: false,
            links: flows.map(|flows| (flows as f64, Link { flows, ..fixed })).into(),
            paper: [[1535.0, 128.8], [821.3, 23.7]],
        },
    ]
}

/// Of a measurement the value that is drawn and its range.
type Value<'a> = &'a dyn Fn(&Measured) -> (f64, f64, f64);
/// The same value of the authors' program.
type Known = fn(&Row) -> Option<f64>;

/// The two figures, and lines that compare them with the paper.
pub fn figures(sweep: &Sweep, losses: &mut Losses) -> (Vec<Figure>, String) {
    let measured: Vec<Vec<Measured>> =
        ALL.map(|sketch| sweep.links.iter().map(|(_, link)| losses.measure(sketch, *link)).collect()).into();
    let memory = |m: &Measured| (m.bytes() / 1e3, m.sketch.bytes(m.min.too_short) / 1e3, m.bytes() / 1e3);
    let time = |m: &Measured| (m.median_ms(), quantile(&m.times, 0.1), quantile(&m.times, 0.9));
    let quantities: [(&str, Axis, Value, Known); 2] = [
        ("memory", Axis::new("memory of one sketch (KB of 1000 bytes)", "memory_kb").log(), &memory, |row| {
            Some(row.bytes / 1e3)
        }),
        ("decoding time", Axis::new("decoding time (ms), median", "decode_ms").log(), &time, |row| row.decode_ms),
    ];
    let mut drawn = Vec::new();
    for (index, (what, y, value, known)) in quantities.into_iter().enumerate() {
        let mut curves = Vec::new();
        for (color, (sketch, measured)) in ALL.into_iter().zip(&measured).enumerate() {
            let points = sweep.links.iter().zip(measured).map(|(&(x, _), m)| {
                let (y, min, max) = value(m);
                Point { x, y, min, max, trials: if index == 0 { m.min.trials as usize } else { m.times.len() } }
            });
            curves.push(Curve { name: sketch.name().into(), color, source: Source::Weir, points: points.collect() });
            curves.extend(theirs(sweep, sketch, color, known));
        }
        let (label, column) = sweep.x;
        let ends = [sweep.links[0].0, sweep.links[sweep.links.len() - 1].0];
        let (from, to) = if sweep.log { (ends[0] / 1.5, ends[1] * 1.5) } else { (0.0, ends[1] * 1.03) };
        drawn.push(Figure {
            name: sweep.name[index],
            title: format!(
                "ChameleMon, Figure {}({}): {what} against {}",
                sweep.number,
                ["a", "b"][index],
                sweep.against
            ),
            note: note(index, &measured, curves.iter().any(|curve| curve.source == Source::Authors)),
            x: Axis { log: sweep.log, ..Axis::new(label, column).range(from, to) },
            y,
            panels: vec![Panel { title: String::new(), order: "isp", zoom: None, curves }],
        });
    }
    (drawn, compare(sweep, &measured))
}

/// The small print of a figure of memory (0) or time (1), for the trials that were made.
fn note(index: usize, measured: &[Vec<Measured>], authors: bool) -> String {
    let trials = || measured.iter().flatten().map(|m| m.min.trials);
    let (min, max) = (trials().min().unwrap_or_default(), trials().max().unwrap_or_default());
    let points = match index {
        0 => format!("the least memory with which {}; bar: to the next smaller sketch tried", success(min, max)),
        _ => format!("median of {TIMED} decodings with the memory of (a); bar: 10th to 90th percentile"),
    };
    let theirs = if authors { " Hollow: the authors' programs, measured on another day." } else { "" };
    format!(
        "Filled: {points}.{theirs} The switch's sketch has flow IDs of 104 bits, the others of 32; clients' keys are \
         connections of 20 clients, their ports in a row, all others random."
    )
}

/// What counted as success: below a thousand trials none may fail.
fn success(min: u32, max: u32) -> String {
    let range = if min == max { max.to_string() } else { format!("{min} to {max}") };
    if max < 1000 { format!("none of {range} trials fails") } else { format!("99.9 % of {range} trials decode") }
}

/// What the authors' program takes, where the reference table has a row for the link.
fn theirs(sweep: &Sweep, sketch: Sketch, color: usize, known: Known) -> Option<Curve> {
    let point = |&(x, link): &(f64, Link)| {
        let y = known(&reference::sufficient(sketch.key(), link)?)?;
        Some(Point { x, y, min: y, max: y, trials: 0 })
    };
    let points: Vec<_> = sweep.links.iter().filter_map(point).collect();
    (!points.is_empty()).then(|| Curve { name: sketch.name().into(), color, source: Source::Authors, points })
}

/// How many times FermatSketch takes less, at most over the figure; the paper's number, and that of
/// the authors' programs where it is known.
fn compare(sweep: &Sweep, measured: &[Vec<Measured>]) -> String {
    let mut text = String::new();
    let [fermat, flow_radar, loss_radar, ..] = measured else { return text };
    for (against, other) in [flow_radar, loss_radar].into_iter().enumerate() {
        let max = |value: fn(&Measured) -> f64| {
            fermat.iter().zip(other).map(|(f, o)| value(o) / value(f)).fold(0.0, f64::max)
        };
        let [memory, time] = [max(Measured::bytes), max(Measured::median_ms)];
        writeln!(
            text,
            "{},{},{memory:.1},{},{time:.1},{}",
            sweep.number,
            other[0].sketch.key(),
            sweep.paper[0][against],
            sweep.paper[1][against]
        )
        .expect("a string takes all");
    }
    text
}

pub const COMPARISON: &str = "figure,than,less_memory_times_at_most,paper,less_time_times_at_most,paper\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_print_tells_the_trials_that_were_made() {
        let min = |trials| Least { width: 10, too_short: 9, trials, failures: 0 };
        let measured =
            |trials| Measured { sketch: Sketch::Fermat, items: 1, min: min(trials), times: vec![], exact: None };
        let text = |index, trials: &[u32]| note(index, &[trials.iter().map(|&n| measured(n)).collect()], false);
        assert!(text(0, &[100]).contains("none of 100 trials fails"), "{}", text(0, &[100]));
        assert!(text(0, &[10_000, 300]).contains("99.9 % of 300 to 10000 trials decode"));
        assert!(!text(1, &[100]).contains("trials") && !text(0, &[100]).contains("Hollow"));
        assert!(note(0, &[vec![measured(100)]], true).contains("Hollow"));
    }
}
