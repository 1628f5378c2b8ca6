//! The runs behind PINT's Figures 7 and 8, and what is kept of each.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use weir::trace::Cdf;

use crate::hpcc::{Completion, Kept, Network, Picos, Telemetry, Totals, Tree, parameters, poisson};

/// One run. Runs with the same tree, sizes, load, time and seed have the same flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    pub tree: Tree,
    pub sizes: Cdf,
    /// Payload of the flows, in percent of the hosts' links.
    pub load: u32,
    pub telemetry: Telemetry,
    /// Time in which flows begin.
    pub duration: Picos,
    pub seed: u64,
    /// Packets that are kept of each of some flows.
    pub kept: usize,
}

/// Parts into which the flows are divided by size, each with a tenth of them.
pub const PARTS: usize = 10;

/// The flows of one part.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Time of a flow divided by its time alone, in ascending order.
    slowdowns: Vec<f64>,
}

impl Part {
    pub fn flows(&self) -> usize {
        self.slowdowns.len()
    }

    /// The slowdown that this share of the flows does not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let at = (share * self.slowdowns.len() as f64) as usize;
        self.slowdowns.get(at.min(self.slowdowns.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }
}

pub struct Run {
    pub job: Job,
    pub parts: [Part; PARTS],
    /// Payload by time, the mean over all flows of more than 10 MB in Gbit/s, and their number.
    pub goodput: f64,
    pub long_flows: usize,
    pub totals: Totals,
    /// Flows of which packets are kept.
    pub kept: Vec<Kept>,
}

/// The largest size of each part's flows.
pub fn ends(sizes: Cdf) -> [f64; PARTS] {
    std::array::from_fn(|part| sizes.quantile((part + 1) as f64 / PARTS as f64))
}

const LONG: u32 = 10_000_000;

impl Job {
    fn run(self) -> Run {
        let arrivals = poisson(&self.tree, self.sizes, f64::from(self.load) / 100.0, self.duration, self.seed);
        let parameters = parameters(self.tree.host_byte);
        let network = Network::new(self.tree, self.telemetry, parameters, &arrivals, self.seed);
        let (mut flows, totals, kept) = network.keep(self.kept).run();
        // The first flows find the network empty, and the last ones are left alone.
        let measured = self.duration / 5..self.duration * 4 / 5;
        flows.retain(|flow| measured.contains(&flow.arrival.at));
        let ends = ends(self.sizes);
        let mut parts: [Part; PARTS] = Default::default();
        for flow in &flows {
            let part = ends.partition_point(|end| *end < f64::from(flow.arrival.bytes)).min(PARTS - 1);
            parts[part].slowdowns.push((flow.time as f64 / flow.alone as f64).max(1.0));
        }
        parts.iter_mut().for_each(|part| part.slowdowns.sort_by(f64::total_cmp));
        let long: Vec<_> = flows.iter().filter(|flow| flow.arrival.bytes > LONG).map(rate).collect();
        let goodput = long.iter().sum::<f64>() / long.len() as f64;
        Run { job: self, parts, goodput, long_flows: long.len(), totals, kept }
    }
}

/// Payload by time, in Gbit/s.
fn rate(flow: &Completion) -> f64 {
    f64::from(flow.arrival.bytes) * 8000.0 / flow.time as f64
}

/// Runs all jobs on all cores, and gives the runs in the order of the jobs.
pub fn all(jobs: &[Job], say: impl Fn(&Run) + Sync) -> Vec<Run> {
    let (next, runs) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((number, job)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, jobs.get(i)?)))
        {
            let run = job.run();
            say(&run);
            runs.lock().expect("no run panics").push((number, run));
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    let mut runs = runs.into_inner().expect("no run panics");
    runs.sort_by_key(|(number, _)| *number);
    runs.into_iter().map(|(_, run)| run).collect()
}
