//! Local controllers: one for each program of a switch, on its collector's thread. Each is the
//! controller of a network of one.

use std::sync::{Arc, Mutex, MutexGuard};

use super::{Controller, ControllerSettings, JoinRequest, KEPT_FLOWS, NetworkProfile, Report, SWITCH_FLOWS};
use crate::lock::Hold;
use crate::program::{AnySchedule, ProgramConfig};
use crate::switch::TelemetryHeader;
use crate::telemetry::AnswerStore;
use crate::telemetry::epoch::Nanos;
use crate::telemetry::epoch::wall_clock;
use crate::telemetry::{Closed, Sink};

/// Heavy flows and changes that are kept of an epoch.
const FLOWS: usize = 1024;

/// What a change of the configuration may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalSettings {
    pub length: Nanos,
    pub transit: Nanos,
    /// Epochs of which the answers are kept.
    pub history: usize,
    /// Packets may leave by fabric ports, to be lost or not: one switch alone cannot tell.
    pub fabric: bool,
}

/// The answer stores of a switch's programs.
#[derive(Clone, Debug, Default)]
pub struct LocalAnswers(Arc<Mutex<Stores>>);

#[derive(Debug, Default)]
struct Stores {
    /// In the order of the configuration.
    stores: Vec<(ProgramConfig, AnswerStore)>,
    /// Epochs that were forgotten with earlier programs.
    forgotten: u64,
}

impl LocalAnswers {
    fn lock(&self) -> MutexGuard<'_, Stores> {
        self.0.hold()
    }

    /// The name and the answers of the first program that is asked.
    pub fn find(&self, asked: impl Fn(&ProgramConfig) -> bool) -> Option<(&'static str, AnswerStore)> {
        let stores = self.lock();
        let found = stores.stores.iter().find(|(program, _)| asked(program));
        found.map(|(program, store)| (program.name(), store.clone()))
    }

    /// Number of epochs forgotten because programs were replaced or the clock was set back.
    pub fn forgotten(&self) -> u64 {
        let stores = self.lock();
        stores.forgotten + stores.stores.iter().map(|(_, store)| store.forgotten()).max().unwrap_or_default()
    }

    /// Answers of these programs come from now on.
    fn renew(&self, stores: Vec<(ProgramConfig, AnswerStore)>) {
        self.lock().stores.iter().for_each(|(_, store)| store.forget_from(0));
        let forgotten = self.forgotten();
        *self.lock() = Stores { stores, forgotten };
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
    /// There from the first record on.
    controller: Option<Controller>,
    store: AnswerStore,
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

    /// Takes a record, or with `whole` false a part of one. The workers' clock tells epochs apart;
    /// it may be a little ahead of the system's.
    pub(super) fn take(&mut self, epoch: Closed<'_>, whole: bool, system: Nanos) {
        let settings = *self.settings.hold();
        let Some(local) = self.controllers.get_mut(epoch.program).and_then(Option::as_mut) else { return };
        if local.controller.is_none() {
            local.controller = local.begin(&self.name, epoch.last, settings, self.salt);
        }
        let Some(controller) = &mut local.controller else { return };
        controller.set(settings);
        let length = controller.profile().map_or(1, |profile| profile.length);
        let now = system.max(epoch.last.saturating_add(1).saturating_mul(length));
        let record = epoch.record.clone();
        let report = Report { first_epoch: epoch.first, epoch: epoch.last, whole, late: epoch.late, record };
        let reported = controller.report(&self.name, report, now).inspect_err(|error| tracing::debug!("{error}"));
        // Records come in their order, however late: what there is none of now was lost, and later
        // ones may wait.
        let passed = controller.close_before(epoch.last, now);
        if let Some(update) = passed.or(reported.ok().flatten())
            && let Err(error) = local.schedule.update(update.epoch, &update.parameters)
        {
            tracing::error!("{error}");
        }
        controller.answer();
    }
}

impl LocalController {
    /// The controller begins with the first record: the switch started during its epoch.
    fn begin(&self, name: &str, epoch: u64, settings: LocalSettings, salt: u64) -> Option<Controller> {
        let LocalSettings { length, transit, .. } = settings;
        let program = self.schedule.program();
        let shifts = program.adapts();
        let profile =
            NetworkProfile { program, length, transit: transit.min(length / 2), header: TelemetryHeader::default() };
        let parameters = self.schedule.at(epoch);
        let request = JoinRequest { name: name.into(), profile, parameters, first_epoch: epoch.saturating_add(1) };
        let settings = ControllerSettings {
            flows: FLOWS,
            shifts,
            one_clock: true,
            horizon: Some(0),
            ..ControllerSettings::new(length, salt)
        };
        let mut controller = Controller { store: self.store.clone(), ..Controller::new(settings) };
        let admitted = controller.admit(&request, epoch.saturating_mul(length));
        admitted.inspect_err(|error| tracing::error!("{error}")).ok()?;
        Some(controller)
    }
}

impl Controller {
    fn set(&mut self, LocalSettings { history, fabric, .. }: LocalSettings) {
        self.settings.fabric = fabric;
        self.store.resize(history, KEPT_FLOWS.max(history.saturating_mul(FLOWS + SWITCH_FLOWS)));
    }
}

impl Sink for LocalControllers {
    fn closed(&mut self, epoch: Closed<'_>) {
        self.take(epoch, true, wall_clock());
    }

    fn partial(&mut self, epoch: Closed<'_>) {
        self.take(epoch, false, wall_clock());
    }

    fn set_back(&mut self, program: usize, epoch: u64) {
        let local = self.controllers.get_mut(program).and_then(Option::as_mut);
        local.and_then(|local| local.controller.as_mut()).into_iter().for_each(|of| of.set_back(epoch));
    }

    fn renewed(&mut self, schedules: &[AnySchedule]) {
        let local = |schedule: &AnySchedule| {
            let local = LocalController { schedule: schedule.clone(), controller: None, store: AnswerStore::default() };
            (!self.is_linked || !schedule.program().is_networked()).then_some(local)
        };
        self.controllers = schedules.iter().map(local).collect();
        let stores = self.controllers.iter().flatten().map(|local| (local.schedule.program(), local.store.clone()));
        self.answers.renew(stores.collect());
    }
}
