//! The match-action tables that decide each packet's output port.

pub mod learn;
mod xconnect;

pub use learn::Learn;
pub use xconnect::{Xconnect, XconnectError};

use crate::pisa::{Phv, PortId, Probe, Verdict};

/// How a switch forwards. A worker has its own; what workers share is behind a [`Reader`](crate::pisa::table::Reader).
#[derive(Debug)]
pub enum Forward {
    Xconnect(Xconnect),
    Learn(Learn),
}

impl Forward {
    /// The verdict of every packet from a port, when it depends on nothing else.
    #[inline]
    pub fn fixed(&self, ingress: PortId) -> Option<Verdict> {
        match self {
            Self::Xconnect(xconnect) => Some(xconnect.verdict(ingress)),
            Self::Learn(_) => None,
        }
    }

    /// Learn digests of this worker that found their queue full.
    pub fn lost_digests(&self) -> u64 {
        match self {
            Self::Xconnect(_) => 0,
            Self::Learn(learn) => learn.lost_digests(),
        }
    }

    /// Writes the verdict of each packet. `now` is in nanoseconds of the wall clock or the simulated one.
    #[inline]
    pub fn decide(&mut self, phvs: &mut [Phv], now: u64) {
        match self {
            Self::Xconnect(xconnect) => xconnect.decide(phvs),
            Self::Learn(learn) => learn.decide(phvs, now),
        }
    }

    /// Writes the verdict of one packet as [`Self::decide`] does, and tells of each look-up.
    pub fn trace(&mut self, phv: &mut Phv, now: u64, probe: &mut dyn Probe) {
        match self {
            Self::Xconnect(xconnect) => xconnect.trace(phv, probe),
            Self::Learn(learn) => learn.trace(phv, now, probe),
        }
    }
}
