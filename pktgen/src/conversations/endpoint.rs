//! One end of a conversation: a small TCP, without congestion control.
//!
//! A direction of a conversation is a row of positions: 0 is the SYN, then come the bytes, then the
//! FIN. An end sends the positions up to its limit and receives those of its peer, each as soon as
//! all before it were received.

use weir::wire::tcp::{ACK, FIN, PSH, RST, SYN};

use super::segment::{Outgoing, Segment};

/// Settings that all ends share.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of payload of a segment over IPv4; over IPv6 it has 20 fewer.
    pub mss: u16,
    /// Bytes that may be under way.
    pub window: u16,
    /// How long an acknowledgement is waited for at first, in nanoseconds.
    pub timeout_ns: u64,
    /// How often the same segment is sent again.
    pub tries: u8,
}

/// A timeout doubles as often at most.
const DOUBLED: u8 = 3;
/// Parts that were received ahead of others. What is further ahead of gaps is dropped.
const EARLY: usize = 8;
/// No time.
pub const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    from: u32,
    end: u32,
}

/// The result of taking a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As many bytes of payload are now received, each for the first time and in order. `is_news`: it
    /// brought the conversation forward.
    Taken { bytes: u32, is_news: bool },
    /// All of it was received before.
    Again,
    /// It does not belong where the conversation is.
    Refused,
    /// Its payload is not what the peer sent.
    Damaged,
    /// The peer gave up.
    Reset,
}

/// The result of a look at the timer of retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    NotYet,
    Again,
    GiveUp,
}

/// The next segment to send: its header, and a part of the end's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub segment: Outgoing,
    pub from: usize,
    pub bytes: usize,
    pub is_again: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Sequence numbers of the SYNs.
    isn: u32,
    peer_isn: u32,
    /// Bytes of payload in all.
    bytes: u32,
    peer_bytes: u32,
    mss: u16,
    /// Positions below are acknowledged, sent, and may be sent.
    acked: u32,
    sent: u32,
    limit: u32,
    /// Positions of the peer below this were received.
    received: u32,
    early: [Part; EARLY],
    is_ack_due: bool,
    is_resend_due: bool,
    /// `sent` at the last timeout. Until all of that is acknowledged, each gap is sent again as soon as
    /// the one before it is closed.
    recovery: u32,
    tries: u8,
    deadline_ns: u64,
}

impl Endpoint {
    /// That of no conversation.
    pub const UNUSED: Self = Self {
        isn: 0,
        peer_isn: 0,
        bytes: 0,
        peer_bytes: 0,
        mss: 0,
        acked: 0,
        sent: 0,
        limit: 0,
        received: 0,
        early: [Part { from: 0, end: 0 }; EARLY],
        is_ack_due: false,
        is_resend_due: false,
        recovery: 0,
        tries: 0,
        deadline_ns: NEVER,
    };

    /// With its sequence number and bytes, and the peer's.
    pub fn new(own: (u32, usize), peer: (u32, usize), mss: u16) -> Self {
        Self { isn: own.0, peer_isn: peer.0, bytes: own.1 as u32, peer_bytes: peer.1 as u32, mss, ..Self::UNUSED }
    }

    /// The client's first step: it sends its SYN.
    pub fn connect(&mut self) {
        self.limit = self.limit.max(1);
    }

    /// As many more bytes may be sent.
    pub fn say(&mut self, bytes: u32) {
        self.limit += bytes;
    }

    /// All bytes may be sent, and the FIN.
    pub fn close(&mut self) {
        self.limit = self.end();
    }

    /// The position behind its FIN.
    fn end(&self) -> u32 {
        self.bytes + 2
    }

    pub fn is_established(&self) -> bool {
        self.acked > 0 && self.received > 0
    }

    /// Whether the peer has received all that may be sent so far.
    pub fn is_heard(&self, by: &Self) -> bool {
        by.received >= self.limit
    }

    /// Whether the peer's FIN was received, and all before it.
    pub fn has_heard_all(&self) -> bool {
        self.received == self.peer_bytes + 2
    }

    /// Whether all was sent and acknowledged.
    pub fn is_closed(&self) -> bool {
        self.acked == self.end()
    }

    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Takes a segment of the peer. `peer` is what the peer says in all.
    pub fn receive(&mut self, segment: &Segment<'_>, peer: &[u8], limits: &Limits, now_ns: u64) -> Verdict {
        let at = segment.seq.wrapping_sub(self.peer_isn);
        if segment.has(RST) {
            return if at == self.received { Verdict::Reset } else { Verdict::Refused };
        }
        let (syn, fin) = (u32::from(segment.has(SYN)), u32::from(segment.has(FIN)));
        let length = syn + segment.payload.len() as u32 + fin;
        let (end, peer_end) = (u64::from(at) + u64::from(length), u64::from(self.peer_bytes) + 2);
        // The first position is a SYN, the last one a FIN, and no other is.
        let is_right = (length == 0 || (end == peer_end) == (fin == 1)) && end <= peer_end && (at == 0) == (syn == 1);
        let upto = segment.ack.wrapping_sub(self.isn);
        let is_acking = segment.has(ACK);
        if !is_right || segment.lacking > 0 || is_acking && upto > self.sent || !is_acking && syn == 0 {
            return Verdict::Refused;
        }
        if length > 0 {
            let first = (at + syn) as usize - 1;
            if peer.get(first..first + segment.payload.len()) != Some(segment.payload) {
                return Verdict::Damaged;
            }
        }
        let is_acked = is_acking && self.acknowledge(upto, limits, now_ns);
        let before = self.received;
        if length > 0 {
            self.is_ack_due = true;
            if end as u32 <= before && !is_acked {
                return Verdict::Again;
            }
            self.take(at, end as u32);
            if at == 0 {
                // A server's first step: it answers the SYN.
                self.limit = self.limit.max(1);
            }
        }
        let bytes = |received: u32| received.saturating_sub(1).min(self.peer_bytes);
        let news = bytes(self.received) - bytes(before);
        Verdict::Taken { bytes: news, is_news: is_acked || self.received > before }
    }

    /// Takes the positions of the peer from `at` on.
    fn take(&mut self, at: u32, end: u32) {
        if at > self.received {
            let part = self.early.iter_mut().find(|part| part.from < part.end && part.from <= end && at <= part.end);
            if let Some(part) = part {
                (part.from, part.end) = (part.from.min(at), part.end.max(end));
            } else if let Some(free) = self.early.iter_mut().find(|part| part.from >= part.end) {
                *free = Part { from: at, end };
            }
            return;
        }
        self.received = self.received.max(end);
        // Each round closes a gap, or is the last.
        while let Some(part) = self.early.iter_mut().find(|part| part.from < part.end && part.from <= self.received) {
            self.received = self.received.max(part.end);
            *part = Part::default();
        }
    }

    /// Whether more is acknowledged than before.
    fn acknowledge(&mut self, upto: u32, limits: &Limits, now_ns: u64) -> bool {
        if upto <= self.acked {
            return false;
        }
        self.acked = upto;
        self.tries = 0;
        let is_waiting = self.acked < self.sent;
        self.is_resend_due = is_waiting && self.acked < self.recovery;
        self.deadline_ns = if is_waiting { now_ns.saturating_add(limits.timeout_ns) } else { NEVER };
        true
    }

    /// Looks at the timer of retransmission at this time.
    pub fn expire(&mut self, limits: &Limits, now_ns: u64) -> Expiry {
        if now_ns < self.deadline_ns {
            return Expiry::NotYet;
        }
        if self.tries >= limits.tries {
            return Expiry::GiveUp;
        }
        self.tries += 1;
        (self.is_resend_due, self.recovery) = (true, self.sent);
        self.wait(limits, now_ns);
        Expiry::Again
    }

    fn wait(&mut self, limits: &Limits, now_ns: u64) {
        let timeout_ns = limits.timeout_ns.saturating_mul(1 << self.tries.min(DOUBLED));
        self.deadline_ns = now_ns.saturating_add(timeout_ns);
    }

    /// Whether there is something to send.
    pub fn has_output(&self, limits: &Limits) -> bool {
        self.is_resend_due || self.may_send(limits) || self.is_ack_due && self.received > 0
    }

    fn may_send(&self, limits: &Limits) -> bool {
        self.sent < self.limit && self.sent - self.acked < u32::from(limits.window)
    }

    /// The next segment that goes out.
    pub fn next(&mut self, limits: &Limits, now_ns: u64) -> Option<Piece> {
        let is_again = self.is_resend_due;
        let (at, upto) = if is_again {
            (self.acked, self.sent)
        } else if self.may_send(limits) {
            (self.sent, self.limit.min(self.acked + u32::from(limits.window)))
        } else if self.is_ack_due && self.received > 0 {
            (self.sent, self.sent)
        } else {
            return None;
        };
        (self.is_resend_due, self.is_ack_due) = (false, false);
        let has_syn = at == 0 && upto > 0;
        // A SYN goes alone.
        let first = if has_syn { 0 } else { at.saturating_sub(1).min(self.bytes) };
        let bytes = if has_syn { 0 } else { (upto.saturating_sub(1).min(self.bytes) - first).min(self.mss.into()) };
        let has_fin = !has_syn && upto == self.end() && first + bytes == self.bytes && at < upto;
        let end = at + bytes + u32::from(has_syn) + u32::from(has_fin);
        self.sent = self.sent.max(end);
        if end > at && (is_again || self.deadline_ns == NEVER) {
            self.wait(limits, now_ns);
        }
        let is_last = end == self.limit && bytes > 0;
        let flags = [(has_syn, SYN), (has_fin, FIN), (is_last, PSH), (self.received > 0, ACK)];
        let flags = flags.into_iter().filter(|(is, _)| *is).fold(0, |flags, (_, flag)| flags | flag);
        let segment = self.header(at, flags, limits, has_syn.then_some(self.mss));
        Some(Piece { segment, from: first as usize, bytes: bytes as usize, is_again })
    }

    /// The segment by which it gives up.
    pub fn reset(&self, limits: &Limits) -> Outgoing {
        self.header(self.sent, RST | ACK, limits, None)
    }

    fn header(&self, at: u32, flags: u8, limits: &Limits, mss: Option<u16>) -> Outgoing {
        let ack = if flags & ACK == 0 { 0 } else { self.peer_isn.wrapping_add(self.received) };
        Outgoing { seq: self.isn.wrapping_add(at), ack, flags, window: limits.window, mss }
    }
}
