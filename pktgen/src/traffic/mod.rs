//! Which frames are sent: flows, their order, lengths and headers. The same seed gives the same
//! frames, but for the time and tag in their signatures.

use arrayvec::ArrayVec;
use weir::wire::BURST;

mod flows;
mod generated;
mod incast;
mod malformed;
mod replay;
mod sizes;
mod template;

pub use flows::{FlowPlan, PlannedFlow, Protocol};
pub use generated::{Generated, Pick, Shape};
pub use incast::{Incast, Response};
pub use malformed::{MALFORMED_SOURCE, Malformed};
pub use replay::{Recording, RecordingError, Replay};
pub use sizes::Sizes;
pub use template::{HeaderOptions, Templates};

/// Bytes of the frame check sequence, which frames in memory lack and frame sizes count.
pub const FCS: u16 = 4;
/// Preamble, start delimiter and the gap between frames, in bytes: on the wire beside each frame.
pub const WIRE_OVERHEAD: u16 = 20;

/// What a core sends next.
pub trait Source: Send {
    /// The next frame.
    type Pick: Copy + Default;

    /// Whether frames have a signature by which they are known again.
    const IS_SIGNED: bool;

    /// The next frame, which will be sent; `None` at the end.
    fn pick(&mut self) -> Option<Self::Pick>;

    /// Picks frames until there are `n`, or until the end.
    #[inline(always)]
    fn pick_burst(&mut self, n: usize, picks: &mut ArrayVec<Self::Pick, BURST>) {
        while picks.len() < n {
            let Some(pick) = self.pick() else { return };
            picks.push(pick);
        }
    }

    /// Its length without FCS.
    fn length(pick: &Self::Pick) -> u16;

    /// The next frame's own time since the source began, in nanoseconds, where frames have one.
    fn next_time_ns(&self) -> u64;

    /// Writes it to the whole of `out`.
    fn fill(&self, pick: &Self::Pick, stamp: Stamp, out: &mut [u8]);

    /// The place of its flow among the core's, `None` for one that belongs to none.
    fn flow(&self, pick: &Self::Pick) -> Option<u32>;

    /// It was picked last of its flow, and not sent after all.
    fn unsend(&mut self, pick: &Self::Pick);

    /// Whether the headers of some frames are wrong on purpose.
    fn has_malformed(&self) -> bool;

    /// Whether its headers are.
    fn is_malformed(pick: &Self::Pick) -> bool;

    /// How many flows the core has.
    fn flows(&self) -> usize;

    /// How many frames of the flow at a place were picked, and not given back.
    fn sent(&self, flow: u32) -> u64;

    /// The number in the run of the flow at a place.
    fn number(&self, flow: u32) -> u32;
}

/// What the signatures of a burst have in common.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    pub tag: u8,
    pub epoch: u8,
    pub at_ns: u64,
}
