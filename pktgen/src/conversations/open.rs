//! The conversations that are open, both ends of each.

use std::sync::Arc;

use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;
use weir::trace::SplitMix64;
use weir::wire::Headers;

use super::Side;
use super::clients::Clients;
use super::endpoint::{Endpoint, Expiry, Limits, NEVER, Verdict};
use super::ready::Ready;
use super::script::{Script, Scripts};
use super::segment::{Link, Segment, is_intact};
use super::wheel::Wheel;

/// A conversation that does not get on for this long is given up, whatever its ends wait for: a minute,
/// in nanoseconds.
const STALLED_NS: u64 = 60_000_000_000;
/// A header of IPv6 is longer than one of IPv4 by as many bytes.
const V6_MORE: u16 = 20;

/// How conversations are held.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Most conversations that are open at a time.
    pub max_open: u32,
    pub limits: Limits,
    /// The longest pause before a turn, in nanoseconds; 0: there are none.
    pub longest_pause_ns: u64,
    pub clients: Clients,
    pub link: Link,
    /// Decides sequence numbers.
    pub seed: u64,
}

/// Counts of one side, over all conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCounts {
    /// Segments that were written anew, as no acknowledgement came.
    pub retransmitted: u64,
    /// Segments of open conversations that came in, further copies among them.
    pub received: u64,
    /// Of these, segments all of which was there before.
    pub repeated: u64,
    /// Payload that was received, each byte once.
    pub received_bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Counts {
    pub started: u64,
    /// The client received the server's answer to its SYN.
    pub established: u64,
    /// All was sent, received and acknowledged, FINs too.
    pub finished: u64,
    pub given_up: u64,
    /// Conversations that were due while as many as may be were open.
    pub not_started: u64,
    /// By the end that received.
    pub sides: [SideCounts; 2],
    /// Frames of conversations that had ended.
    pub late: u64,
    /// Frames that do not belong where their conversation is.
    pub refused: u64,
    /// Frames with a wrong checksum, or payload that was not sent.
    pub damaged: u64,
    /// Frames of no conversation of this run, or that came in by the wrong port.
    pub foreign: u64,
    /// Nanoseconds from the start.
    pub establish: Histogram<u64>,
    pub finish: Histogram<u64>,
}

impl Counts {
    fn new() -> Self {
        Self {
            started: 0,
            established: 0,
            finished: 0,
            given_up: 0,
            not_started: 0,
            sides: [SideCounts::default(); 2],
            late: 0,
            refused: 0,
            damaged: 0,
            foreign: 0,
            establish: crate::latency::histogram(),
            finish: crate::latency::histogram(),
        }
    }

    pub fn open(&self) -> u64 {
        self.started - self.finished - self.given_up
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    /// This end still has to send its RST.
    GivenUp(Side),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    state: State,
    script: u32,
    client: u32,
    ends: [Endpoint; 2],
    /// The turn that goes on, or begins next.
    turn: u32,
    has_begun: bool,
    /// When the next turn begins.
    turn_ns: u64,
    is_established: bool,
    started_ns: u64,
    /// When it last got on.
    moved_ns: u64,
}

const FREE: Slot = Slot {
    state: State::Free,
    script: 0,
    client: 0,
    ends: [Endpoint::UNUSED; 2],
    turn: 0,
    has_begun: false,
    turn_ns: NEVER,
    is_established: false,
    started_ns: 0,
    moved_ns: 0,
};

#[derive(Debug)]
pub struct Conversations {
    scripts: Arc<Scripts>,
    settings: Settings,
    slots: Box<[Slot]>,
    free: Vec<u32>,
    /// Slots by the number of their client. Numbers that come in from outside are looked up alone.
    by_client: FxHashMap<u32, u32>,
    /// Conversations that have something to send, by the end that does.
    ready: [Ready; 2],
    timers: Wheel,
    numbers: SplitMix64,
    /// The number of the next client, before it wraps.
    next_client: u64,
    counts: Counts,
}

impl Conversations {
    pub fn new(scripts: Arc<Scripts>, settings: Settings) -> Self {
        let max = settings.max_open;
        let mut by_client = FxHashMap::default();
        // With room for twice as many the map never grows.
        by_client.reserve(2 * max as usize);
        Self {
            scripts,
            slots: vec![FREE; max as usize].into(),
            free: (0..max).rev().collect(),
            by_client,
            ready: [Ready::new(max), Ready::new(max)],
            timers: Wheel::new(max),
            numbers: SplitMix64::new(settings.seed),
            next_client: 0,
            counts: Counts::new(),
            settings,
        }
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Conversations that were started, or could not be.
    pub fn due(&self) -> u64 {
        self.counts.started + self.counts.not_started
    }

    /// Whether one more may be open.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether none is open, and no RST is to be sent.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Starts the next conversation of the capture, unless as many as may be are open.
    pub fn start(&mut self, now_ns: u64) {
        let script = (self.due() % self.scripts.all().len() as u64) as u32;
        let Some(slot) = self.free.pop() else {
            self.counts.not_started += 1;
            return;
        };
        // There are more clients than conversations can be open.
        let client = loop {
            let client = (self.next_client % self.settings.clients.span()) as u32;
            self.next_client += 1;
            if !self.by_client.contains_key(&client) {
                break client;
            }
        };
        self.by_client.insert(client, slot);
        let said = &self.scripts.all()[script as usize];
        let [client_isn, server_isn] = [self.numbers.next_u64() as u32, self.numbers.next_u64() as u32];
        let from_client = (client_isn, said.stream(Side::Client).len());
        let from_server = (server_isn, said.stream(Side::Server).len());
        let mss = self.settings.limits.mss - if said.ends.is_v6 { V6_MORE } else { 0 };
        let mut ends = [Endpoint::new(from_client, from_server, mss), Endpoint::new(from_server, from_client, mss)];
        ends[Side::Client as usize].connect();
        self.slots[slot as usize] =
            Slot { state: State::Open, script, client, ends, started_ns: now_ns, moved_ns: now_ns, ..FREE };
        self.counts.started += 1;
        self.go_on(slot, now_ns);
    }

    /// Takes a frame that came in by the port of this end, or by one that both share.
    pub fn take(&mut self, port: Option<Side>, frame: &[u8], now_ns: u64) {
        let mut headers = Headers::default();
        let Ok(segment) = Segment::read(frame, &mut headers) else { return self.counts.foreign += 1 };
        let found = self.settings.clients.find(&segment.ends).filter(|(to, _)| port.is_none_or(|port| port == *to));
        let Some((to, client)) = found else { return self.counts.foreign += 1 };
        let Some(&at) = self.by_client.get(&client) else {
            let count =
                if u64::from(client) < self.next_client { &mut self.counts.late } else { &mut self.counts.foreign };
            *count += 1;
            return;
        };
        let slot = &mut self.slots[at as usize];
        let script = &self.scripts.all()[slot.script as usize];
        let ends = self.settings.clients.ends(&script.ends, client);
        let ends = if to == Side::Server { ends } else { ends.reversed() };
        if segment.ends != ends {
            return self.counts.foreign += 1;
        }
        if slot.state != State::Open {
            return self.counts.late += 1;
        }
        if !is_intact(frame, &headers) {
            return self.counts.damaged += 1;
        }
        let said = script.stream(to.other());
        let verdict = slot.ends[to as usize].receive(&segment, said, &self.settings.limits, now_ns);
        let counts = &mut self.counts.sides[to as usize];
        match verdict {
            Verdict::Refused => return self.counts.refused += 1,
            Verdict::Damaged => return self.counts.damaged += 1,
            Verdict::Again => (counts.received, counts.repeated) = (counts.received + 1, counts.repeated + 1),
            Verdict::Taken { bytes, is_news } => {
                counts.received += 1;
                counts.received_bytes += u64::from(bytes);
                if is_news {
                    slot.moved_ns = now_ns;
                }
            }
            Verdict::Reset => {
                counts.received += 1;
                self.counts.given_up += 1;
                return self.release(at);
            }
        }
        self.go_on(at, now_ns);
    }

    /// Does what is due.
    pub fn tick(&mut self, now_ns: u64) {
        while let Some(at) = self.timers.pop(now_ns) {
            let slot = &mut self.slots[at as usize];
            let mut gives_up = (now_ns >= stalled_at(slot)).then_some(Side::Client);
            for side in Side::BOTH {
                if slot.ends[side as usize].expire(&self.settings.limits, now_ns) == Expiry::GiveUp {
                    gives_up = Some(side);
                }
            }
            match gives_up {
                Some(side) => {
                    slot.state = State::GivenUp(side);
                    self.counts.given_up += 1;
                    self.ready[side as usize].push(at);
                }
                None => self.go_on(at, now_ns),
            }
        }
    }

    /// Conversations that wait for an end to send.
    pub fn waiting(&self, side: Side) -> usize {
        self.ready[side as usize].len()
    }

    /// Writes the next frame of an end to the beginning of `out`, which has room for the longest. Its
    /// length, or `None` when nothing is to be sent.
    pub fn write(&mut self, side: Side, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        loop {
            let at = self.ready[side as usize].pop()?;
            let slot = &mut self.slots[at as usize];
            let script = &self.scripts.all()[slot.script as usize];
            let ends = self.settings.clients.ends(&script.ends, slot.client);
            let ends = if side == Side::Client { ends } else { ends.reversed() };
            let (link, limits) = (&self.settings.link, &self.settings.limits);
            match slot.state {
                State::Open => {
                    let Some(piece) = slot.ends[side as usize].next(limits, now_ns) else { continue };
                    let payload = script.stream(side).get(piece.from..piece.from + piece.bytes).unwrap_or_default();
                    let length = link.write(side, &ends, &piece.segment, payload, out);
                    self.counts.sides[side as usize].retransmitted += u64::from(piece.is_again);
                    self.wait(at, now_ns);
                    return length;
                }
                State::GivenUp(by) if by == side => {
                    let length = link.write(side, &ends, &slot.ends[side as usize].reset(limits), &[], out);
                    self.release(at);
                    return length;
                }
                // It has ended since.
                State::GivenUp(_) | State::Free => {}
            }
        }
    }

    /// Takes the steps that a conversation can take now.
    fn go_on(&mut self, at: u32, now_ns: u64) {
        let slot = &mut self.slots[at as usize];
        let script = &self.scripts.all()[slot.script as usize];
        if !slot.is_established && slot.ends[Side::Client as usize].is_established() {
            slot.is_established = true;
            self.counts.established += 1;
            self.counts.establish.saturating_record(now_ns.saturating_sub(slot.started_ns).max(1));
        }
        slot.say(script, self.settings.longest_pause_ns, now_ns);
        if slot.ends.iter().all(Endpoint::is_closed) {
            self.counts.finished += 1;
            self.counts.finish.saturating_record(now_ns.saturating_sub(slot.started_ns).max(1));
            return self.release(at);
        }
        self.wait(at, now_ns);
    }

    /// Lets a conversation wait: for its turn to send, and for the time at which something is due.
    fn wait(&mut self, at: u32, now_ns: u64) {
        let slot = &self.slots[at as usize];
        for side in Side::BOTH {
            if slot.ends[side as usize].has_output(&self.settings.limits) {
                self.ready[side as usize].push(at);
            }
        }
        let turn_ns = if slot.turn_ns > now_ns { slot.turn_ns } else { NEVER };
        let deadline_ns = slot.ends.iter().map(Endpoint::deadline_ns).fold(turn_ns, u64::min);
        self.timers.set(at, deadline_ns.min(stalled_at(slot)));
    }

    fn release(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        self.by_client.remove(&slot.client);
        slot.state = State::Free;
        self.timers.cancel(at);
        self.free.push(at);
    }
}

/// The time at which a conversation is given up if nothing moves it forward. Pauses between turns do not count.
fn stalled_at(slot: &Slot) -> u64 {
    let paused_until = if slot.turn_ns == NEVER { 0 } else { slot.turn_ns };
    slot.moved_ns.max(paused_until).saturating_add(STALLED_NS)
}

impl Slot {
    /// Lets the ends say what it is time for.
    fn say(&mut self, script: &Script, longest_pause_ns: u64, now_ns: u64) {
        while let Some(turn) = script.turns().get(self.turn as usize) {
            let (own, other) = (turn.side as usize, turn.side.other() as usize);
            if !self.has_begun {
                if !self.ends[own].is_established() {
                    return;
                }
                if self.turn_ns == NEVER {
                    self.turn_ns = now_ns.saturating_add(turn.pause_ns.min(longest_pause_ns));
                }
                if now_ns < self.turn_ns {
                    return;
                }
                self.ends[own].say(turn.bytes);
                (self.has_begun, self.turn_ns, self.moved_ns) = (true, NEVER, now_ns);
            }
            if !self.ends[own].is_heard(&self.ends[other]) {
                return;
            }
            (self.turn, self.has_begun) = (self.turn + 1, false);
        }
        let (own, other) = (script.closer() as usize, script.closer().other() as usize);
        if self.ends[own].is_established() {
            self.ends[own].close();
        }
        if self.ends[other].has_heard_all() {
            self.ends[other].close();
        }
    }
}
