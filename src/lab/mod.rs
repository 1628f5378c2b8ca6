//! A live network of switches and hosts on this machine, from a topology of the simulated network.
//!
//! Each switch and each host has a network namespace of its own, which a process holds open; links are veth
//! pairs between them. Addresses, routes and neighbours are those of the simulated network, and each switch is
//! a `weir run` with a file of its own. Namespaces and interfaces end with the processes in them, and each
//! process of a lab has the lab's [`Token`] in its environment. So a lab is removed by ending the processes
//! with its token, however it came to be as it is.

mod namespace;
mod plan;
mod processes;
mod record;
mod start;

use std::path::PathBuf;

pub use namespace::{Namespace, Rights};
pub use plan::{Machine, Plan, Request, Wire, name_of};
pub use processes::Token;
pub use record::{HostRecord, Lab, LinkRecord, Record, Starting, SwitchRecord};
pub use start::start;

use crate::config::ConfigError;
use crate::sim::TopologyError;

/// Most switches of a lab for each CPU that the process may use.
pub const SWITCHES_PER_CPU: usize = 16;
/// Most hosts of a lab.
pub const MAX_HOSTS: usize = 256;

/// Why a lab cannot be started, asked or removed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("no lab can be called {0:?}: 1 to 32 letters, digits, -, _ and ., and neither - nor . first")]
    Name(String),
    #[error("there is a lab {name} already, in {}; `weir lab down {name}` removes it, --name gives this one another name", directory.display())]
    Exists { name: String, directory: PathBuf },
    #[error("there is no lab {name}; {}", there_are(labs))]
    Absent { name: String, labs: Vec<String> },
    #[error("which lab? --name NAME; {}", there_are(labs))]
    Which { labs: Vec<String> },
    #[error("lab {lab} has no node {node}; its nodes are {}", nodes.join(", "))]
    NoNode { lab: String, node: String, nodes: Vec<String> },
    #[error("{lab}: {node} does not run any more: `weir lab status {lab}`")]
    NodeEnded { lab: String, node: String },
    #[error("{}: a switch or controller answers there already; --name gives the lab another name", .0.display())]
    Taken(PathBuf),
    #[error("{}: longer than the {max} bytes that the path of a socket may have; give a shorter --name or --dir", path.display())]
    LongPath { path: PathBuf, max: usize },
    #[error("{0}")]
    TooLarge(String),
    #[error("--loss {0}: a lab has losses of links and switches; flows are chosen by `weir port fault`")]
    Victims(String),
    #[error("--loss link={link}: the topology's links are 0 to {}", links.saturating_sub(1))]
    NoLink { link: u32, links: usize },
    #[error("--loss: the topology has no switch {0:?}")]
    NoSwitch(String),
    #[error("10.0.0.0/8 has no room for the hosts of this topology")]
    TooManyHosts,
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error("switch {switch}: {error}")]
    Switch { switch: String, error: String },
    #[error("controller: {0}")]
    Controller(ConfigError),
    #[error("{tool} is not on the PATH (package {package})")]
    NoTool { tool: &'static str, package: &'static str },
    #[error(
        "no network namespace can be made: as root: {root}; in a user namespace: {user}. `weir doctor` says what forbids it"
    )]
    NoNamespaces { root: String, user: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{}: {why}: not the record of a lab; remove its directory when none of its processes runs", path.display())]
    Record { path: PathBuf, why: String },
    #[error("{what}: {why}")]
    Command { what: String, why: String },
    #[error("{node} has ended ({status}); the end of its log:\n{log}")]
    Ended { node: String, status: String, log: String },
    #[error("not ready after {seconds} s: {what}")]
    NotReady { what: String, seconds: u64 },
    #[error("interrupted")]
    Interrupted,
    #[error("processes of the lab do not end: {}", numbers(.0))]
    Left(Vec<u32>),
    #[error("{error}; and what was started could not be removed: {cleanup}")]
    Unclean { error: Box<LabError>, cleanup: Box<LabError> },
}

impl LabError {
    /// Whether the command line or the topology is to blame.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Name(_)
                | Self::Exists { .. }
                | Self::Absent { .. }
                | Self::Which { .. }
                | Self::NoNode { .. }
                | Self::Taken(_)
                | Self::LongPath { .. }
                | Self::TooLarge(_)
                | Self::Victims(_)
                | Self::NoLink { .. }
                | Self::NoSwitch(_)
                | Self::TooManyHosts
                | Self::Topology(_)
                | Self::Switch { .. }
                | Self::Controller(_)
        )
    }

    fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        |source| Self::Io { path, source }
    }
}

fn there_are(labs: &[String]) -> String {
    if labs.is_empty() { "no lab is there".into() } else { format!("there are {}", labs.join(", ")) }
}

fn numbers(processes: &[u32]) -> String {
    processes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
