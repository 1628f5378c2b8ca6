//! The match-action tables that decide each packet's output port.

pub mod acl;
pub mod learn;
pub mod mirror;
pub mod policy;
pub mod rate;
pub mod route;
pub mod text;
pub mod vlan;
mod xconnect;

pub use learn::Learn;
pub use route::{Finished, Route};
pub use xconnect::{Xconnect, XconnectError};

use crate::pisa::{Phv, PortId, Probe, Verdict};

/// How a switch forwards. A worker has its own; what workers share is behind a
/// [`Reader`](crate::pisa::table::Reader).
#[derive(Debug)]
pub enum Forward {
    Xconnect(Xconnect),
    Learn(Learn),
    /// Boxed, because its hash unit is large.
    Route(Box<Route>),
}

impl Forward {
    /// The verdict of every packet from a port, when it depends on nothing else.
    #[inline]
    pub fn fixed(&self, ingress: PortId) -> Option<Verdict> {
        match self {
            Self::Xconnect(xconnect) => Some(xconnect.verdict(ingress)),
            Self::Learn(_) | Self::Route(_) => None,
        }
    }

    /// Learn digests of this worker that found their queue full.
    pub fn lost_digests(&self) -> u64 {
        match self {
            Self::Xconnect(_) => 0,
            Self::Learn(learn) => learn.lost_digests(),
            Self::Route(route) => route.lost_digests(),
        }
    }

    /// There when packets change on their way: each must go through its `finish` behind `decide`.
    #[inline]
    pub fn router(&mut self) -> Option<&mut Route> {
        match self {
            Self::Xconnect(_) | Self::Learn(_) => None,
            Self::Route(route) => Some(route.as_mut()),
        }
    }

    /// Writes the verdict of each packet. `now` is in nanoseconds of the wall clock or the
    /// simulated one.
    #[inline]
    pub fn decide(&mut self, phvs: &mut [Phv], now: u64) {
        match self {
            Self::Xconnect(xconnect) => xconnect.decide(phvs),
            Self::Learn(learn) => learn.decide(phvs, now),
            Self::Route(route) => route.decide(phvs, now),
        }
    }

    /// Writes the verdict of one packet as [`Self::decide`] does, and records each look-up.
    pub fn trace(&mut self, phv: &mut Phv, now: u64, probe: &mut dyn Probe) {
        match self {
            Self::Xconnect(xconnect) => xconnect.trace(phv, probe),
            Self::Learn(learn) => learn.trace(phv, now, probe),
            Self::Route(route) => route.trace(phv, now, probe),
        }
    }
}
