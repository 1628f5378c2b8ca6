//! The way of a burst while somebody looks: the same as without, in the same order, and copies on
//! the side.

use super::{Burst, Switch, TxBursts};
use crate::observe::{Direction, PacketTrace, Recorder, SentTrace, Unobserved};
use crate::pisa::{DropReason, PortId};
use crate::telemetry::epoch::Nanos;
use crate::wire::{Frame, Headers, parse};

/// A port's drops by reason.
type Drops = [u64; DropReason::ALL.len()];

impl Switch {
    /// As `forward_burst`, with captures and traces. A burst runs packet by packet, with the same
    /// result, when a packet is to be traced or drops are captured.
    #[cold]
    pub(super) fn observed<F: Frame>(
        &mut self,
        ingress: PortId,
        burst: &mut Burst<F>,
        now: Nanos,
        out: &mut TxBursts<F>,
    ) {
        // Captures and traces are of whole packets.
        burst.iter_mut().for_each(|frame| _ = frame.gather());
        self.observers.passed(Direction::Rx, ingress, burst, now);
        if self.observers.looks_at_each() {
            for frame in std::mem::take(burst) {
                self.observed_packet(ingress, frame, now, out);
            }
        } else {
            self.forward_burst(ingress, burst, now, out, &mut Unobserved);
        }
        if self.features {
            self.egress_features(now, out);
        }
        for (port, queue) in out.queues() {
            self.observers.passed(Direction::Tx, port, queue, now);
        }
    }

    fn observed_packet<F: Frame>(&mut self, ingress: PortId, frame: F, now: Nanos, out: &mut TxBursts<F>) {
        let noted = self.observers.note(ingress, &frame);
        let (before, wire_bytes) = (self.drops(ingress), frame.wire_len() as u32);
        match self.observers.traced(ingress, &frame) {
            Some(once) => once.tell(self.trace_packet(ingress, frame, now, out)),
            None => self.forward_burst(ingress, &mut Burst::from_iter([frame]), now, out, &mut Unobserved),
        }
        if noted {
            let after = self.drops(ingress);
            let dropped = DropReason::ALL.into_iter().zip(before.iter().zip(after)).find(|(_, (was, is))| is > *was);
            if let Some((reason, _)) = dropped {
                self.observers.dropped_noted(ingress, wire_bytes, reason, now);
            }
        }
    }

    /// Takes one packet that came in by `ingress`, a port of this switch, to the queues of `out`,
    /// and tells all that happens to it.
    pub fn trace<F: Frame>(&mut self, ingress: PortId, frame: F, now: Nanos, out: &mut TxBursts<F>) -> PacketTrace {
        self.tick(now);
        self.renew_policy();
        let trace = self.trace_packet(ingress, frame, now, out);
        if self.features {
            self.egress_features(now, out);
        }
        trace
    }

    fn trace_packet<F: Frame>(&mut self, ingress: PortId, frame: F, now: Nanos, out: &mut TxBursts<F>) -> PacketTrace {
        let mut headers = Headers::default();
        let headers = parse(frame.bytes(), &mut headers).is_ok().then_some(headers);
        let inner = headers.as_ref().and_then(|headers| self.telemetry.inner.as_ref()?.flow(frame.bytes(), headers));
        let (bytes, wire_bytes) = (frame.bytes().to_vec(), frame.wire_len() as u32);
        let before = self.drops(ingress);
        let queued: Vec<usize> = out.queues.iter().map(|queue| queue.len()).collect();

        let mut recorder = Recorder::default();
        self.forward_burst(ingress, &mut Burst::from_iter([frame]), now, out, &mut recorder);

        let drops = DropReason::ALL.into_iter().zip(self.drops(ingress).into_iter().zip(before));
        let drops = drops.map(|(reason, (is, was))| (reason, is - was)).filter(|(_, packets)| *packets > 0).collect();
        let new = (0..).zip(out.queues.iter().zip(queued)).flat_map(|(port, (queue, queued))| {
            queue[queued..].iter().map(move |frame| SentTrace { port, bytes: frame.bytes().to_vec() })
        });
        let Recorder { programs, lookups, verdict, .. } = recorder;
        let sent = new.collect();
        PacketTrace { at_ns: now, ingress, wire_bytes, bytes, headers, inner, programs, lookups, verdict, drops, sent }
    }

    fn drops(&self, port: PortId) -> Drops {
        let stats = self.stats.port(port);
        DropReason::ALL.map(|reason| stats.dropped(reason))
    }
}
