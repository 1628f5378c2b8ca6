//! The telemetry programs of a replica, and the rotation of their banks.

use super::inner::InnerHeaders;
use crate::pisa::hash::{HashFamily, IdentityHash};
use crate::pisa::{DropAt, DropReason, Generator, Phv};
use crate::program::{Dataplane, Needs, SubEpoch};
use crate::stats::SwitchStats;
use crate::telemetry::epoch::{BankRotation, Collecting, End, EpochClock, EpochEvent, FullBank, Nanos};
use crate::wire::Tunnels;

/// Telemetry programs with their registers, and where these go at the end of an epoch.
pub struct Telemetry {
    pub(super) programs: Vec<Box<dyn Dataplane>>,
    /// One for each program, in their order.
    rotations: Vec<BankRotation>,
    pub(super) clock: EpochClock,
    /// What the programs need, all together. What they need of single packets that leave may change
    /// from epoch to epoch; the rest is as it was at first.
    pub(super) needs: Needs,
    /// Of that: egress stages; packets that end here; the digest.
    pub(super) egress: bool,
    pub(super) ends: bool,
    pub(super) digest: bool,
    /// Programs are told of each packet that is dropped.
    pub(super) drops: bool,
    /// Something is to be known of each packet that leaves, beside its port.
    pub(super) describes: bool,
    /// Packets are written after egress stages: these change the shim, or the frame is looked into
    /// for them.
    pub(super) writes_late: bool,
    /// What makes a packet's identity, where one is needed.
    pub(super) identity: Option<Box<IdentityHash>>,
    /// Where the flows of packets inside tunnels are measured.
    pub(super) inner: Option<Box<InnerHeaders>>,
    /// Programs need random numbers: those of packets before ingress stages, and before egress stages.
    pub(super) draws: bool,
    generators: [Generator; 2],
}

impl Telemetry {
    /// Takes memory for the programs' first registers, and for this number of spare banks of each.
    /// Returns the collector's ends as well.
    pub fn new(mut programs: Vec<Box<dyn Dataplane>>, clock: EpochClock, spares: usize) -> (Self, Collecting) {
        programs.iter_mut().for_each(|program| program.allocate());
        let (mut rotations, mut channels) = (Vec::new(), Vec::new());
        for program in &programs {
            let (rotation, channel) = BankRotation::new(spares);
            // The channel has room for all spares.
            (0..spares).for_each(|_| _ = channel.spares.try_send(program.spare()));
            rotations.push(rotation);
            channels.push(channel);
        }
        let needs = needs_of(&programs);
        let [egress, ends, digest, drops] =
            [Needs::EGRESS, Needs::ENDS, Needs::DIGEST, Needs::DROPS].map(|need| needs.contains(need));
        // Without egress stages there is nothing to wait for.
        let clock = if egress { clock } else { clock.with_transit(0) };
        let described = [Needs::TIME, Needs::QUEUE_DEPTH, Needs::IDENTITY, Needs::LATENCY, Needs::HELD];
        let describes = described.into_iter().any(|need| needs.contains(need));
        let late = [Needs::SHIM, Needs::DIGEST | Needs::EGRESS, Needs::IDENTITY];
        let writes_late = late.into_iter().any(|need| needs.contains(need));
        let identity = needs.contains(Needs::IDENTITY).then(|| Box::new(IdentityHash::new()));
        let (draws, generators) = (needs.contains(Needs::DRAW), [[1, 0, 0, 0], [2, 0, 0, 0]].map(Generator::new));
        let telemetry = Self {
            programs,
            rotations,
            clock,
            needs,
            egress,
            ends,
            digest,
            drops,
            describes,
            writes_late,
            identity,
            inner: None,
            draws,
            generators,
        };
        (telemetry, channels)
    }

    /// Draws the packets' random numbers as the replica with this number of the switch with this name.
    #[must_use]
    pub fn drawing(self, hashes: &HashFamily, name: &str, replica: u32) -> Self {
        let generators = [2 * replica, 2 * replica + 1].map(|stream| hashes.generator(name, stream));
        Self { generators, ..self }
    }

    /// Measures the flows of packets inside these tunnels; `None`: those of the tunnels.
    #[must_use]
    pub fn looking_into(self, tunnels: Option<Tunnels>) -> Self {
        Self { inner: tunnels.map(InnerHeaders::new), ..self }
    }

    /// Draws a random number for each packet that ingress stages are to see.
    #[inline(never)]
    pub(super) fn draw(&mut self, phvs: &mut [Phv]) {
        let [generator, _] = &mut self.generators;
        phvs.iter_mut().for_each(|phv| phv.set_draw(generator.draw()));
    }

    /// The same for egress stages.
    #[inline(never)]
    pub(super) fn draw_again(&mut self, phvs: &mut [Phv]) {
        let [_, generator] = &mut self.generators;
        phvs.iter_mut().for_each(|phv| phv.set_draw(generator.draw()));
    }

    /// Tells programs of a packet that is dropped.
    #[cold]
    pub(super) fn dropped(&mut self, phv: &Phv, reason: DropReason, at: DropAt) {
        let shown = self.inner.as_ref().map(|inner| inner.shown(phv));
        let phv = shown.as_ref().unwrap_or(phv);
        self.programs.iter_mut().for_each(|program| program.dropped(phv, reason, at));
    }

    /// Tells programs for how many bytes the queue of each port has room.
    pub(super) fn set_queue_room(&mut self, bytes: u64) {
        self.programs.iter_mut().for_each(|program| program.set_queue_room(bytes));
        self.needs = self.needs | needs_of(&self.programs);
    }

    /// Tells programs that hosts read digests.
    pub(super) fn read_digests(&mut self) {
        self.programs.iter_mut().for_each(|program| program.read_digests());
    }

    /// Sends off what has been measured so far; nothing may be measured afterwards. There is no
    /// next epoch that the registers could run on into, so a spare is made when none has come back.
    pub fn finish(&mut self, stats: &SwitchStats) {
        let Some(epoch) = self.clock.started() else { return };
        self.end_transit(End::Switch, 0, stats);
        for (program, rotation) in self.programs.iter_mut().zip(&mut self.rotations) {
            let mut bank = rotation.spare().unwrap_or_else(|| program.spare());
            program.exchange(bank.as_mut());
            program.exchange_egress(bank.as_mut());
            let full = rotation.end(bank, epoch, epoch, End::Switch);
            send(rotation, full, stats);
        }
    }

    /// Does all that is due at `now`.
    #[cold]
    pub(super) fn advance(&mut self, now: Nanos, stats: &SwitchStats) {
        let time = self.clock.time(now);
        while let Some(event) = self.clock.event(now) {
            match event {
                EpochEvent::Start(epoch) => self.start(epoch, time),
                EpochEvent::Transit => self.end_transit(End::Epoch, time, stats),
                EpochEvent::Prepare(epoch) => self.programs.iter_mut().for_each(|program| program.prepare(epoch)),
                EpochEvent::End(epoch) => {
                    self.end_transit(End::Epoch, time, stats);
                    self.end_epoch(epoch, time, stats);
                }
            }
        }
        self.needs = needs_of(&self.programs);
        self.end_sub_epochs(time, stats);
        if let Some(due) = self.rotations.iter().map(BankRotation::due).min() {
            self.clock.wake_by(due);
        }
    }

    fn start(&mut self, epoch: u64, time: Nanos) {
        self.clock.enter(epoch);
        for (program, rotation) in self.programs.iter_mut().zip(&mut self.rotations) {
            rotation.start(epoch);
            enter(program.as_mut(), rotation, &self.clock, epoch, time);
        }
    }

    /// Rotates the bank of each program that has a spare. The others run on.
    fn end_epoch(&mut self, epoch: u64, time: Nanos, stats: &SwitchStats) {
        let last = self.clock.running();
        // A packet's epoch bit tells only the next epoch from the one before it.
        let follows = self.clock.is_next(epoch);
        self.clock.enter(epoch);
        for (program, rotation) in self.programs.iter_mut().zip(&mut self.rotations) {
            let Some(mut bank) = rotation.spare() else {
                stats.late_epochs.add(1);
                rotation.extend(epoch);
                program.enter(epoch, false);
                if program.needs().contains(Needs::SUB_EPOCHS) {
                    program.enter_sub_epoch(SubEpoch::WHOLE, false);
                }
                continue;
            };
            let needs = program.needs();
            let sorts = needs.contains(Needs::TRANSIT);
            let leaving = needs.contains(Needs::EGRESS) && !sorts;
            let together = leaving || needs.contains(Needs::SUB_EPOCHS) || !follows;
            program.exchange(bank.as_mut());
            if together {
                program.exchange_egress(bank.as_mut());
            }
            let mut full = rotation.end(bank, last, epoch, End::Epoch);
            if together && sorts && !needs.contains(Needs::SUB_EPOCHS) {
                full.late = self.clock.overdue(last, time);
            }
            enter(program.as_mut(), rotation, &self.clock, epoch, time);
            if !together && sorts {
                if self.clock.transit() > 0 {
                    rotation.hold(full);
                    continue;
                }
                program.exchange_egress(full.bank.as_mut());
            }
            send(rotation, full, stats);
        }
    }

    /// Rotates the bank of each program whose sub-epoch is over and which has a spare. The others
    /// run on.
    fn end_sub_epochs(&mut self, time: Nanos, stats: &SwitchStats) {
        let epoch = self.clock.running();
        for (program, rotation) in self.programs.iter_mut().zip(&mut self.rotations) {
            if time < rotation.due() {
                continue;
            }
            let spare = rotation.spare();
            let fresh = spare.is_some();
            if let Some(mut bank) = spare {
                program.exchange(bank.as_mut());
                program.exchange_egress(bank.as_mut());
                let full = rotation.end(bank, epoch, epoch, End::SubEpoch);
                send(rotation, full, stats);
            } else {
                stats.late_sub_epochs.add(1);
            }
            program.enter_sub_epoch(rotation.advance(&self.clock, time), fresh);
        }
    }

    /// Sends off the banks that wait for the transit time. One whose transit time was over well
    /// before `time` is marked.
    fn end_transit(&mut self, end: End, time: Nanos, stats: &SwitchStats) {
        for (program, rotation) in self.programs.iter_mut().zip(&mut self.rotations) {
            if let Some(mut held) = rotation.held() {
                program.exchange_egress(held.bank.as_mut());
                let late = self.clock.overdue(held.last_epoch, time);
                send(rotation, FullBank { end, late, ..held }, stats);
            }
        }
    }
}

fn needs_of(programs: &[Box<dyn Dataplane>]) -> Needs {
    programs.iter().fold(Needs::NONE, |needs, program| needs | program.needs())
}

/// Lets a program enter an epoch with fresh registers.
fn enter(program: &mut dyn Dataplane, rotation: &mut BankRotation, clock: &EpochClock, epoch: u64, time: Nanos) {
    program.enter(epoch, true);
    if program.needs().contains(Needs::SUB_EPOCHS) {
        let sub_epoch = rotation.cut(clock, time, program.sub_epochs());
        program.enter_sub_epoch(sub_epoch, true);
    }
}

fn send(rotation: &mut BankRotation, bank: FullBank, stats: &SwitchStats) {
    if !rotation.send(bank) {
        stats.lost_epochs.add(1);
    }
}
