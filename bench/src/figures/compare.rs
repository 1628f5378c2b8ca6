//! Our runs beside the authors' simulator on the same workloads, and beside the paper's own
//! figures.

use std::fmt::Write as _;

use weir::trace::Order;

use super::experiment::{Algorithm, Experiment, STAGES, Setup, Trials};
use super::paper::{self, Simulated};

pub struct Row {
    order: Order,
    algorithm: &'static str,
    counters: usize,
    stages: usize,
    k: usize,
    ours: Trials,
    ours_duplicates: f64,
    /// One value for each of their seeds.
    simulator: Vec<f64>,
    simulator_duplicates: f64,
    /// On other traffic.
    paper: Option<f64>,
}

const KB: f64 = 0.0175;

/// A row for each run of the authors' simulator that has a run of ours; seeds of one workload share
/// a row.
pub fn table(e: &Experiment) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for s in paper::simulated() {
        let Some((order, algorithm)) = ours(&s) else { continue };
        let setup = Setup { algorithm, counters: s.counters, stages: s.stages };
        let same = |r: &&mut Row| {
            (r.order, r.algorithm, r.counters, r.stages, r.k) == (order, s.algorithm, s.counters, s.stages, s.k)
        };
        if let Some(row) = rows.iter_mut().find(same) {
            row.simulator.push(s.false_negative);
            continue;
        }
        let Some(found) = e.trials(setup, order, |o| o.score(s.k).map_or(f64::NAN, |x| x.false_negative)) else {
            continue;
        };
        let duplicates = e.trials(setup, order, |o| o.duplicates).map_or(f64::NAN, |t| t.mean);
        rows.push(Row {
            order,
            algorithm: s.algorithm,
            counters: s.counters,
            stages: s.stages,
            k: s.k,
            ours: found,
            ours_duplicates: duplicates,
            simulator: vec![s.false_negative],
            simulator_duplicates: s.duplicates,
            paper: printed(&s),
        });
    }
    rows
}

fn ours(s: &Simulated) -> Option<(Order, Algorithm)> {
    let order = match s.trace.split('/').next() {
        Some("isp") => Order::Uniform,
        Some("burst") => Order::Burst,
        _ => return None,
    };
    let algorithm = match s.algorithm {
        "HashPipe" => Algorithm::HashPipe,
        "HashParallel" => Algorithm::HashParallel,
        "SpaceSaving" => Algorithm::SpaceSaving,
        _ => return None,
    };
    Some((order, algorithm))
}

/// The paper's figure for the same memory and k, if it shows one.
fn printed(s: &Simulated) -> Option<f64> {
    let key = match s.algorithm {
        "HashPipe" if s.stages == STAGES => "hashpipe",
        "HashParallel" => "hashparallel",
        "SpaceSaving" => "space-saving",
        _ => return None,
    };
    let points = paper::memory(key, s.k);
    points.iter().find(|(kb, _)| (kb - s.counters as f64 * KB).abs() < 1e-6).map(|&(_, percent)| percent / 100.0)
}

pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "order,algorithm,counters,stages,k,weir_false_negative,weir_min,weir_max,weir_trials,simulator_false_negative,simulator_trials,\
         paper_false_negative,weir_duplicates,simulator_duplicates\n",
    );
    for r in rows {
        let paper = r.paper.map_or_else(String::new, |p| format!("{p:.4}"));
        let Row { order, algorithm, counters, stages, k, ours, .. } = r;
        let (order, simulator) = (order.name(), mean(&r.simulator));
        let Trials { mean, min, max, count } = ours;
        writeln!(
            text,
            "{order},{algorithm},{counters},{stages},{k},{mean:.4},{min:.4},{max:.4},{count},{simulator:.4},{},{paper},{:.4},{:.4}",
            r.simulator.len(),
            r.ours_duplicates,
            r.simulator_duplicates
        )
        .expect("a string takes all");
    }
    text
}

pub fn text(rows: &[Row]) -> String {
    let mut text = String::from(
        "False negatives in percent. The authors' simulator ran on the same workloads, the paper on CAIDA chunks.\n\n\
         order    algorithm     counters  d    k   weir (range)          simulator    paper   duplicates: weir, simulator\n",
    );
    for r in rows {
        let percent = |x: f64| format!("{:.1}", 100.0 * x);
        let range = format!("({}–{}, {} seeds)", percent(r.ours.min), percent(r.ours.max), r.ours.count);
        let range = if r.ours.count > 1 { range } else { String::new() };
        let simulator: Vec<String> = r.simulator.iter().map(|&x| percent(x)).collect();
        writeln!(
            text,
            "{:8} {:12} {:9} {:2} {:4} {:>6} {:22} {:10} {:>5}   {:>5} {:>5}",
            r.order.name(),
            r.algorithm,
            r.counters,
            r.stages,
            r.k,
            percent(r.ours.mean),
            range,
            simulator.join(", "),
            r.paper.map_or_else(|| "–".to_owned(), percent),
            percent(r.ours_duplicates),
            percent(r.simulator_duplicates)
        )
        .expect("a string takes all");
    }
    text
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
