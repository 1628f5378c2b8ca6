//! Packets that their port did not take after egress stages had seen them leave.

use super::ingress::take_dscp;
use super::{Role, Switch, TelemetryHeader};
use crate::pisa::{DropAt, DropReason, Phv, PortId};
use crate::wire::{self, Frame};

impl Switch {
    /// Tells programs of packets that were to leave by this port, which did not take them after egress
    /// stages had seen them. Their shims are read again; to a host there is none, and the running epoch
    /// stands for theirs.
    #[cold]
    #[inline(never)]
    pub fn unsent<F: Frame>(&mut self, port: PortId, frames: &[F], reason: DropReason) {
        let Some(role) = self.ports.get(usize::from(port)).map(|port| port.role) else { return };
        if !self.telemetry.drops {
            return;
        }
        let (telemetry, by_bit) = (self.telemetry_at(port), self.telemetry.clock.by_bit());
        let begun = Phv { egress: port, ..Phv::of_port(port) };
        let running = wire::shim::epoch_of(self.telemetry.clock.running());
        for frame in frames {
            let mut phv = Phv { wire_bytes: frame.wire_len() as u32, ..begun };
            phv.shim = phv.shim.with_epoch(running);
            if telemetry.read(&mut phv, frame.bytes()).is_err() {
                continue;
            }
            if role == Role::Fabric && self.header == TelemetryHeader::Dscp {
                take_dscp(&mut phv, by_bit);
            }
            if let Some(inner) = &self.telemetry.inner {
                inner.give(frame.bytes(), &mut phv.headers);
            }
            self.telemetry.dropped(&phv, reason, DropAt::Behind);
        }
    }
}
