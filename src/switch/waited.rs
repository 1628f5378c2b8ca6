//! Packets that waited while the driver of the switch stood still.
//!
//! A packet that carries all of its epoch's number is counted in that epoch or in none, however
//! long it waited. Where it carries the lowest bit alone, one that waited for about two epochs is
//! taken for a packet of another epoch. So a driver that notices that it stood still says which
//! packets may have waited, and the epochs that these may be of are told with the strays.

use super::{Role, Switch, TelemetryHeader};
use crate::pisa::PortId;
use crate::telemetry::epoch::Nanos;
use crate::wire::{self, Frame, Headers};

/// As many epochs from either end are told. Of those in the middle of more the switch has no
/// records.
const MOST: u64 = 32;

impl Switch {
    /// How long packets may wait for the driver before it has to tell of it.
    #[inline(always)]
    pub fn longest_wait(&self) -> Nanos {
        let by_bit = self.fabric && self.header == TelemetryHeader::Dscp && self.telemetry.egress;
        if by_bit { self.telemetry.clock.transit() } else { Nanos::MAX }
    }

    /// The driver stood still from `since` to `now`, in the midst of so many packets: they may have
    /// come in when it went on, and were processed with the time before; or they went out then,
    /// with the epoch's bit of before.
    #[cold]
    pub fn stood_still(&mut self, since: Nanos, now: Nanos, packets: u64) {
        if let Some(epochs) = self.ambiguous(since, now) {
            self.count_ambiguous([packets; 2], epochs);
        }
    }

    /// The packets of this burst, which is to be processed at `now`, may have waited since then.
    #[cold]
    pub fn waited<F: Frame>(&mut self, ingress: PortId, burst: &[F], since: Nanos, now: Nanos) {
        // Those from hosts are counted in the epoch in which they are processed.
        let from_fabric = self.ports.get(usize::from(ingress)).is_some_and(|port| port.role == Role::Fabric);
        let Some(epochs) = self.ambiguous(since, now).filter(|_| from_fabric) else { return };
        let mut by_bit = [0; 2];
        for frame in burst {
            let mut headers = Headers::default();
            let (class, bit) = match wire::parse(frame.bytes(), &mut headers) {
                Ok(()) => wire::dscp::read(headers.tos),
                Err(_) => continue,
            };
            by_bit[usize::from(bit)] += u64::from(class != 0);
        }
        self.count_ambiguous(by_bit, epochs);
    }

    /// The first and the last epoch of those that packets of between these times can be of, when
    /// their bit does not tell all of them apart.
    fn ambiguous(&self, since: Nanos, now: Nanos) -> Option<(u64, u64)> {
        if self.longest_wait() == Nanos::MAX { None } else { self.telemetry.clock.ambiguous(since, now) }
    }

    /// Packets of each epoch bit may be of any of these epochs.
    fn count_ambiguous(&mut self, by_bit: [u64; 2], (first, last): (u64, u64)) {
        // Each stands for the one two later as well.
        let end = last.saturating_sub(1);
        let back = (first + MOST).max(end.saturating_sub(MOST));
        for epoch in (first..end.min(first + MOST)).chain(back..end) {
            let packets = by_bit[(epoch & 1) as usize];
            self.telemetry.programs.iter_mut().for_each(|program| program.count_ambiguous(epoch, packets));
        }
    }
}
