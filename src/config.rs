//! The configuration: TOML or command-line words, checked into one type.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answers::CountedPort;
use crate::forward::acl::RuleConfig;
use crate::forward::mirror::MirrorConfig;
use crate::forward::text::PortNames;
use crate::pisa::PortId;
use crate::port::Dev;
use crate::program::ProgramConfig;
use crate::switch::Role;

mod address;
mod api;
mod archive;
mod controller;
mod error;
mod idle;
mod ipfix;
mod length;
mod network;
mod otlp;
mod own;
mod page;
mod policy;
mod port;
mod routes;
mod switch;
mod words;

pub use address::{Address, AddressError, PemFiles, TlsConfig, host};
pub use api::{ApiConfig, PortFileError, SocketMode};
pub use archive::ArchiveConfig;
pub use controller::ControllerConfig;
pub use error::ConfigError;
pub use idle::Idle;
pub use ipfix::{IpfixConfig, IpfixRecords};
pub use length::Length;
pub use network::{DEFAULT_HORIZON, LinkConfig, MAX_NETWORKED, NetworkConfig, TlsFiles};
pub use otlp::{OtlpAddress, OtlpConfig, OtlpFiles, OtlpHeader};
pub use own::OwnProgram;
pub use page::PageConfig;
pub use port::{PortConfig, default_mtu};
pub use routes::{NeighbourConfig, RouteConfig};
pub use switch::{AclDefault, BatchOrderConfig, ForwardMode, LinkLocal, SwitchConfig};

use error::{NAME_PATTERN, check_length, check_name, check_range, wrong};

/// All that `weir run` needs to know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How the switch runs.
    pub switch: SwitchConfig,
    /// The API: the clients that may ask the switch.
    pub api: ApiConfig,
    /// The controller that the switch reports to.
    pub controller: ControllerConfig,
    /// The archive: the epochs of past days.
    pub archive: ArchiveConfig,
    /// The live page.
    pub page: PageConfig,
    /// Where measurements are exported to as IPFIX.
    pub ipfix: IpfixConfig,
    /// Where metrics and log records are sent as OTLP.
    pub otlp: OtlpConfig,
    /// The ports, numbered from 0 in this order.
    #[serde(rename = "port")]
    pub ports: Vec<PortConfig>,
    /// The access control list: rules in their order. The first that matches a packet decides.
    pub acl: Vec<RuleConfig>,
    /// Copies of ports' packets for other ports.
    #[serde(rename = "mirror")]
    pub mirrors: Vec<MirrorConfig>,
    /// The telemetry programs, in the order in which a packet meets them.
    #[serde(rename = "program")]
    pub programs: Vec<ProgramConfig>,
    /// With `forward = "route"`: where packets go that are for none of the ports' own networks.
    #[serde(rename = "route")]
    pub routes: Vec<RouteConfig>,
    /// With `forward = "route"`: neighbours that are not asked for.
    #[serde(rename = "neighbour")]
    pub neighbours: Vec<NeighbourConfig>,
}

/// Reads a file, and says on which line of it something is wrong.
fn load<C>(path: &Path, parse: impl FnOnce(&str) -> Result<C, ConfigError>) -> Result<C, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
    parse(&text).map_err(|source| {
        let line = match &source {
            ConfigError::Value { key, .. } => words::line_of(&text, key),
            ConfigError::Syntax { line, .. } => Some(*line),
            _ => None,
        };
        ConfigError::InFile { path: path.into(), line, source: Box::new(source) }
    })
}

impl ConfigError {
    /// With the line of the file on which the key stands.
    pub fn in_file(self, path: &Path) -> Self {
        let line = match (&self, std::fs::read_to_string(path)) {
            (Self::Value { key, .. }, Ok(text)) => words::line_of(&text, key),
            _ => None,
        };
        Self::InFile { path: path.into(), line, source: Box::new(self) }
    }
}

impl Config {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        load(path, Self::parse)
    }

    /// Reads and checks a file's text.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = words::read(text)?;
        config.validate()?;
        Ok(config)
    }

    /// The name by which answers know the switch: the controller's, where it has one.
    pub fn known_as(&self) -> &str {
        self.controller.name.as_ref().unwrap_or(&self.switch.name)
    }

    /// The same switch alone and in memory: ports without devices and their faults, and no
    /// controller, archive, page, export or API. It has the name by which answers know it.
    #[must_use]
    pub fn into_memory(mut self) -> Self {
        self.ports.iter_mut().for_each(|port| (port.dev, port.fault) = (Dev::Memory, None));
        self.switch.name = self.known_as().to_owned();
        self.switch.metrics = None;
        Self {
            controller: ControllerConfig::default(),
            archive: ArchiveConfig::default(),
            page: PageConfig::default(),
            ipfix: IpfixConfig::default(),
            otlp: OtlpConfig::default(),
            api: ApiConfig::default(),
            ..self
        }
    }

    /// The JSON Schema of the file.
    pub fn schema() -> schemars::Schema {
        schemars::schema_for!(Self)
    }

    /// Checks what the types alone do not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.switch.validate()?;
        self.metrics()?;
        self.page.address()?;
        self.ipfix.validate()?;
        self.otlp.validate()?;
        self.api.validate()?;
        self.archive.validate()?;
        self.controller.validate(&self.programs)?;
        self.check_ports()?;
        self.check_policy()?;
        words::check_programs(&self.programs)?;
        words::check_names("switch.name", &[self.known_as()], &self.programs)?;
        self.plan(|name| self.port(name))?;
        self.pairs().map(drop)
    }

    /// The number of the port of this name.
    pub fn port(&self, name: &str) -> Option<PortId> {
        self.ports.iter().position(|port| port.name == name).map(|i| i as PortId)
    }

    /// The ports' names, by number.
    pub fn port_names(&self) -> PortNames {
        PortNames::new(self.ports.iter().map(|port| (port.name.clone(), port.role == Role::Fabric)))
    }

    /// The ports as programs know them, by number.
    pub fn counted_ports(&self) -> Vec<CountedPort> {
        self.ports.iter().map(PortConfig::counted).collect()
    }

    /// The programs as they are configured in a switch with these ports, by number.
    pub fn programs_at(&self, ports: &[CountedPort]) -> Vec<ProgramConfig> {
        self.programs.iter().map(|program| program.at_ports(ports)).collect()
    }

    /// The programs in a switch whose ports have the numbers of the configuration.
    pub fn programs_here(&self) -> Vec<ProgramConfig> {
        self.programs_at(&self.counted_ports())
    }

    /// The pairs that `xconnect` joins.
    pub fn pairs(&self) -> Result<Vec<(PortId, PortId)>, ConfigError> {
        if self.switch.pairs.is_empty() {
            let ids: Vec<_> = (0..self.ports.len() as PortId).collect();
            return Ok(ids.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect());
        }
        let mut used = Vec::new();
        let names = self.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
        for (i, pair) in self.switch.pairs.iter().enumerate() {
            for name in pair {
                match self.port(name) {
                    None => return wrong(format!("switch.pairs[{i}]"), name, format!("a port's name ({names})")),
                    Some(id) if used.contains(&id) => {
                        return wrong(format!("switch.pairs[{i}]"), name, "each port in one pair");
                    }
                    Some(id) => used.push(id),
                }
            }
        }
        Ok(used.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    }
}
