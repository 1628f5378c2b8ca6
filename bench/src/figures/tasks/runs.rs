//! All the runs of Figure 11: every algorithm, memory and seed, two epochs each.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use weir::trace::Keys;

use super::epochs::{CHANGE, Epoch, Epochs, HEAVY, f1, relative_error, workload};
use crate::baseline::{COUNT_ROWS, Cm, Coco, CountHeap, Cu, Elastic, Fcm, HEAP, Mrac, PipeTable, UnivMon};
use crate::figures::experiment::Trials;
use crate::summary::Summary;
use crate::tower_fermat::{Layout, TowerFermat};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Algorithm {
    TowerFermat,
    /// The same, charged for flow IDs of 32 bits as the others are.
    TowerFermat32,
    /// With 8-bit counters only.
    TowerFermat8,
    /// The first with the five-tuples of clients' connections, whose ports are in a row.
    TowerFermatClients,
    Cm,
    Cu,
    CountHeap,
    HashPipe,
    UnivMon,
    Elastic,
    Fcm,
    Coco,
    Mrac,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    HeavyHitters,
    FlowSize,
    HeavyChanges,
    Distribution,
    Entropy,
    Cardinality,
}

/// KB of 1024 bytes.
pub const MEMORY: [usize; 5] = [200, 300, 400, 500, 600];
const SEEDS: u64 = 10;
const QUICK_SEEDS: u64 = 2;

impl Task {
    pub const ALL: [Self; 6] =
        [Self::HeavyHitters, Self::FlowSize, Self::HeavyChanges, Self::Distribution, Self::Entropy, Self::Cardinality];

    /// The algorithms that do it, weir's first.
    pub fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::{
            Cm, Coco, CountHeap, Cu, Elastic, Fcm, HashPipe, Mrac, TowerFermat, TowerFermat8, TowerFermat32,
            TowerFermatClients, UnivMon,
        };
        match self {
            Self::HeavyHitters | Self::HeavyChanges => &[
                TowerFermat,
                TowerFermat8,
                TowerFermat32,
                TowerFermatClients,
                HashPipe,
                Elastic,
                Fcm,
                Coco,
                CountHeap,
                UnivMon,
            ],
            Self::FlowSize => &[TowerFermat, TowerFermat8, TowerFermat32, TowerFermatClients, Elastic, Fcm, Cm, Cu],
            Self::Distribution => &[TowerFermat, TowerFermat8, TowerFermat32, TowerFermatClients, Elastic, Fcm, Mrac],
            Self::Entropy => {
                &[TowerFermat, TowerFermat8, TowerFermat32, TowerFermatClients, Elastic, Fcm, Mrac, UnivMon]
            }
            Self::Cardinality => &[TowerFermat, TowerFermat8, TowerFermat32, TowerFermatClients, Elastic, Fcm, UnivMon],
        }
    }
}

impl Algorithm {
    pub const ALL: [Self; 13] = [
        Self::TowerFermat,
        Self::TowerFermat32,
        Self::TowerFermat8,
        Self::TowerFermatClients,
        Self::Cm,
        Self::Cu,
        Self::CountHeap,
        Self::HashPipe,
        Self::UnivMon,
        Self::Elastic,
        Self::Fcm,
        Self::Coco,
        Self::Mrac,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::TowerFermat => "Tower+Fermat",
            Self::TowerFermat32 => "T+F, charged as 32 bits",
            Self::TowerFermat8 => "T+F, 8-bit counters only",
            Self::TowerFermatClients => "T+F, clients' keys",
            Self::Cm => "CM",
            Self::Cu => "CU",
            Self::CountHeap => "CountHeap",
            Self::HashPipe => "HashPipe",
            Self::UnivMon => "UnivMon",
            Self::Elastic => "Elastic",
            Self::Fcm => "FCM",
            Self::Coco => "Coco",
            Self::Mrac => "MRAC",
        }
    }

    /// The same in all six parts of the figure.
    pub fn color(self) -> usize {
        match self {
            Self::TowerFermat => 0,
            Self::TowerFermat8 => 5,
            Self::TowerFermat32 => 3,
            Self::TowerFermatClients => 9,
            Self::HashPipe | Self::Mrac => 7,
            Self::Elastic => 1,
            Self::Fcm => 2,
            Self::Coco | Self::Cm => 4,
            Self::CountHeap | Self::Cu => 6,
            Self::UnivMon => 8,
        }
    }

    fn keys(self) -> Keys {
        if self == Self::TowerFermatClients { Keys::Clients } else { Keys::Random }
    }

    fn run(self, epochs: &Epochs, bytes: usize, seed: u64) -> Vec<(Task, f64)> {
        match self {
            Self::TowerFermat | Self::TowerFermatClients => {
                judge(self, epochs, || TowerFermat::new(bytes, Layout::PAPER, seed))
            }
            Self::TowerFermat32 => judge(self, epochs, || TowerFermat::new(bytes, Layout::PAPERS_IDS, seed)),
            Self::TowerFermat8 => judge(self, epochs, || TowerFermat::new(bytes, Layout::NARROW, seed)),
            Self::Cm => judge(self, epochs, || Cm::<false>::new(bytes, seed)),
            Self::Cu => judge(self, epochs, || Cu::new(bytes, seed)),
            Self::CountHeap => judge(self, epochs, || CountHeap::<COUNT_ROWS>::new(bytes, HEAP, seed)),
            Self::HashPipe => judge(self, epochs, || PipeTable::new(bytes, seed)),
            Self::UnivMon => judge(self, epochs, || UnivMon::new(bytes, seed)),
            Self::Elastic => judge(self, epochs, || Elastic::new(bytes, seed)),
            Self::Fcm => judge(self, epochs, || Fcm::new(bytes, seed)),
            Self::Coco => judge(self, epochs, || Coco::new(bytes, seed)),
            Self::Mrac => judge(self, epochs, || Mrac::new(bytes, seed)),
        }
    }
}

/// What an algorithm's answers are worth: each task in each epoch, heavy changes once.
fn judge<S: Summary>(algorithm: Algorithm, epochs: &Epochs, sketch: impl Fn() -> S) -> Vec<(Task, f64)> {
    let [before, after] = epochs.both.each_ref().map(|epoch| epoch.feed(sketch(), &epochs.keys));
    let mut values = Vec::new();
    for task in Task::ALL.into_iter().filter(|task| task.algorithms().contains(&algorithm)) {
        if task == Task::HeavyChanges {
            values.push((task, f1(&before.changes(&after, CHANGE), &epochs.changes)));
        } else {
            let both = epochs.both.iter().zip([&before, &after]);
            values.extend(both.map(|(epoch, sketch)| (task, value(task, epoch, sketch))));
        }
    }
    values
}

/// F1 score or error; an answer that cannot be given is wrong by all.
fn value(task: Task, epoch: &Epoch, sketch: &impl Summary) -> f64 {
    let distribution = || sketch.distribution().unwrap_or_default();
    match task {
        Task::HeavyHitters => f1(&sketch.heavy(HEAVY), &epoch.heavy()),
        Task::FlowSize => epoch.size_error(sketch),
        Task::HeavyChanges => f64::NAN,
        Task::Distribution => distribution().error(&epoch.distribution),
        Task::Entropy => {
            let bits = sketch.entropy_bits().unwrap_or_else(|| distribution().entropy_bits());
            relative_error(bits, epoch.distribution.entropy_bits())
        }
        Task::Cardinality => relative_error(sketch.cardinality().unwrap_or(0.0), epoch.sizes.len() as f64),
    }
}

struct Run {
    algorithm: Algorithm,
    kilobytes: usize,
    values: Vec<(Task, f64)>,
}

pub struct Runs {
    runs: Vec<Run>,
    pub seeds: u64,
    /// Of one epoch, the mean over all: flows, flows of [`CHANGE`] packets and more, heavy hitters,
    /// heavy changes.
    pub flows: [f64; 4],
}

impl Runs {
    pub fn new(quick: bool, only: &[Algorithm], mut progress: impl FnMut(&str)) -> Self {
        let seeds = if quick { QUICK_SEEDS } else { SEEDS };
        let setups: Vec<_> = only.iter().flat_map(|&a| MEMORY.map(|kilobytes| (a, kilobytes))).collect();
        let (mut runs, mut flows) = (Vec::new(), [0.0; 4]);
        for seed in 1..=seeds {
            let draw = |keys| {
                let workload = workload(seed, keys, quick);
                progress(&workload.to_string());
                (keys, Epochs::new(workload))
            };
            let drawn = [Keys::Random, Keys::Clients].map(draw);
            // The sizes are the same, whatever the keys.
            let (_, epochs) = &drawn[0];
            for epoch in &epochs.both {
                let candidates = epoch.sizes.values().filter(|&&packets| packets >= CHANGE).count();
                let counts = [epoch.sizes.len(), candidates, epoch.heavy().len(), epochs.changes.len()];
                let share = 2.0 * seeds as f64;
                flows.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count as f64 / share);
            }
            runs.extend(all(&drawn, &setups, seed));
        }
        Self { runs, seeds, flows }
    }

    /// The values of all trials, taken together.
    pub fn trials(&self, algorithm: Algorithm, kilobytes: usize, task: Task) -> Option<Trials> {
        let runs = self.runs.iter().filter(|run| run.algorithm == algorithm && run.kilobytes == kilobytes);
        let values = runs.flat_map(|run| &run.values).filter(|(of, _)| *of == task).map(|(_, value)| *value);
        Trials::of(&values.collect::<Vec<_>>())
    }
}

/// Runs all setups, each on the trace that has its keys, on as many threads as there are cores.
fn all(drawn: &[(Keys, Epochs)], setups: &[(Algorithm, usize)], seed: u64) -> Vec<Run> {
    let (next, runs) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&(algorithm, kilobytes)) = setups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (_, epochs) = drawn.iter().find(|(keys, _)| *keys == algorithm.keys()).expect("both are drawn");
                    let values = algorithm.run(epochs, kilobytes << 10, seed);
                    let run = Run { algorithm, kilobytes, values };
                    runs.lock().expect("no thread panics while it holds the lock").push(run);
                }
            });
        }
    });
    runs.into_inner().expect("all threads have ended")
}
