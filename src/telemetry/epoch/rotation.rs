//! The rotation of one program's banks in one replica.
//!
//! At the end of an epoch the registers in use are swapped with a zeroed spare: no copying, no
//! clearing, no waiting. The registers of the ingress stages change at the end itself, those of the
//! egress stages when the transit time is over; then the bank is sent off. A program that cuts its
//! epochs rotates both together, at the end of each sub-epoch.
//!
//! When the collector has not given a spare back, the registers run on into the next sub-epoch or
//! epoch, of this program alone. The record says what it covers, and the occurrence is counted.

use crossbeam_channel::{Receiver, Sender, bounded};

use super::{EpochClock, Nanos};
use crate::program::{Bank, MAX_SUB_EPOCHS, SubEpoch};

/// One program's registers of one replica, as they leave the switch.
pub struct FullBank {
    /// The epochs that it covers, or is a part of.
    pub first_epoch: u64,
    pub last_epoch: u64,
    pub end: End,
    /// Time by which the egress registers changed hands too late, because the driver stood still:
    /// packets of the epoch may have waited meanwhile, and left uncounted since.
    pub late: Nanos,
    pub bank: Box<dyn Bank>,
}

/// What ended when a bank was rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A sub-epoch. The epoch goes on, and more banks of it come.
    SubEpoch,
    /// The epoch, with its transit time.
    Epoch,
    /// The switch, within the epoch.
    Switch,
}

impl End {
    pub fn name(self) -> &'static str {
        match self {
            Self::SubEpoch => "sub_epoch",
            Self::Epoch => "epoch",
            Self::Switch => "switch",
        }
    }
}

/// The switch's end of a program's rotation.
pub struct BankRotation {
    /// The epoch in which the bank in use was put in place.
    first: u64,
    /// The running sub-epoch and its end on the clock that counts epochs.
    sub_epoch: SubEpoch,
    due: Nanos,
    /// The bank of the last epoch while packets of it may still leave.
    held: Option<FullBank>,
    /// A bank of the running epoch was lost.
    lost: bool,
    full: Sender<FullBank>,
    spares: Receiver<Box<dyn Bank>>,
}

/// The collector's end of a program's rotation.
#[derive(Clone)]
pub struct BankChannel {
    pub full: Receiver<FullBank>,
    pub spares: Sender<Box<dyn Bank>>,
}

/// The collector's ends of one replica: one for each program, in the order of the configuration.
pub type Collecting = Vec<BankChannel>;

impl BankRotation {
    /// Both ends. The channel has room for every bank of the program: `spares`, and the one in use.
    pub fn new(spares: usize) -> (Self, BankChannel) {
        let (full, full_receiver) = bounded(spares + 1);
        let (spares_sender, spares) = bounded(spares + 1);
        let sub_epoch = SubEpoch::WHOLE;
        let rotation = Self { first: 0, sub_epoch, due: Nanos::MAX, held: None, lost: false, full, spares };
        (rotation, BankChannel { full: full_receiver, spares: spares_sender })
    }

    /// A zeroed bank, if the collector has given one back.
    pub fn spare(&self) -> Option<Box<dyn Bank>> {
        self.spares.try_recv().ok()
    }

    /// Cuts the running epoch of `clock`, which is entered at `time`, into `of` sub-epochs.
    pub fn cut(&mut self, clock: &EpochClock, time: Nanos, of: u32) -> SubEpoch {
        let of = if clock.is_cut() { of.clamp(1, MAX_SUB_EPOCHS) } else { 1 };
        self.sub_epoch = SubEpoch { index: 0, of };
        self.advance(clock, time)
    }

    /// Enters the sub-epoch in which `time` lies.
    pub fn advance(&mut self, clock: &EpochClock, time: Nanos) -> SubEpoch {
        self.sub_epoch = clock.sub_epoch(time, self.sub_epoch.of);
        self.due = clock.end_of(self.sub_epoch);
        self.sub_epoch
    }

    /// When the running sub-epoch ends, on the clock that counts epochs.
    pub fn due(&self) -> Nanos {
        self.due
    }

    /// Makes `bank`, which holds the registers until now, a bank of the epochs until `last`. The
    /// next one begins in `epoch`.
    pub fn end(&mut self, bank: Box<dyn Bank>, last: u64, epoch: u64, end: End) -> FullBank {
        let first_epoch = std::mem::replace(&mut self.first, epoch);
        FullBank { first_epoch, last_epoch: last, end, late: 0, bank }
    }

    /// The first bank is put in place in `epoch`.
    pub fn start(&mut self, epoch: u64) {
        self.first = epoch;
    }

    /// Enters `epoch`, which is not cut, with the registers as they are.
    pub fn extend(&mut self, epoch: u64) {
        if epoch <= self.first {
            // The clock went back. What the registers hold is not of one epoch.
            self.first = epoch.saturating_sub(1);
        }
        (self.sub_epoch, self.due) = (SubEpoch::WHOLE, Nanos::MAX);
    }

    /// Keeps a bank until the transit time is over.
    pub fn hold(&mut self, bank: FullBank) {
        self.held = Some(bank);
    }

    /// The bank that was [kept](Self::hold).
    pub fn held(&mut self) -> Option<FullBank> {
        self.held.take()
    }

    /// Sends a bank off. False when the collector is gone; the record of its epoch is not whole
    /// then.
    pub fn send(&mut self, bank: FullBank) -> bool {
        let end = match bank.end {
            End::Epoch if std::mem::take(&mut self.lost) => End::Switch,
            end => end,
        };
        let sent = self.full.try_send(FullBank { end, ..bank }).is_ok();
        self.lost |= !sent && end == End::SubEpoch;
        sent
    }
}
