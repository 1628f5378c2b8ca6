//! VLANs of ports as a table.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::port::Feature;
use super::{Desired, shown};
use crate::forward::policy::PortFeatures;
use crate::forward::text::{PortNames, Word, Wrong, wrong};
use crate::forward::vlan::{PortVlans, VlanList, Vlans};

/// A port's VLANs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VlanEntry {
    pub port: Word,
    pub vlan: Option<u16>,
    pub trunk: Option<VlanList>,
    pub qinq: Option<u16>,
}

impl VlanEntry {
    fn vlans(&self) -> Result<PortVlans, Wrong> {
        PortVlans::of(self.vlan, self.trunk.as_ref(), self.qinq)
    }
}

/// Table `vlans`.
#[derive(Default)]
pub struct VlanFeature;

impl Feature for VlanFeature {
    type Entry = VlanEntry;

    const NAME: &'static str = "vlans";
    const KEY: &'static [&'static str] = &["port"];

    fn same(a: &VlanEntry, b: &VlanEntry) -> bool {
        a.port == b.port
    }

    fn check(entry: &VlanEntry, ports: &PortNames) -> Result<(), Wrong> {
        let port = ports.id("port", &entry.port.0)?;
        if ports.is_fabric(port) {
            return Err(wrong("port", &entry.port.0, "a host port: a fabric port carries every VLAN"));
        }
        match entry.vlans()? {
            PortVlans::Every => Err(wrong("vlan", "(missing)", "vlan, trunk or qinq; remove the entry for every VLAN")),
            _ => Ok(()),
        }
    }

    fn desired(desired: &Desired) -> &[VlanEntry] {
        &desired.vlans
    }

    fn put(&mut self, entries: &[VlanEntry], ports: &PortNames, settings: &mut PortFeatures) {
        let mut vlans = vec![PortVlans::Every; ports.len()];
        for entry in entries {
            if let (Ok(port), Ok(of)) = (ports.id("port", &entry.port.0), entry.vlans()) {
                vlans[usize::from(port)] = of;
            }
        }
        settings.vlans = (!entries.is_empty()).then(|| Arc::new(Vlans(vlans)));
    }

    fn row(&self, entry: &VlanEntry, _: &PortNames) -> Value {
        shown(entry)
    }
}
