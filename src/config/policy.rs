//! The port features of the file, checked for the tables that keep them.

use super::{AclDefault, Config, ConfigError, wrong};
use crate::forward::acl::check_rules;
use crate::forward::vlan::PortVlans;
use crate::switch::Role;

impl Config {
    pub(super) fn check_policy(&self) -> Result<(), ConfigError> {
        let names = self.port_names();
        check_rules(&self.acl, &names, self.switch.acl_rows)
            .map_err(|(i, wrong)| ConfigError::from(wrong).below(&format!("acl[{i}]")))?;
        for (i, mirror) in self.mirrors.iter().enumerate() {
            mirror.check(&names).map_err(|wrong| ConfigError::from(wrong).below(&format!("mirror[{i}]")))?;
            if self.mirrors[..i].iter().any(|other| other.from == mirror.from) {
                return wrong(format!("mirror[{i}].from"), &mirror.from.0, "each port once");
            }
        }
        for (i, port) in self.ports.iter().enumerate() {
            let vlans = PortVlans::of(port.vlan, port.trunk.as_ref(), port.qinq);
            let vlans = vlans.map_err(|wrong| ConfigError::from(wrong).below(&format!("port[{i}]")))?;
            if port.role == Role::Fabric && vlans != PortVlans::Every {
                return wrong(format!("port[{i}].role"), "fabric", "host: a fabric port carries every VLAN");
            }
        }
        Ok(())
    }

    /// The access control list takes its place in the budget: it has rules, or denies by default.
    pub fn has_acl(&self) -> bool {
        !self.acl.is_empty() || self.switch.acl_default == AclDefault::Deny
    }
}
