//! VLANs of ports as a table.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Change, Configured, Desired, Table, edited};
use crate::forward::policy::{PortFeatures, Publisher};
use crate::forward::text::{PortNames, Word, Wrong, wrong};
use crate::forward::vlan::{PortVlans, VlanList, Vlans};

/// A port's VLANs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VlanEntry {
    pub port: Word,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk: Option<VlanList>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qinq: Option<u16>,
}

/// Table `vlans`.
pub struct VlanTable {
    publisher: Publisher,
    ports: PortNames,
    entries: Vec<VlanEntry>,
}

impl VlanEntry {
    fn vlans(&self) -> Result<PortVlans, Wrong> {
        PortVlans::of(self.vlan, self.trunk.as_ref(), self.qinq)
    }
}

impl VlanTable {
    /// With entries that have been checked.
    pub fn new(publisher: Publisher, ports: PortNames, entries: Vec<VlanEntry>) -> Self {
        let mut table = Self { publisher, ports, entries: Vec::new() };
        table.publish(entries);
        table
    }

    fn check(&self, entry: &VlanEntry) -> Result<(), Wrong> {
        let port = self.ports.id("port", &entry.port.0)?;
        if self.ports.is_fabric(port) {
            return Err(wrong("port", &entry.port.0, "a host port: a fabric port carries every VLAN"));
        }
        match entry.vlans()? {
            PortVlans::Every => Err(wrong("vlan", "(missing)", "vlan, trunk or qinq; remove the entry for every VLAN")),
            _ => Ok(()),
        }
    }

    fn publish(&mut self, entries: Vec<VlanEntry>) {
        let publisher = self.publisher.clone();
        publisher.publish(|settings| self.put(entries, settings));
    }

    fn put(&mut self, entries: Vec<VlanEntry>, settings: &mut PortFeatures) {
        let mut vlans = vec![PortVlans::Every; self.ports.len()];
        for entry in &entries {
            if let (Ok(port), Ok(of)) = (self.ports.id("port", &entry.port.0), entry.vlans()) {
                vlans[usize::from(port)] = of;
            }
        }
        settings.vlans = (!entries.is_empty()).then(|| Arc::new(Vlans(vlans)));
        self.entries = entries;
    }
}

impl Configured for VlanTable {
    fn is(&self, desired: &Desired) -> bool {
        self.entries == desired.vlans
    }

    fn reconcile(&mut self, desired: &Desired, settings: &mut PortFeatures) {
        self.put(desired.vlans.clone(), settings);
    }
}

impl Table for VlanTable {
    fn name(&self) -> &'static str {
        "vlans"
    }

    fn rows(&self) -> Vec<Value> {
        self.entries.iter().map(|entry| serde_json::to_value(entry).unwrap_or_default()).collect()
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        let entries = edited(&self.entries, changes, |a, b| a.port == b.port, |entry| self.check(entry))?;
        self.publish(entries);
        Ok(())
    }

    fn configured(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn capacity(&self) -> Option<usize> {
        Some(self.ports.len())
    }

    fn key(&self) -> &'static [&'static str] {
        &["port"]
    }
}
