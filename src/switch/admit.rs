//! Packets go out: into the queues of the ports that their verdicts name.

use std::sync::atomic::Ordering::Relaxed;

use super::{BURST, Burst, Carrier, L2_OVERHEAD, Outbox, PortInfo, Role, Routed, Switch};
use crate::forward::route;
use crate::pisa::{DropReason, Phv, PortId, Verdict};
use crate::wire::{self, Frame, Net, Shim, shim};

/// What became of a packet, as egress stages see it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was lost, or goes on with its class.
    Open,
    /// See [`Phv::leaves`].
    Left,
    /// See [`Phv::unmarked`].
    Unmarked,
    /// See [`Phv::unfollowed`].
    Unfollowed,
}

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

    /// Puts one packet into the queues its verdict names.
    #[inline(always)]
    pub(super) fn emit<F: Frame>(&self, frame: F, phv: &Phv, out: &mut Outbox<F>) -> Fate {
        match phv.verdict {
            Verdict::Port(port) => self.send(frame, phv, port, out).unwrap_or_else(|reason| self.end(phv, reason)),
            Verdict::Flood => self.flood(frame, phv, out),
            Verdict::Drop(reason) => self.end(phv, reason),
        }
    }

    /// As `emit` for a burst with packets that must leave in pieces, or that the router has answered.
    #[cold]
    pub(super) fn emit_routed<F: Frame>(
        &self,
        burst: &mut Burst<F>,
        routed: &Routed,
        fates: &mut [Fate; BURST],
        out: &mut Outbox<F>,
    ) {
        for (i, frame) in burst.drain(..).enumerate() {
            let phv = &self.phvs[i];
            let is = |bits: u64| bits >> i & 1 != 0;
            fates[i] = if is(routed.long) {
                self.emit_pieces(frame, phv, out)
            } else if is(routed.answered) {
                self.emit(frame, &Phv { class: 0, ..*phv }, out);
                if is(routed.arrived) { Fate::Left } else { Fate::Open }
            } else {
                self.emit(frame, phv, out)
            };
        }
    }

    fn end(&self, phv: &Phv, reason: DropReason) -> Fate {
        self.stats.port(phv.ingress).drop(reason, 1);
        if reason.is_end() { Fate::Left } else { Fate::Open }
    }

    /// All pieces or none: then the packet is dropped as one.
    fn emit_pieces<F: Frame>(&self, frame: F, phv: &Phv, out: &mut Outbox<F>) -> Fate {
        let stats = self.stats.port(phv.ingress);
        let Verdict::Port(id) = phv.verdict else { return self.emit(frame, phv, out) };
        let pieces = match (self.ports.get(usize::from(id)), out.queues.get(usize::from(id))) {
            (Some(port), _) if !port.up.load(Relaxed) => Err(DropReason::PortDown),
            (Some(port), Some(queue)) => route::cut(frame, &phv.headers, port.mtu, queue.remaining_capacity()),
            _ => Err(DropReason::NoRoute),
        };
        match pieces {
            Ok(pieces) => {
                stats.copies.add(pieces.len() as u64 - 1);
                let shim = if phv.headers.shim { wire::shim::LEN as u32 } else { 0 };
                let mut several = Several::of(self, phv);
                for piece in pieces {
                    let wire_bytes = (piece.wire_len() as u32).saturating_sub(shim);
                    several.send(piece, &Phv { wire_bytes, ..*phv }, id, out);
                }
                several.fate()
            }
            Err(reason) => self.end(phv, reason),
        }
    }

    /// A copy to every port of its VLAN that is up, but the one it came from. The frame itself goes to the last.
    fn flood<F: Frame>(&self, frame: F, phv: &Phv, out: &mut Outbox<F>) -> Fate {
        let stats = self.stats.port(phv.ingress);
        let up = |id: PortId| self.ports[usize::from(id)].up.load(Relaxed);
        let open = |id: &PortId| *id != phv.ingress && up(*id) && self.in_vlan(phv, *id);
        let ports = self.ports.len() as PortId;
        let Some(last) = (0..ports).rev().find(open) else {
            return self.end(phv, self.why_nowhere(phv));
        };
        let mut others = (0..last).filter(open).peekable();
        if others.peek().is_none() {
            return self.send(frame, phv, last, out).unwrap_or_else(|reason| self.end(phv, reason));
        }
        let mut several = Several::of(self, phv);
        for id in others {
            stats.copies.add(1);
            match frame.duplicate() {
                Some(copy) => several.send(copy, phv, id, out),
                None => several.fails(DropReason::NoBuffer, phv),
            }
        }
        several.send(frame, phv, last, out);
        several.fate()
    }

    /// Why a packet that is for all other ports of its VLAN goes to none: they are down, or there is no other.
    #[cold]
    fn why_nowhere(&self, phv: &Phv) -> DropReason {
        let other = |(id, port): (PortId, &PortInfo)| id != phv.ingress && !port.is_vacant() && self.in_vlan(phv, id);
        if (0..).zip(&self.ports).any(other) { DropReason::PortDown } else { DropReason::NoRoute }
    }

    #[inline(always)]
    fn send<F: Frame>(&self, mut frame: F, phv: &Phv, id: PortId, out: &mut Outbox<F>) -> Result<Fate, DropReason> {
        let port = self.ports.get(usize::from(id)).ok_or(DropReason::NoRoute)?;
        if !port.up.load(Relaxed) {
            return Err(DropReason::PortDown);
        }
        if phv.wire_bytes > port.mtu + L2_OVERHEAD {
            return Err(DropReason::TooLong);
        }
        let mut marked = true;
        if self.rewrites {
            // Before its headers move.
            if self.carrier == Carrier::Tos {
                marked = self.rewrite_tos(&mut frame, phv, port);
            }
            self.rewrite_vlan(&mut frame, phv, id)?;
            if self.carrier == Carrier::Shim {
                marked = self.rewrite_shim(&mut frame, phv, port)?;
            }
        }
        let queue = out.queues.get_mut(usize::from(id)).ok_or(DropReason::NoRoute)?;
        queue.try_push(frame).map_err(|_| DropReason::TxFull)?;
        Ok(match port.role {
            Role::Host => Fate::Left,
            Role::Fabric if marked || phv.class == 0 => Fate::Open,
            Role::Fabric => Fate::Unmarked,
        })
    }

    /// A packet goes through the fabric with its class and epoch bit, and leaves it with zeros there. What a host had there is
    /// lost, and counted. False when there is no header to write them to.
    fn rewrite_tos<F: Frame>(&self, frame: &mut F, phv: &Phv, port: &PortInfo) -> bool {
        let bits = match port.role {
            Role::Host if phv.enters => return true,
            Role::Host => 0,
            Role::Fabric => wire::tos::bits(phv.class, phv.epoch & 1 == 1),
        };
        if phv.headers.net == Net::Other {
            return true;
        }
        let packet = frame.bytes_mut().get_mut(usize::from(phv.headers.l3)..);
        let Some(before) = packet.and_then(|packet| wire::tos::write(packet, bits)) else { return false };
        self.stats.port(phv.ingress).remarked.add(u64::from(phv.enters && before != 0));
        true
    }

    /// A shim goes on where a packet enters the fabric, its hop is counted within, and it comes off before a host. False when
    /// there was no room for it.
    fn rewrite_shim<F: Frame>(&self, frame: &mut F, phv: &Phv, port: &PortInfo) -> Result<bool, DropReason> {
        match (phv.headers.shim, port.role) {
            (false, Role::Host) => Ok(true),
            (true, Role::Host) => wire::shim::pop(frame).map(|_| true).map_err(|_| DropReason::BadShim),
            (true, Role::Fabric) => {
                let shim = wire::shim::peek(frame.bytes()).map_err(|_| DropReason::BadShim)?;
                let shim = Shim { class: phv.class, ..shim.next_hop() };
                wire::shim::rewrite(frame, shim).map(|()| true).map_err(|_| DropReason::BadShim)
            }
            (false, Role::Fabric) => {
                let fits = phv.wire_bytes + wire::shim::LEN as u32 <= port.mtu + L2_OVERHEAD - 8;
                let shim = Shim { hop: 1, epoch: phv.epoch, class: phv.class, ..Shim::default() };
                let marked = fits && wire::shim::push(frame, shim);
                self.stats.port(phv.ingress).without_shim.add(u64::from(!marked));
                Ok(marked)
            }
        }
    }
}

/// A packet that becomes several: copies, or pieces. Where they leave, they cannot be matched to it. So what
/// is measured of it ends here, and they carry no class. When some go on to other switches, or cannot be sent,
/// it is not known whether the packet has come as far as it was to go. A switch that does not measure cannot
/// count that: each of its copies and pieces carries that it is one of several, and is counted where it leaves.
struct Several<'a> {
    switch: &'a Switch,
    class: u8,
    sent: bool,
    unfollowed: bool,
}

impl<'a> Several<'a> {
    fn of(switch: &'a Switch, phv: &Phv) -> Self {
        let ends = switch.measure.egress || phv.class == shim::NO_CLASS;
        let class = if ends { shim::NO_CLASS } else { shim::SEVERAL };
        Self { switch, class, sent: false, unfollowed: false }
    }

    fn send<F: Frame>(&mut self, frame: F, phv: &Phv, port: PortId, out: &mut Outbox<F>) {
        match self.switch.send(frame, &Phv { class: self.class, ..*phv }, port, out) {
            Ok(fate) => {
                self.sent = true;
                self.unfollowed |= fate != Fate::Left;
            }
            Err(reason) => self.fails(reason, phv),
        }
    }

    fn fails(&mut self, reason: DropReason, phv: &Phv) {
        self.unfollowed = true;
        self.switch.stats.port(phv.ingress).drop(reason, 1);
    }

    fn fate(self) -> Fate {
        match self {
            Self { sent: false, .. } => Fate::Open,
            Self { unfollowed: true, .. } => Fate::Unfollowed,
            _ => Fate::Left,
        }
    }
}

fn drop_all<F>(burst: &mut Burst<F>, count: impl FnOnce(u64)) {
    count(burst.len() as u64);
    burst.clear();
}
