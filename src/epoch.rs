//! Epochs: numbered slices of time, and the hand-over of the registers at their end.
//!
//! An epoch's number is `floor(now / length)` of the wall clock, so that hosts with synchronised clocks agree without a
//! message. At its end the switch swaps its registers with a zeroed spare and sends them off: no copying, no clearing,
//! no waiting. When the collector has not given a spare back, the registers go on into the next epoch; the record then
//! says that it covers both, and the occurrence is counted.

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::program::Bank;

/// Nanoseconds of the wall clock since 1970, or of a capture's or simulation's clock.
pub type Nanos = u64;

/// The default length, a power of two so that a switch reads subepochs straight from a timestamp's bits: 67 ms.
pub const DEFAULT_LENGTH: Nanos = 1 << 26;

/// One replica's registers over one epoch, or over several when the collector was late.
pub struct Banks {
    pub replica: usize,
    pub first_epoch: u64,
    pub last_epoch: u64,
    /// One for each program, in the order of the configuration.
    pub banks: Vec<Box<dyn Bank>>,
}

/// The switch's end of the hand-over.
pub struct HandOver {
    replica: usize,
    length: Option<Nanos>,
    /// The epoch in which the registers in use were put in place, and the one that is running.
    first: u64,
    running: Option<u64>,
    full: Sender<Banks>,
    spares: Receiver<Vec<Box<dyn Bank>>>,
}

/// The collector's end.
#[derive(Clone)]
pub struct Collecting {
    pub full: Receiver<Banks>,
    pub spares: Sender<Vec<Box<dyn Bank>>>,
}

/// Both ends. `depth` spares at the most are under way. Without a length there is one epoch, which ends when the switch
/// is drained.
pub fn hand_over(replica: usize, length: Option<Nanos>, depth: usize) -> (HandOver, Collecting) {
    let (full, full_receiver) = bounded(depth + 1);
    let (spares_sender, spares) = bounded(depth + 1);
    let switch = HandOver { replica, length, first: 0, running: None, full, spares };
    (switch, Collecting { full: full_receiver, spares: spares_sender })
}

impl HandOver {
    /// Whether `now` lies in another epoch than the last call.
    #[inline(always)]
    pub fn ended(&mut self, now: Nanos) -> Option<u64> {
        let epoch = self.length.map_or(0, |length| now / length);
        match self.running {
            Some(running) if running == epoch => None,
            Some(_) => Some(epoch),
            None => {
                (self.first, self.running) = (epoch, Some(epoch));
                None
            }
        }
    }

    /// The running epoch, once time has been told.
    pub fn started(&self) -> Option<u64> {
        self.running
    }

    pub fn running(&self) -> u64 {
        self.running.unwrap_or_default()
    }

    /// A zeroed spare, if the collector has given one back.
    pub fn spare(&self) -> Option<Vec<Box<dyn Bank>>> {
        self.spares.try_recv().ok()
    }

    /// Sends the registers that `banks` now holds and enters `epoch`. False when the collector is gone or behind.
    pub fn send(&mut self, banks: Vec<Box<dyn Bank>>, epoch: u64) -> bool {
        let last_epoch = self.running();
        let banks = Banks { replica: self.replica, first_epoch: self.first, last_epoch, banks };
        (self.first, self.running) = (epoch, Some(epoch));
        self.full.try_send(banks).is_ok()
    }

    /// Enters `epoch` with the registers as they are.
    pub fn carry_on(&mut self, epoch: u64) {
        self.running = Some(epoch);
    }
}
