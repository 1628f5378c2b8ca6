//! What keeps a controller going: the switches' records, the time, and a file for what must outlive
//! the process.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::Event;
use super::members::{ControllerServer, Waiting};
use super::state::{State, StateError, StateFile};
use crate::lock::Hold;
use crate::network::controller::{Controller, ControllerSettings, NetworkProfile};
use crate::telemetry::epoch::Nanos;
use crate::telemetry::epoch::wall_clock;

/// Drives a controller, on the thread that calls [`Self::round`].
pub struct ControllerLoop {
    controller: Arc<Mutex<Controller>>,
    server: Arc<ControllerServer>,
    waiting: Waiting,
    state: State,
    file: StateFile,
    length: Nanos,
    /// The revision of the controller's state that the file has.
    stored: u64,
    /// When the last round ended.
    rested: Instant,
}

/// A round that takes so much longer than it waits for events was stopped, or had no core.
const STOOD: Duration = Duration::from_millis(20);

impl ControllerLoop {
    /// A controller that goes on from `state`, which is stored before any switch hears of it.
    pub fn new(
        profile: NetworkProfile,
        settings: ControllerSettings,
        state: State,
        file: StateFile,
        expected: Vec<String>,
    ) -> Result<Self, StateError> {
        file.write(&state)?;
        let controller =
            Controller::restore(settings, &state.controller).map_err(|error| file.wrong(error.to_string()))?;
        let stored = controller.revision();
        let length = profile.length;
        let (server, waiting) = ControllerServer::new(profile, state.hashes.clone(), expected, settings.switches);
        let (controller, server) = (Arc::new(Mutex::new(controller)), Arc::new(server));
        Ok(Self { controller, server, waiting, state, file, length, stored, rested: Instant::now() })
    }

    pub fn server(&self) -> &Arc<ControllerServer> {
        &self.server
    }

    pub fn controller(&self) -> &Arc<Mutex<Controller>> {
        &self.controller
    }

    /// Does what there is to do, and waits up to `wait` for it.
    pub fn round(&mut self, wait: Duration) {
        let due = self.lock().deadline().map(|deadline| Duration::from_nanos(deadline.saturating_sub(wall_clock())));
        let first = self.waiting.events.recv_timeout(due.map_or(wait, |due| due.min(wait)));
        let mut next = first.ok();
        let stood = self.rested.elapsed() > wait + STOOD;
        while let Some(event) = next {
            self.take(event, stood);
            next = self.waiting.events.try_recv().ok();
        }
        let now = wall_clock();
        let mut controller = self.lock();
        controller.tick(now);
        let updates = controller.updates(now / self.length);
        drop(controller);
        self.server.publish(updates);
        // Takes longer than all that others wait for.
        self.lock().answer();
        self.keep();
        self.rested = Instant::now();
    }

    fn lock(&self) -> MutexGuard<'_, Controller> {
        self.controller.hold()
    }

    /// `stood` says that this thread has just stood still, so that no clock can be compared with
    /// its own.
    fn take(&self, event: Event, stood: bool) {
        let now = wall_clock();
        match event {
            Event::Joins(request, answer) => {
                // The switch may be gone by now.
                let _ = answer.send(self.lock().join(&request, now).map(drop));
            }
            Event::Reports(switch, report, sent) => {
                self.waiting.reports.fetch_sub(1, Relaxed);
                if sent > 0 && !stood {
                    self.lock().clock(&switch, sent, now);
                }
                if let Err(error) = self.lock().report(&switch, report, now) {
                    tracing::debug!("{error}");
                    self.server.refuse(&switch, error.to_string());
                }
            }
            Event::Leaves(switch) => self.lock().leave(&switch),
            Event::Evicts(switch, answer) => {
                let _ = answer.send(self.lock().evict(&switch));
            }
        }
    }

    /// Stores what a restart needs when it has changed. A full disk is no reason to measure no
    /// more: the next change is stored with what this one was.
    fn keep(&mut self) {
        let controller = self.lock();
        let revision = controller.revision();
        if revision == self.stored {
            return;
        }
        let saved = controller.save();
        drop(controller);
        self.state.controller = saved;
        self.stored = revision;
        if let Err(error) = self.file.write(&self.state) {
            tracing::error!(target: "weir", event = "state", "the state is not stored: {error}");
        }
    }
}
