//! The time of a simulation as its readers control it: played, paused, at a speed.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lock::Hold;

/// Speeds as multiples of the simulated time; the last is as fast as it can be computed.
const SPEEDS: [f64; 9] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, f64::INFINITY];
/// The place of the speed of real time.
const REAL_TIME: usize = 3;

/// What a reader may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Play,
    Pause,
    /// One epoch more, and a pause.
    Step,
    Faster,
    Slower,
}

impl Ask {
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Play, Self::Pause, Self::Step, Self::Faster, Self::Slower];
        all.into_iter().find(|ask| ask.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Play => "play",
            Self::Pause => "pause",
            Self::Step => "step",
            Self::Faster => "faster",
            Self::Slower => "slower",
        }
    }
}

/// The pace of a simulation. Its thread waits here between epochs.
#[derive(Debug)]
pub struct Pace {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug)]
struct State {
    speed: usize,
    paused: bool,
    ended: bool,
    /// The running epoch ended more than its length late: computing takes longer than the speed allows.
    is_late: bool,
    /// Epochs that pass in spite of a pause.
    steps: u32,
    /// When the running epoch began.
    began: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        let state =
            State { speed: REAL_TIME, paused: false, ended: false, is_late: false, steps: 0, began: Instant::now() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl Pace {
    /// Waits until an epoch of this length may be over.
    pub fn wait(&self, length: Duration) {
        let mut state = self.state.hold();
        loop {
            let now = Instant::now();
            if state.steps > 0 {
                state.steps -= 1;
                state.began = now;
                return;
            }
            let due = state.began + length.div_f64(SPEEDS[state.speed]);
            if !state.paused && now >= due {
                // Where an epoch takes longer to compute than to pass, the next one does not make up for it.
                state.is_late = now > due + length.div_f64(SPEEDS[state.speed]);
                state.began = due.max(now.checked_sub(length).unwrap_or(due));
                return;
            }
            state = if state.paused {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.changed.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    pub fn ask(&self, ask: Ask) {
        let mut state = self.state.hold();
        match ask {
            Ask::Play => state.paused = false,
            Ask::Pause => state.paused = true,
            Ask::Step => (state.paused, state.steps) = (true, 1),
            Ask::Faster => (state.speed, state.is_late) = ((state.speed + 1).min(SPEEDS.len() - 1), false),
            Ask::Slower => (state.speed, state.is_late) = (state.speed.saturating_sub(1), false),
        }
        self.changed.notify_all();
    }

    /// No epoch follows.
    pub fn end(&self) {
        self.state.hold().ended = true;
    }

    /// What may be asked for now.
    pub fn offers(&self) -> Vec<Ask> {
        let State { paused, ended, .. } = *self.state.hold();
        match (ended, paused) {
            (true, _) => Vec::new(),
            (false, true) => vec![Ask::Play, Ask::Step, Ask::Slower, Ask::Faster],
            (false, false) => vec![Ask::Pause, Ask::Step, Ask::Slower, Ask::Faster],
        }
    }

    pub fn text(&self) -> String {
        let State { paused, ended, speed, is_late, .. } = *self.state.hold();
        match (ended, paused, SPEEDS[speed]) {
            (true, ..) => "ended".into(),
            (_, true, _) => "paused".into(),
            (.., speed) if speed.is_infinite() => "as fast as it goes".into(),
            (.., speed) if is_late => format!("slower than {speed} × real time"),
            (.., speed) => format!("{speed} × real time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;

    #[test]
    fn names_are_their_own() {
        for ask in [Ask::Play, Ask::Pause, Ask::Step, Ask::Faster, Ask::Slower] {
            assert_eq!(Ask::named(ask.name()), Some(ask));
        }
        assert_eq!(Ask::named("stop"), None);
    }

    /// A pause holds the simulation; a step lets one epoch pass, and playing all.
    #[test]
    fn time_is_held_and_goes_on() {
        let (pace, passed) = (Arc::new(Pace::default()), Arc::new(AtomicU32::new(0)));
        (0..SPEEDS.len()).for_each(|_| pace.ask(Ask::Faster));
        pace.ask(Ask::Pause);
        assert_eq!(pace.text(), "paused");
        let thread = std::thread::spawn({
            let (pace, passed) = (pace.clone(), passed.clone());
            move || {
                for _ in 0..3 {
                    pace.wait(Duration::from_secs(3600));
                    passed.fetch_add(1, SeqCst);
                }
            }
        });
        assert_eq!(passed.load(SeqCst), 0);
        pace.ask(Ask::Step);
        while passed.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert!(pace.offers().contains(&Ask::Play) && pace.state.hold().steps == 0, "a step ends in a pause");
        pace.ask(Ask::Play);
        thread.join().unwrap();
        assert_eq!((passed.load(SeqCst), pace.text()), (3, "as fast as it goes".into()));
        pace.end();
        assert_eq!((pace.offers(), pace.text()), (Vec::new(), "ended".into()));
    }

    /// An epoch that takes longer to compute than to pass is said.
    #[test]
    fn a_slow_simulation_says_so() {
        let (pace, length) = (Pace::default(), Duration::from_millis(1));
        pace.wait(length);
        std::thread::sleep(5 * length);
        pace.wait(length);
        assert_eq!(pace.text(), "slower than 1 × real time");
        pace.ask(Ask::Slower);
        assert_eq!(pace.text(), "0.5 × real time");
    }
}
