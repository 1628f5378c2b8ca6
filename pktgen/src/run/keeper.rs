//! The thread that joins the cores' truth, writes it, and asks a switch about it.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use pktgen::truth::{Closed, Collector, EpochTruth, Held, ScoreSummary, Scorer, TruthFile};
use weir::wire::Flow;

/// How long the last epochs' answers are waited for.
const ANSWERS: Duration = Duration::from_secs(5);

/// How long the truth of an epoch waits for frames that are missing.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same with a score, which follows the run.
const SCORED_PATIENCE: Duration = Duration::from_secs(2);

/// What the thread found.
#[derive(Debug)]
pub struct Kept {
    /// Frames that came more than three epochs after theirs.
    pub late_packets: u64,
    /// Of these, frames that are in no epoch's truth.
    pub unplaced_packets: u64,
    /// Epochs whose counts the cores made faster than they were taken.
    pub unknown_epochs: u64,
    pub score: Option<ScoreSummary>,
    /// The first failure to write or score.
    pub error: Option<anyhow::Error>,
}

/// Bytes of counts that wait to be joined, and the fewest and most of them for each core.
const QUEUED: usize = 256 << 20;
const QUEUE: [usize; 2] = [8, 64];

pub struct Keeper {
    thread: JoinHandle<Kept>,
    /// Means until now, for the terminal.
    pub score: Arc<Mutex<ScoreSummary>>,
}

impl Keeper {
    /// Starts the thread; it ends when all cores are done. `epoch` is their length.
    pub fn start(
        cores: u32,
        epoch: Duration,
        flows: Vec<Flow>,
        file: Option<&Path>,
        scorer: Option<Scorer>,
    ) -> Result<(Self, SyncSender<Closed>)> {
        let create =
            |path: &Path| TruthFile::create(path, epoch.as_nanos() as u64).with_context(|| path.display().to_string());
        let patience = if scorer.is_some() { SCORED_PATIENCE } else { PATIENCE };
        let held = Held::new(patience.as_nanos().div_ceil(epoch.as_nanos().max(1)) as u64);
        let work = Work {
            held,
            missed: Vec::new(),
            file: file.map(create).transpose()?,
            scorer,
            score: Arc::default(),
            error: None,
        };
        let score = work.score.clone();
        let bank = flows.len().max(1) * size_of::<u64>();
        let (to, from) = sync_channel(cores as usize * (QUEUED / bank).clamp(QUEUE[0], QUEUE[1]));
        let thread = std::thread::Builder::new().name("pktgen-truth".into());
        let thread = thread.spawn(move || work.run(Collector::new(cores, flows), &from))?;
        Ok((Self { thread, score }, to))
    }

    pub fn finish(self) -> Result<Kept> {
        self.thread.join().map_err(|_| anyhow!("the truth's thread has died"))
    }
}

struct Work {
    held: Held,
    /// Epochs whose truth is not known.
    missed: Vec<u64>,
    file: Option<TruthFile>,
    scorer: Option<Scorer>,
    score: Arc<Mutex<ScoreSummary>>,
    error: Option<anyhow::Error>,
}

impl Work {
    fn run(mut self, mut collector: Collector, from: &Receiver<Closed>) -> Kept {
        while !collector.is_done() {
            let Ok(closed) = from.recv() else { break };
            let truth = collector.take(closed);
            self.hold(truth, &mut collector);
            self.miss();
            while let Some(truth) = self.held.take_over() {
                self.keep(&truth);
                self.miss();
            }
        }
        let rest = collector.rest();
        self.hold(rest, &mut collector);
        let mut newest = None;
        while let Some(truth) = self.held.pop() {
            newest = Some(truth.epoch);
            self.keep(&truth);
            self.miss();
        }
        if let Some(file) = self.file.take() {
            let finished = file.finish().context("the truth's file");
            self.note(finished);
        }
        if self.error.is_none() {
            let answered = self.wait_for_answers(newest);
            self.note(answered);
        }
        Kept {
            late_packets: collector.late_packets,
            unplaced_packets: collector.nameless_packets + self.held.unplaced(),
            unknown_epochs: collector.unknown_epochs(),
            score: self.scorer.as_ref().map(Scorer::summary),
            error: self.error,
        }
    }

    fn hold(&mut self, truths: impl IntoIterator<Item = EpochTruth>, collector: &mut Collector) {
        truths.into_iter().for_each(|truth| self.held.insert(truth));
        collector.late().into_iter().for_each(|(epoch, flow)| self.held.late(epoch, flow));
        self.missed.extend(collector.missed());
    }

    /// Tells the score of epochs that are unknown, in their order among those that are held.
    fn miss(&mut self) {
        let oldest = self.held.oldest();
        let missed = self.missed.extract_if(.., |epoch| oldest.is_none_or(|oldest| *epoch < oldest));
        missed.for_each(|epoch| self.scorer.iter_mut().for_each(|scorer| scorer.miss(epoch)));
    }

    fn wait_for_answers(&mut self, newest: Option<u64>) -> Result<()> {
        let end = Instant::now() + ANSWERS;
        while let Some(scorer) = &mut self.scorer
            && scorer.waits_for().max(newest) > scorer.scored_until()
            && Instant::now() < end
        {
            scorer.ask()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// The first error is kept; what the cores hand over is taken on.
    fn note(&mut self, result: Result<()>) {
        self.error = self.error.take().or(result.err());
    }

    fn keep(&mut self, truth: &EpochTruth) {
        if self.error.is_none() {
            let kept = self.try_keep(truth);
            self.note(kept);
        } else if let Some(scorer) = &mut self.scorer {
            // It counts as not answered.
            scorer.learn(truth);
        }
    }

    fn try_keep(&mut self, truth: &EpochTruth) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.write(truth).context("the truth's file")?;
        }
        if let Some(scorer) = &mut self.scorer {
            scorer.learn(truth);
            scorer.ask().context("--score")?;
            *self.score.lock().unwrap_or_else(PoisonError::into_inner) = scorer.summary();
        }
        Ok(())
    }
}
