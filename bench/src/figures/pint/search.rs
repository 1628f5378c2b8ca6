//! The search for the layers with which paths of a length take the fewest packets, by bits and
//! instances: what [`Layers::of_length`] rests on.

use std::fmt::Write as _;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use weir::program::pint::encoding::Layers;

use super::runs::{Packets, Pint, random_path};
use super::shares;

/// Typical lengths of paths, and candidates for each hop: those of a fat tree of K = 8, and of
/// Kentucky Datalink.
const LENGTHS: [(usize, usize); 6] = [(5, 80), (10, 753), (16, 753), (25, 753), (36, 753), (59, 753)];

/// Bits and instances.
const DIGESTS: [(u32, u32); 6] = [(1, 1), (2, 1), (4, 1), (4, 2), (8, 1), (8, 2)];

/// Shares of the baseline layer, of which a TCAM has three entries at most, and hops of a path of the typical length that act in an xor layer: their
/// probability is that number divided by the length, up to a largest one.
const BASELINES: [f64; 7] = [0.25, 0.375, 0.5, 0.625, 0.6875, 0.75, 0.875];
const ACTING: [f64; 7] = [2.0, 3.0, 3.75, 4.5, 5.5, 7.0, 9.0];
const MAX_PROBABILITY: f64 = 0.8;

/// The same of two xor layers.
const PAIRS: [[f64; 2]; 6] = [[2.0, 8.0], [2.5, 7.0], [2.5, 10.0], [3.0, 12.0], [3.5, 14.0], [4.5, 11.0]];

/// What a trial is made for.
#[derive(Clone, Copy)]
struct Case {
    bits: u32,
    instances: u32,
    typical: usize,
    switches: usize,
}

impl Case {
    /// The lengths of paths in halves of the typical one, and how much each counts.
    const HALVES: [(usize, f64); 3] = [(1, 0.25), (2, 0.5), (3, 0.25)];

    /// Layers with what paths of each length take.
    fn try_all(self, layers: Vec<Layers>, runs: usize) -> Vec<Tried> {
        let lengths = Self::HALVES.map(|(halves, _)| (halves * self.typical).div_ceil(2));
        let points: Vec<_> = layers.iter().flat_map(|layers| lengths.map(|hops| (layers, hops))).collect();
        let packets = run(points.len(), |number| {
            let (layers, hops) = points[number];
            let Self { bits, instances, switches, .. } = self;
            let pint = Pint { bits, instances, layers: layers.clone(), switches, links: None };
            pint.run(runs, random_path(switches, hops))
        });
        let mut packets = packets.into_iter();
        let one = |layers| {
            let of = packets.by_ref().take(lengths.len()).collect::<Vec<_>>();
            let score = |(packets, (_, weight)): (&Packets, (usize, f64))| {
                weight * (packets.mean() * packets.quantile(0.99) as f64).sqrt().ln()
            };
            let score = of.iter().zip(Self::HALVES).map(score).sum::<f64>().exp();
            Tried { layers, score, packets: lengths.into_iter().zip(of).collect() }
        };
        layers.into_iter().map(one).collect()
    }
}

/// Layers, and what paths of each length took.
struct Tried {
    layers: Layers,
    /// The geometric mean over lengths, of which mean and 99th percentile count alike.
    score: f64,
    packets: Vec<(usize, Packets)>,
}

impl Tried {
    fn lines(&self, case: Case, of: &str) -> Result<String> {
        let Case { bits, instances, typical, switches } = case;
        let mut text = String::new();
        for (hops, packets) in &self.packets {
            write!(text, "{bits},{instances},{typical},{of},{},{hops},{switches},", shares(&self.layers))?;
            let (mean, tail, runs) = (packets.mean(), packets.quantile(0.99), packets.runs());
            writeln!(text, "{mean:.2},{tail},{},{runs},{:.2}", packets.wrong, self.score)?;
        }
        Ok(text)
    }
}

/// All points of a grid of one xor layer and of one of two, and weir's own.
pub fn table(runs: usize, progress: impl Fn(&str) + Sync) -> Result<String> {
    let mut text = String::from(
        "bits,instances,path_length,of,tau_baseline,xor_probabilities,hops,candidate_switches,packets_mean,\
         packets_p99,wrong_paths,runs,score\n",
    );
    for (bits, instances) in DIGESTS {
        for (typical, switches) in LENGTHS {
            let case = Case { bits, instances, typical, switches };
            let probability = |acting: f64| (acting / typical as f64).min(MAX_PROBABILITY);
            let mut probabilities = ACTING.map(probability).to_vec();
            probabilities.dedup();
            let of_baseline = |baseline: f64| probabilities.iter().map(move |p| Layers { baseline, xor: vec![*p] });
            let mut tried = case.try_all(BASELINES.into_iter().flat_map(of_baseline).collect(), runs);
            tried.sort_by(|a, b| a.score.total_cmp(&b.score));
            let pair = |baseline: f64| {
                PAIRS.into_iter().map(move |pair| Layers { baseline, xor: pair.map(probability).into() })
            };
            let mut pairs = case.try_all(BASELINES.into_iter().flat_map(pair).collect(), runs);
            pairs.sort_by(|a, b| a.score.total_cmp(&b.score));
            // These are the numbers of docs/pint.md.
            let own = case.try_all(vec![Layers::of_length(typical as u32, bits)], 10 * runs);
            for (of, tried) in [("one xor layer", &tried), ("two xor layers", &pairs), ("weir's", &own)] {
                for tried in tried {
                    text += &tried.lines(case, of)?;
                }
                let Some(best) = tried.first() else { continue };
                progress(&format!(
                    "{bits} × {instances}, {typical} hops, {of}: {} {:.1}",
                    shares(&best.layers),
                    best.score
                ));
            }
        }
    }
    Ok(text)
}

/// The packets of so many points, several at a time.
fn run(points: usize, of: impl Fn(usize) -> Packets + Sync) -> Vec<Packets> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= points {
                return;
            }
            let packets = of(number);
            found.lock().unwrap_or_else(PoisonError::into_inner).push((number, packets));
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| (0..cores).for_each(|_| _ = scope.spawn(work)));
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, packets)| packets).collect()
}
