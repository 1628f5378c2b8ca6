//! From a configuration to the replicas of a switch and what stands beside them. Every driver
//! starts here.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::config::{Config, ConfigError, ForwardMode, PortConfig, SwitchConfig};
use crate::forward::acl::{self, RuleCounts};
use crate::forward::policy::{Policy, Publisher};
use crate::forward::route::RoutedPort;
use crate::forward::text::PortNames;
use crate::forward::{Forward, Xconnect, XconnectError};
#[cfg(feature = "control")]
use crate::network::server::{State, StateError, StateFile};
use crate::pisa::hash::{Derived, HashFamily};
use crate::pisa::{BudgetError, Layout, Placement, PortId, TableNeed, Target};
use crate::port::FaultSpec;
use crate::program::{AnySchedule, Needs, ProgramConfig, ProgramError};
use crate::switch::{PortInfo, Switch, Telemetry, TelemetryHeader};
use crate::tables::{AclTable, Desired, LimitFeature, MirrorFeature, PortTable, Table, VlanFeature};
use crate::tables::{Learning, Routing};
use crate::telemetry::epoch::{Collecting, EpochClock, Nanos};
use crate::telemetry::{Collector, Settling};

mod lesser;
mod room;

pub use lesser::{Lesser, lesser};

/// Zeroed banks by which each program of a replica can be ahead of the collector.
const SPARES: usize = 2;
/// Banks of each program of a replica: the one in use, and the spares.
pub const BANKS: usize = 1 + SPARES;
/// Names the MAC table to the [`HashFamily`].
const MAC_TABLE_LABEL: &str = "forward/stations";
/// Name to the [`HashFamily`] the table of neighbours, and the two CRCs of the index hash that chooses
/// among gateways, by switch: routers in a row that hash alike would send all flows that come by one
/// gateway of the first to one gateway of the second.
const ROUTER_LABELS: [&str; 3] = ["forward/neighbours", "forward/gateways", "forward/gateways-shared"];

/// Why a configuration makes no switch.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("switch.pairs: {0}")]
    Pairs(#[from] XconnectError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[cfg(feature = "control")]
    #[error("archive.state: {0}")]
    State(#[from] StateError),
    #[error("no random numbers for the hash polynomials: {0}")]
    Randomness(io::Error),
    #[error("{0} and {1} would hash with the same polynomial, under every secret; another label for one of them helps")]
    Clash(Derived, Derived),
    #[error(
        "switch.telemetry_header = dscp: program {0} needs a digest in each packet, for which the DSCP has no room; shim has"
    )]
    Digest(&'static str),
}

/// A switch, ready to be driven.
pub struct Assembly {
    /// One replica for each worker.
    pub switches: Vec<Switch>,
    pub collector: Collector,
    /// There when the switch learns MAC addresses.
    pub learning: Option<Learning>,
    /// There when the switch routes.
    pub routing: Option<Routing>,
    /// The ports as all replicas see them.
    pub ports: Vec<PortInfo>,
    pub placement: Placement,
    /// The tables that can be read and changed while the switch runs, but for those of forwarding.
    pub tables: Vec<Box<dyn Table>>,
    /// Where those tables publish what is set on ports.
    pub publisher: Publisher,
    /// The ports' names as those tables know them.
    pub names: PortNames,
    /// Where the parameters of programs are set, by the program's place.
    pub schedules: Vec<AnySchedule>,
}

/// Builds `replicas` replicas whose epochs have the given length; without one there is a single
/// epoch.
pub fn assemble(config: &Config, epoch: Option<Nanos>, replicas: usize) -> Result<Assembly, AssembleError> {
    config.validate()?;
    let hashes = hashes(config)?;
    let demand = Demand::new(config, &hashes)?;
    let placement = demand.place(config)?;
    let ports: Vec<_> = config.ports.iter().map(port_info).collect();
    ports.iter().zip(0..).for_each(|(port, id)| port.mac.store(NO_MAC | id, Relaxed));
    let named: Vec<_> = (0..).zip(config.ports.iter().map(|port| port.name.clone())).collect();
    let Forwarding { learning, routing, forwards } =
        forwarding(config, &config.pairs()?, &named, &ports, &hashes, replicas)?;
    let programs = config.programs_here();
    let Telemetries { telemetries, collecting, schedules } = telemetries(config, &programs, epoch, &hashes, replicas)?;
    let names = config.port_names();
    let publisher = Publisher::default();
    let (policies, tables) = policy(demand.desired(config), &publisher, &names, replicas);
    let replica = |((forward, telemetry), policy)| {
        Switch::new(ports.clone(), telemetry, forward, config.switch.order.into())
            .with_telemetry_header(config.switch.telemetry_header)
            .with_policy(policy)
    };
    let switches = forwards.into_iter().zip(telemetries).zip(policies).map(replica).collect();
    let mut collector = Collector::new(collecting);
    collector.subscribe(Box::new(Settling::new(&schedules)));
    Ok(Assembly { switches, collector, learning, routing, ports, placement, tables, publisher, names, schedules })
}

/// Number of epochs whose answers a switch keeps.
pub fn kept_epochs(config: &SwitchConfig) -> usize {
    let epochs = config.history.0.as_nanos() / config.epoch.0.as_nanos().max(1);
    usize::try_from(epochs).unwrap_or(usize::MAX).clamp(1, 65_536)
}

/// The hash family of all replicas: secret, or from the configuration's seed. With an archive the
/// secret can be that of a file, which is made when it is not there.
pub fn hashes(config: &Config) -> Result<HashFamily, AssembleError> {
    let random = || HashFamily::random().map_err(AssembleError::Randomness);
    match (config.switch.reproducible, &config.archive.state) {
        (Some(seed), _) => Ok(HashFamily::reproducible(seed)),
        #[cfg(feature = "control")]
        (None, Some(path)) => {
            let file = StateFile::at(path.clone())?;
            if let Some(state) = file.read()? {
                return Ok(state.hashes);
            }
            let state = State { hashes: random()?, salt: 0, controllers: Vec::new() };
            file.write(&state)?;
            Ok(state.hashes)
        }
        (None, _) => random(),
    }
}

/// The replicas' programs, the collector's ends of their rotation, and where parameters are set.
pub struct Telemetries {
    pub telemetries: Vec<Telemetry>,
    pub collecting: Vec<Collecting>,
    pub schedules: Vec<AnySchedule>,
}

/// Builds the programs of all replicas, which are those of the configuration as they are [in this
/// switch](Config::programs_at).
pub fn telemetries(
    config: &Config,
    programs: &[ProgramConfig],
    epoch: Option<Nanos>,
    hashes: &HashFamily,
    replicas: usize,
) -> Result<Telemetries, AssembleError> {
    let (mut telemetries, mut collecting) = (Vec::new(), Vec::new());
    let has_controller = config.controller.at.is_some();
    let schedule = |program: &ProgramConfig| match has_controller && program.is_networked() {
        true => program.waiting_schedule(),
        false => program.schedule(),
    };
    let schedules: Vec<_> = programs.iter().map(schedule).collect();
    let transit = config.switch.transit.nanos();
    for replica in (0..).take(replicas) {
        let programs = schedules.iter().map(|schedule| schedule.dataplane(config.known_as(), hashes));
        let programs = programs.collect::<Result<Vec<_>, _>>()?;
        let clock = EpochClock::new(epoch).with_transit(transit);
        let (telemetry, channels) = Telemetry::new(programs, clock, SPARES);
        let telemetry = telemetry.looking_into(config.switch.tunnels());
        telemetries.push(telemetry.drawing(hashes, config.known_as(), replica));
        collecting.push(channels);
    }
    Ok(Telemetries { telemetries, collecting, schedules })
}

/// Where the pipeline's arrays lie on the first target that they fit; takes no memory for them.
/// When they fit none, the first one's limits are the error, with the key that asks for too much.
///
/// # Errors
/// Also if two names of arrays have the same polynomial.
pub fn place(config: &Config, hashes: &HashFamily) -> Result<Placement, AssembleError> {
    Demand::new(config, hashes)?.place(config)
}

/// The chips that refused a pipeline with target `auto`: each with the key that asks for too much, and
/// with less that would do. Empty when a chip takes the pipeline.
pub fn no_chip(config: &Config, placement: &Placement) -> Vec<(&'static str, String)> {
    let refused = placement.refused.iter().filter(|_| !placement.target.chip);
    refused.map(|error| (error.target(), room::refusal(config, error, &[]).to_string())).collect()
}

/// Resources that the programs of a configuration need.
struct Demand {
    layouts: Vec<Layout>,
    /// The first program that needs a digest.
    digest: Option<&'static str>,
    /// A recorder that lists every hash function which programs and tables derive.
    derived: HashFamily,
}

impl Demand {
    /// Builds each program once, without registers.
    fn new(config: &Config, hashes: &HashFamily) -> Result<Self, ProgramError> {
        let mut demand = Self { layouts: Vec::new(), digest: None, derived: hashes.recorder() };
        for program in &config.programs_here() {
            let built = program.build(config.known_as(), &demand.derived)?;
            demand.layouts.push(built.layout());
            demand.digest = demand.digest.or(built.needs().contains(Needs::DIGEST).then(|| program.name()));
        }
        demand.derived.derive(MAC_TABLE_LABEL, 0);
        let of_router = demand.derived.of_switch(&config.switch.name);
        ROUTER_LABELS.iter().for_each(|label| _ = of_router.derive(label, 0));
        Ok(demand)
    }

    fn place(&self, config: &Config) -> Result<Placement, AssembleError> {
        distinct(&self.derived)?;
        // Three bits of the DSCP carry class and epoch, and no digest.
        if let (TelemetryHeader::Dscp, Some(program)) = (config.switch.telemetry_header, self.digest) {
            return Err(AssembleError::Digest(program));
        }
        let with_acl = config.has_acl();
        self.placed(config, with_acl).map_err(|error| {
            let tables = tables(config, with_acl);
            let fits = [Target::RMT, Target::TOFINO, Target::TOFINO2, Target::SOFTWARE]
                .into_iter()
                .filter(|target| Placement::with_tables(*target, &self.layouts, &tables).is_ok())
                .map(|target| target.name);
            room::refusal(config, &error, &fits.collect::<Vec<_>>()).into()
        })
    }

    fn placed(&self, config: &Config, with_acl: bool) -> Result<Placement, BudgetError> {
        let tables = tables(config, with_acl);
        let beyond_chips = self.layouts.iter().any(Layout::is_beyond_chips);
        let mut refused = Vec::new();
        for target in config.targets(beyond_chips) {
            match Placement::with_tables(target, &self.layouts, &tables) {
                Ok(mut placement) => {
                    placement.refused = refused;
                    return Ok(placement);
                }
                Err(error) => refused.push(error),
            }
        }
        Err(refused.swap_remove(0))
    }

    fn desired(&self, config: &Config) -> Desired {
        // Why an access control list could not be added to a configuration that has none.
        let no_room = self.placed(config, true).err().map(|error| error.to_string());
        Desired {
            acl: config.acl.clone(),
            acl_setup: config.acl_setup(no_room),
            limits: config.limits(),
            mirrors: config.mirrors.clone(),
            vlans: config.vlans(),
        }
    }
}

/// Names decide which arrays share a polynomial, not the secret, so this fails everywhere or
/// nowhere.
fn distinct(recorder: &HashFamily) -> Result<(), AssembleError> {
    recorder.clash().map_or(Ok(()), |[a, b]| Err(AssembleError::Clash(a, b)))
}

/// The match tables of a configuration. An access control list without rules takes no place.
fn tables(config: &Config, with_acl: bool) -> Vec<TableNeed> {
    let mut tables = Vec::new();
    if with_acl {
        tables.extend(acl::TABLES.map(|(table, key_bits)| TableNeed {
            table,
            entries: config.switch.acl_rows.into(),
            key_bits,
            action_bits: acl::ACTION_BITS,
            ternary: true,
            before_programs: true,
        }));
    }
    if config.switch.forward == ForwardMode::Learn {
        // Source and destination are looked up, and a table is looked into once a packet.
        tables.extend(["macs.source", "macs.destination"].map(|table| TableNeed {
            table,
            entries: config.switch.mac_table.into(),
            key_bits: 60,
            action_bits: PortId::BITS,
            ternary: false,
            before_programs: false,
        }));
    }
    if config.switch.forward == ForwardMode::Route {
        tables.extend(config.tables().shapes().map(|(table, shape)| TableNeed {
            table,
            entries: shape.capacity as u64,
            key_bits: shape.key_bits,
            action_bits: shape.action_bits,
            ternary: table != "neighbours",
            before_programs: false,
        }));
    }
    tables
}

/// What the configuration says of the tables that are set on ports.
pub fn desired(config: &Config, hashes: &HashFamily) -> Result<Desired, AssembleError> {
    Ok(Demand::new(config, hashes)?.desired(config))
}

/// A locally administered MAC, for ports whose device is not open.
const NO_MAC: u64 = 0x0200_0000_0000;

/// Of 2³² packets that come in by a port with these faults, the number that is lost inside the switch.
pub fn inside(fault: Option<&FaultSpec>) -> u64 {
    fault.map_or(0, FaultSpec::inside)
}

/// A port as the switch sees it, its link up.
pub fn port_info(port: &PortConfig) -> PortInfo {
    let (up, mac) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(NO_MAC)));
    let inside = Arc::new(AtomicU64::new(inside(port.fault.as_ref())));
    PortInfo { role: port.role, mtu: port.mtu, up, mac, inside }
}

/// The ports as the router sees them.
pub fn routed(ports: &[PortInfo]) -> Vec<RoutedPort> {
    ports.iter().map(|port| RoutedPort { mtu: port.mtu, up: port.up.clone(), mac: port.mac.clone() }).collect()
}

/// The replicas' forwarding, and its control half.
#[derive(Default)]
pub struct Forwarding {
    pub learning: Option<Learning>,
    pub routing: Option<Routing>,
    pub forwards: Vec<Forward>,
}

/// What is set on ports, for each replica, and the tables by which it is changed.
fn policy(
    desired: Desired,
    publisher: &Publisher,
    names: &PortNames,
    replicas: usize,
) -> (Vec<Policy>, Vec<Box<dyn Table>>) {
    let Desired { acl, acl_setup, limits, mirrors, vlans } = desired;
    let counts: Vec<Arc<RuleCounts>> = (0..replicas).map(|_| Arc::default()).collect();
    let policies = counts.iter().map(|counts| Policy::new(publisher, counts.clone())).collect();
    let tables: Vec<Box<dyn Table>> = vec![
        Box::new(AclTable::new(publisher.clone(), names.clone(), acl_setup, &acl, counts)),
        Box::new(PortTable::<LimitFeature>::new(publisher, names, limits)),
        Box::new(PortTable::<MirrorFeature>::new(publisher, names, mirrors)),
        Box::new(PortTable::<VlanFeature>::new(publisher, names, vlans)),
    ];
    (policies, tables)
}

/// `pairs` are those of `xconnect`, `named` the ports' numbers and names, `ports` all ports by
/// number.
pub fn forwarding(
    config: &Config,
    pairs: &[(PortId, PortId)],
    named: &[(PortId, String)],
    ports: &[PortInfo],
    hashes: &HashFamily,
    replicas: usize,
) -> Result<Forwarding, AssembleError> {
    match config.switch.forward {
        ForwardMode::Xconnect => {
            let xconnect = Xconnect::new(pairs)?;
            let forwards = (0..replicas).map(|_| Forward::Xconnect(xconnect.clone())).collect();
            Ok(Forwarding { forwards, ..Forwarding::default() })
        }
        ForwardMode::Learn => {
            let (learning, forwards) = Learning::new(&config.switch, hashes.derive(MAC_TABLE_LABEL, 0), replicas);
            Ok(Forwarding { learning: Some(learning), forwards, ..Forwarding::default() })
        }
        ForwardMode::Route => {
            let own = hashes.of_switch(&config.switch.name);
            let polynomials = ROUTER_LABELS.map(|label| own.derive(label, 0));
            let (routing, forwards) = Routing::new(config, named, routed(ports), polynomials, replicas)?;
            Ok(Forwarding { routing: Some(routing), forwards, ..Forwarding::default() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pisa::hash::CLASH;
    use crate::program::ProgramConfig;

    /// Every array asks by a name of its own, and other names have other polynomials: under these
    /// secrets, and so under all.
    #[test]
    fn no_two_arrays_of_a_switch_share_a_polynomial() {
        let switches = [
            ["hashpipe", "chamelemon", "pint", "disketch", "hopcounters"],
            [
                "hashpipe:stages=2,key=src,count=bytes",
                "chamelemon:tower=8x64+8x64+16x64+16x32,arrays=2,small=2",
                "pint:bits=1",
                "disketch:sketch=cms",
                "hopcounters:memory=1KB",
            ],
            [
                "hashpipe:stages=1,slots6=0,estimate=sum",
                "chamelemon:tower=32x9,arrays=2",
                "pint:bits=1,instances=16",
                "disketch",
                "hopcounters",
            ],
            [
                "hashpipe:stages=16",
                "chamelemon:tower=8x9+8x9+8x9+8x9+8x9+16x9+16x9+32x9,arrays=4,small=1",
                "pint:bits=16,instances=1",
                "disketch:single_hop=true,memory=1KB",
                "hopcounters",
            ],
            ["hashpipe", "chamelemon", "pint:queries=latency:bits=4:instances=4", "disketch", "hopcounters"],
        ];
        for (switch, seed) in switches.iter().zip(0..) {
            let programs: Vec<ProgramConfig> = switch.iter().map(|words| words.parse().unwrap()).collect();
            assert_eq!(
                programs.iter().map(|program| program.name()).collect::<Vec<_>>(),
                ProgramConfig::names().collect::<Vec<_>>()
            );
            let config = Config { programs, ..Config::default() };
            let derived = Demand::new(&config, &HashFamily::reproducible(seed)).unwrap().derived.derived();
            for (i, name) in derived.iter().enumerate() {
                let owners = derived[..i].iter().filter(|other| other.polynomial == name.polynomial);
                assert_eq!(owners.map(ToString::to_string).collect::<Vec<_>>(), [""; 0], "{name}");
            }
            for owner in ProgramConfig::names().collect::<Vec<_>>().iter().chain(&["forward"]) {
                assert!(derived.iter().any(|name| name.label.starts_with(&format!("{owner}/"))), "{owner}");
            }
        }
    }

    #[test]
    fn names_that_clash_make_no_switch() {
        let recorder = HashFamily::reproducible(0).recorder();
        recorder.derive("test", CLASH[0]);
        distinct(&recorder).unwrap();
        recorder.derive("test", CLASH[1]);
        let error = distinct(&recorder).unwrap_err().to_string();
        let names = CLASH.map(|index| format!("test[{index}]")).join(" and ");
        assert!(error.starts_with(&format!("{names} would hash with the same polynomial")), "{error}");
    }

    #[test]
    fn the_routers_tables_take_their_place() {
        let mut config = Config::default();
        config.switch.forward = ForwardMode::Route;
        let hashes = HashFamily::reproducible(0);
        for target in ["rmt", "tofino", "tofino2"] {
            config.switch.target = target.into();
            let placement = place(&config, &hashes).unwrap();
            let entries = |name: &str| {
                let tables = placement.stages.iter().flat_map(|stage| &stage.tables);
                tables.filter(|table| table.table == name).map(|table| table.entries).sum::<u64>()
            };
            assert_eq!(["routes4", "routes6", "neighbours"].map(entries), [16_384, 16_384, 4096], "{target}");
        }
        config.switch.route_table = 1 << 20;
        let error = place(&config, &hashes).unwrap_err().to_string();
        assert!(error.contains("of 1048576 entries find no TCAM in the 20 stages of tofino2"), "{error}");
    }
}
