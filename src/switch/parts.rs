//! The parts of a switch that can be changed while it runs.

use super::PortInfo;
use crate::epoch::HandOver;
use crate::forward::Forward;
use crate::pisa::Order;
use crate::program::{Bank, Dataplane};
use crate::stats::SwitchStats;

/// Telemetry programs with their registers, and where these go at the end of an epoch.
pub struct Measure {
    pub(super) programs: Vec<Box<dyn Dataplane>>,
    pub(super) hand_over: HandOver,
    /// Some program has egress stages.
    pub(super) egress: bool,
}

impl Measure {
    /// Takes memory for the programs' first registers.
    pub fn new(mut programs: Vec<Box<dyn Dataplane>>, hand_over: HandOver) -> Self {
        programs.iter_mut().for_each(|program| program.equip());
        let egress = programs.iter().any(|program| program.has_egress());
        Self { programs, hand_over, egress }
    }

    /// A zeroed set of registers, one bank for each program.
    pub fn spare(&self) -> Vec<Box<dyn Bank>> {
        self.programs.iter().map(|program| program.spare()).collect()
    }

    /// Hands over what has been measured so far; nothing may be measured afterwards. There is no next epoch that the
    /// registers could run on into, so a spare is made when none has come back.
    pub fn finish(&mut self, stats: &SwitchStats) {
        if let Some(epoch) = self.hand_over.started() {
            let banks = self.hand_over.spare().unwrap_or_else(|| self.spare());
            self.hand_over_to(banks, epoch, stats);
        }
    }

    pub(super) fn hand_over_to(&mut self, mut banks: Vec<Box<dyn Bank>>, epoch: u64, stats: &SwitchStats) {
        for (program, bank) in self.programs.iter_mut().zip(&mut banks) {
            program.exchange(bank.as_mut());
            program.enter(epoch, true);
        }
        if !self.hand_over.send(banks, epoch) {
            stats.lost_epochs.add(1);
        }
    }
}

/// The parts of a switch that can change while it runs. Those that are there change places with the ones in use.
#[derive(Default)]
pub struct Parts {
    /// All ports by their numbers.
    pub ports: Option<Vec<PortInfo>>,
    pub forward: Option<Forward>,
    pub order: Option<Order>,
    pub measure: Option<Measure>,
}
