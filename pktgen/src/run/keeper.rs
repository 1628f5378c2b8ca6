//! The thread that joins the cores' truth, writes it, and asks a switch about it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use pktgen::truth::{Closed, Collector, EpochTruth, ScoreSummary, Scorer};
use weir::wire::Flow;

/// How long the last epochs' answers are waited for.
const ANSWERS: Duration = Duration::from_secs(5);

/// What the thread found.
#[derive(Debug)]
pub struct Kept {
    /// Frames that came too late to be counted with their epoch.
    pub late_packets: u64,
    pub score: Option<ScoreSummary>,
}

pub struct Keeper {
    thread: JoinHandle<Result<Kept>>,
    /// Means until now, for the terminal.
    pub score: Arc<Mutex<ScoreSummary>>,
}

impl Keeper {
    /// Starts the thread; it ends when all cores are done.
    pub fn start(
        cores: u32,
        flows: Vec<Flow>,
        file: Option<&Path>,
        scorer: Option<Scorer>,
    ) -> Result<(Self, Sender<Closed>)> {
        let create = |path: &Path| File::create(path).with_context(|| path.display().to_string());
        let work = Work { file: file.map(create).transpose()?.map(BufWriter::new), scorer, score: Arc::default() };
        let score = work.score.clone();
        let (to, from) = channel();
        let thread = std::thread::Builder::new().name("pktgen-truth".into());
        let thread = thread.spawn(move || work.run(Collector::new(cores, flows), &from))?;
        Ok((Self { thread, score }, to))
    }

    pub fn finish(self) -> Result<Kept> {
        self.thread.join().map_err(|_| anyhow!("the truth's thread has died"))?
    }
}

struct Work {
    file: Option<BufWriter<File>>,
    scorer: Option<Scorer>,
    score: Arc<Mutex<ScoreSummary>>,
}

impl Work {
    fn run(mut self, mut collector: Collector, from: &Receiver<Closed>) -> Result<Kept> {
        while !collector.is_done() {
            let Ok(closed) = from.recv() else { break };
            if let Some(truth) = collector.take(closed) {
                self.keep(&truth)?;
            }
        }
        let mut newest = None;
        for truth in collector.rest() {
            newest = Some(truth.epoch);
            self.keep(&truth)?;
        }
        if let Some(file) = &mut self.file {
            file.flush().context("the truth's file")?;
        }
        let end = Instant::now() + ANSWERS;
        while let Some(scorer) = &mut self.scorer
            && scorer.waits_for().max(newest) > scorer.scored_until()
            && Instant::now() < end
        {
            scorer.ask()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        let score = self.scorer.as_ref().map(Scorer::summary);
        Ok(Kept { late_packets: collector.late_packets, score })
    }

    fn keep(&mut self, truth: &EpochTruth) -> Result<()> {
        if let Some(file) = &mut self.file {
            truth.write(file).context("the truth's file")?;
        }
        if let Some(scorer) = &mut self.scorer {
            scorer.learn(truth);
            scorer.ask()?;
            *self.score.lock().unwrap_or_else(PoisonError::into_inner) = scorer.summary();
        }
        Ok(())
    }
}
