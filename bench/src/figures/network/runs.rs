//! The simulations behind the figures, each workload and sweep one, run side by side.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result};
use weir::program::chamelemon::EncoderParameters;
use weir::sim::loss::Flows;
use weir::sim::{Setup, Shape, Victims};
use weir::trace::{Workload, WorkloadError};

use crate::edges::{Edges, EdgesReport};

/// The paper's workloads. Its CACHE is Facebook's key-value traffic, which it cites; the thresholds
/// that it reports for it, 2 and 3 packets, would be hundreds with the cache followers of 2015.
pub const WORKLOADS: [(&str, &str); 4] =
    [("DCTCP", "dctcp"), ("CACHE", "keyvalue"), ("VL2", "vl2"), ("HADOOP", "hadoop")];
/// In what order packets come, and what each workload's panel is called in that order.
pub const ORDERS: [&str; 2] = ["uniform", "burst"];
pub const PANELS: [[&str; 2]; 4] = [
    ["DCTCP uniform", "DCTCP burst"],
    ["CACHE uniform", "CACHE burst"],
    ["VL2 uniform", "VL2 burst"],
    ["HADOOP uniform", "HADOOP burst"],
];
/// Flows of VL2 have up to 667 000 packets, 7 600 on average. Above these no T_h was ever chosen
/// for it.
const CUTS: [u32; 4] = [0, 0, 20_000, 0];

/// Of a victim's packets; the paper does not tell its rate. At least one packet is lost of each.
const LOSS_RATE: f64 = 0.01;
/// Epochs at least and at most until a point is taken.
const EPOCHS: std::ops::RangeInclusive<usize> = 4..=10;
/// Epochs between two changes of Figure 9.
pub const PERIOD: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Sweep {
    /// Against the number of flows, a tenth of them victims
    #[value(name = "7")]
    Flows,
    /// Against the share of victims, of 50 000 flows
    #[value(name = "8")]
    Victims,
    /// Against time, with eight changes
    #[value(name = "9")]
    Time,
}

/// An epoch's traffic: flows in thousands, and the share of victims in percent.
pub type Load = (u32, f64);

impl Sweep {
    pub const ALL: [Self; 3] = [Self::Flows, Self::Victims, Self::Time];

    /// The traffic in turn, and where each stands on the figure's axis.
    pub fn loads(self, full: bool) -> Vec<(f64, Load)> {
        let thinned = |i: &u32| full || i % 3 == 1;
        match self {
            Self::Flows => (1..=10).filter(thinned).map(|i| (f64::from(10 * i), (10 * i, 10.0))).collect(),
            Self::Victims => (1..=10).filter(thinned).map(|i| (2.5 * f64::from(i), (50, 2.5 * f64::from(i)))).collect(),
            // What the paper changes stands in a picture only; ours gets worse and better by both.
            Self::Time => {
                let periods = [
                    (10, 5.0),
                    (30, 5.0),
                    (50, 10.0),
                    (50, 25.0),
                    (100, 25.0),
                    (50, 25.0),
                    (50, 10.0),
                    (30, 5.0),
                    (10, 5.0),
                ];
                let epochs = periods.into_iter().flat_map(|load| std::iter::repeat_n(load, PERIOD));
                (1..).map(f64::from).zip(epochs).collect()
            }
        }
    }
}

/// What one point shows.
pub struct Point {
    pub x: f64,
    pub load: Load,
    /// Epochs until nothing changed any more; `None` when something still did.
    pub settled: Option<usize>,
    pub report: EdgesReport,
}

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// Among [`WORKLOADS`] and [`ORDERS`].
    pub workload: usize,
    pub order: usize,
    pub sweep: Sweep,
    pub seed: u64,
}

pub struct Run {
    pub job: Job,
    pub points: Vec<Point>,
}

/// The packets that a workload's flows are cut to, if no others are asked for; 0 cuts none.
pub fn cut(workload: usize, scale: Option<u32>) -> u32 {
    scale.unwrap_or(CUTS[workload])
}

/// Runs what is asked for, one on each core.
pub fn all(jobs: &[Job], scale: Option<u32>, full: bool, say: impl Fn(String) + Sync) -> Result<Vec<Run>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let cores = thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(&job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = one(job, scale, full);
                    say(format!(
                        "{}, Figure {}, seed {}",
                        PANELS[job.workload][job.order],
                        7 + job.sweep as u32,
                        job.seed
                    ));
                    done.lock().expect("no thread panics with it").push(run);
                }
            });
        }
    });
    let mut runs = done.into_inner().expect("no thread panics with it").into_iter().collect::<Result<Vec<_>>>()?;
    runs.sort_by_key(|run| run.job);
    Ok(runs)
}

fn one(job: Job, scale: Option<u32>, full: bool) -> Result<Run> {
    let Job { workload, order, sweep, seed } = job;
    let ((_, law), order, longest) = (WORKLOADS[workload], ORDERS[order], cut(workload, scale));
    let traffic = |flows: u32| {
        let workload = format!("{law}/{order},flows={flows}k,seed={seed}").parse::<Workload>()?;
        Ok::<_, WorkloadError>(Workload { longest, ..workload })
    };
    let mut edges = Edges::new(&setup(traffic(10)?)?)?;
    let mut points = Vec::new();
    for (x, load) in sweep.loads(full) {
        let workload = traffic(load.0)?;
        let victims = Victims { flows: Flows::Share(load.1 / 100.0), rate: LOSS_RATE };
        let mut epoch = || edges.epoch(&workload, Some(victims));
        let (settled, report) = if sweep == Sweep::Time { (None, epoch()?) } else { settle(epoch)? };
        points.push(Point { x, load, settled, report });
    }
    Ok(Run { job, points })
}

/// Lets epochs pass until two that were decoded whole have the same parameters; the paper, too,
/// takes its points when the configuration is stable.
fn settle(mut epoch: impl FnMut() -> Result<EdgesReport>) -> Result<(Option<usize>, EdgesReport)> {
    // The sampling has a seed of its own in every epoch.
    let parameters = |report: &EdgesReport| EncoderParameters { sample_seed: 0, ..report.parameters };
    let mut last: Option<EdgesReport> = None;
    for passed in 1..=*EPOCHS.end() {
        let report = epoch()?;
        let same = last.as_ref().is_some_and(|last| parameters(last) == parameters(&report));
        if passed >= *EPOCHS.start() && same && report.is_decoded() {
            return Ok((Some(passed), report));
        }
        last = Some(report);
    }
    Ok((None, last.context("an epoch has passed")?))
}

fn setup(workload: Workload) -> Result<Setup> {
    Ok(Setup {
        delay: 1000,
        // The paper's sizes are the defaults; it begins with all flows as candidates.
        ..Setup::new(Shape::Testbed.build()?, vec!["chamelemon:hh_threshold=1".parse()?], workload)
    })
}
