//! The fat tree of §6.1, of any size: pods of edge and aggregation switches, and cores.

use weir::sim::transport::hpcc::Picos;

/// How many of each there are, how fast the links are, and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tree {
    pub pods: u32,
    /// Edge switches of a pod, and as many aggregation switches.
    pub half: u32,
    /// Cores that an aggregation switch is joined to. Number i of every pod has the same ones.
    pub cores: u32,
    /// Hosts of an edge switch.
    pub hosts: u32,
    /// Picoseconds that a byte takes on a host's link, and on one between switches.
    pub host_byte: Picos,
    pub fabric_byte: Picos,
    /// Propagation delay of every link.
    pub delay: Picos,
}

/// Most links on a path: from host to host over a core.
pub const MAX_LINKS: usize = 6;
/// Switches on the longest path.
pub const MAX_HOPS: usize = MAX_LINKS - 1;

/// The sending ports of a path, the first one the host's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    ports: [u16; MAX_LINKS],
    len: u8,
}

impl Path {
    fn new(ports: &[u32]) -> Self {
        let mut path = Self { len: ports.len() as u8, ..Self::default() };
        path.ports.iter_mut().zip(ports).for_each(|(to, port)| *to = *port as u16);
        path
    }

    pub fn ports(&self) -> &[u16] {
        &self.ports[..self.len.into()]
    }
}

impl Tree {
    /// The paper's: 16 cores, 20 aggregation switches, 20 racks of 16 hosts; 100 and 400 Gbit/s,
    /// 1 µs.
    pub const PAPER: Self =
        Self { pods: 5, half: 4, cores: 4, hosts: 16, host_byte: 80, fabric_byte: 20, delay: 1_000_000 };
    /// A smaller one, with as much room upwards: 4 cores, 8 aggregation switches, 8 racks of 8.
    pub const SMALL: Self = Self { pods: 4, half: 2, cores: 2, hosts: 8, ..Self::PAPER };

    pub fn hosts(&self) -> u32 {
        self.pods * self.half * self.hosts
    }

    fn edges(&self) -> u32 {
        self.pods * self.half
    }

    /// Sending ports. First come those of hosts.
    pub fn ports(&self) -> u32 {
        self.first_core_port() + self.half * self.cores * self.pods
    }

    /// Ports from the edges to their hosts, upwards, downwards to edges, and to the cores follow.
    fn first_up(&self) -> u32 {
        2 * self.hosts()
    }

    fn first_down(&self) -> u32 {
        self.first_up() + self.edges() * self.half
    }

    fn first_to_core(&self) -> u32 {
        self.first_down() + self.edges() * self.half
    }

    fn first_core_port(&self) -> u32 {
        self.first_to_core() + self.edges() * self.cores
    }

    /// Switches: edges, then aggregation switches, then cores.
    pub fn switches(&self) -> u32 {
        2 * self.edges() + self.half * self.cores
    }

    /// The switch of a port that is not a host's.
    pub fn switch(&self, port: u32) -> u32 {
        let parts = [
            (self.first_core_port(), self.pods, 2 * self.edges()),
            (self.first_to_core(), self.cores, self.edges()),
            (self.first_down(), self.half, self.edges()),
            (self.first_up(), self.half, 0),
            (self.hosts(), self.hosts, 0),
        ];
        let part = parts.into_iter().find(|(first, ..)| port >= *first);
        part.map_or(0, |(first, ports, switch)| switch + (port - first) / ports)
    }

    /// Picoseconds that a byte takes on the link of a port.
    pub fn byte(&self, port: u32) -> Picos {
        if port < self.first_up() { self.host_byte } else { self.fabric_byte }
    }

    /// One of the shortest paths between two hosts, as a flow's hash chooses.
    pub fn path(&self, from: u32, to: u32, hash: u64) -> Path {
        let down = self.hosts() + to;
        let (edge, last) = (from / self.hosts, to / self.hosts);
        if edge == last {
            return Path::new(&[from, down]);
        }
        let (pod, last_pod) = (edge / self.half, last / self.half);
        let choice = (hash % u64::from(self.half)) as u32;
        let up = self.first_up() + edge * self.half + choice;
        let to_edge = self.first_down() + (last_pod * self.half + choice) * self.half + last % self.half;
        if pod == last_pod {
            return Path::new(&[from, up, to_edge, down]);
        }
        let core = (hash / u64::from(self.half) % u64::from(self.cores)) as u32;
        let to_core = self.first_to_core() + (pod * self.half + choice) * self.cores + core;
        let to_pod = self.first_core_port() + (choice * self.cores + core) * self.pods + last_pod;
        Path::new(&[from, up, to_core, to_pod, to_edge, down])
    }

    /// Time from a packet's first bit at the first port of a path to its last bit at the far end,
    /// when no other packet is on the way.
    pub fn transit(&self, path: &Path, bytes: u32) -> Picos {
        path.ports().iter().map(|port| self.byte((*port).into()) * Picos::from(bytes) + self.delay).sum()
    }
}
