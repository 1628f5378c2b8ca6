//! The entries of tables as the configuration file has them.

use super::{AclSetup, LimitEntry, VlanEntry};
use crate::config::{AclDefault, Config, PortConfig};
use crate::forward::text::Word;

impl Config {
    /// The entries of table `limits`.
    pub fn limits(&self) -> Vec<LimitEntry> {
        let of = |port: &PortConfig| {
            let entry = |direction, limit: Option<_>| limit.map(|limit| LimitEntry::new(&port.name, direction, limit));
            [entry("rx", port.rx_limit), entry("tx", port.tx_limit)]
        };
        self.ports.iter().flat_map(of).flatten().collect()
    }

    /// The entries of table `vlans`.
    pub fn vlans(&self) -> Vec<VlanEntry> {
        let with = self.ports.iter().filter(|port| port.vlan.is_some() || port.trunk.is_some() || port.qinq.is_some());
        let entry = |port: &PortConfig| VlanEntry {
            port: Word(port.name.clone()),
            vlan: port.vlan,
            trunk: port.trunk.clone(),
            qinq: port.qinq,
        };
        with.map(entry).collect()
    }

    /// The access control list as it starts; `no_room` says why the target has no room for one.
    pub fn acl_setup(&self, no_room: Option<String>) -> AclSetup {
        AclSetup {
            permit_by_default: self.switch.acl_default == AclDefault::Permit,
            rows: self.switch.acl_rows,
            no_room,
        }
    }
}
