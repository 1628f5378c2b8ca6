//! The router's tables, as long as the switch routes.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Change, Op, Table};
use crate::config::{NeighbourConfig, RouteConfig};
use crate::forward::route::{self, Net, Plan, Target};
use crate::json::counter;
use crate::lock::Hold;
use crate::pisa::table::TableUse;
use crate::tables::Routing;

/// One of the router's tables. Empty, and not to be changed, while the switch forwards in another
/// way.
pub struct Routed {
    kind: &'static Kind,
    routing: Arc<Mutex<Option<Routing>>>,
}

/// What the router's tables differ in.
struct Kind {
    name: &'static str,
    key: &'static [&'static str],
    rows: fn(&Routing) -> Vec<Value>,
    change: fn(&Routing, &mut Plan, &Change) -> Result<(), String>,
    capacity: fn(route::Config) -> Option<usize>,
}

/// Rows as `[[route]]` of the configuration, with counters; rows as `[[neighbour]]`, where learned
/// ones can be replaced by static ones; the router's own addresses.
static KINDS: [Kind; 3] = [
    Kind {
        name: "routes",
        key: &["prefix"],
        rows: routes,
        change: change_route,
        capacity: |tables| Some(tables.routes),
    },
    Kind {
        name: "neighbours",
        key: &["address"],
        rows: neighbours,
        change: change_neighbour,
        capacity: |tables| Some(tables.neighbours),
    },
    Kind { name: "addresses", key: &["port", "address"], rows: addresses, change: change_address, capacity: |_| None },
];

/// The key of a neighbour.
#[derive(Deserialize)]
struct NeighbourKey {
    address: IpAddr,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    port: String,
    address: Net,
}

impl Routed {
    pub fn all(routing: &Arc<Mutex<Option<Routing>>>) -> Vec<Box<dyn Table>> {
        let table = |kind| Box::new(Self { kind, routing: routing.clone() }) as Box<dyn Table>;
        KINDS.iter().map(table).collect()
    }

    fn routing(&self) -> Option<Routing> {
        self.routing.hold().clone()
    }
}

impl Table for Routed {
    fn name(&self) -> &'static str {
        self.kind.name
    }

    fn rows(&self) -> Vec<Value> {
        self.routing().map_or_else(Vec::new, |routing| (self.kind.rows)(&routing))
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        let routing = self.routing().ok_or("the switch does not route; start it with --forward route")?;
        routing.apply(changes, |plan, of| (self.kind.change)(&routing, plan, of))
    }

    fn key(&self) -> &'static [&'static str] {
        self.kind.key
    }

    /// There is no room in a switch that does not route.
    fn capacity(&self) -> Option<usize> {
        self.routing().map_or(Some(0), |routing| (self.kind.capacity)(routing.shape()))
    }

    fn usage(&self) -> Option<TableUse> {
        let usage = self.routing()?.usage();
        // Routes are a table for each family.
        let own = usage.into_iter().filter(|(name, _)| name.trim_end_matches(['4', '6']) == self.name());
        own.map(|(_, usage)| usage).reduce(|sum, more| TableUse {
            sram_bits: sum.sram_bits + more.sram_bits,
            tcam_bits: sum.tcam_bits + more.tcam_bits,
            hashes: sum.hashes + more.hashes,
        })
    }

    fn follows_ports(&self) -> bool {
        true
    }
}

fn routes(routing: &Routing) -> Vec<Value> {
    let row = |route: route::RouteEntry| {
        let mut row = json!({ "prefix": route.prefix });
        match route.target {
            Target::Via(gateways) => row["via"] = json!(gateways),
            Target::OnLink(port) => row["port"] = json!(routing.name(port)),
            Target::Drop => row["drop"] = json!(true),
        }
        row["origin"] = json!(if route.connected { "connected" } else { "static" });
        row["packets"] = json!(route.packets);
        row["bytes"] = counter(route.bytes);
        row
    };
    routing.control().routes().into_iter().map(row).collect()
}

fn change_route(routing: &Routing, plan: &mut Plan, change: &Change) -> Result<(), String> {
    let route: RouteConfig = entry(&change.entry, &["origin", "packets", "bytes"])?;
    if change.op == Op::Remove {
        return plan.remove_route(route.prefix).map_err(|e| e.to_string());
    }
    absent(plan.routes().contains_key(&route.prefix), change.op, format_args!("prefix = {}", route.prefix))?;
    let target = route.target(|name| routing.port(name).ok()).map_err(|e| e.to_string())?;
    plan.set_route(route.prefix, target).map_err(|e| e.to_string())
}

fn neighbours(routing: &Routing) -> Vec<Value> {
    let row = |neighbour: route::NeighbourEntry| {
        let mut row = json!({
            "address": neighbour.address,
            "port": routing.name(neighbour.port),
            "mac": neighbour.mac,
            "origin": if neighbour.idle_seconds.is_some() { "learned" } else { "static" },
        });
        if let Some(seconds) = neighbour.idle_seconds {
            row["age_seconds"] = json!(seconds);
        }
        row
    };
    routing.control().neighbours().into_iter().map(row).collect()
}

fn change_neighbour(routing: &Routing, plan: &mut Plan, change: &Change) -> Result<(), String> {
    if change.op == Op::Remove {
        let key: NeighbourKey = entry(&change.entry, &[])?;
        return plan.remove_neighbour(key.address).map_err(|e| e.to_string());
    }
    let new: NeighbourConfig = entry(&change.entry, &["origin", "age_seconds"])?;
    absent(plan.neighbours().contains_key(&new.address), change.op, format_args!("address = {}", new.address))?;
    plan.set_neighbour(new.address, routing.port(&new.port)?, new.mac).map_err(|e| e.to_string())
}

fn addresses(routing: &Routing) -> Vec<Value> {
    let control = routing.control();
    let row =
        |(port, net): &_| json!({ "port": routing.name(*port), "address": net as &Net, "mac": control.mac(*port) });
    control.plan().addresses().iter().map(row).collect()
}

fn change_address(routing: &Routing, plan: &mut Plan, change: &Change) -> Result<(), String> {
    let new: Address = entry(&change.entry, &["mac"])?;
    let port = routing.port(&new.port)?;
    let there = plan.addresses().contains(&(port, new.address));
    match change.op {
        Op::Remove => plan.remove_address(port, new.address),
        Op::Set if there => Ok(()),
        Op::Add | Op::Set => plan.add_address(port, new.address),
    }
    .map_err(|e| e.to_string())
}

/// Reads an entry, without the fields of a row that cannot be set.
fn entry<T: DeserializeOwned>(entry: &Value, shown: &[&str]) -> Result<T, String> {
    let mut entry = entry.clone();
    if let Some(fields) = entry.as_object_mut() {
        shown.iter().for_each(|field| drop(fields.remove(*field)));
    }
    super::read(&entry)
}

fn absent(there: bool, op: Op, what: impl std::fmt::Display) -> Result<(), String> {
    if there && op == Op::Add { Err(format!("{what}: there is one; `set` changes it")) } else { Ok(()) }
}
