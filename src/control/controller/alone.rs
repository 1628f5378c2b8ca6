//! A switch alone: the controller of a network of one, in the switch's own process, on its collector's thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Board, Controller, JoinRequest, NetworkProfile, Report, Settings};
use crate::control::{Closed, Sink};
use crate::epoch::Nanos;
use crate::program::AnySchedule;
use crate::switch::TelemetryHeader;

/// What a change of the configuration may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AloneSettings {
    pub length: Nanos,
    pub transit: Nanos,
    /// Epochs of which the answers are kept.
    pub history: usize,
    /// Packets may leave by fabric ports, to be lost or not: one switch alone cannot tell.
    pub fabric: bool,
}

/// The controller, and the way back to the switch.
pub struct Alone {
    name: String,
    /// Taken up with the next programs.
    settings: Arc<Mutex<AloneSettings>>,
    /// The program's place, and where its parameters are set.
    program: Option<(usize, AnySchedule)>,
    controller: Option<Controller>,
    board: Board,
    salt: u64,
}

impl Alone {
    /// For programs whose parameters are set at `schedules`.
    pub fn new(
        name: &str,
        settings: Arc<Mutex<AloneSettings>>,
        schedules: &[AnySchedule],
        board: Board,
        salt: u64,
    ) -> Self {
        Self { name: name.into(), settings, program: program(schedules), controller: None, board, salt }
    }

    fn settings(&self) -> AloneSettings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The controller begins with the first record: the switch started during its epoch.
    fn begin(&self, epoch: u64, schedule: &AnySchedule) -> Option<Controller> {
        let AloneSettings { length, transit, history, fabric } = self.settings();
        let program = schedule.program();
        let shifts = program.adapts();
        let settings = Settings { history, shifts, fabric, one_clock: true, ..Settings::new(length, self.salt) };
        let profile =
            NetworkProfile { program, length, transit: transit.min(length / 2), header: TelemetryHeader::default() };
        let parameters = schedule.at(epoch);
        let request =
            JoinRequest { name: self.name.clone(), profile, parameters, first_epoch: epoch.saturating_add(1) };
        let mut controller = Controller::new(settings);
        match controller.join(&request, epoch.saturating_mul(length)) {
            Ok(_) => Some(controller),
            Err(error) => {
                tracing::error!("{error}");
                None
            }
        }
    }
}

/// The first program that a controller is for.
fn program(schedules: &[AnySchedule]) -> Option<(usize, AnySchedule)> {
    let mut schedules = schedules.iter().enumerate();
    schedules
        .find(|(_, schedule)| schedule.program().is_networked())
        .map(|(number, schedule)| (number, schedule.clone()))
}

impl Alone {
    /// Takes a record. The workers' clock tells epochs apart; it may be a little ahead of the system's.
    pub(super) fn take(&mut self, epoch: Closed<'_>, system: Nanos) {
        let AloneSettings { history, fabric, .. } = self.settings();
        let Some((number, schedule)) = &self.program else { return };
        if epoch.program != *number {
            return;
        }
        if self.controller.is_none() {
            self.controller = self.begin(epoch.last, schedule);
        }
        let Some(controller) = &mut self.controller else { return };
        controller.set(history, fabric);
        let length = controller.profile().map_or(1, |profile| profile.length);
        let now = system.max((epoch.last + 1).saturating_mul(length));
        let report = Report { first_epoch: epoch.first, epoch: epoch.last, record: epoch.record.clone() };
        let reported = controller.report(&self.name, report, now).unwrap_or_else(|error| {
            tracing::debug!("{error}");
            None
        });
        // Records come in their order, however late: what there is none of now was lost, and later ones may wait.
        let passed = controller.close_before(epoch.last, now);
        if let Some(update) = passed.or(reported)
            && let Err(error) = schedule.update(update.epoch, &update.parameters)
        {
            tracing::error!("{error}");
        }
        controller.answer();
        self.board.post(controller);
    }
}

impl Sink for Alone {
    fn closed(&mut self, epoch: Closed<'_>) {
        let system = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as Nanos);
        self.take(epoch, system);
    }

    fn renewed(&mut self, schedules: &[AnySchedule]) {
        self.program = program(schedules);
        self.controller = None;
        self.board.clear();
    }
}
