//! How long each frame is.

use super::rng::word;

/// Frame lengths in bytes from the destination MAC on, without the 4 bytes of the FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    Fixed(u16),
    /// The simple IMIX: 7 parts of 60, 4 of 590 and 1 of 1514 bytes (64, 594 and 1518 with the
    /// FCS).
    Imix,
}

/// Ethernet's smallest and largest frame without FCS and tags.
pub(super) const MIN_FRAME: u16 = 60;
pub(super) const MAX_FRAME: u16 = 1514;

const STREAM: u64 = 0x5a5a_0002;

impl Lengths {
    /// Length of the packet with this number in the workload.
    #[inline]
    pub fn of(self, seed: u64, packet: u64) -> u16 {
        match self {
            Self::Fixed(length) => length,
            Self::Imix => match word(seed, STREAM, packet) % 12 {
                0..7 => MIN_FRAME,
                7..11 => 590,
                _ => MAX_FRAME,
            },
        }
    }
}
