//! Admission: whether a packet leaves by a port, decided before anything of it is written.
//!
//! A packet that is admitted waits in its port's queue. The deparser writes it as it is admitted
//! when no egress stage can change what is written, and after egress stages otherwise.

use std::sync::atomic::Ordering::Relaxed;

use super::egress::Exit;
use super::replicate::Exits;
use super::{Burst, L2_OVERHEAD, PortInfo, Role, Switch, TelemetryHeader, TxBursts, enqueue};
use crate::pisa::{Disposition, DropReason, Phv, PortId, Verdict};
use crate::wire::vlan::TagEdit;
use crate::wire::{self, Frame, Net};

impl Switch {
    /// Every packet has the same way: no need to look into it.
    #[inline(always)]
    pub(super) fn move_whole<F: Frame>(
        &self,
        ingress: PortId,
        burst: &mut Burst<F>,
        verdict: Verdict,
        out: &mut TxBursts<F>,
    ) {
        let stats = self.stats.port(ingress);
        let (port, queue) = match verdict {
            Verdict::Drop(reason) => return drop_all(burst, |n| stats.drop(reason, n)),
            Verdict::Flood => return drop_all(burst, |n| stats.drop(DropReason::NoRoute, n)),
            Verdict::Port(id) => match (self.ports.get(usize::from(id)), out.queues.get_mut(usize::from(id))) {
                (Some(port), Some(queue)) => (port, queue),
                _ => return drop_all(burst, |n| stats.drop(DropReason::NoRoute, n)),
            },
        };
        if !port.up.load(Relaxed) {
            return drop_all(burst, |n| stats.drop(DropReason::PortDown, n));
        }
        if port.mtu < self.ports[usize::from(ingress)].mtu {
            let limit = (port.mtu + L2_OVERHEAD) as usize;
            burst.retain(|frame| {
                let fits = frame.wire_len() <= limit;
                stats.drop(DropReason::TooLong, u64::from(!fits));
                fits
            });
        }
        stats.drop(DropReason::TxFull, enqueue(queue, burst) as u64);
    }

    /// The way of a burst that a port takes as a whole: all verdicts name it, it is up, its queue is empty,
    /// and each packet fits its MTU, with a shim where it gets one. Nothing but shims is to be written.
    #[inline(always)]
    pub(super) fn whole<F: Frame>(
        &self,
        ingress: PortId,
        burst: &Burst<F>,
        out: &TxBursts<F>,
    ) -> Option<(PortId, Disposition)> {
        if self.fabric && self.header == TelemetryHeader::Dscp {
            return None;
        }
        let phvs = self.phvs.get(..burst.len())?;
        let verdict = phvs.first()?.verdict;
        let is_fixed = self.forward.fixed(ingress).is_some();
        let is_sole = is_fixed || phvs.iter().fold(true, |sole, phv| sole & (phv.verdict == verdict));
        let Verdict::Port(id) = verdict else { return None };
        let (port, queue) = (self.ports.get(usize::from(id))?, out.queues.get(usize::from(id))?);
        let limit = port.mtu + L2_OVERHEAD;
        let fit = phvs.iter().fold(true, |fit, phv| fit & (phv.wire_bytes <= limit));
        let takes = is_sole & fit & port.up.load(Relaxed) & queue.is_empty();
        let disposition = match port.role {
            Role::Host => Disposition::ToHost,
            Role::Fabric => Disposition::ToFabric,
        };
        let has_room = |(frame, phv): (&F, &Phv)| phv.headers.shim || port.has_room_for_shim(frame, phv, 0);
        let is_written = disposition == Disposition::ToHost || burst.iter().zip(phvs).all(has_room);
        (takes && is_written).then_some((id, disposition))
    }

    /// Puts the packets of a burst into the queues that their verdicts name. `REWRITES`: frames may
    /// have to be written.
    #[inline(always)]
    pub(super) fn emit_burst<F: Frame, const REWRITES: bool>(&self, burst: &mut Burst<F>, out: &mut TxBursts<F>) {
        for (frame, phv) in burst.drain(..).zip(self.phvs.iter()) {
            self.emit::<F, REWRITES>(frame, phv, out);
        }
    }

    #[inline(always)]
    fn emit<F: Frame, const REWRITES: bool>(&self, frame: F, phv: &Phv, out: &mut TxBursts<F>) {
        match phv.verdict {
            Verdict::Port(port) => {
                if let Err(reason) = self.send::<F, REWRITES>(frame, phv, port, true, out) {
                    self.end(phv, reason);
                }
            }
            Verdict::Flood => _ = self.flood(frame, phv, out, &mut Exits::new()),
            Verdict::Drop(reason) => _ = self.end(phv, reason),
        }
    }

    /// Counts a packet that leaves by no port.
    #[inline(always)]
    pub(super) fn end(&self, phv: &Phv, reason: DropReason) -> Disposition {
        self.stats.port(phv.ingress).drop(reason, 1);
        if reason.is_end() { Disposition::Ended } else { Disposition::Lost }
    }

    /// Queues a packet that the router has made or that becomes several. It is written after
    /// egress stages, where there are any.
    #[inline(never)]
    pub(super) fn send_any<F: Frame>(
        &self,
        frame: F,
        phv: &Phv,
        id: PortId,
        out: &mut TxBursts<F>,
    ) -> Result<Exit, DropReason> {
        let writes = !self.telemetry.egress;
        match self.rewrites {
            true => self.send::<F, true>(frame, phv, id, writes, out),
            false => self.send::<F, false>(frame, phv, id, writes, out),
        }
    }

    /// Queues a packet at a port that admits it, and `writes` it first.
    #[inline(always)]
    pub(super) fn send<F: Frame, const REWRITES: bool>(
        &self,
        mut frame: F,
        phv: &Phv,
        id: PortId,
        writes: bool,
        out: &mut TxBursts<F>,
    ) -> Result<Exit, DropReason> {
        let at = usize::from(id);
        let port = self.ports.get(at).ok_or(DropReason::NoRoute)?;
        if !port.up.load(Relaxed) {
            return Err(DropReason::PortDown);
        }
        if phv.wire_bytes > port.mtu + L2_OVERHEAD {
            return Err(DropReason::TooLong);
        }
        let queue = out.queues.get_mut(at).ok_or(DropReason::NoRoute)?;
        let disposition = if REWRITES {
            self.admit_rewritten(&mut frame, phv, (id, port), queue.is_full(), writes)?
        } else {
            // There are no fabric ports.
            Disposition::ToHost
        };
        let exit = Exit::new(id, queue.len(), disposition);
        queue.try_push(frame).map_err(|_| DropReason::TxFull)?;
        Ok(exit)
    }

    /// The rest of admission where packets may have to be written, and then that.
    #[inline(always)]
    fn admit_rewritten<F: Frame>(
        &self,
        frame: &mut F,
        phv: &Phv,
        (id, port): (PortId, &PortInfo),
        full: bool,
        writes: bool,
    ) -> Result<Disposition, DropReason> {
        let tag = self.tag_edit(frame, phv, id)?;
        if full {
            return Err(DropReason::TxFull);
        }
        let disposition = match port.role {
            Role::Host => Disposition::ToHost,
            Role::Fabric if self.is_marked(frame, phv, port, tag) => Disposition::ToFabric,
            Role::Fabric => Disposition::Unmarked,
        };
        if writes {
            self.deparse(frame, phv, tag, disposition);
        }
        Ok(disposition)
    }

    /// Whether a packet to another switch has, or has room for, what carries its class.
    #[inline(always)]
    fn is_marked<F: Frame>(&self, frame: &F, phv: &Phv, port: &PortInfo, tag: TagEdit) -> bool {
        if self.header == TelemetryHeader::Dscp {
            let packet = || frame.bytes().get(usize::from(phv.headers.l3)..).unwrap_or_default();
            return phv.headers.net == Net::Other || wire::dscp::fits(packet());
        }
        if phv.headers.shim {
            return true;
        }
        let marked = port.has_room_for_shim(frame, phv, tag.growth());
        if !marked {
            self.stats.port(phv.ingress).without_shim.add(1);
        }
        marked
    }
}

impl PortInfo {
    /// Whether a packet has room for a shim, in the port's MTU and before its frame once that has grown.
    #[inline(always)]
    pub(super) fn has_room_for_shim(&self, frame: &impl Frame, phv: &Phv, growth: isize) -> bool {
        let room = phv.wire_bytes + wire::shim::LEN as u32 <= self.mtu + wire::ethernet::LEN as u32;
        room && wire::shim::fits(frame, growth)
    }
}

fn drop_all<F>(burst: &mut Burst<F>, count: impl FnOnce(u64)) {
    count(burst.len() as u64);
    burst.clear();
}
