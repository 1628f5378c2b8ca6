//! What is told of a run while it goes on: a line, or a full screen, on the terminal; and metrics.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pktgen::engine::{Progress, Watch};
use pktgen::latency::coarse::Times;
use pktgen::pace::Pace;
use pktgen::traffic::FCS;
use pktgen::truth::ScoreSummary;

use super::options::Arguments;
use super::view::View;

/// How often the terminal shows something new.
pub const INTERVAL: Duration = Duration::from_millis(500);

/// A run as others see it.
#[derive(Clone, Debug)]
pub struct Followed {
    pub watch: Arc<Watch>,
    /// What is sent, in words.
    pub traffic: String,
    pub pace: Pace,
    pub duration: Option<Duration>,
    /// Whether frames come back.
    pub receives: bool,
    /// Whether they are known again.
    pub is_signed: bool,
    pub score: Option<Arc<Mutex<ScoreSummary>>>,
}

/// All numbers at a moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    pub progress: Progress,
    /// Packets per second; none where the run has no rate.
    pub asked: Option<f64>,
    pub latency: Times,
    pub lateness: Times,
    pub score: Option<ScoreSummary>,
}

impl Followed {
    pub fn look(&self) -> Look {
        let progress = self.watch.progress();
        let mean = progress.sent_bytes as f64 / progress.sent.max(1) as f64 + f64::from(FCS);
        Look {
            asked: super::asked(self.pace, mean).filter(|_| progress.sent > 0),
            latency: self.watch.latency(),
            lateness: self.watch.lateness(),
            score: self.score(),
            progress,
        }
    }

    fn score(&self) -> Option<ScoreSummary> {
        self.score.as_ref().map(|score| score.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// The terminal beside a run.
pub enum Follower {
    Nothing,
    Line(Box<Line>),
    Screen(Box<View>),
}

/// Whether the terminal shows a full screen.
pub fn is_live(arguments: &Arguments) -> bool {
    arguments.live && !arguments.json && std::io::stdout().is_terminal()
}

impl Follower {
    /// A screen where one is asked for and there is a terminal for it, else a line where there is a
    /// terminal for that.
    ///
    /// # Errors
    /// If the terminal does not do what terminals do.
    pub fn new(arguments: &Arguments, followed: Followed, stop: Arc<AtomicBool>) -> std::io::Result<Self> {
        if is_live(arguments) {
            return Ok(Self::Screen(Box::new(View::open(followed, stop)?)));
        }
        if arguments.quiet || !std::io::stderr().is_terminal() {
            return Ok(Self::Nothing);
        }
        Ok(Self::Line(Box::new(Line { followed, last: Progress::default(), at: Instant::now() })))
    }

    /// Shows what is new, and takes keys.
    pub fn show(&mut self) {
        match self {
            Self::Nothing => {}
            Self::Line(line) => line.show(),
            Self::Screen(view) => {
                if let Err(error) = view.show() {
                    // Without its screen the run goes on.
                    *self = Self::Nothing;
                    crate::say(format_args!("pktgen: --live: {error}"));
                }
            }
        }
    }
}

/// A line that is written anew.
pub struct Line {
    followed: Followed,
    last: Progress,
    at: Instant,
}

impl Line {
    fn show(&mut self) {
        if self.at.elapsed() < INTERVAL {
            return;
        }
        self.at = Instant::now();
        let (now, last) = (self.followed.watch.progress(), self.last);
        let passed = (now.seconds - last.seconds).max(1e-3);
        let rate = |now: u64, before: u64| (now - before.min(now)) as f64 / passed / 1e6;
        let (sent, came) = (rate(now.sent, last.sent), rate(now.came(), last.came()));
        let late = now.late_ns as f64 / 1000.0;
        let score = self.followed.score().map(|score| score.line()).unwrap_or_default();
        // A terminal that is gone does not end the run.
        let _ = write!(
            io::stderr(),
            "\r{:6.1} s  sent {sent:.3} Mpps  received {came:.3} Mpps  late {late:.0} µs  {score}\x1b[K",
            now.seconds
        );
        self.last = now;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}
