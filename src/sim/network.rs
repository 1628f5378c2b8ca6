//! The network: switches, the wires between them, and a virtual clock.

mod hosts;

use arrayvec::ArrayVec;

use super::addresses::{Place, link_port};
use super::build::{Peer, Wire, hosts, links, nodes, owners, switch_name, wires};
use super::calendar::Calendar;
use super::fault::{self, SwitchFaults};
use super::ledger::Ledger;
use super::node::Node;
use super::packet::{Packet, Sent, Tag};
use super::queue::LinkQueue;
use super::routes::{RecomputedRoutes, Router};
use super::source::Source;
use super::topology::Topology;
use super::traffic::{Generation, Traffic, Where};
use super::transport::{Hosts, TransportReport};
use super::{Setup, SimError, Victims};
use crate::answers::Links;
use crate::api::view::Counts;
use crate::pisa::PortId;
use crate::switch::{BURST, Burst, Switch, TxBursts};
use crate::telemetry::epoch::Nanos;
use crate::trace::Workload;
use crate::wire::{Frame, HeapFrame, ethertype};

/// Counts of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossed {
    /// The port that packets left by.
    pub from: Place,
    pub crossed: u64,
    pub lost: u64,
    pub busy: u64,
}

pub struct Network {
    traffic: Traffic,
    nodes: Vec<Node>,
    /// The switch and its own number of each port.
    owners: Vec<(u32, PortId)>,
    wires: Vec<Wire>,
    calendar: Calendar,
    tx_bursts: TxBursts<Packet>,
    burst: Burst<Packet>,
    pool: Vec<HeapFrame>,
    delay: Nanos,
    /// Those before links that take packets at a rate.
    queue: Option<LinkQueue>,
    epoch: Nanos,
    source: Source,
    /// Where hosts answer.
    pub(super) hosts: Option<Hosts>,
    /// Frames that hosts have sent.
    frames: u64,
    /// The longest that a packet waited for a link.
    longest_wait: Nanos,
    /// Those of the last epochs, each at its number modulo theirs.
    generations: Vec<Generation>,
    /// What is wrong with each switch, where anything is.
    faults: Vec<SwitchFaults>,
    /// By so much the clocks of all switches are ahead of the simulation's.
    offset: Nanos,
    /// Kept where anything is wrong.
    ledger: Option<Ledger>,
    hops: u64,
    shims_at_hosts: u64,
}

impl Network {
    /// # Errors
    /// If the topology is too large for its addresses, a program does not fit its target, or an
    /// epoch is shorter than a path.
    pub fn new(setup: &Setup) -> Result<Self, SimError> {
        let traffic = Traffic::new(setup)?;
        let Traffic { topology, addresses, .. } = &traffic;
        let (delay, epoch) = (setup.delay, setup.epoch);
        let owners = owners(topology, addresses);
        let max = (0..topology.switches().len() as u32).map(|switch| addresses.of_switch(switch).len()).max();
        let furthest = setup.link_time() + fault::longest(&setup.faults);
        let names = topology.switches().iter();
        let faults = names.map(|name| SwitchFaults::new(&setup.faults, name)).collect();
        let is_faulty = !setup.faults.is_empty();
        let hosts_answer = setup.transport.is_some();
        let generations = 3 + furthest / epoch.max(1) + u64::from(hosts_answer);
        // Places of hosts come behind those of ports.
        let places = owners.len() + if hosts_answer { topology.hosts().len() } else { 0 };
        let mut network = Self {
            nodes: nodes(setup, &traffic)?,
            wires: wires(setup, topology, addresses)?,
            source: Source::new(setup, hosts(topology, addresses, &owners)),
            hosts: Hosts::new(setup)?,
            calendar: Calendar::new(places, delay, epoch, furthest),
            tx_bursts: TxBursts::without_queues(max.unwrap_or(0)),
            burst: Burst::new(),
            pool: Vec::new(),
            generations: (0..generations).map(|_| Generation::default()).collect(),
            faults: if is_faulty { faults } else { Vec::new() },
            offset: setup.first_epoch() * epoch,
            ledger: is_faulty.then(Ledger::default),
            frames: 0,
            longest_wait: 0,
            hops: 0,
            shims_at_hosts: 0,
            queue: LinkQueue::of(setup),
            traffic,
            owners,
            delay,
            epoch,
        };
        if let Some(queue) = network.queue {
            let replicas = network.nodes.iter_mut().flat_map(|node| &mut node.workers);
            replicas.for_each(|replica| replica.set_queue_room(queue.room()));
        }
        if network.hosts.as_ref().is_some_and(Hosts::read_digests) {
            network.nodes.iter_mut().flat_map(|node| &mut node.workers).for_each(Switch::read_digests);
        }
        network.tick();
        Ok(network)
    }

    /// Begins epoch number `epoch`, in which the clock must stand, with new flows, or without any.
    /// Where hosts answer, their flows go on, or nothing is sent any more.
    pub fn begin(&mut self, epoch: u64, workload: Option<&Workload>, victims: Option<Victims>) {
        if self.hosts.is_some() {
            return self.begin_with_hosts(epoch, workload.is_some());
        }
        let generation = workload.map(|workload| self.traffic.draw(epoch, workload, victims)).unwrap_or_default();
        self.source.begin(epoch * self.epoch, generation.sequence.len());
        *self.generation_mut(epoch as u32) = generation;
        self.tick();
    }

    #[inline]
    fn generation_mut(&mut self, epoch: u32) -> &mut Generation {
        let generations = self.generations.len();
        &mut self.generations[epoch as usize % generations]
    }

    /// Lets time go on until `until`; at least to the end of a window.
    pub fn run_to(&mut self, until: Nanos) {
        while self.calendar.now() < until {
            if !self.faults.is_empty() {
                self.tick();
            }
            self.send();
            self.start_flows();
            let pending = self.calendar.arrivals();
            for &place in &pending {
                match self.host_at(place) {
                    Some(host) => self.run_host(host),
                    None => self.arrive(place),
                }
            }
            self.run_due_hosts();
            self.calendar.put_back(pending);
            self.calendar.advance();
        }
    }

    /// The time that has come.
    pub fn now(&self) -> Nanos {
        self.calendar.now()
    }

    /// Tells all switches the time, but those that stand still.
    pub fn tick(&mut self) {
        let now = self.calendar.now();
        for switch in 0..self.nodes.len() {
            let clock = self.clock(switch as u32, now);
            for worker in 0..self.nodes[switch].workers.len() {
                if self.paused(switch as u32, worker).is_none() {
                    self.nodes[switch].drive(worker, |replica| replica.tick(clock));
                }
            }
        }
    }

    /// The time that a switch's clock shows.
    #[inline]
    fn clock(&self, switch: u32, now: Nanos) -> Nanos {
        self.faults.get(switch as usize).map_or(now + self.offset, |faults| faults.clock(now, self.offset))
    }

    /// What the clocks of all switches show.
    pub fn clocks(&self) -> Vec<Nanos> {
        let now = self.calendar.now();
        (0..self.nodes.len() as u32).map(|switch| self.clock(switch, now)).collect()
    }

    /// Until when a worker stands still, if it does.
    #[inline]
    fn paused(&self, switch: u32, worker: usize) -> Option<Nanos> {
        let of = self.nodes[switch as usize].workers.len();
        self.faults.get(switch as usize)?.paused(self.calendar.now(), worker, of)
    }

    /// The right time, as clocks show it.
    pub fn right_time(&self) -> Nanos {
        self.calendar.now() + self.offset
    }

    /// Makes the packets that reach their first switch within the window.
    fn send(&mut self) {
        let end = self.calendar.end();
        let epoch = self.calendar.now() / self.epoch;
        let generations = self.generations.len();
        let generation = &mut self.generations[epoch as usize % generations];
        while let Some(&number) = generation.sequence.get(self.source.next)
            && self.source.at < end
        {
            let doomed = generation.send(number);
            let flow = &generation.flows[number as usize];
            let mut frame = self.pool.pop().unwrap_or_else(|| HeapFrame::new(&[]));
            let packet = self.source.write(flow, &self.traffic.workload, &mut frame);
            let at = self.source.at;
            let tag = Tag { at, epoch: epoch as u32, flow: number, doomed, number: packet as u16, ..Tag::default() };
            self.calendar.push(self.traffic.host_port(flow.src), Packet::new(frame, tag));
            self.source.advance(self.epoch);
        }
    }

    /// Takes the packets that arrive at a port in this window through its switch, in bursts.
    fn arrive(&mut self, port: Place) {
        let (switch, own) = self.owners[port as usize];
        let worker = usize::from(own) % self.nodes[switch as usize].workers.len();
        if let Some(until) = self.paused(switch, worker) {
            return self.postpone(port, until);
        }
        let mut packets = self.calendar.take(port);
        let mut rest = packets.drain(..);
        loop {
            // A switch may leave the rest of a burst for the next call.
            let together = self.together(switch, worker);
            self.burst.extend(rest.by_ref().take(together.saturating_sub(self.burst.len())));
            let Some(now) = self.burst.first().map(|packet| packet.tag.at) else { break };
            let arrived: ArrayVec<Tag, BURST> = self.burst.iter().map(|packet| packet.tag).collect();
            let clock = self.clock(switch, now);
            if together == 1 {
                self.tell_backlogs(switch, now);
            }
            let (burst, out) = (&mut self.burst, &mut self.tx_bursts);
            self.nodes[switch as usize].drive(worker, |replica| replica.process(own, burst, clock, out));
            let entered = self.nodes[switch as usize].workers[worker].epoch() as u32;
            let arrived = &arrived[..arrived.len() - self.burst.len()];
            self.enter(port, entered, arrived);
            self.depart(switch, arrived);
        }
        drop(rest);
        self.calendar.put_queue_back(port, packets);
    }

    /// Packets that a switch takes at once. Where links have queues and a program needs to know them,
    /// each packet comes alone, with the queues as it finds them.
    fn together(&self, switch: u32, worker: usize) -> usize {
        let alone = self.queue.is_some() && self.nodes[switch as usize].workers[worker].needs_queues();
        if alone { 1 } else { BURST }
    }

    /// Tells the switch what waits for the links behind its ports.
    fn tell_backlogs(&mut self, switch: u32, now: Nanos) {
        let Some(queue) = self.queue else { return };
        let ports = self.traffic.addresses.of_switch(switch);
        for (own, wire) in (0..).zip(&mut self.wires[ports.start as usize..ports.end as usize]) {
            let waits = wire.waits(now);
            self.tx_bursts.set_backlog(own, queue.backlog(wire.queued.len() as u32, waits));
        }
    }

    /// What arrives at a switch that stands still waits.
    #[cold]
    fn postpone(&mut self, port: Place, until: Nanos) {
        let mut packets = self.calendar.take(port);
        let until = until.max(self.calendar.end());
        for mut packet in packets.drain(..) {
            let at = packet.tag.at.max(until);
            packet.tag.held += at - packet.tag.at;
            packet.tag.at = at;
            self.calendar.push(port, packet);
        }
        self.calendar.put_queue_back(port, packets);
    }

    /// Notes packets that a switch has taken in from a host, with the epoch that it counted them
    /// in.
    #[inline]
    fn enter(&mut self, port: Place, entered: u32, arrived: &[Tag]) {
        let Peer::Host(_) = self.wires[port as usize].peer else { return };
        let Some(ledger) = &mut self.ledger else { return };
        for tag in arrived {
            let generation = &self.generations[tag.epoch as usize % self.generations.len()];
            if let Some(flow) = generation.flows.get(tag.flow as usize) {
                ledger.entered(entered, tag.of(), flow.tuple);
            }
        }
        for (_, queue) in self.tx_bursts.queues() {
            queue.iter_mut().for_each(|packet| packet.tag.entered = entered);
        }
    }

    fn depart(&mut self, switch: u32, arrived: &[Tag]) {
        let first = self.traffic.addresses.of_switch(switch).start;
        let mut tx_bursts = std::mem::replace(&mut self.tx_bursts, TxBursts::new(0));
        self.hops += arrived.len() as u64;
        let left: usize = tx_bursts.queues().map(|(_, queue)| queue.len()).sum();
        if left < arrived.len() || self.source.fragments() {
            self.lost_within(switch, arrived, &mut tx_bursts);
        }
        for (own, queue) in tx_bursts.queues() {
            let stats = self.nodes[switch as usize].workers[0].stats().port(own);
            stats.tx_packets.add(queue.len() as u64);
            stats.tx_bytes.add(queue.iter().map(|packet| packet.wire_len() as u64).sum());
            let port = first + Place::from(own);
            queue.drain(..).for_each(|packet| self.cross(port, packet));
        }
        self.tx_bursts = tx_bursts;
    }

    /// Finds the flows whose packets went into a switch and did not come out, and the packets that
    /// it fragmented.
    #[cold]
    fn lost_within(&mut self, switch: u32, arrived: &[Tag], tx_bursts: &mut TxBursts<Packet>) {
        let mut left = arrived.to_vec();
        for Packet { tag, .. } in tx_bursts.queues().flat_map(|(_, queue)| queue.iter()) {
            if let Some(found) = left.iter().position(|arrived| arrived.is_of(tag)) {
                left.swap_remove(found);
                continue;
            }
            self.generation_mut(tag.epoch).doubled += 1;
            if let Some(ledger) = &mut self.ledger {
                ledger.fragmented(tag.entered, tag.of(), tag.number);
            }
        }
        left.into_iter().for_each(|tag| self.lost(tag.of(), Where::Switch(switch)));
    }

    /// Sends a packet over the link behind a port.
    #[inline]
    fn cross(&mut self, port: Place, mut packet: Packet) {
        packet.tag.held = 0;
        packet.tag.way = packet.tag.way.through(self.owners[port as usize].0);
        let wire = &mut self.wires[port as usize];
        let between = matches!(wire.peer, Peer::Port(_));
        if let (false, Some(ledger)) = (between, &mut self.ledger) {
            ledger.left(packet.tag.entered, packet.tag.of(), packet.tag.number);
        }
        packet.tag.hops += u8::from(between);
        let chosen = between && packet.tag.doomed == packet.tag.hops && packet.tag.doomed > 0;
        if chosen || (wire.loss > 0 && wire.random.next_u64() < wire.loss) {
            wire.lost += 1;
            return self.end(packet, Where::Link(port));
        }
        if let Some(queue) = self.queue {
            let waits = wire.waits(packet.tag.at);
            if !queue.has_room(waits) {
                wire.busy += 1;
                return self.end(packet, Where::Busy(port));
            }
            self.longest_wait = self.longest_wait.max(waits);
            if let Some(hosts) = &self.hosts {
                hosts::measure(hosts, wire, waits, &mut packet);
            }
            wire.free = packet.tag.at + waits + queue.time(packet.wire_len() as u64);
            packet.tag.at = wire.free;
            wire.queued.push_back(wire.free);
        }
        wire.crossed += 1;
        match wire.peer {
            Peer::Port(next) => {
                packet.tag.at += self.delay;
                if wire.double > 0 && wire.random.next_u64() < wire.double {
                    wire.crossed += 1;
                    let generations = self.generations.len();
                    self.generations[packet.tag.epoch as usize % generations].doubled += 1;
                    self.calendar.push(next, packet.clone());
                }
                if wire.late > 0 && wire.random.next_u64() < wire.late {
                    packet.tag.at += wire.random.below(wire.late_by + 1);
                }
                self.calendar.push(next, packet);
            }
            Peer::Host(host) => {
                self.shims_at_hosts +=
                    u64::from(packet.frame.bytes().get(12..14) == Some(&ethertype::SHIM.to_be_bytes()[..]));
                let Sent { epoch, flow } = packet.tag.of();
                self.generation_mut(epoch).delivered(flow, port);
                self.generation_mut(epoch).passed(flow, packet.tag.way);
                self.deliver(host, packet);
            }
        }
    }

    #[cold]
    fn end(&mut self, packet: Packet, at: Where) {
        self.lost(packet.tag.of(), at);
        self.pool.push(packet.frame);
    }

    fn lost(&mut self, Sent { epoch, flow }: Sent, at: Where) {
        self.generation_mut(epoch).lost(flow, at);
    }

    pub fn nodes(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    pub fn topology(&self) -> &Topology {
        &self.traffic.topology
    }

    /// The paths of flows as the routers' tables have them. Changes of the tables show.
    pub fn routes(&self) -> RecomputedRoutes {
        let Traffic { topology, addresses, .. } = &self.traffic;
        let router = |(switch, node): (u32, &Node)| {
            let next = addresses.of_switch(switch).map(|port| self.peer(port)).collect();
            Some(Router { routing: node.routing.clone()?, next })
        };
        let host = |(host, switch): (usize, &u32)| (addresses.host(topology, host), *switch);
        let hosts = topology.hosts().iter().enumerate().map(host).collect();
        RecomputedRoutes::new((0..).zip(&self.nodes).filter_map(router).collect(), hosts)
    }

    /// The links between the switches, as records and answers name their ends.
    pub fn links(&self) -> Links {
        links(self.topology())
    }

    /// A place between the first and the last switch, as answers name it: a switch, or the port that a link
    /// begins at; `None` of a host's link.
    pub fn named(&self, at: Where) -> Option<(String, Option<String>)> {
        match at {
            Where::Switch(switch) => Some((switch_name(switch), None)),
            Where::Link(port) | Where::Busy(port) => {
                let (switch, own) = self.owner(port);
                let (link, _) = self.topology().neighbours(switch).get(usize::from(own))?;
                Some((switch_name(switch), Some(link_port(*link))))
            }
            Where::Astray(_) => None,
        }
    }

    /// The flows of an epoch: of the running one or the one before, and of as many more as faults
    /// may hold packets back for.
    pub fn generation(&self, epoch: u64) -> &Generation {
        &self.generations[epoch as usize % self.generations.len()]
    }

    /// Length of an epoch.
    pub fn epoch_length(&self) -> Nanos {
        self.epoch
    }

    /// What is known of epochs whatever the clocks say; `None` where no fault was asked for.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// Epochs whose flows are known at a time.
    pub fn generations(&self) -> u64 {
        // Packets of hosts that answer may be of the next epoch already.
        self.generations.len() as u64 - u64::from(self.hosts.is_some())
    }

    /// How the flows of hosts went, where these answer.
    pub fn transport(&self) -> Option<TransportReport> {
        Some(TransportReport::new(self.hosts.as_ref()?, self.longest_wait))
    }

    /// Packets that are on a link.
    pub fn under_way(&self) -> u64 {
        self.calendar.under_way()
    }

    /// Packets that switches have taken in.
    pub fn hops(&self) -> u64 {
        self.hops
    }

    /// Counters of each switch, its ports added up, by its place in the topology.
    pub fn counts(&self) -> impl Iterator<Item = Counts> {
        let of = |(switch, node): (u32, &Node)| {
            let mut counts = Counts::default();
            for port in 0..self.traffic.addresses.of_switch(switch).len() as PortId {
                node.workers.iter().for_each(|worker| counts.count(worker.stats().port(port)));
            }
            counts
        };
        (0..).zip(&self.nodes).map(of)
    }

    /// Packets that came to a host with a telemetry shim. There must be none.
    pub fn shims_at_hosts(&self) -> u64 {
        self.shims_at_hosts
    }

    /// The switch that a port belongs to, and what it is called there.
    pub fn owner(&self, port: Place) -> (u32, PortId) {
        self.owners[port as usize]
    }

    /// The switch at the other end of a port's link; none for a host.
    pub fn peer(&self, port: Place) -> Option<u32> {
        match self.wires[port as usize].peer {
            Peer::Port(peer) => Some(self.owners[peer as usize].0),
            Peer::Host(_) => None,
        }
    }

    /// The counts of every link's every direction.
    pub fn crossed(&self) -> impl Iterator<Item = Crossed> {
        let counts =
            |(from, wire): (Place, &Wire)| Crossed { from, crossed: wire.crossed, lost: wire.lost, busy: wire.busy };
        (0..).zip(&self.wires).map(counts)
    }
}
