//! What one core counts, in banks that change with weir's epochs.

use std::sync::mpsc::{SyncSender, TrySendError};

use weir::dpdk::cycles_per_second;
use weir::worker::Clock;

use super::pauses::Pauses;
use super::{Closed, EpochTime, Late, OPEN, ReceivedEpochs, SentCount, epoch_of};
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
    /// Epochs whose counts found no place in the queue.
    unknown: Vec<u64>,
    /// Frames whose epoch was closed before they came.
    late: Late,
    to: SyncSender<Closed>,
}

/// Most epochs that are known to be unknown at a time.
const UNKNOWN: usize = 1024;

impl CoreTruth {
    /// `own` flows are the core's to send, of `flows` in all.
    pub fn new(
        core: u32,
        time: EpochTime,
        eal: &weir::dpdk::Eal,
        own: usize,
        flows: u32,
        to: SyncSender<Closed>,
    ) -> Self {
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
            unknown: Vec::new(),
            late: Late::default(),
            to,
        }
    }

    /// Looks at the clock, and hands over what an epoch that ended has. Once in each round.
    #[inline(always)]
    pub fn tick(&mut self) {
        let now = self.clock.now();
        self.now = now - self.clock.behind().min(now);
        let epoch = self.now / self.length_ns;
        if self.epoch < epoch {
            self.reach(epoch);
        }
    }

    /// All counts are handed over in a few epochs; after a step of the clock the others had none.
    #[cold]
    fn reach(&mut self, epoch: u64) {
        for _ in 0..(epoch - self.epoch).min(OPEN + 1) {
            self.rotate();
        }
        // Frames of other cores may be of the epochs between, and be late for this one.
        (self.epoch..epoch).take(UNKNOWN).for_each(|skipped| note(&mut self.unknown, skipped));
        self.epoch = epoch;
        self.received.jump(epoch);
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
    pub fn received(&mut self, signature: &Signature, age_ns: u64) {
        // Low bits are of many epochs.
        if age_ns > (OPEN + 1) * self.length_ns {
            self.late(signature, age_ns);
            return;
        }
        // At most one epoch: the clock of another core may be ahead by a little.
        if self.received.is_ahead(signature.epoch) && self.received.newest() <= self.epoch {
            self.rotate_received();
        }
        if !self.received.take(signature.flow, signature.epoch) {
            self.late(signature, age_ns);
        }
    }

    #[cold]
    fn late(&mut self, signature: &Signature, age_ns: u64) {
        self.late.push(epoch_of(self.now, age_ns, self.length_ns, signature.epoch), signature.flow);
    }

    #[cold]
    fn rotate(&mut self) {
        let (counts, unknown) = (std::mem::take(&mut self.sent), std::mem::take(&mut self.unknown));
        let places = counts.len();
        match self.to.try_send(Closed::Sent { core: self.core, epoch: self.epoch, counts, unknown }) {
            Err(TrySendError::Full(Closed::Sent { mut counts, unknown, .. })) => {
                counts.fill(SentCount::default());
                (self.sent, self.unknown) = (counts, unknown);
                note(&mut self.unknown, self.epoch);
            }
            _ => self.sent = vec![SentCount::default(); places].into(),
        }
        self.epoch += 1;
        // A core with a clock ahead may have begun it already.
        if self.received.newest() < self.epoch {
            self.rotate_received();
        }
    }

    #[cold]
    fn rotate_received(&mut self) {
        let Self { core, to, unknown, late, .. } = self;
        self.received.advance(|epoch, counts| {
            let flows = counts.len();
            match to.try_send(Closed::Received { core: *core, epoch, counts, late: std::mem::take(late) }) {
                Err(TrySendError::Full(Closed::Received { mut counts, late: waits, .. })) => {
                    *late = waits;
                    note(unknown, epoch);
                    counts.fill(0);
                    counts
                }
                _ => vec![0; flows].into(),
            }
        });
    }

    /// Hands over all that is left.
    pub fn finish(self) {
        let Self { core, epoch, to, unknown, mut late, .. } = self;
        let _ = to.send(Closed::Sent { core, epoch, counts: self.sent, unknown });
        self.received.finish(|epoch, counts| {
            let _ = to.send(Closed::Received { core, epoch, counts, late: std::mem::take(&mut late) });
        });
        let _ = to.send(Closed::Done { core });
    }
}

fn note(unknown: &mut Vec<u64>, epoch: u64) {
    if unknown.len() < UNKNOWN && !unknown.contains(&epoch) {
        unknown.push(epoch);
    }
}
