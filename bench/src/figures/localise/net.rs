//! A simulated network at the level of flows: each flow of an epoch with its path and the packets that each
//! link and switch on it lost. Programs' answers are asked from what this makes of it: counters at ports, and
//! what the edges know.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::{Context, Result};
use weir::answers::{
    Answers, Certainty, Claimed, CountedPort, FlowName, KeptRows, LatePacket, Links, LostFlows, LostPackets, Places,
    PortRows, ProgramAnswer, Query, Queryable, Route, Routes, SentFlows, Surroundings, SwitchRows, Task,
};
use weir::history::{Entry, Epochs, History, Kept, Room, Window};
use weir::sim::{Fabric, Network, RecomputedRoutes, Setup, Shape, Topology, Traffic};
use weir::trace::SplitMix64;
use weir::wire::{Flow, FlowKey};

/// Memory of a switch, in bytes, and the bytes of a counter with both of its banks, in and out.
pub const MEMORY: u64 = 65_536;
const COUNTER: u64 = 16;
/// Length of an epoch, in nanoseconds.
const LENGTH: u64 = 50_000_000;

/// A network and its traffic.
pub struct Net {
    pub name: String,
    pub setup: Setup,
    pub topology: Topology,
    links: Links,
    routes: RecomputedRoutes,
}

/// Where packets are lost: a switch, or the link behind a port of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    Switch(u32),
    /// The switch that packets leave, and the link's number.
    Link(u32, u32),
}

/// A flow of an epoch.
#[derive(Clone, Debug)]
pub struct Sent {
    pub flow: Flow,
    pub packets: u64,
    /// The switches and links that it crosses, from the first switch to the last.
    pub path: Vec<At>,
    /// Packets that each of these lost.
    pub lost: Vec<(At, u64)>,
}

impl Sent {
    pub fn lost(&self) -> u64 {
        self.lost.iter().map(|(_, packets)| packets).sum()
    }
}

/// An epoch of a network.
pub struct Drawn<'a> {
    pub net: &'a Net,
    pub flows: Vec<Sent>,
}

/// How paths of flows are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Share of flows that are believed on another path between the same switches.
    pub wrong: f64,
    /// Packets of a flow from which on its path is known: where it lost them, from an earlier epoch.
    pub from: u64,
    /// Flows of fewer packets have no name unless they lose some.
    pub named_from: u64,
}

impl Net {
    pub fn new(name: String, shape: &Shape, flows: u32, transit: u64) -> Result<Self> {
        let workload = format!("isp/uniform,flows={flows},packets={},seed=1", 10 * flows).parse()?;
        let topology = shape.build()?;
        let setup = Setup {
            transit,
            latency: 100_000,
            fabric: Fabric::default(),
            ..Setup::new(topology.clone(), Vec::new(), workload)
        };
        let network = Network::new(&setup)?;
        Ok(Self { name, links: network.links(), routes: network.routes(), setup, topology })
    }

    /// The flows of an epoch, without losses. Those that cross no link are left out.
    pub fn draw(&self, seed: u64) -> Result<Drawn<'_>> {
        let mut generation = Traffic::new(&self.setup)?.draw(seed, &self.setup.workload, None);
        let mut flows = Vec::new();
        for number in 0..generation.flows.len() as u32 {
            let packets = u64::from(generation.deliver_rest(number).context("nothing is lost on purpose")?);
            let flow = generation.flows[number as usize].tuple.flow();
            let hops = self.routes.hops(&flow).context("all hosts are reached")?;
            let path: Vec<At> = hops.iter().flat_map(|hop| self.crossed(*hop)).collect();
            if path.len() > 1 && packets > 0 {
                flows.push(Sent { flow, packets, path, lost: Vec::new() });
            }
        }
        Ok(Drawn { net: self, flows })
    }

    fn crossed(&self, (switch, port): (u32, u16)) -> impl Iterator<Item = At> {
        let link = self.topology.neighbours(switch).get(usize::from(port));
        [Some(At::Switch(switch)), link.map(|(link, _)| At::Link(switch, *link))].into_iter().flatten()
    }

    /// All links, in both directions, and switches.
    pub fn places(&self) -> impl Iterator<Item = At> {
        let links = (0..).zip(self.topology.links()).flat_map(|(link, ends)| ends.map(|end| At::Link(end, link)));
        (0..self.topology.switches().len() as u32).map(At::Switch).chain(links)
    }

    /// The name of a place as answers have it.
    pub fn named(at: At) -> (String, Option<String>) {
        match at {
            At::Switch(switch) => (format!("s{switch}"), None),
            At::Link(switch, link) => (format!("s{switch}"), Some(format!("l{link}"))),
        }
    }
}

impl<'a> Drawn<'a> {
    /// Loses packets at these rates.
    pub fn lose(&mut self, rates: &BTreeMap<At, f64>, seed: u64) {
        let mut random = SplitMix64::new(seed ^ 0x1055e5);
        for sent in &mut self.flows {
            let mut left = sent.packets;
            sent.lost.clear();
            for at in &sent.path {
                let lost = binomial(left, rates.get(at).copied().unwrap_or_default(), &mut random);
                if lost > 0 {
                    sent.lost.push((*at, lost));
                    left -= lost;
                }
            }
        }
    }

    /// Packets that each place lost.
    pub fn truth(&self) -> BTreeMap<At, u64> {
        let mut truth = BTreeMap::new();
        for (at, packets) in self.flows.iter().flat_map(|sent| &sent.lost) {
            *truth.entry(*at).or_default() += packets;
        }
        truth
    }

    /// The answer of switches that count at their ports, but for those of `silent`, and of the edges.
    pub fn counted(&self, silent: &[u32], known: Known, seed: u64) -> Result<Places> {
        ask(vec![self.rows(silent)], &[self], known, seed)
    }

    fn rows(&self, silent: &[u32]) -> Rows {
        let topology = &self.net.topology;
        let mut all: Vec<SwitchRows> =
            (0..topology.switches().len() as u32).map(|switch| empty(topology, switch)).collect();
        for sent in &self.flows {
            let hash = hash(&sent.flow).unwrap_or_default();
            let mut left = sent.packets as u32;
            // The host's port stands behind those of links.
            let first = |switch: u32| topology.neighbours(switch).len();
            let mut comes_by =
                sent.path.first().map_or(0, |at| if let At::Switch(switch) = at { first(*switch) } else { 0 });
            for (place, at) in sent.path.iter().enumerate() {
                let lost = sent.lost.iter().find(|(of, _)| of == at).map_or(0, |(_, packets)| *packets as u32);
                match at {
                    At::Switch(switch) => {
                        let rows = &mut all[*switch as usize].rows;
                        *counter(rows, false, comes_by, hash) += left;
                        left -= lost;
                        let leaves_by = match sent.path.get(place + 1) {
                            Some(At::Link(_, link)) => port_of(topology, *switch, *link),
                            _ => first(*switch),
                        };
                        *counter(rows, true, leaves_by, hash) += left;
                    }
                    At::Link(from, link) => {
                        left -= lost;
                        let [a, b] = topology.links()[*link as usize];
                        comes_by = port_of(topology, if a == *from { b } else { a }, *link);
                    }
                }
            }
        }
        Rows((0..).zip(all).filter(|(switch, _)| !silent.contains(switch)).map(|(_, rows)| rows).collect())
    }
}

/// The answer of the edges alone about some epochs.
pub fn inferred(epochs: &[&Drawn<'_>], known: Known, seed: u64) -> Result<Places> {
    ask(vec![(); epochs.len()], epochs, known, seed)
}

fn ask<K: Answers>(kept: Vec<K>, epochs: &[&Drawn<'_>], known: Known, seed: u64) -> Result<Places> {
    let history = History::new(Room { epochs: 1000, bytes: usize::MAX });
    weir::history::AnyHistory::set_length(&history, LENGTH);
    (1..).zip(kept).for_each(|(epoch, kept)| history.push(Entry::new(epoch, kept)));
    let believed = Arc::new(Believed::new(epochs, known, seed));
    let links = epochs.first().context("an epoch at least")?.net.links.clone();
    let (victims, routes) = (believed.clone() as Arc<dyn LostFlows>, believed as Arc<dyn Routes>);
    let surroundings = Surroundings { links, victims: Some(victims), routes: Some(routes) };
    let query = Query { surroundings: Some(Arc::new(surroundings)), ..Query::new(Task::Places, Window::All) };
    let history: &dyn Queryable = &history;
    let answer: Claimed<Places> = history.answer(&query)?;
    Ok((*answer).clone())
}

/// The number of `of` trials that come true at this rate: from one to the next at once.
fn binomial(of: u64, rate: f64, random: &mut SplitMix64) -> u64 {
    if rate <= 0.0 || rate >= 1.0 {
        return if rate >= 1.0 { of } else { 0 };
    }
    let (mut at, mut count) = (0.0, 0);
    loop {
        at += 1.0 + ((1.0 - random.unit()).ln() / (1.0 - rate).ln()).floor();
        if at > of as f64 {
            return count;
        }
        count += 1;
    }
}

/// A switch without packets.
fn empty(topology: &Topology, switch: u32) -> SwitchRows {
    let links = topology.neighbours(switch).iter();
    let hosts = topology.hosts_of(switch).map(|host| CountedPort { name: format!("h{host}"), fabric: false });
    let ports: Vec<_> =
        links.map(|(link, _)| CountedPort { name: format!("l{link}"), fabric: true }).chain(hosts).collect();
    let most = (MEMORY / COUNTER / ports.len() as u64).max(1);
    let groups = 1u32 << most.ilog2();
    let counters = vec![0u32; ports.len() * groups as usize].into_boxed_slice();
    let rows = PortRows {
        groups,
        received: counters.clone(),
        sent: counters,
        balance: vec![0; groups as usize].into(),
        drops: Vec::new(),
    };
    SwitchRows { switch: format!("s{switch}").into(), ports: ports.into(), rows, is_whole: true, is_full: false }
}

fn port_of(topology: &Topology, switch: u32, link: u32) -> usize {
    topology.neighbours(switch).iter().position(|(own, _)| *own == link).unwrap_or_default()
}

fn counter(rows: &mut PortRows, leaves: bool, port: usize, hash: u32) -> &mut u32 {
    let group = (u64::from(hash) >> (u32::BITS - rows.groups.ilog2())) as usize;
    let all = if leaves { &mut rows.sent } else { &mut rows.received };
    &mut all[port * rows.groups as usize + group]
}

/// A hash that is the same in all switches.
fn hash(flow: &Flow) -> Option<u32> {
    let address = |host: Option<std::net::IpAddr>| match host {
        Some(std::net::IpAddr::V4(address)) => u64::from(u32::from(address)),
        _ => 0,
    };
    let ports = u64::from(flow.sport?) << 16 | u64::from(flow.dport?);
    let ends = SplitMix64::new(address(flow.src) << 32 | address(flow.dst)).next_u64();
    Some((SplitMix64::new(ends ^ ports).next_u64() >> 32) as u32)
}

/// The rows of all switches that count.
struct Rows(Vec<SwitchRows>);

impl Kept for Rows {
    fn bytes(&self) -> usize {
        0
    }
}

impl KeptRows for Rows {
    fn rows(&self) -> Vec<SwitchRows> {
        self.0.clone()
    }

    fn ports(&self) -> Vec<(Arc<str>, Arc<[CountedPort]>)> {
        self.0.iter().map(|rows| (rows.switch.clone(), rows.ports.clone())).collect()
    }

    fn late(&self) -> Vec<(Arc<str>, LatePacket)> {
        Vec::new()
    }
}

impl Answers for Rows {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        Some(Places::over(epochs, query, &hash))
    }
}

/// The flows and paths that the edges believe in, of some epochs.
#[derive(Debug)]
struct Believed {
    epochs: Vec<(Vec<(FlowName, u64)>, SentFlows)>,
    paths: HashMap<Flow, Arc<[Arc<str>]>>,
}

impl Believed {
    fn new(epochs: &[&Drawn<'_>], known: Known, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0xbe11e7ed);
        let mut paths: HashMap<Flow, Arc<[Arc<str>]>> = HashMap::new();
        let mut names: HashMap<Vec<u32>, Arc<[Arc<str>]>> = HashMap::new();
        // Paths of flows between the same switches, of which a wrong one is chosen.
        let mut others: HashMap<(u32, u32), Vec<Vec<u32>>> = HashMap::new();
        let switches = |sent: &Sent| -> Vec<u32> {
            sent.path.iter().filter_map(|at| if let At::Switch(switch) = at { Some(*switch) } else { None }).collect()
        };
        for sent in epochs.iter().flat_map(|epoch| &epoch.flows) {
            let path = switches(sent);
            let own = others.entry((path[0], path[path.len() - 1])).or_default();
            if !own.contains(&path) {
                own.push(path);
            }
        }
        for sent in epochs.iter().flat_map(|epoch| &epoch.flows) {
            if sent.packets < known.from {
                continue;
            }
            let mut path = switches(sent);
            if random.unit() < known.wrong {
                let own: Vec<_> =
                    others[&(path[0], path[path.len() - 1])].iter().filter(|other| **other != path).collect();
                if !own.is_empty() {
                    path.clone_from(own[random.below(own.len() as u64) as usize]);
                }
            }
            let named = names
                .entry(path)
                .or_insert_with_key(|path| path.iter().map(|switch| Arc::from(format!("s{switch}"))).collect());
            paths.insert(sent.flow, named.clone());
        }
        let of_epoch = |epoch: &&Drawn<'_>| {
            let lost = epoch.flows.iter().filter(|sent| sent.lost() > 0);
            let lost = lost.map(|sent| (FlowName::Flow(sent.flow), sent.lost())).collect();
            let mut all = SentFlows::default();
            for sent in &epoch.flows {
                if sent.packets >= known.named_from || sent.lost() > 0 {
                    all.flows.push((FlowName::Flow(sent.flow), sent.packets));
                } else {
                    all.other_packets += sent.packets as f64;
                    all.other_flows += 1.0;
                }
            }
            (lost, all)
        };
        Self { epochs: epochs.iter().map(of_epoch).collect(), paths }
    }
}

impl LostFlows for Believed {
    fn lost_in(&self, epoch: u64) -> Option<LostPackets> {
        Some(LostPackets { flows: self.epochs.get(epoch as usize - 1)?.0.clone(), ..LostPackets::default() })
    }

    fn sent_in(&self, epoch: u64) -> Option<SentFlows> {
        Some(self.epochs.get(epoch as usize - 1)?.1.clone())
    }
}

impl Routes for Believed {
    fn of(&self, flow: &Flow) -> Vec<Route> {
        let route = |path: &Arc<[Arc<str>]>| Route {
            switches: path.iter().cloned().map(Some).collect(),
            certainty: Certainty::Sure,
            packets: None,
        };
        self.paths.get(flow).map(route).into_iter().collect()
    }
}
