//! Packets go out: into the queues of the ports that their verdicts name.

use std::sync::atomic::Ordering::Relaxed;

use super::{BURST, Burst, L2_OVERHEAD, Outbox, PortInfo, Role, Switch};
use crate::forward::route;
use crate::pisa::{DropReason, Phv, PortId, Verdict};
use crate::wire::{self, Frame, Shim};

impl Switch {
    /// Every packet has the same way: no need to look into it.
    #[inline(always)]
    pub(super) fn move_whole<F: Frame>(
        &self,
        ingress: PortId,
        burst: &mut Burst<F>,
        verdict: Verdict,
        out: &mut Outbox<F>,
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
        if queue.is_empty() {
            std::mem::swap(queue, burst);
        } else {
            let left = burst.drain(..).filter_map(|frame| queue.try_push(frame).err()).count();
            stats.drop(DropReason::TxFull, left as u64);
        }
    }

    /// Puts one packet into the queues its verdict names. True when it, or a copy, is on its way to a host.
    #[inline(always)]
    pub(super) fn emit<F: Frame>(&self, frame: F, phv: &Phv, out: &mut Outbox<F>) -> bool {
        let dropped = |reason| {
            self.stats.port(phv.ingress).drop(reason, 1);
            false
        };
        match phv.verdict {
            Verdict::Port(port) => self.send(frame, phv, port, out).unwrap_or_else(dropped),
            Verdict::Flood => self.flood(frame, phv, out),
            Verdict::Drop(reason) => dropped(reason),
        }
    }

    /// As `emit` for a burst in which some packets, a bit for each in `long`, must leave in pieces.
    #[cold]
    pub(super) fn emit_long<F: Frame>(
        &self,
        burst: &mut Burst<F>,
        long: u64,
        leaving: &mut [bool; BURST],
        out: &mut Outbox<F>,
    ) {
        for (i, frame) in burst.drain(..).enumerate() {
            let phv = &self.phvs[i];
            let cut = long >> i & 1 != 0;
            leaving[i] = if cut { self.emit_pieces(frame, phv, out) } else { self.emit(frame, phv, out) };
        }
    }

    /// All pieces or none: then the packet is dropped as one.
    fn emit_pieces<F: Frame>(&self, frame: F, phv: &Phv, out: &mut Outbox<F>) -> bool {
        let stats = self.stats.port(phv.ingress);
        let pieces = match phv.verdict {
            Verdict::Port(id) => match (self.ports.get(usize::from(id)), out.queues.get(usize::from(id))) {
                (Some(port), _) if !port.up.load(Relaxed) => Err(DropReason::PortDown),
                (Some(port), Some(queue)) => route::cut(frame, &phv.headers, port.mtu, queue.remaining_capacity()),
                _ => Err(DropReason::NoRoute),
            },
            _ => return self.emit(frame, phv, out),
        };
        match pieces {
            Ok(pieces) => {
                stats.copies.add(pieces.len() as u64 - 1);
                let shim = if phv.headers.shim { wire::shim::LEN as u32 } else { 0 };
                pieces.into_iter().fold(false, |leaves, piece| {
                    let wire_bytes = (piece.wire_len() as u32).saturating_sub(shim);
                    leaves | self.emit(piece, &Phv { wire_bytes, ..*phv }, out)
                })
            }
            Err(reason) => {
                stats.drop(reason, 1);
                false
            }
        }
    }

    /// A copy to every port of its VLAN that is up, but the one it came from. The frame itself goes to the last.
    fn flood<F: Frame>(&self, frame: F, phv: &Phv, out: &mut Outbox<F>) -> bool {
        let stats = self.stats.port(phv.ingress);
        let up = |id: PortId| self.ports[usize::from(id)].up.load(Relaxed);
        let open = |id: &PortId| *id != phv.ingress && up(*id) && self.in_vlan(phv, *id);
        let ports = self.ports.len() as PortId;
        let Some(last) = (0..ports).rev().find(open) else {
            stats.drop(self.why_nowhere(phv.ingress), 1);
            return false;
        };
        let mut leaves = false;
        let mut note = |sent: Result<bool, DropReason>| match sent {
            Ok(to_host) => leaves |= to_host,
            Err(reason) => stats.drop(reason, 1),
        };
        for id in (0..last).filter(open) {
            stats.copies.add(1);
            note(match frame.duplicate() {
                Some(copy) => self.send(copy, phv, id, out),
                None => Err(DropReason::NoBuffer),
            });
        }
        note(self.send(frame, phv, last, out));
        leaves
    }

    /// Why a packet that is for all other ports goes to none.
    #[cold]
    fn why_nowhere(&self, ingress: PortId) -> DropReason {
        let other = |(id, port): (PortId, &PortInfo)| id != ingress && !port.is_vacant();
        if (0..).zip(&self.ports).any(other) { DropReason::PortDown } else { DropReason::NoRoute }
    }

    /// True when the port leads to a host.
    #[inline(always)]
    fn send<F: Frame>(&self, mut frame: F, phv: &Phv, id: PortId, out: &mut Outbox<F>) -> Result<bool, DropReason> {
        let port = self.ports.get(usize::from(id)).ok_or(DropReason::NoRoute)?;
        if !port.up.load(Relaxed) {
            return Err(DropReason::PortDown);
        }
        if phv.wire_bytes > port.mtu + L2_OVERHEAD {
            return Err(DropReason::TooLong);
        }
        if self.rewrites {
            self.rewrite_vlan(&mut frame, phv, id)?;
            self.rewrite_shim(&mut frame, phv, port)?;
        }
        let queue = out.queues.get_mut(usize::from(id)).ok_or(DropReason::NoRoute)?;
        queue.try_push(frame).map_err(|_| DropReason::TxFull)?;
        Ok(port.role == Role::Host)
    }

    /// A shim goes on where a packet enters the fabric, its hop is counted within, and it comes off before a host.
    fn rewrite_shim<F: Frame>(&self, frame: &mut F, phv: &Phv, port: &PortInfo) -> Result<(), DropReason> {
        match (phv.headers.shim, port.role) {
            (false, Role::Host) => Ok(()),
            (true, Role::Host) => wire::shim::pop(frame).map(drop).map_err(|_| DropReason::BadShim),
            (true, Role::Fabric) => {
                let shim = wire::shim::peek(frame.bytes()).map_err(|_| DropReason::BadShim)?;
                wire::shim::rewrite(frame, shim.next_hop()).map(drop).map_err(|_| DropReason::BadShim)
            }
            (false, Role::Fabric) => {
                let fits = phv.wire_bytes + wire::shim::LEN as u32 <= port.mtu + L2_OVERHEAD - 8;
                let shim = Shim { hop: 1, epoch: phv.epoch, hierarchy: phv.hierarchy, ..Shim::default() };
                if !fits || !wire::shim::push(frame, shim) {
                    self.stats.port(phv.ingress).without_shim.add(1);
                }
                Ok(())
            }
        }
    }
}

fn drop_all<F>(burst: &mut Burst<F>, count: impl FnOnce(u64)) {
    count(burst.len() as u64);
    burst.clear();
}
