//! The simulated network: many switches, the links between them, losses and a virtual clock,
//! deterministic from a seed.
//!
//! Every switch is a [`Switch`](crate::switch::Switch) that routes, and takes real packets with
//! real shims through [`Switch::process`](crate::switch::Switch::process), as live ones do. What
//! the simulation adds are the wires: a packet that a switch puts into a queue arrives at the other
//! end of the link a delay later, unless it is lost on the way. Whoever asks is told of each flow
//! how many packets entered, arrived, and were lost where: the truth beside which the programs'
//! answers stand.
//!
//! Time goes on in windows no longer than a link's delay. Within one, a port's packets are taken in
//! bursts, as a poll loop does; each keeps its own time to the nanosecond, and a burst has that of
//! its first packet.

mod addresses;
mod audit;
mod build;
mod calendar;
mod controller;
pub mod fault;
pub mod graph;
mod keys;
mod ledger;
pub mod loss;
mod network;
mod node;
mod own;
mod packet;
mod queue;
pub mod report;
mod routes;
mod simulation;
mod source;
pub mod topology;
mod traffic;
pub mod transport;

use self::calendar::MAX_WINDOWS;
use self::fault::SwitchName;
pub use addresses::{Addresses, Place, host_mac, host_port, link_port, port_mac};
pub use audit::Audit;
pub use fault::Fault;
pub use loss::{Loss, LossError, Victims};
pub use network::{Crossed, Network};
pub use node::Node;
pub use own::OwnSettings;
pub use report::{EpochReport, ProgramReport};
pub use routes::RecomputedRoutes;
pub use simulation::Simulation;
pub use topology::{Shape, Topology, TopologyError};
pub use traffic::{Generation, SimFlow, Sums, Traffic, Where};
pub use transport::{Transport, TransportReport};

use crate::assemble::AssembleError;
use crate::config::ConfigError;
use crate::network::controller::JoinError;
use crate::pisa::hash::HashFamily;
use crate::program::{Needs, ProgramConfig};
use crate::switch::TelemetryHeader;
use crate::telemetry::epoch::Nanos;
use crate::trace::Workload;
use crate::wire::Pattern;

/// The longest frame with FCS, preamble and gap, and two shims.
const LONGEST_BITS: u64 = 1550 * 8;

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
    /// For so long after an epoch's end its packets may leave; then its records are collected.
    pub transit: Nanos,
    /// From a switch to the controller, and back.
    pub latency: Nanos,
    /// Whether parameters follow what epochs show, or stay as they are.
    pub shifts: bool,
    /// Of every link, hosts' links too.
    pub delay: Nanos,
    /// Bits a second of every link; none for links that take everything at once.
    pub rate: Option<u64>,
    /// For so long a packet waits for a busy link; after that it is lost.
    pub queue_timeout: Nanos,
    /// Hosts that answer, in place of flows that are sent evenly over their epoch.
    pub transport: Option<Transport>,
    /// What goes wrong beside losses.
    pub faults: Vec<Fault>,
    /// How long after the transit time the controller waits for a record; by default an epoch.
    pub wait: Option<Nanos>,
    /// Flows whose packets are counted in each epoch.
    pub patterns: Vec<Pattern>,
    /// Others ask the histories while the simulation goes on: they keep more epochs, and without faults answers
    /// are final as soon as they are there.
    pub watched: bool,
    pub fabric: Fabric,
}

impl Setup {
    /// A network without losses and faults: epochs of 50 ms, a transit time of 10 ms, and links of 10 µs
    /// that take everything at once.
    pub fn new(topology: Topology, programs: Vec<ProgramConfig>, workload: Workload) -> Self {
        Self {
            topology,
            programs,
            everywhere: false,
            workload,
            losses: Vec::new(),
            epoch: 50_000_000,
            transit: 10_000_000,
            latency: 1_000_000,
            shifts: true,
            delay: 10_000,
            rate: None,
            queue_timeout: 0,
            transport: None,
            faults: Vec::new(),
            wait: None,
            patterns: Vec::new(),
            watched: false,
            fabric: Fabric::default(),
        }
    }
}

/// What switches and the links between them are like.
#[derive(Clone, Debug, PartialEq)]
pub struct Fabric {
    pub telemetry_header: TelemetryHeader,
    /// Of each switch. Its ports are dealt out over them in turn.
    pub workers: usize,
    /// The share of packets that may be fragmented and are too long for every second port of the
    /// switches without hosts. Where all switches have hosts, for every second port between
    /// switches.
    pub fragmented: f64,
    /// Settings of single switches' programs.
    pub own: Vec<OwnSettings>,
}

impl Default for Fabric {
    fn default() -> Self {
        Self { telemetry_header: TelemetryHeader::default(), workers: 1, fragmented: 0.0, own: Vec::new() }
    }
}

impl Setup {
    /// Whether all switches run the programs: it was asked for, or one of them must.
    pub fn runs_everywhere(&self) -> bool {
        self.everywhere || must_run_everywhere(&self.programs)
    }

    /// The longest that a packet is under way between its first and its last switch.
    pub fn transit_time(&self) -> Nanos {
        Nanos::from(self.topology.diameter()) * self.link_time()
    }

    /// The longest that a packet is on its way from one switch to the next.
    fn link_time(&self) -> Nanos {
        let longest = LONGEST_BITS * 1_000_000_000;
        self.delay + self.rate.map_or(0, |rate| self.queue_timeout + longest.div_ceil(rate.max(1)))
    }

    /// The number of the first epoch, as clocks show it. With faults it lies shortly before the
    /// number that packets carry begins anew, and has room before it for clocks that are slow.
    fn first_epoch(&self) -> u64 {
        if self.faults.is_empty() { 0 } else { (1 << 20) - 16 }
    }

    fn check(&self) -> Result<(), SimError> {
        let (epoch, transit, path) = (self.epoch, self.transit, self.transit_time());
        if self.workload.ipv6 > 0.0 {
            return Err(SimError::Ipv6(self.workload.ipv6));
        }
        if transit < path {
            return Err(SimError::TransitTooShort { transit, path });
        }
        let (link, delay) = (self.link_time() + fault::longest(&self.faults), self.delay);
        for fault in &self.faults {
            if let Fault::Pause { switch: SwitchName::One(name), .. }
            | Fault::Clock { switch: SwitchName::One(name), .. } = fault
                && !self.topology.switches().contains(name)
            {
                return Err(SimError::NoSwitch { name: name.clone() });
            }
        }
        for loss in &self.losses {
            if let Loss::Switch { switch: SwitchName::One(name), .. } = loss
                && !self.topology.switches().contains(name)
            {
                return Err(SimError::NoSwitch { name: name.clone() });
            }
        }
        self.check_own()?;
        self.check_paths()?;
        let max = self.first_epoch() * epoch;
        if self.faults.iter().any(|fault| matches!(fault, Fault::Clock { ahead, .. } if ahead.unsigned_abs() >= max)) {
            return Err(SimError::ClockTooSlow { max });
        }
        if link / delay.clamp(1, epoch.max(1)) > MAX_WINDOWS {
            return Err(SimError::DelayTooShort { delay, link });
        }
        // Switches take at most half an epoch for it.
        let min = 2 * (transit + self.latency);
        if epoch <= min { Err(SimError::EpochTooShort { epoch, min }) } else { Ok(()) }
    }

    /// Checks that several switches run no program that counts flows on their paths and whose flows have
    /// none.
    fn check_paths(&self) -> Result<(), SimError> {
        let switches =
            if self.runs_everywhere() { self.topology.switches().len() } else { self.topology.edges().len() };
        let mut counting = self.programs.iter().filter(|program| program.needs_routes());
        match counting.find_map(|program| Some((program.name(), program.local_only()?))) {
            Some((program, why)) if switches > 1 => Err(SimError::LocalOnly { program, why }),
            _ => Ok(()),
        }
    }

    /// The flows that lose packets.
    pub fn victims(&self) -> Option<Victims> {
        self.losses.iter().find_map(|loss| if let Loss::Flows(victims) = loss { Some(*victims) } else { None })
    }
}

/// Whether one of the programs is for every switch of a path, or writes digests, which every switch of a path
/// must.
pub fn must_run_everywhere(programs: &[ProgramConfig]) -> bool {
    // What a program needs does not depend on its hash functions.
    let hashes = HashFamily::reproducible(0);
    let writes_digests =
        |program: &ProgramConfig| program.build("", &hashes).is_ok_and(|built| built.needs().contains(Needs::DIGEST));
    programs.iter().any(|program| program.is_on_every_hop() || writes_digests(program))
}

/// Why a network cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error("10.0.0.0/8 has no room for the hosts of this topology")]
    TooManyHosts,
    #[error("--transit {transit} ns: packets are under way for up to {path} ns")]
    TransitTooShort { transit: Nanos, path: Nanos },
    #[error(
        "--delay {delay} ns is too short: a packet may be on a link for {link} ns, by --queue-timeout, the time that --rate gives the longest frame, and --fault, and that is more than {MAX_WINDOWS} times as long"
    )]
    DelayTooShort { delay: Nanos, link: Nanos },
    #[error(
        "--epoch {epoch} ns is too short: an update could not come in time within {min} ns: twice the transit time and twice the way to the controller"
    )]
    EpochTooShort { epoch: Nanos, min: Nanos },
    #[error("--loss link={link}: the topology's links are 0 to {}", links.saturating_sub(1))]
    NoLink { link: u32, links: u32 },
    #[error("--fault, --loss: the topology has no switch {name:?}")]
    NoSwitch { name: String },
    #[error("--switch {own}: {why}")]
    Own { own: String, why: String },
    #[error("--program {program}: {why}")]
    LocalOnly { program: &'static str, why: &'static str },
    #[error("--fault clock: by at most {max} ns with epochs as short as these")]
    ClockTooSlow { max: Nanos },
    #[error("--transport: links need a rate, such as --rate 10Gbps")]
    TransportNeedsRate,
    #[error("--transport: the workload's law must have sizes in bytes: dctcp, hadoop, vl2, keyvalue or cache")]
    TransportNeedsSizes,
    #[error("--transport: the topology has one host")]
    TransportNeedsHosts,
    #[error("--transport: hosts answer, so flows lose packets on links alone: --loss link=all,rate=0.1%")]
    TransportWithVictims,
    #[error(
        "--transport feedback=digest: no program writes the utilisation of a packet's way into its digest; feedback=int needs none"
    )]
    NoUtilisation,
    #[error("workload: ipv6={0} is not simulated; hosts have IPv4 addresses")]
    Ipv6(f64),
}

impl From<ConfigError> for SimError {
    fn from(error: ConfigError) -> Self {
        Self::Assemble(error.into())
    }
}

#[cfg(test)]
pub(crate) mod tests;
