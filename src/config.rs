//! The configuration: TOML or command-line words, checked into one type.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::tables::MirrorConfig;
use crate::epoch;
use crate::forward::acl::RuleConfig;
use crate::forward::rate::Limit;
use crate::forward::route::Net;
use crate::forward::text::PortNames;
use crate::forward::vlan::VlanList;
use crate::pisa::{MAX_PORTS, Order, PortId, Target};
use crate::port::{Dev, FaultSpec};
use crate::program::ProgramConfig;
use crate::switch::Role;

mod api;
mod controller;
mod idle;
mod policy;
mod routes;
mod words;

pub use api::{ApiConfig, SocketMode, TlsConfig};
pub use controller::ControllerConfig;
pub use idle::Idle;
pub use routes::{NeighbourConfig, RouteConfig};

/// All that `weir run` needs to know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How the switch runs.
    pub switch: SwitchConfig,
    /// Who may ask it.
    pub api: ApiConfig,
    /// Who it reports to.
    pub controller: ControllerConfig,
    /// The ports, numbered from 0 in this order.
    #[serde(rename = "port")]
    pub ports: Vec<PortConfig>,
    /// The access control list: rules in their order, of which the first that matches a packet decides.
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

/// The target that is chosen by what fits.
const AUTO: &str = "auto";

/// How the switch runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchConfig {
    /// Names the control socket, so that several switches run side by side.
    pub name: String,
    /// What decides the output port: learn, xconnect or route.
    pub forward: ForwardMode,
    /// Pairs of port names that `xconnect` joins; by default the first with the second, the third with the fourth, …
    pub pairs: Vec<[String; 2]>,
    /// Cores that poll, one worker each; ports are dealt out over them in turn. Empty: the machine's last core.
    pub cores: Vec<usize>,
    /// Length of an epoch.
    pub epoch: Length,
    /// How long packets are under way between the first switch and the last: so long after an epoch's end they are still counted to
    /// it where they leave. At most half an epoch.
    pub transit: Length,
    /// How long the results of past epochs are kept.
    pub history: Length,
    /// The hardware whose limits the pipeline must keep: rmt, tofino, tofino2, or software; auto takes the first of them that fits,
    /// software for several programs only.
    pub target: String,
    /// Whether a burst goes through the stages packet by packet or stage by stage. The results are the same.
    pub order: OrderConfig,
    /// Packet buffers; by default what the ports' queues need.
    #[schemars(range(min = 256, max = 1 << 24))]
    pub buffers: Option<u32>,
    /// Stations that `learn` remembers.
    #[schemars(range(min = 1, max = 1 << 20))]
    pub mac_table: u32,
    /// Silence after which `learn` forgets a station.
    pub mac_age: Length,
    /// Routes of each family that `route` has room for; every own address takes four.
    #[schemars(range(min = 16, max = 1 << 20))]
    pub route_table: u32,
    /// Neighbours that `route` remembers.
    #[schemars(range(min = 1, max = 1 << 20))]
    pub neighbour_table: u32,
    /// What becomes of packets that no rule of the access control list decides: permit or deny.
    pub acl_default: AclDefault,
    /// TCAM rows that the access control list may take.
    #[schemars(range(min = 1, max = 4096))]
    pub acl_rows: u32,
    /// Hash polynomials from this seed instead of secret ones, so that two runs give the same tables.
    pub reproducible: Option<u64>,
    /// true: fail without huge pages; false: never use them. By default they are used if there are any.
    pub huge_pages: Option<bool>,
    /// Keep the rights that changing ports at run time needs. false: give them up, once the ports are open.
    pub runtime_ports: bool,
    /// The user to become once the ports are open.
    pub user: Option<String>,
    /// The longest that a packet may wait for a worker that sleeps because nothing came; "off": workers never sleep.
    pub idle: Idle,
    /// Where `/metrics` is served over HTTP: a loopback address and port, such as 127.0.0.1:9469. Left out: nowhere.
    pub metrics: Option<String>,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            name: "weir".into(),
            forward: ForwardMode::Learn,
            pairs: Vec::new(),
            cores: Vec::new(),
            epoch: Length(Duration::from_nanos(epoch::DEFAULT_LENGTH)),
            transit: Length(Duration::from_nanos(epoch::DEFAULT_TRANSIT)),
            history: Length(Duration::from_secs(60)),
            target: AUTO.into(),
            order: OrderConfig::Packet,
            buffers: None,
            mac_table: 8192,
            mac_age: Length(Duration::from_secs(300)),
            route_table: 16_384,
            neighbour_table: 4096,
            acl_default: AclDefault::Permit,
            acl_rows: 512,
            reproducible: None,
            huge_pages: None,
            runtime_ports: true,
            user: None,
            idle: Idle::default(),
            metrics: None,
        }
    }
}

/// What decides the output port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ForwardMode {
    /// VLAN-aware L2 learning.
    #[default]
    Learn,
    /// Port pairs.
    Xconnect,
    /// IPv4 and IPv6 routing.
    Route,
}

/// What becomes of packets that no rule decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AclDefault {
    #[default]
    Permit,
    Deny,
}

/// How a burst goes through the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum OrderConfig {
    #[default]
    Packet,
    Stage,
}

impl From<OrderConfig> for Order {
    fn from(order: OrderConfig) -> Self {
        match order {
            OrderConfig::Packet => Order::PacketMajor,
            OrderConfig::Stage => Order::StageMajor,
        }
    }
}

/// One port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortConfig {
    /// What the port is called in reports and commands.
    pub name: String,
    /// tap:NAME, veth:IFACE, xdp:IFACE, pci:ADDR, memif:ID, vhost:PATH, virtio-user:PATH, pcap:IN,OUT, ring:NAME, null or
    /// memory.
    #[schemars(with = "String")]
    pub dev: Dev,
    /// host, or fabric: another weir is there, and packets carry the telemetry shim.
    #[serde(default)]
    pub role: Role,
    /// Largest IP packet, in bytes.
    #[schemars(range(min = 68, max = 9216))]
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// With `forward = "route"`: the switch's own addresses on this port and their networks, as 10.0.1.1/24 or fd00:1::1/64.
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
    /// What may be received at most: 1Gbps, 500kpps or 1Gbps,burst=64KB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_limit: Option<Limit>,
    /// What may be sent at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_limit: Option<Limit>,
    /// Receive queues; by default one for each worker, where the device has several.
    #[serde(default)]
    #[schemars(range(min = 1, max = 64))]
    pub queues: Option<u16>,
    /// Of `switch.cores`, those that poll the port's queues, in turn. Empty: the queues are dealt out over all.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// Whether frames for other stations are taken in.
    #[serde(default = "default_promiscuous")]
    pub promiscuous: bool,
    /// Faults that packets meet here, as rx:drop=1%,dst=10.0.0.2;tx:delay=5ms.
    #[serde(default)]
    pub fault: Option<FaultSpec>,
}

impl PortConfig {
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

/// A length of time, written as "67ms", "1s" or "67108864ns".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length(pub Duration);

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text)
            .map(Self)
            .map_err(|e| format!("{text:?} is not a length of time ({e}); write 50ms, 1s, 67108864ns"))
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl Serialize for Length {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl serde::de::Visitor<'_> for Words {
            type Value = Length;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time in quotes: \"50ms\", \"1s\", \"67108864ns\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Length, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Words)
    }
}

impl JsonSchema for Length {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "description": "A length of time: 50ms, 1s, 67108864ns"})
    }
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: {source}", place(path, *line))]
    InFile { path: PathBuf, line: Option<usize>, source: Box<ConfigError> },
    /// Not TOML, or a value of the wrong kind; what stands there comes with it.
    #[error("{why}\n    {text}")]
    Syntax { line: usize, text: String, why: String },
    #[error("{key} = {value}: {right}")]
    Value { key: String, value: String, right: String },
    #[error("--program {text}: {why}")]
    Program { text: String, why: String },
}

fn place(path: &Path, line: Option<usize>) -> String {
    line.map_or_else(|| path.display().to_string(), |line| format!("{}:{line}", path.display()))
}

fn wrong<T>(key: impl Into<String>, value: impl fmt::Display, right: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError::Value { key: key.into(), value: value.to_string(), right: right.into() })
}

impl Config {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
        Self::parse(&text).map_err(|source| {
            let line = match &source {
                ConfigError::Value { key, .. } => words::line_of(&text, key),
                ConfigError::Syntax { line, .. } => Some(*line),
                _ => None,
            };
            ConfigError::InFile { path: path.into(), line, source: Box::new(source) }
        })
    }

    /// Reads and checks a file's text.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let syntax = |error| words::wrong_program(text).unwrap_or_else(|| words::syntax(text, &error));
        let config: Self = toml::from_str(text).map_err(syntax)?;
        config.validate()?;
        Ok(config)
    }

    /// The JSON Schema of the file.
    pub fn schema() -> schemars::Schema {
        schemars::schema_for!(Self)
    }

    /// Checks what the types alone do not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let switch = &self.switch;
        check_name("switch.name", &switch.name)?;
        if switch.target != AUTO && Target::by_name(&switch.target).is_none() {
            return wrong("switch.target", &switch.target, "one of auto, tofino, tofino2, rmt, software");
        }
        check_length("switch.epoch", switch.epoch, Duration::from_millis(1), Duration::from_secs(3600))?;
        check_length("switch.transit", switch.transit, Duration::ZERO, Duration::from_secs(1800))?;
        check_length("switch.history", switch.history, Duration::ZERO, Duration::from_secs(3600))?;
        check_length("switch.mac_age", switch.mac_age, Duration::from_secs(1), Duration::from_secs(1_000_000))?;
        check_range("switch.mac_table", switch.mac_table, 1, 1 << 20)?;
        check_range("switch.route_table", switch.route_table, 16, 1 << 20)?;
        check_range("switch.neighbour_table", switch.neighbour_table, 1, 1 << 20)?;
        check_range("switch.acl_rows", switch.acl_rows, 1, 4096)?;
        if let Some(longest) = switch.idle.0 {
            check_length("switch.idle", Length(longest), Duration::from_micros(1), Duration::from_secs(1))?;
        }
        if let Some(buffers) = switch.buffers {
            check_range("switch.buffers", buffers, 256, 1 << 24)?;
        }
        self.metrics()?;
        let mut cores = switch.cores.clone();
        cores.sort_unstable();
        if let Some(pair) = cores.windows(2).find(|pair| pair[0] == pair[1]) {
            return wrong("switch.cores", pair[0], "each core at most once");
        }
        self.api.validate()?;
        self.controller.validate(&self.programs)?;
        self.check_ports()?;
        self.check_policy()?;
        for (i, program) in self.programs.iter().enumerate() {
            words::check(program).map_err(|wrong| wrong.at(&format!("program[{i}]")))?;
        }
        self.plan(|name| self.port(name))?;
        self.pairs().map(drop)
    }

    /// Where metrics are served over TCP. Nobody is asked for a password there, so only to programs of this machine.
    pub fn metrics(&self) -> Result<Option<SocketAddr>, ConfigError> {
        let Some(text) = &self.switch.metrics else { return Ok(None) };
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Some(address)),
            _ => wrong("switch.metrics", text, "a loopback address and a port: 127.0.0.1:9469 or [::1]:9469"),
        }
    }

    fn check_ports(&self) -> Result<(), ConfigError> {
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
        }
        Ok(())
    }

    fn check_queues(&self, i: usize, port: &PortConfig) -> Result<(), ConfigError> {
        if let Some(queues) = port.queues {
            check_range(format!("port[{i}].queues"), queues.into(), 1, 64)?;
        }
        let cores = &self.switch.cores;
        // Which core it is when none is named is not known here.
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

    /// The number of the port of this name.
    pub fn port(&self, name: &str) -> Option<PortId> {
        self.ports.iter().position(|port| port.name == name).map(|i| i as PortId)
    }

    /// The ports' names, by number.
    pub fn port_names(&self) -> PortNames {
        PortNames::new(self.ports.iter().map(|port| (port.name.clone(), port.role == Role::Fabric)))
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

    /// The targets that the pipeline may be placed on, in the order in which they are tried.
    pub fn targets(&self) -> Vec<Target> {
        if let Some(target) = Target::by_name(&self.switch.target) {
            return vec![target];
        }
        let several = (self.programs.len() > 1).then_some(Target::SOFTWARE);
        [Target::RMT, Target::TOFINO, Target::TOFINO2].into_iter().chain(several).collect()
    }
}

/// Whether a switch or a port can be called this.
pub fn is_name(name: &str) -> bool {
    check_name("", name).is_ok()
}

/// Names stand in file names, metric labels and command lines.
fn check_name(key: &str, name: &str) -> Result<(), ConfigError> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 32 || !name.chars().all(good) || name.starts_with(['-', '.']) {
        return wrong(
            key,
            format!("{name:?}"),
            "1 to 32 letters, digits, '-', '_' and '.', not starting with '-' or '.'",
        );
    }
    Ok(())
}

fn check_range(key: impl Into<String>, value: u32, least: u32, most: u32) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) { Ok(()) } else { wrong(key, value, format!("{least} to {most}")) }
}

fn check_length(key: &str, value: Length, least: Duration, most: Duration) -> Result<(), ConfigError> {
    if (least..=most).contains(&value.0) {
        return Ok(());
    }
    wrong(key, value, format!("{} to {}", Length(least), Length(most)))
}
