//! `pktgen conversations`: holds the TCP conversations of a capture between two ports.

mod options;
mod report;

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use pktgen::conversations::{Conversations, Scripts};
use pktgen::engine::{Pair, PairPlan, PairProgress};
use pktgen::pace::Schedule;
use weir::cli::signals;

use crate::Failure;
use crate::run::{LINK, print};
pub use options::Arguments;
use report::Report;

/// How often the terminal shows something new.
const INTERVAL: Duration = Duration::from_millis(500);

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.pcap;
    let scripts = Scripts::open(path).with_context(|| path.display().to_string())?;
    for line in scripts.extracted().text() {
        crate::say(format_args!("pktgen: {line}"));
    }
    let settings = arguments.settings(&scripts)?;
    let stop = signals::stop(signals::clear_line).context("signals")?;
    let mut pair = Pair::open(&arguments.setup())?;
    if !pair.wait_for_link(LINK) {
        crate::say(format_args!("pktgen: a port has no link; frames for it wait until it has"));
    }
    let scripts = Arc::new(scripts);
    let line = Line::new(arguments, &stop);
    let plan = PairPlan {
        schedule: Schedule::new(arguments.pace(), pair.hz(), arguments.seed),
        conversations: arguments.conversations(scripts.all().len()),
        duration: arguments.duration,
        drain: arguments.drain,
        stop: &stop,
    };
    let result = pair.run(Conversations::new(scripts.clone(), settings), plan, |progress| line.show(progress))?;
    drop(line);
    let report = Report::new(arguments, &scripts, &pair, &result);
    print(arguments.json, &report, || report.text())
}

/// A line on the terminal that is written anew.
struct Line<'a> {
    is_on: bool,
    began: Instant,
    shown: std::cell::Cell<Instant>,
    stop: &'a AtomicBool,
}

impl<'a> Line<'a> {
    fn new(arguments: &Arguments, stop: &'a AtomicBool) -> Self {
        let is_on = !arguments.quiet && io::stderr().is_terminal();
        let now = Instant::now();
        Self { is_on, began: now, shown: now.into(), stop }
    }

    fn show(&self, progress: &PairProgress) {
        if !self.is_on || self.shown.get().elapsed() < INTERVAL {
            return;
        }
        self.shown.set(Instant::now());
        let [started, finished, given_up, not_started] =
            [&progress.started, &progress.finished, &progress.given_up, &progress.not_started].map(|n| n.load(Relaxed));
        let open = started.saturating_sub(finished + given_up);
        let seconds = self.began.elapsed().as_secs_f64();
        let ends = if self.stop.load(Relaxed) { "  ends" } else { "" };
        // A terminal that is gone does not end the run.
        let _ = write!(
            io::stderr(),
            "\r{seconds:6.1} s  started {started}  open {open}  finished {finished}  given up {given_up}  not started \
             {not_started}{ends}\x1b[K"
        );
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.is_on {
            signals::clear_line();
        }
    }
}
