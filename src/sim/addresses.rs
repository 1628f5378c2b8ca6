//! Who has which address, and each switch's configuration: a router with all neighbours filled in.
//!
//! A link between switches is a network of 172.16.0.0/12, a host with its port one of 10.0.0.0/8;
//! the hosts of one switch lie together, so that a route leads to a switch. There is a route to
//! every switch with hosts, over all links that begin a shortest path.

use std::net::{IpAddr, Ipv4Addr};

use super::topology::Topology;
use crate::config::{Config, ForwardMode, NeighbourConfig, PortConfig, RouteConfig};
use crate::forward::route::{MAX_HOPS, Net};
use crate::pisa::PortId;
use crate::port::Dev;
use crate::switch::Role;
use crate::wire::Mac;

const LINKS: u32 = 0xac10_0000;
const HOSTS: u32 = 0x0a00_0000;
const HOSTS_BITS: u32 = 24;
/// Addresses of a point-to-point network: its own, two ends, broadcast.
const PAIR: u32 = 4;
const PAIR_LEN: u8 = 30;
/// Of all ports alike, so that no packet has to be fragmented; with a shim none comes past it.
const MTU: u32 = 9216;

/// A port's number in all of the network.
pub type Place = u32;

/// Addresses and port numbers of a topology. A switch's ports to its links come first, then those
/// to its hosts.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// The first port of each switch among all ports.
    first: Vec<Place>,
    /// The port of a switch at each end of a link.
    ends: Vec<[PortId; 2]>,
    /// Addresses set aside for the hosts of one switch: a power of two.
    block: u32,
    /// Each switch's number among those with hosts.
    edge_numbers: Vec<Option<u32>>,
    edges: Vec<u32>,
}

impl Addresses {
    /// The prefix length of the network of a host and its switch.
    pub const HOST_LENGTH: u8 = PAIR_LEN;

    /// The address of the switch on the network of a host.
    pub fn gateway(host: Ipv4Addr) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(host) - 1)
    }

    /// `None` when there are more hosts at more switches than 10.0.0.0/8 has room for.
    pub fn new(topology: &Topology) -> Option<Self> {
        let switches = topology.switches().len() as u32;
        let edges = topology.edges();
        let max = edges.iter().map(|&edge| topology.hosts_of(edge).len() as u32).max().unwrap_or(1);
        let block = (max * PAIR).next_power_of_two();
        if edges.len() as u64 * u64::from(block) > 1 << HOSTS_BITS {
            return None;
        }
        let mut edge_numbers = vec![None; switches as usize];
        (0..).zip(&edges).for_each(|(number, &edge)| edge_numbers[edge as usize] = Some(number));
        let (mut first, mut next) = (Vec::new(), 0);
        let mut ends = vec![[0; 2]; topology.links().len()];
        for switch in 0..switches {
            first.push(next);
            for (port, &(link, _)) in (0..).zip(topology.neighbours(switch)) {
                let [a, _] = topology.links()[link as usize];
                ends[link as usize][usize::from(a != switch)] = port;
            }
            next += (topology.neighbours(switch).len() + topology.hosts_of(switch).len()) as Place;
        }
        first.push(next);
        Some(Self { first, ends, block, edge_numbers, edges })
    }

    /// Ports of all switches.
    pub fn ports(&self) -> usize {
        self.first.last().map_or(0, |&all| all as usize)
    }

    /// The numbers of a switch's ports among all ports.
    pub fn of_switch(&self, switch: u32) -> std::ops::Range<Place> {
        self.first[switch as usize]..self.first[switch as usize + 1]
    }

    /// The two ends of a link among all ports.
    pub fn ends(&self, topology: &Topology, link: u32) -> [Place; 2] {
        let ends = topology.links()[link as usize];
        [0, 1].map(|end| self.first[ends[end] as usize] + Place::from(self.ends[link as usize][end]))
    }

    /// The port that a host is at, among all ports.
    pub fn of_host(&self, topology: &Topology, host: usize) -> Place {
        let switch = topology.hosts()[host];
        let links = topology.neighbours(switch).len() + (host - topology.hosts_of(switch).start);
        self.first[switch as usize] + links as Place
    }

    /// The number among the switches with hosts of the one that a host is at.
    pub fn edge_of(&self, topology: &Topology, host: usize) -> usize {
        self.edge_numbers[topology.hosts()[host] as usize].unwrap_or_default() as usize
    }

    /// A host's own address.
    pub fn host(&self, topology: &Topology, host: usize) -> Ipv4Addr {
        let switch = topology.hosts()[host];
        let number = host - topology.hosts_of(switch).start;
        Ipv4Addr::from(self.network(switch) + PAIR * number as u32 + 2)
    }

    fn network(&self, switch: u32) -> u32 {
        HOSTS + self.block * self.edge_numbers[switch as usize].unwrap_or_default()
    }

    /// What one switch is told. `distances` are those to each switch with hosts, in their order.
    pub fn config(&self, topology: &Topology, switch: u32, distances: &[Vec<u32>]) -> Config {
        let mut config = Config::default();
        config.switch.forward = ForwardMode::Route;
        for &(link, _) in topology.neighbours(switch) {
            let side = usize::from(topology.links()[link as usize][0] != switch);
            let name = link_port(link);
            config.neighbours.push(neighbour(&name, link_address(link, 1 - side), self.mac(topology, link, 1 - side)));
            let own = Net::new(link_address(link, side), PAIR_LEN);
            let port = PortConfig::new(name, Dev::Memory);
            config.ports.push(PortConfig {
                role: Role::Fabric,
                mtu: MTU,
                addresses: own.into_iter().collect(),
                ..port
            });
        }
        for host in topology.hosts_of(switch) {
            let (name, address) = (host_port(host), self.host(topology, host));
            config.neighbours.push(neighbour(&name, address.into(), host_mac(host)));
            let own = Net::new(Self::gateway(address).into(), PAIR_LEN);
            let port = PortConfig::new(name, Dev::Memory);
            config.ports.push(PortConfig { mtu: MTU, addresses: own.into_iter().collect(), ..port });
        }
        let others = self.edges.iter().zip(distances).filter(|(edge, _)| **edge != switch);
        config.routes.extend(others.filter_map(|(&edge, distances)| self.route(topology, switch, edge, distances)));
        let entries = config.routes.len() + 4 * config.ports.len();
        config.switch.route_table = (entries as u32).next_power_of_two().max(16);
        config.switch.neighbour_table = (config.neighbours.len() as u32).max(1);
        config
    }

    /// Over the links that begin a shortest path; of more than a route can have, other ones on each
    /// switch.
    fn route(&self, topology: &Topology, switch: u32, edge: u32, distances: &[u32]) -> Option<RouteConfig> {
        let here = distances[switch as usize];
        let nearer = |(_, neighbour): &&(u32, u32)| distances[*neighbour as usize] < here;
        let links: Vec<u32> = topology.neighbours(switch).iter().filter(nearer).map(|(link, _)| *link).collect();
        let from = switch as usize % links.len().max(1);
        let chosen = links[from..].iter().chain(&links[..from]).take(MAX_HOPS);
        let gateway = |&link: &u32| {
            let side = usize::from(topology.links()[link as usize][0] != switch);
            link_address(link, 1 - side)
        };
        let length = 32 - self.block.trailing_zeros();
        let prefix = Net::new(Ipv4Addr::from(self.network(edge)).into(), length as u8)?;
        Some(RouteConfig { prefix, via: chosen.map(gateway).collect(), port: None, drop: false })
    }

    fn mac(&self, topology: &Topology, link: u32, side: usize) -> Mac {
        port_mac(topology.links()[link as usize][side], self.ends[link as usize][side])
    }
}

/// The name of a link's port, at both of its ends.
pub fn link_port(link: u32) -> String {
    format!("l{link}")
}

/// The name of the port that a host is at.
pub fn host_port(host: usize) -> String {
    format!("h{host}")
}

fn neighbour(port: &str, address: IpAddr, mac: Mac) -> NeighbourConfig {
    NeighbourConfig { address, port: port.into(), mac }
}

fn link_address(link: u32, side: usize) -> IpAddr {
    Ipv4Addr::from(LINKS + PAIR * link + 1 + side as u32).into()
}

/// The MAC of a switch's port; like all here locally administered.
pub fn port_mac(switch: u32, port: PortId) -> Mac {
    Mac::from_u64(0x0200_0000_0000 | u64::from(switch) << 16 | u64::from(port))
}

pub fn host_mac(host: usize) -> Mac {
    Mac::from_u64(0x0201_0000_0000 | host as u64)
}
