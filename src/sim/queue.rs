//! The queue before a link that takes packets at a rate.

use std::num::NonZeroU64;

use super::Setup;
use crate::switch::Backlog;
use crate::telemetry::epoch::Nanos;

/// Bits that a frame takes on a link beside its own: FCS, preamble and gap.
const BITS_BESIDE: u64 = 24 * 8;

/// What the queues of a network's links have in common: room for what a link sends within a time.
#[derive(Clone, Copy, Debug)]
pub struct LinkQueue {
    /// Bits a second.
    rate: NonZeroU64,
    /// The longest time for which a packet waits.
    timeout: Nanos,
}

impl LinkQueue {
    /// `None` where links take packets at once.
    pub fn of(setup: &Setup) -> Option<Self> {
        Some(Self { rate: setup.rate.and_then(NonZeroU64::new)?, timeout: setup.queue_timeout })
    }

    /// Bits a second.
    pub fn rate(self) -> u64 {
        self.rate.get()
    }

    /// Picoseconds that the link takes for a byte, at least one.
    pub fn byte_picos(self) -> u64 {
        (8_000_000_000_000 / self.rate).max(1)
    }

    /// Bytes for which there is room.
    pub fn room(self) -> u64 {
        let bytes = u128::from(self.timeout) * u128::from(self.rate.get()) / 8_000_000_000;
        bytes.try_into().unwrap_or(u64::MAX)
    }

    /// So many packets, that the link takes so much time for.
    pub fn backlog(self, packets: u32, waits: Nanos) -> Backlog {
        Backlog::of_share(packets, ((u128::from(waits) << 16) / u128::from(self.timeout.max(1))) as u32)
    }

    /// Whether a packet finds room behind those that the link takes so much time for.
    pub fn has_room(self, waits: Nanos) -> bool {
        waits <= self.timeout
    }

    /// The time that the link takes for a frame of so many bytes, without FCS.
    pub fn time(self, bytes: u64) -> Nanos {
        (bytes * 8 + BITS_BESIDE) * 1_000_000_000 / self.rate
    }
}
