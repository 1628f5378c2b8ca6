//! `[switch]`: how the switch runs.

use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page::loopback;
use super::{Config, ConfigError, Idle, Length, NAME_PATTERN, check_length, check_name, check_range, wrong};
use crate::json::{Form, large};
use crate::pisa::{BatchOrder, Target};
use crate::switch::{KeyHeaders, TelemetryHeader};
use crate::telemetry::epoch;
use crate::wire::Tunnels;

/// The target that is chosen by what fits.
const AUTO: &str = "auto";

/// How the switch runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchConfig {
    /// Names the control socket, so that several switches run side by side.
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// How the output port is chosen: learn, xconnect or route.
    pub forward: ForwardMode,
    /// Pairs of port names that `xconnect` joins; by default the first with the second, the third
    /// with the fourth, …
    pub pairs: Vec<[String; 2]>,
    /// Cores that poll, one worker each; ports are dealt out over them in turn. Empty: the
    /// machine's last core.
    #[schemars(extend("uniqueItems" = true))]
    pub cores: Vec<usize>,
    /// Length of an epoch.
    pub epoch: Length,
    /// How long packets are under way between the first switch and the last: so long after an
    /// epoch's end they are still counted to it where they leave. At most half an epoch.
    pub transit: Length,
    /// How a packet's class and epoch bit travel between switches: shim, a header of its own, or
    /// dscp, three bits of its IP header.
    pub telemetry_header: TelemetryHeader,
    /// The headers that name a packet's flow to programs: outer, the first IP header, or inner, those
    /// of the packet inside a tunnel (VXLAN, Geneve, GRE, GTP-U, MPLS, IP in IP).
    pub key: KeyHeaders,
    /// How long the results of past epochs are kept.
    pub history: Length,
    /// The hardware whose limits the pipeline must keep: rmt, tofino, tofino2, or software; auto
    /// takes the first of them that fits, software for several programs only.
    #[schemars(extend("enum" = ["auto", "tofino", "tofino2", "rmt", "software"]))]
    pub target: String,
    /// Whether a burst goes through the stages packet by packet or stage by stage, or as takes each
    /// program less time (fastest). The results are the same.
    pub order: BatchOrderConfig,
    /// Packet buffers; by default what the ports' queues need.
    #[schemars(range(min = 256, max = 1 << 24))]
    pub buffers: Option<u32>,
    /// MAC addresses that `learn` remembers.
    #[schemars(range(min = 1, max = 1 << 20))]
    pub mac_table: u32,
    /// Silence after which `learn` forgets a MAC address.
    pub mac_age: Length,
    /// The action of `learn` for frames to 01:80:c2:00:00:00 to 0f, as of STP, LACP and LLDP: drop,
    /// or forward. PAUSE frames (01:80:c2:00:00:01) are dropped with either.
    pub link_local: LinkLocal,
    /// Routes of each family that `route` has room for; every own address takes four.
    #[schemars(range(min = 16, max = 1 << 20))]
    pub route_table: u32,
    /// Neighbours that `route` remembers.
    #[schemars(range(min = 1, max = 1 << 20))]
    pub neighbour_table: u32,
    /// The action for packets that no rule of the access control list decides: permit or deny.
    pub acl_default: AclDefault,
    /// TCAM rows that the access control list may take.
    #[schemars(range(min = 1, max = 4096))]
    pub acl_rows: u32,
    /// Hash polynomials from this seed instead of secret ones, so that two runs give the same
    /// tables.
    #[serde(with = "large")]
    #[schemars(with = "Option<Form>")]
    pub reproducible: Option<u64>,
    /// true: fail without huge pages; false: never use them. By default they are used if there are
    /// any.
    pub huge_pages: Option<bool>,
    /// Keep the rights that changing ports at run time needs. false: give them up, once the ports
    /// are open.
    pub runtime_ports: bool,
    /// The user to become once the ports are open.
    pub user: Option<String>,
    /// The longest that a packet may wait for a worker that sleeps because nothing came; "off":
    /// workers never sleep.
    pub idle: Idle,
    /// Address of `/metrics` over HTTP: a loopback address and port, such as 127.0.0.1:9469.
    /// Left out: nowhere.
    #[schemars(regex(pattern = r"^(127(\.[0-9]{1,3}){3}|\[[0:]*:0*1\]):[0-9]{1,5}$"))]
    pub metrics: Option<String>,
    /// Number of heavy flows that metrics name, of each program. 0: metrics name no flows.
    #[schemars(range(max = 100))]
    pub metrics_flows: u32,
}

/// Default number of heavy flows that metrics name.
pub const METRICS_FLOWS: u32 = 10;
/// Maximum number of them: each is a series of a time series database.
pub const MAX_METRICS_FLOWS: u32 = 100;

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            name: "weir".into(),
            forward: ForwardMode::Learn,
            pairs: Vec::new(),
            cores: Vec::new(),
            epoch: Length(Duration::from_nanos(epoch::DEFAULT_LENGTH)),
            transit: Length(Duration::from_nanos(epoch::DEFAULT_TRANSIT)),
            telemetry_header: TelemetryHeader::default(),
            key: KeyHeaders::default(),
            history: Length(Duration::from_secs(60)),
            target: AUTO.into(),
            order: BatchOrderConfig::Fastest,
            buffers: None,
            mac_table: 8192,
            mac_age: Length(Duration::from_secs(300)),
            link_local: LinkLocal::Drop,
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
            metrics_flows: METRICS_FLOWS,
        }
    }
}

/// How the output port is chosen.
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

/// The action of `learn` for frames that end at the next bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LinkLocal {
    #[default]
    Drop,
    /// Forward them like other multicast, but for PAUSE frames.
    Forward,
}

/// The action for packets that no rule decides.
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
pub enum BatchOrderConfig {
    #[default]
    Fastest,
    Packet,
    Stage,
}

impl From<BatchOrderConfig> for BatchOrder {
    fn from(order: BatchOrderConfig) -> Self {
        match order {
            BatchOrderConfig::Fastest => BatchOrder::Fastest,
            BatchOrderConfig::Packet => BatchOrder::PacketMajor,
            BatchOrderConfig::Stage => BatchOrder::StageMajor,
        }
    }
}

impl SwitchConfig {
    /// The tunnels whose inner flows are measured, if any are. Where the DSCP is the telemetry header,
    /// a packet without IP before its MPLS labels has no place for its class, and is not measured.
    pub fn tunnels(&self) -> Option<Tunnels> {
        let mpls_on_ethernet = self.telemetry_header == TelemetryHeader::Shim;
        (self.key == KeyHeaders::Inner).then_some(Tunnels { mpls_on_ethernet })
    }

    /// Checks the constraints that the types do not express.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        check_name("switch.name", &self.name)?;
        if self.target != AUTO && Target::by_name(&self.target).is_none() {
            return wrong("switch.target", &self.target, "one of auto, tofino, tofino2, rmt, software");
        }
        check_length("switch.epoch", self.epoch, Duration::from_millis(1), Duration::from_secs(3600))?;
        check_length("switch.transit", self.transit, Duration::ZERO, Duration::from_secs(1800))?;
        check_length("switch.history", self.history, Duration::ZERO, Duration::from_secs(3600))?;
        check_length("switch.mac_age", self.mac_age, Duration::from_secs(1), Duration::from_secs(1_000_000))?;
        check_range("switch.mac_table", self.mac_table, 1, 1 << 20)?;
        check_range("switch.route_table", self.route_table, 16, 1 << 20)?;
        check_range("switch.neighbour_table", self.neighbour_table, 1, 1 << 20)?;
        check_range("switch.acl_rows", self.acl_rows, 1, 4096)?;
        check_range("switch.metrics_flows", self.metrics_flows, 0, MAX_METRICS_FLOWS)?;
        if let Some(longest) = self.idle.0 {
            check_length("switch.idle", Length(longest), Duration::from_micros(1), Duration::from_secs(1))?;
        }
        if let Some(buffers) = self.buffers {
            check_range("switch.buffers", buffers, 256, 1 << 24)?;
        }
        let mut cores = self.cores.clone();
        cores.sort_unstable();
        if let Some(pair) = cores.windows(2).find(|pair| pair[0] == pair[1]) {
            return wrong("switch.cores", pair[0], "each core at most once");
        }
        Ok(())
    }
}

impl Config {
    /// The address of metrics over TCP. There is no authentication, so it must be a loopback
    /// address.
    pub fn metrics(&self) -> Result<Option<SocketAddr>, ConfigError> {
        let Some(text) = &self.switch.metrics else { return Ok(None) };
        loopback("switch.metrics", text, 9469).map(Some)
    }

    /// The targets that the pipeline may be placed on, in the order in which they are tried.
    /// `beyond_chips` says that no chip computes what a program does.
    pub fn targets(&self, beyond_chips: bool) -> Vec<Target> {
        if let Some(target) = Target::by_name(&self.switch.target) {
            return vec![target];
        }
        let software = (self.programs.len() > 1 || beyond_chips).then_some(Target::SOFTWARE);
        [Target::RMT, Target::TOFINO, Target::TOFINO2].into_iter().chain(software).collect()
    }
}
