//! How ChameleMon's controller keeps up with random traffic: the edge switches of the paper's
//! testbed, measured by the real classifiers and encoders, over scenarios that are drawn from a
//! seed.

mod scenario;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::Result;
use clap::Args;
use scenario::{Load, Outcome, Scenario, Shown};
use weir::program::chamelemon::attention::sizing::{AIM, Sizing};
use weir::program::chamelemon::network::NetworkEpoch;
use weir::sim::loss::Flows;
use weir::sim::{Setup, Shape, Victims};
use weir::trace::Workload;

use crate::edges::Edges;

/// Packets of a flow, on average, of laws that have no mean of their own.
const RANKED: u64 = 12;
/// Flows that tell the mean of a law.
const SAMPLE: u32 = 4000;

/// Random scenarios: workloads in both orders, flows, loss, noise from epoch to epoch, and four
/// changes each of flows, victims and loss rate, alone and together.
#[derive(Args)]
pub struct Random {
    #[arg(long, default_value_t = 200)]
    scenarios: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the scenario of this number
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
    /// Tell of every epoch
    #[arg(long)]
    verbose: bool,
}

impl Random {
    pub fn run(&self) -> Result<()> {
        let numbers = self.only.map_or(0..self.scenarios, |only| only..only + 1);
        let sum = outcome(self.seed, numbers, self.verbose)?;
        println!("{sum}");
        Ok(())
    }
}

/// Runs the scenarios of these numbers, one on each core.
fn outcome(seed: u64, numbers: std::ops::Range<u64>, verbose: bool) -> Result<Outcome> {
    let (next, sum) = (AtomicU64::new(numbers.start), Mutex::new(Outcome::default()));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let work = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return Ok(());
            }
            let of_one = one(number, Scenario::draw(seed << 32 | number, mean), verbose)?;
            sum.lock().expect("no thread panics with it").add(&of_one);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no scenario panics"))
    })?;
    Ok(sum.into_inner().expect("no thread panics with it"))
}

/// Runs one, and tells of it when something is not as it should be.
fn one(number: u64, scenario: Scenario, verbose: bool) -> Result<Outcome> {
    let Scenario { law, order, longest, noise, .. } = scenario;
    let workload = |flows| workload(law, order, longest, flows);
    let mut edges = Edges::new(&setup(Workload { seed: scenario.seed(), ..workload(1)? })?)?;
    let sizing = Sizing::new(weir::program::chamelemon::Config::default().shape());
    let room = sizing.flows(AIM, sizing.most_hl());
    let network = |load: &Load| -> Result<Shown> {
        let victims = Victims { flows: Flows::Share(load.share), rate: load.rate };
        let (network, why) = edges.shift(&workload(load.flows as u32)?, Some(victims))?;
        let fits = edges.generation().victims().count() as f64 <= room;
        let shown = shown(&network, &sizing, fits);
        if verbose {
            println!("{load:?} {shown:?} {why}");
        }
        Ok(shown)
    };
    let outcome = scenario.run(network)?;
    if verbose || !outcome.is_right() {
        let Outcome { absorbed, settled, failed, steady, .. } = &outcome;
        println!(
            "{number}: {law}/{order} longest={longest} noise {:.1} %: changes {absorbed:?}, undisturbed {settled:?}, {failed} of {steady} steady epochs not decoded, {} back, {} states, {} ill",
            100.0 * noise,
            outcome.oscillating,
            outcome.flipping,
            outcome.ill,
        );
    }
    Ok(outcome)
}

fn shown(network: &NetworkEpoch, sizing: &Sizing, fits: bool) -> Shown {
    let parameters = network.parameters;
    let decoded = network.hh_complete() && network.losses.as_ref().is_some_and(|losses| losses.decoded);
    let candidates = network.edges.iter().map(|edge| edge.analysis.candidates()).collect::<Option<Vec<_>>>();
    let max = candidates.map(|candidates| candidates.into_iter().fold(0.0, f64::max));
    Shown { parameters, decoded, fits, load: max.map(|max| sizing.load(max, parameters.partition.hh)) }
}

fn workload(law: &str, order: &str, longest: u32, flows: u32) -> Result<Workload> {
    let packets = match law {
        "isp-scaled" | "zipf1.1" => format!(",packets={}", RANKED * u64::from(flows)),
        _ => String::new(),
    };
    Ok(format!("{law}/{order},flows={flows},longest={longest}{packets}").parse()?)
}

/// Packets of a flow of this law, on average, when flows are cut.
fn mean(law: &'static str, longest: u32) -> f64 {
    let sizes = workload(law, "uniform", longest, SAMPLE).map(|workload| workload.flow_sizes()).unwrap_or_default();
    sizes.iter().map(|&size| f64::from(size)).sum::<f64>() / sizes.len().max(1) as f64
}

fn setup(workload: Workload) -> Result<Setup> {
    Ok(Setup { delay: 1000, ..Setup::new(Shape::Testbed.build()?, vec!["chamelemon".parse()?], workload) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scenarios of a seed that chose nothing: changes are absorbed in time, what stays comes
    /// to rest.
    #[test]
    fn random_traffic_comes_to_rest() {
        let outcome = outcome(20_261_122, 0..1, false).unwrap();
        println!("{outcome}");
        assert_eq!((outcome.absorbed.len(), outcome.periods), (4, 5));
        assert_eq!((outcome.late(), outcome.flipping, outcome.ill), (0, 0, 0), "{outcome}");
        // Nor is a threshold left far too high.
        let used = outcome.loads.iter().filter(|load| **load > 0.4).count();
        assert!(2 * used >= outcome.loads.len(), "{:?}", outcome.loads);
        assert!(outcome.oscillating <= 1 && 100 * outcome.failed <= 2 * outcome.steady, "{outcome}");
    }
}
