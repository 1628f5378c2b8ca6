//! Cycles a packet by the work that a packet makes: stages, register memory, flows, frame length.
//! Beside them a model, and what the memory alone allows.

use std::cell::Cell as Counter;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use weir::config::BatchOrderConfig;
use weir::dpdk::{cycles, cycles_per_second};
use weir::switch::Switch;
use weir::trace::Workload;

use super::pass::{FRAME, Machine, Traffic, Way, Write};
use super::{Spread, machine};
use crate::figures::plot::{Axis, Curve, Figure, Panel, Point, Source};
use crate::naive::Oracle;

#[derive(Args)]
pub struct Work {
    /// Rounds; in each, every point is measured once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Packets of a point in a round
    #[arg(long, default_value_t = 2_000_000)]
    packets: u32,
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// Directory for the CSV and SVG files
    #[arg(long, value_name = "DIR", default_value = "out/work")]
    out: PathBuf,
}

/// Flows where their number does not vary.
const FLOWS: u32 = 1_000_000;
/// Stages and slots where they do not vary.
const STAGES: u32 = 6;
const SLOTS: u32 = 4096;
/// Slots of a stage where they vary, the last ones as many as a stage may have.
const SLOT_COUNTS: [u32; 7] = [1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 19];
/// Hardware bits of a slot: an IPv4 five-tuple and a count.
const SLOT_BITS: u64 = 104 + 32;
const HASHPIPE: &str = "HashPipe";
const CHAMELEMON: &str = "ChameleMon";

/// One point of a curve.
struct Measured {
    curve: &'static str,
    x: f64,
    switch: Switch,
    /// Its place in the list of traffics.
    traffic: usize,
    cycles: Vec<f64>,
}

/// Points with one x axis.
struct Sweep {
    name: &'static str,
    title: &'static str,
    axis: Axis,
    points: Vec<Measured>,
}

/// The memory of registers, and cycles of a random read-modify-write in so much.
struct Memory {
    bytes: u64,
    cycles: Vec<f64>,
}

impl Work {
    /// Measures all points in turns, and writes the figures.
    ///
    /// # Errors
    /// If DPDK does not start, or a file cannot be written.
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds: at least one");
        ensure!(self.packets >= FLOWS, "--packets: at least {FLOWS}, one of each flow");
        fs::create_dir_all(&self.out).with_context(|| format!("creating {}", self.out.display()))?;
        let machine = Machine::start(self.core)?;
        let mut traffics = Vec::new();
        let mut sweeps = self.sweeps(&machine, &mut traffics)?;
        let mut memories: Vec<_> = memories().map(|bytes| Memory { bytes, cycles: Vec::new() }).collect();
        for round in 1..=self.rounds {
            for point in sweeps.iter_mut().flat_map(|sweep| &mut sweep.points) {
                point.cycles.push(traffics[point.traffic].pass(Write::Headers, Some(&mut point.switch)));
            }
            memories.iter_mut().for_each(|memory| memory.cycles.push(random_writes(memory.bytes)));
            eprintln!("round {round} of {} done", self.rounds);
        }
        self.report(sweeps, &memories, cycles_per_second(&machine.eal))
    }

    fn workload(&self, flows: u32) -> Result<Workload> {
        Ok(format!("isp/uniform,flows={flows},packets={}", self.packets).parse()?)
    }

    fn sweeps(&self, machine: &Machine, traffics: &mut Vec<Traffic>) -> Result<Vec<Sweep>> {
        let mut traffic = |flows: u32, size: u16| -> Result<usize> {
            let trace = self.workload(flows)?.generate();
            traffics.push(machine.traffic(&format!("p{}", traffics.len()), &Way::default(), &trace, size)?);
            Ok(traffics.len() - 1)
        };
        let standard = traffic(FLOWS, FRAME as u16)?;
        let hashpipe = |stages: u32, slots: u32| format!("hashpipe:stages={stages},slots={slots}");

        let mut stages = vec![point(HASHPIPE, 0.0, &[], standard)?];
        for number in 1..=8 {
            stages.push(point(HASHPIPE, number.into(), &[hashpipe(number, SLOTS)], standard)?);
        }
        let mut memory = Vec::new();
        for slots in SLOT_COUNTS {
            let megabytes = hashpipe_bytes(slots) as f64 / 1e6;
            memory.push(point(HASHPIPE, megabytes, &[hashpipe(STAGES, slots)], standard)?);
        }
        let sets = [
            ("no program", vec![]),
            (HASHPIPE, vec![hashpipe(STAGES, SLOTS)]),
            (CHAMELEMON, vec!["chamelemon".to_owned()]),
            ("both", vec![hashpipe(STAGES, SLOTS), "chamelemon".to_owned()]),
        ];
        let (mut flows, mut sizes) = (Vec::new(), Vec::new());
        for number in [1000, 10_000, 100_000, FLOWS] {
            let at = if number == FLOWS { standard } else { traffic(number, FRAME as u16)? };
            for (name, programs) in &sets {
                flows.push(point(name, number.into(), programs, at)?);
            }
        }
        for size in [64, 128, 256, 512, 1024, 1500] {
            let at = if size == FRAME as u16 { standard } else { traffic(FLOWS, size)? };
            for (name, programs) in &sets {
                sizes.push(point(name, size.into(), programs, at)?);
            }
        }
        let axis = |label, column| Axis::new(label, column).log();
        Ok(vec![
            Sweep {
                name: "work-stages",
                title: "stages",
                axis: Axis::new("stages", "stages").range(0.0, 8.5),
                points: stages,
            },
            Sweep {
                name: "work-memory",
                title: "register memory",
                axis: axis("registers (MB)", "registers_mb"),
                points: memory,
            },
            Sweep { name: "work-flows", title: "flows", axis: axis("flows", "flows"), points: flows },
            Sweep {
                name: "work-size",
                title: "frame length",
                axis: axis("frame (bytes)", "frame_bytes"),
                points: sizes,
            },
        ])
    }

    fn report(&self, sweeps: Vec<Sweep>, memories: &[Memory], hz: u64) -> Result<()> {
        println!("{}, TSC {:.3} GHz; median (least–most) of {} rounds\n", machine(), hz as f64 / 1e9, self.rounds);
        println!("| memory | cycles of a random read-modify-write | M a second |\n| --- | --- | --- |");
        for memory in memories {
            let spread = Spread::of(memory.cycles.clone());
            let millions = hz as f64 / spread.median / 1e6;
            println!("| {:.3} MB | {spread:.1} | {millions:.0} |", memory.bytes as f64 / 1e6);
        }
        let trace = self.workload(FLOWS)?.generate();
        let shapes = (1..=8).map(|stages| (stages, SLOTS)).chain(SLOT_COUNTS.map(|slots| (STAGES, slots)));
        let number = |(stages, slots)| ((stages, slots), accesses(&trace.sequence, stages, slots));
        let model = Model::of(&sweeps[0].points, memories, shapes.map(number).collect());
        println!("\n| stages × slots | cells that a packet accesses |\n| --- | --- |");
        for ((stages, slots), number) in &model.accesses {
            println!("| {stages} × {slots} | {number:.2} |");
        }
        println!(
            "\nModel of HashPipe: {:.1} + accesses × ({:.1} + cycles of a random read-modify-write) cycles a packet",
            model.base, model.access
        );
        for sweep in sweeps {
            println!("\n| {} | curve | TSC cycles a packet | model |\n| --- | --- | --- | --- |", sweep.title);
            for point in &sweep.points {
                let expected = model.expects(&sweep, point).map_or(String::new(), |cycles| format!("{cycles:.1}"));
                let spread = Spread::of(point.cycles.clone());
                println!("| {:.4} | {} | {spread:.1} | {expected} |", point.x, point.curve);
            }
            self.draw(sweep, &model)?;
        }
        Ok(())
    }

    fn draw(&self, sweep: Sweep, model: &Model) -> Result<()> {
        let mut curves: Vec<Curve> = Vec::new();
        for point in &sweep.points {
            let Spread { min, median, max } = Spread::of(point.cycles.clone());
            let drawn = Point { x: point.x, y: median, min, max, trials: self.rounds };
            match curves.iter_mut().find(|curve| curve.name == point.curve) {
                Some(curve) => curve.points.push(drawn),
                None => {
                    let color = curves.len();
                    let name = point.curve.to_owned();
                    curves.push(Curve { name, color, source: Source::Weir, points: vec![drawn] });
                }
            }
        }
        let modelled = |expects: &dyn Fn(&Measured) -> Option<f64>| -> Vec<Point> {
            let of = |point: &Measured| Some((point.x, expects(point)?));
            let points = sweep.points.iter().filter_map(of);
            points.map(|(x, y)| Point { x, y, min: y, max: y, trials: 0 }).collect()
        };
        let of_model = modelled(&|point| model.expects(&sweep, point));
        let memory_alone = modelled(&|point| model.memory_alone(&sweep, point));
        let model_curve = |name: &str, color, points| Curve { name: name.into(), color, source: Source::Model, points };
        if !of_model.is_empty() {
            curves.push(model_curve(HASHPIPE, 0, of_model));
            curves.push(model_curve("memory alone", 6, memory_alone));
        }
        let note = format!(
            "64-byte frames of {FLOWS} flows unless said otherwise; from null port to null port, headers written; \
             HashPipe of {STAGES} × {SLOTS} slots, ChameleMon's defaults; median and range of {} rounds; {}",
            self.rounds,
            machine()
        );
        let panel = Panel { title: String::new(), order: "uniform", zoom: None, curves };
        let figure = Figure {
            name: sweep.name,
            title: format!("Cycles a packet by {}", sweep.title),
            note,
            x: sweep.axis,
            y: Axis::new("TSC cycles a packet", "cycles"),
            panels: vec![panel],
        };
        figure.save(&self.out)
    }
}

fn point(curve: &'static str, x: f64, programs: &[String], traffic: usize) -> Result<Measured> {
    let switch = Way::default().switch(programs, BatchOrderConfig::default())?;
    Ok(Measured { curve, x, switch, traffic, cycles: Vec::new() })
}

fn hashpipe_bytes(slots: u32) -> u64 {
    u64::from(STAGES) * u64::from(slots) * SLOT_BITS / 8
}

/// The memories of the sweep; that of the other sweeps is among them.
fn memories() -> impl Iterator<Item = u64> {
    SLOT_COUNTS.into_iter().map(hashpipe_bytes)
}

/// A cell with a key and a count takes half a cache line at most.
type Cell = [u64; 4];

/// Measures random read-modify-writes in an array of `bytes` bytes. Returns cycles for each. None
/// depends on another.
fn random_writes(bytes: u64) -> f64 {
    const WRITES: u64 = 1 << 20;
    let mut cells: Vec<Cell> = vec![[0; 4]; (bytes as usize / size_of::<Cell>()).max(1)];
    let number = cells.len() as u64;
    let mut pass = |first: u64| {
        let started = cycles();
        for at in first..first + WRITES {
            let cell = (u128::from(mix(at)) * u128::from(number)) >> 64;
            if let Some([key, count, ..]) = cells.get_mut(cell as usize) {
                (*key, *count) = (*key ^ at, *count + 1);
            }
        }
        black_box(&mut cells);
        (cycles() - started) as f64 / WRITES as f64
    };
    // The first pass brings the pages in.
    pass(0);
    pass(WRITES)
}

/// SplitMix64's output function: each bit of the result depends on all bits of the number.
fn mix(number: u64) -> u64 {
    let z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Cycles of a packet through HashPipe: base + accesses × (access + a random read-modify-write).
struct Model {
    base: f64,
    access: f64,
    /// Cells that a packet accesses on average, by stages and slots.
    accesses: Vec<((u32, u32), f64)>,
    /// Cycles of a random read-modify-write by bytes.
    writes: Vec<(u64, f64)>,
    /// Cycles without a program.
    none: f64,
}

/// Cells of HashPipe that a packet of these flows accesses on average, in tables that the same packets
/// have filled before, as in all rounds but the first. A packet whose flow is found, or that finds an
/// empty cell, goes no further.
fn accesses(flows: &[u32], stages: u32, slots: u32) -> f64 {
    let number = Counter::new(0u64);
    let hash = |stage: usize, flow: u32| {
        number.set(number.get() + 1);
        (mix(u64::from(flow) << 8 | stage as u64) % u64::from(slots)) as usize
    };
    let mut oracle = Oracle::new(stages as usize, slots as usize, hash);
    for _ in 0..2 {
        number.set(0);
        flows.iter().for_each(|&flow| oracle.packet(flow, 1));
    }
    number.get() as f64 / flows.len() as f64
}

impl Model {
    /// The line through the points with 1 stage and more, by least squares.
    fn of(points: &[Measured], memories: &[Memory], accesses: Vec<((u32, u32), f64)>) -> Self {
        let median = |cycles: &[f64]| Spread::of(cycles.to_vec()).median;
        let writes: Vec<_> = memories.iter().map(|memory| (memory.bytes, median(&memory.cycles))).collect();
        let mut model = Self { base: 0.0, access: 0.0, accesses, writes, none: median(&points[0].cycles) };
        let of = |point: &Measured| Some((model.accesses(point.x as u32, SLOTS)?, median(&point.cycles)));
        let measured: Vec<_> = points[1..].iter().filter_map(of).collect();
        let (base, slope) = line(&measured);
        let standard = write_cycles(&model.writes, hashpipe_bytes(SLOTS));
        (model.base, model.access) = (base, slope - standard);
        model
    }

    fn accesses(&self, stages: u32, slots: u32) -> Option<f64> {
        self.accesses.iter().find(|(of, _)| *of == (stages, slots)).map(|(_, number)| *number)
    }

    fn accesses_and_write(&self, sweep: &Sweep, point: &Measured) -> Option<(f64, f64)> {
        let (stages, bytes) = match sweep.name {
            "work-stages" if point.x > 0.0 => (point.x as u32, hashpipe_bytes(SLOTS)),
            "work-memory" => (STAGES, (point.x * 1e6).round() as u64),
            _ => return None,
        };
        let slots = if sweep.name == "work-memory" { slots_of(bytes) } else { SLOTS };
        Some((self.accesses(stages, slots)?, write_cycles(&self.writes, bytes)))
    }

    fn expects(&self, sweep: &Sweep, point: &Measured) -> Option<f64> {
        let (accesses, write) = self.accesses_and_write(sweep, point)?;
        Some(self.base + accesses * (self.access + write))
    }

    /// With read-modify-writes that wait for nothing, and nothing else beside them.
    fn memory_alone(&self, sweep: &Sweep, point: &Measured) -> Option<f64> {
        let (accesses, write) = self.accesses_and_write(sweep, point)?;
        Some(self.none + accesses * write)
    }
}

/// Slots of a stage where all have so much memory.
fn slots_of(bytes: u64) -> u32 {
    SLOT_COUNTS.into_iter().min_by_key(|slots| hashpipe_bytes(*slots).abs_diff(bytes)).unwrap_or(SLOTS)
}

/// That of the memory nearest in size.
fn write_cycles(writes: &[(u64, f64)], bytes: u64) -> f64 {
    let nearest = writes.iter().min_by_key(|(of, _)| of.abs_diff(bytes));
    nearest.map_or(0.0, |(_, cycles)| *cycles)
}

/// Offset and slope of the line through these points with the least squared error.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let number = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / number;
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let slope = mean(&|point| (point.0 - x) * (point.1 - y)) / mean(&|point| (point.0 - x).powi(2));
    (y - slope * x, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found() {
        let (offset, slope) = line(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]);
        assert!((offset - 3.0).abs() < 1e-9 && (slope - 2.0).abs() < 1e-9, "{offset} {slope}");
    }

    #[test]
    fn the_nearest_memory_counts() {
        let writes = [(1000, 2.0), (100_000, 9.0)];
        assert_eq!([1, 1000, 40_000, 90_000].map(|bytes| write_cycles(&writes, bytes)), [2.0, 2.0, 2.0, 9.0]);
    }
}
