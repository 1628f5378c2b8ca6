//! All the runs that the HashPipe figures need, each done once and shared by the figures.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use weir::trace::{Order, Workload};

use super::score::{Input, Outcome, Score};
use crate::baseline::{CountMin, HashParallel, SampleAndHold, SpaceSaving};
use crate::hashpipe::HashPipe;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    HashPipe,
    HashParallel,
    SpaceSaving,
    SampleAndHold,
    CountMin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Setup {
    pub algorithm: Algorithm,
    pub counters: usize,
    pub stages: usize,
}

/// The mean over all trials, and its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trials {
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    pub count: usize,
}

impl Trials {
    /// `None` without trials.
    pub fn of(all: &[f64]) -> Option<Self> {
        let fold = |f: fn(f64, f64) -> f64| all.iter().copied().reduce(f);
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        Some(Self { mean, min: fold(f64::min)?, max: fold(f64::max)?, count: all.len() })
    }
}

pub struct Run {
    pub setup: Setup,
    pub order: Order,
    pub outcome: Outcome,
}

pub struct Experiment {
    pub packets: u64,
    pub flows: u32,
    pub quick: bool,
    runs: Vec<Run>,
}

pub const STAGES: usize = 6;
pub const ORDERS: [Order; 2] = [Order::Burst, Order::Uniform];

/// Counters on the memory axis: the paper's points, 17.5 bytes each.
pub const MEMORY: [usize; 18] =
    [300, 600, 900, 1200, 1500, 1800, 2100, 2400, 3000, 3600, 4200, 4500, 4800, 5100, 5400, 5700, 6000, 6300];

/// Counters and k of the curves of Figure 2.
pub const STAGE_CURVES: [(usize, usize); 4] = [(3360, 140), (5040, 210), (6720, 350), (8400, 420)];

/// Counters of the curves of Figure 6, and its k.
pub const REPORTED_CURVES: [usize; 3] = [1500, 3000, 4500];
pub const REPORTED: [usize; 10] = [5, 10, 20, 40, 60, 80, 100, 120, 140, 150];

/// HashPipe of Figures 9 and 10: 26 KB.
pub const MIDDLE: Setup = Setup { algorithm: Algorithm::HashPipe, counters: 1500, stages: STAGES };

/// Whose k-th count is the count-min cache's threshold.
pub const CACHE_K: usize = 150;

const MORE_KS: [usize; 4] = [210, 300, 350, 420];

/// HashPipe and the baseline that draws lots run on all of them; the others on the first, but where
/// one figure's point hangs on a few hash collisions.
const SEEDS: [u64; 3] = [1, 2, 3];

impl Experiment {
    /// Runs everything; some minutes of one core, half a minute when `quick`.
    pub fn run(quick: bool, mut progress: impl FnMut(&str)) -> Self {
        let (packets, flows) = if quick { (1_000_000, 40_000) } else { (10_000_000, 400_000) };
        let mut runs = Vec::new();
        for order in ORDERS {
            for &seed in if quick { &SEEDS[..1] } else { &SEEDS[..] } {
                let workload = Workload { order, seed, packets, flows, ..Workload::default() };
                progress(&format!("{workload}"));
                let input = Input::new(workload);
                runs.extend(run_all(&input, &setups(seed == SEEDS[0], quick)));
            }
        }
        Self { packets, flows, quick, runs }
    }

    pub fn runs(&self, setup: Setup, order: Order) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |r| r.setup == setup && r.order == order)
    }

    /// A number of each trial, taken together; `None` without trials.
    pub fn trials(&self, setup: Setup, order: Order, number: impl Fn(&Outcome) -> f64) -> Option<Trials> {
        let all: Vec<f64> = self.runs(setup, order).map(|r| number(&r.outcome)).collect();
        Trials::of(&all)
    }
}

impl Outcome {
    pub fn score(&self, k: usize) -> Option<&Score> {
        self.scores.iter().find(|s| s.k == k)
    }
}

/// What is run on one trace, of the first seed or another.
fn setups(first: bool, quick: bool) -> Vec<Setup> {
    use Algorithm::{CountMin, HashParallel, HashPipe, SampleAndHold, SpaceSaving};
    let with = |algorithm, counters, stages| Setup { algorithm, counters, stages };
    let memory = || MEMORY.into_iter().filter(move |m| !quick || m % 1500 == 0 || [300, 600, 1200, 2400].contains(m));
    let mut all: Vec<Setup> = Vec::new();
    for algorithm in [HashPipe, SampleAndHold] {
        all.extend(memory().map(|m| with(algorithm, m, STAGES)));
    }
    if first {
        for algorithm in [HashParallel, SpaceSaving, CountMin] {
            all.extend(memory().map(|m| with(algorithm, m, STAGES)));
        }
    } else {
        all.push(Setup { algorithm: CountMin, ..MIDDLE });
    }
    for counters in STAGE_CURVES.map(|(counters, _)| counters) {
        all.extend((2..=8).map(|d| with(HashPipe, counters, d)));
    }
    // 1200 counters are not in Figure 2, but the authors' simulator has been run with them.
    all.extend([2, 4, 8].map(|d| with(HashPipe, 1200, d)));
    all
}

/// Runs all setups on one trace, on as many threads as there are cores.
fn run_all(input: &Input, setups: &[Setup]) -> Vec<Run> {
    let next = AtomicUsize::new(0);
    let runs = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&setup) = setups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run(input, setup);
                    let run = Run { setup, order: input.order, outcome };
                    runs.lock().expect("no thread panics while it holds the lock").push(run);
                }
            });
        }
    });
    runs.into_inner().expect("all threads have ended")
}

fn run(input: &Input, setup: Setup) -> Outcome {
    let Setup { algorithm, counters, stages } = setup;
    let ks: Vec<usize> = REPORTED.into_iter().chain(MORE_KS).collect();
    let ks = &ks[..];
    match algorithm {
        Algorithm::HashPipe => {
            let pipe = || HashPipe::new(counters, stages, input.seed);
            let outcome = input.judge(pipe(), counters, ks);
            if setup == MIDDLE { Outcome { evicted: input.evicted(pipe()), ..outcome } } else { outcome }
        }
        Algorithm::HashParallel => input.judge(HashParallel::new(counters, stages), counters, ks),
        Algorithm::SpaceSaving => input.judge(SpaceSaving::new(counters), counters, ks),
        Algorithm::SampleAndHold => {
            input.judge(SampleAndHold::new(counters, input.sequence.len(), input.seed), counters, ks)
        }
        Algorithm::CountMin => input.judge(CountMin::new(counters, input.kth(CACHE_K)), counters, ks),
    }
}
