//! Local controllers: one for each program of a switch, on its collector's thread. Each is the
//! controller of a network of one.

use std::sync::{Arc, Mutex, MutexGuard};

use super::{Controller, ControllerSettings, HISTORY_BYTES, JoinRequest, NetworkProfile, Report};
use crate::answers::Queryable;
use crate::history::Room;
use crate::lock::Hold;
use crate::program::{AnySchedule, ProgramConfig};
use crate::switch::{KeyHeaders, TelemetryHeader};
use crate::telemetry::epoch::Nanos;
use crate::telemetry::epoch::wall_clock;
use crate::telemetry::{Closed, Sink};

/// Length of the only epoch of a run: no run is longer.
pub(super) const WHOLE_RUN: Nanos = 1 << 62;
/// Memory of the history of each program of a run that has an end, in bytes.
const RUN_BYTES: usize = 1 << 30;

/// What a change of the configuration may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalSettings {
    pub length: Nanos,
    pub transit: Nanos,
    /// Room of each program's history.
    pub history: Room,
    /// Packets may leave by fabric ports, to be lost or not: one switch alone cannot tell.
    pub fabric: bool,
    /// [`ControllerSettings::replays`].
    pub replays: bool,
}

/// The histories of a switch's programs.
#[derive(Clone, Default)]
pub struct LocalAnswers(Arc<Mutex<Histories>>);

#[derive(Default)]
struct Histories {
    /// Of programs that have a controller here, in the order of the configuration.
    histories: Vec<(ProgramConfig, Arc<dyn Queryable>)>,
    /// Epochs that were forgotten with earlier programs.
    forgotten: u64,
}

impl LocalAnswers {
    fn lock(&self) -> MutexGuard<'_, Histories> {
        self.0.hold()
    }

    /// The name and the history of the first program that is asked.
    pub fn find(&self, asked: impl Fn(&ProgramConfig) -> bool) -> Option<(&'static str, Arc<dyn Queryable>)> {
        let histories = self.lock();
        let found = histories.histories.iter().find(|(program, _)| asked(program));
        found.map(|(program, history)| (program.name(), history.clone()))
    }

    /// The histories in the order of the programs.
    pub fn all(&self) -> Vec<Arc<dyn Queryable>> {
        self.lock().histories.iter().map(|(_, history)| history.clone()).collect()
    }

    /// The programs and their histories, in their order.
    pub fn programs(&self) -> Vec<(ProgramConfig, Arc<dyn Queryable>)> {
        self.lock().histories.clone()
    }

    /// Number of epochs forgotten because programs were replaced or the clock was set back.
    pub fn forgotten(&self) -> u64 {
        let histories = self.lock();
        histories.forgotten
            + histories.histories.iter().map(|(_, history)| history.forgotten()).max().unwrap_or_default()
    }

    /// Answers come from these histories from now on.
    fn renew(&self, renewed: Vec<(ProgramConfig, Arc<dyn Queryable>)>) {
        self.lock().histories.iter().for_each(|(_, history)| history.forget_from(0));
        let forgotten = self.forgotten();
        *self.lock() = Histories { histories: renewed, forgotten };
    }
}

/// The programs that report to the controller of a network: their places and schedules.
pub fn linked(schedules: &[AnySchedule]) -> impl Iterator<Item = (usize, &AnySchedule)> {
    schedules.iter().enumerate().filter(|(_, schedule)| schedule.program().is_networked())
}

/// The local controllers of a switch.
pub struct LocalControllers {
    /// Of the switch.
    name: String,
    /// Taken up with the next records.
    settings: Arc<Mutex<LocalSettings>>,
    /// By the program's place. A program that reports to the controller of a network has none here:
    /// two controllers would send different parameters.
    controllers: Vec<Option<LocalController>>,
    is_linked: bool,
    answers: LocalAnswers,
    salt: u64,
}

/// The controller of one program, and the way back to the switch.
struct LocalController {
    schedule: AnySchedule,
    controller: Controller,
    /// The first record has come.
    begun: bool,
}

impl LocalControllers {
    /// Controllers of the programs of `schedules`. `is_linked`: the switch has a network's
    /// controller.
    pub fn new(
        name: &str,
        settings: Arc<Mutex<LocalSettings>>,
        schedules: &[AnySchedule],
        is_linked: bool,
        answers: LocalAnswers,
        salt: u64,
    ) -> Self {
        let mut local = Self { name: name.into(), settings, controllers: Vec::new(), is_linked, answers, salt };
        local.renewed(schedules);
        local
    }

    /// Name of the only switch of a run.
    pub const RUN: &'static str = "weir";

    /// Controllers of the programs of a run that has an end, such as a replay: with epochs of this
    /// length, or with one epoch. Their histories have room for long runs.
    pub fn of_run(schedules: &[AnySchedule], length: Option<Nanos>, transit: Nanos) -> (Self, LocalAnswers) {
        let settings = LocalSettings {
            length: length.unwrap_or(WHOLE_RUN),
            transit,
            history: Room { epochs: usize::MAX, bytes: RUN_BYTES },
            fabric: false,
            replays: true,
        };
        let answers = LocalAnswers::default();
        let local = Self::new(Self::RUN, Arc::new(Mutex::new(settings)), schedules, false, answers.clone(), 0);
        (local, answers)
    }

    /// Takes a record, or with `whole` false a part of one. The workers' clock tells epochs apart;
    /// it may be a little ahead of the system's.
    pub(super) fn take(&mut self, epoch: Closed<'_>, whole: bool, system: Nanos) {
        let settings = *self.settings.hold();
        let Some(local) = self.controllers.get_mut(epoch.program).and_then(Option::as_mut) else { return };
        if !std::mem::replace(&mut local.begun, true) {
            local.begin(&self.name, epoch.last, settings);
        }
        let LocalController { schedule, controller, .. } = local;
        controller.set(settings);
        let length = controller.profile().map_or(1, |profile| profile.length);
        let now = system.max(epoch.last.saturating_add(1).saturating_mul(length));
        let record = epoch.record.clone();
        // A packet leaves the switch in the burst in which it enters, so none waits while it stands still
        // or, in a replay, no packets come.
        let report = Report { first_epoch: epoch.first, epoch: epoch.last, whole, late: 0, record };
        let reported = controller.report(&self.name, report, now).inspect_err(|error| tracing::debug!("{error}"));
        // Records come in their order, however late: a record that is absent now was lost, and later
        // ones may wait.
        let passed = controller.close_before(epoch.last, now);
        if let Some(update) = passed.or(reported.ok().flatten())
            && let Err(error) = schedule.update(update.epoch, &update.parameters)
        {
            tracing::error!("{error}");
        }
        controller.keep();
    }
}

impl LocalController {
    fn new(schedule: &AnySchedule, settings: LocalSettings, salt: u64) -> Self {
        let program = schedule.program();
        let LocalSettings { length, history, fabric, replays, .. } = settings;
        let settings = ControllerSettings {
            shifts: program.adapts() && !replays,
            one_clock: true,
            horizon: Some(0),
            history,
            fabric,
            replays,
            ..ControllerSettings::new(length, salt)
        };
        Self { schedule: schedule.clone(), controller: Controller::new(&program, settings), begun: false }
    }

    /// The network of one switch begins with the first record. A live switch started during its epoch,
    /// a replay before it.
    fn begin(&mut self, name: &str, epoch: u64, LocalSettings { length, transit, replays, .. }: LocalSettings) {
        let program = self.schedule.program();
        let (header, key) = (TelemetryHeader::default(), KeyHeaders::default());
        let profile = NetworkProfile { program, length, transit: transit.min(length / 2), header, key };
        let parameters = self.schedule.at(epoch);
        let first_epoch = epoch.saturating_add(u64::from(!replays));
        let request = JoinRequest { name: name.into(), profile, parameters, first_epoch };
        let admitted = self.controller.admit(&request, epoch.saturating_mul(length));
        admitted.inspect_err(|error| tracing::error!("{error}")).ok();
    }
}

impl Controller {
    fn set(&mut self, LocalSettings { history, fabric, .. }: LocalSettings) {
        self.settings.fabric = fabric;
        self.history.resize(history);
    }
}

/// The room of a live switch's histories, for this number of epochs.
pub fn local_room(epochs: usize) -> Room {
    Room { epochs, bytes: HISTORY_BYTES }
}

impl Sink for LocalControllers {
    fn closed(&mut self, epoch: Closed<'_>) {
        self.take(epoch, true, wall_clock());
    }

    /// The last epoch of a run that has an end is whole: it ends where the packets do.
    fn partial(&mut self, epoch: Closed<'_>) {
        let whole = self.settings.hold().replays;
        self.take(epoch, whole, wall_clock());
    }

    fn set_back(&mut self, program: usize, epoch: u64) {
        let local = self.controllers.get_mut(program).and_then(Option::as_mut);
        local.into_iter().for_each(|local| local.controller.set_back(epoch));
    }

    fn renewed(&mut self, schedules: &[AnySchedule]) {
        let settings = *self.settings.hold();
        let local = |schedule: &AnySchedule| {
            let is_local = !self.is_linked || !schedule.program().is_networked();
            is_local.then(|| LocalController::new(schedule, settings, self.salt))
        };
        self.controllers = schedules.iter().map(local).collect();
        let histories = self.controllers.iter().flatten();
        let histories = histories.map(|local| (local.schedule.program(), local.controller.history().clone()));
        self.answers.renew(histories.collect());
    }
}
