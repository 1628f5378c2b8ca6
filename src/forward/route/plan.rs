//! The router's configuration: addresses, routes and static neighbours, each checked against the
//! others.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr};

use super::Net;
use crate::forward::text::{self, Wrong};
use crate::pisa::PortId;
use crate::wire::Mac;

/// Maximum next hops of one route.
pub const MAX_HOPS: usize = 16;
/// Maximum addresses of one port.
pub const MAX_ADDRESSES: usize = 16;

/// The target of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To gateways; flows are dealt out over several.
    Via(Vec<IpAddr>),
    /// To hosts that are all on this port's link.
    OnLink(PortId),
    /// Nowhere, without an answer.
    Drop,
}

/// A value that does not fit the others. The key is one of the entry: `address`, `prefix`, `via`,
/// `port` or `mac`.
fn wrong<T>(key: &'static str, value: impl Display, right: impl Into<String>) -> Result<T, Wrong> {
    Err(text::wrong(key, value, right))
}

/// A method that returns an error leaves the plan as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    addresses: Vec<(PortId, Net)>,
    routes: BTreeMap<Net, Target>,
    neighbours: BTreeMap<IpAddr, (PortId, Mac)>,
}

impl Plan {
    pub fn addresses(&self) -> &[(PortId, Net)] {
        &self.addresses
    }

    /// Not those of the ports' own networks.
    pub fn routes(&self) -> &BTreeMap<Net, Target> {
        &self.routes
    }

    pub fn neighbours(&self) -> &BTreeMap<IpAddr, (PortId, Mac)> {
        &self.neighbours
    }

    /// Entries that the routing table needs: the routes, and for each own address itself, its
    /// network and two broadcasts.
    pub(crate) fn len(&self) -> usize {
        self.routes.len() + 4 * self.addresses.len()
    }

    pub fn add_address(&mut self, port: PortId, net: Net) -> Result<(), Wrong> {
        if !is_unicast(net.address()) || is_link_local(net.address()) {
            return wrong("address", net, "a unicast address; weir makes IPv6 link-local ones itself");
        }
        if !net.is_host(net.address()) {
            return wrong("address", net, "an address of a host, not the network's own nor its broadcast address");
        }
        if let Some((_, other)) = self.addresses.iter().find(|(_, other)| other.overlaps(net)) {
            return wrong("address", net, format!("a network that does not overlap that of {other}"));
        }
        if self.routes.contains_key(&net.network()) {
            return wrong("address", net, "a network without a route of its own");
        }
        if self.of_port(port).count() == MAX_ADDRESSES {
            return wrong("address", net, format!("at most {MAX_ADDRESSES} addresses of a port"));
        }
        self.addresses.push((port, net));
        Ok(())
    }

    pub fn remove_address(&mut self, port: PortId, net: Net) -> Result<(), Wrong> {
        let Some(at) = self.addresses.iter().position(|entry| *entry == (port, net)) else {
            return wrong("address", net, "an address of this port");
        };
        let mut next = self.clone();
        next.addresses.remove(at);
        for (prefix, target) in &self.routes {
            if next.check_target(*prefix, target).is_err() {
                return wrong("address", net, format!("an address without which route {prefix} still has its way"));
            }
        }
        if let Some((neighbour, _)) = self.neighbours.iter().find(|(a, (p, _))| next.check_on_link(**a, *p).is_err()) {
            return wrong(
                "address",
                net,
                format!("an address on whose network there is no neighbour such as {neighbour}"),
            );
        }
        *self = next;
        Ok(())
    }

    /// Adds or replaces.
    pub fn set_route(&mut self, prefix: Net, target: Target) -> Result<(), Wrong> {
        if prefix != prefix.network() {
            return wrong("prefix", prefix, format!("{}, without host bits", prefix.network()));
        }
        if prefix.prefix_len() > 0 && (!is_routable(prefix.address()) || is_link_local(prefix.address())) {
            return wrong("prefix", prefix, "a unicast network that routers forward to");
        }
        if let Some((_, own)) = self.addresses.iter().find(|(_, own)| own.network() == prefix) {
            return wrong("prefix", prefix, format!("another network than that of the own address {own}"));
        }
        self.check_target(prefix, &target)?;
        self.routes.insert(prefix, target);
        Ok(())
    }

    pub fn remove_route(&mut self, prefix: Net) -> Result<(), Wrong> {
        match self.routes.remove(&prefix) {
            Some(_) => Ok(()),
            None if self.addresses.iter().any(|(_, own)| own.network() == prefix) => {
                wrong("prefix", prefix, "a route that was added; this one goes with its address")
            }
            None => wrong("prefix", prefix, "a route that there is"),
        }
    }

    /// Adds or replaces.
    pub fn set_neighbour(&mut self, address: IpAddr, port: PortId, mac: Mac) -> Result<(), Wrong> {
        if mac.is_group() || mac == Mac::default() {
            return wrong("mac", mac, "the address of one host");
        }
        self.check_on_link(address, port)?;
        self.neighbours.insert(address, (port, mac));
        Ok(())
    }

    pub fn remove_neighbour(&mut self, address: IpAddr) -> Result<(), Wrong> {
        match self.neighbours.remove(&address) {
            Some(_) => Ok(()),
            None => wrong("address", address, "a static neighbour that there is"),
        }
    }

    /// Takes out what belongs to ports, and the gateways and neighbours that are on their links.
    pub fn forget_ports(&mut self, ports: &[PortId]) {
        self.addresses.retain(|(port, _)| !ports.contains(port));
        let mut routes = std::mem::take(&mut self.routes);
        routes.retain(|_, target| match target {
            Target::Drop => true,
            Target::OnLink(port) => !ports.contains(port),
            Target::Via(hops) => {
                hops.retain(|hop| self.port_of(*hop).is_some());
                !hops.is_empty()
            }
        });
        self.routes = routes;
        self.neighbours.retain(|_, (port, _)| !ports.contains(port));
    }

    /// The port on whose own network an address can be a host's.
    pub fn port_of(&self, address: IpAddr) -> Option<PortId> {
        let own = |(_, net): &&(PortId, Net)| net.is_host(address) && net.address() != address;
        self.addresses.iter().find(own).map(|(port, _)| *port)
    }

    /// Own networks and addresses of one port.
    pub fn of_port(&self, port: PortId) -> impl Iterator<Item = Net> {
        self.addresses.iter().filter(move |(p, _)| *p == port).map(|(_, net)| *net)
    }

    fn check_target(&self, prefix: Net, target: &Target) -> Result<(), Wrong> {
        match target {
            Target::Drop => Ok(()),
            Target::OnLink(port) => match self.of_port(*port).any(|net| net.is_v4() == prefix.is_v4()) {
                true => Ok(()),
                false => wrong("port", port, format!("a port with an address of the family of {prefix}")),
            },
            Target::Via(hops) => self.check_hops(prefix, hops),
        }
    }

    fn check_hops(&self, prefix: Net, hops: &[IpAddr]) -> Result<(), Wrong> {
        if hops.is_empty() || hops.len() > MAX_HOPS {
            return wrong("via", format!("{} gateways", hops.len()), format!("1 to {MAX_HOPS} gateways"));
        }
        for (i, hop) in hops.iter().enumerate() {
            if hop.is_ipv4() != prefix.is_v4() {
                return wrong("via", hop, format!("a gateway of the family of {prefix}"));
            }
            if hops[..i].contains(hop) {
                return wrong("via", hop, "each gateway once");
            }
            if self.port_of(*hop).is_none() {
                return wrong("via", hop, format!("another host's address on a port's network ({})", self.networks()));
            }
        }
        Ok(())
    }

    fn check_on_link(&self, address: IpAddr, port: PortId) -> Result<(), Wrong> {
        let routed = |(net, target): (&Net, &Target)| *target == Target::OnLink(port) && net.contains(address);
        if self.port_of(address) == Some(port) || self.routes.iter().any(routed) {
            return Ok(());
        }
        wrong("address", address, format!("another host's address on a network of its port ({})", self.networks()))
    }

    fn networks(&self) -> String {
        let networks: Vec<_> = self.addresses.iter().map(|(_, net)| net.network().to_string()).collect();
        if networks.is_empty() { "no port has an address".into() } else { networks.join(", ") }
    }
}

/// Whether packets may be forwarded there, seen from the address alone.
fn is_routable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => !matches!(a.octets()[0], 127 | 224..),
        IpAddr::V6(a) => !a.is_multicast() && !a.is_loopback(),
    }
}

fn is_unicast(address: IpAddr) -> bool {
    is_routable(address)
        && match address {
            IpAddr::V4(a) => a.octets()[0] != 0,
            IpAddr::V6(a) => a != Ipv6Addr::UNSPECIFIED && a.to_ipv4_mapped().is_none(),
        }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let mut plan = Plan::default();
        plan.add_address(0, "10.0.1.1/24".parse().unwrap()).unwrap();
        plan.add_address(0, "fd00:1::1/64".parse().unwrap()).unwrap();
        plan.add_address(1, "10.0.2.1/24".parse().unwrap()).unwrap();
        plan
    }

    fn refused(error: Result<(), Wrong>) -> String {
        error.unwrap_err().to_string()
    }

    #[test]
    fn addresses_that_contradict_are_refused() {
        let refused = |text: &str| refused(plan().add_address(1, text.parse().unwrap()));
        assert_eq!(
            refused("10.0.0.9/16"),
            "address = 10.0.0.9/16: a network that does not overlap that of 10.0.1.1/24"
        );
        assert!(refused("10.0.3.0/24").contains("not the network's own"));
        assert!(refused("10.0.3.255/24").contains("broadcast"));
        for wrong in ["224.0.0.1/24", "127.0.0.1/8", "0.0.0.1/8", "fe80::1/64", "ff02::1/64", "::/64", "169.254.1.1/16"]
        {
            assert!(refused(wrong).contains("a unicast address"), "{wrong}");
        }
    }

    #[test]
    fn routes_that_lead_nowhere_are_refused() {
        let via = |prefix: &str, hops: &[&str]| {
            let hops = hops.iter().map(|hop| hop.parse().unwrap()).collect();
            plan().set_route(prefix.parse().unwrap(), Target::Via(hops))
        };
        assert!(via("10.2.0.0/16", &["10.0.1.2", "10.0.2.2"]).is_ok());
        assert!(via("0.0.0.0/0", &["10.0.1.2"]).is_ok());
        assert!(via("::/0", &["fd00:1::2"]).is_ok());
        assert_eq!(refused(via("10.2.0.1/16", &["10.0.1.2"])), "prefix = 10.2.0.1/16: 10.2.0.0/16, without host bits");
        assert!(refused(via("10.2.0.0/16", &["10.9.1.2"])).contains("on a port's network (10.0.1.0/24, fd00:1::/64,"));
        for wrong in ["10.0.1.1", "10.0.1.0", "10.0.1.255"] {
            assert!(refused(via("10.2.0.0/16", &[wrong])).starts_with(&format!("via = {wrong}: another host's")));
        }
        assert!(refused(via("10.2.0.0/16", &["fd00:1::2"])).contains("of the family"));
        assert!(refused(via("10.2.0.0/16", &["10.0.1.2", "10.0.1.2"])).contains("each gateway once"));
        assert!(refused(via("10.2.0.0/16", &[])).contains("1 to 16 gateways"));
        let many: Vec<_> = (2..19).map(|n| format!("10.0.1.{n}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert!(refused(via("10.2.0.0/16", &many)).contains("17 gateways: 1 to 16 gateways"));
        assert!(via("10.2.0.0/16", &many[..16]).is_ok());
        assert!(refused(via("10.0.2.0/24", &["10.0.1.2"])).contains("own address 10.0.2.1/24"));
        assert!(refused(via("224.0.0.0/4", &["10.0.1.2"])).contains("a unicast network"));
        let on_link = plan().set_route("fd09::/64".parse().unwrap(), Target::OnLink(1));
        assert!(refused(on_link).contains("a port with an address of the family of fd09::/64"));
    }

    #[test]
    fn what_others_need_stays() {
        let mut plan = plan();
        let (lan, route) = ("10.0.1.1/24".parse().unwrap(), "10.2.0.0/16".parse().unwrap());
        plan.set_route(route, Target::Via(vec!["10.0.1.2".parse().unwrap()])).unwrap();
        let before = plan.clone();
        assert!(refused(plan.remove_address(0, lan)).contains("route 10.2.0.0/16"));
        assert_eq!(plan, before);
        plan.remove_route(route).unwrap();
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        assert!(plan.set_neighbour("10.0.1.9".parse().unwrap(), 1, mac).is_err(), "another port's network");
        plan.set_neighbour("10.0.1.9".parse().unwrap(), 0, mac).unwrap();
        assert!(refused(plan.remove_address(0, lan)).contains("10.0.1.9"));
        plan.remove_neighbour("10.0.1.9".parse().unwrap()).unwrap();
        plan.remove_address(0, lan).unwrap();
        assert!(refused(plan.remove_route("10.0.2.0/24".parse().unwrap())).contains("goes with its address"));
    }
}
