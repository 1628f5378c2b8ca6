//! The network with hosts that answer. What reaches a host in a window of time is answered in a later
//! one, because a link is as long as a window at least.

use super::super::build::Wire;
use super::super::packet::{Packet, Tag};
use super::super::traffic::Generation;
use super::super::transport::hpcc::Hop;
use super::super::transport::{BESIDE, Hosts, Kind, Outgoing};
use super::{HeapFrame, Nanos, Network, Place};
use crate::trace::scramble;
use crate::wire::Frame;

impl Network {
    /// Begins an epoch. Packets that leave their hosts before it may be of this one, so it is the
    /// next one that has no flows yet.
    pub(super) fn begin_with_hosts(&mut self, epoch: u64, goes_on: bool) {
        *self.generation_mut((epoch + 1) as u32) = Generation::default();
        if let Some(hosts) = self.hosts.as_mut().filter(|_| !goes_on) {
            hosts.stop();
        }
        self.tick();
    }

    /// The place of the calendar where packets to a host arrive.
    fn place_of(&self, host: u32) -> Place {
        self.owners.len() as Place + host
    }

    /// The host at a place of the calendar; `None` of a port.
    pub(super) fn host_at(&self, place: Place) -> Option<u32> {
        place.checked_sub(self.owners.len() as Place)
    }

    /// Begins the flows of this window.
    pub(super) fn start_flows(&mut self) {
        let end = self.calendar.end();
        if let Some(hosts) = &mut self.hosts {
            hosts.start(end, |ends| self.traffic.links(ends));
        }
    }

    /// Lets the hosts send in this window that have not had a packet in it.
    pub(super) fn run_due_hosts(&mut self) {
        let end = self.calendar.end();
        let Some(hosts) = &self.hosts else { return };
        let due: Vec<u32> = hosts.due(end).collect();
        due.into_iter().for_each(|host| self.run_host(host));
    }

    /// Gives a host the packets of this window, and lets it send.
    pub(super) fn run_host(&mut self, host: u32) {
        let Some(mut hosts) = self.hosts.take() else { return };
        let place = self.place_of(host);
        let mut packets = self.calendar.take(place);
        let mut sent = Vec::new();
        hosts.run(host, &mut packets, self.calendar.end(), &mut sent);
        self.pool.extend(packets.drain(..).map(|packet| packet.frame));
        self.calendar.put_queue_back(place, packets);
        sent.into_iter().for_each(|packet| self.put(&mut hosts, packet));
        self.hosts = Some(hosts);
    }

    /// Sends a packet of a host to its switch, as one of its flow in the epoch in which it comes
    /// there.
    fn put(&mut self, hosts: &mut Hosts, Outgoing { at, host, bytes, segment }: Outgoing) {
        let number = segment.connection;
        let Some(connection) = hosts.connection(number) else { return };
        let ports = scramble(number ^ self.traffic.workload.seed as u32);
        let (ends, ports, way) = match segment.kind {
            Kind::Data => ([connection.arrival.from, connection.arrival.to], ports, 0),
            Kind::Acknowledgement { .. } => {
                ([connection.arrival.to, connection.arrival.from], ports.rotate_left(16), 1)
            }
        };
        let tuple = self.traffic.tuple(ends, ports);
        let epoch = at / self.epoch;
        let generations = self.generations.len();
        let generation = &mut self.generations[epoch as usize % generations];
        let flow = match connection.counted[way] {
            Some((counted, flow)) if counted == epoch => flow,
            _ => {
                generation.flows.push(self.traffic.flow(ends, tuple));
                generation.flows.len() as u32 - 1
            }
        };
        connection.counted[way] = Some((epoch, flow));
        generation.sent(flow, bytes);
        let mut frame = self.pool.pop().unwrap_or_else(|| HeapFrame::new(&[]));
        self.source.fill(host, tuple, self.frames, bytes as usize, &mut frame);
        let tag = Tag { at, epoch: epoch as u32, flow, number: self.frames as u16, ..Tag::default() };
        self.frames += 1;
        let packet = Packet { segment: Some(segment), ..Packet::new(frame, tag) };
        self.calendar.push(self.traffic.host_port(host), packet);
    }

    /// Takes a packet that a switch has sent to a host.
    pub(super) fn deliver(&mut self, host: u32, mut packet: Packet) {
        if self.hosts.is_none() {
            return self.pool.push(packet.frame);
        }
        packet.tag.at += self.delay;
        self.calendar.push(self.place_of(host), packet);
    }
}

/// Counts a packet that takes a link after a time, and writes the values of the hop into one that has
/// room for them.
pub(super) fn measure(hosts: &Hosts, wire: &mut Wire, waits: Nanos, packet: &mut Packet) {
    let bytes = packet.wire_len() as u64 + u64::from(BESIDE);
    let byte = hosts.byte_picos();
    if let Some(segment) = packet.segment.as_mut().filter(|segment| hosts.has_int() && segment.kind == Kind::Data) {
        let (at, queue) = ((packet.tag.at + waits) * 1000, (waits * 1000 / byte) as u32);
        segment.hops.push(Hop { at, sent: wire.bytes, queue, byte });
    }
    wire.bytes += bytes;
}
