//! What is worth a line in the log while the switch runs, each kind at most once a second.
//!
//! A line says where things stand now and how often they changed since the last one, so that a link
//! that flaps fills no disk and the last word on it is right.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The least time between two lines of a kind.
const APART: Duration = Duration::from_secs(1);

/// A port at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortState<'a> {
    pub name: &'a str,
    /// Whether it is meant to be up.
    pub enabled: bool,
    /// Whether packets can leave.
    pub up: bool,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `changes` of link or intent since the last line about this port.
    Port {
        name: String,
        enabled: bool,
        up: bool,
        changes: u64,
    },
    Added {
        name: String,
    },
    Removed {
        name: String,
    },
    /// MAC addresses were heard behind other ports than before, `moves` times since the last line;
    /// this one last.
    Moved {
        mac: String,
        from: String,
        to: String,
        moves: u64,
    },
    /// So many epochs more ran on into the next, or were lost.
    Epochs {
        late: u64,
        lost: u64,
    },
}

impl Event {
    pub fn log(&self) {
        match self {
            Self::Port { name: port, enabled: false, changes, .. } => {
                tracing::info!(target: "weir", event = "port_disabled", port, changes, "port disabled");
            }
            Self::Port { name: port, up: true, changes, .. } => {
                tracing::info!(target: "weir", event = "link_up", port, changes, "link up");
            }
            Self::Port { name: port, changes, .. } => {
                tracing::warn!(target: "weir", event = "link_down", port, changes, "link down");
            }
            Self::Added { name: port } => tracing::info!(target: "weir", event = "port_added", port, "port added"),
            Self::Removed { name: port } => {
                tracing::info!(target: "weir", event = "port_removed", port, "port removed");
            }
            Self::Moved { mac, from, to, moves } => {
                let message = "MAC addresses move between ports";
                tracing::warn!(target: "weir", event = "macs_moved", moves, mac, from, to, message);
            }
            Self::Epochs { late, lost } => {
                let message = "the collector is behind";
                tracing::warn!(target: "weir", event = "late_epochs", late_epochs = late, lost_epochs = lost, message);
            }
        }
    }
}

#[derive(Debug)]
struct Port {
    enabled: bool,
    up: bool,
    changes: u64,
    said: Option<Instant>,
}

/// Compares what is with what was.
#[derive(Debug, Default)]
pub struct EventLog {
    ports: BTreeMap<String, Port>,
    /// Epochs late and lost, as last said.
    epochs: (u64, u64),
    epochs_said: Option<Instant>,
    /// Moves of MAC addresses, as last said.
    moved: u64,
    moved_said: Option<Instant>,
    looked: bool,
}

impl EventLog {
    /// What there is to say at `now`. The first look says nothing.
    pub fn look<'a>(
        &mut self,
        now: Instant,
        ports: impl Iterator<Item = PortState<'a>>,
        epochs: (u64, u64),
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let mut there = Vec::new();
        for state in ports {
            there.push(state.name);
            match self.ports.get_mut(state.name) {
                Some(port) => events.extend(port.look(now, &state)),
                None => {
                    let port = Port { enabled: state.enabled, up: state.up, changes: 0, said: None };
                    self.ports.insert(state.name.to_owned(), port);
                    events.extend(self.looked.then(|| Event::Added { name: state.name.into() }));
                }
            }
        }
        if there.len() < self.ports.len() {
            self.ports.retain(|name, _| {
                let keep = there.contains(&name.as_str());
                events.extend((!keep).then(|| Event::Removed { name: name.clone() }));
                keep
            });
        }
        if epochs != self.epochs && may_speak(self.epochs_said, now) {
            let (late, lost) = (epochs.0.saturating_sub(self.epochs.0), epochs.1.saturating_sub(self.epochs.1));
            (self.epochs, self.epochs_said) = (epochs, Some(now));
            events.push(Event::Epochs { late, lost });
        }
        self.looked = true;
        events
    }
}

impl EventLog {
    /// What there is to say of MAC addresses, which have moved so often; `last` names the address and
    /// its ports.
    pub fn moved(&mut self, now: Instant, moved: u64, last: impl FnOnce() -> Option<[String; 3]>) -> Option<Event> {
        if moved == self.moved || !may_speak(self.moved_said, now) {
            return None;
        }
        let moves = moved.saturating_sub(self.moved);
        (self.moved, self.moved_said) = (moved, Some(now));
        last().map(|[mac, from, to]| Event::Moved { mac, from, to, moves })
    }
}

impl Port {
    fn look(&mut self, now: Instant, state: &PortState) -> Option<Event> {
        if (self.enabled, self.up) != (state.enabled, state.up) {
            (self.enabled, self.up) = (state.enabled, state.up);
            self.changes += 1;
        }
        if self.changes == 0 || !may_speak(self.said, now) {
            return None;
        }
        self.said = Some(now);
        let changes = std::mem::take(&mut self.changes);
        Some(Event::Port { name: state.name.into(), enabled: self.enabled, up: self.up, changes })
    }
}

fn may_speak(said: Option<Instant>, now: Instant) -> bool {
    said.is_none_or(|said| now.duration_since(said) >= APART)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        watch: EventLog,
        start: Instant,
    }

    impl Bench {
        fn new() -> Self {
            Self { watch: EventLog::default(), start: Instant::now() }
        }

        fn look(&mut self, millis: u64, ports: &[(&str, bool, bool)], epochs: (u64, u64)) -> Vec<Event> {
            let ports = ports.iter().map(|&(name, enabled, up)| PortState { name, enabled, up });
            self.watch.look(self.start + Duration::from_millis(millis), ports, epochs)
        }
    }

    fn port(enabled: bool, up: bool, changes: u64) -> Vec<Event> {
        vec![Event::Port { name: "a".into(), enabled, up, changes }]
    }

    #[test]
    fn only_changes_are_said() {
        let mut bench = Bench::new();
        assert_eq!(bench.look(0, &[("a", true, true)], (0, 0)), []);
        assert_eq!(bench.look(100, &[("a", true, true)], (0, 0)), []);
        assert_eq!(bench.look(200, &[("a", true, false)], (0, 0)), port(true, false, 1));
        assert_eq!(bench.look(9000, &[("a", false, false)], (0, 0)), port(false, false, 1));
    }

    #[test]
    fn a_flapping_link_is_said_once_a_second_and_its_end_is_right() {
        let mut bench = Bench::new();
        let mut said = Vec::new();
        for tenth in 0..=35 {
            // It flaps for three and a half seconds less two tenths, and is up at the end.
            let up = tenth % 2 == 0 || tenth > 32;
            said.extend(bench.look(100 * tenth, &[("a", true, up)], (0, 0)));
        }
        said.extend(bench.look(9000, &[("a", true, true)], (0, 0)));
        assert_eq!(said.len(), 5, "{said:?}");
        let changes: u64 =
            said.iter().map(|event| if let Event::Port { changes, .. } = event { *changes } else { 0 }).sum();
        assert_eq!(changes, 32, "none is forgotten");
        assert!(matches!(said.last(), Some(Event::Port { up: true, .. })), "{said:?}");
    }

    #[test]
    fn ports_come_and_go() {
        let mut bench = Bench::new();
        bench.look(0, &[("a", true, true)], (0, 0));
        assert_eq!(
            bench.look(10, &[("a", true, true), ("b", true, true)], (0, 0)),
            [Event::Added { name: "b".into() }]
        );
        assert_eq!(bench.look(20, &[("b", true, true)], (0, 0)), [Event::Removed { name: "a".into() }]);
    }

    #[test]
    fn moves_add_up_between_lines() {
        let mut bench = Bench::new();
        let start = bench.start;
        let mut look = |millis, moved| {
            let last = || Some(["02:00:00:00:00:01".into(), "a".into(), "b".into()]);
            match bench.watch.moved(start + Duration::from_millis(millis), moved, last) {
                Some(Event::Moved { moves, .. }) => moves,
                _ => 0,
            }
        };
        assert_eq!(
            [look(0, 0), look(100, 1), look(200, 5), look(900, 9), look(1200, 9), look(5000, 9)],
            [0, 1, 0, 0, 8, 0]
        );
    }

    #[test]
    fn late_epochs_add_up_between_lines() {
        let mut bench = Bench::new();
        let mut look = |millis, epochs| bench.look(millis, &[], epochs);
        assert_eq!(look(0, (0, 0)), []);
        assert_eq!(look(100, (2, 0)), [Event::Epochs { late: 2, lost: 0 }]);
        assert_eq!(look(200, (3, 1)), []);
        assert_eq!(look(1200, (9, 1)), [Event::Epochs { late: 7, lost: 1 }]);
        assert_eq!(look(5000, (9, 1)), []);
    }
}
