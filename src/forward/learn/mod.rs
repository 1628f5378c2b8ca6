//! A learning Ethernet switch that knows VLANs, in the two halves that a P4 switch has.
//!
//! The dataplane ([`Learn`], one a worker) looks up both addresses of a frame. For a source that is
//! unknown, or known at another port, it queues a [`Digest`]; if the queue is full the digest is
//! counted and the packet goes on. The control side ([`Control`]) applies digests to the table of
//! MAC addresses, ages it, and publishes it whole. Live it does so on a thread of its own; the
//! replayer and the simulated network call it between bursts, which makes them deterministic.
//!
//! An entry's key is a MAC address and a VLAN (0 for untagged frames); every port belongs to every
//! VLAN. Group addresses are flooded and never learned. A MAC address that the operator has set
//! stays where it is, whatever frames say. Frames to the bridge group (01-80-C2-00-00-0x) are for
//! the switch itself: dropped, and nothing is learned from them. [`Config::link_local`] makes them
//! frames like others, but for PAUSE.

mod control;
mod dataplane;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use control::{Control, Edit, EditError, Entry, Move};
pub use dataplane::Learn;

use crate::pisa::PortId;
use crate::pisa::table::Exact;
use crate::wire::Mac;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum entries. New ones are refused when the table is full, so that a flood of addresses
    /// pushes none out.
    pub capacity: usize,
    /// Silence after which a MAC address is forgotten.
    pub ageing: Duration,
    /// Digests that may wait for the control side.
    pub queue: usize,
    /// Whether frames to the bridge group are forwarded, but for PAUSE.
    pub link_local: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { capacity: 8192, ageing: Duration::from_secs(300), queue: 1024, link_local: false }
    }
}

/// The dataplane's report of a source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    pub key: MacKey,
    pub port: PortId,
}

/// VLAN identifier and MAC address in the low 60 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacKey(u64);

impl MacKey {
    #[inline(always)]
    pub fn new(vid: u16, mac: Mac) -> Self {
        Self(u64::from(vid) << 48 | mac.to_u64())
    }

    pub fn vid(self) -> u16 {
        (self.0 >> 48) as u16
    }

    pub fn mac(self) -> Mac {
        let [_, _, a, b, c, d, e, f] = self.0.to_be_bytes();
        Mac([a, b, c, d, e, f])
    }
}

/// The port of a MAC address. The time when it was last heard stands in another array, at `index`,
/// which outlives the versions of the table: workers write it while the control side makes the next
/// version.
#[derive(Clone, Copy, Debug)]
struct MacEntry {
    port: PortId,
    index: u32,
    /// Set by the operator: it neither moves nor ages.
    fixed: bool,
}

/// One version of the table.
#[derive(Clone, Debug)]
struct MacTable {
    version: u64,
    table: Exact<u64, MacEntry>,
}

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Whole seconds, as they are stored per MAC address: enough until 2106.
fn seconds(now: u64) -> u32 {
    (now / NS_PER_SECOND) as u32
}
