//! The file's routes, checked into a [`Plan`].

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, ForwardMode, wrong};
use crate::forward::route::{self, Net, Plan, Target};
use crate::forward::text::Wrong;
use crate::pisa::PortId;
use crate::wire::Mac;

/// One route: exactly one of `via`, `port` and `drop`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["via"], "properties": {"via": {"minItems": 1}}}, {"required": ["port"]}, {"required": ["drop"], "properties": {"drop": {"const": true}}},
]))]
pub struct RouteConfig {
    /// The destinations, as 10.2.0.0/16 or fd00:2::/48; 0.0.0.0/0 and ::/0 are all that no longer
    /// prefix has.
    pub prefix: Net,
    /// The gateways that packets go to, each on a port's own network. Flows are dealt out over
    /// several.
    #[serde(default, deserialize_with = "gateways", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("type" = ["array", "string"]))]
    pub via: Vec<IpAddr>,
    /// The port on whose link the destinations themselves are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// true: packets are dropped without an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drop: bool,
}

/// A list, or as one writes it on a command line: addresses with commas between them.
fn gateways<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<IpAddr>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Gateways {
        Words(String),
        List(Vec<String>),
    }
    let words = match Gateways::deserialize(deserializer) {
        Ok(Gateways::Words(words)) => words.split(',').map(str::to_owned).collect(),
        Ok(Gateways::List(list)) => list,
        Err(_) => return Err(serde::de::Error::custom("via: addresses of gateways, as [\"10.0.1.2\", \"10.0.3.2\"]")),
    };
    let address = |word: String| {
        word.trim().parse().map_err(|_| serde::de::Error::custom(format!("via = {word}: the address of a gateway")))
    };
    words.into_iter().map(address).collect()
}

/// A neighbour that is not asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NeighbourConfig {
    /// Its address, on a network of its port.
    pub address: IpAddr,
    /// The port that it is behind.
    pub port: String,
    /// Its MAC, as 02:00:00:00:00:01.
    #[schemars(with = "String", extend("pattern" = "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$"))]
    pub mac: Mac,
}

impl RouteConfig {
    /// The route's target; `port` finds a port by its name.
    pub fn target(&self, port: impl FnOnce(&str) -> Option<u16>) -> Result<Target, Wrong> {
        let error = |key, value: String, right: &str| Err(Wrong { key, value, right: right.into() });
        match (self.via.as_slice(), &self.port, self.drop) {
            ([], None, true) => Ok(Target::Drop),
            ([], Some(name), false) => match port(name) {
                Some(id) => Ok(Target::OnLink(id)),
                None => error("port", name.clone(), "a port's name"),
            },
            ([_, ..], None, false) => Ok(Target::Via(self.via.clone())),
            _ => error("prefix", self.prefix.to_string(), "a route with exactly one of via, port and drop"),
        }
    }
}

impl Config {
    /// The router's configuration. `port_id` gives the number of a port of this name.
    pub fn plan(&self, port_id: impl Fn(&str) -> Option<PortId>) -> Result<Plan, ConfigError> {
        let mut plan = Plan::default();
        if self.switch.forward != ForwardMode::Route {
            return self.nothing_to_route().map(|()| plan);
        }
        for (i, port) in self.ports.iter().enumerate() {
            let Some(id) = port_id(&port.name) else { continue };
            for (n, net) in port.addresses.iter().enumerate() {
                let key = format!("port[{i}].addresses[{n}]");
                plan.add_address(id, *net).or_else(|e| wrong(key, e.value, e.right))?;
            }
        }
        for (i, entry) in self.routes.iter().enumerate() {
            let below = |e: Wrong| ConfigError::from(e).below(&format!("route[{i}]"));
            if plan.routes().contains_key(&entry.prefix) {
                return wrong(format!("route[{i}].prefix"), entry.prefix, "each prefix once");
            }
            let target = entry.target(&port_id).map_err(below)?;
            plan.set_route(entry.prefix, target).map_err(below)?;
        }
        for (i, entry) in self.neighbours.iter().enumerate() {
            let key = |key: &str| format!("neighbour[{i}].{key}");
            let Some(port) = port_id(&entry.port) else {
                return wrong(key("port"), &entry.port, "a port's name");
            };
            if plan.neighbours().contains_key(&entry.address) {
                return wrong(key("address"), entry.address, "each address once");
            }
            let below = |e: Wrong| ConfigError::from(e).below(&format!("neighbour[{i}]"));
            plan.set_neighbour(entry.address, port, entry.mac).map_err(below)?;
        }
        let tables = self.tables();
        route::check_size(&plan, tables).map_err(|e| {
            let key = if e.key == "address" { "switch.neighbour_table" } else { "switch.route_table" };
            let needed = e.value.clone();
            ConfigError::Value { key: key.into(), value: e.right, right: format!("room for {needed}") }
        })?;
        Ok(plan)
    }

    /// How large the router's tables are.
    pub fn tables(&self) -> route::Config {
        route::Config {
            routes: self.switch.route_table as usize,
            neighbours: self.switch.neighbour_table as usize,
            ..route::Config::default()
        }
    }

    /// Refuses keys that only a router uses: another switch would silently ignore them.
    fn nothing_to_route(&self) -> Result<(), ConfigError> {
        let right = "nothing, unless switch.forward = \"route\"";
        let with = self.ports.iter().position(|port| !port.addresses.is_empty());
        if let Some(i) = with {
            return wrong(format!("port[{i}].addresses"), self.ports[i].addresses[0], right);
        }
        if let Some(entry) = self.routes.first() {
            return wrong("route[0].prefix", entry.prefix, right);
        }
        match self.neighbours.first() {
            Some(entry) => wrong("neighbour[0].address", entry.address, right),
            None => Ok(()),
        }
    }
}
