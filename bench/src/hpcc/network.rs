//! The network: ports with queues, hosts, and the loop over events.

use std::collections::VecDeque;

use weir::pisa::hash::HashFamily;
use weir::program::pint::dataplane::Measured;
use weir::program::pint::utilisation::dataplane::Meta;
use weir::program::pint::utilisation::{Compression, Scale, Utilisation};
use weir::sim::transport::hpcc::{Feedback, Hop, Parameters, Picos, Sender};
use weir::trace::{Arrival, SplitMix64};

use super::calendar::{Calendar, Event, Kind};
use super::kept::{Carried, EMPTY_NS, Kept, choose};
use super::shared::Shared;
use super::tree::{MAX_HOPS, Path, Tree};

/// Payload of a full packet in bytes, and headers of a packet and an acknowledgement without what
/// is measured, as in the simulations of HPCC and PINT.
pub const PAYLOAD: u32 = 1000;
const DATA_HEADER: u32 = 48;
const ACK_HEADER: u32 = 46;
const MIN_FRAME: u32 = 60;

/// PINT's digest (§3.2).
const DIGEST_BITS: u32 = 8;
const EPSILON: f64 = 0.025;

/// How the network's utilisation comes to the senders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Telemetry {
    /// Each packet has room for the values of five hops.
    Int { bytes: u32 },
    /// A digest of one byte on every packet. One packet in `one_in`, drawn at random, carries the
    /// utilisation; the digests of the others are left to other queries.
    Pint { one_in: u64 },
    /// A digest of two bytes on every packet, with the utilisation alone.
    Alone,
    /// The same, shared by the utilisation, the path and the latency ([`Shared`]).
    Shared,
}

impl Telemetry {
    fn bytes(self) -> u32 {
        match self {
            Self::Int { bytes } => bytes,
            Self::Pint { .. } => 1,
            Self::Alone | Self::Shared => 2,
        }
    }

    /// Length of an acknowledgement, which takes the measurement back.
    fn acknowledgement(self) -> u32 {
        (ACK_HEADER + self.bytes()).max(MIN_FRAME)
    }
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    flow: u32,
    /// The first byte of the flow that is not in it or before it.
    end: u32,
    bytes: u16,
    /// Links crossed.
    hop: u8,
    ack: bool,
    digest: u16,
    identity: u32,
    /// When it came to the switch in which it is.
    since: Picos,
    /// The hash by which all switches round its digest.
    hash: u8,
    /// Whether its digest is about utilisation.
    asked: bool,
}

/// A port that sends, and its queue, which has no limit.
struct Port {
    /// Time that a byte takes.
    byte: Picos,
    /// When the packet in transmission ends.
    free: Picos,
    queue: VecDeque<u32>,
    /// Bytes in the queue, and most that there ever were.
    waiting: u32,
    longest: u32,
    /// Bytes of all packets that were sent.
    sent: u64,
}

struct Flow {
    arrival: Arrival,
    /// Of its packets, and of their acknowledgements.
    paths: [Path; 2],
    sender: Sender,
    /// Bytes sent and acknowledged, and received at the other end.
    sent: u32,
    acknowledged: u32,
    received: u32,
    /// The last packet that was sent: when, and its bytes on the wire.
    last: Picos,
    last_bytes: u32,
    end: Picos,
    /// Where its packets are kept, if they are.
    kept: Option<usize>,
}

impl Flow {
    /// When the next packet may be sent by the flow's rate, if its window is open.
    fn ready(&self, parameters: &Parameters) -> Option<Picos> {
        let open = self.sent < self.arrival.bytes && f64::from(self.sent - self.acknowledged) < self.sender.window();
        open.then(|| if self.sent == 0 { 0 } else { self.last + self.sender.gap(parameters, self.last_bytes) })
    }
}

#[derive(Default)]
struct Host {
    /// Acknowledgements go first.
    acks: VecDeque<u32>,
    /// Flows that send, and which of them is next.
    flows: Vec<u32>,
    next: usize,
    /// The time at which the host looks for packets by itself.
    wake: Option<Picos>,
}

/// How a flow went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completion {
    pub arrival: Arrival,
    /// From the flow's beginning to its last acknowledgement.
    pub time: Picos,
    /// The same if it were alone, sent at its link's rate, and its packets carried no measurement.
    pub alone: Picos,
}

/// Sums over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub events: u64,
    pub packets: u64,
    /// Payload that hosts received.
    pub received: u64,
    /// Bytes that the longest queue of a switch held.
    pub longest_queue: u32,
}

pub struct Network {
    tree: Tree,
    telemetry: Telemetry,
    parameters: Parameters,
    calendar: Calendar,
    ports: Vec<Port>,
    /// The registers of all switches, by port.
    utilisation: Utilisation,
    compression: Compression,
    shared: Shared,
    kept: Vec<Kept>,
    /// Packets that are kept of each of these flows.
    kept_packets: usize,
    hosts: Vec<Host>,
    flows: Vec<Flow>,
    packets: Vec<Packet>,
    hops: Vec<[Hop; MAX_HOPS]>,
    latencies: Vec<[u32; MAX_HOPS]>,
    spare: Vec<u32>,
    rng: SplitMix64,
    totals: Totals,
    now: Picos,
}

impl Network {
    pub fn new(tree: Tree, telemetry: Telemetry, parameters: Parameters, arrivals: &[Arrival], seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let port =
            |port| Port { byte: tree.byte(port), free: 0, queue: VecDeque::new(), waiting: 0, sent: 0, longest: 0 };
        let flow = |arrival: &Arrival| Flow {
            arrival: *arrival,
            paths: [
                tree.path(arrival.from, arrival.to, rng.next_u64()),
                tree.path(arrival.to, arrival.from, rng.next_u64()),
            ],
            sender: Sender::new(&parameters),
            sent: 0,
            acknowledged: 0,
            received: 0,
            last: 0,
            last_bytes: 0,
            end: 0,
            kept: None,
        };
        let flows: Vec<_> = arrivals.iter().map(flow).collect();
        let family = HashFamily::reproducible(seed);
        let rates: Vec<_> = (0..tree.ports()).map(|port| 1_000_000_000_000 / tree.byte(port)).collect();
        Self {
            tree,
            telemetry,
            parameters,
            calendar: Calendar::new(),
            ports: (0..tree.ports()).map(port).collect(),
            utilisation: Utilisation::new(&rates, (parameters.rtt / 1000) as u32),
            compression: Compression::new(Scale::of_epsilon(DIGEST_BITS, EPSILON), &family),
            shared: Shared::new(&tree, &family),
            kept: Vec::new(),
            kept_packets: 0,
            hosts: (0..tree.hosts()).map(|_| Host::default()).collect(),
            flows,
            packets: Vec::new(),
            hops: Vec::new(),
            latencies: Vec::new(),
            spare: Vec::new(),
            rng,
            totals: Totals::default(),
            now: 0,
        }
    }

    /// Keeps the first `packets` packets of each of some flows ([`choose`]).
    pub fn keep(mut self, packets: usize) -> Self {
        let arrivals: Vec<_> = self.flows.iter().map(|flow| flow.arrival).collect();
        let chosen = choose(&self.tree, &arrivals, packets, |number| &self.flows[number].paths[0]);
        for (place, (number, kept)) in chosen.into_iter().enumerate() {
            self.flows[number].kept = Some(place);
            self.kept.push(kept);
        }
        self.kept_packets = packets;
        self
    }

    /// Runs until all flows have ended. Returns how each went, and the packets that were kept.
    pub fn run(mut self) -> (Vec<Completion>, Totals, Vec<Kept>) {
        self.start_after(0);
        while let Some(event) = self.calendar.pop() {
            self.now = event.at;
            self.totals.events += 1;
            self.handle(event);
        }
        self.totals.longest_queue = self.ports.iter().map(|port| port.longest).max().unwrap_or(0);
        let of = |flow: &Flow| Completion {
            arrival: flow.arrival,
            time: flow.end - flow.arrival.at,
            alone: self.alone(flow),
        };
        (self.flows.iter().map(of).collect(), self.totals, self.kept)
    }

    /// Puts the beginning of flow number `next` down.
    fn start_after(&mut self, next: usize) {
        if let Some(flow) = self.flows.get(next) {
            self.calendar.push(flow.arrival.at, Kind::Start, next as u32);
        }
    }

    fn handle(&mut self, event: Event) {
        match event.kind {
            Kind::Arrival => self.arrive(event.id),
            Kind::Free if event.id < self.tree.hosts() => self.send(event.id),
            Kind::Free => self.dequeue(event.id),
            Kind::Wake => {
                let host = &mut self.hosts[event.id as usize];
                if host.wake == Some(self.now) {
                    host.wake = None;
                }
                self.send(event.id);
            }
            Kind::Start => {
                let from = self.flows[event.id as usize].arrival.from;
                self.hosts[from as usize].flows.push(event.id);
                self.start_after(event.id as usize + 1);
                self.send(from);
            }
        }
    }

    fn arrive(&mut self, id: u32) {
        let packet = &mut self.packets[id as usize];
        packet.hop += 1;
        packet.since = self.now;
        let path = &self.flows[packet.flow as usize].paths[usize::from(packet.ack)];
        match path.ports().get(usize::from(packet.hop)) {
            Some(port) => self.enqueue((*port).into(), id),
            None if packet.ack => self.acknowledged(id),
            None => self.received(id),
        }
    }

    fn enqueue(&mut self, number: u32, id: u32) {
        let port = &mut self.ports[number as usize];
        if port.queue.is_empty() && port.free <= self.now {
            return self.transmit(number, id);
        }
        if port.queue.is_empty() {
            self.calendar.push(port.free, Kind::Free, number);
        }
        port.queue.push_back(id);
        port.waiting += u32::from(self.packets[id as usize].bytes);
        port.longest = port.longest.max(port.waiting);
    }

    fn dequeue(&mut self, number: u32) {
        let port = &mut self.ports[number as usize];
        let Some(id) = port.queue.pop_front() else { return };
        port.waiting -= u32::from(self.packets[id as usize].bytes);
        let more = !port.queue.is_empty();
        self.transmit(number, id);
        if more {
            self.calendar.push(self.ports[number as usize].free, Kind::Free, number);
        }
    }

    /// Begins to send a packet on a link that is free.
    fn transmit(&mut self, number: u32, id: u32) {
        let (port, packet) = (&mut self.ports[number as usize], &mut self.packets[id as usize]);
        let latency_ns = EMPTY_NS + ((self.now - packet.since) / 1000) as u32;
        if self.kept_packets > 0 && packet.hop > 0 && !packet.ack {
            self.latencies[id as usize][usize::from(packet.hop) - 1] = latency_ns;
        }
        // The host's own link is measured by nobody.
        match self.telemetry {
            _ if packet.hop == 0 => (),
            Telemetry::Int { .. } => {
                let hop = Hop { at: self.now, sent: port.sent, queue: port.waiting, byte: port.byte };
                if !packet.ack {
                    self.hops[id as usize][usize::from(packet.hop) - 1] = hop;
                }
            }
            Telemetry::Pint { .. } | Telemetry::Alone | Telemetry::Shared => {
                let (now_ns, queue, bytes) = (self.now / 1000, port.waiting, packet.bytes.into());
                let mut phv = Meta { port: number, now_ns, queue, bytes, ..Meta::default() };
                self.utilisation.packet(&mut phv);
                let Packet { hop, identity, hash, digest, .. } = *packet;
                let utilisation = |digest: u8| digest.max(self.compression.codes.encode(phv.utilisation, hash));
                if packet.ack {
                } else if self.telemetry == Telemetry::Shared {
                    let measured = Measured { hop, identity, latency_ns, ..Measured::default() };
                    packet.digest = self.shared.write(self.tree.switch(number), measured, digest, utilisation);
                } else if packet.asked {
                    packet.digest = utilisation(digest as u8).into();
                }
            }
        }
        port.sent += u64::from(packet.bytes);
        port.free = self.now + port.byte * Picos::from(packet.bytes);
        self.calendar.push(port.free + self.tree.delay, Kind::Arrival, id);
    }

    /// The packet's slot goes back as its acknowledgement.
    fn received(&mut self, id: u32) {
        let packet = &mut self.packets[id as usize];
        let flow = &mut self.flows[packet.flow as usize];
        debug_assert!(packet.end > flow.received, "the packets of a flow keep their order");
        self.totals.received += u64::from(packet.end - flow.received);
        flow.received = packet.end;
        if let Some(kept) = flow.kept.and_then(|place| self.kept.get_mut(place))
            && kept.packets.len() < self.kept_packets
        {
            let Packet { identity, digest, .. } = *packet;
            kept.packets.push(Carried { identity, digest, latencies: self.latencies[id as usize] });
        }
        *packet = Packet { ack: true, hop: 0, bytes: self.telemetry.acknowledgement() as u16, ..*packet };
        let to = flow.arrival.to;
        self.hosts[to as usize].acks.push_back(id);
        self.send(to);
    }

    fn acknowledged(&mut self, id: u32) {
        let packet = self.packets[id as usize];
        self.spare.push(id);
        let flow = &mut self.flows[packet.flow as usize];
        flow.acknowledged = packet.end;
        let hops = flow.paths[0].ports().len() - 1;
        let told = |digest| packet.asked.then(|| Feedback::Utilisation(self.compression.scale.decode(digest)));
        let feedback = match self.telemetry {
            Telemetry::Int { .. } => Some(Feedback::Int(&self.hops[id as usize][..hops])),
            Telemetry::Shared => told(Shared::utilisation(packet.digest)),
            Telemetry::Pint { .. } | Telemetry::Alone => told(packet.digest as u8),
        };
        if let Some(feedback) = feedback {
            flow.sender.acknowledge(&self.parameters, packet.end.into(), flow.sent.into(), feedback);
        }
        let from = flow.arrival.from;
        if packet.end == flow.arrival.bytes {
            flow.end = self.now;
            let flows = &mut self.hosts[from as usize].flows;
            flows.retain(|other| *other != packet.flow);
        }
        self.send(from);
    }

    /// Sends the host's next packet if its link is free: an acknowledgement, or one of the flow
    /// whose turn it is.
    fn send(&mut self, number: u32) {
        if self.ports[number as usize].free > self.now {
            return;
        }
        let host = &mut self.hosts[number as usize];
        let id = match host.acks.pop_front() {
            Some(id) => id,
            None => match self.next_flow(number) {
                Some(flow) => self.packet_of(flow),
                None => return,
            },
        };
        self.transmit(number, id);
        self.calendar.push(self.ports[number as usize].free, Kind::Free, number);
    }

    /// The next flow of a host that may send, in turns; or the time is put down at which one may.
    fn next_flow(&mut self, number: u32) -> Option<u32> {
        let host = &mut self.hosts[number as usize];
        let count = host.flows.len();
        let mut earliest = None::<Picos>;
        for turn in 0..count {
            let at = (host.next + turn) % count;
            let Some(ready) = self.flows[host.flows[at] as usize].ready(&self.parameters) else { continue };
            if ready <= self.now {
                host.next = at + 1;
                return Some(host.flows[at]);
            }
            earliest = Some(earliest.map_or(ready, |earliest| earliest.min(ready)));
        }
        if let Some(at) = earliest
            && host.wake.is_none_or(|wake| at < wake)
        {
            host.wake = Some(at);
            self.calendar.push(at, Kind::Wake, number);
        }
        None
    }

    fn packet_of(&mut self, number: u32) -> u32 {
        let flow = &mut self.flows[number as usize];
        let payload = PAYLOAD.min(flow.arrival.bytes - flow.sent);
        flow.sent += payload;
        let bytes = payload + DATA_HEADER + self.telemetry.bytes();
        (flow.last, flow.last_bytes) = (self.now, bytes);
        self.totals.packets += 1;
        let drawn = self.rng.next_u64();
        let identity = drawn as u32;
        let asked = match self.telemetry {
            Telemetry::Int { .. } => false,
            Telemetry::Pint { one_in } => (drawn >> 32).is_multiple_of(one_in),
            Telemetry::Alone => true,
            Telemetry::Shared => self.shared.asks(identity),
        };
        let hash = if asked { self.compression.hash(identity) } else { 0 };
        let (end, bytes) = (flow.sent, bytes as u16);
        let since = self.now;
        let packet = Packet { flow: number, end, bytes, hop: 0, ack: false, digest: 0, identity, since, hash, asked };
        match self.spare.pop() {
            Some(id) => {
                self.packets[id as usize] = packet;
                id
            }
            None => {
                self.packets.push(packet);
                self.hops.push([Hop::default(); MAX_HOPS]);
                self.latencies.push([0; MAX_HOPS]);
                self.packets.len() as u32 - 1
            }
        }
    }

    fn alone(&self, flow: &Flow) -> Picos {
        let bytes = flow.arrival.bytes;
        let packets = bytes.div_ceil(PAYLOAD);
        let last = bytes - (packets - 1) * PAYLOAD + DATA_HEADER;
        let before = Picos::from((packets - 1) * (PAYLOAD + DATA_HEADER)) * self.tree.host_byte;
        before + self.tree.transit(&flow.paths[0], last) + self.tree.transit(&flow.paths[1], MIN_FRAME)
    }
}
