//! The router's tables, as long as the switch routes.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::{Change, Table};
use crate::lock::Hold;
use crate::pisa::table::TableUse;
use crate::tables::Routing;

/// One of [`Routing::tables`]. Empty, and not to be changed, while the switch forwards in another
/// way.
pub struct Routed {
    name: &'static str,
    routing: Arc<Mutex<Option<Routing>>>,
}

impl Routed {
    pub const NAMES: [&str; 3] = ["routes", "neighbours", "addresses"];

    pub fn all(routing: &Arc<Mutex<Option<Routing>>>) -> Vec<Box<dyn Table>> {
        let table = |name| Box::new(Self { name, routing: routing.clone() }) as Box<dyn Table>;
        Self::NAMES.map(table).into()
    }

    fn routing(&self) -> Option<Routing> {
        self.routing.hold().clone()
    }

    fn table(&self) -> Option<Box<dyn Table>> {
        self.routing()?.tables().into_iter().find(|table| table.name() == self.name)
    }
}

impl Table for Routed {
    fn name(&self) -> &'static str {
        self.name
    }

    fn rows(&self) -> Vec<Value> {
        self.table().map(|table| table.rows()).unwrap_or_default()
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        self.table().ok_or("the switch does not route; start it with --forward route")?.change(changes)
    }

    fn key(&self) -> &'static [&'static str] {
        match self.name {
            "routes" => &["prefix"],
            "neighbours" => &["address"],
            _ => &["port", "address"],
        }
    }

    /// There is no room in a switch that does not route.
    fn capacity(&self) -> Option<usize> {
        let Some(routing) = self.routing() else { return Some(0) };
        let shape = routing.shape();
        match self.name {
            "routes" => Some(shape.routes),
            "neighbours" => Some(shape.neighbours),
            _ => None,
        }
    }

    fn usage(&self) -> Option<TableUse> {
        let usage = self.routing()?.usage();
        // Routes are a table for each family.
        let own = usage.into_iter().filter(|(name, _)| name.trim_end_matches(['4', '6']) == self.name);
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
