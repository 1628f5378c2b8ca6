//! The loop of one core: sends what is due, takes what came.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use arrayvec::ArrayVec;
use hdrhistogram::Histogram;
use weir::dpdk::{Mempool, cycles};
use weir::port::{Burst, RxQueue, TxQueue, free_burst};
use weir::wire::{BURST, Frame};

use super::live::Live;
use super::result::{CoreResult, Sent};
use crate::pace::Schedule;
use crate::signature::{self, Signature};
use crate::tally::{Tally, Verdict};
use crate::traffic::{Source, Stamp};
use crate::truth::CoreTruth;

/// Most frames that are sent at once.
pub const MAX_BURST: usize = BURST;

/// A core that is behind at its end catches up for this part of the run at most.
const GRACE: u64 = 20;
/// How long the device is given to take the last frames, in milliseconds.
const LAST_MS: u64 = 100;

/// What the cores of a run and its controlling thread share.
#[derive(Debug, Default)]
pub struct Control {
    /// The cycle at which the run begins; 0 until that is known.
    pub start: AtomicU64,
    /// Cores that wait for the start.
    pub ready: AtomicUsize,
    /// Cores that have sent all.
    pub done: AtomicUsize,
    pub stop_sending: AtomicBool,
    /// Ends the cores' loops.
    pub stop: AtomicBool,
}

/// The queues of one core.
#[derive(Debug)]
pub struct Queues {
    pub tx: TxQueue,
    pub rx: Vec<RxQueue>,
}

/// What a core starts with.
pub struct Job<'a, S: Source> {
    pub source: S,
    pub schedule: Schedule,
    /// Cycles after the start from which on nothing is due.
    pub end: u64,
    pub burst: usize,
    pub tag: u8,
    pub tally: Tally,
    pub queues: &'a mut Queues,
    pub pool: &'a Mempool,
    pub hz: u64,
    pub control: &'a Control,
    pub live: &'a Live,
    /// Whether latencies and latenesses are written to `live` as well.
    pub is_watched: bool,
    pub truth: Option<CoreTruth>,
}

/// A core at work.
pub struct Core<'a, S: Source> {
    job: Job<'a, S>,
    /// Frames that are to be sent next, and the buffers that they are written to.
    picks: ArrayVec<S::Pick, MAX_BURST>,
    frames: Burst,
    /// The epoch that the frames were written with.
    filled: Option<u64>,
    came: Burst,
    /// Nanoseconds a cycle, times 2³².
    scale: u64,
    start: u64,
    /// Cycles after the start from which on nothing is picked, also what is due.
    latest: u64,
    sending: bool,
    exhausted: Option<u64>,
    /// Cycles after the start at which the run is over, whatever is due later.
    over: u64,
    last: u64,
    /// Cycles that the frame that was picked last takes on the schedule.
    last_gap: u64,
    sent: Sent,
    /// Most frames that the device took at once.
    largest_burst: u64,
    unsent: u64,
    send_rounds: u64,
    full_rounds: u64,
    starved_rounds: u64,
    latency: Histogram<u64>,
    lateness: Histogram<u64>,
}

impl<'a, S: Source> Core<'a, S> {
    pub fn new(job: Job<'a, S>) -> Self {
        let scale = ((1_000_000_000u128 << 32) / u128::from(job.hz.max(1))) as u64;
        let grace = if job.schedule.is_unpaced() { 0 } else { job.end / GRACE };
        Self {
            latest: job.end.saturating_add(grace),
            over: job.end,
            job,
            picks: ArrayVec::new(),
            frames: Burst::new(),
            filled: None,
            came: Burst::new(),
            scale,
            start: 0,
            sending: true,
            exhausted: None,
            last: 0,
            last_gap: 0,
            sent: Sent::default(),
            largest_burst: 0,
            unsent: 0,
            send_rounds: 0,
            full_rounds: 0,
            starved_rounds: 0,
            latency: crate::latency::histogram(),
            lateness: crate::latency::histogram(),
        }
    }

    /// Waits for the start, then sends and receives until it is told to stop.
    pub fn run(mut self) -> CoreResult<S> {
        let control = self.job.control;
        control.ready.fetch_add(1, Relaxed);
        while self.start == 0 || cycles() < self.start {
            self.start = control.start.load(Relaxed);
            if control.stop.load(Relaxed) {
                break;
            }
            std::hint::spin_loop();
        }
        while !control.stop.load(Relaxed) {
            let now = cycles().saturating_sub(self.start);
            if let Some(truth) = &mut self.job.truth {
                truth.tick();
            }
            if self.sending {
                self.send(now);
            }
            self.job.queues.tx.flush();
            self.receive();
        }
        self.finish()
    }

    #[inline(always)]
    fn ns(&self, cycles: u64) -> u64 {
        ((u128::from(cycles) * u128::from(self.scale)) >> 32) as u64
    }

    /// Sends what is due, and ends when that is over, whatever the device takes.
    #[inline(always)]
    fn send(&mut self, now: u64) {
        if self.exhausted.is_none() && (now >= self.latest || self.job.control.stop_sending.load(Relaxed)) {
            (self.exhausted, self.over) = (Some(now), now);
        }
        self.attempt(now);
        if let Some(since) = self.exhausted
            && (self.picks.is_empty() || now > since + self.job.hz / 1000 * LAST_MS)
        {
            self.end_sending();
        }
    }

    #[inline(always)]
    fn attempt(&mut self, now: u64) {
        let mut paused = false;
        if let Some(truth) = &mut self.job.truth {
            let cycles;
            (paused, cycles) = truth.pause();
            self.job.schedule.delay(cycles);
        }
        if self.picks.is_empty() {
            self.pick(now, paused);
        }
        if paused || self.picks.is_empty() {
            return;
        }
        if self.frames.is_empty() && !self.allocate() {
            self.starved_rounds += 1;
            return;
        }
        // Frames that the device did not take in the last epoch are of this one now.
        if self.filled != Some(self.epoch()) {
            self.fill(now);
        }
        self.transmit();
    }

    #[inline(always)]
    fn epoch(&self) -> u64 {
        self.job.truth.as_ref().map_or(0, |truth| truth.epoch())
    }

    /// Picks what is due.
    #[inline(always)]
    fn pick(&mut self, now: u64, paused: bool) {
        if self.exhausted.is_some() {
            return;
        }
        let Job { source, schedule, burst, end, .. } = &mut self.job;
        let first = schedule.due();
        let mut over = false;
        if schedule.is_unpaced() {
            if !paused && first <= now && first < *end {
                source.pick_burst(*burst, &mut self.picks);
                over = self.picks.len() < *burst;
                self.last_gap = 0;
            }
        } else {
            while !paused && self.picks.len() < *burst && schedule.due() <= now && schedule.due() < *end {
                let due = schedule.due();
                let Some(pick) = source.pick() else {
                    over = true;
                    break;
                };
                schedule.advance(S::length(&pick), || source.next_time_ns());
                self.last_gap = schedule.due().saturating_sub(due);
                self.picks.push(pick);
            }
        }
        // Until the end frames may come back, also where nothing more is due before it.
        if over || schedule.due() >= *end && now >= *end {
            self.exhausted = Some(now);
        }
        if !self.picks.is_empty() && !self.job.schedule.is_unpaced() {
            let late_ns = self.ns(now.saturating_sub(first));
            self.job.live.late_ns.store(late_ns, Relaxed);
            self.lateness.saturating_record_n(late_ns, self.picks.len() as u64);
            if self.job.is_watched {
                self.job.live.lateness.record_n(late_ns, self.picks.len() as u64);
            }
        }
    }

    /// Takes buffers for the picked frames. False when there are none.
    #[inline(always)]
    fn allocate(&mut self) -> bool {
        self.filled = None;
        self.job.pool.alloc_bulk(&mut self.frames, self.picks.len())
    }

    /// Writes the picked frames.
    #[inline(always)]
    fn fill(&mut self, now: u64) {
        let epoch = self.epoch();
        self.filled = Some(epoch);
        let stamp = Stamp { tag: self.job.tag, epoch: epoch as u8, at_ns: self.ns(now) };
        for (pick, frame) in self.picks.iter().zip(&mut self.frames) {
            // Buffers hold the longest frame of the source.
            if frame.resize(usize::from(S::length(pick))) {
                self.job.source.fill(pick, stamp, frame.bytes_mut());
            }
        }
    }

    #[inline(always)]
    fn transmit(&mut self) {
        self.send_rounds += 1;
        self.job.queues.tx.transmit(&mut self.frames);
        let gone = self.picks.len() - self.frames.len();
        self.sent.bytes += self.picks[..gone].iter().map(|pick| u64::from(S::length(pick))).sum::<u64>();
        let Job { source, truth, .. } = &mut self.job;
        if source.has_malformed() {
            self.sent.malformed += self.picks[..gone].iter().filter(|pick| S::is_malformed(pick)).count() as u64;
        }
        if let Some(truth) = truth {
            for pick in &self.picks[..gone] {
                if let Some(flow) = source.flow(pick) {
                    truth.sent(flow, u64::from(S::length(pick)));
                }
            }
        }
        self.sent.packets += gone as u64;
        self.largest_burst = self.largest_burst.max(gone as u64);
        if self.frames.is_empty() {
            self.picks.clear();
        } else {
            self.full_rounds += 1;
            self.picks.drain(..gone);
        }
        if gone > 0 {
            self.last = cycles().saturating_sub(self.start);
            self.job.live.sent.store(self.sent.packets, Relaxed);
            self.job.live.sent_bytes.store(self.sent.bytes, Relaxed);
            self.job.live.malformed.store(self.sent.malformed, Relaxed);
        }
    }

    #[inline(always)]
    fn receive(&mut self) {
        for at in 0..self.job.queues.rx.len() {
            let Some(queue) = self.job.queues.rx.get_mut(at) else { return };
            queue.receive(&mut self.came);
            if !self.came.is_empty() {
                self.take();
            }
        }
    }

    /// Takes what came in one round.
    #[inline(always)]
    fn take(&mut self) {
        let now = cycles().saturating_sub(self.start);
        let now_ns = self.ns(now);
        // Frames that were sent together are as old as each other.
        let mut alike = Alike::default();
        let tag = self.job.tag;
        for frame in &self.came {
            let (bytes, length) = (frame.bytes(), frame.wire_len());
            let tally = &mut self.job.tally;
            let next = signature::find_plain(bytes, tag).filter(|signature| tally.take_next(signature, length));
            let Some(signature) = next.or_else(|| take_other(tally, bytes, length, tag)) else { continue };
            if let Some(truth) = &mut self.job.truth {
                truth.received(&signature, age_ns(signature.at_ns, now_ns));
            }
            if let Some(before) = alike.add(signature.at_ns) {
                record(&mut self.latency, &self.job, before, now_ns);
            }
        }
        record(&mut self.latency, &self.job, alike, now_ns);
        let counts = self.job.tally.counts();
        let live = self.job.live;
        live.received.store(counts.received, Relaxed);
        live.received_bytes.store(counts.bytes, Relaxed);
        live.reordered.store(counts.reordered, Relaxed);
        live.duplicates.store(counts.duplicates, Relaxed);
        live.uncertain.store(counts.uncertain, Relaxed);
        live.foreign.store(counts.foreign, Relaxed);
        free_burst(&mut self.came);
    }

    #[cold]
    fn end_sending(&mut self) {
        self.sending = false;
        if !self.picks.is_empty() {
            // From the last frame on until now nothing could be sent.
            (self.last, self.last_gap) = (cycles().saturating_sub(self.start), 0);
        }
        for pick in self.picks.drain(..).rev() {
            self.unsent += 1;
            self.job.source.unsend(&pick);
        }
        free_burst(&mut self.frames);
        self.job.control.done.fetch_add(1, Relaxed);
    }

    fn finish(mut self) -> CoreResult<S> {
        if self.sending {
            self.end_sending();
        }
        if let Some(truth) = self.job.truth.take() {
            truth.finish();
        }
        CoreResult {
            source: self.job.source,
            sent: self.sent,
            unsent: self.unsent,
            tally: self.job.tally,
            latency: self.latency,
            lateness: self.lateness,
            send_rounds: self.send_rounds,
            full_rounds: self.full_rounds,
            starved_rounds: self.starved_rounds,
            // The gap behind the last frame is its own. A capture's may be longer than the run.
            cycles: match self.job.schedule.is_the_sources() {
                true => self.last.saturating_add(self.last_gap).min(self.over).max(self.last),
                false => self.last + self.last_gap,
            },
            largest_burst: self.largest_burst,
        }
    }
}

/// Takes a frame that may be any. Its signature, if it came first and in time.
#[inline(never)]
fn take_other(tally: &mut Tally, frame: &[u8], length: usize, tag: u8) -> Option<Signature> {
    let signature = signature::find(frame, tag);
    if let Some(next) = signature.filter(|signature| tally.take_next(signature, length)) {
        return Some(next);
    }
    let verdict = tally.take(signature.as_ref(), length);
    signature.filter(|_| matches!(verdict, Verdict::InOrder | Verdict::Reordered))
}

/// Frames in a row that were sent at one time.
#[derive(Clone, Copy, Default)]
struct Alike {
    at_ns: u64,
    frames: u64,
}

impl Alike {
    /// Counts a frame that was sent at this time; gives those before it where theirs was another.
    #[inline(always)]
    fn add(&mut self, at_ns: u64) -> Option<Self> {
        if self.at_ns == at_ns {
            self.frames += 1;
            return None;
        }
        let before = std::mem::replace(self, Self { at_ns, frames: 1 });
        (before.frames > 0).then_some(before)
    }
}

#[inline(always)]
fn record<S: Source>(latency: &mut Histogram<u64>, job: &Job<'_, S>, alike: Alike, now_ns: u64) {
    if alike.frames > 0 {
        let age_ns = age_ns(alike.at_ns, now_ns);
        latency.saturating_record_n(age_ns, alike.frames);
        if job.is_watched {
            job.live.latency.record_n(age_ns, alike.frames);
        }
    }
}

/// How long a frame was under way, at least a nanosecond.
#[inline(always)]
fn age_ns(at_ns: u64, now_ns: u64) -> u64 {
    signature::age_ns(at_ns, now_ns).max(1)
}
