//! What keeps a controller going: the switches' records, the time, and a file for what must outlive
//! the process.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::Event;
use super::members::{ControllerServer, Waiting};
use super::state::{State, StateError, StateFile};
use crate::lock::Hold;
use crate::network::controller::{ChangeError, Controller, ControllerSettings, EvictError, NetworkProfile};
use crate::telemetry::epoch::Nanos;
use crate::telemetry::epoch::wall_clock;

/// Drives the controllers of a network's programs, on the thread that calls [`Self::round`].
pub struct ControllerLoop {
    /// In the order of the programs.
    controllers: Vec<Arc<Mutex<Controller>>>,
    server: Arc<ControllerServer>,
    waiting: Waiting,
    state: State,
    file: StateFile,
    length: Nanos,
    /// The revisions of the controllers' states that the file has, added up.
    stored: u64,
    /// When the last round ended.
    rested: Instant,
}

/// A round that takes so much longer than it waits for events was stopped, or had no core.
const STOOD: Duration = Duration::from_millis(20);

impl ControllerLoop {
    /// Controllers of these programs that go on from `state`, which is stored before any switch
    /// hears of it.
    pub fn new(
        programs: Vec<(NetworkProfile, ControllerSettings)>,
        state: State,
        file: StateFile,
        expected: Vec<String>,
    ) -> Result<Self, StateError> {
        file.write(&state)?;
        let restored = programs.iter().zip(&state.controllers).map(|((profile, settings), saved)| {
            let controller = Controller::restore(&profile.program, *settings, saved)
                .map_err(|error| file.wrong(error.to_string()))?;
            Ok(Arc::new(Mutex::new(controller)))
        });
        let controllers = restored.collect::<Result<Vec<_>, _>>()?;
        let max = programs.iter().map(|(_, settings)| settings.switches).max().unwrap_or_default();
        let length = programs.first().map_or(1, |(profile, _)| profile.length);
        let profiles = programs.into_iter().map(|(profile, _)| profile).collect();
        let (server, waiting) = ControllerServer::new(profiles, state.hashes.clone(), expected, max);
        let server = Arc::new(server);
        let mut control_loop =
            Self { controllers, server, waiting, state, file, length, stored: 0, rested: Instant::now() };
        control_loop.stored = control_loop.revision();
        Ok(control_loop)
    }

    pub fn server(&self) -> &Arc<ControllerServer> {
        &self.server
    }

    /// In the order of the programs.
    pub fn controllers(&self) -> &[Arc<Mutex<Controller>>] {
        &self.controllers
    }

    /// Does what there is to do, and waits up to `wait` for it.
    pub fn round(&mut self, wait: Duration) {
        let deadline = self.locked().filter_map(|controller| controller.deadline()).min();
        let due = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(wall_clock())));
        let first = self.waiting.events.recv_timeout(due.map_or(wait, |due| due.min(wait)));
        let mut next = first.ok();
        let stood = self.rested.elapsed() > wait + STOOD;
        while let Some(event) = next {
            self.take(event, stood);
            next = self.waiting.events.try_recv().ok();
        }
        let now = wall_clock();
        let updates = self.locked().enumerate().flat_map(|(program, mut controller)| {
            controller.tick(now);
            controller.updates(now / self.length).into_iter().map(move |update| (program, update))
        });
        self.server.publish(updates.collect());
        // Takes longer than all that others wait for.
        self.locked().for_each(|mut controller| controller.keep());
        self.store();
        self.rested = Instant::now();
    }

    /// The controllers, one after the other.
    fn locked(&self) -> impl Iterator<Item = MutexGuard<'_, Controller>> {
        self.controllers.iter().map(|controller| controller.hold())
    }

    fn revision(&self) -> u64 {
        self.locked().map(|controller| controller.revision()).sum()
    }

    /// `stood` says that this thread has just stood still, so that no clock can be compared with
    /// its own.
    fn take(&self, event: Event, stood: bool) {
        let now = wall_clock();
        match event {
            Event::Joins(requests, answer) => {
                let join = |(program, request): &(usize, _)| self.controllers[*program].hold().join(request, now);
                // The switch may be gone by now.
                let _ = answer.send(requests.iter().try_for_each(|request| join(request).map(drop)));
            }
            Event::Reports(program, switch, report, sent) => {
                self.waiting.reports.fetch_sub(1, Relaxed);
                let mut controller = self.controllers[program].hold();
                if sent > 0 && !stood {
                    controller.clock(&switch, sent, now);
                }
                if let Err(error) = controller.report(&switch, report, now) {
                    tracing::debug!("{error}");
                    self.server.refuse(&switch, error.to_string());
                }
            }
            Event::Leaves(switch) => self.locked().for_each(|mut controller| controller.leave(&switch)),
            Event::Evicts(switch, answer) => {
                let _ = answer.send(self.evict(&switch));
            }
            Event::Changes(program, answer) => {
                let unknown = Err(ChangeError::Unknown(program.name().into()));
                let changed = self.locked().map(|mut controller| controller.change(&program, now));
                let changed = changed
                    .fold(unknown, |found, of| if matches!(of, Err(ChangeError::Unknown(_))) { found } else { of });
                let _ = answer.send(changed);
            }
        }
    }

    /// Takes a switch out of the network of each program that it has reported.
    fn evict(&self, switch: &str) -> Result<(), EvictError> {
        let is_there = |controller: MutexGuard<'_, Controller>| {
            controller.switches().any(|(name, joined)| joined && name == switch)
        };
        if self.locked().any(is_there) {
            return Err(EvictError::Connected(switch.into()));
        }
        let evicted = self.locked().filter_map(|mut controller| controller.evict(switch).ok()).count();
        if evicted > 0 { Ok(()) } else { Err(EvictError::Unknown(switch.into())) }
    }

    /// Stores what a restart needs when it has changed. A full disk is no reason to measure no
    /// more: the next change is stored with what this one was.
    fn store(&mut self) {
        let revision = self.revision();
        if revision == self.stored {
            return;
        }
        self.state.controllers = self.locked().map(|controller| controller.save()).collect();
        self.stored = revision;
        if let Err(error) = self.file.write(&self.state) {
            tracing::error!(target: "weir", event = "state", "the state is not stored: {error}");
        }
    }
}
