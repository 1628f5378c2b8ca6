//! Egress stages: they see the PHVs of the packets that were admitted, in that order, and what they
//! leave there is what the deparser writes.
//!
//! A packet is written after egress stages only where a program needs that
//! ([`Needs::SHIM`](crate::program::Needs::SHIM), the digest, the identity), or the packet becomes
//! several. Else it is written as it is admitted, while its frame is at hand, with the same result.
//!
//! A burst that one port takes as a whole is moved into its queue, and written there. As long as no packet of a burst becomes several, PHVs are passed on where they lie. From the
//! first that does, PHVs are set down in a second place, one for each copy and fragment, and egress
//! stages run whenever that is full.

use std::marker::PhantomData;

use arrayvec::ArrayVec;

use super::replicate::{ByRouter, Exits, Replicated, answer_to};
use super::{BURST, Burst, Routed, Switch, TelemetryHeader, TxBursts, enqueue};
use crate::observe::Observer;
use crate::pisa::{Disposition, DropAt, DropReason, Phv, PortId, Verdict, Wide, wide};
use crate::program::Needs;
use crate::telemetry::epoch::Nanos;
use crate::wire::{self, Frame, Headers};

/// What admission made of a packet, and where it waits: port, place in the port's queue,
/// disposition. One word, because a struct of these goes through memory, and is read before it has
/// been written there.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Exit(u32);

const _: () = assert!(BURST <= u8::MAX as usize);

impl Exit {
    #[inline(always)]
    pub fn new(port: PortId, slot: usize, disposition: Disposition) -> Self {
        Self(u32::from(port) | (slot as u32 & 0xff) << 16 | (disposition as u32) << 24)
    }

    #[inline(always)]
    fn nowhere(disposition: Disposition) -> Self {
        Self::new(0, 0, disposition)
    }

    /// Of a packet that leaves by no port, for this reason.
    #[inline(always)]
    fn dropped(reason: DropReason, disposition: Disposition) -> Self {
        Self::new(0, reason as usize + 1, disposition)
    }

    /// Why a packet is lost that leaves by no port.
    fn why_lost(self) -> Option<DropReason> {
        let reason = DropReason::ALL.get(self.slot().checked_sub(1)?)?;
        (self.disposition() == Disposition::Lost).then_some(*reason)
    }

    /// The port of a packet that leaves.
    #[inline(always)]
    pub fn port(self) -> PortId {
        self.0 as PortId
    }

    /// Its place in the port's queue.
    #[inline(always)]
    pub fn slot(self) -> usize {
        (self.0 >> 16 & 0xff) as usize
    }

    #[inline(always)]
    pub fn disposition(self) -> Disposition {
        match self.0 >> 24 {
            1 => Disposition::ToHost,
            2 => Disposition::ToFabric,
            3 => Disposition::Unmarked,
            4 => Disposition::Ended,
            5 => Disposition::Untracked,
            _ => Disposition::Lost,
        }
    }
}

/// What became of a burst up to the first packet that becomes several.
struct Admitted<F> {
    /// Packets before that one, and how many of these egress stages see.
    all: usize,
    seen: usize,
    /// That packet, and its place in the burst.
    several: Option<(usize, F)>,
}

/// The frames of packets that leave, by the packets' places among these.
trait Frames<F> {
    fn frame(&self, at: usize) -> Option<&F>;
}

/// They stand in one queue, in order.
impl<F> Frames<F> for &[F] {
    #[inline(always)]
    fn frame(&self, at: usize) -> Option<&F> {
        self.get(at)
    }
}

/// They stand where the packets leave.
impl<F> Frames<F> for (&TxBursts<F>, &[Exit]) {
    #[inline(always)]
    fn frame(&self, at: usize) -> Option<&F> {
        let (out, exits) = self;
        out.waiting(exits.get(at)?)
    }
}

/// A burst whose packets' identities are written.
struct Identified<'a, F, W> {
    switch: &'a mut Switch,
    packets: usize,
    frames: W,
    frame: PhantomData<F>,
}

impl<F: Frame, W: Frames<F>> Wide for Identified<'_, F, W> {
    #[inline(always)]
    fn run(self) {
        let Self { switch: Switch { telemetry, phvs, .. }, packets, frames, .. } = self;
        let Some(unit) = &telemetry.identity else { return };
        let mut identities = [0; BURST];
        let packet = |at: usize| Some((&phvs.get(at)?.headers, frames.frame(at)?));
        match &telemetry.inner {
            None => unit.of_burst(packets, packet, &mut identities),
            Some(inner) => {
                let packet = |at: usize| packet(at).map(|(outer, frame)| (inner.of(outer), frame));
                unit.of_burst(packets, packet, &mut identities);
            }
        }
        phvs.iter_mut().zip(identities).take(packets).for_each(|(phv, identity)| phv.identity = identity);
    }
}

/// Packets whose PHVs are in the second place.
struct Waiting {
    exits: [Exit; BURST],
    len: usize,
}

impl Waiting {
    fn none() -> Self {
        Self { exits: [Exit::default(); BURST], len: 0 }
    }
}

impl Switch {
    /// Puts the packets of a burst into the queues that their verdicts name, shows them to egress
    /// stages, and writes them.
    #[inline(always)]
    pub(super) fn emit_through_egress<F: Frame, W: Observer>(
        &mut self,
        burst: &mut Burst<F>,
        routed: &Routed,
        now: Nanos,
        out: &mut TxBursts<F>,
        watch: &mut W,
    ) {
        let mut exits = [Exit::default(); BURST];
        let mut frames = burst.drain(..).enumerate();
        let Admitted { all, seen, several } = match self.rewrites {
            true => self.admit_burst::<F, true>(&mut frames, &mut exits, routed, out),
            false => self.admit_burst::<F, false>(&mut frames, &mut exits, routed, out),
        };
        if seen < all {
            if self.telemetry.drops {
                self.tell_drops(&exits[..all]);
            }
            self.keep_seen(&mut exits[..all]);
        }
        let writes = self.telemetry.writes_late;
        self.run_egress(&exits[..seen], (seen == all, writes), now, out, watch);
        self.deparse_waiting(&exits[..seen], writes, out);
        if let Some(several) = several {
            self.emit_several(std::iter::once(several).chain(frames), routed, now, out, watch);
        }
    }

    /// Puts a burst into the queue of a port that takes all of it, shows it to egress stages, and writes it.
    #[inline(always)]
    pub(super) fn emit_whole<F: Frame, W: Observer>(
        &mut self,
        (id, disposition): (PortId, Disposition),
        burst: &mut Burst<F>,
        now: Nanos,
        out: &mut TxBursts<F>,
        watch: &mut W,
    ) {
        let packets = burst.len();
        if let Some(queue) = out.queues.get_mut(usize::from(id)) {
            let left = enqueue(queue, burst);
            debug_assert_eq!(left, 0, "the queue was empty");
        }
        let writes_late = self.telemetry.writes_late;
        if !writes_late {
            self.deparse_whole(id, disposition, out);
        }
        if self.telemetry.egress {
            let exits: [_; BURST] = std::array::from_fn(|slot| Exit::new(id, slot, disposition));
            self.run_egress(&exits[..packets], (true, writes_late), now, out, watch);
        }
        if writes_late {
            self.deparse_whole(id, disposition, out);
        }
    }

    /// Admits the packets of a burst up to the first that becomes several.
    #[inline(always)]
    fn admit_burst<F: Frame, const REWRITES: bool>(
        &self,
        frames: &mut impl Iterator<Item = (usize, F)>,
        exits: &mut [Exit; BURST],
        routed: &Routed,
        out: &mut TxBursts<F>,
    ) -> Admitted<F> {
        let (mut all, mut seen) = (0, 0);
        let mut several = None;
        let writes = !self.telemetry.writes_late;
        for ((i, frame), (phv, exit)) in frames.zip(self.phvs.iter().zip(exits)) {
            let way = match phv.verdict {
                _ if routed.of(i).is_some() => None,
                Verdict::Port(id) => Some(Ok(id)),
                Verdict::Flood => self.sole_way(phv).map(Ok),
                Verdict::Drop(reason) => Some(Err(reason)),
            };
            let Some(way) = way else {
                several = Some((i, frame));
                break;
            };
            let sent = way.and_then(|id| self.send::<F, REWRITES>(frame, phv, id, writes, out));
            *exit = sent.unwrap_or_else(|reason| Exit::dropped(reason, self.end(phv, reason)));
            all += 1;
            seen += usize::from(self.is_seen(exit.disposition()));
        }
        Admitted { all, seen, several }
    }

    /// The rest of a burst from the first packet on that becomes several.
    #[cold]
    #[inline(never)]
    fn emit_several<F: Frame, W: Observer>(
        &mut self,
        frames: impl Iterator<Item = (usize, F)>,
        routed: &Routed,
        now: Nanos,
        out: &mut TxBursts<F>,
        watch: &mut W,
    ) {
        let mut waiting = Waiting::none();
        for (i, frame) in frames {
            let (phv, by_router) = (self.phvs[i], routed.of(i));
            let mut exits = Exits::new();
            let Replicated { parent, class, reparse, made, lost } =
                self.emit_any(frame, &phv, by_router, out, &mut exits);
            if let (Some(reason), true) = (lost, self.telemetry.drops) {
                self.telemetry.dropped(&phv, reason, DropAt::Inside);
            }
            let answered = matches!(by_router, Some(ByRouter::Answered { .. }));
            let base = if answered { answer_to(&phv) } else { phv };
            for exit in exits {
                let mut copy = Phv { shim: base.shim.with_class(class), ..base };
                copy.headers.made = made;
                if reparse {
                    self.reparse(&mut copy, exit, out);
                }
                self.wait(copy, exit, &mut waiting, now, out, watch);
            }
            if self.is_seen(parent) {
                self.wait(phv, Exit::nowhere(parent), &mut waiting, now, out, watch);
            }
        }
        self.run_waiting(&mut waiting, now, out, watch);
    }

    /// Emits a packet of the router's own, whose frame was never received.
    #[cold]
    #[inline(never)]
    pub(super) fn emit_made<F: Frame, W: Observer>(
        &mut self,
        frame: F,
        (ingress, port): (PortId, PortId),
        now: Nanos,
        out: &mut TxBursts<F>,
        watch: &mut W,
    ) {
        let wire_bytes = frame.wire_len() as u32;
        let mut phv = Phv { wire_bytes, verdict: Verdict::Port(port), ..Phv::of_port(ingress) };
        phv.headers.made = true;
        match self.send_any(frame, &phv, port, out) {
            Ok(exit) if self.telemetry.egress => {
                let mut waiting = Waiting::none();
                self.reparse(&mut phv, exit, out);
                self.wait(phv, exit, &mut waiting, now, out, watch);
                self.run_waiting(&mut waiting, now, out, watch);
            }
            Ok(_) => {}
            Err(reason) => _ = self.end(&phv, reason),
        }
    }

    /// Tells programs of the packets that are lost.
    #[cold]
    fn tell_drops(&mut self, exits: &[Exit]) {
        for (phv, exit) in self.phvs.iter().zip(exits) {
            exit.why_lost().into_iter().for_each(|reason| self.telemetry.dropped(phv, reason, DropAt::Inside));
        }
    }

    /// Moves the PHVs that egress stages see, and their exits, to the front.
    #[cold]
    fn keep_seen(&mut self, exits: &mut [Exit]) {
        let mut kept = 0;
        for at in 0..exits.len() {
            if self.is_seen(exits[at].disposition()) {
                (self.phvs[kept], exits[kept]) = (self.phvs[at], exits[at]);
                kept += 1;
            }
        }
    }

    #[inline(always)]
    fn is_seen(&self, disposition: Disposition) -> bool {
        disposition.leaves() || (disposition != Disposition::Lost && self.telemetry.ends)
    }

    fn wait<F: Frame, W: Observer>(
        &mut self,
        phv: Phv,
        exit: Exit,
        waiting: &mut Waiting,
        now: Nanos,
        out: &mut TxBursts<F>,
        watch: &mut W,
    ) {
        (self.later[waiting.len], waiting.exits[waiting.len]) = (phv, exit);
        waiting.len += 1;
        if waiting.len == BURST {
            self.run_waiting(waiting, now, out, watch);
        }
    }

    #[inline(never)]
    fn run_waiting<F: Frame, W: Observer>(
        &mut self,
        waiting: &mut Waiting,
        now: Nanos,
        out: &mut TxBursts<F>,
        watch: &mut W,
    ) {
        std::mem::swap(&mut self.phvs, &mut self.later);
        self.run_egress(&waiting.exits[..waiting.len], (false, true), now, out, watch);
        self.deparse_waiting(&waiting.exits[..waiting.len], true, out);
        std::mem::swap(&mut self.phvs, &mut self.later);
        waiting.len = 0;
    }

    /// Takes as many packets as there are exits through the egress stages. `as_entered`: ingress stages saw them
    /// last, in these places. `writes`: they are written then.
    #[inline(always)]
    fn run_egress<F: Frame, W: Observer>(
        &mut self,
        exits: &[Exit],
        (as_entered, writes): (bool, bool),
        now: Nanos,
        out: &mut TxBursts<F>,
        watch: &mut W,
    ) {
        if exits.is_empty() {
            return;
        }
        let phvs = &mut self.phvs[..exits.len()];
        for (phv, exit) in phvs.iter_mut().zip(exits) {
            (phv.egress, phv.disposition) = (exit.port(), exit.disposition());
        }
        if self.telemetry.draws {
            self.telemetry.draw_again(phvs);
        }
        if self.telemetry.describes {
            self.describe(exits, now, out);
        }
        let phvs = &mut self.phvs[..exits.len()];
        let written = |phv: &Phv| (phv.shim, phv.digest);
        let before: ArrayVec<_, BURST> =
            if cfg!(debug_assertions) { phvs.iter().map(written).collect() } else { ArrayVec::new() };
        if let Some(inner) = &mut self.telemetry.inner {
            inner.show(phvs);
        }
        for (number, program) in self.telemetry.programs.iter_mut().enumerate() {
            watch.egress(number, program.as_mut(), phvs, as_entered, self.order);
        }
        if let Some(inner) = &self.telemetry.inner {
            inner.hide(phvs);
        }
        debug_assert!(
            writes || before.iter().copied().eq(phvs.iter().map(written)),
            "egress stages changed what was written; a program lacks Needs::SHIM"
        );
    }

    /// Writes what programs need to know of packets that leave.
    #[inline(never)]
    fn describe<F: Frame>(&mut self, exits: &[Exit], now: Nanos, out: &TxBursts<F>) {
        if self.telemetry.needs.contains(Needs::QUEUE_DEPTH) {
            for (phv, exit) in self.phvs.iter_mut().zip(exits) {
                (phv.queue_depth, phv.queue_used) = out.ahead(exit);
            }
        }
        match out.in_order(exits) {
            Some(frames) => self.describe_frames(exits.len(), frames, now),
            None => self.describe_frames(exits.len(), (out, exits), now),
        }
    }

    /// Writes what is known by the packets' frames.
    #[inline(always)]
    fn describe_frames<F: Frame>(&mut self, packets: usize, frames: impl Frames<F>, now: Nanos) {
        let needs = self.telemetry.needs;
        let phvs = self.phvs.get_mut(..packets).unwrap_or_default();
        if needs.contains(Needs::TIME) {
            for (at, phv) in phvs.iter_mut().enumerate() {
                phv.egress_ns = frames.frame(at).and_then(Frame::at_ns).unwrap_or(now);
            }
        }
        if needs.contains(Needs::LATENCY) {
            for (at, phv) in phvs.iter_mut().enumerate() {
                phv.latency_ns = frames.frame(at).map_or(0, Frame::held_ns);
            }
        }
        if needs.contains(Needs::HELD) {
            for (at, phv) in phvs.iter_mut().enumerate() {
                phv.held_ns = frames.frame(at).map_or(0, Frame::held_ns);
            }
        }
        if self.telemetry.identity.is_some() {
            wide(Identified { switch: self, packets, frames, frame: PhantomData });
        }
    }

    /// Writes packets where they wait, if they are written late.
    #[inline(always)]
    fn deparse_waiting<F: Frame>(&self, exits: &[Exit], writes: bool, out: &mut TxBursts<F>) {
        if self.rewrites && writes {
            self.deparse_each(exits, out);
        }
    }

    #[inline(never)]
    fn deparse_each<F: Frame>(&self, exits: &[Exit], out: &mut TxBursts<F>) {
        for (phv, exit) in self.phvs.iter().zip(exits).filter(|(_, exit)| exit.disposition().leaves()) {
            if let Some(frame) = out.waiting_mut(exit) {
                // As admission found it: the frame has not changed.
                let tag = self.tag_edit(frame, phv, exit.port()).unwrap_or_default();
                self.deparse(frame, phv, tag, exit.disposition());
            }
        }
    }

    /// The headers of a packet that the switch has made of another one. It stays in its VLAN.
    fn reparse<F: Frame>(&self, phv: &mut Phv, exit: Exit, out: &TxBursts<F>) {
        let Some(frame) = out.waiting(&exit) else { return };
        let mut headers = Headers::default();
        if wire::parse(frame.bytes(), &mut headers).is_err() {
            return;
        }
        let Headers { vlan_tci, tagged, inner_tci, inner_tags, deeper_tcis, made, .. } = phv.headers;
        if self.header == TelemetryHeader::Dscp && !phv.enters {
            headers.tos &= !wire::dscp::MASK;
        }
        let shim = if headers.shim { wire::shim::LEN as u32 } else { 0 };
        phv.wire_bytes = (frame.wire_len() as u32).saturating_sub(shim);
        phv.headers = Headers { vlan_tci, tagged, inner_tci, inner_tags, deeper_tcis, made, ..headers };
    }
}
