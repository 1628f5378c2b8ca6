//! Ingress: what a port lets in, and the PHVs of that.

use super::{BURST, Burst, Role, Switch, TelemetryHeader};
use crate::pisa::{DropReason, Phv, PortId};
use crate::wire::{self, Frame, Net};

/// Why each packet of a burst may not enter.
pub(super) type Rejected = [Option<DropReason>; BURST];

impl Switch {
    /// Fills the PHVs. What may not enter is counted and leaves the burst.
    #[inline(always)]
    pub(super) fn parse<F: Frame>(&mut self, ingress: PortId, burst: &mut Burst<F>) {
        let (role, header) = (self.ports[usize::from(ingress)].role, self.header);
        let (mut kept, mut unmeasured) = (0, 0);
        let mut rejected: Rejected = [None; BURST];
        let epoch = wire::shim::epoch_of(self.telemetry.clock.running());
        let telemetry = Telemetry {
            role,
            header,
            by_bit: self.telemetry.clock.by_bit(),
            digest_beside: self.telemetry.digest.then_some(epoch),
        };
        for (frame, rejected) in burst.iter().zip(&mut rejected) {
            let phv = &mut self.phvs[kept];
            phv.begin(ingress, frame.wire_len() as u32);
            let parsed = wire::parse(frame.bytes(), &mut phv.headers).map_err(|_| DropReason::Runt);
            match parsed.and_then(|()| telemetry.read(phv, frame.bytes())) {
                Ok(()) => {
                    if role == Role::Host {
                        (phv.enters, phv.shim) = (true, phv.shim.with_epoch(epoch));
                    }
                    kept += 1;
                    unmeasured += u64::from(phv.headers.net == Net::Other);
                }
                Err(reason) => *rejected = Some(reason),
            }
        }
        self.stats.unmeasured.add(unmeasured);
        if kept < burst.len() {
            self.reject(ingress, burst, &rejected);
        }
    }

    /// Takes what was rejected out of the burst.
    #[cold]
    pub(super) fn reject<F: Frame>(&self, ingress: PortId, burst: &mut Burst<F>, rejected: &Rejected) {
        let mut reasons = rejected.iter();
        burst.retain(|_| match reasons.next().copied().flatten() {
            None => true,
            Some(reason) => {
                self.stats.port(ingress).drop(reason, 1);
                false
            }
        });
    }
}

/// How a port's packets say what was measured of them.
struct Telemetry {
    role: Role,
    header: TelemetryHeader,
    /// The epochs that the one bit of a packet's DSCP stands for.
    by_bit: [u32; 2],
    /// The running epoch as packets carry it, where they carry a digest and four bits of theirs.
    digest_beside: Option<u32>,
}

impl Telemetry {
    /// Reads the telemetry header into the PHV.
    ///
    /// # Errors
    /// For a shim from a host, one that this version cannot read, and one where the DSCP is used.
    #[inline(always)]
    fn read(&self, phv: &mut Phv, frame: &[u8]) -> Result<(), DropReason> {
        let fabric = self.role == Role::Fabric;
        let unreadable = phv.headers.ethertype == wire::ethertype::SHIM;
        if unreadable || (phv.headers.shim && (!fabric || self.header == TelemetryHeader::Dscp)) {
            return Err(DropReason::BadShim);
        }
        if phv.headers.shim {
            phv.wire_bytes -= wire::shim::LEN as u32;
            phv.shim = wire::shim::read(frame).ok_or(DropReason::BadShim)?.next_hop();
            if let Some(running) = self.digest_beside {
                let epoch = wire::shim::nearest_epoch(running, phv.shim.epoch());
                (phv.digest, phv.shim) = (phv.shim.digest(), phv.shim.with_epoch(epoch));
            }
        }
        if fabric && self.header == TelemetryHeader::Dscp {
            let (class, bit) = wire::dscp::read(phv.headers.tos);
            phv.shim = phv.shim.with_class(class).with_epoch(self.by_bit[usize::from(bit)]);
            phv.headers.tos &= !wire::dscp::MASK;
        }
        Ok(())
    }
}
