//! A flow's two ends.

use super::hpcc::{Feedback, Parameters, Picos, Sender};
use crate::telemetry::epoch::Nanos;
use crate::trace::Arrival;

const PICOS: Picos = 1000;

/// A flow that has not ended.
#[derive(Debug)]
pub struct Connection {
    pub arrival: Arrival,
    /// Links from host to host.
    pub links: u32,
    sender: Sender,
    /// Bytes sent, the most that ever were, and those acknowledged.
    pub sent: u32,
    most_sent: u32,
    pub acknowledged: u32,
    /// Bytes received without a gap, and whether the sender was told of the gap behind them.
    received: u32,
    told_gap: bool,
    /// When the last packet was sent, if any was, and its bytes on the link.
    last: Option<(Nanos, u32)>,
    /// When the sender goes back to the first byte that is not acknowledged.
    pub deadline: Nanos,
    /// The epoch and the number in it as which packets to either end were counted last.
    pub counted: [Option<(u64, u32)>; 2],
}

impl Connection {
    pub fn new(arrival: Arrival, links: u32, parameters: &Parameters) -> Self {
        Self {
            arrival,
            links,
            sender: Sender::new(parameters),
            sent: 0,
            most_sent: 0,
            acknowledged: 0,
            received: 0,
            told_gap: false,
            last: None,
            deadline: Nanos::MAX,
            counted: [None; 2],
        }
    }

    /// When it begins.
    pub fn start(&self) -> Nanos {
        self.arrival.at / PICOS
    }

    /// When the next packet may be sent by the flow's rate, if its window is open.
    pub fn ready(&self, parameters: &Parameters) -> Option<Nanos> {
        let under_way = f64::from(self.sent - self.acknowledged);
        let open = self.sent < self.arrival.bytes && under_way < self.sender.window();
        let after = |(at, bytes)| at + self.sender.gap(parameters, bytes).div_ceil(PICOS);
        open.then(|| self.last.map_or(self.start(), after))
    }

    /// Sends the next packet, of at most `payload` bytes. Returns the bytes of the flow that it holds,
    /// and how many of these were sent before.
    pub fn send(&mut self, now: Nanos, payload: u32, timeout: Nanos) -> (u32, u32, u32) {
        let start = self.sent;
        let end = self.arrival.bytes.min(start + payload);
        if start == self.acknowledged {
            self.deadline = now + timeout;
        }
        let again = self.most_sent.min(end).saturating_sub(start);
        (self.sent, self.most_sent) = (end, self.most_sent.max(end));
        (start, end, again)
    }

    /// Notes the length on the link of the packet that was just sent.
    pub fn sent_at(&mut self, now: Nanos, bytes: u32) {
        self.last = Some((now, bytes));
    }

    /// Takes a packet at the receiver. Returns the first byte that has not come, and whether packets
    /// before this one are missing of which the sender was not told.
    pub fn receive(&mut self, start: u32, end: u32) -> (u32, bool) {
        if start <= self.received {
            self.told_gap &= end <= self.received;
            self.received = self.received.max(end);
            return (self.received, false);
        }
        (self.received, !std::mem::replace(&mut self.told_gap, true))
    }

    /// Takes an acknowledgement. True when all of the flow has come.
    pub fn acknowledge(
        &mut self,
        parameters: &Parameters,
        (end, gap): (u32, bool),
        feedback: Option<Feedback<'_>>,
        (now, timeout): (Nanos, Nanos),
    ) -> bool {
        if end > self.acknowledged {
            (self.acknowledged, self.deadline) = (end, now + timeout);
            self.sent = self.sent.max(end);
        }
        if gap {
            self.go_back(now, timeout);
        }
        if let Some(feedback) = feedback {
            self.sender.acknowledge(parameters, end.into(), self.sent.into(), feedback);
        }
        if self.sent == self.acknowledged {
            self.deadline = Nanos::MAX;
        }
        self.acknowledged == self.arrival.bytes
    }

    /// Goes back to the first byte that is not acknowledged.
    pub fn go_back(&mut self, now: Nanos, timeout: Nanos) {
        (self.sent, self.deadline) = (self.acknowledged, now + timeout);
    }
}
