//! Starts a lab: namespaces, links, a controller and the switches, and waits until all of it is ready.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::plan::{HOST_INTERFACE, HostPlan, LinkEnd, SwitchPlan};
use super::{Lab, LabError, Namespace, Plan, Record};
use crate::api::client::Client;
use crate::api::view;

/// Time for the controller and the first switch to be ready, and for each further switch.
const PATIENCE: Duration = Duration::from_secs(30);
const PATIENCE_EACH: Duration = Duration::from_secs(5);
const ROUND: Duration = Duration::from_millis(50);
/// Bytes at the end of a log that an error repeats.
const SHOWN: usize = 2000;
/// Variables of this process that are not for a lab's: of a service, and of a switch in namespaces of a user.
const NOT_INHERITED: [&str; 4] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "STATE_DIRECTORY", "WEIR_ROOTLESS"];

/// Starts a lab, and waits until its switches forward and report. `program` is this one.
///
/// # Errors
/// If the lab is there already, if something cannot be started, or when `stop` is set. What was started is then
/// removed.
pub fn start(lab: &Lab, plan: &Plan, record: Record, program: &Path, stop: &AtomicBool) -> Result<Record, LabError> {
    let _being_started = lab.create(&record)?;
    let mut starting = Starting { lab, plan, record, program, stop, children: Vec::new() };
    match starting.run() {
        Ok(()) => Ok(starting.record),
        Err(error) => {
            // A signal of the terminal ends the tools as well.
            let error = if stop.load(Relaxed) { LabError::Interrupted } else { error };
            let removed = lab.remove();
            starting.children.iter_mut().for_each(|(_, child)| _ = child.try_wait());
            Err(match removed {
                Ok(()) => error,
                Err(cleanup) => LabError::Unclean { error: Box::new(error), cleanup: Box::new(cleanup) },
            })
        }
    }
}

struct Starting<'a> {
    lab: &'a Lab,
    plan: &'a Plan,
    record: Record,
    program: &'a Path,
    stop: &'a AtomicBool,
    /// The controller and the switches, by name.
    children: Vec<(String, Child)>,
}

impl Starting<'_> {
    fn run(&mut self) -> Result<(), LabError> {
        let spaces = self.namespaces()?;
        self.interfaces(&spaces)?;
        self.controller()?;
        for (number, space) in (0..self.plan.switches.len()).zip(&spaces) {
            self.goes_on()?;
            self.switch(number, space)?;
        }
        // Who asks meanwhile finds the processes that there are.
        self.lab.write(&self.record)?;
        self.wait()?;
        self.record.complete = true;
        self.lab.write(&self.record)
    }

    fn goes_on(&self) -> Result<(), LabError> {
        if self.stop.load(Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
    }

    /// Makes a namespace for each switch and then for each host.
    fn namespaces(&mut self) -> Result<Vec<Namespace>, LabError> {
        let mut spaces: Vec<Namespace> = Vec::new();
        for _ in 0..self.plan.switches.len() + self.plan.hosts.len() {
            self.goes_on()?;
            let (space, holder) = Namespace::hold(self.record.rights(), spaces.first(), &self.record.token)?;
            spaces.push(space);
            self.children.push((String::new(), holder));
        }
        let (of_switches, of_hosts) = spaces.split_at(self.plan.switches.len());
        let switches = self.record.switches.iter_mut().zip(of_switches);
        switches.for_each(|(switch, space)| switch.holder = Some(space.process));
        self.record.hosts.iter_mut().zip(of_hosts).for_each(|(host, space)| host.holder = Some(space.process));
        Ok(spaces)
    }

    /// Makes all links, each end in its namespace at once, and then sets up each namespace.
    fn interfaces(&self, spaces: &[Namespace]) -> Result<(), LabError> {
        let Some(first) = spaces.first() else { return Ok(()) };
        let (of_switches, of_hosts) = spaces.split_at(self.plan.switches.len());
        let mtu = |end: &LinkEnd| {
            let ports = &self.plan.switches[end.switch].config.ports;
            ports.iter().find(|port| port.name == end.port).map_or(0, |port| port.mtu)
        };
        let at_switch = |end: &LinkEnd| {
            let (process, LinkEnd { port, mac, .. }) = (of_switches[end.switch].process, end);
            format!("name {port} netns {process} mtu {} address {mac}", mtu(end))
        };
        let links = self.plan.links.iter().map(|[a, b]| [at_switch(a), at_switch(b)]);
        let hosts = self.plan.hosts.iter().zip(of_hosts).map(|(host, space)| {
            let (process, mac) = (space.process, host.mac);
            [format!("name {HOST_INTERFACE} netns {process} mtu {} address {mac}", mtu(&host.at)), at_switch(&host.at)]
        });
        let lines: Vec<_> = links.chain(hosts).map(|[a, b]| format!("link add {a} type veth peer {b}")).collect();
        first.ip(&lines)?;
        for (switch, space) in self.plan.switches.iter().zip(of_switches) {
            self.goes_on()?;
            space.ip(&lines_of_switch(switch))?;
        }
        for (host, space) in self.plan.hosts.iter().zip(of_hosts) {
            self.goes_on()?;
            space.ip(&lines_of_host(host))?;
        }
        Ok(())
    }

    fn controller(&mut self) -> Result<(), LabError> {
        const NAME: &str = "controller";
        let file = self.configuration(NAME, &self.plan.controller)?;
        let mut command = Command::new("setsid");
        command.arg(self.program).arg("controller").arg("--config").arg(file);
        command.arg("--socket").arg(self.lab.controller_socket());
        command.arg("--switch-socket").arg(self.lab.switch_socket());
        self.record.controller.process = Some(self.spawn(NAME, command)?);
        Ok(())
    }

    fn switch(&mut self, number: usize, space: &Namespace) -> Result<(), LabError> {
        let SwitchPlan { name, config, .. } = &self.plan.switches[number];
        let file = self.configuration(name, config)?;
        let mut command = space.detached(self.program);
        command.arg("run").arg("--config").arg(file).arg("--socket").arg(self.lab.socket(name));
        self.record.switches[number].process = Some(self.spawn(name, command)?);
        Ok(())
    }

    /// Writes the file of a process.
    fn configuration(&self, name: &str, config: &impl serde::Serialize) -> Result<PathBuf, LabError> {
        let path = self.lab.file(&format!("{name}.toml"));
        let text = toml::to_string(config).map_err(|error| LabError::io(&path)(std::io::Error::other(error)))?;
        fs::write(&path, text).map_err(LabError::io(&path))?;
        Ok(path)
    }

    /// Starts a process of the lab, whose words go to its log.
    fn spawn(&mut self, name: &str, mut command: Command) -> Result<u32, LabError> {
        let path = self.log(name);
        let log = File::create(&path).map_err(LabError::io(&path))?;
        let copy = log.try_clone().map_err(LabError::io(&path))?;
        self.record.token.mark(&mut command);
        NOT_INHERITED.iter().for_each(|variable| _ = command.env_remove(variable));
        command.current_dir(self.lab.directory()).stdin(Stdio::null()).stdout(copy).stderr(log);
        let failed = |error: std::io::Error| LabError::Command { what: name.into(), why: error.to_string() };
        let child = command.spawn().map_err(failed)?;
        let process = child.id();
        self.children.push((name.into(), child));
        Ok(process)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.lab.file(&format!("{name}.log"))
    }

    /// Waits until all switches forward, and the controller has all that report.
    fn wait(&mut self) -> Result<(), LabError> {
        let started = Instant::now();
        let patience = PATIENCE + PATIENCE_EACH * self.plan.switches.len() as u32;
        let mut switches: Vec<&SwitchPlan> = self.plan.switches.iter().collect();
        loop {
            self.goes_on()?;
            self.all_run()?;
            switches.retain(|switch| !forwards(&self.lab.socket(&switch.name)));
            let absent = if switches.is_empty() { self.absent() } else { Vec::new() };
            if switches.is_empty() && absent.is_empty() {
                return Ok(());
            }
            if started.elapsed() > patience {
                let names = switches.iter().map(|switch| switch.name.clone()).chain(absent);
                let what = format!(
                    "{}; their logs are in {}",
                    names.collect::<Vec<_>>().join(", "),
                    self.lab.directory().display()
                );
                return Err(LabError::NotReady { what, seconds: patience.as_secs() });
            }
            thread::sleep(ROUND);
        }
    }

    /// An error if a process has ended.
    fn all_run(&mut self) -> Result<(), LabError> {
        for (name, child) in &mut self.children {
            let Ok(Some(status)) = child.try_wait() else { continue };
            if name.is_empty() {
                return Err(LabError::Command {
                    what: "a network namespace".into(),
                    why: format!("its process has ended ({status})"),
                });
            }
            let log = end_of(&self.lab.file(&format!("{name}.log")));
            return Err(LabError::Ended { node: name.clone(), status: status.to_string(), log });
        }
        Ok(())
    }

    /// The switches that report and are not connected, or the controller.
    fn absent(&self) -> Vec<String> {
        let asked = Client::connect(self.lab.controller_socket()).and_then(|client| client.get("/v1/switches"));
        let Ok(view::NetworkSwitches { switches, .. }) = asked else { return vec!["the controller".into()] };
        let is_there = |name: &String| switches.iter().any(|switch| switch.name == *name && switch.connected);
        self.plan.controller.switches.iter().filter(|name| !is_there(name)).cloned().collect()
    }
}

/// Whether a switch answers, and the links of all of its ports are up.
fn forwards(socket: &Path) -> bool {
    let asked = Client::connect(socket.into()).and_then(|client| client.get("/v1/ports"));
    asked.is_ok_and(|ports: view::Ports| ports.ports.iter().all(|port| port.link_up))
}

/// The kernel under a switch is no host: it says nothing by itself.
fn lines_of_switch(switch: &SwitchPlan) -> Vec<String> {
    let ports = switch.config.ports.iter().map(|port| format!("link set dev {} addrgenmode none up", port.name));
    std::iter::once("link set dev lo up".into()).chain(ports).collect()
}

/// A host has its address, and knows its gateway without a question. It has no IPv6 address, as the network
/// has none.
fn lines_of_host(host: &HostPlan) -> Vec<String> {
    let HostPlan { address, length, gateway, gateway_mac, .. } = host;
    vec![
        "link set dev lo up".into(),
        format!("link set dev {HOST_INTERFACE} addrgenmode none"),
        format!("address add {address}/{length} dev {HOST_INTERFACE}"),
        format!("link set dev {HOST_INTERFACE} up"),
        format!("neighbour add {gateway} lladdr {gateway_mac} dev {HOST_INTERFACE} nud permanent"),
        format!("route add default via {gateway} dev {HOST_INTERFACE}"),
    ]
}

/// The last lines of a log.
fn end_of(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let end = &bytes[bytes.len().saturating_sub(SHOWN)..];
    String::from_utf8_lossy(end).trim().to_owned()
}
