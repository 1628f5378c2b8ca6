//! A switch alone: the controller of a network of one, in the switch's own process, on its collector's thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Board, Controller, Joining, Report, Settings, Terms};
use crate::control::{Closed, Sink};
use crate::epoch::Nanos;
use crate::program::Record;
use crate::program::chamelemon::{Level, Schedule, Sketches, TowerShape, Width};
use crate::switch::TelemetryHeader;

/// What a change of the configuration may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AloneSettings {
    pub length: Nanos,
    pub transit: Nanos,
    /// Epochs of which the answers are kept.
    pub history: usize,
    /// Whether parameters change, or stay as they are.
    pub shifts: bool,
    /// Packets may leave by fabric ports, to be lost or not: one switch alone cannot tell.
    pub fabric: bool,
}

/// The controller, and the way back to the switch.
pub struct Alone {
    name: String,
    /// Taken up with the next programs.
    settings: Arc<Mutex<AloneSettings>>,
    /// The program's place, and where its parameters are set.
    program: Option<(usize, Schedule)>,
    controller: Option<Controller>,
    board: Board,
    salt: u64,
}

impl Alone {
    /// For programs whose parameters are set at `schedules`.
    pub fn new(
        name: &str,
        settings: Arc<Mutex<AloneSettings>>,
        schedules: &[Option<Schedule>],
        board: Board,
        salt: u64,
    ) -> Self {
        Self { name: name.into(), settings, program: program(schedules), controller: None, board, salt }
    }

    fn settings(&self) -> AloneSettings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The controller begins with the first record: the switch started during its epoch.
    fn begin(&self, epoch: u64, sketches: &Sketches) -> Option<Controller> {
        let AloneSettings { length, transit, history, shifts, fabric } = self.settings();
        let settings = Settings { history, shifts, fabric, one_clock: true, ..Settings::new(length, self.salt) };
        let width = |bits| match bits {
            8 => Width::Bits8,
            16 => Width::Bits16,
            _ => Width::Bits32,
        };
        let level = |level: &crate::program::chamelemon::collector::Level| Level {
            width: width(level.bits),
            counters: level.sizes.len() as u32,
        };
        let tower = TowerShape(sketches.tower.iter().map(level).collect());
        let terms = Terms {
            shape: sketches.shape,
            tower,
            length,
            transit: transit.min(length / 2),
            carrier: TelemetryHeader::default(),
        };
        let joining =
            Joining { name: self.name.clone(), terms, runtime: sketches.runtime, first_epoch: epoch.saturating_add(1) };
        let mut controller = Controller::new(settings);
        match controller.join(&joining, epoch.saturating_mul(length)) {
            Ok(_) => Some(controller),
            Err(error) => {
                tracing::error!("{error}");
                None
            }
        }
    }
}

fn program(schedules: &[Option<Schedule>]) -> Option<(usize, Schedule)> {
    schedules.iter().enumerate().find_map(|(number, schedule)| Some((number, schedule.clone()?)))
}

impl Alone {
    /// Takes a record. The workers' clock tells epochs apart; it may be a little ahead of the system's.
    pub(super) fn take(&mut self, epoch: Closed<'_>, system: Nanos) {
        let AloneSettings { history, fabric, .. } = self.settings();
        let Some((number, schedule)) = &self.program else { return };
        let Some(Record::ChameleMon(sketches)) = epoch.records.get(*number) else { return };
        if self.controller.is_none() {
            self.controller = self.begin(epoch.last, sketches);
        }
        let Some(controller) = &mut self.controller else { return };
        controller.set(history, fabric);
        let length = controller.terms().map_or(1, |terms| terms.length);
        let now = system.max((epoch.last + 1).saturating_mul(length));
        let report = Report { first_epoch: epoch.first, epoch: epoch.last, sketches: sketches.clone() };
        let reported = controller.report(&self.name, report, now).unwrap_or_else(|error| {
            tracing::debug!("{error}");
            None
        });
        // Records come in their order, however late: what there is none of now was lost, and later ones may wait.
        let passed = controller.close_before(epoch.last, now);
        if let Some(order) = passed.or(reported)
            && let Err(error) = schedule.order(order.epoch, order.runtime)
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

    fn renewed(&mut self, schedules: &[Option<Schedule>]) {
        self.program = program(schedules);
        self.controller = None;
        self.board.clear();
    }
}
