//! Packets come in: what a port lets in, and the PHVs of that.

use super::{BURST, Burst, Carrier, Role, Switch};
use crate::pisa::{DropReason, Phv, PortId};
use crate::wire::{self, Frame, Net};

/// Why each packet of a burst may not enter.
pub(super) type Rejected = [Option<DropReason>; BURST];

impl Switch {
    /// Fills the PHVs. What may not enter is counted and leaves the burst.
    #[inline(always)]
    pub(super) fn parse<F: Frame>(&mut self, ingress: PortId, burst: &mut Burst<F>) {
        let (role, carrier) = (self.ports[usize::from(ingress)].role, self.carrier);
        let (mut kept, mut unmeasured) = (0, 0);
        let mut rejected: Rejected = [None; BURST];
        let (epoch, by_bit) = (wire::shim::epoch_of(self.measure.hand_over.running()), self.measure.hand_over.by_bit());
        for (frame, rejected) in burst.iter().zip(&mut rejected) {
            let phv = &mut self.phvs[kept];
            phv.begin(ingress, frame.wire_len() as u32);
            let parsed = wire::parse(frame.bytes(), &mut phv.headers).map_err(|_| DropReason::Runt);
            match parsed.and_then(|()| admit(phv, role, carrier, by_bit, frame.bytes())) {
                Ok(()) => {
                    if role == Role::Host {
                        (phv.enters, phv.epoch) = (true, epoch);
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

/// What a port lets in: from a host no shim at all, from the fabric none that this version cannot read, and none where the
/// packets themselves carry what it says. `by_bit` are the epochs that the one bit of such a packet stands for.
#[inline(always)]
fn admit(phv: &mut Phv, role: Role, carrier: Carrier, by_bit: [u32; 2], frame: &[u8]) -> Result<(), DropReason> {
    let unreadable = phv.headers.ethertype == wire::ethertype::SHIM;
    if unreadable || (phv.headers.shim && (role == Role::Host || carrier == Carrier::Tos)) {
        return Err(DropReason::BadShim);
    }
    if phv.headers.shim {
        phv.wire_bytes -= wire::shim::LEN as u32;
        let shim = wire::shim::peek(frame).map_err(|_| DropReason::BadShim)?;
        (phv.epoch, phv.class) = (shim.epoch, shim.class);
    }
    if role == Role::Fabric && carrier == Carrier::Tos {
        let (class, bit) = wire::tos::read(phv.headers.tos);
        (phv.class, phv.epoch) = (class, by_bit[usize::from(bit)]);
        phv.headers.tos &= !wire::tos::MASK;
    }
    Ok(())
}
