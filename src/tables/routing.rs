//! Keeps the router's tables: serves the workers' digests, and shows and changes routes, neighbours
//! and addresses.

use std::sync::{Arc, Mutex, MutexGuard};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::config::{Config, ConfigError, NeighbourConfig, RouteConfig};
use crate::forward::Forward;
use crate::forward::route::{self, Control, Net, Plan, RoutedPort, Target};
use crate::lock::Hold;
use crate::pisa::PortId;
use crate::pisa::hash::Polynomial;
use crate::pisa::table::TableUse;
use crate::tables::{Change, Op, Table};
use crate::telemetry::epoch::Nanos;

/// The control half of routing.
#[derive(Clone)]
pub struct Routing {
    control: Arc<Mutex<Control>>,
    /// The ports' numbers and names.
    names: Arc<[(PortId, String)]>,
}

impl Routing {
    /// The control half, and the dataplane half of each replica. `ports` are all ports by number.
    pub fn new(
        config: &Config,
        names: &[(PortId, String)],
        ports: Vec<RoutedPort>,
        polynomials: [Polynomial; 2],
        replicas: usize,
    ) -> Result<(Self, Vec<Forward>), ConfigError> {
        let id = |name: &str| names.iter().find(|(_, other)| other == name).map(|(id, _)| *id);
        let mut control = Control::new(config.tables(), config.plan(id)?, ports, polynomials);
        let forwards = (0..replicas).map(|_| Forward::Route(Box::new(control.dataplane()))).collect();
        Ok((Self { control: Arc::new(Mutex::new(control)), names: names.into() }, forwards))
    }

    /// The same tables for other ports: what belongs to those that are `removed` goes.
    pub fn renewed(
        &self,
        names: &[(PortId, String)],
        ports: Vec<RoutedPort>,
        removed: &[PortId],
        replicas: usize,
    ) -> (Self, Vec<Forward>) {
        let mut control = self.control();
        control.renew(ports, removed);
        let forwards = (0..replicas).map(|_| Forward::Route(Box::new(control.dataplane()))).collect();
        (Self { control: self.control.clone(), names: names.into() }, forwards)
    }

    /// Serves the digests that are there and forgets neighbours that are silent.
    pub fn serve(&self, now: Nanos) {
        self.control().serve(now);
    }

    /// New neighbours that were refused because the table was full of ones in use.
    pub fn refused(&self) -> u64 {
        self.control().refused()
    }

    /// What the tables take of the switch's memory.
    pub fn usage(&self) -> [(&'static str, TableUse); 3] {
        self.control().usage()
    }

    /// What the tables have room for.
    pub fn shape(&self) -> route::Config {
        self.control().config()
    }

    /// The tables that can be read and changed while the switch runs.
    pub fn tables(&self) -> Vec<Box<dyn Table>> {
        vec![Box::new(Routes(self.clone())), Box::new(Neighbours(self.clone())), Box::new(Addresses(self.clone()))]
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.hold()
    }

    fn name(&self, port: PortId) -> &str {
        self.names.iter().find(|(id, _)| *id == port).map_or("", |(_, name)| name)
    }

    fn port(&self, name: &str) -> Result<PortId, String> {
        let found = self.names.iter().find(|(_, other)| other == name).map(|(id, _)| *id);
        found.ok_or_else(|| {
            let names: Vec<_> = self.names.iter().map(|(_, name)| name.as_str()).collect();
            format!("port = {name}: a port's name ({})", names.join(", "))
        })
    }

    /// All changes or none; what is wrong is said with the change's number.
    fn apply(
        &self,
        changes: &[Change],
        apply: impl Fn(&mut Plan, &Change) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut control = self.control();
        let mut plan = control.plan().clone();
        for (n, change) in (1..).zip(changes) {
            apply(&mut plan, change)
                .map_err(|why| if changes.len() > 1 { format!("change {n}: {why}") } else { why })?;
        }
        control
            .change(|current| {
                *current = plan;
                Ok(())
            })
            .map_err(|e| e.to_string())
    }
}

/// Reads an entry, without what rows have beside the fields that can be set.
fn entry<T: DeserializeOwned>(entry: &Value, shown: &[&str]) -> Result<T, String> {
    let mut entry = entry.clone();
    if let Some(fields) = entry.as_object_mut() {
        shown.iter().for_each(|field| drop(fields.remove(*field)));
    }
    serde_json::from_value(entry).map_err(|e| e.to_string())
}

fn absent(there: bool, op: Op, what: impl std::fmt::Display) -> Result<(), String> {
    if there && op == Op::Add { Err(format!("{what}: there is one; `set` changes it")) } else { Ok(()) }
}

/// `routes`: rows as `[[route]]` of the configuration, with counters.
struct Routes(Routing);

impl Table for Routes {
    fn name(&self) -> &'static str {
        "routes"
    }

    fn rows(&self) -> Vec<Value> {
        let row = |route: crate::forward::route::RouteEntry| {
            let mut row = json!({ "prefix": route.prefix });
            match route.target {
                Target::Via(gateways) => row["via"] = json!(gateways),
                Target::OnLink(port) => row["port"] = json!(self.0.name(port)),
                Target::Drop => row["drop"] = json!(true),
            }
            row["origin"] = json!(if route.connected { "connected" } else { "static" });
            row["packets"] = json!(route.packets);
            row["bytes"] = json!(route.bytes);
            row
        };
        self.0.control().routes().into_iter().map(row).collect()
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        self.0.apply(changes, |plan, change| {
            let route: RouteConfig = entry(&change.entry, &["origin", "packets", "bytes"])?;
            if change.op == Op::Remove {
                return plan.remove_route(route.prefix).map_err(|e| e.to_string());
            }
            absent(plan.routes().contains_key(&route.prefix), change.op, format_args!("prefix = {}", route.prefix))?;
            let target = route.target(|name| self.0.port(name).ok()).map_err(|e| e.to_string())?;
            plan.set_route(route.prefix, target).map_err(|e| e.to_string())
        })
    }
}

/// `neighbours`: rows as `[[neighbour]]` of the configuration. Those that were learned can be
/// replaced by static ones.
struct Neighbours(Routing);

/// What names a neighbour.
#[derive(Deserialize)]
struct NeighbourKey {
    address: std::net::IpAddr,
}

impl Table for Neighbours {
    fn name(&self) -> &'static str {
        "neighbours"
    }

    fn rows(&self) -> Vec<Value> {
        let row = |neighbour: crate::forward::route::NeighbourEntry| {
            let origin = if neighbour.idle_seconds.is_some() { "learned" } else { "static" };
            let mut row = json!({
                "address": neighbour.address,
                "port": self.0.name(neighbour.port),
                "mac": neighbour.mac,
                "origin": origin,
            });
            if let Some(seconds) = neighbour.idle_seconds {
                row["age_seconds"] = json!(seconds);
            }
            row
        };
        self.0.control().neighbours().into_iter().map(row).collect()
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        self.0.apply(changes, |plan, change| {
            if change.op == Op::Remove {
                let key: NeighbourKey = entry(&change.entry, &[])?;
                return plan.remove_neighbour(key.address).map_err(|e| e.to_string());
            }
            let new: NeighbourConfig = entry(&change.entry, &["origin", "age_seconds"])?;
            absent(plan.neighbours().contains_key(&new.address), change.op, format_args!("address = {}", new.address))?;
            plan.set_neighbour(new.address, self.0.port(&new.port)?, new.mac).map_err(|e| e.to_string())
        })
    }
}

/// `addresses`: the router's own.
struct Addresses(Routing);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    port: String,
    address: Net,
}

impl Table for Addresses {
    fn name(&self) -> &'static str {
        "addresses"
    }

    fn rows(&self) -> Vec<Value> {
        let control = self.0.control();
        let row = |(port, net): &(PortId, Net)| {
            let mac = control.mac(*port);
            json!({ "port": self.0.name(*port), "address": net, "mac": mac })
        };
        control.plan().addresses().iter().map(row).collect()
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        self.0.apply(changes, |plan, change| {
            let new: Address = entry(&change.entry, &["mac"])?;
            let port = self.0.port(&new.port)?;
            let there = plan.addresses().contains(&(port, new.address));
            match change.op {
                Op::Remove => plan.remove_address(port, new.address),
                Op::Set if there => Ok(()),
                Op::Add | Op::Set => plan.add_address(port, new.address),
            }
            .map_err(|e| e.to_string())
        })
    }
}
