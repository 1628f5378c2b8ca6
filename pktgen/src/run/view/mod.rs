//! `pktgen run --live`: a full screen that follows the run.

mod draw;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use weir::cli::screen::{self, Screen};

use super::follow::{Followed, INTERVAL, Look};

/// Rates that are kept for the picture: ten minutes of them.
const HISTORY: usize = 1200;

/// A run, a moment of it, and what became of it since the moment before.
struct Shown {
    followed: Followed,
    now: Look,
    before: Look,
    /// Packets sent per second, the newest last.
    history: Vec<u64>,
    /// The run was told to end.
    is_ending: bool,
}

impl Shown {
    fn new(followed: Followed) -> Self {
        let now = followed.look();
        Self { followed, before: now.clone(), now, history: Vec::new(), is_ending: false }
    }

    fn take(&mut self, look: Look) {
        self.before = std::mem::replace(&mut self.now, look);
        if self.history.len() >= HISTORY {
            self.history.remove(0);
        }
        self.history.push(self.rate(|look| look.progress.sent) as u64);
    }

    /// A count's change per second since the moment before.
    fn rate(&self, of: fn(&Look) -> u64) -> f64 {
        let passed = self.now.progress.seconds - self.before.progress.seconds;
        of(&self.now).saturating_sub(of(&self.before)) as f64 / passed.max(1e-3)
    }
}

/// The screen of a run.
pub struct View {
    screen: Screen,
    shown: Shown,
    drawn: Option<Instant>,
    stop: Arc<AtomicBool>,
}

impl View {
    /// # Errors
    /// If stdout is not a terminal with a full screen.
    pub fn open(followed: Followed, stop: Arc<AtomicBool>) -> io::Result<Self> {
        Ok(Self { screen: Screen::open()?, shown: Shown::new(followed), drawn: None, stop })
    }

    /// Draws anew when it is time to, and takes keys.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn show(&mut self) -> io::Result<()> {
        let mut is_stale = self.drawn.is_none();
        while let Some(event) = self.screen.event(Duration::ZERO)? {
            is_stale = true;
            if event.is_some_and(ends) {
                self.end();
            }
        }
        self.shown.is_ending = self.stop.load(Relaxed);
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= INTERVAL) {
            self.shown.take(self.shown.followed.look());
            self.drawn = Some(Instant::now());
            is_stale = true;
        }
        if is_stale {
            let shown = &self.shown;
            self.screen.draw(|frame| draw::draw(frame, shown))?;
        }
        Ok(())
    }

    /// The first time the run ends by itself, with its report; the second time at once, as by a
    /// second signal.
    fn end(&mut self) {
        if self.stop.swap(true, Relaxed) {
            screen::give_back();
            signal_hook::low_level::exit(1);
        }
    }
}

/// Whether a key ends the run: the terminal makes no signal of Ctrl-C while the screen is on.
fn ends(key: KeyEvent) -> bool {
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind != KeyEventKind::Release && (interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pktgen::engine::{Progress, Watch};
    use pktgen::latency::coarse::{LiveTimes, Times};
    use pktgen::pace::{Arrivals, Pace, Rate};
    use pktgen::truth::ScoreSummary;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn shown() -> Shown {
        let followed = Followed {
            watch: Arc::new(Watch::new(1)),
            traffic: "1000 flows, frames of 64 bytes".into(),
            pace: Pace::Rate(Rate::Packets(1e6), Arrivals::Constant),
            duration: Some(Duration::from_secs(10)),
            receives: true,
            is_signed: true,
            score: None,
        };
        let latency = LiveTimes::default();
        latency.record_n(5000, 99);
        latency.record_n(80_000, 1);
        let progress = |seconds, sent, received| Progress {
            seconds,
            sent,
            sent_bytes: 60 * sent,
            received,
            duplicates: 3,
            ..Progress::default()
        };
        let score = ScoreSummary { loss_epochs: 2, exact_loss_epochs: 1, ..ScoreSummary::default() };
        let mut shown = Shown::new(followed);
        shown.take(Look { progress: progress(1.0, 1_000_000, 999_000), ..Look::default() });
        shown.take(Look {
            progress: progress(1.5, 1_400_000, 1_398_000),
            asked: Some(1e6),
            latency: Times::of([&latency].into_iter()),
            lateness: Times::default(),
            score: Some(score),
        });
        shown
    }

    fn drawn(shown: &Shown, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw::draw(frame, shown)).unwrap();
        terminal.backend().to_string()
    }

    /// Rates are of the last interval, counts and the rate reached of the whole run.
    #[test]
    fn the_screen_has_the_numbers() {
        let mut shown = shown();
        let text = drawn(&shown, 110, 24);
        for part in [
            "1000 flows, frames of 64 bytes",
            "1.5 s of 10s",
            "asked 1.00 Mpps",
            "reached 933 kpps",
            "off by -6.67 %",
            "800 kpps",
            "1400000",
            "798 kpps",
            "2000 of 1400000 (0.1429 %)",
            "duplicates  3",
            "exact in 1 of 2 epochs",
            "q end",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        let latency = text.lines().find(|line| line.contains("latency µs")).unwrap();
        let numbers: Vec<f64> = latency.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!((numbers[0] - 5.0).abs() < 0.2 && (numbers[3] - 80.0).abs() < 3.0, "{latency}");
        shown.is_ending = true;
        assert!(drawn(&shown, 110, 24).contains("ending"));
    }

    #[test]
    fn any_size_of_the_terminal_will_do() {
        for (width, height) in [(1, 1), (20, 5), (80, 10), (300, 100)] {
            drawn(&shown(), width, height);
        }
    }

    #[test]
    fn history_is_bounded() {
        let mut shown = shown();
        (0..2 * HISTORY).for_each(|_| shown.take(Look::default()));
        assert_eq!(shown.history.len(), HISTORY);
    }

    #[test]
    fn keys_that_end() {
        let key = |code, modifiers| ends(KeyEvent::new(code, modifiers));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE) && key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE) && !key(KeyCode::Up, KeyModifiers::NONE));
    }
}
