//! All hosts of a network, each with one link.

use std::collections::VecDeque;
use std::iter::Peekable;

use super::super::packet::Packet;
use super::super::queue::LinkQueue;
use super::super::{Setup, SimError};
use super::connection::Connection;
use super::hpcc::{Feedback, Parameters, Picos};
use super::report::{Completion, Totals};
use super::segment::{Kind, Segment};
use super::{FeedbackSource, Transport};
use crate::pisa::hash::HashFamily;
use crate::program::CongestionFeedback;
use crate::telemetry::epoch::Nanos;
use crate::trace::{Arrival, Arrivals, SizeLaw};

/// Headers of Ethernet, IPv4 and UDP.
const HEADERS: u32 = 42;
/// The shortest frame, without FCS.
const MIN_FRAME: u32 = 60;
/// INT as HPCC has it: its header, and the values of a hop.
const INT_HEADER: u32 = 2;
const INT_HOP: u32 = 8;
/// Keeps the draws of flows apart from all others of a seed.
const FLOWS: u64 = 0x51a1_0003;
/// Bytes that a frame takes on a link beside its own: FCS, preamble and gap.
pub const BESIDE: u32 = 24;

/// What leaves a host.
#[derive(Debug)]
pub struct Outgoing {
    /// When it reaches the host's switch.
    pub at: Nanos,
    pub host: u32,
    /// Length of the frame.
    pub bytes: u32,
    pub segment: Box<Segment>,
}

/// What a host does next by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Acknowledge,
    /// Sends a packet of the flow at this place of its list.
    Send(usize),
    /// The flow's deadline has come.
    TimeOut(usize),
}

/// Flows to come, the earliest first.
type Flows = Box<dyn Iterator<Item = Arrival> + Send>;

#[derive(Debug, Default)]
struct Host {
    /// When it can send next: the packet in transmission has ended, and what happened last has
    /// happened.
    free: Nanos,
    /// They go first.
    acknowledgements: VecDeque<Box<Segment>>,
    /// Connections that send, and which of them is next.
    flows: Vec<u32>,
    next: usize,
    /// When it does something by itself.
    wake: Nanos,
}

pub struct Hosts {
    transport: Transport,
    parameters: Parameters,
    queue: LinkQueue,
    delay: Nanos,
    timeout: Nanos,
    /// Bytes that a packet has for INT.
    int: u32,
    reader: Option<CongestionFeedback>,
    /// Flows to come; none any more when the last epoch is over.
    arrivals: Option<Peekable<Flows>>,
    hosts: Vec<Host>,
    connections: Vec<Option<Box<Connection>>>,
    completions: Vec<Completion>,
    totals: Totals,
}

impl Transport {
    /// The flows of a network that is set up like this, without end; `None` without a rate, without
    /// sizes in bytes, or with one host.
    pub fn arrivals(&self, setup: &Setup) -> Option<Arrivals> {
        let SizeLaw::Cdf(sizes) = setup.workload.law else { return None };
        let hosts = setup.topology.hosts().len() as u32;
        let byte = LinkQueue::of(setup)?.byte_picos();
        (hosts > 1).then(|| Arrivals::new(hosts, byte, sizes, self.load, setup.workload.seed ^ FLOWS))
    }
}

impl Hosts {
    /// `None` where hosts send without answers.
    ///
    /// # Errors
    /// If something that they need is not there.
    pub fn new(setup: &Setup) -> Result<Option<Self>, SimError> {
        let Some(transport) = setup.transport.clone() else { return Ok(None) };
        let queue = LinkQueue::of(setup).ok_or(SimError::TransportNeedsRate)?;
        let count = setup.topology.hosts().len() as u32;
        if count < 2 {
            return Err(SimError::TransportNeedsHosts);
        }
        let arrivals: Flows = Box::new(transport.arrivals(setup).ok_or(SimError::TransportNeedsSizes)?);
        if setup.victims().is_some() {
            return Err(SimError::TransportWithVictims);
        }
        let family = HashFamily::reproducible(setup.workload.seed);
        let reader = match transport.feedback {
            FeedbackSource::Digest => {
                let mut readers = setup.programs.iter().filter_map(|program| program.congestion_feedback(&family));
                Some(readers.next().ok_or(SimError::NoUtilisation)?)
            }
            FeedbackSource::Int | FeedbackSource::None => None,
        };
        let hops = setup.topology.diameter() + 1;
        let int = if transport.feedback == FeedbackSource::Int { INT_HEADER + INT_HOP * hops } else { 0 };
        let byte = queue.byte_picos();
        // From host to host there are two links more than between switches.
        let full = queue.time((HEADERS + transport.payload).into()) + queue.time(MIN_FRAME.into());
        let longest = Nanos::from(hops + 1);
        let rtt = transport.rtt.unwrap_or(longest * (2 * setup.delay + full));
        Ok(Some(Self {
            parameters: Parameters {
                target: transport.target,
                increase: transport.increase.into(),
                max_stage: transport.max_stage,
                ..Parameters::new(byte, rtt * 1000)
            },
            queue,
            delay: setup.delay,
            timeout: 2 * (rtt + longest * setup.queue_timeout),
            int,
            reader,
            arrivals: Some(arrivals.peekable()),
            hosts: (0..count).map(|_| Host { wake: Nanos::MAX, ..Host::default() }).collect(),
            connections: Vec::new(),
            completions: Vec::new(),
            totals: Totals { rtt_ns: rtt, rate: queue.rate(), ..Totals::default() },
            transport,
        }))
    }

    /// Whether hosts read the digests of packets that they receive.
    pub fn read_digests(&self) -> bool {
        self.reader.is_some()
    }

    /// These flows are to come, the earliest first, in place of those of the workload.
    #[cfg(test)]
    pub fn set_flows(&mut self, flows: Vec<Arrival>) {
        let flows: Flows = Box::new(flows.into_iter());
        self.arrivals = Some(flows.peekable());
    }

    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Whether packets take the values of each hop.
    pub fn has_int(&self) -> bool {
        self.int > 0
    }

    /// Picoseconds that a byte takes on a link.
    pub fn byte_picos(&self) -> Picos {
        self.queue.byte_picos()
    }

    /// Nothing is sent any more.
    pub fn stop(&mut self) {
        self.arrivals = None;
    }

    /// The flows that have ended, and sums over all.
    pub fn results(&self) -> (&[Completion], Totals) {
        (&self.completions, self.totals)
    }

    /// A connection that has not ended.
    pub fn connection(&mut self, number: u32) -> Option<&mut Connection> {
        self.connections.get_mut(number as usize)?.as_deref_mut()
    }

    /// Begins the flows that come before `end`. `links` says how many links there are between the
    /// switches of two hosts.
    pub fn start(&mut self, end: Nanos, links: impl Fn([u32; 2]) -> u32) {
        let Some(arrivals) = &mut self.arrivals else { return };
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.at / 1000 < end) {
            let host = &mut self.hosts[arrival.from as usize];
            host.flows.push(self.connections.len() as u32);
            host.wake = host.wake.min(arrival.at / 1000);
            self.totals.flows += 1;
            let links = links([arrival.from, arrival.to]) + 2;
            self.connections.push(Some(Box::new(Connection::new(arrival, links, &self.parameters))));
        }
    }

    /// The hosts that do something by themselves before `end`.
    pub fn due(&self, end: Nanos) -> impl Iterator<Item = u32> {
        let is_due = move |(host, state): (u32, &Host)| (state.wake < end).then_some(host);
        (0..).zip(&self.hosts).filter_map(is_due)
    }

    /// Takes the packets that reach a host, the earliest first, and lets it send until `end`.
    pub fn run(&mut self, host: u32, packets: &mut [Packet], end: Nanos, out: &mut Vec<Outgoing>) {
        let mut packets = packets.iter_mut().peekable();
        loop {
            let (at, next) = self.next(host);
            let arrival = packets.peek().map_or(Nanos::MAX, |packet| packet.tag.at);
            if at.min(arrival) >= end {
                self.hosts[host as usize].wake = at;
                return;
            }
            if let Some(packet) = packets.next_if(|packet| packet.tag.at <= at) {
                let free = &mut self.hosts[host as usize].free;
                *free = (*free).max(packet.tag.at);
                self.take(host, packet);
            } else {
                self.act(host, at, next, out);
            }
        }
    }

    /// What a host does next, and when.
    fn next(&self, number: u32) -> (Nanos, Next) {
        let host = &self.hosts[number as usize];
        if self.arrivals.is_none() {
            return (Nanos::MAX, Next::Nothing);
        }
        if !host.acknowledgements.is_empty() {
            return (host.free, Next::Acknowledge);
        }
        let mut first = (Nanos::MAX, Next::Nothing);
        for turn in 0..host.flows.len() {
            let place = (host.next + turn) % host.flows.len();
            let Some(Some(connection)) = self.connections.get(host.flows[place] as usize) else { continue };
            let ready = connection.ready(&self.parameters).map_or(Nanos::MAX, |ready| ready.max(host.free));
            if ready < first.0 {
                first = (ready, Next::Send(place));
            }
            if connection.deadline < first.0 {
                first = (connection.deadline, Next::TimeOut(place));
            }
            if first.0 <= host.free {
                break;
            }
        }
        first
    }

    fn act(&mut self, number: u32, now: Nanos, next: Next, out: &mut Vec<Outgoing>) {
        let host = &mut self.hosts[number as usize];
        host.free = host.free.max(now);
        match next {
            Next::Nothing => {}
            Next::Acknowledge => {
                let Some(segment) = host.acknowledgements.pop_front() else { return };
                let bytes = MIN_FRAME.max(HEADERS + self.int);
                self.put(number, now, bytes, segment, out);
            }
            Next::Send(place) => {
                let connection = host.flows[place];
                host.next = place + 1;
                let timeout = self.timeout;
                let payload = self.transport.payload;
                let Some(Some(flow)) = self.connections.get_mut(connection as usize) else { return };
                let (start, end, again) = flow.send(now, payload, timeout);
                let bytes = HEADERS + self.int + (end - start);
                flow.sent_at(now, bytes + BESIDE);
                self.totals.packets += 1;
                self.totals.again += u64::from(again > 0);
                let hops = Vec::new();
                let segment = Segment { connection, kind: Kind::Data, start, end, hops, utilisation: None };
                self.put(number, now, bytes, Box::new(segment), out);
            }
            Next::TimeOut(place) => {
                let connection = host.flows[place];
                let timeout = self.timeout;
                self.totals.timeouts += 1;
                if let Some(flow) = self.connection(connection) {
                    flow.go_back(now, timeout);
                }
            }
        }
    }

    fn put(&mut self, host: u32, now: Nanos, bytes: u32, segment: Box<Segment>, out: &mut Vec<Outgoing>) {
        let state = &mut self.hosts[host as usize];
        state.free = now + self.queue.time(bytes.into());
        out.push(Outgoing { at: state.free + self.delay, host, bytes, segment });
    }

    /// Takes a packet that reaches a host. One of a connection that has ended is ignored.
    fn take(&mut self, host: u32, packet: &mut Packet) {
        let (now, timeout) = (packet.tag.at, self.timeout);
        let Some(mut segment) = packet.segment.take() else { return };
        let Some(Some(connection)) = self.connections.get_mut(segment.connection as usize) else { return };
        let Kind::Acknowledgement { gap } = segment.kind else {
            let (end, gap) = connection.receive(segment.start, segment.end);
            let read = self.reader.as_ref().zip(packet.digest);
            segment.utilisation = read.and_then(|(read, (identity, digest))| read(identity, digest));
            (segment.kind, segment.end) = (Kind::Acknowledgement { gap }, end);
            if self.arrivals.is_some() {
                self.hosts[host as usize].acknowledgements.push_back(segment);
            }
            return;
        };
        let feedback = match self.transport.feedback {
            FeedbackSource::Int => Some(Feedback::Int(&segment.hops)),
            FeedbackSource::Digest => segment.utilisation.map(Feedback::Utilisation),
            FeedbackSource::None => None,
        };
        if connection.acknowledge(&self.parameters, (segment.end, gap), feedback, (now, timeout)) {
            let (bytes, links, time) = (connection.arrival.bytes, connection.links, now - connection.start());
            self.completions.push(Completion { bytes, time, alone: self.alone(bytes, links) });
            self.connections[segment.connection as usize] = None;
            let host = &mut self.hosts[host as usize];
            host.flows.retain(|flow| *flow != segment.connection);
        }
    }

    /// The time that a flow of so many bytes would take alone over so many links, sent at its host's
    /// rate by packets without anything measured.
    fn alone(&self, bytes: u32, links: u32) -> Nanos {
        let payload = self.transport.payload;
        let packets = bytes.div_ceil(payload);
        let time = |bytes: u32| self.queue.time(bytes.max(MIN_FRAME).into());
        let before = Nanos::from(packets - 1) * time(HEADERS + payload);
        let last = HEADERS + bytes - (packets - 1) * payload;
        before + Nanos::from(links) * (time(last) + time(MIN_FRAME) + 2 * self.delay)
    }
}
