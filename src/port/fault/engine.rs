//! Faults of packets: a function of the packets, the seed and the time argument.

use std::{cmp::Ordering, collections::BinaryHeap, time::Duration};

use arrayvec::ArrayVec;

use super::{Filter, Rate, Rule, Way};
use crate::wire::{self, Frame, Headers};

/// Packets that are held back at once; more are dropped, and counted as `overflow`.
pub const HELD: usize = 2048;

/// A frame whose checksum can be completed, as it must be before one of its bits is flipped: or the
/// damage would be covered by a sum that is computed afterwards.
pub trait Sealed: Frame {
    fn seal(&mut self);
    /// It was held back for so long.
    fn set_held_ns(&mut self, held_ns: u32);
}

/// Packets by what a fault did to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub dropped: u64,
    pub overflow: u64,
    pub duplicated: u64,
    pub corrupted: u64,
    pub delayed: u64,
    pub reordered: u64,
}

/// A rule and where it stands.
#[derive(Debug)]
struct Armed {
    filter: Filter,
    drop: Rate,
    every: u32,
    burst: u32,
    corrupt: Rate,
    duplicate: Rate,
    reorder: Rate,
    /// In cycles.
    delay: u64,
    jitter: u64,
    gap: u64,
    link: Option<Link>,
    /// Packets since the last burst of drops began.
    position: u32,
    random: Random,
}

/// Bits that a frame takes on a link beside its own: FCS, preamble and gap.
const BITS_BESIDE: u64 = 24 * 8;

/// A link that packets go over one after another.
#[derive(Debug)]
struct Link {
    bits_per_second: u64,
    /// Cycles a second.
    hz: u64,
    /// The longest wait for it, in cycles.
    queue: u64,
    /// When it has sent what was given to it so far.
    free: u64,
}

impl Link {
    /// When it has sent a frame of this length that reaches it at `at`; `None` if the frame would have to wait too long.
    fn sent(&mut self, at: u64, bytes: usize) -> Option<u64> {
        let begins = self.free.max(at);
        if begins - at > self.queue {
            return None;
        }
        let bits = u128::from(bytes as u64 * 8 + BITS_BESIDE);
        let cycles = bits * u128::from(self.hz) / u128::from(self.bits_per_second);
        self.free = begins.saturating_add(u64::try_from(cycles).unwrap_or(u64::MAX));
        Some(self.free)
    }
}

/// The faults of one queue, and the packets that it holds back.
#[derive(Debug)]
pub struct Engine<F> {
    rules: Vec<Armed>,
    /// Some rule looks into packets.
    looks: bool,
    held: BinaryHeap<Held<F>>,
    /// Numbers the held packets, so that equal times keep their order.
    number: u64,
    /// Cycles a second.
    hz: u64,
    /// Whether packets are told for how long they were held back: on the way in.
    tells: bool,
}

#[derive(Debug)]
struct Held<F> {
    due: u64,
    since: u64,
    number: u64,
    frame: F,
}

impl<F: Sealed> Engine<F> {
    /// `queue` makes the chances of a port's queues differ; `hz` is the rate of the clock.
    pub fn new<'a>(rules: impl IntoIterator<Item = &'a Rule>, queue: u16, hz: u64) -> Self {
        let rules: Vec<_> = rules.into_iter().collect();
        let tells = rules.iter().any(|rule| rule.way == Way::Rx);
        let arm = |(place, rule): (u64, &Rule)| Armed::new(rule, place << 32 | u64::from(queue), hz);
        let rules: Vec<_> = (0..).zip(rules).map(arm).collect();
        let looks = rules.iter().any(|rule| rule.filter.is_set());
        Self { rules, looks, held: BinaryHeap::with_capacity(HELD), number: 0, hz: hz.max(1), tells }
    }

    /// Packets that are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether a rule delays packets.
    pub fn delays(&self) -> bool {
        let delays = |rule: &Armed| rule.delay > 0 || rule.jitter > 0 || rule.reorder != Rate(0) || rule.link.is_some();
        self.rules.iter().any(delays)
    }

    /// Drops them. Returns their number.
    pub fn forget(&mut self) -> usize {
        let held = self.held.len();
        self.held.clear();
        held
    }

    /// No rule is left, and no packet.
    pub fn is_idle(&self) -> bool {
        self.rules.is_empty() && self.held.is_empty()
    }

    /// Ends the faults. What is held back leaves when its time has come.
    pub fn disarm(&mut self) {
        self.rules.clear();
        self.looks = false;
    }

    /// Takes the packets over that an earlier engine of the queue holds back.
    pub fn take_over(&mut self, earlier: &mut Self) {
        self.number = earlier.number;
        std::mem::swap(&mut self.held, &mut earlier.held);
    }

    /// Lets the packets from `from` on meet their faults. Left in the burst are those that go on
    /// now: first what was held back until `now`, as far as there is room.
    pub fn pass<const N: usize>(&mut self, now: u64, burst: &mut ArrayVec<F, N>, from: usize) -> Counts {
        let mut counts = Counts::default();
        let arrived: ArrayVec<F, N> = burst.drain(from.min(burst.len())..).collect();
        while !burst.is_full() && self.is_due(now) {
            let Some(Held { since, mut frame, .. }) = self.held.pop() else { break };
            if self.tells {
                let held_ns = u128::from(now.saturating_sub(since)) * 1_000_000_000 / u128::from(self.hz);
                frame.set_held_ns(held_ns.try_into().unwrap_or(u32::MAX));
            }
            burst.push(frame);
        }
        for frame in arrived {
            self.meet(frame, now, burst, &mut counts);
        }
        counts
    }

    fn is_due(&self, now: u64) -> bool {
        self.held.peek().is_some_and(|held| held.due <= now)
    }

    fn meet<const N: usize>(&mut self, mut frame: F, now: u64, burst: &mut ArrayVec<F, N>, counts: &mut Counts) {
        let mut headers = Headers::default();
        // A runt has no fields.
        if self.looks && wire::parse(frame.bytes(), &mut headers).is_err() {
            headers = Headers::default();
        }
        let (mut due, mut copy) = (now, None);
        for rule in self.rules.iter_mut().filter(|rule| rule.filter.holds(&headers)) {
            if rule.drops() {
                counts.dropped += 1 + u64::from(copy.is_some());
                return;
            }
            if rule.random.chance(rule.corrupt) {
                frame.seal();
                counts.corrupted += u64::from(rule.random.flip(frame.bytes_mut()));
            }
            if copy.is_none() && rule.random.chance(rule.duplicate) {
                copy = frame.duplicate();
                counts.duplicated += u64::from(copy.is_some());
            }
            if let Some(link) = &mut rule.link {
                let Some(sent) = link.sent(due, frame.wire_len()) else {
                    counts.overflow += 1 + u64::from(copy.is_some());
                    return;
                };
                due = sent;
            }
            due += rule.wait(counts);
        }
        counts.delayed += u64::from(due > now);
        self.give(frame, due, now, burst, counts);
        if let Some(copy) = copy {
            self.give(copy, due, now, burst, counts);
        }
    }

    /// Nothing overtakes what has been due before.
    fn give<const N: usize>(&mut self, frame: F, due: u64, now: u64, burst: &mut ArrayVec<F, N>, counts: &mut Counts) {
        if due <= now && !burst.is_full() && !self.is_due(now) {
            return burst.push(frame);
        }
        if self.held.len() == HELD {
            counts.overflow += 1;
            return;
        }
        self.number += 1;
        self.held.push(Held { due, since: now, number: self.number, frame });
    }
}

impl Armed {
    fn new(rule: &Rule, place: u64, hz: u64) -> Self {
        let cycles = |time: Duration| (time.as_nanos() * u128::from(hz) / 1_000_000_000) as u64;
        Self {
            filter: rule.filter.clone(),
            drop: rule.drop,
            every: rule.every,
            burst: rule.burst,
            corrupt: rule.corrupt,
            duplicate: rule.duplicate,
            reorder: rule.reorder,
            delay: cycles(rule.delay),
            jitter: cycles(rule.jitter),
            gap: cycles(rule.gap),
            link: (rule.bits_per_second > 0).then(|| Link {
                bits_per_second: rule.bits_per_second,
                hz: hz.max(1),
                queue: cycles(rule.queue),
                free: 0,
            }),
            // The burst stands at the end of its period.
            position: if rule.burst < rule.every { rule.burst } else { 0 },
            random: Random::new(rule.seed, place),
        }
    }

    fn drops(&mut self) -> bool {
        let mut drops = self.random.chance(self.drop);
        if self.every > 0 {
            drops |= self.position < self.burst;
            self.position = if self.position + 1 >= self.every { 0 } else { self.position + 1 };
        }
        drops
    }

    /// Cycles that a packet waits.
    fn wait(&mut self, counts: &mut Counts) -> u64 {
        let mut wait = self.delay;
        if self.jitter > 0 {
            wait += self.random.below(self.jitter);
        }
        if self.random.chance(self.reorder) {
            wait += self.gap;
            counts.reordered += 1;
        }
        wait
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64, place: u64) -> Self {
        let mut of_place = Self(place);
        Self(seed ^ of_place.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True in `rate` of 2³² cases. Without a rate nothing is drawn.
    fn chance(&mut self, rate: Rate) -> bool {
        rate.0 > 0 && self.next() >> 32 < rate.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Flips one bit; false when there is none.
    fn flip(&mut self, bytes: &mut [u8]) -> bool {
        let bit = self.below(bytes.len() as u64 * 8) as usize;
        let byte = bytes.get_mut(bit / 8);
        byte.map(|byte| *byte ^= 1 << (bit % 8)).is_some()
    }
}

/// The largest is the one that is due first.
impl<F> Ord for Held<F> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl<F> PartialOrd for Held<F> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<F> PartialEq for Held<F> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<F> Eq for Held<F> {}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
