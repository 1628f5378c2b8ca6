//! PINT's Figure 9: the error of latency quantiles, against the packets of a flow and the space of
//! a sketch.

use std::fmt::Write as _;

use anyhow::Result;
use weir::pisa::hash::HashFamily;
use weir::program::pint::compress::Range;
use weir::program::pint::dataplane::MAX_HOPS;
use weir::program::pint::query::{Query, Value};
use weir::program::pint::samples::Samples;
use weir::program::pint::values::dataplane::ValueCode;
use weir::trace::SplitMix64;

use super::super::experiment::Trials;
use super::super::plot::{Axis, Curve, Figure, Panel};

/// Switches on the longest paths of the paper's fat tree.
const HOPS: usize = 5;

/// Packets of a flow, when the space of the sketch is what changes, as the paper has it.
const PACKETS: usize = 500;

/// Bytes of a sketch, when the packets are what changes: a hundred digests.
const SPACE: u32 = 100;

/// Flows of a seed.
const FLOWS: usize = 40;

/// Flow sizes in bytes, with the percentage of flows up to each.
type Sizes = &'static [(f64, f64)];

/// The workloads that the paper has.
const WEB_SEARCH: Sizes = &[
    (0.0, 0.0),
    (10e3, 15.0),
    (20e3, 20.0),
    (30e3, 30.0),
    (50e3, 40.0),
    (80e3, 53.0),
    (200e3, 60.0),
    (1e6, 70.0),
    (2e6, 80.0),
    (5e6, 90.0),
    (10e6, 97.0),
    (30e6, 100.0),
];
const HADOOP: Sizes = &[
    (0.0, 0.0),
    (100.0, 1.0),
    (300.0, 5.0),
    (500.0, 30.0),
    (700.0, 50.0),
    (1e3, 60.0),
    (2e3, 67.0),
    (7e3, 70.0),
    (30e3, 72.0),
    (50e3, 82.0),
    (120e3, 90.0),
    (300e3, 95.0),
    (1e6, 97.5),
    (2e6, 99.0),
    (10e6, 100.0),
];

/// A queue in a switch, as one of its flows meets it: the time that a packet takes from its
/// reception until it leaves. Other flows arrive at random (Poisson), each at a host's rate.
struct Queue {
    sizes: Sizes,
    /// When each of the flows that send ends, in nanoseconds.
    senders: Vec<f64>,
    next: f64,
    now: f64,
    backlog: f64,
    rng: SplitMix64,
}

/// Bits a nanosecond of the output, and of a host: 100 Gb/s and 25 Gb/s.
const OUTPUT: f64 = 100.0;
const HOST: f64 = 25.0;

/// The share of the output that other flows take.
const LOAD: f64 = 0.7;

/// Bytes for which a queue has room.
const ROOM: f64 = 1e6;

/// Nanoseconds that a packet takes in an empty switch.
const EMPTY: f64 = 1000.0;

impl Queue {
    fn new(sizes: Sizes, seed: u64) -> Self {
        let mut queue =
            Self { sizes, senders: Vec::new(), next: 0.0, now: 0.0, backlog: 0.0, rng: SplitMix64::new(seed) };
        // Until it has forgotten that it began empty.
        queue.pass(50e6);
        queue
    }

    fn mean(&self) -> f64 {
        let part = |pair: &[(f64, f64)]| (pair[1].1 - pair[0].1) / 100.0 * (pair[0].0 + pair[1].0) / 2.0;
        self.sizes.windows(2).map(part).sum()
    }

    fn size(&mut self) -> f64 {
        let percent = 100.0 * self.rng.unit();
        let pair = self.sizes.windows(2).find(|pair| percent <= pair[1].1).unwrap_or(&self.sizes[..2]);
        let share = (percent - pair[0].1) / (pair[1].1 - pair[0].1);
        pair[0].0 + share * (pair[1].0 - pair[0].0)
    }

    /// Advances the queue by this time, step by step from one begin or end of a flow to the next.
    fn pass(&mut self, nanoseconds: f64) {
        let until = self.now + nanoseconds;
        while self.now < until {
            let ends = self.senders.iter().copied().fold(f64::INFINITY, f64::min);
            let event = until.min(ends).min(self.next);
            let rate = self.senders.len() as f64 * HOST - OUTPUT;
            self.backlog = (self.backlog + (event - self.now) * rate / 8.0).clamp(0.0, ROOM);
            self.now = event;
            self.senders.retain(|end| *end > event);
            if event >= self.next {
                let size = self.size();
                self.senders.push(event + 8.0 * size / HOST);
                let interval = 8.0 * self.mean() / (OUTPUT * LOAD);
                self.next = event - interval * (1.0 - self.rng.unit()).ln();
            }
        }
    }

    fn latency(&self) -> u32 {
        (EMPTY + 8.0 * self.backlog / OUTPUT) as u32
    }
}

/// The times that codes tell apart: those that such a queue has.
const RANGE: Range = Range { from: 1_000, to: 100_000 };

/// How samples are carried and kept.
struct Kept {
    name: &'static str,
    bits: u32,
    sketched: bool,
}

const SCHEMES: [Kept; 4] = [
    Kept { name: "8 bits", bits: 8, sketched: false },
    Kept { name: "8 bits, sketch", bits: 8, sketched: true },
    Kept { name: "4 bits", bits: 4, sketched: false },
    Kept { name: "4 bits, sketch", bits: 4, sketched: true },
];

/// A flow's packets, with what each hop has for each of them.
struct Flow {
    identities: Vec<u32>,
    latencies: Vec<[u32; HOPS]>,
}

impl Flow {
    /// A packet each 10 µs: the flow has 0.8 Gb/s of packets of 1000 bytes.
    fn new(sizes: Sizes, packets: usize, rng: &mut SplitMix64) -> Self {
        let mut queues: [Queue; HOPS] = std::array::from_fn(|_| Queue::new(sizes, rng.next_u64()));
        let latencies = (0..packets).map(|_| {
            queues.each_mut().map(|queue| {
                queue.pass(10_000.0);
                queue.latency()
            })
        });
        let latencies = latencies.collect();
        Self { identities: (0..packets).map(|_| rng.next_u64() as u32).collect(), latencies }
    }

    /// The relative errors of a quantile, one for each hop that some packet told of.
    fn errors(&self, packets: usize, rank: f64, code: &ValueCode, bits: u32, space: Option<u32>) -> Vec<f64> {
        let mut samples: Vec<_> = (0..HOPS).map(|_| Samples::new(bits, space)).collect();
        for (identity, latencies) in self.identities.iter().zip(&self.latencies).take(packets) {
            let digest = (1u8..)
                .zip(latencies)
                .fold(0, |digest, (hop, latency)| code.encode(hop, *identity, (*latency).into(), digest));
            let hop = code.writer(*identity, HOPS).expect("the first hop acts always");
            samples[hop - 1].add(digest);
        }
        let error = |(hop, samples): (usize, &Samples)| {
            let mut exact: Vec<_> = self.latencies[..packets].iter().map(|latencies| latencies[hop]).collect();
            exact.sort_unstable();
            let place = (rank * packets as f64).ceil() as usize;
            let exact = f64::from(exact[place.clamp(1, packets) - 1]);
            let found = code.codes().number(Value::Latency, samples.quantile(rank)?);
            Some((found - exact).abs() / exact)
        };
        samples.iter().enumerate().filter_map(error).collect()
    }
}

const _: () = assert!(HOPS <= MAX_HOPS);

/// The workloads and quantiles that the paper draws.
const PANELS: [(&str, Sizes, f64); 3] =
    [("web search, tail", WEB_SEARCH, 0.99), ("Hadoop, tail", HADOOP, 0.99), ("Hadoop, median", HADOOP, 0.5)];

/// Both rows of Figure 9, and their table. `flows` is less for a trial.
pub fn figures(seeds: usize, quick: bool, progress: impl Fn(&str)) -> Result<([Figure; 2], String)> {
    let flows = if quick { 4 } else { FLOWS };
    let mut lines = String::from("workload,quantile,scheme,packets,space_bytes,error_mean,error_min,error_max,seeds\n");
    let (by_packets, by_space) = ([100, 200, 500, 1000, 2000, 5000], [50, 100, 150, 200, 300]);
    let most = by_packets.into_iter().max().unwrap_or(PACKETS);
    let mut panels = [Vec::new(), Vec::new()];
    for (title, sizes, rank) in PANELS {
        let drawn: Vec<Vec<_>> = (0..seeds as u64)
            .map(|seed| {
                let mut rng = SplitMix64::new(0x6c61_7400 + seed);
                (0..flows).map(|_| Flow::new(sizes, most, &mut rng)).collect()
            })
            .collect();
        let mut curves = [Vec::new(), Vec::new()];
        for (color, Kept { name, bits, sketched }) in SCHEMES.iter().enumerate() {
            let measure = |packets: usize, space: Option<u32>| {
                let seed = |(seed, flows): (u64, &Vec<Flow>)| {
                    let query = Query { bits: *bits, range: RANGE, ..Query::new(Value::Latency) };
                    let code = ValueCode::new(&query, &HashFamily::reproducible(seed)).expect("a latency has codes");
                    let errors = flows.iter().flat_map(|flow| flow.errors(packets, rank, &code, *bits, space));
                    let errors: Vec<_> = errors.collect();
                    errors.iter().sum::<f64>() / errors.len().max(1) as f64
                };
                (0..).zip(&drawn).map(seed).collect::<Vec<_>>()
            };
            let mut points = [Vec::new(), Vec::new()];
            for packets in by_packets {
                points[0].push((packets, packets, sketched.then_some(SPACE)));
            }
            for space in by_space {
                points[1].push((space as usize, PACKETS, sketched.then_some(space)));
            }
            for (curves, points) in curves.iter_mut().zip(points) {
                let mut measured = Vec::new();
                for (x, packets, space) in points {
                    let trials = Trials::of(&measure(packets, space));
                    if let Some(Trials { mean, min, max, count }) = &trials {
                        let space = space.map_or_else(String::new, |space| space.to_string());
                        let name = name.replace(", ", " ");
                        let title = title.split(',').next().unwrap_or_default();
                        writeln!(lines, "{title},{rank},{name},{packets},{space},{mean:.4},{min:.4},{max:.4},{count}")?;
                    }
                    measured.push((x as f64, trials));
                }
                curves.push(Curve::percent(name, color, measured));
            }
            progress(&format!("{title}, {name}"));
        }
        for (panels, curves) in panels.iter_mut().zip(curves) {
            panels.push(Panel { title: title.into(), order: "", zoom: None, curves });
        }
    }
    let figure = |name, title: &str, x: Axis, panels| Figure {
        name,
        title: format!("PINT: error of latency quantiles, {title}"),
        note: "Mean over hops and flows; the lines' ranges are over seeds. The paper prints no numbers.".into(),
        x,
        y: Axis::new("relative error (%)", "error_percent"),
        panels,
    };
    let [packets, space] = panels;
    let figures = [
        figure(
            "pint_latency_packets",
            "sketches of 100 bytes",
            Axis::new("packets of the flow", "packets").log(),
            packets,
        ),
        figure(
            "pint_latency_space",
            "flows of 500 packets",
            Axis::new("bytes of a hop's sketch", "space_bytes"),
            space,
        ),
    ];
    Ok((figures, lines))
}
