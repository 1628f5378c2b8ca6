//! What one core counts, in banks that change with weir's epochs.

use std::sync::mpsc::Sender;

use weir::dpdk::cycles_per_second;
use weir::worker::Clock;

use super::pauses::Pauses;
use super::{Closed, EpochTime, ReceivedEpochs, SentCount};
use crate::signature::Signature;

/// One core's counts of a run.
#[derive(Debug)]
pub struct CoreTruth {
    core: u32,
    clock: Clock,
    length_ns: u64,
    pauses: Pauses,
    /// Wall clock in nanoseconds, at the last tick.
    now: u64,
    epoch: u64,
    sent: Box<[SentCount]>,
    received: ReceivedEpochs,
    to: Sender<Closed>,
}

impl CoreTruth {
    /// `own` flows are the core's to send, of `flows` in all.
    pub fn new(core: u32, time: EpochTime, eal: &weir::dpdk::Eal, own: usize, flows: u32, to: Sender<Closed>) -> Self {
        let mut clock = Clock::new(cycles_per_second(eal));
        let length_ns = time.length.as_nanos() as u64;
        let now = clock.now();
        let epoch = now / length_ns;
        Self {
            core,
            clock,
            length_ns,
            pauses: Pauses::new(time, now, cycles_per_second(eal)),
            now,
            epoch,
            sent: vec![SentCount::default(); own].into(),
            received: ReceivedEpochs::new(epoch, flows),
            to,
        }
    }

    /// Looks at the clock, and hands over what an epoch that ended has. Once in each round.
    #[inline(always)]
    pub fn tick(&mut self) {
        let now = self.clock.now();
        self.now = now - self.clock.behind().min(now);
        let epoch = self.now / self.length_ns;
        while self.epoch < epoch {
            self.rotate();
        }
    }

    /// The running epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the running epoch is in the pause before its end, and the cycles by which all that is
    /// due is put off for pauses that have begun since this was asked last.
    #[inline(always)]
    pub fn pause(&mut self) -> (bool, u64) {
        self.pauses.at(self.now)
    }

    #[inline(always)]
    pub fn sent(&mut self, flow: u32, bytes: u64) {
        if let Some(count) = self.sent.get_mut(flow as usize) {
            count.packets += 1;
            count.bytes += bytes;
        }
    }

    #[inline(always)]
    pub fn received(&mut self, signature: &Signature) {
        if self.received.is_ahead(signature.epoch) {
            self.rotate_received();
        }
        self.received.take(signature.flow, signature.epoch);
    }

    #[cold]
    fn rotate(&mut self) {
        let empty = vec![SentCount::default(); self.sent.len()].into();
        let counts = std::mem::replace(&mut self.sent, empty);
        // The collector outlives all cores.
        let _ = self.to.send(Closed::Sent { core: self.core, epoch: self.epoch, counts });
        self.epoch += 1;
        // A core with a clock ahead may have begun it already.
        if self.received.newest() < self.epoch {
            self.rotate_received();
        }
    }

    #[cold]
    fn rotate_received(&mut self) {
        let (core, to) = (self.core, &self.to);
        self.received.advance(|epoch, counts, late| {
            let empty = vec![0; counts.len()].into();
            let _ = to.send(Closed::Received { core, epoch, counts, late });
            empty
        });
    }

    /// Hands over all that is left.
    pub fn finish(self) {
        let Self { core, epoch, to, .. } = self;
        let _ = to.send(Closed::Sent { core, epoch, counts: self.sent });
        self.received.finish(|epoch, counts, late| {
            let _ = to.send(Closed::Received { core, epoch, counts, late });
        });
        let _ = to.send(Closed::Done { core });
    }
}
