//! `[[port]]`: one port.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, NAME_PATTERN, check_name, check_range, wrong};
use crate::answers::CountedPort;
use crate::forward::rate::Limit;
use crate::forward::route::Net;
use crate::forward::vlan::VlanList;
use crate::pisa::MAX_PORTS;
use crate::port::{Dev, FaultSpec};
use crate::switch::Role;

/// One port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {"anyOf": [
    {"required": ["qinq"], "anyOf": [{"required": ["vlan"]}, {"required": ["trunk"]}]},
    {
        "required": ["role"], "properties": {"role": {"const": "fabric"}},
        "anyOf": [{"required": ["vlan"]}, {"required": ["trunk"]}, {"required": ["qinq"]}],
    },
]}))]
pub struct PortConfig {
    /// The port's name in reports and commands.
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// tap:NAME, veth:IFACE, xdp:IFACE, pci:ADDR, memif:ID, vhost:PATH, virtio-user:PATH,
    /// pcap:IN,OUT, ring:NAME, null or memory.
    #[schemars(with = "String", regex(pattern = Dev::PATTERN))]
    pub dev: Dev,
    /// host, or fabric: another weir is there, and packets carry the telemetry shim.
    #[serde(default)]
    pub role: Role,
    /// Largest IP packet, in bytes.
    #[schemars(range(min = 68, max = 9216))]
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// With `forward = "route"`: the switch's own addresses on this port and their networks, as
    /// 10.0.1.1/24 or fd00:1::1/64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Net>,
    /// Access port: the VLAN of untagged frames, in and out.
    #[schemars(range(min = 1, max = 4094))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Trunk: the VLANs that go tagged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trunk: Option<VlanList>,
    /// QinQ: the service VLAN that all frames are payload of.
    #[schemars(range(min = 1, max = 4094))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qinq: Option<u16>,
    /// Maximum received: 1Gbps, 500kpps or 1Gbps,burst=64KB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_limit: Option<Limit>,
    /// Maximum sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_limit: Option<Limit>,
    /// Receive queues; by default one for each worker, where the device has several.
    #[serde(default)]
    #[schemars(range(min = 1, max = 64))]
    pub queues: Option<u16>,
    /// Of `switch.cores`, those that poll the port's queues, in turn. Empty: the queues are dealt
    /// out over all.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// Whether frames for other MAC addresses are taken in.
    #[serde(default = "default_promiscuous")]
    pub promiscuous: bool,
    /// Faults that packets meet here, as rx:drop=1%,dst=10.0.0.2;tx:delay=5ms.
    #[serde(default)]
    pub fault: Option<FaultSpec>,
}

impl PortConfig {
    /// The port as programs know it.
    pub fn counted(&self) -> CountedPort {
        CountedPort { name: self.name.clone(), fabric: self.role == Role::Fabric }
    }

    /// A host port with everything else as it is by default.
    pub fn new(name: impl Into<String>, dev: Dev) -> Self {
        Self {
            name: name.into(),
            dev,
            role: Role::Host,
            mtu: default_mtu(),
            addresses: Vec::new(),
            vlan: None,
            trunk: None,
            qinq: None,
            rx_limit: None,
            tx_limit: None,
            queues: None,
            cores: Vec::new(),
            promiscuous: true,
            fault: None,
        }
    }
}

fn default_promiscuous() -> bool {
    true
}

pub fn default_mtu() -> u32 {
    1500
}

impl Config {
    pub(super) fn check_ports(&self) -> Result<(), ConfigError> {
        if self.ports.len() > MAX_PORTS {
            return wrong("port", self.ports.len(), "at most 256 ports");
        }
        let mut seen = HashMap::new();
        for (i, port) in self.ports.iter().enumerate() {
            check_name(&format!("port[{i}].name"), &port.name)?;
            check_range(format!("port[{i}].mtu"), port.mtu, 68, 9216)?;
            self.check_queues(i, port)?;
            if seen.insert(&port.name, i).is_some() {
                return wrong(format!("port[{i}].name"), &port.name, "each name once");
            }
            if let Some(other) = self.ports[..i].iter().find(|other| other.dev.is_one_with(&port.dev)) {
                let right = format!("each device once, and port {} has {}", other.name, other.dev);
                return wrong(format!("port[{i}].dev"), &port.dev, right);
            }
        }
        Ok(())
    }

    fn check_queues(&self, i: usize, port: &PortConfig) -> Result<(), ConfigError> {
        if let Some(queues) = port.queues {
            check_range(format!("port[{i}].queues"), queues.into(), 1, 64)?;
        }
        let cores = &self.switch.cores;
        // The default core is not known here.
        if let Some(core) = port.cores.iter().find(|core| !cores.is_empty() && !cores.contains(core)) {
            return wrong(format!("port[{i}].cores"), core, format!("cores of switch.cores = {cores:?}"));
        }
        if matches!(port.dev, Dev::Pcap { .. }) && cores.len() > 1 {
            return wrong(
                format!("port[{i}].dev"),
                &port.dev,
                format!("a pcap port serves one worker, and switch.cores = {cores:?} are {}", cores.len()),
            );
        }
        Ok(())
    }
}
