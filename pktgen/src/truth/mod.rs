//! What was really sent and received, by flow and epoch of sending, on weir's epoch clock.
//!
//! Each core counts in banks of its own, one of frames sent in the running epoch and four of frames
//! received by the epoch in which they were sent. At an epoch's end it hands banks to one thread,
//! which joins those of all cores. Frames that come when their epoch's bank is closed are handed over
//! one by one, and that thread holds the truth back for them.

mod collect;
#[cfg(feature = "dpdk")]
mod counting;
mod epochs;
#[cfg(feature = "dpdk")]
mod file;
mod held;
mod late;
mod pauses;
#[cfg(feature = "dpdk")]
mod score;

pub use collect::{Collector, EpochTruth, FlowTruth};
#[cfg(feature = "dpdk")]
pub use counting::CoreTruth;
pub use epochs::{OPEN, ReceivedEpochs};
#[cfg(feature = "dpdk")]
pub use file::{TruthError, TruthFile};
pub use held::Held;
pub use late::{Late, epoch_of};
pub use pauses::{EpochTime, Pauses};
#[cfg(feature = "dpdk")]
pub use score::{HeavyScore, LossScore, ScoreSummary, Scorer};

/// Frames sent of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentCount {
    pub packets: u64,
    /// Without FCS.
    pub bytes: u64,
}

/// What a core hands over at an epoch's end.
#[derive(Debug)]
pub enum Closed {
    /// Sent in this epoch, by the flow's place among the core's; and epochs whose counts could not be
    /// handed over.
    Sent { core: u32, epoch: u64, counts: Box<[SentCount]>, unknown: Vec<u64> },
    /// Received of those sent in this epoch, by the flow's number; and frames of earlier epochs.
    Received { core: u32, epoch: u64, counts: Box<[u32]>, late: Late },
    /// The core counts no more.
    Done { core: u32 },
}
