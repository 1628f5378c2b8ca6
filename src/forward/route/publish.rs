//! The plan as the tables that workers read.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::entries::Entries;
use super::{Action, Config, Entry, Gateways, Hop, Net, Own, Plan, Routes, Target, key};
use crate::pisa::hash::HighRange;
use crate::pisa::table::Lpm;

impl Routes {
    pub(super) fn empty(config: Config, ports: usize) -> Self {
        let [(_, v4), (_, v6), _] = config.shapes();
        Self { v4: Lpm::new(v4), v6: Lpm::new(v6), ports: vec![Own::default(); ports].into() }
    }

    pub(super) fn of(plan: &Plan, entries: &Entries, config: Config, ports: usize) -> Self {
        let mut routes = Self::empty(config, ports);
        for &(port, net) in plan.addresses() {
            if let Some(own) = routes.ports.get_mut(usize::from(port)) {
                if net.is_v4() { own.v4.push(net) } else { own.v6.push(net) }
            }
            routes.insert(net, Action::OnLink(port, entries.of(net.network())));
        }
        for (&prefix, target) in plan.routes() {
            routes.insert(prefix, action(plan, target, entries.of(prefix)));
        }
        // Own addresses come last, so that they overrule routes.
        for &(_, net) in plan.addresses() {
            for broadcast in net.broadcasts().into_iter().flatten() {
                routes.host(broadcast.into(), Action::Broadcast);
            }
            routes.host(net.address(), Action::Local);
        }
        routes
    }

    fn insert(&mut self, prefix: Net, action: Action) {
        // The plan's size has been checked.
        let _ = match prefix.address() {
            IpAddr::V4(a) => self.v4.insert(a.into(), prefix.prefix_len().into(), action).map(drop),
            IpAddr::V6(a) => self.v6.insert(a.into(), prefix.prefix_len().into(), action).map(drop),
        };
    }

    fn host(&mut self, address: IpAddr, action: Action) {
        if let Some(host) = Net::new(address, if address.is_ipv4() { 32 } else { 128 }) {
            self.insert(host, action);
        }
    }
}

/// Gateways whose number is no power of two get equal shares of the flows to one in 64.
const SPARE: u32 = 6;

fn action(plan: &Plan, target: &Target, entry: Entry) -> Action {
    let hop = |gateway: &IpAddr| plan.port_of(*gateway).map(|port| Hop { address: key(*gateway), port });
    match target {
        Target::Drop => Action::Drop(entry),
        Target::OnLink(port) => Action::OnLink(*port, entry),
        Target::Via(gateways) => {
            let hops: Arc<[Hop]> = gateways.iter().filter_map(hop).collect();
            match NonZeroU32::new(hops.len() as u32) {
                Some(len) => Action::Via(Gateways { hops, range: HighRange::new(len, SPARE) }, entry),
                None => Action::Drop(entry),
            }
        }
    }
}
