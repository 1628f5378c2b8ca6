//! The controller of one program, as it runs beside live switches, driven in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Setup;
use super::report::ProgramReport;
use super::topology::MAX_SWITCHES;
use crate::network::controller::{
    Controller, ControllerSettings, EpochAnswers, JoinError, JoinRequest, NetworkProfile, ParameterUpdate, Report,
};
use crate::program::{AnyAnalysis, ProgramConfig};
use crate::telemetry::epoch::Nanos;

/// One switch's record, and what its clock showed when it was sent.
#[derive(Debug)]
pub struct Named {
    pub switch: Arc<str>,
    pub sent: Nanos,
    pub report: Report,
}

/// Epochs whose answers are kept where faults may change them later.
const KEPT: usize = 1 << 17;
/// Flows that the controller keeps of each of them. Scores are taken of more, when an epoch closes.
const KEPT_FLOWS: usize = 16;

/// One program's controller, and the answers that are scored.
pub struct SimulatedController {
    program: ProgramConfig,
    controller: Controller,
    /// For the answers that are scored.
    analysis: AnyAnalysis,
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
            // A simulation waits for late packets until its end.
            horizon: None,
            history: if setup.faults.is_empty() { 1 } else { KEPT },
            flows: KEPT_FLOWS,
            shifts: setup.shifts,
            one_clock: setup.faults.is_empty(),
            switches: MAX_SWITCHES,
            ..ControllerSettings::new(setup.epoch, setup.workload.seed)
        };
        let mut controller = Controller::new(settings);
        let profile = |program: &ProgramConfig| NetworkProfile {
            program: program.clone(),
            length: setup.epoch,
            transit: setup.transit,
            header: setup.fabric.telemetry_header,
        };
        let now = setup.first_epoch() * setup.epoch;
        for (name, own) in switches {
            let (name, profile) = (name.to_string(), profile(own));
            let request = JoinRequest { name, profile, parameters: program.start(), first_epoch: 0 };
            controller.admit(&request, now)?;
        }
        Ok(Self { program: program.clone(), controller, analysis: program.analysis(setup.workload.seed) })
    }

    pub fn program(&self) -> &ProgramConfig {
        &self.program
    }

    /// Takes the records that have come, and closes the epochs that are due; `closed` is given the
    /// answers of each. An update is for all switches.
    pub fn follow(
        &mut self,
        records: Vec<Named>,
        now: Nanos,
        mut closed: impl FnMut(&EpochAnswers),
    ) -> Option<ParameterUpdate> {
        let mut update = None;
        for Named { switch, sent, report } in records {
            self.controller.clock(&switch, sent, now);
            let before = self.newest();
            // What the controller cannot use is told as a gap of the epoch.
            update = self.controller.report(&switch, report, now).ok().flatten().or(update);
            self.tell(before, &mut closed);
        }
        let before = self.newest();
        let due = self.controller.tick(now);
        self.tell(before, &mut closed);
        due.or(update)
    }

    fn newest(&self) -> Option<u64> {
        self.controller.newest().map(|epoch| epoch.number())
    }

    fn tell(&mut self, before: Option<u64>, closed: &mut impl FnMut(&EpochAnswers)) {
        if self.newest() == before {
            return;
        }
        self.controller.answer();
        let epoch = self.controller.newest();
        let answers = epoch.and_then(|epoch| self.analysis.answers(epoch, None, None, ProgramReport::LIMITS));
        let newest = self.controller.store().last(0.0, true).epochs.pop();
        let adaptation = newest.and_then(|newest| newest.adaptation.clone());
        answers.into_iter().for_each(|answers| closed(&EpochAnswers { adaptation: adaptation.clone(), ..answers }));
    }

    /// The answers as they stand now, by epoch.
    pub fn answers(&self) -> BTreeMap<u64, Arc<EpochAnswers>> {
        self.controller.answers().map(|answers| (answers.epoch, answers)).collect()
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
        for program in ProgramConfig::defaults() {
            let switches: Vec<_> = names.iter().map(|name| (name.clone(), program.clone())).collect();
            assert!(SimulatedController::new(&program, &setup, &switches).is_ok());
        }
    }
}
