//! The simulated network: many switches, the links between them, losses and a virtual clock, deterministic from a seed.
//!
//! Every switch is a [`Switch`](crate::switch::Switch) that routes, and takes real packets with real shims through
//! [`Switch::process`](crate::switch::Switch::process), as live ones do. What the simulation adds are the wires: a packet that a switch
//! puts into a queue arrives at the other end of the link a delay later, unless it is lost on the way. Whoever asks is
//! told of each flow how many packets entered, arrived, and were lost where: the truth beside which the programs' answers stand.
//!
//! Time goes on in windows no longer than a link's delay. Within one, a port's packets are taken in bursts, as a poll loop does; each
//! keeps its own time to the nanosecond, and a burst has that of its first packet.

mod addresses;
mod calendar;
pub mod graph;
pub mod loss;
mod network;
mod packet;
pub mod topology;
mod traffic;

pub use addresses::Place;
pub use loss::{Loss, LossError, Victims};
pub use network::{Crossed, Network, Node};
pub use topology::{Shape, Topology, TopologyError};
pub use traffic::{Generation, SimFlow, Sums, Where};

use crate::assemble::AssembleError;
use crate::config::ConfigError;
use crate::epoch::Nanos;
use crate::program::ProgramConfig;
use crate::trace::Workload;

/// All that decides a simulated network.
#[derive(Clone, Debug)]
pub struct Setup {
    pub topology: Topology,
    /// What the switches run that have hosts.
    pub programs: Vec<ProgramConfig>,
    /// All switches run them.
    pub everywhere: bool,
    /// Its seed decides everything that is drawn: flows, hosts, losses, hash polynomials.
    pub workload: Workload,
    pub losses: Vec<Loss>,
    /// Length of an epoch.
    pub epoch: Nanos,
    /// Of every link, hosts' links too.
    pub delay: Nanos,
    /// Bits a second of every link; none for links that take everything at once.
    pub rate: Option<u64>,
    /// For so long a packet waits for a busy link; after that it is lost.
    pub patience: Nanos,
}

impl Setup {
    /// The longest that a packet is under way between its first and its last switch.
    pub fn transit_time(&self) -> Nanos {
        let waits = if self.rate.is_some() { self.patience } else { 0 };
        Nanos::from(self.topology.diameter()) * (self.delay + waits)
    }

    /// The flows that lose packets.
    pub fn victims(&self) -> Option<Victims> {
        self.losses.iter().find_map(|loss| if let Loss::Flows(victims) = loss { Some(*victims) } else { None })
    }
}

/// Why a network cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error("10.0.0.0/8 has no room for the hosts of this topology")]
    TooManyHosts,
    #[error("an epoch of {epoch} ns is too short: packets are under way for up to {transit} ns")]
    EpochTooShort { epoch: Nanos, transit: Nanos },
    #[error("--loss link={link}: the topology's links are 0 to {}", links.saturating_sub(1))]
    NoLink { link: u32, links: u32 },
    #[error("workload: ipv6={0} is not simulated; hosts have IPv4 addresses")]
    Ipv6(f64),
}

impl From<ConfigError> for SimError {
    fn from(error: ConfigError) -> Self {
        Self::Assemble(error.into())
    }
}
