//! Match-action tables that are read and changed while the switch runs.
//!
//! A table's control half implements [`Table`]; the API and the command line use all of them alike,
//! in JSON rows.

mod acl;
mod configured;
pub mod documents;
mod entry;
mod learning;
mod limits;
mod macs;
mod mirrors;
mod port;
mod routed;
mod routing;
mod vlans;

use std::sync::Mutex;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use acl::{AclSetup, AclTable};
pub use entry::{edited, read, shown, without_counters};
pub use learning::Learning;
pub use limits::{LimitEntry, LimitFeature};
pub use macs::Macs;
pub use mirrors::MirrorFeature;
pub use port::PortTable;
pub use routed::Routed;
pub use routing::Routing;
pub use vlans::{VlanEntry, VlanFeature};

use crate::forward::acl::RuleConfig;
use crate::forward::mirror::MirrorConfig;
use crate::forward::policy::{PortFeatures, Publisher};
use crate::lock::Hold;
use crate::pisa::table::TableUse;
use crate::text::named;

/// One change of one entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TableChange")]
pub struct Change {
    pub op: Op,
    /// The entry, or for `remove` at least the fields that name it.
    pub entry: Value,
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Op {
        /// A new entry; an error when there is one of this key.
        Add = "add",
        /// A new entry, or a new action for an old one.
        Set = "set",
        /// Removes an entry; an error when there is no entry with this key.
        Remove = "remove",
    }
}

/// A table as the API sees it: calls come from a control thread, one at a time, never from a
/// worker.
pub trait Table: Send {
    /// The name in paths, commands and reports.
    fn name(&self) -> &'static str;
    /// All entries in their order: the fields that match, the action, and the entry's counters.
    fn rows(&self) -> Vec<Value>;
    /// Applies all changes, in order, or none of them; workers see the result as a whole.
    fn change(&mut self, changes: &[Change]) -> Result<(), String>;

    /// Entries there are.
    fn len(&self) -> usize {
        self.rows().len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Maximum entries.
    fn capacity(&self) -> Option<usize> {
        None
    }

    /// The fields that name an entry.
    fn key(&self) -> &'static [&'static str] {
        &[]
    }

    /// The action for packets that match no entry, and their counters.
    fn default_row(&self) -> Option<Value> {
        None
    }

    /// Whether the entries about a port go with it, so that they do not keep it from being removed.
    fn follows_ports(&self) -> bool {
        false
    }

    /// There when the configuration file says what the table holds.
    fn configured(&mut self) -> Option<&mut dyn Configured> {
        None
    }

    /// Memory on the target, if it is a match table of its own.
    fn usage(&self) -> Option<TableUse> {
        None
    }
}

/// The desired entries of the tables of ports, from a checked configuration.
#[derive(Clone, Debug)]
pub struct Desired {
    pub acl: Vec<RuleConfig>,
    pub acl_setup: AclSetup,
    pub limits: Vec<LimitEntry>,
    pub mirrors: Vec<MirrorConfig>,
    pub vlans: Vec<VlanEntry>,
}

/// A table that can be set whole.
pub trait Configured {
    /// Whether it holds the desired entries, and nothing else.
    fn is(&self, desired: &Desired) -> bool;
    /// Takes over the desired entries. Entries that stay as they are go on counting.
    fn reconcile(&mut self, desired: &Desired, settings: &mut PortFeatures);
}

/// The tables of a running switch, by name.
#[derive(Default)]
pub struct Tables(Vec<Mutex<Box<dyn Table>>>);

impl Tables {
    pub fn new(tables: impl IntoIterator<Item = Box<dyn Table>>) -> Self {
        Self(tables.into_iter().map(Mutex::new).collect())
    }

    pub fn push(&mut self, table: Box<dyn Table>) {
        self.0.push(Mutex::new(table));
    }

    pub fn list(&self) -> documents::Tables {
        let about = |table: &Mutex<Box<dyn Table>>| about(table.hold().as_ref());
        documents::Tables { tables: self.0.iter().map(about).collect() }
    }

    pub fn show(&self, name: &str) -> Result<documents::TableRows, String> {
        self.with(name, |table| {
            Ok(documents::TableRows { table: about(table), rows: table.rows(), default: table.default_row() })
        })
    }

    /// Applies all changes or none.
    pub fn change(&self, name: &str, changes: &[Change]) -> Result<documents::TableChanged, String> {
        self.with(name, |table| {
            table.change(changes)?;
            Ok(documents::TableChanged { changed: changes.len(), table: about(table) })
        })
    }

    /// The tables that hold something else than is desired.
    pub fn differing(&self, desired: &Desired) -> Vec<&'static str> {
        let differs = |table: &Mutex<Box<dyn Table>>| {
            let mut table = table.hold();
            let differs = table.configured().is_some_and(|table| !table.is(desired));
            differs.then(|| table.name())
        };
        self.0.iter().filter_map(differs).collect()
    }

    /// Sets all tables of a configuration. Workers see one change.
    pub fn reconcile(&self, desired: &Desired, publisher: &Publisher) {
        // Before the settings, as a change of one table does.
        let mut tables: Vec<_> = self.0.iter().map(|table| table.hold()).collect();
        publisher.publish(|settings| {
            let configured = tables.iter_mut().filter_map(|table| table.configured());
            configured.for_each(|table| table.reconcile(desired, settings));
        });
    }

    /// A table that has an entry about this port. A learned MAC address does not count: it is
    /// forgotten with its port.
    ///
    /// `reloaded`: those that a configuration sets are passed over, as it has been checked.
    pub fn naming(&self, port: &str, reloaded: bool) -> Option<&'static str> {
        let about = |row: &Value| {
            let fields = ["port", "mirror", "from", "to"].into_iter().filter_map(|key| row[key].as_str());
            row["static"] != false && fields.flat_map(|names| names.split(',')).any(|name| name.trim() == port)
        };
        let mut tables = self.0.iter().map(|table| table.hold());
        let names = |table: &mut dyn Table| {
            let goes = table.follows_ports() || reloaded && table.configured().is_some();
            !goes && table.rows().iter().any(about)
        };
        tables.find_map(|mut table| names(table.as_mut()).then(|| table.name()))
    }

    fn with<T>(&self, name: &str, act: impl FnOnce(&mut dyn Table) -> Result<T, String>) -> Result<T, String> {
        for table in &self.0 {
            let mut table = table.hold();
            if table.name() == name {
                return act(table.as_mut());
            }
        }
        let names: Vec<_> = self.0.iter().map(|table| table.hold().name()).collect();
        Err(format!("there is no table {name}; the tables are {}", names.join(", ")))
    }
}

fn about(table: &dyn Table) -> documents::Table {
    let usage = table.usage();
    documents::Table {
        name: table.name().into(),
        entries: table.len(),
        capacity_entries: table.capacity(),
        key: table.key().iter().map(|&field| field.into()).collect(),
        sram_bits: usage.map(|usage| usage.sram_bits),
        tcam_bits: usage.map(|usage| usage.tcam_bits),
    }
}

/// `1. add {"name":"web"}: …`: which of the changes is wrong, and why.
pub fn refused(index: usize, change: &Change, why: impl std::fmt::Display) -> String {
    format!("change {}, {} {}: {why}; nothing was changed", index + 1, change.op.name(), change.entry)
}
