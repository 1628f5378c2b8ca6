//! The switch's part in what an operator sets on ports: access control list, rate limits, mirrors,
//! VLANs.

use std::sync::atomic::Ordering::Relaxed;

use super::ingress::Rejected;
use super::{BURST, Burst, COPIES, L2_OVERHEAD, PortInfo, Switch, TelemetryHeader, TxBursts, deparse};
use crate::forward::acl::Acl;
use crate::observe::Observer;
use crate::pisa::{DropReason, Phv, PortId};
use crate::stats::SwitchStats;
use crate::telemetry::epoch::Nanos;
use crate::wire::vlan::TagEdit;
use crate::wire::{Frame, Net, proto};

impl Switch {
    /// Takes over the newest settings.
    #[inline(always)]
    pub(super) fn renew_policy(&mut self) {
        self.features = self.policy.renew();
        self.rewrites = self.fabric || self.policy.settings().vlans.is_some();
    }

    /// What a port does to packets that came in: copies for its mirror, VLAN, access control list,
    /// rate limit, in this order. What may not enter is counted and leaves the burst.
    #[inline(never)]
    pub(super) fn ingress_features<F: Frame, W: Observer>(
        &mut self,
        ingress: PortId,
        burst: &mut Burst<F>,
        now: Nanos,
        out: &mut TxBursts<F>,
        watch: &mut W,
    ) {
        let Self { policy, phvs, ports, stats, header, .. } = self;
        let copier = Copier { ports, stats, header: *header };
        let settings = policy.settings();
        let mut rejected: Rejected = [None; BURST];
        if let Some(mirror) = settings.mirrors.as_deref().and_then(|mirrors| mirrors.rx(ingress)) {
            let copies = burst.iter().filter(|frame| copier.copy(*frame, ingress, mirror.to, &mut out.copies)).count();
            mirror.copies.fetch_add(copies as u64, Relaxed);
        }
        if let Some(vlans) = &settings.vlans {
            for (phv, rejected) in phvs.iter_mut().zip(&mut rejected[..burst.len()]) {
                let (measured, too_many) = (phv.headers.net != Net::Other, phv.headers.has_too_many_tags());
                *rejected = vlans.ingress(ingress, &mut phv.headers).err();
                if !too_many && phv.headers.has_too_many_tags() {
                    stats.unmeasured.add(measured.into());
                    stats.too_many_tags.add(1);
                }
            }
        }
        if let Some(acl) = &settings.acl {
            for ((frame, phv), rejected) in
                burst.iter().zip(phvs.iter()).zip(&mut rejected).filter(|(_, r)| r.is_none())
            {
                let flags = flags(acl, frame, phv);
                watch.acl(&|| acl.trace(phv, flags));
                let decision = acl.decide(phv, flags, policy.counts());
                if let Some(to) = decision.mirror {
                    copier.copy(frame, ingress, to, &mut out.copies);
                }
                *rejected = (!decision.permit).then_some(DropReason::AclDeny);
            }
        }
        if let Some(limiter) = settings.limits.as_deref().and_then(|limits| limits.rx(ingress)) {
            let mut meter = limiter.open(now);
            for (frame, rejected) in burst.iter().zip(&mut rejected).filter(|(_, rejected)| rejected.is_none()) {
                *rejected = (!meter.pass(frame.wire_len())).then_some(DropReason::RxLimit);
            }
            meter.close();
        }
        if rejected.iter().any(Option::is_some) {
            self.reject(ingress, burst, &rejected);
        }
    }

    /// What a port does to packets that are about to leave: rate limit, then copies for its mirror.
    /// All copies come behind the originals.
    #[inline(never)]
    pub(super) fn egress_features<F: Frame>(&mut self, now: Nanos, out: &mut TxBursts<F>) {
        if self.policy.settings().limits.is_some() {
            (0..).zip(&mut out.queues).for_each(|(id, queue)| self.limit(id, queue, now));
        }
        let settings = self.policy.settings();
        let copier = Copier { ports: &self.ports, stats: &self.stats, header: self.header };
        let TxBursts { queues, copies, .. } = out;
        for (id, queue) in (0..).zip(queues.iter_mut()).filter(|(_, queue)| !queue.is_empty()) {
            if let Some(mirror) = settings.mirrors.as_deref().and_then(|mirrors| mirrors.tx(id)) {
                let made = queue.iter().filter(|frame| copier.copy(*frame, id, mirror.to, copies)).count();
                mirror.copies.fetch_add(made as u64, Relaxed);
            }
        }
        for (to, copy) in copies.drain(..) {
            let queued = queues.get_mut(usize::from(to)).is_some_and(|queue| queue.try_push(copy).is_ok());
            if !queued {
                self.stats.port(to).drop(DropReason::Mirror, 1);
            }
        }
    }

    /// Drops what a port's rate limit does not let out.
    fn limit<F: Frame>(&mut self, id: PortId, queue: &mut Burst<F>, now: Nanos) {
        let limits = self.policy.settings().limits.as_deref();
        let Some(limiter) = limits.and_then(|limits| limits.tx(id)).filter(|_| !queue.is_empty()) else { return };
        let mut meter = limiter.open(now);
        let mut passes = [true; BURST];
        passes.iter_mut().zip(queue.iter()).for_each(|(passes, frame)| *passes = meter.pass(frame.wire_len()));
        meter.close();
        for (frame, _) in queue.iter().zip(passes).filter(|(_, passes)| !passes) {
            self.stats.port(id).drop(DropReason::TxLimit, 1);
            self.unsent(id, std::slice::from_ref(frame), DropReason::TxLimit);
        }
        let mut passes = passes.into_iter();
        queue.retain(|_| passes.next() != Some(false));
    }

    /// Whether a packet's VLAN is one of the port's.
    #[inline(always)]
    pub(super) fn in_vlan(&self, phv: &Phv, port: PortId) -> bool {
        self.policy.settings().vlans.as_ref().is_none_or(|vlans| vlans.has(port, phv.headers.vid()))
    }

    /// What happens to a packet's tag where it leaves by this port.
    #[inline(always)]
    pub(super) fn tag_edit<F: Frame>(&self, frame: &F, phv: &Phv, to: PortId) -> Result<TagEdit, DropReason> {
        match &self.policy.settings().vlans {
            Some(vlans) => vlans.egress(phv.ingress, to, &phv.headers, frame),
            None => Ok(TagEdit::Keep),
        }
    }
}

/// TCP flags, when the list asks for them.
#[inline(always)]
fn flags<F: Frame>(acl: &Acl, frame: &F, phv: &Phv) -> Option<u8> {
    let headers = &phv.headers;
    let with_flags = acl.wants_flags() && headers.l4 != 0 && headers.net != Net::Other && headers.proto == proto::TCP;
    if with_flags { frame.bytes().get(usize::from(headers.l4) + 13).copied() } else { None }
}

/// Makes copies for mirror ports.
struct Copier<'a> {
    ports: &'a [PortInfo],
    stats: &'a SwitchStats,
    header: TelemetryHeader,
}

impl Copier<'_> {
    /// A copy of a frame as it is at port `from`, for port `to`, and whether one was made: none for
    /// the port itself. One that cannot go is counted with the mirror port.
    fn copy<F: Frame>(&self, frame: &F, from: PortId, to: PortId, copies: &mut Vec<(PortId, F)>) -> bool {
        let Some(port) = self.ports.get(usize::from(to)).filter(|_| to != from) else { return false };
        self.stats.port(from).copies.add(1);
        let room = copies.len() < COPIES && port.up.load(Relaxed);
        match room.then(|| frame.duplicate()).flatten().and_then(|copy| self.fitted(copy, from, port)) {
            Some(copy) => copies.push((to, copy)),
            None => self.stats.port(to).drop(DropReason::Mirror, 1),
        }
        true
    }

    /// What a mirror port may send: no class, with which the copy would count as a packet of the
    /// network, and nothing longer than its MTU.
    fn fitted<F: Frame>(&self, mut copy: F, from: PortId, port: &PortInfo) -> Option<F> {
        deparse::unmark(&mut copy, self.header, [self.ports.get(usize::from(from)), Some(port)])?;
        (copy.wire_len() <= (port.mtu + L2_OVERHEAD) as usize).then_some(copy)
    }
}
