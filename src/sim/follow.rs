//! ChameleMon's controller, as it runs beside live switches, driven in virtual time.

use std::sync::Arc;

use super::Setup;
use super::topology::MAX_SWITCHES;
use crate::control::controller::{Controller, JoinError, Joining, Order, Report, Settings, Terms};
use crate::epoch::Nanos;
use crate::program::chamelemon::network::NetworkEpoch;
use crate::program::chamelemon::{Config, Sketches};
use crate::switch::Carrier;

/// One switch's name and record.
pub type Named = (Arc<str>, Box<Sketches>);

/// The controller of one program.
pub struct Follow {
    controller: Controller,
}

impl Follow {
    /// Lets the switches join.
    ///
    /// # Errors
    /// If there are too many of them.
    pub fn new(config: &Config, setup: &Setup, switches: &[Arc<str>]) -> Result<Self, JoinError> {
        let settings = Settings {
            // No record is ever late here.
            patience: setup.epoch,
            notice: setup.latency,
            history: 1,
            flows: 16,
            shifts: setup.shifts,
            one_clock: true,
            switches: MAX_SWITCHES,
            ..Settings::new(setup.epoch, setup.workload.seed)
        };
        let mut controller = Controller::new(settings);
        let terms = Terms {
            shape: config.shape(),
            tower: config.tower.clone(),
            length: setup.epoch,
            transit: setup.transit,
            carrier: Carrier::default(),
        };
        for name in switches {
            let (name, terms) = (name.to_string(), terms.clone());
            controller.join(&Joining { name, terms, runtime: config.runtime(), first_epoch: 0 }, 0)?;
        }
        Ok(Self { controller })
    }

    /// Takes the records of an epoch, one of each switch. An order is for all of them.
    pub fn epoch(&mut self, epoch: u64, records: Vec<Named>, now: Nanos) -> Option<Order> {
        let mut ordered = None;
        for (switch, sketches) in records {
            // One clock is all there is.
            self.controller.clock(&switch, now, now);
            // What the controller cannot use is told as a gap of the epoch.
            if let Ok(Some(order)) =
                self.controller.report(&switch, Report { first_epoch: epoch, epoch, sketches }, now)
            {
                ordered = Some(order);
            }
        }
        self.controller.answer();
        ordered
    }

    /// The epoch that closed last.
    pub fn network(&self) -> Option<&NetworkEpoch> {
        self.controller.newest()
    }

    /// What was decided from it, in words.
    pub fn why(&self) -> String {
        self.controller.answers().next_back().map_or_else(String::new, |answers| answers.why.clone())
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
        assert!(Follow::new(&Config::default(), &setup, &names).is_ok());
    }
}
