//! Replication: a packet that becomes several, by a flood or in fragments, and one that the router
//! answers.

use std::sync::atomic::Ordering::Relaxed;

use arrayvec::ArrayVec;

use super::egress::Exit;
use super::{PortInfo, Routed, Switch, TxBursts};
use crate::forward::route;
use crate::pisa::{Disposition, DropReason, MAX_PORTS, Phv, PortId, Verdict};
use crate::wire::{self, Frame, Shim, shim};

/// Where the packets are that one packet has become.
pub(super) type Exits = ArrayVec<Exit, MAX_PORTS>;

const _: () = assert!(route::MAX_FRAGMENTS <= MAX_PORTS);

/// What one packet has become.
pub(super) struct Replicated {
    /// What became of the packet itself, apart from the packets at `exits`.
    pub parent: Disposition,
    /// The class of the packets at `exits`.
    pub class: u8,
    /// They have headers of their own.
    pub reparse: bool,
    /// The switch made them: they are not the packet itself.
    pub made: bool,
    /// Why the packet is lost, where it has become nothing.
    pub lost: Option<DropReason>,
}

impl Switch {
    /// Emits a packet that may be flooded, be fragmented, or hold the router's answer.
    #[cold]
    pub(super) fn emit_any<F: Frame>(
        &self,
        frame: F,
        phv: &Phv,
        routed: Option<ByRouter>,
        out: &mut TxBursts<F>,
        exits: &mut Exits,
    ) -> Replicated {
        match (routed, phv.verdict) {
            (Some(ByRouter::Long), Verdict::Port(id)) => self.fragment(frame, phv, id, out, exits),
            (Some(ByRouter::Answered { arrived }), _) => {
                self.emit_any(frame, &answer_to(phv), None, out, exits);
                let parent = if arrived { Disposition::Ended } else { Disposition::Lost };
                Replicated { parent, class: shim::NO_CLASS, reparse: true, made: true, lost: None }
            }
            (_, Verdict::Flood) => self.flood(frame, phv, out, exits),
            (_, Verdict::Port(id)) => match self.send_any(frame, phv, id, out) {
                Ok(exit) => one(exit, phv, exits),
                Err(reason) => self.none(phv, reason),
            },
            (_, Verdict::Drop(reason)) => self.none(phv, reason),
        }
    }

    fn none(&self, phv: &Phv, reason: DropReason) -> Replicated {
        let parent = self.end(phv, reason);
        let lost = (parent == Disposition::Lost).then_some(reason);
        Replicated { parent, class: phv.shim.class(), reparse: false, made: false, lost }
    }

    /// All fragments or none: then the packet is dropped as one.
    fn fragment<F: Frame>(
        &self,
        frame: F,
        phv: &Phv,
        id: PortId,
        out: &mut TxBursts<F>,
        exits: &mut Exits,
    ) -> Replicated {
        let stats = self.stats.port(phv.ingress);
        let fragments = match (self.ports.get(usize::from(id)), out.queues.get(usize::from(id))) {
            (Some(port), _) if !port.up.load(Relaxed) => Err(DropReason::PortDown),
            (Some(port), Some(queue)) => route::fragment(frame, &phv.headers, port.mtu, queue.remaining_capacity()),
            _ => Err(DropReason::NoRoute),
        };
        match fragments {
            Ok(fragments) => {
                stats.copies.add(fragments.len() as u64 - 1);
                let shim = if phv.headers.shim { wire::shim::LEN as u32 } else { 0 };
                let mut replication = Replication::of(self, phv, exits);
                for fragment in fragments {
                    replication.phv.wire_bytes = (fragment.wire_len() as u32).saturating_sub(shim);
                    replication.send(fragment, id, out);
                }
                Replicated { reparse: true, ..replication.end() }
            }
            Err(reason) => self.none(phv, reason),
        }
    }

    /// A copy to every port of its VLAN that is up, but the one it came from. The frame itself goes
    /// to the last.
    pub(super) fn flood<F: Frame>(&self, frame: F, phv: &Phv, out: &mut TxBursts<F>, exits: &mut Exits) -> Replicated {
        let stats = self.stats.port(phv.ingress);
        let open = |id: &PortId| self.floods_to(phv, *id);
        let Some(last) = self.last_flooded(phv) else {
            return self.none(phv, self.why_nowhere(phv));
        };
        let mut others = (0..last).filter(open).peekable();
        if others.peek().is_none() {
            return match self.send_any(frame, phv, last, out) {
                Ok(exit) => one(exit, phv, exits),
                Err(reason) => self.none(phv, reason),
            };
        }
        let mut replication = Replication::of(self, phv, exits);
        for id in others {
            stats.copies.add(1);
            match frame.duplicate() {
                Some(copy) => replication.send(copy, id, out),
                None => replication.fails(DropReason::NoBuffer),
            }
        }
        replication.send(frame, last, out);
        replication.end()
    }

    #[inline(always)]
    fn floods_to(&self, phv: &Phv, id: PortId) -> bool {
        let up = |id: PortId| self.ports[usize::from(id)].up.load(Relaxed);
        id != phv.ingress && up(id) && self.in_vlan(phv, id)
    }

    #[inline(always)]
    fn last_flooded(&self, phv: &Phv) -> Option<PortId> {
        (0..self.ports.len() as PortId).rev().find(|id| self.floods_to(phv, *id))
    }

    /// The only port that a packet is flooded to, if it is one.
    pub(super) fn sole_way(&self, phv: &Phv) -> Option<PortId> {
        let last = self.last_flooded(phv)?;
        (!(0..last).any(|id| self.floods_to(phv, id))).then_some(last)
    }

    /// Why a packet that is for all other ports of its VLAN goes to none: they are down, or there
    /// is no other.
    #[cold]
    fn why_nowhere(&self, phv: &Phv) -> DropReason {
        let other = |(id, port): (PortId, &PortInfo)| id != phv.ingress && !port.is_vacant() && self.in_vlan(phv, id);
        if (0..).zip(&self.ports).any(other) { DropReason::PortDown } else { DropReason::NoRoute }
    }
}

/// The PHV of the router's answer to a packet: it is none of the packet's flow.
pub(super) fn answer_to(phv: &Phv) -> Phv {
    Phv { shim: Shim::new(1, 0, phv.shim.epoch(), shim::NO_CLASS), ..*phv }
}

/// A packet that leaves as it is.
fn one(exit: Exit, phv: &Phv, exits: &mut Exits) -> Replicated {
    let _ = exits.try_push(exit);
    Replicated { parent: Disposition::Lost, class: phv.shim.class(), reparse: false, made: false, lost: None }
}

/// A packet that becomes several: copies, or fragments. They cannot be matched to it where they
/// leave, so measurement of the packet ends here, and they carry no class. When some go on to other
/// switches, or cannot be sent, it is not known whether the packet has come as far as it was to go.
/// A switch whose programs do not count packets that end cannot tell that: each copy and fragment
/// then carries that it is one of several, and is counted where it leaves.
struct Replication<'a> {
    switch: &'a Switch,
    /// The PHV of each copy and fragment.
    phv: Phv,
    sent: bool,
    untracked: bool,
    /// Why a copy was dropped: why the packet is lost, where none was sent.
    why: Option<DropReason>,
    exits: &'a mut Exits,
}

impl<'a> Replication<'a> {
    fn of(switch: &'a Switch, phv: &Phv, exits: &'a mut Exits) -> Self {
        let ends = switch.telemetry.ends || phv.shim.class() == shim::NO_CLASS;
        let class = if ends { shim::NO_CLASS } else { shim::SEVERAL };
        Self {
            switch,
            phv: Phv { shim: phv.shim.with_class(class), ..*phv },
            sent: false,
            untracked: false,
            why: None,
            exits,
        }
    }

    fn send<F: Frame>(&mut self, frame: F, port: PortId, out: &mut TxBursts<F>) {
        match self.switch.send_any(frame, &self.phv, port, out) {
            Ok(exit) => {
                self.sent = true;
                self.untracked |= exit.disposition() != Disposition::ToHost;
                // There is room: a packet has at most one copy for each port, and fewer fragments.
                let _ = self.exits.try_push(exit);
            }
            Err(reason) => self.fails(reason),
        }
    }

    #[cold]
    fn fails(&mut self, reason: DropReason) {
        (self.untracked, self.why) = (true, Some(reason));
        self.switch.stats.port(self.phv.ingress).drop(reason, 1);
    }

    fn end(self) -> Replicated {
        let lost = self.why.filter(|_| !self.sent);
        let parent = match self {
            Self { sent: false, .. } => Disposition::Lost,
            Self { untracked: true, .. } => Disposition::Untracked,
            _ => Disposition::Ended,
        };
        Replicated { parent, class: self.phv.shim.class(), reparse: false, made: true, lost }
    }
}

/// What the router did with one packet.
#[derive(Clone, Copy)]
pub(super) enum ByRouter {
    /// It is to leave in fragments.
    Long,
    /// It has ended, and what stands in its place is none of its flow's.
    Answered {
        /// It has ended where it was to go.
        arrived: bool,
    },
}

impl Routed {
    /// Whether all packets are just to go on.
    #[inline(always)]
    pub(super) fn is_none(&self) -> bool {
        self.long | self.answered == 0
    }

    /// What was done with packet `i` of the burst, if it is not just to go on.
    #[inline(always)]
    pub(super) fn of(&self, i: usize) -> Option<ByRouter> {
        let is = |bits: u64| bits >> i & 1 != 0;
        if !is(self.long | self.answered) {
            return None;
        }
        Some(if is(self.long) { ByRouter::Long } else { ByRouter::Answered { arrived: is(self.arrived) } })
    }
}
