//! Packets until a path is decided.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use weir::pisa::hash::HashFamily;
use weir::program::pint::dataplane::{Code, Coded};
use weir::program::pint::encoding::Layers;
use weir::program::pint::inference::{Inference, Universe};
use weir::trace::SplitMix64;

use super::super::experiment::Trials;

/// Seeds of a point.
pub const SEEDS: usize = 3;

/// Runs with one family of hashes.
const SHARED: usize = 250;

/// The packets that each of several runs took.
pub struct Packets {
    /// Of each run, in ascending order.
    sorted: Vec<usize>,
    /// Paths that were decided and are not the true ones.
    pub wrong: usize,
}

impl Packets {
    pub fn mean(&self) -> f64 {
        self.sorted.iter().sum::<usize>() as f64 / self.sorted.len() as f64
    }

    /// The number of packets with which this share of the runs is decided.
    pub fn quantile(&self, share: f64) -> usize {
        let at = (share * self.sorted.len() as f64).ceil() as usize;
        self.sorted[at.clamp(1, self.sorted.len()) - 1]
    }

    pub fn runs(&self) -> usize {
        self.sorted.len()
    }

    /// The standard error of the mean.
    pub fn mean_error(&self) -> f64 {
        let (mean, runs) = (self.mean(), self.sorted.len() as f64);
        let squares: f64 = self.sorted.iter().map(|packets| (*packets as f64 - mean).powi(2)).sum();
        (squares / (runs - 1.0).max(1.0) / runs).sqrt()
    }

    /// The standard error of a quantile: half of what lies between the quantiles whose shares are one
    /// standard error of a share less and more.
    pub fn quantile_error(&self, share: f64) -> f64 {
        let error = (share * (1.0 - share) / self.sorted.len() as f64).sqrt();
        (self.quantile((share + error).min(1.0)) - self.quantile(share - error)) as f64 / 2.0
    }
}

/// Packets of runs with several seeds: of all of them, and by seed.
pub struct Seeded {
    pub all: Packets,
    pub means: Trials,
    /// 99th percentiles.
    pub tails: Trials,
}

impl Seeded {
    /// `runs` are divided among the seeds; `run` has a seed and a number of runs.
    pub fn new(runs: usize, run: impl Fn(usize, usize) -> Packets) -> Self {
        let seeds = SEEDS.min(runs.max(1));
        let by_seed: Vec<_> = (0..seeds).map(|seed| run(seed, (runs + seed) / seeds)).collect();
        let of = |number: &dyn Fn(&Packets) -> f64| {
            Trials::of(&by_seed.iter().map(number).collect::<Vec<_>>()).expect("there is a seed")
        };
        let (means, tails) = (of(&Packets::mean), of(&|packets| packets.quantile(0.99) as f64));
        let wrong = by_seed.iter().map(|packets| packets.wrong).sum();
        let mut sorted: Vec<_> = by_seed.into_iter().flat_map(|packets| packets.sorted).collect();
        sorted.sort_unstable();
        Self { all: Packets { sorted, wrong }, means, tails }
    }
}

/// Runs `run` on all cores with numbers below `runs`. It gives the packets of a run, and whether
/// its path is the true one. Each family of hashes is drawn by `family`. Seeds have nothing in
/// common.
fn all<F>(
    seed: usize,
    runs: usize,
    family: impl Fn(u64) -> F + Sync,
    run: impl Fn(&F, &mut SplitMix64) -> (usize, bool) + Sync,
) -> Packets {
    let groups = runs.div_ceil(SHARED);
    let (next, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut packets = Vec::new();
        loop {
            let group = next.fetch_add(1, Ordering::Relaxed);
            if group >= groups {
                return packets;
            }
            let drawn = (seed << 16 | group) as u64;
            let family = family(drawn);
            let mut rng = SplitMix64::new(0x70_696e_7400 + drawn);
            for _ in group * SHARED..runs.min((group + 1) * SHARED) {
                let (needed, right) = run(&family, &mut rng);
                packets.push(needed);
                wrong.fetch_add(usize::from(!right), Ordering::Relaxed);
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let mut sorted: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a run does not panic")).collect()
    });
    sorted.sort_unstable();
    Packets { sorted, wrong: wrong.into_inner() }
}

/// PINT, as it is configured.
#[derive(Clone, Debug)]
pub struct Pint<'a> {
    pub bits: u32,
    pub instances: u32,
    pub layers: Layers,
    /// Candidates for each hop.
    pub switches: usize,
    /// The links between them, where inference knows these.
    pub links: Option<&'a [[usize; 2]]>,
}

impl Pint<'_> {
    /// The packets that `runs` paths take. `path` draws one.
    pub fn run(&self, runs: usize, path: impl Fn(&mut SplitMix64) -> Vec<usize> + Sync) -> Packets {
        self.run_seeded(0, runs, path)
    }

    /// The same with several seeds, among which the runs are divided.
    pub fn run_seeds(&self, runs: usize, path: impl Fn(&mut SplitMix64) -> Vec<usize> + Sync) -> Seeded {
        Seeded::new(runs, |seed, runs| self.run_seeded(seed, runs, &path))
    }

    /// The same with the hashes and paths of one seed.
    pub fn run_seeded(&self, seed: usize, runs: usize, path: impl Fn(&mut SplitMix64) -> Vec<usize> + Sync) -> Packets {
        all(
            seed,
            runs,
            |number| self.drawn(number),
            |(code, universe, switches), rng| {
                let path = path(rng);
                let coded: Vec<_> = path.iter().map(|switch| switches[*switch].clone()).collect();
                let mut inference = Inference::new(code, universe, path.len());
                for packets in 1.. {
                    let identity = rng.next_u64() as u32;
                    inference.add(identity, code.digest(&coded, identity));
                    if let Some(found) = inference.path() {
                        return (packets, found == path);
                    }
                }
                unreachable!("packets do not end")
            },
        )
    }

    /// A code of a family of hashes, with what decodes and encodes by it.
    fn drawn(&self, family: u64) -> (Code, Universe, Vec<Coded>) {
        let code = Code::new(self.bits, self.instances, &self.layers, &HashFamily::reproducible(family));
        let ids: Vec<_> = (0..self.switches as u32).map(|id| id.wrapping_mul(0x9e37_79b9)).collect();
        let universe = Universe::new(&code, ids.iter().copied(), self.links);
        let switches: Vec<_> = ids.into_iter().map(|id| code.switch(id)).collect();
        (code, universe, switches)
    }

    /// Of each number of packets up to `packets`, the hops that are not decided, on average.
    pub fn open_hops(
        &self,
        runs: usize,
        packets: usize,
        path: impl Fn(&mut SplitMix64) -> Vec<usize> + Sync,
    ) -> Vec<f64> {
        let sums = Mutex::new(vec![0; packets]);
        all(
            0,
            runs,
            |number| self.drawn(number),
            |(code, universe, switches), rng| {
                let path = path(rng);
                let coded: Vec<_> = path.iter().map(|switch| switches[*switch].clone()).collect();
                let mut inference = Inference::new(code, universe, path.len());
                let open = (0..packets).map(|_| {
                    let identity = rng.next_u64() as u32;
                    inference.add(identity, code.digest(&coded, identity));
                    inference.hops().filter(Option::is_none).count()
                });
                let open: Vec<_> = open.collect();
                let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
                sums.iter_mut().zip(open).for_each(|(sum, open)| *sum += open);
                (packets, true)
            },
        );
        let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
        sums.into_iter().map(|sum: usize| sum as f64 / runs as f64).collect()
    }
}

/// A random path with this number of switches, without a repetition.
pub fn random_path(switches: usize, length: usize) -> impl Fn(&mut SplitMix64) -> Vec<usize> + Sync {
    move |rng| {
        let mut path = Vec::with_capacity(length);
        while path.len() < length {
            let next = rng.below(switches as u64) as usize;
            if !path.contains(&next) {
                path.push(next);
            }
        }
        path
    }
}

/// The schemes that PINT is compared with, improved by reservoir sampling: each packet carries a
/// mark of a hop drawn uniformly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// A hop's mark is one of 8 fragments, and all are needed.
    Ppm,
    /// A hop's mark is one of 8 hashes; the number of different ones that are needed.
    Ams2(u32),
    /// A packet carries a random combination of the hops' identifiers, each cut into this number
    /// of fragments. A fragment is known when its combinations have full rank.
    LinearCoding { fragments: usize },
}

impl Other {
    pub fn run(self, seed: usize, runs: usize, length: usize) -> Packets {
        all(seed, runs, |_| (), |(), rng| (self.packets(length, rng), true))
    }

    fn packets(self, length: usize, rng: &mut SplitMix64) -> usize {
        match self {
            Self::Ppm => collect(length, 8, rng),
            Self::Ams2(needed) => collect(length, needed, rng),
            Self::LinearCoding { fragments } => combine(length, fragments, rng),
        }
    }
}

/// Packets until each hop has `needed` different marks of 8.
fn collect(length: usize, needed: u32, rng: &mut SplitMix64) -> usize {
    let mut marks = vec![0u8; length];
    let mut lacking = length;
    for packets in 1.. {
        let mark = &mut marks[rng.below(length as u64) as usize];
        let before = mark.count_ones();
        *mark |= 1 << rng.below(8);
        lacking -= usize::from(before < needed && mark.count_ones() == needed);
        if lacking == 0 {
            return packets;
        }
    }
    unreachable!("packets do not end")
}

/// Packets until the combinations of each fragment have full rank.
fn combine(length: usize, fragments: usize, rng: &mut SplitMix64) -> usize {
    // Rows by their highest bit.
    let mut rows = vec![vec![0u64; length]; fragments];
    let mut missing = length * fragments;
    for packets in 1.. {
        let basis = &mut rows[rng.below(fragments as u64) as usize];
        let mut row = rng.next_u64() & (u64::MAX >> (64 - length));
        while row != 0 {
            let own = &mut basis[row.ilog2() as usize];
            if *own == 0 {
                *own = row;
                missing -= 1;
                break;
            }
            row ^= *own;
        }
        if missing == 0 {
            return packets;
        }
    }
    unreachable!("packets do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Means that are known otherwise: coupons, and k + 1.6 combinations.
    #[test]
    fn the_others_take_what_they_must() {
        let near =
            |packets: Packets, mean: f64| assert!((packets.mean() / mean - 1.0).abs() < 0.05, "{}", packets.mean());
        let harmonic = |n: u32| (1..=n).map(|i| 1.0 / f64::from(i)).sum::<f64>();
        near(Other::Ppm.run(0, 2000, 5), 40.0 * harmonic(40));
        near(Other::Ams2(1).run(0, 2000, 25), 25.0 * harmonic(25));
        near(Other::LinearCoding { fragments: 1 }.run(0, 2000, 30), 31.6);
    }

    #[test]
    fn no_path_is_wrong() {
        let pint = Pint { bits: 8, instances: 2, layers: Layers::of_length(10, 8), switches: 100, links: None };
        let packets = pint.run(300, random_path(100, 10));
        assert_eq!((packets.wrong, packets.runs()), (0, 300));
        assert!(packets.mean() < 15.0 && packets.quantile(0.5) <= packets.quantile(0.99));
    }
}
