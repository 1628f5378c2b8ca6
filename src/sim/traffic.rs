//! An epoch's flows between the network's hosts, in the order of a workload, and what becomes of
//! each of their packets.

use rustc_hash::{FxHashMap, FxHashSet};

use super::addresses::{Addresses, Place};
use super::keys::ends;
use super::loss::Victims;
use super::packet::Way;
use super::topology::Topology;
use super::{Setup, SimError};
use crate::trace::{SplitMix64, Tuple, Workload};
use crate::wire::Tuple4;

const UDP: u8 = 17;
const SHIFT: u64 = 0x9e37_79b9_7f4a_7c15;
/// Keep the draws of hosts and of losses apart from those of sizes and order.
const HOSTS: u64 = 0x51a1_0001;
const LOSSES: u64 = 0x51a1_0002;

/// Draws the flows of a network's epochs. Benches use it without the network.
#[derive(Clone, Debug)]
pub struct Traffic {
    pub(super) topology: Topology,
    pub(super) addresses: Addresses,
    /// Of all switches to each one with hosts.
    pub(super) distances: Vec<Vec<u32>>,
    /// Of the epoch that was drawn last, with the seed of all.
    pub(super) workload: Workload,
    /// Flows of all epochs so far.
    flows: u64,
}

impl Traffic {
    /// # Errors
    /// If the network cannot be simulated as it is set up.
    pub fn new(setup: &Setup) -> Result<Self, SimError> {
        setup.check()?;
        let topology = setup.topology.clone();
        Ok(Self {
            addresses: Addresses::new(&topology).ok_or(SimError::TooManyHosts)?,
            distances: topology.edges().iter().map(|&edge| topology.distances(edge)).collect(),
            workload: setup.workload.clone(),
            flows: 0,
            topology,
        })
    }

    /// The port that a host is at.
    pub(super) fn host_port(&self, host: u32) -> Place {
        self.addresses.of_host(&self.topology, host as usize)
    }

    /// The switches with hosts, and the place among them of the one that a host is at.
    pub fn edges(&self) -> (Vec<u32>, Vec<usize>) {
        let edges = self.topology.edges();
        let of = self.topology.hosts().iter().map(|host| edges.partition_point(|edge| edge < host)).collect();
        (edges, of)
    }

    /// Links between the switches of two hosts.
    pub(super) fn links(&self, [src, dst]: [u32; 2]) -> u32 {
        let at = self.addresses.edge_of(&self.topology, dst as usize);
        self.distances[at][self.topology.hosts()[src as usize] as usize]
    }

    /// The flow of this tuple between two hosts, with nothing sent.
    pub(super) fn flow(&self, [src, dst]: [u32; 2], tuple: Tuple4) -> SimFlow {
        SimFlow::new((&self.topology, &self.addresses), &self.distances, [src, dst], tuple)
    }

    /// The tuple of UDP packets between two hosts; `ports` holds the source port and the
    /// destination port.
    pub(super) fn tuple(&self, [src, dst]: [u32; 2], ports: u32) -> Tuple4 {
        tuple((&self.topology, &self.addresses), [src, dst], ports)
    }

    /// New flows for epoch number `epoch`. The seed is that of the first workload.
    pub fn draw(&mut self, epoch: u64, workload: &Workload, victims: Option<Victims>) -> Generation {
        self.workload = Workload { seed: self.workload.seed, ..workload.clone() };
        let of = (&self.topology, &self.addresses);
        let generation = Generation::new(of, &self.distances, &self.workload, victims, (epoch, self.flows));
        self.flows += generation.flows.len() as u64;
        generation
    }
}

/// One flow of an epoch, and its truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimFlow {
    pub tuple: Tuple4,
    /// The hosts that it goes between.
    pub src: u32,
    pub dst: u32,
    /// The port behind which its destination is.
    pub exit: Place,
    /// Links between switches on its way.
    pub links: u8,
    /// Packets that entered the network, and the bytes of their frames.
    pub sent: u32,
    pub sent_bytes: u64,
    pub delivered: u32,
    pub lost: u32,
    /// The switches that the first of its packets passed that left the network.
    pub(super) way: Option<Way>,
    /// Packets still to be sent, and of these to be lost on purpose.
    left: u32,
    to_lose: u32,
}

/// An IPv4 address of 10.0.0.0/8 for each host, and its ports.
fn tuple((topology, addresses): (&Topology, &Addresses), ends: [u32; 2], ports: u32) -> Tuple4 {
    let [from, to] = ends.map(|host| u128::from(u32::from(addresses.host(topology, host as usize))));
    Tuple4(from << 72 | to << 40 | u128::from(ports) << 8 | u128::from(UDP))
}

impl SimFlow {
    fn new(
        (topology, addresses): (&Topology, &Addresses),
        distances: &[Vec<u32>],
        [src, dst]: [u32; 2],
        tuple: Tuple4,
    ) -> Self {
        let at = addresses.edge_of(topology, dst as usize);
        Self {
            tuple,
            src,
            dst,
            exit: addresses.of_host(topology, dst as usize),
            links: distances[at][topology.hosts()[src as usize] as usize] as u8,
            sent: 0,
            sent_bytes: 0,
            delivered: 0,
            lost: 0,
            way: None,
            left: 0,
            to_lose: 0,
        }
    }
}

/// Where a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Where {
    /// On the link behind this port, on purpose.
    Link(Place),
    /// Because the link behind this port was busy for too long.
    Busy(Place),
    /// By a switch, whose drops have names.
    Switch(u32),
    /// Delivered to a host that it was not for.
    Astray(Place),
}

/// The flows of one epoch.
#[derive(Clone, Debug)]
pub struct Generation {
    pub flows: Vec<SimFlow>,
    /// Length of a packet of the workload.
    pub packet_bytes: u32,
    /// The flow of each packet, in the order in which they are sent.
    pub sequence: Vec<u32>,
    /// Lost packets by flow and place.
    pub places: FxHashMap<(u32, Where), u32>,
    /// The ways of flows whose packets took several, but for that of the first one.
    more_ways: FxHashSet<(u32, Way)>,
    random: SplitMix64,
    /// Packets that links made of others.
    pub doubled: u64,
}

impl Default for Generation {
    /// No flows.
    fn default() -> Self {
        Self {
            flows: Vec::new(),
            packet_bytes: 0,
            sequence: Vec::new(),
            places: FxHashMap::default(),
            more_ways: FxHashSet::default(),
            random: SplitMix64::new(0),
            doubled: 0,
        }
    }
}

impl Generation {
    /// The flows of epoch number `epoch`: new ones in each. `before` is the number of all flows of
    /// earlier epochs.
    fn new(
        (topology, addresses): (&Topology, &Addresses),
        distances: &[Vec<u32>],
        workload: &Workload,
        victims: Option<Victims>,
        (epoch, before): (u64, u64),
    ) -> Self {
        let seed = workload.seed.wrapping_add(epoch.wrapping_mul(SHIFT));
        let workload = Workload { seed, ..workload.clone() };
        let sizes = workload.flow_sizes();
        let mut hosts = SplitMix64::new(seed ^ HOSTS);
        let count = topology.hosts().len() as u32;
        let of = (topology, addresses);
        let flow = |(number, &size): (u32, &u32)| {
            // Every number has other ports, over all epochs.
            let all = (before as u32).wrapping_add(number);
            let (src, dst, ports) = ends(workload.keys, all, workload.seed as u32, count, &mut hosts);
            SimFlow { left: size, ..SimFlow::new(of, distances, [src, dst], tuple(of, [src, dst], ports)) }
        };
        let mut flows: Vec<SimFlow> = (0..).zip(&sizes).map(flow).collect();
        let mut losses = SplitMix64::new(seed ^ LOSSES);
        if let Some(victims) = victims {
            choose(&mut flows, victims, &mut losses);
        }
        let sequence = workload.order.sequence(&sizes, seed);
        let packet_bytes = flows.first().map_or(0, |flow| workload.frame_len(0, Tuple::V4(flow.tuple)) as u32);
        Self { flows, packet_bytes, sequence, random: losses, ..Self::default() }
    }

    /// Sends the next packet of a flow. Returns the link of its path on which it is to be lost, 0
    /// for none.
    #[inline]
    pub fn send(&mut self, flow: u32) -> u8 {
        let Some(flow) = self.flows.get_mut(flow as usize) else { return 0 };
        flow.sent += 1;
        flow.sent_bytes += u64::from(self.packet_bytes);
        let left = flow.left;
        flow.left = left.saturating_sub(1);
        if flow.to_lose == 0 {
            return 0;
        }
        // Of the packets left every one is as likely to be lost.
        if self.random.below(left.into()) >= flow.to_lose.into() {
            return 0;
        }
        flow.to_lose -= 1;
        1 + self.random.below(flow.links.max(1).into()) as u8
    }

    /// Counts a packet of a flow that is sent, so many bytes long.
    #[inline]
    pub(super) fn sent(&mut self, flow: u32, bytes: u32) {
        if let Some(flow) = self.flows.get_mut(flow as usize) {
            flow.sent += 1;
            flow.sent_bytes += u64::from(bytes);
        }
    }

    #[inline]
    pub fn delivered(&mut self, flow: u32, at: Place) {
        match self.flows.get_mut(flow as usize) {
            Some(flow) if flow.exit == at => flow.delivered += 1,
            _ => self.lost(flow, Where::Astray(at)),
        }
    }

    /// Notes the way that a packet took out of the network.
    #[inline]
    pub(super) fn passed(&mut self, flow: u32, way: Way) {
        let Some(entry) = self.flows.get_mut(flow as usize) else { return };
        if *entry.way.get_or_insert(way) != way {
            self.more_ways.insert((flow, way));
        }
    }

    /// The flows of which packets left the network, each with every way that these took.
    pub(super) fn ways(&self) -> impl Iterator<Item = (&SimFlow, Way)> {
        let first = self.flows.iter().filter_map(|flow| Some((flow, flow.way?)));
        first.chain(self.more_ways.iter().map(|(flow, way)| (&self.flows[*flow as usize], *way)))
    }

    /// Sends all packets that a flow has left to where they are to go, if none of them is to be
    /// lost, and tells how many there were. For benches.
    #[inline]
    pub fn deliver_rest(&mut self, flow: u32) -> Option<u32> {
        let flow = self.flows.get_mut(flow as usize).filter(|flow| flow.to_lose == 0)?;
        let rest = std::mem::take(&mut flow.left);
        flow.sent += rest;
        flow.sent_bytes += u64::from(rest) * u64::from(self.packet_bytes);
        flow.delivered += rest;
        Some(rest)
    }

    #[cold]
    pub fn lost(&mut self, flow: u32, at: Where) {
        if let Some(entry) = self.flows.get_mut(flow as usize) {
            entry.lost += 1;
            *self.places.entry((flow, at)).or_default() += 1;
        }
    }

    /// Flows that lost packets.
    pub fn victims(&self) -> impl Iterator<Item = &SimFlow> {
        self.flows.iter().filter(|flow| flow.lost > 0)
    }

    pub fn sums(&self) -> Sums {
        let mut sums = Sums { flows: self.flows.len() as u64, ..Sums::default() };
        for flow in &self.flows {
            sums.sent += u64::from(flow.sent);
            sums.delivered += u64::from(flow.delivered);
            sums.lost += u64::from(flow.lost);
            sums.victims += u64::from(flow.lost > 0);
        }
        sums
    }
}

/// What all flows of an epoch add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub flows: u64,
    pub sent: u64,
    pub delivered: u64,
    pub lost: u64,
    pub victims: u64,
}

/// Draws the victims among the flows that cross a link between switches.
fn choose(flows: &mut [SimFlow], victims: Victims, random: &mut SplitMix64) {
    let number = victims.number(flows.len());
    let mut crossing: Vec<&mut SimFlow> = flows.iter_mut().filter(|flow| flow.links > 0).collect();
    for i in 0..number.min(crossing.len()) {
        let other = i + random.below((crossing.len() - i) as u64) as usize;
        crossing.swap(i, other);
        crossing[i].to_lose = victims.packets(crossing[i].left);
    }
}
