//! A program's controller, as it runs beside live switches, driven in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Setup;
use super::topology::MAX_SWITCHES;
use crate::control::controller::{
    Controller, EpochAnswers, JoinError, JoinRequest, NetworkProfile, ParameterUpdate, Report, Settings,
};
use crate::epoch::Nanos;
use crate::program::{AnyEpoch, AnyRecord, ProgramConfig};

/// One switch's record, and the epochs that it covers.
#[derive(Debug)]
pub struct Named {
    pub switch: Arc<str>,
    pub first_epoch: u64,
    pub epoch: u64,
    /// What its clock showed when it sent the record.
    pub sent: Nanos,
    pub record: AnyRecord,
}

/// Epochs whose answers are kept where faults may change them later.
const KEPT: usize = 1 << 17;

/// The controller of one program.
pub struct Follow {
    controller: Controller,
}

impl Follow {
    /// Lets the switches join.
    ///
    /// # Errors
    /// If there are too many of them.
    pub fn new(program: &ProgramConfig, setup: &Setup, switches: &[Arc<str>]) -> Result<Self, JoinError> {
        let settings = Settings {
            // Without faults no record is ever late.
            patience: setup.wait.unwrap_or(setup.epoch),
            notice: setup.latency,
            history: if setup.faults.is_empty() { 1 } else { KEPT },
            flows: 16,
            shifts: setup.shifts,
            one_clock: setup.faults.is_empty(),
            switches: MAX_SWITCHES,
            ..Settings::new(setup.epoch, setup.workload.seed)
        };
        let mut controller = Controller::new(settings);
        let profile = NetworkProfile {
            program: program.clone(),
            length: setup.epoch,
            transit: setup.transit,
            header: setup.fabric.carrier,
        };
        let now = setup.first_epoch() * setup.epoch;
        for name in switches {
            let (name, profile) = (name.to_string(), profile.clone());
            let request = JoinRequest { name, profile, parameters: program.start(), first_epoch: 0 };
            controller.join(&request, now)?;
        }
        Ok(Self { controller })
    }

    /// Takes the records of an epoch, one of each switch. An update is for all of them.
    pub fn epoch(&mut self, records: Vec<Named>, now: Nanos) -> Option<ParameterUpdate> {
        let ordered = self.take(records, now, |_, _| {});
        self.controller.answer();
        ordered
    }

    /// Takes the records that have come, and closes the epochs that are due; `closed` is told of each.
    pub fn follow(
        &mut self,
        records: Vec<Named>,
        now: Nanos,
        mut closed: impl FnMut(&AnyEpoch, String),
    ) -> Option<ParameterUpdate> {
        let ordered = self.take(records, now, &mut closed);
        let before = self.newest();
        let due = self.controller.tick(now);
        self.tell(before, &mut closed);
        due.or(ordered)
    }

    fn take(
        &mut self,
        records: Vec<Named>,
        now: Nanos,
        mut closed: impl FnMut(&AnyEpoch, String),
    ) -> Option<ParameterUpdate> {
        let mut ordered = None;
        for Named { switch, first_epoch, epoch, sent, record } in records {
            self.controller.clock(&switch, sent, now);
            let before = self.newest();
            // What the controller cannot use is told as a gap of the epoch.
            if let Ok(Some(update)) =
                self.controller.report(&switch, Report { first_epoch, epoch, whole: true, record }, now)
            {
                ordered = Some(update);
            }
            self.tell(before, &mut closed);
        }
        ordered
    }

    fn newest(&self) -> Option<u64> {
        self.network().map(AnyEpoch::number)
    }

    fn tell(&mut self, before: Option<u64>, closed: &mut impl FnMut(&AnyEpoch, String)) {
        if self.newest() != before {
            self.controller.answer();
            let why = self.why();
            self.network().into_iter().for_each(|network| closed(network, why.clone()));
        }
    }

    /// The epoch that closed last.
    pub fn network(&self) -> Option<&AnyEpoch> {
        self.controller.newest()
    }

    /// What was decided from it, in words.
    pub fn why(&self) -> String {
        let newest = self.controller.store().last(0.0).epochs.pop();
        let adaptation = newest.as_ref().and_then(|answers| answers.adaptation.as_ref());
        adaptation.map_or_else(String::new, |adaptation| adaptation.why.clone())
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
        assert!(Follow::new(&ProgramConfig::networked(), &setup, &names).is_ok());
    }
}
