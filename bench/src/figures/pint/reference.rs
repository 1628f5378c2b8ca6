//! Weir's inference at the points of a simulation of the scheme as the paper's text has it, packet by
//! packet: with the layers of that simulation, and with weir's own.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use weir::program::pint::encoding::Layers;

use super::runs::{Packets, Pint, random_path};
use super::{seeded, shares};

/// The simulation's points.
const REFERENCE: &str = include_str!("../../../data/pint_path_packets.csv");

/// Differences of so many standard errors are named.
const ERRORS: f64 = 2.0;

pub fn table(trials: usize, progress: impl Fn(&str)) -> Result<String> {
    let mut text = String::from(
        "hops,candidate_switches,hashes,bits,layers,tau_baseline,xor_probabilities,packets_mean,mean_min,mean_max,\
         packets_p50,packets_p99,p99_min,p99_max,wrong_paths,runs,seeds,reference_mean,reference_p50,reference_p99,\
         mean_over_percent,mean_error_percent,p99_over_percent,p99_error_percent,beyond_errors\n",
    );
    let mut defaults = BTreeMap::new();
    for line in REFERENCE.lines().skip(1) {
        let fields: Vec<f64> = line.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [hops, switches, instances, bits, baseline, p, _, mean, p50, p99] = fields[..] else { continue };
        let [hops, switches, instances, bits] = [hops, switches, instances, bits].map(|number| number as usize);
        let run = |layers: &Layers| {
            let (bits, instances) = (bits as u32, instances as u32);
            let pint = Pint { bits, instances, layers: layers.clone(), switches, links: None };
            pint.run_seeds(trials, random_path(switches, hops))
        };
        let default = Layers::of_length(hops as u32, bits as u32);
        let place = format!("{hops},{switches},{instances},{bits}");
        let theirs = Layers { baseline, xor: vec![p] };
        let of_default = &*defaults.entry(place.clone()).or_insert_with(|| run(&default));
        let of_theirs = run(&theirs);
        for (name, layers, ours) in [("the reference's", theirs, &of_theirs), ("weir's", default, of_default)] {
            let over = [
                beside(ours.all.mean(), mean, ours.all.mean_error()),
                beside(ours.all.quantile(0.99) as f64, p99, tail_error(&ours.all)),
            ];
            let beyond = if over.iter().any(|[over, error]| *over > ERRORS * error) { "worse" } else { "" };
            let over = over.map(|[over, error]| format!("{over:.2},{error:.2}")).join(",");
            let numbers = format!("{},{},{mean},{p50},{p99},{over},{beyond}", shares(&layers), seeded(ours));
            writeln!(text, "{place},{name},{numbers}")?;
            progress(&format!("{place}, {name}: {numbers}"));
        }
    }
    Ok(text)
}

/// At least half a packet: percentiles are whole numbers.
fn tail_error(packets: &Packets) -> f64 {
    packets.quantile_error(0.99).max(0.5)
}

/// By how many percent of the reference a number is over it, and the standard error of that: the
/// reference, of as many runs, is taken to have the same.
fn beside(ours: f64, reference: f64, error: f64) -> [f64; 2] {
    [ours / reference - 1.0, 2f64.sqrt() * error / reference].map(|share| 100.0 * share)
}
