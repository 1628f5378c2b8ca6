//! The half that decides what is known.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::dataplane::Tables;
use super::entries::Entries;
use super::{
    Config, DEAD_SECONDS, Digest, FORGET_SECONDS, Neighbour, Neighbours, Net, Plan, Route, RoutedPort, Routes, Signs,
    Target, UNUSED_SECONDS, address, key, seconds, touch,
};
use crate::forward::text::Wrong;
use crate::pisa::PortId;
use crate::pisa::hash::{IndexHashes, Polynomial};
use crate::pisa::table::{Exact, Shape, Shared, TableUse};
use crate::wire::{Flow, Headers, Mac};

/// The tables of a router, and their writer.
#[derive(Debug)]
pub struct Control {
    config: Config,
    plan: Plan,
    ports: Arc<[RoutedPort]>,
    routes: Shared<Routes>,
    entries: Entries,
    neighbours: Shared<Neighbours>,
    signs: Arc<[Signs]>,
    /// Indices into `signs` that no neighbour has.
    free: Vec<u32>,
    ecmp: IndexHashes,
    sender: Sender<Digest>,
    digests: Receiver<Digest>,
    refused: u64,
    /// The second in which it was served last.
    aged: u32,
}

/// One route, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteEntry {
    pub prefix: Net,
    pub target: Target,
    /// It is the network of an own address.
    pub connected: bool,
    pub packets: u64,
    pub bytes: u64,
}

/// One neighbour, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeighbourEntry {
    pub address: IpAddr,
    pub port: PortId,
    pub mac: Mac,
    /// Seconds since it was last heard; `None` for a static one.
    pub idle_seconds: Option<u32>,
}

impl Config {
    /// The tables' declared shapes: routes in TCAM, neighbours by hash.
    pub fn shapes(&self) -> [(&'static str, Shape); 3] {
        let routes = |key_bits| Shape { capacity: self.routes, key_bits, action_bits: 32 };
        let neighbours = Shape { capacity: self.neighbours, key_bits: 128, action_bits: 48 + PortId::BITS };
        [("routes4", routes(32)), ("routes6", routes(128)), ("neighbours", neighbours)]
    }
}

impl Control {
    /// The polynomials place the neighbours in their table, and choose among gateways: who knew them
    /// could choose addresses that meet. `plan` must fit `config` ([`Control::change`] checks it).
    pub fn new(
        config: Config,
        plan: Plan,
        ports: Vec<RoutedPort>,
        [neighbours, gateways, shared]: [Polynomial; 3],
    ) -> Self {
        let (sender, digests) = bounded(config.queue);
        let table = Exact::new(config.shapes()[2].1, neighbours);
        let mut control = Self {
            config,
            plan: Plan::default(),
            routes: Shared::new(Routes::empty(config, ports.len())),
            ports: ports.into(),
            entries: Entries::new(config.routes),
            neighbours: Shared::new(Neighbours { table }),
            signs: (0..config.neighbours).map(|_| Signs::default()).collect(),
            free: (0..config.neighbours as u32).rev().collect(),
            ecmp: IndexHashes::new(shared, &[gateways]),
            sender,
            digests,
            refused: 0,
            aged: 0,
        };
        control.commit(plan);
        control
    }

    /// A dataplane that reads these tables and reports to them, for one worker.
    pub fn dataplane(&mut self) -> Route {
        let hits = self.entries.worker(self.config.routes);
        Route::new(
            self.ports.clone(),
            (self.routes.reader(), self.neighbours.reader()),
            (self.signs.clone(), hits),
            self.ecmp.clone(),
            self.sender.clone(),
        )
    }

    /// Goes on with other ports, `ports` being all of them by number: what belongs to those that
    /// are `removed` goes. Workers that have a dataplane of before go on with the ports that it
    /// knew.
    pub fn renew(&mut self, ports: Vec<RoutedPort>, removed: &[PortId]) {
        self.entries.retire();
        self.ports = ports.into();
        let mut plan = self.plan.clone();
        plan.forget_ports(removed);
        self.commit(plan);
    }

    pub fn config(&self) -> Config {
        self.config
    }

    /// The port by which packets of a five-tuple leave now; `None` if they are not forwarded.
    pub fn port_of(&self, flow: &Flow) -> Option<PortId> {
        let tables = Tables {
            routes: &self.routes.current(),
            neighbours: &self.neighbours.current(),
            ports: &self.ports,
            hits: &[],
            ecmp: &self.ecmp,
        };
        tables.port_of(&Headers::of_flow(flow)?)
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Changes addresses, routes and static neighbours: all that `change` does, or, when it
    /// refuses, nothing. Workers see the routes change at once.
    pub fn change(&mut self, change: impl FnOnce(&mut Plan) -> Result<(), Wrong>) -> Result<(), Wrong> {
        let mut plan = self.plan.clone();
        change(&mut plan)?;
        check_size(&plan, self.config)?;
        self.commit(plan);
        Ok(())
    }

    /// Applies the digests that wait, at most one queue full, and about once a second forgets the
    /// silent.
    pub fn serve(&mut self, now: u64) {
        let waiting: Vec<Digest> = self.digests.try_iter().take(self.digests.len()).collect();
        if !waiting.is_empty() {
            self.learn(&waiting, seconds(now));
        }
        if seconds(now) != self.aged {
            self.aged = seconds(now);
            self.age(seconds(now));
        }
    }

    /// Neighbours that were refused because the table was full of ones in use.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The MAC of the router on a port.
    pub fn mac(&self, port: PortId) -> Option<Mac> {
        self.ports.get(usize::from(port)).map(RoutedPort::mac)
    }

    /// All routes, by prefix.
    pub fn routes(&self) -> Vec<RouteEntry> {
        let connected = self.plan.addresses().iter().map(|(port, net)| (net.network(), Target::OnLink(*port), true));
        let added = self.plan.routes().iter().map(|(prefix, target)| (*prefix, target.clone(), false));
        let entry = |(prefix, target, connected)| {
            let [packets, bytes] = self.entries.counts(prefix);
            RouteEntry { prefix, target, connected, packets, bytes }
        };
        let mut routes: Vec<_> = connected.chain(added).map(entry).collect();
        routes.sort_unstable_by_key(|route| route.prefix);
        routes
    }

    /// All neighbours, by address.
    pub fn neighbours(&self) -> Vec<NeighbourEntry> {
        let current = self.neighbours.current();
        let entry = |(key, neighbour): (u128, &Neighbour)| {
            let idle = self.aged.saturating_sub(self.signs[neighbour.index as usize].heard.load(Relaxed));
            NeighbourEntry {
                address: address(key),
                port: neighbour.port,
                mac: neighbour.mac,
                idle_seconds: (!neighbour.fixed).then_some(idle),
            }
        };
        let mut entries: Vec<_> = current.table.iter().map(entry).collect();
        entries.sort_unstable();
        entries
    }

    /// Memory of the tables.
    pub fn usage(&self) -> [(&'static str, TableUse); 3] {
        let routes = self.routes.current();
        let neighbours = self.neighbours.current().table.usage();
        [("routes4", routes.v4.usage()), ("routes6", routes.v6.usage()), ("neighbours", neighbours)]
    }

    fn commit(&mut self, plan: Plan) {
        self.entries.follow(&plan);
        self.routes.publish(Routes::of(&plan, &self.entries, self.config, self.ports.len()));
        self.plan = plan;
        let mut next = Neighbours::clone(&self.neighbours.current());
        let before: Vec<_> = next.table.iter().map(|(key, neighbour)| (key, *neighbour)).collect();
        // An address whose network or port has gone is no neighbour; a static one stays or goes
        // with the plan.
        for (key, neighbour) in before {
            let on_link = self.routes.current().is_on_link(address(key), neighbour.port);
            if neighbour.fixed || !on_link {
                next.table.remove(key);
                self.free.push(neighbour.index);
            }
        }
        for (&address, &(port, mac)) in self.plan.neighbours() {
            let index = match next.table.remove(key(address)) {
                Some(learned) => Some(learned.index),
                None => self.free.pop().or_else(|| make_room(&mut next)),
            };
            let Some(index) = index else { continue };
            // There is room: an index was free.
            let _ = next.table.insert(key(address), Neighbour { mac, port, index, fixed: true });
        }
        self.neighbours.publish(next);
    }

    /// Applies digests in order to one copy of the table.
    fn learn(&mut self, digests: &[Digest], now: u32) {
        let mut next = Neighbours::clone(&self.neighbours.current());
        let mut unused: Option<Vec<u128>> = None;
        let mut changed = false;
        for digest in digests {
            let key = key(digest.address);
            let known = next.table.get(key).copied();
            if known.is_some_and(|known| known.fixed) || !self.routes.current().is_on_link(digest.address, digest.port)
            {
                continue;
            }
            let index = match known {
                Some(known) => Some(known.index),
                None => self.free.pop().or_else(|| {
                    let victims = unused.get_or_insert_with(|| self.unused(&next, now));
                    victims.pop().and_then(|key| next.table.remove(key)).map(|gone| gone.index)
                }),
            };
            let Some(index) = index else {
                self.refused += 1;
                continue;
            };
            let signs = &self.signs[index as usize];
            touch(&signs.heard, now);
            if known.is_none() {
                // A neighbour that is learned is about to be used.
                touch(&signs.used, now);
                touch(&signs.probed, 0);
            }
            let neighbour = Neighbour { mac: digest.mac, port: digest.port, index, fixed: false };
            changed |= next.table.insert(key, neighbour).is_ok_and(|old| old != Some(neighbour));
        }
        if changed {
            self.neighbours.publish(next);
        }
    }

    /// Neighbours that have not been used lately, the longest silent last.
    fn unused(&self, table: &Neighbours, now: u32) -> Vec<u128> {
        let idle = |neighbour: &Neighbour| {
            let signs = &self.signs[neighbour.index as usize];
            let unused = now.saturating_sub(signs.used.load(Relaxed));
            (!neighbour.fixed && unused >= UNUSED_SECONDS).then(|| now.saturating_sub(signs.heard.load(Relaxed)))
        };
        let mut unused: Vec<_> = table.table.iter().filter_map(|(key, n)| Some((idle(n)?, key))).collect();
        unused.sort_unstable();
        unused.into_iter().map(|(_, key)| key).collect()
    }

    fn age(&mut self, now: u32) {
        let signs = self.signs.clone();
        let gone = |neighbour: &Neighbour| {
            let signs = &signs[neighbour.index as usize];
            let (heard, probed) = (signs.heard.load(Relaxed), signs.probed.load(Relaxed));
            let dead = probed > heard && now.saturating_sub(probed) >= DEAD_SECONDS;
            !neighbour.fixed && (dead || now.saturating_sub(heard) >= FORGET_SECONDS)
        };
        self.forget(gone);
    }

    /// Forgets what was learned behind a port, for example when its link goes down.
    pub fn flush_port(&mut self, port: PortId) {
        self.forget(|neighbour| !neighbour.fixed && neighbour.port == port);
    }

    fn forget(&mut self, which: impl Fn(&Neighbour) -> bool) {
        let current = self.neighbours.current();
        let gone: Vec<_> = current.table.iter().filter(|(_, n)| which(n)).map(|(key, n)| (key, n.index)).collect();
        if gone.is_empty() {
            return;
        }
        let mut next = Neighbours::clone(&current);
        for (key, index) in gone {
            next.table.remove(key);
            self.free.push(index);
        }
        self.neighbours.publish(next);
    }
}

/// Takes some learned neighbour out for a static one.
fn make_room(next: &mut Neighbours) -> Option<u32> {
    let learned = next.table.iter().find(|(_, neighbour)| !neighbour.fixed).map(|(key, _)| key)?;
    next.table.remove(learned).map(|gone| gone.index)
}

/// Whether the tables can hold it.
pub fn check_size(plan: &Plan, config: Config) -> Result<(), Wrong> {
    let over = |key, value: usize, max: usize, what: &str| {
        let right = format!("at most {max} {what}");
        if value > max { Err(Wrong { key, value: value.to_string(), right }) } else { Ok(()) }
    };
    over("prefix", plan.len(), config.routes, "routes, four for each own address included")?;
    over("address", plan.neighbours().len(), config.neighbours, "static neighbours")
}
