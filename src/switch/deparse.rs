//! The deparser: writes shim, VLAN tag and DSCP of a packet that leaves, as its PHV says. Nothing
//! else in the switch writes these (`tests/deparser.rs`).

use super::{PortInfo, Role, Switch, TelemetryHeader, TxBursts};
use crate::forward::vlan;
use crate::pisa::{Disposition, Phv, PortId};
use crate::wire::vlan::TagEdit;
use crate::wire::{self, Frame, Headers, Net};

impl Switch {
    /// Writes a packet that was admitted, with this change of its tag. The frame is as it was then,
    /// so there is room for all of it.
    #[inline(always)]
    pub(super) fn deparse<F: Frame>(&self, frame: &mut F, phv: &Phv, tag: TagEdit, disposition: Disposition) {
        // Before the headers move.
        if self.header == TelemetryHeader::Dscp {
            self.write_dscp(frame, phv, disposition);
        }
        if tag != TagEdit::Keep {
            let written = tag.write_tag(frame, vlan::tag_offset(&phv.headers));
            debug_assert!(written, "no room for a tag that was admitted");
        }
        if self.header == TelemetryHeader::Shim {
            let written = self.write_shim(frame, phv, disposition);
            debug_assert!(written, "no room for a shim that was admitted");
        }
    }

    /// Writes the shims of a burst that waits as a whole.
    #[inline(always)]
    pub(super) fn deparse_whole<F: Frame>(&self, id: PortId, disposition: Disposition, out: &mut TxBursts<F>) {
        let Some(queue) = out.queues.get_mut(usize::from(id)).filter(|_| self.rewrites) else { return };
        for (frame, phv) in queue.iter_mut().zip(self.phvs.iter()) {
            let written = self.write_shim(frame, phv, disposition);
            debug_assert!(written, "no room for a shim that was admitted");
        }
    }

    /// A packet goes through the fabric with its class and epoch bit, and leaves it with zeros
    /// there. What a host had there is lost, and counted.
    fn write_dscp<F: Frame>(&self, frame: &mut F, phv: &Phv, disposition: Disposition) {
        let bits = match disposition {
            Disposition::ToHost if phv.enters => return,
            Disposition::ToHost => 0,
            _ => wire::dscp::bits(phv.shim.class(), phv.shim.epoch() & 1 == 1),
        };
        if phv.headers.net == Net::Other {
            return;
        }
        let packet = frame.bytes_mut().get_mut(usize::from(phv.headers.l3)..);
        let Some(before) = packet.and_then(|packet| wire::dscp::write(packet, bits)) else { return };
        self.stats.port(phv.ingress).remarked.add(u64::from(phv.enters && before != 0));
    }

    /// A shim goes on where a packet enters the fabric, and comes off before a host. False when
    /// that cannot be.
    #[inline(always)]
    fn write_shim<F: Frame>(&self, frame: &mut F, phv: &Phv, disposition: Disposition) -> bool {
        let shim = || if self.telemetry.digest { phv.shim.with_digest(phv.digest) } else { phv.shim };
        if self.telemetry.digest && disposition == Disposition::ToHost {
            frame.take_digest(phv.identity, phv.digest);
        }
        match (phv.headers.shim, disposition) {
            (true, Disposition::ToHost) => wire::shim::pop(frame),
            (true, _) => wire::shim::rewrite(frame, shim()),
            (false, Disposition::ToFabric) => wire::shim::push(frame, shim()),
            (false, _) => true,
        }
    }
}

/// Takes the class off a copy for a mirror port, with which it would count as a packet of the
/// network. `ends`: the ports that it is between. `None` when that cannot be.
pub(super) fn unmark<F: Frame>(copy: &mut F, header: TelemetryHeader, ends: [Option<&PortInfo>; 2]) -> Option<()> {
    if wire::shim::peek(copy.bytes()).is_ok() && !wire::shim::pop(copy) {
        return None;
    }
    let fabric = ends.into_iter().flatten().any(|port| port.role == Role::Fabric);
    if header == TelemetryHeader::Dscp && fabric {
        let mut headers = Headers::default();
        if wire::parse(copy.bytes(), &mut headers).is_ok() && headers.net != Net::Other {
            wire::dscp::write(copy.bytes_mut().get_mut(usize::from(headers.l3)..)?, 0)?;
        }
    }
    Some(())
}
