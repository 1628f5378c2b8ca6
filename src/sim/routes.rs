//! Paths that are recomputed: what the tables of the network's routers and their hashes say now.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use super::build::switch_name;
use super::topology::MAX_PATH;
use crate::answers::{Certainty, Route, Routes};
use crate::pisa::PortId;
use crate::tables::Routing;
use crate::wire::Flow;

/// The routers of a network, by their number.
pub struct RecomputedRoutes {
    routers: Vec<Router>,
    /// The switch that each host is at, by its address.
    hosts: HashMap<Ipv4Addr, u32>,
}

pub struct Router {
    pub routing: Routing,
    /// The switch behind each port; `None` behind those of hosts.
    pub next: Vec<Option<u32>>,
}

impl RecomputedRoutes {
    pub fn new(routers: Vec<Router>, hosts: HashMap<Ipv4Addr, u32>) -> Self {
        Self { routers, hosts }
    }

    /// The switches that packets of the flow cross now, each with the port that they leave it by; `None` if
    /// they do not reach a host.
    pub fn hops(&self, flow: &Flow) -> Option<Vec<(u32, PortId)>> {
        let Some(IpAddr::V4(src)) = flow.src else { return None };
        let (mut at, mut path) = (*self.hosts.get(&src)?, Vec::new());
        while path.len() < MAX_PATH as usize {
            let router = self.routers.get(at as usize)?;
            let port = router.routing.port_of(flow)?;
            path.push((at, port));
            match router.next.get(usize::from(port))? {
                Some(next) => at = *next,
                None => return Some(path),
            }
        }
        None
    }
}

impl Routes for RecomputedRoutes {
    fn of(&self, flow: &Flow) -> Vec<Route> {
        let name = |switch: u32| Some(switch_name(switch).into());
        let route = |hops: Vec<(u32, PortId)>| Route {
            switches: hops.into_iter().map(|(switch, _)| name(switch)).collect(),
            certainty: Certainty::Sure,
            packets: None,
        };
        self.hops(flow).map(route).into_iter().collect()
    }
}

impl fmt::Debug for RecomputedRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "routes of {} switches", self.routers.len())
    }
}
