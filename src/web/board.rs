//! The newest frame, made once for all readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, watch};
use tokio::time::sleep_until;

use super::answers::Answers;
use super::frame::Frame;
use super::{Source, sections};
use crate::telemetry::epoch::wall_clock;

/// Time between two frames, at the least.
const EVERY: Duration = Duration::from_millis(500);
/// After a frame there is a pause, this many times as long as the frame took to make.
const PAUSES: u32 = 4;

/// The newest frame, and what makes the next one.
pub struct Board<S> {
    source: Arc<S>,
    newest: watch::Sender<Arc<Frame>>,
    /// Whether frames are made for readers.
    runs: AtomicBool,
    /// Held while a frame is made.
    sections: Mutex<sections::Maker>,
}

impl<S: Source> Board<S> {
    pub fn new(source: Arc<S>) -> Arc<Self> {
        // Numbers of frames go on when the process is started again, so that readers of the former one are
        // given all.
        let newest = watch::Sender::new(Arc::new(Frame::empty(wall_clock() / 1_000_000)));
        let (runs, sections) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { source, newest, runs, sections })
    }

    pub fn source(&self) -> &Arc<S> {
        &self.source
    }

    /// The newest frame, or the next one if that is due.
    pub async fn fresh(&self) -> Arc<Frame> {
        let mut sections = self.sections.lock().await;
        let newest = self.newest.borrow().clone();
        let started = Instant::now();
        if started < newest.due {
            return newest;
        }
        let answers = Answers::ask(&self.source).await;
        let asked = started.elapsed();
        let made = sections.make(&*self.source, &answers);
        let took = started.elapsed();
        tracing::debug!("a frame was made in {took:?}, {asked:?} of that were questions");
        let due = started + EVERY.max(took * (1 + PAUSES));
        let frame = Arc::new(newest.next(made, due));
        self.newest.send_replace(frame.clone());
        frame
    }

    /// The newest frame from now on. The first reader starts the making of frames, which ends with the last.
    pub fn subscribe(self: &Arc<Self>) -> watch::Receiver<Arc<Frame>> {
        let reader = self.newest.subscribe();
        if !self.runs.swap(true, SeqCst) {
            tokio::spawn(self.clone().run());
        }
        reader
    }

    async fn run(self: Arc<Self>) {
        loop {
            while self.newest.receiver_count() > 0 {
                let due = self.fresh().await.due;
                sleep_until(due.into()).await;
            }
            self.runs.store(false, SeqCst);
            // A reader may have come since, and found that frames are made.
            if self.newest.receiver_count() == 0 || self.runs.swap(true, SeqCst) {
                return;
            }
        }
    }
}
