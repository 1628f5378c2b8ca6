//! From a topology to switches that are configured, and wires.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::addresses::{Addresses, Place, host_mac, link_port, port_mac};
use super::fault::Fault;
use super::loss::{LinkName, Loss};
use super::topology::Topology;
use super::traffic::Traffic;
use super::{Fabric, Node, Setup, SimError};
use crate::answers::{Links, PortName};
use crate::assemble::assemble;
use crate::config::Length;
use crate::pisa::PortId;
use crate::switch::Role;
use crate::telemetry::epoch::Nanos;
use crate::trace::{Frames, SplitMix64};

/// The MTU of ports where packets are fragmented.
const NARROW: u32 = 600;

/// The name of a switch in records and answers. Names out of a file may be alike, and longer than a
/// controller takes them.
pub fn switch_name(switch: u32) -> String {
    format!("s{switch}")
}

/// The switch of a name in records and answers.
pub fn switch_of(name: &str) -> Option<u32> {
    name.strip_prefix('s')?.parse().ok()
}

/// What a port leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Port(Place),
    Host(u32),
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Wire {
    pub peer: Peer,
    /// Of 2^64: how likely a packet is lost.
    pub loss: u64,
    pub random: SplitMix64,
    /// When the last packet will have been sent.
    pub free: Nanos,
    /// When each packet that waits, or is being sent, will have been sent.
    pub queued: VecDeque<Nanos>,
    pub crossed: u64,
    pub lost: u64,
    pub busy: u64,
    /// Bytes of all packets that it took, FCS, preamble and gap among them.
    pub bytes: u64,
    /// Of 2^64: how likely a packet is doubled, and is delivered later, by up to `late_by`.
    pub double: u64,
    pub late: u64,
    pub late_by: Nanos,
}

impl Wire {
    /// For how long a packet waits for the link that comes at this time. Forgets what has been sent
    /// by then.
    pub fn waits(&mut self, at: Nanos) -> Nanos {
        while self.queued.front().is_some_and(|sent| *sent <= at) {
            self.queued.pop_front();
        }
        self.free.saturating_sub(at)
    }
}

pub fn owners(topology: &Topology, addresses: &Addresses) -> Vec<(u32, PortId)> {
    let switches = 0..topology.switches().len() as u32;
    switches
        .flat_map(|switch| (0..addresses.of_switch(switch).len() as PortId).map(move |port| (switch, port)))
        .collect()
}

pub fn nodes(setup: &Setup, traffic: &Traffic) -> Result<Vec<Node>, SimError> {
    let Traffic { topology, addresses, distances, .. } = traffic;
    let Fabric { telemetry_header, workers, fragmented, .. } = setup.fabric;
    let switches = 0..topology.switches().len() as u32;
    let has_middle = switches.clone().any(|switch| topology.hosts_of(switch).is_empty());
    let everywhere = setup.runs_everywhere();
    let mut nodes = Vec::new();
    for switch in switches {
        let mut config = addresses.config(topology, switch, distances);
        config.switch.name = switch_name(switch);
        let [epoch, transit] = [setup.epoch, setup.transit].map(|length| Length(Duration::from_nanos(length)));
        (config.switch.epoch, config.switch.transit, config.switch.history) = (epoch, transit, epoch);
        config.switch.reproducible = Some(setup.workload.seed);
        config.switch.telemetry_header = telemetry_header;
        let between = topology.hosts_of(switch).is_empty();
        if fragmented > 0.0 && (between || !has_middle) {
            let fabric = config.ports.iter_mut().filter(|port| port.role == Role::Fabric);
            fabric.step_by(2).for_each(|port| port.mtu = NARROW);
        }
        if everywhere || !topology.hosts_of(switch).is_empty() {
            config.programs = setup.programs_of(&topology.switches()[switch as usize])?;
        }
        let assembly = assemble(&config, Some(setup.epoch), workers)?;
        let inside = inside(setup, &topology.switches()[switch as usize]);
        assembly.ports.iter().for_each(|info| info.inside.store(inside, Relaxed));
        (0..).zip(&assembly.ports).for_each(|(port, info)| info.mac.store(port_mac(switch, port).to_u64(), Relaxed));
        nodes.push(Node::new(assembly));
    }
    Ok(nodes)
}

/// Of 2³² packets that come into a switch, the number that it loses.
fn inside(setup: &Setup, name: &str) -> u64 {
    let rate = setup.losses.iter().filter_map(|loss| match loss {
        Loss::Switch { switch, rate } if switch.is(name) => Some(*rate),
        _ => None,
    });
    (rate.fold(0.0, f64::max) * 4_294_967_296.0) as u64
}

/// The links between the switches, as records and answers name their ends.
pub fn links(topology: &Topology) -> Links {
    let end = |switch: u32, link: usize| PortName::new(&switch_name(switch), &link_port(link as u32));
    let links = topology.links().iter().enumerate();
    Links(links.map(|(number, ends)| ends.map(|switch| end(switch, number))).collect())
}

pub fn wires(setup: &Setup, topology: &Topology, addresses: &Addresses) -> Result<Vec<Wire>, SimError> {
    let mut seeds = SplitMix64::new(setup.workload.seed ^ 0x1055);
    let mut wire = |peer| {
        let random = SplitMix64::new(seeds.next_u64());
        let queued = VecDeque::new();
        let [loss, free, crossed, lost, busy, bytes, double, late, late_by] = [0; 9];
        Wire { peer, loss, random, free, queued, crossed, lost, busy, bytes, double, late, late_by }
    };
    let mut wires: Vec<_> = (0..addresses.ports()).map(|_| wire(Peer::Host(0))).collect();
    for host in 0..topology.hosts().len() {
        wires[addresses.of_host(topology, host) as usize].peer = Peer::Host(host as u32);
    }
    let links = topology.links().len() as u32;
    for link in 0..links {
        let [a, b] = addresses.ends(topology, link);
        wires[a as usize].peer = Peer::Port(b);
        wires[b as usize].peer = Peer::Port(a);
    }
    // Both directions of the links of that name.
    let ends = |link: &LinkName| -> Result<Vec<usize>, SimError> {
        let chosen = match *link {
            LinkName::All => 0..links,
            LinkName::One(link) if link < links => link..link + 1,
            LinkName::One(link) => return Err(SimError::NoLink { link, links }),
        };
        Ok(chosen.flat_map(|link| addresses.ends(topology, link)).map(|end| end as usize).collect())
    };
    // As a number of 2^64; all of them for a rate of 1.
    let of_two_to_64 = |rate: f64| (rate * 18_446_744_073_709_551_616.0) as u64;
    for loss in &setup.losses {
        let Loss::Link { link, rate } = loss else { continue };
        ends(link)?.into_iter().for_each(|end| wires[end].loss = of_two_to_64(*rate));
    }
    for fault in &setup.faults {
        match fault {
            Fault::Double { link, rate } => {
                ends(link)?.into_iter().for_each(|end| wires[end].double = of_two_to_64(*rate));
            }
            Fault::Delay { link, rate, delay } => {
                let late = of_two_to_64(*rate);
                ends(link)?.into_iter().for_each(|end| (wires[end].late, wires[end].late_by) = (late, *delay));
            }
            Fault::Pause { .. } | Fault::Clock { .. } => {}
        }
    }
    Ok(wires)
}

/// How each host writes its frames: to the port that it is at.
pub fn hosts(topology: &Topology, addresses: &Addresses, owners: &[(u32, PortId)]) -> Vec<Frames> {
    let frames = |host| {
        let (switch, port) = owners[addresses.of_host(topology, host) as usize];
        Frames::new(host_mac(host), port_mac(switch, port))
    };
    (0..topology.hosts().len()).map(frames).collect()
}
