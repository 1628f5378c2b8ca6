//! The controller of one program, as it runs beside live switches, driven in virtual time.

use std::sync::Arc;

use super::Setup;
use super::report::EpochAnswers;
use super::topology::MAX_SWITCHES;
use crate::answers::Queryable;
use crate::history::Room;
use crate::network::controller::{
    Controller, ControllerSettings, JoinError, JoinRequest, NetworkProfile, ParameterUpdate, Report,
};
use crate::program::ProgramConfig;
use crate::switch::KeyHeaders;
use crate::telemetry::epoch::Nanos;

/// One switch's record, and what its clock showed when it was sent.
#[derive(Debug)]
pub struct Named {
    pub switch: Arc<str>,
    pub sent: Nanos,
    pub report: Report,
}

/// Room of the history: epochs are held against the truth at the end, where faults may change them
/// until then.
const ROOM: Room = Room { epochs: 1 << 17, bytes: 1 << 30 };

/// Time that a history spans which others ask, in nanoseconds.
const WATCHED: Nanos = 60_000_000_000;
/// Memory of a history that others ask, in bytes.
const WATCHED_BYTES: usize = 256 << 20;

fn room(setup: &Setup) -> Room {
    let watched = WATCHED.div_ceil(setup.epoch.max(1)) as usize;
    match (setup.faults.is_empty(), setup.watched) {
        (false, _) => ROOM,
        (true, true) => Room { epochs: watched.max(2), bytes: WATCHED_BYTES },
        (true, false) => Room { epochs: 2, ..ROOM },
    }
}

/// One program's controller.
pub struct SimulatedController {
    program: ProgramConfig,
    controller: Controller,
}

impl SimulatedController {
    /// Lets the switches join, each with the program as it has it.
    ///
    /// # Errors
    /// If there are too many of them.
    pub fn new(
        program: &ProgramConfig,
        setup: &Setup,
        switches: &[(Arc<str>, ProgramConfig)],
    ) -> Result<Self, JoinError> {
        let settings = ControllerSettings {
            // Without faults no record is ever late.
            record_timeout: setup.wait.unwrap_or(setup.epoch),
            lead_time: setup.latency,
            // A simulation waits for late packets until its end. Without faults no packet is late.
            horizon: (setup.watched && setup.faults.is_empty()).then_some(0),
            history: room(setup),
            shifts: setup.shifts,
            one_clock: setup.faults.is_empty(),
            switches: MAX_SWITCHES,
            ..ControllerSettings::new(setup.epoch, setup.workload.seed)
        };
        let mut controller = Controller::new(program, settings);
        let profile = |program: &ProgramConfig| NetworkProfile {
            program: program.clone(),
            length: setup.epoch,
            transit: setup.transit,
            header: setup.fabric.telemetry_header,
            key: KeyHeaders::default(),
        };
        let now = setup.first_epoch() * setup.epoch;
        for (name, own) in switches {
            let (name, profile) = (name.to_string(), profile(own));
            let request = JoinRequest { name, profile, parameters: program.start(), first_epoch: 0 };
            controller.admit(&request, now)?;
        }
        Ok(Self { program: program.clone(), controller })
    }

    pub fn program(&self) -> &ProgramConfig {
        &self.program
    }

    /// Takes the records that have come, and closes the epochs that are due; `closed` is given each. An
    /// update is for all switches.
    pub fn follow(
        &mut self,
        records: Vec<Named>,
        now: Nanos,
        mut closed: impl FnMut(&EpochAnswers<'_>),
    ) -> Option<ParameterUpdate> {
        let before = self.history().newest();
        let mut update = None;
        for Named { switch, sent, report } in records {
            self.controller.clock(&switch, sent, now);
            // What the controller cannot use is a gap of the epoch.
            update = self.controller.report(&switch, report, now).ok().flatten().or(update);
        }
        let due = self.controller.tick(now);
        self.controller.keep();
        if let Some(newest) = self.history().newest() {
            let first = before.map_or(newest, |before| before + 1);
            (first..=newest).for_each(|epoch| closed(&self.answers(epoch)));
        }
        due.or(update)
    }

    pub fn history(&self) -> &Arc<dyn Queryable> {
        self.controller.history()
    }

    /// The answers about an epoch as they stand now.
    pub fn answers(&self, epoch: u64) -> EpochAnswers<'_> {
        EpochAnswers { program: &self.program, history: &**self.history(), epoch, routes: None, surroundings: None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::setup;
    use super::*;

    /// A topology can be as large as its limit says.
    #[test]
    fn there_is_room_for_every_switch_of_a_topology() {
        let setup = setup("testbed", "keyvalue,flows=10", &[]);
        let names: Vec<Arc<str>> = (0..MAX_SWITCHES).map(|i| format!("s{i}").into()).collect();
        // The limit is one of switches, whatever they run.
        let program = ProgramConfig::defaults().next().unwrap();
        let switches: Vec<_> = names.iter().map(|name| (name.clone(), program.clone())).collect();
        assert!(SimulatedController::new(&program, &setup, &switches).is_ok());
    }
}
