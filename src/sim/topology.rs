//! Topologies: switches, the links between them, and where hosts are.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::graph::{self, Graph, GraphError};
use crate::pisa::MAX_PORTS;

/// Most switches of a topology.
pub const MAX_SWITCHES: usize = 4096;
/// Most hosts.
pub const MAX_HOSTS: usize = 65_536;
/// Most links between switches.
pub const MAX_LINKS: usize = 131_072;
/// Most switches on a path: hosts send with a hop limit of 64, and each router takes one off.
pub const MAX_PATH: u32 = 63;

/// The two switches of a link. Parallel ones are links of their own.
pub type Link = [u32; 2];

/// A network of switches and hosts, connected as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The switches' names, which need not differ in a graph from a file.
    switches: Vec<String>,
    links: Vec<Link>,
    /// The switch of each host, in increasing order.
    hosts: Vec<u32>,
    /// Links by switch: (link, the switch at its other end).
    neighbours: Vec<Vec<(u32, u32)>>,
}

/// How a topology is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Switches in a row, with a host at each end.
    Line { switches: u32 },
    /// Al-Fares et al., SIGCOMM 2008: k pods of k/2 edge and k/2 aggregation switches, (k/2)²
    /// cores, k³/4 hosts.
    FatTree { k: u32 },
    /// The testbed of ChameleMon's §5.2, 10 switches and 8 hosts: two pods of the fat tree of k =
    /// 4, and two cores that every aggregation switch is joined to.
    Testbed,
    /// Every leaf joined to every spine.
    SpineLeaf { spines: u32, leaves: u32, hosts: u32 },
    /// A GML or GraphML file, with a host at each node.
    File(PathBuf),
}

/// Why there is no such topology.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    #[error(
        "topology {0:?}: line:N, fat-tree:K, testbed, spine-leaf:SPINES,LEAVES,HOSTS, or a file that ends in .gml or .graphml"
    )]
    Unknown(String),
    #[error("topology {shape}: {key} = {value} is out of range, it may be {right}")]
    Range { shape: &'static str, key: &'static str, value: String, right: &'static str },
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: longer than {MAX_FILE} bytes", path.display())]
    FileTooLong { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Graph { path: PathBuf, source: GraphError },
    #[error("a topology has at most {max} {what}, not {found}")]
    TooLarge { what: &'static str, found: usize, max: usize },
    #[error("switch {name}: {ports} links and hosts are more than the {MAX_PORTS} ports that a switch has")]
    TooManyPorts { name: String, ports: usize },
    #[error("switch {from} has no path to switch {to}: a topology is connected")]
    Disconnected { from: String, to: String },
    #[error("a path of {switches} switches is longer than the {MAX_PATH} that a packet's hop limit allows")]
    TooLong { switches: u32 },
    #[error("{0} hosts: traffic needs two at least")]
    TooFewHosts(usize),
}

/// Most bytes of a graph's file.
pub const MAX_FILE: u64 = 64 << 20;

impl FromStr for Shape {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        if text == "testbed" {
            return Ok(Self::Testbed);
        }
        if has_extension(text, "gml") || has_extension(text, "graphml") {
            return Ok(Self::File(text.into()));
        }
        let unknown = || TopologyError::Unknown(text.chars().take(80).collect());
        let (name, numbers) = text.split_once(':').ok_or_else(unknown)?;
        let numbers: Vec<&str> = numbers.split(',').collect();
        match (name, &numbers[..]) {
            ("line", [n]) => Ok(Self::Line { switches: within("line", "N", n, 1..=63, "1 to 63")? }),
            ("fat-tree", [k]) => {
                let right = "an even number from 2 to 56";
                let k = within("fat-tree", "K", k, 2..=56, right)?;
                let odd = || TopologyError::Range { shape: "fat-tree", key: "K", value: k.to_string(), right };
                if k.is_multiple_of(2) { Ok(Self::FatTree { k }) } else { Err(odd()) }
            }
            ("spine-leaf", [spines, leaves, hosts]) => {
                let count = |key, text| within("spine-leaf", key, text, 1..=250, "1 to 250");
                Ok(Self::SpineLeaf {
                    spines: count("SPINES", spines)?,
                    leaves: count("LEAVES", leaves)?,
                    hosts: count("HOSTS", hosts)?,
                })
            }
            _ => Err(unknown()),
        }
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn within(
    shape: &'static str,
    key: &'static str,
    text: &str,
    range: std::ops::RangeInclusive<u32>,
    right: &'static str,
) -> Result<u32, TopologyError> {
    let wrong = || TopologyError::Range { shape, key, value: text.chars().take(20).collect(), right };
    text.trim().parse().ok().filter(|n| range.contains(n)).ok_or_else(wrong)
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { switches } => write!(f, "line:{switches}"),
            Self::FatTree { k } => write!(f, "fat-tree:{k}"),
            Self::Testbed => f.write_str("testbed"),
            Self::SpineLeaf { spines, leaves, hosts } => write!(f, "spine-leaf:{spines},{leaves},{hosts}"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl Shape {
    /// # Errors
    /// If the file cannot be read, or what it holds is no network that can be simulated.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        match self {
            Self::Line { switches } => line(*switches),
            Self::FatTree { k } => tree(*k, k / 2, |i| i * (k / 2)..(i + 1) * (k / 2)),
            Self::Testbed => tree(2, 2, |_| 0..2),
            Self::SpineLeaf { spines, leaves, hosts } => spine_leaf(*spines, *leaves, *hosts),
            Self::File(path) => from_file(path),
        }
    }
}

fn line(switches: u32) -> Result<Topology, TopologyError> {
    let names = (0..switches).map(|i| format!("s{i}")).collect();
    let links = (1..switches).map(|i| [i - 1, i]).collect();
    Topology::new(names, links, vec![0, switches - 1])
}

/// Pods of `half` edge and `half` aggregation switches, with `half` hosts at each edge switch.
/// `cores` are those that aggregation switch number i of every pod is joined to.
fn tree(pods: u32, half: u32, cores: impl Fn(u32) -> std::ops::Range<u32>) -> Result<Topology, TopologyError> {
    let (edges, in_pods) = (pods * half, 2 * pods * half);
    let edge = |pod: u32, i: u32| pod * half + i;
    let aggregation = |pod: u32, i: u32| edges + pod * half + i;
    let mut names = Vec::new();
    for layer in ["edge", "agg"] {
        names.extend((0..pods).flat_map(|pod| (0..half).map(move |i| format!("{layer}{pod}-{i}"))));
    }
    names.extend((0..cores(half - 1).end).map(|i| format!("core{i}")));
    let mut links = Vec::new();
    for pod in 0..pods {
        for i in 0..half {
            links.extend((0..half).map(|j| [edge(pod, i), aggregation(pod, j)]));
        }
        for i in 0..half {
            links.extend(cores(i).map(|core| [aggregation(pod, i), in_pods + core]));
        }
    }
    let hosts = (0..edges).flat_map(|edge| std::iter::repeat_n(edge, half as usize)).collect();
    Topology::new(names, links, hosts)
}

fn spine_leaf(spines: u32, leaves: u32, hosts: u32) -> Result<Topology, TopologyError> {
    let names = (0..leaves).map(|i| format!("leaf{i}")).chain((0..spines).map(|i| format!("spine{i}"))).collect();
    let links = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| [leaf, leaves + spine]));
    let hosts = (0..leaves).flat_map(|leaf| std::iter::repeat_n(leaf, hosts as usize));
    Topology::new(names, links.collect(), hosts.collect())
}

fn from_file(path: &Path) -> Result<Topology, TopologyError> {
    use std::io::Read;
    let failed = |source| TopologyError::Read { path: path.into(), source };
    let mut bytes = Vec::new();
    // One byte more than may be, to tell a file that is too long.
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(TopologyError::FileTooLong { path: path.into() });
    }
    let text = String::from_utf8(bytes).map_err(|error| failed(std::io::Error::other(error)))?;
    let graphml = has_extension(&path.to_string_lossy(), "graphml");
    let graph = if graphml { graph::graphml(&text) } else { graph::gml(&text) };
    Topology::of_graph(graph.map_err(|source| TopologyError::Graph { path: path.into(), source })?)
}

impl Topology {
    /// Switches with a host each, joined as the graph's nodes are. An edge from a node to itself
    /// joins nothing and is left out.
    pub fn of_graph(graph: Graph) -> Result<Self, TopologyError> {
        let hosts = (0..graph.nodes.len() as u32).collect();
        let links = graph.edges.into_iter().filter(|[a, b]| a != b).collect();
        Self::new(graph.nodes, links, hosts)
    }

    fn new(switches: Vec<String>, links: Vec<Link>, hosts: Vec<u32>) -> Result<Self, TopologyError> {
        let sizes = [
            ("switches", switches.len(), MAX_SWITCHES),
            ("links", links.len(), MAX_LINKS),
            ("hosts", hosts.len(), MAX_HOSTS),
        ];
        if let Some(&(what, found, max)) = sizes.iter().find(|(_, found, max)| found > max) {
            return Err(TopologyError::TooLarge { what, found, max });
        }
        if hosts.len() < 2 {
            return Err(TopologyError::TooFewHosts(hosts.len()));
        }
        let mut neighbours = vec![Vec::new(); switches.len()];
        for (number, [a, b]) in (0..).zip(&links) {
            neighbours[*a as usize].push((number, *b));
            neighbours[*b as usize].push((number, *a));
        }
        let topology = Self { switches, links, hosts, neighbours };
        topology.check()?;
        Ok(topology)
    }

    fn check(&self) -> Result<(), TopologyError> {
        for (switch, name) in (0..).zip(&self.switches) {
            let ports = self.neighbours[switch as usize].len() + self.hosts_of(switch).len();
            if ports > MAX_PORTS {
                return Err(TopologyError::TooManyPorts { name: name.clone(), ports });
            }
        }
        let distances = self.distances(0);
        if let Some(lost) = distances.iter().position(|distance| *distance == u32::MAX) {
            let name = |switch: usize| self.switches[switch].clone();
            return Err(TopologyError::Disconnected { from: name(0), to: name(lost) });
        }
        let switches = self.diameter() + 1;
        if switches > MAX_PATH { Err(TopologyError::TooLong { switches }) } else { Ok(()) }
    }

    pub fn switches(&self) -> &[String] {
        &self.switches
    }

    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The switch of each host.
    pub fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    /// The numbers of a switch's hosts.
    pub fn hosts_of(&self, switch: u32) -> std::ops::Range<usize> {
        let from = self.hosts.partition_point(|&at| at < switch);
        from..self.hosts.partition_point(|&at| at <= switch)
    }

    /// The switches that have hosts, in increasing order.
    pub fn edges(&self) -> Vec<u32> {
        let mut edges = self.hosts.clone();
        edges.dedup();
        edges
    }

    /// A switch's links, and the switches at their other ends.
    pub fn neighbours(&self, switch: u32) -> &[(u32, u32)] {
        &self.neighbours[switch as usize]
    }

    /// Links on the shortest path from each switch to `to`; `u32::MAX` where there is none.
    pub fn distances(&self, to: u32) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.switches.len()];
        distances[to as usize] = 0;
        let mut queue = VecDeque::from([to]);
        while let Some(switch) = queue.pop_front() {
            let next = distances[switch as usize] + 1;
            for &(_, neighbour) in self.neighbours(switch) {
                if distances[neighbour as usize] == u32::MAX {
                    distances[neighbour as usize] = next;
                    queue.push_back(neighbour);
                }
            }
        }
        distances
    }

    /// Links on the longest of the shortest paths between switches with hosts.
    pub fn diameter(&self) -> u32 {
        let edges = self.edges();
        let longest = |&to: &u32| {
            let distances = self.distances(to);
            edges.iter().map(|&from| distances[from as usize]).max().unwrap_or(0)
        };
        edges.iter().map(longest).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(text: &str) -> Topology {
        text.parse::<Shape>().unwrap().build().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn counts(text: &str) -> [usize; 5] {
        let t = built(text);
        [t.switches().len(), t.links().len(), t.hosts().len(), t.edges().len(), t.diameter() as usize]
    }

    #[test]
    fn shapes_have_their_sizes() {
        assert_eq!(counts("line:1"), [1, 0, 2, 1, 0]);
        assert_eq!(counts("line:5"), [5, 4, 2, 2, 4]);
        // The paper: 10 switches, 4 of them edge, 8 hosts.
        assert_eq!(counts("testbed"), [10, 16, 8, 4, 4]);
        assert_eq!(counts("fat-tree:2"), [5, 4, 2, 2, 4]);
        assert_eq!(counts("fat-tree:4"), [20, 32, 16, 8, 4]);
        assert_eq!(counts("fat-tree:6"), [45, 108, 54, 18, 4]);
        assert_eq!(counts("spine-leaf:2,3,4"), [5, 6, 12, 3, 2]);
    }

    #[test]
    fn every_switch_of_a_fat_tree_has_k_ports() {
        for k in [2, 4, 8] {
            let t = built(&format!("fat-tree:{k}"));
            for switch in 0..t.switches().len() as u32 {
                let ports = t.neighbours(switch).len() + t.hosts_of(switch).len();
                let core = t.switches()[switch as usize].starts_with("core");
                assert_eq!(ports, k, "{} of {k}, core {core}", t.switches()[switch as usize]);
            }
        }
    }

    #[test]
    fn errors_say_what_would_be_right() {
        let wrong =
            ["ring:3", "line", "line:0", "line:64", "fat-tree:3", "fat-tree:x", "spine-leaf:1,2", "spine-leaf:1,2,0"];
        let errors = wrong.map(|text| text.parse::<Shape>().unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"), @r#"
        topology "ring:3": line:N, fat-tree:K, testbed, spine-leaf:SPINES,LEAVES,HOSTS, or a file that ends in .gml or .graphml
        topology "line": line:N, fat-tree:K, testbed, spine-leaf:SPINES,LEAVES,HOSTS, or a file that ends in .gml or .graphml
        topology line: N = 0 is out of range, it may be 1 to 63
        topology line: N = 64 is out of range, it may be 1 to 63
        topology fat-tree: K = 3 is out of range, it may be an even number from 2 to 56
        topology fat-tree: K = x is out of range, it may be an even number from 2 to 56
        topology "spine-leaf:1,2": line:N, fat-tree:K, testbed, spine-leaf:SPINES,LEAVES,HOSTS, or a file that ends in .gml or .graphml
        topology spine-leaf: HOSTS = 0 is out of range, it may be 1 to 250
        "#);
        let split = Graph { nodes: vec!["a".into(), "b".into(), "c".into()], edges: vec![[0, 1]] };
        assert_eq!(
            Topology::of_graph(split).unwrap_err().to_string(),
            "switch a has no path to switch c: a topology is connected"
        );
        let alone = Graph { nodes: vec!["a".into()], edges: Vec::new() };
        assert_eq!(Topology::of_graph(alone).unwrap_err().to_string(), "1 hosts: traffic needs two at least");
        let star = Graph { nodes: vec![String::new(); 300], edges: (1..300).map(|i| [0, i]).collect() };
        assert!(matches!(Topology::of_graph(star), Err(TopologyError::TooManyPorts { ports: 300, .. })));
        let path = Graph { nodes: vec![String::new(); 64], edges: (1..64).map(|i| [i - 1, i]).collect() };
        assert!(matches!(Topology::of_graph(path), Err(TopologyError::TooLong { switches: 64 })));
    }
    #[test]
    fn sizes_have_their_limits() {
        let refused = |switches: usize, links: usize, hosts: usize| {
            let names = vec![String::new(); switches];
            Topology::new(names, vec![[0, 1]; links], vec![0; hosts]).unwrap_err().to_string()
        };
        insta::assert_snapshot!([
            refused(MAX_SWITCHES + 1, 1, 2),
            refused(2, MAX_LINKS + 1, 2),
            refused(2, 1, MAX_HOSTS + 1),
        ].join("\n"), @r"
        a topology has at most 4096 switches, not 4097
        a topology has at most 131072 links, not 131073
        a topology has at most 65536 hosts, not 65537
        ");
    }

    #[test]
    fn a_file_has_its_limits() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("long.gml");
        std::fs::write(&path, "graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 ] ]\n").unwrap();
        let read = |bytes: u64| {
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes).unwrap();
            Shape::File(path.clone()).build()
        };
        assert_eq!(read(MAX_FILE).unwrap().links().len(), 1);
        assert!(matches!(read(MAX_FILE + 1), Err(TopologyError::FileTooLong { .. })));
        // One that is cut within a character is too long, and not of a wrong encoding.
        std::fs::write(&path, "ä".repeat(MAX_FILE as usize / 2 + 1)).unwrap();
        assert!(matches!(Shape::File(path.clone()).build(), Err(TopologyError::FileTooLong { .. })));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(Shape::File(path).build(), Err(TopologyError::Read { .. })));
    }
}
