//! What a lab will consist of: names, addresses, interfaces and the configuration of each process.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use super::{LabError, MAX_HOSTS, SWITCHES_PER_CPU};
use crate::answers::PortName;
use crate::assemble::place;
use crate::config::{Config, Length, LinkConfig, NetworkConfig, PageConfig, PortConfig};
use crate::pisa::PortId;
use crate::pisa::hash::HashFamily;
use crate::port::Dev;
use crate::program::ProgramConfig;
use crate::sim::fault::SwitchName;
use crate::sim::loss::{LinkName, percent};
use crate::sim::{Addresses, Loss, Shape, Topology, host_mac, host_port, link_port, must_run_everywhere, port_mac};
use crate::switch::{KeyHeaders, Role};
use crate::text::{is_name, short};
use crate::wire::Mac;

/// The MTU of hosts.
const HOST_MTU: u32 = 1500;
/// The MTU of links between switches: full packets of hosts and the shim.
const LINK_MTU: u32 = 1600;
/// The name of a host's interface.
pub const HOST_INTERFACE: &str = "eth0";
/// Longest name that is made of a topology's.
const NAME: usize = 24;
/// A record is waited for at least this long: switches share CPUs.
const RECORD_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest timeout of a record, in epochs.
const MAX_RECORD_TIMEOUT: u32 = 64;
/// Memory of a switch with a few programs, and of the buffers of one of its ports, as measured.
const SWITCH_BYTES: u64 = 64 << 20;
const PORT_BYTES: u64 = 12 << 20;
/// Words that no switch is called, as files of the lab are.
const RESERVED: [&str; 2] = ["controller", "switches"];

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    pub name: String,
    pub topology: Topology,
    /// Of the switches and their controller.
    pub programs: Vec<ProgramConfig>,
    /// All switches run them.
    pub everywhere: bool,
    pub epoch: Length,
    pub transit: Length,
    /// Of links and switches.
    pub losses: Vec<Loss>,
    pub wire: Wire,
    /// The headers that name flows, in all switches.
    pub key: KeyHeaders,
    pub page: PageConfig,
    /// Where the controller's socket for switches will be.
    pub switch_socket: PathBuf,
    /// Where the controller keeps its state.
    pub state: PathBuf,
}

/// Rate, queue and delay of the links, as faults of the ports that send to them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire {
    /// Of links between switches and to hosts; unlimited without one.
    pub bits_per_second: Option<u64>,
    /// A packet that would wait longer for a link with a rate is lost.
    pub queue: Duration,
    /// Of links between switches.
    pub delay: Duration,
}

impl Wire {
    /// The longest time that a packet takes to cross the topology.
    pub fn longest(&self, topology: &Topology) -> Duration {
        let waits = self.bits_per_second.map_or(Duration::ZERO, |_| self.queue);
        waits + (waits + self.delay) * topology.diameter()
    }

    /// The fault of ports of this role; `None` where packets cross at once.
    fn fault(&self, role: Role) -> Option<String> {
        let time = |time: Duration| humantime::format_duration(time).to_string().replace(' ', "");
        let rate = self.bits_per_second.map(|rate| format!("rate={}bps,queue={}", short(rate), time(self.queue)));
        let delays = role == Role::Fabric && !self.delay.is_zero();
        let settings: Vec<_> = rate.into_iter().chain(delays.then(|| format!("delay={}", time(self.delay)))).collect();
        (!settings.is_empty()).then(|| format!("tx:{}", settings.join(",")))
    }
}

/// What this machine gives.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The CPUs that workers may be pinned to.
    pub cpus: Vec<usize>,
    /// Bytes of memory, if that is known.
    pub memory: Option<u64>,
}

/// A lab as it will be.
#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    pub switches: Vec<SwitchPlan>,
    pub hosts: Vec<HostPlan>,
    pub links: Vec<[LinkEnd; 2]>,
    pub controller: NetworkConfig,
}

#[derive(Clone, Debug)]
pub struct SwitchPlan {
    pub name: String,
    /// Its name in the topology.
    pub label: String,
    pub config: Config,
}

/// One end of a link between switches: the interface has the name of its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// The number of the switch.
    pub switch: usize,
    pub port: String,
    /// Of the interface.
    pub mac: Mac,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    pub name: String,
    pub address: Ipv4Addr,
    /// Of the network of host and switch.
    pub length: u8,
    pub mac: Mac,
    pub gateway: Ipv4Addr,
    pub gateway_mac: Mac,
    /// The end at the switch.
    pub at: LinkEnd,
}

/// The name of the lab of a topology, unless it is given another.
pub fn name_of(shape: &Shape) -> String {
    let text = match shape {
        Shape::File(path) => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        shape => shape.to_string(),
    };
    let good = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = text.chars().map(good).take(NAME).collect();
    let name = name.trim_start_matches(['-', '.']);
    if name.is_empty() { "lab".into() } else { name.into() }
}

/// The names of switches: those of the topology, if all of them can be names of switches, differ, and are told
/// apart by the programs; else `s0`, `s1`, ….
fn switch_names(topology: &Topology, programs: &[ProgramConfig]) -> Vec<String> {
    let labels: Vec<&str> = topology.switches().iter().map(String::as_str).collect();
    let is_of_host = |name: &str| name.strip_prefix('h').is_some_and(|number| number.parse::<u32>().is_ok());
    let is_free = |name: &&str| is_name(name) && !is_of_host(name) && !RESERVED.contains(name);
    let mut sorted = labels.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let differ = sorted.len() == labels.len();
    if differ && labels.iter().all(is_free) && programs.iter().all(|program| program.clash(&labels).is_none()) {
        return labels.into_iter().map(str::to_owned).collect();
    }
    (0..labels.len()).map(|number| format!("s{number}")).collect()
}

/// The MAC of a veth interface whose port then has this one: a router's port has another than its interface.
fn interface_mac(port: Mac) -> Mac {
    let [a, b, c, d, e, f] = port.0;
    Mac([a, b ^ 0x57, c, d, e, f])
}

impl Plan {
    /// # Errors
    /// If the topology is too large, for a lab or for this machine, or what is asked for cannot be.
    pub fn new(request: &Request, machine: &Machine) -> Result<Self, LabError> {
        let Request { name, topology, programs, .. } = request;
        if !is_name(name) {
            return Err(LabError::Name(name.chars().take(80).collect()));
        }
        check_size(topology, machine)?;
        let addresses = Addresses::new(topology).ok_or(LabError::TooManyHosts)?;
        let names = switch_names(topology, programs);
        let everywhere = request.everywhere || must_run_everywhere(programs);
        let distances: Vec<_> = topology.edges().iter().map(|&edge| topology.distances(edge)).collect();
        let mut switches = Vec::new();
        for (number, name) in (0..).zip(&names) {
            let mut config = addresses.config(topology, number, &distances);
            let measures = everywhere || !topology.hosts_of(number).is_empty();
            request.complete(&mut config, name, measures)?;
            config.switch.cores = machine.cpus.iter().cycle().nth(number as usize).copied().into_iter().collect();
            switches.push(SwitchPlan {
                name: name.clone(),
                label: topology.switches()[number as usize].clone(),
                config,
            });
        }
        request.add_losses(&mut switches)?;
        for role in [Role::Fabric, Role::Host] {
            if let Some(fault) = request.wire.fault(role) {
                add_faults(&mut switches, |_, port| port.role == role, &fault)?;
            }
        }
        let links = topology.links().iter().zip(0..).map(|(ends, link)| link_ends(&addresses, topology, *ends, link));
        let links: Vec<_> = links.collect();
        let controller = request.controller(&switches, &links);
        controller.validate().map_err(LabError::Controller)?;
        for SwitchPlan { name, config, .. } in &switches {
            let failed = |error: String| LabError::Switch { switch: name.clone(), error };
            config.validate().map_err(|error| failed(error.to_string()))?;
            place(config, &HashFamily::reproducible(0)).map_err(|error| failed(error.to_string()))?;
        }
        let hosts = (0..topology.hosts().len()).map(|host| host_plan(&addresses, topology, host)).collect();
        Ok(Self { name: name.clone(), switches, hosts, links, controller })
    }

    /// The names of the two ports that a link joins.
    pub fn ports(&self, link: usize) -> [PortName; 2] {
        self.links[link].each_ref().map(|end| PortName::new(&self.switches[end.switch].name, &end.port))
    }
}

/// Checks that the machine can run so many switches and hosts.
fn check_size(topology: &Topology, machine: &Machine) -> Result<(), LabError> {
    let (switches, hosts) = (topology.switches().len(), topology.hosts().len());
    let cpus = machine.cpus.len().max(1);
    let max = cpus * SWITCHES_PER_CPU;
    if switches > max {
        let why = format!("{SWITCHES_PER_CPU} for each of {cpus} CPUs");
        return Err(LabError::TooLarge(format!("{switches} switches: a lab on this machine has at most {max}, {why}")));
    }
    if hosts > MAX_HOSTS {
        return Err(LabError::TooLarge(format!("{hosts} hosts: a lab has at most {MAX_HOSTS}")));
    }
    let ports = 2 * topology.links().len() + hosts;
    let needed = switches as u64 * SWITCH_BYTES + ports as u64 * PORT_BYTES;
    match machine.memory {
        Some(memory) if needed > memory => {
            let mib = |bytes: u64| bytes >> 20;
            let of = format!("{switches} switches with {ports} ports need about {} MiB", mib(needed));
            Err(LabError::TooLarge(format!("{of} of memory, and {} MiB are available", mib(memory))))
        }
        _ => Ok(()),
    }
}

fn link_ends(addresses: &Addresses, topology: &Topology, ends: [u32; 2], link: u32) -> [LinkEnd; 2] {
    let places = addresses.ends(topology, link);
    [0, 1].map(|side| {
        let (switch, place) = (ends[side], places[side]);
        let port = (place - addresses.of_switch(switch).start) as PortId;
        LinkEnd { switch: switch as usize, port: link_port(link), mac: interface_mac(port_mac(switch, port)) }
    })
}

fn host_plan(addresses: &Addresses, topology: &Topology, host: usize) -> HostPlan {
    let switch = topology.hosts()[host];
    let port = (addresses.of_host(topology, host) - addresses.of_switch(switch).start) as PortId;
    let address = addresses.host(topology, host);
    let mac = port_mac(switch, port);
    HostPlan {
        name: host_port(host),
        address,
        length: Addresses::HOST_LENGTH,
        mac: host_mac(host),
        gateway: Addresses::gateway(address),
        gateway_mac: mac,
        at: LinkEnd { switch: switch as usize, port: host_port(host), mac: interface_mac(mac) },
    }
}

impl Request {
    /// Makes of a simulated switch's configuration that of a live one.
    fn complete(&self, config: &mut Config, name: &str, measures: bool) -> Result<(), LabError> {
        let switch = &mut config.switch;
        name.clone_into(&mut switch.name);
        (switch.epoch, switch.transit) = (self.epoch, self.transit);
        switch.key = self.key;
        // Many switches share what there is.
        switch.huge_pages = Some(false);
        for port in &mut config.ports {
            let failed = |error: String| LabError::Switch { switch: name.into(), error };
            let dev = format!("veth:{}", port.name).parse::<Dev>();
            port.dev = dev.map_err(|error| failed(error.to_string()))?;
            port.mtu = if port.role == Role::Fabric { LINK_MTU } else { HOST_MTU };
        }
        if measures {
            config.programs.clone_from(&self.programs);
            config.controller.at = Some(self.switch_socket.to_string_lossy().into_owned());
        }
        Ok(())
    }

    /// Losses as faults of ports: of a link in both directions, of a switch at all of its ports.
    fn add_losses(&self, switches: &mut [SwitchPlan]) -> Result<(), LabError> {
        let links = self.topology.links().len();
        for loss in &self.losses {
            match loss {
                Loss::Link { link, rate } => {
                    if let LinkName::One(link) = *link
                        && link as usize >= links
                    {
                        return Err(LabError::NoLink { link, links });
                    }
                    let is_meant = |port: &PortConfig| match *link {
                        LinkName::All => port.role == Role::Fabric,
                        LinkName::One(link) => port.name == link_port(link),
                    };
                    add_faults(switches, |_, port| is_meant(port), &format!("tx:drop={}", percent(*rate)))?;
                }
                Loss::Switch { switch, rate } => {
                    if let SwitchName::One(name) = switch
                        && !self.topology.switches().contains(name)
                    {
                        return Err(LabError::NoSwitch(name.clone()));
                    }
                    let fault = format!("inside:drop={}", percent(*rate));
                    add_faults(switches, |label, _| switch.is(label), &fault)?;
                }
                Loss::Flows(_) => return Err(LabError::Victims(loss.to_string())),
            }
        }
        Ok(())
    }

    fn controller(&self, switches: &[SwitchPlan], links: &[[LinkEnd; 2]]) -> NetworkConfig {
        let end = |end: &LinkEnd| PortName::new(&switches[end.switch].name, &end.port);
        let reporting = switches.iter().filter(|switch| switch.config.controller.at.is_some());
        let timeout = RECORD_TIMEOUT.max(self.epoch.0).min(self.epoch.0.saturating_mul(MAX_RECORD_TIMEOUT));
        NetworkConfig {
            name: self.name.clone(),
            switches: reporting.map(|switch| switch.name.clone()).collect(),
            programs: self.programs.clone(),
            epoch: self.epoch,
            transit: self.transit,
            key: self.key,
            record_timeout: Some(Length(timeout)),
            state: Some(self.state.clone()),
            page: self.page.clone(),
            links: links.iter().map(|ends| LinkConfig { ports: ends.each_ref().map(end) }).collect(),
            ..NetworkConfig::default()
        }
    }
}

/// Adds a fault to ports that may have others already.
fn add_faults(
    switches: &mut [SwitchPlan],
    is_meant: impl Fn(&str, &PortConfig) -> bool,
    fault: &str,
) -> Result<(), LabError> {
    // A label is the switch's name in the topology.
    for SwitchPlan { name, label, config } in switches {
        for port in config.ports.iter_mut().filter(|port| is_meant(label, port)) {
            let before = port.fault.iter().map(|before| format!("{before};"));
            let text = before.collect::<String>() + fault;
            let failed = |error: String| LabError::Switch { switch: name.clone(), error };
            port.fault = Some(text.parse().map_err(|error: crate::port::FaultError| failed(error.to_string()))?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(shape: &str) -> Request {
        Request {
            name: "lab".into(),
            topology: shape.parse::<Shape>().unwrap().build().unwrap(),
            programs: vec![ProgramConfig::networked()],
            everywhere: false,
            epoch: Length(Duration::from_millis(250)),
            transit: Length(Duration::from_millis(60)),
            losses: Vec::new(),
            wire: Wire::default(),
            key: KeyHeaders::default(),
            page: PageConfig::default(),
            switch_socket: "/run/weir/lab.switches.sock".into(),
            state: "/run/weir/labs/lab/state.json".into(),
        }
    }

    fn machine() -> Machine {
        Machine { cpus: vec![3, 5], memory: None }
    }

    fn plan(request: &Request) -> Plan {
        Plan::new(request, &machine()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn graph(labels: &[&str]) -> Topology {
        let edges = (1..labels.len() as u32).map(|node| [node - 1, node]).collect();
        let nodes = labels.iter().map(|label| (*label).to_owned()).collect();
        Topology::of_graph(crate::sim::graph::Graph { nodes, edges }).unwrap()
    }

    #[test]
    fn addresses_and_routes_are_those_of_the_simulation() {
        let request = request("fat-tree:4");
        let plan = plan(&request);
        let addresses = Addresses::new(&request.topology).unwrap();
        let distances: Vec<_> = request.topology.edges().iter().map(|&edge| request.topology.distances(edge)).collect();
        assert_eq!((plan.switches.len(), plan.hosts.len(), plan.links.len()), (20, 16, 32));
        for (number, switch) in (0..).zip(&plan.switches) {
            let simulated = addresses.config(&request.topology, number, &distances);
            let live = &switch.config;
            assert_eq!((&live.routes, &live.neighbours), (&simulated.routes, &simulated.neighbours));
            for (port, simulated) in live.ports.iter().zip(&simulated.ports) {
                assert_eq!((&port.addresses, port.role), (&simulated.addresses, simulated.role));
                assert_eq!(port.dev.to_string(), format!("veth:{}", port.name));
            }
            assert_eq!(live.switch.cores, [[3, 5][number as usize % 2]]);
        }
        for (number, host) in plan.hosts.iter().enumerate() {
            assert_eq!(host.address, addresses.host(&request.topology, number));
            let port =
                plan.switches[host.at.switch].config.ports.iter().find(|port| port.name == host.at.port).unwrap();
            assert_eq!(port.addresses[0].to_string(), format!("{}/{}", host.gateway, host.length));
        }
        let first = plan.hosts.iter().find(|host| host.at.switch == 0).unwrap();
        // As `weir run` makes a port's MAC of its interface's.
        assert_eq!(
            (first.gateway_mac.to_string(), first.at.mac.to_string()),
            ("02:00:00:00:00:02".into(), "02:57:00:00:00:02".into())
        );
    }

    /// The file of a switch, and of the controller, is read as what was written.
    #[test]
    fn files_are_read_as_they_were_meant() {
        let mut request = request("spine-leaf:2,2,1");
        request.losses = vec!["link=1,rate=20%".parse().unwrap(), "switch=spine0,rate=1%".parse().unwrap()];
        request.programs = ProgramConfig::defaults().filter(|program| program.is_networked()).take(2).collect();
        request.everywhere = true;
        request.key = KeyHeaders::Inner;
        let plan = plan(&request);
        assert_eq!(plan.controller.key, KeyHeaders::Inner);
        for switch in &plan.switches {
            let text = toml::to_string(&switch.config).unwrap();
            assert_eq!(Config::parse(&text).unwrap(), switch.config, "{text}");
            assert_eq!(switch.config.switch.key, KeyHeaders::Inner);
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("controller.toml");
        std::fs::write(&file, toml::to_string(&plan.controller).unwrap()).unwrap();
        assert_eq!(NetworkConfig::load(&file).unwrap(), plan.controller);
        let links: Vec<_> =
            plan.controller.links.iter().map(|link| link.ports.each_ref().map(ToString::to_string)).collect();
        assert_eq!(links[1], ["leaf0:l1", "spine1:l1"]);
    }

    #[test]
    fn losses_are_faults_of_both_ends_and_of_all_ports_of_a_switch() {
        let faults = |losses: &[&str]| {
            let mut request = request("line:3");
            request.losses = losses.iter().map(|loss| loss.parse().unwrap()).collect();
            Plan::new(&request, &machine()).map_err(|error| error.to_string()).map(|plan| {
                let ports =
                    plan.switches.iter().flat_map(|switch| switch.config.ports.iter().map(move |port| (switch, port)));
                let faulty = |(switch, port): (&SwitchPlan, &PortConfig)| {
                    Some(format!("{}:{} {}", switch.name, port.name, port.fault.as_ref()?))
                };
                ports.filter_map(faulty).collect::<Vec<_>>()
            })
        };
        assert_eq!(faults(&["link=1,rate=20%"]).unwrap(), ["s1:l1 tx:drop=0.2", "s2:l1 tx:drop=0.2"]);
        let both = [
            "s0:l0 tx:drop=0.01;inside:drop=0.02",
            "s0:h0 inside:drop=0.02",
            "s1:l0 tx:drop=0.01",
            "s1:l1 tx:drop=0.01",
            "s2:l1 tx:drop=0.01",
        ];
        assert_eq!(faults(&["link=all,rate=1%", "switch=s0,rate=2%"]).unwrap(), both);
        assert_eq!(faults(&["link=2,rate=1%"]).unwrap_err(), "--loss link=2: the topology's links are 0 to 1");
        assert_eq!(faults(&["switch=s9,rate=1%"]).unwrap_err(), "--loss: the topology has no switch \"s9\"");
        assert!(faults(&["flows=10%,rate=1%"]).unwrap_err().contains("weir port fault"));
    }

    /// A rate holds for what leaves by any port, a delay between switches; losses come before both.
    #[test]
    fn links_have_a_rate_and_a_delay() {
        let delay = Duration::from_millis(5);
        let wire = Wire { bits_per_second: Some(10_000_000), queue: Duration::from_millis(30), delay };
        let losses = vec!["link=0,rate=50%".parse().unwrap()];
        let both = plan(&Request { wire, losses, ..request("line:2") });
        let faults = |plan: &Plan| {
            let ports = plan.switches.iter().flat_map(|switch| &switch.config.ports);
            ports.filter_map(|port| Some(format!("{} {}", port.name, port.fault.as_ref()?))).collect::<Vec<_>>()
        };
        let [link, host] = ["tx:drop=0.5;tx:delay=5ms,rate=10Mbps,queue=30ms", "tx:rate=10Mbps,queue=30ms"];
        let expected = [format!("l0 {link}"), format!("h0 {host}"), format!("l0 {link}"), format!("h1 {host}")];
        assert_eq!(faults(&both), expected);
        let far = plan(&Request { wire: Wire { delay, ..Wire::default() }, ..request("line:3") });
        assert_eq!(faults(&far), ["l0 tx:delay=5ms", "l0 tx:delay=5ms", "l1 tx:delay=5ms", "l1 tx:delay=5ms"]);
        let longest = |wire: Wire| wire.longest(&request("line:3").topology).as_millis();
        assert_eq!([longest(wire), longest(Wire { bits_per_second: None, ..wire })], [100, 10]);
    }

    #[test]
    fn labels_that_cannot_be_names_are_replaced_all_together() {
        let names = |labels: &[&str]| switch_names(&graph(labels), &[]);
        assert_eq!(names(&["Porto", "Lisboa"]), ["Porto", "Lisboa"]);
        let long = "x".repeat(33);
        for labels in [
            ["Porto", "Porto"],
            ["New York", "Porto"],
            ["h1", "Porto"],
            ["switches", "Porto"],
            ["controller", "Porto"],
            [&long, "Porto"],
            ["../x", "a"],
        ] {
            assert_eq!(names(&labels), ["s0", "s1"], "{labels:?}");
        }
        let alike = ["porto-spine5-37", "tokyo-edge20-20"];
        let clashes = |program: &ProgramConfig| program.clash(&alike).is_some();
        let program = ProgramConfig::defaults().find(clashes).expect("a program that cannot tell them apart");
        assert_eq!(switch_names(&graph(&alike), &[program]), ["s0", "s1"]);
        let plan = plan(&Request { topology: graph(&["New York", "Porto"]), ..request("line:2") });
        assert_eq!((plan.switches[0].name.as_str(), plan.switches[0].label.as_str()), ("s0", "New York"));
    }

    #[test]
    fn names_are_bounded() {
        let name = |text: &str| name_of(&text.parse().unwrap());
        assert_eq!(
            ["line:3", "spine-leaf:2,2,1", "/tmp/my net.gml", "..x.graphml"].map(name),
            ["line-3", "spine-leaf-2-2-1", "my-net", "x"]
        );
        assert_eq!(name(&format!("{}.gml", "ü".repeat(300))), "lab");
        assert_eq!(name(&format!("{}.gml", "n".repeat(300))).len(), NAME);
        for wrong in ["", "-x", "a/b", &"n".repeat(33)] {
            let error = Plan::new(&Request { name: wrong.into(), ..request("line:2") }, &machine()).unwrap_err();
            assert!(matches!(error, LabError::Name(_)), "{wrong}");
        }
        // Of the largest topology that there can be.
        for interface in
            [link_port(crate::sim::topology::MAX_LINKS as u32), host_port(MAX_HOSTS), HOST_INTERFACE.into()]
        {
            assert!(interface.len() <= 15, "{interface}");
        }
    }

    #[test]
    fn a_topology_that_is_too_large_for_the_machine_is_refused() {
        let refused = |shape: &str, machine: &Machine| match Plan::new(&request(shape), machine) {
            Err(error @ LabError::TooLarge(_)) => error.to_string(),
            other => panic!("{shape}: {:?}", other.map(|plan| plan.name)),
        };
        assert_eq!(
            refused("line:33", &machine()),
            "33 switches: a lab on this machine has at most 32, 16 for each of 2 CPUs"
        );
        assert!(Plan::new(&request("line:32"), &machine()).is_ok());
        assert_eq!(refused("spine-leaf:1,2,129", &machine()), "258 hosts: a lab has at most 256");
        let small = Machine { memory: Some(250 << 20), ..machine() };
        assert_eq!(
            refused("line:3", &small),
            "3 switches with 6 ports need about 264 MiB of memory, and 250 MiB are available"
        );
        assert!(Plan::new(&request("line:2"), &small).is_ok());
    }

    #[test]
    fn switches_without_programs_report_to_nobody() {
        let quiet = plan(&request("line:3"));
        assert_eq!(quiet.controller.switches, ["s0", "s2"]);
        assert!(quiet.switches[1].config.programs.is_empty() && quiet.switches[1].config.controller.at.is_none());
        let all = plan(&Request { everywhere: true, ..request("line:3") });
        assert_eq!(all.controller.switches, ["s0", "s1", "s2"]);
    }
}
