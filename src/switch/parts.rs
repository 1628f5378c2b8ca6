//! The parts of a switch that can be changed while it runs.

use super::PortInfo;
use crate::epoch::{Banks, HandOver, Nanos, Turn};
use crate::forward::Forward;
use crate::pisa::Order;
use crate::pisa::hash::{Crc, Polynomial};
use crate::program::{Bank, Dataplane, Needs};
use crate::stats::SwitchStats;

/// Telemetry programs with their registers, and where these go at the end of an epoch.
pub struct Measure {
    pub(super) programs: Vec<Box<dyn Dataplane>>,
    pub(super) hand_over: HandOver,
    /// What the programs need, all together.
    pub(super) needs: Needs,
    /// Of that: egress stages; packets that end here; the digest.
    pub(super) egress: bool,
    pub(super) ends: bool,
    pub(super) digest: bool,
    /// Something is to be known of each packet that leaves, beside its port.
    pub(super) describes: bool,
    /// What makes a packet's identity, where one is needed.
    pub(super) identity: Option<Box<Crc>>,
}

impl Measure {
    /// Takes memory for the programs' first registers.
    pub fn new(mut programs: Vec<Box<dyn Dataplane>>, hand_over: HandOver) -> Self {
        programs.iter_mut().for_each(|program| program.equip());
        let needs = programs.iter().fold(Needs::NONE, |needs, program| needs | program.needs());
        let [egress, ends, digest] = [Needs::EGRESS, Needs::ENDS, Needs::DIGEST].map(|need| needs.contains(need));
        // Without egress stages there is nothing to wait for.
        let hand_over = if egress { hand_over } else { hand_over.with_transit(0) };
        let described = [Needs::TIME, Needs::QUEUE_DEPTH, Needs::IDENTITY];
        let describes = described.into_iter().any(|need| needs.contains(need));
        // All switches have the same.
        let crc = || Box::new(Crc::new(Polynomial::STANDARD[0]));
        let identity = needs.contains(Needs::IDENTITY).then(crc);
        Self { programs, hand_over, needs, egress, ends, digest, describes, identity }
    }

    /// A zeroed set of registers, one bank for each program.
    pub fn spare(&self) -> Vec<Box<dyn Bank>> {
        self.programs.iter().map(|program| program.spare()).collect()
    }

    /// Hands over what has been measured so far; nothing may be measured afterwards. There is no next epoch that the
    /// registers could run on into, so a spare is made when none has come back.
    pub fn finish(&mut self, stats: &SwitchStats) {
        if let Some(epoch) = self.hand_over.started() {
            self.hand_over.stop();
            self.end_transit(stats);
            let mut banks = self.hand_over.spare().unwrap_or_else(|| self.spare());
            self.exchange(&mut banks, Dataplane::exchange);
            self.exchange(&mut banks, Dataplane::exchange_egress);
            let banks = self.hand_over.end(banks, epoch);
            self.send(banks, stats);
        }
    }

    /// Does all that is due at `now`.
    #[cold]
    pub(super) fn turn(&mut self, now: Nanos, stats: &SwitchStats) {
        loop {
            match self.hand_over.turn(now) {
                Turn::Stay => return,
                Turn::Start(epoch) => self.enter(epoch, true),
                Turn::Transit => self.end_transit(stats),
                Turn::Prepare(epoch) => self.programs.iter_mut().for_each(|program| program.prepare(epoch)),
                Turn::End(epoch) => {
                    self.end_transit(stats);
                    self.end_epoch(epoch, stats);
                }
            }
        }
    }

    fn end_epoch(&mut self, epoch: u64, stats: &SwitchStats) {
        let Some(mut banks) = self.hand_over.spare() else {
            stats.late_epochs.add(1);
            self.hand_over.carry_on(epoch);
            return self.enter(epoch, false);
        };
        self.exchange(&mut banks, Dataplane::exchange);
        // A packet's epoch bit tells only the next epoch from the one before it.
        let follows = epoch == self.hand_over.running() + 1;
        if !follows {
            self.exchange(&mut banks, Dataplane::exchange_egress);
        }
        let banks = self.hand_over.end(banks, epoch);
        self.enter(epoch, true);
        if follows {
            self.hand_over.hold(banks);
            if self.hand_over.transit() == 0 {
                self.end_transit(stats);
            }
        } else {
            self.send(banks, stats);
        }
    }

    /// Hands over the registers that wait for the transit time.
    fn end_transit(&mut self, stats: &SwitchStats) {
        if let Some(mut held) = self.hand_over.held() {
            self.exchange(&mut held.banks, Dataplane::exchange_egress);
            self.send(held, stats);
        }
    }

    fn exchange(&mut self, banks: &mut [Box<dyn Bank>], exchange: fn(&mut (dyn Dataplane + 'static), &mut dyn Bank)) {
        for (program, bank) in self.programs.iter_mut().zip(banks) {
            exchange(program.as_mut(), bank.as_mut());
        }
    }

    fn enter(&mut self, epoch: u64, fresh: bool) {
        self.programs.iter_mut().for_each(|program| program.enter(epoch, fresh));
    }

    fn send(&self, banks: Banks, stats: &SwitchStats) {
        if !self.hand_over.send(banks) {
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
