//! `weir lab`: a live network of switches and hosts, from a topology of `weir sim`.

mod document;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, Subcommand};

use self::document::RemovedDocument;
#[cfg(test)]
pub use self::document::{ControllerDocument, HostDocument, LabSummary, LinkDocument, SwitchDocument};
pub use self::document::{LabDocument, LabsDocument, lab_page, labs_page};
use super::output::{self, Format, Tables};
use super::page::LivePage;
use super::{Failure, Programs, demo, doctor, help, names, signals};
use crate::answers::Task;
use crate::config::{Length, PageConfig};
use crate::forward::rate::Limit;
use crate::lab::{self, Lab, LabError, Machine, Plan, Record, Request, Rights, Token, Wire, name_of};
use crate::program::ProgramConfig;
use crate::sim::{Loss, Shape};
use crate::switch::KeyHeaders;

/// Length of an epoch, and transit time of links without delay: switches share CPUs.
const EPOCH: Duration = Duration::from_millis(250);
const TRANSIT: Duration = Duration::from_millis(60);
/// The longest delay of a link, and the longest wait for one.
const LONGEST_WIRE: Duration = Duration::from_secs(1);

/// Groups of options.
const NETWORK: &str = "Network";
const FILES: &str = "Name and files";

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir lab up line:3",
    "weir lab exec h0 -- ping -c 3 10.0.0.6",
    "weir port fault l0 tx:drop=20% --name line-3.s0",
    "weir show losses --where --name line-3",
    "weir lab down line-3",
]))]
pub struct LabCommand {
    #[command(subcommand)]
    what: What,
    /// Keep sockets and files of labs here, and look for labs here
    #[arg(long, global = true, value_name = "DIR", help_heading = FILES)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    tables: Tables,
}

#[derive(Debug, Subcommand)]
enum What {
    Up(Up),
    Down(Down),
    Status(Status),
    Exec(Exec),
}

/// Start a lab: a network namespace for each switch and host, links, the switches and their
/// controller. Returns when all of it is ready
#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir lab up line:3",
    "weir lab up network.gml --name net --page 127.0.0.1:8080",
    "weir lab up fat-tree:2 --loss link=1,rate=1% --json",
    "weir lab up line:3 --rate 10Mbps --delay 5ms",
]))]
pub struct Up {
    /// As of `weir sim`: line:N, fat-tree:K, testbed, spine-leaf:SPINES,LEAVES,HOSTS, or a file: .gml,
    /// .graphml
    #[arg(value_name = "TOPOLOGY")]
    topology: String,
    /// The lab's name; by default that of the topology, such as line-3
    #[arg(long, value_name = "NAME", help_heading = FILES)]
    name: Option<String>,
    #[command(flatten)]
    programs: Programs,
    /// Run the programs on all switches, not only on those with hosts; programs that need it do so
    /// anyhow
    #[arg(long, help_heading = help::MEASUREMENT)]
    everywhere: bool,
    /// Length of an epoch; by default 250ms, or more where packets take long to cross the network
    #[arg(long, value_name = "LENGTH", help_heading = help::MEASUREMENT)]
    epoch: Option<Length>,
    /// For so long after an epoch's end its packets may leave; switches that share a CPU delay them. By
    /// default 60ms, and the longest time on the links
    #[arg(long, value_name = "LENGTH", help_heading = help::MEASUREMENT)]
    transit: Option<Length>,
    /// The headers that name flows: of a packet's own, or of the packet inside a tunnel
    #[arg(long, value_enum, default_value_t, value_name = "HEADERS", help_heading = help::MEASUREMENT)]
    key: KeyHeaders,
    /// Delay of every link between switches
    #[arg(long, default_value = "0s", value_name = "LENGTH", help_heading = NETWORK)]
    delay: Length,
    /// Rate of every link, such as 10Mbps; unlimited by default
    #[arg(long, value_name = "RATE", help_heading = NETWORK)]
    rate: Option<Limit>,
    /// With --rate: a packet that would wait longer for a link is lost
    #[arg(long, default_value = "20ms", value_name = "LENGTH", help_heading = NETWORK)]
    queue_timeout: Length,
    /// Losses from the start: link=all,rate=0.1% or link=3,rate=1%, switch=core0,rate=1%; may be given
    /// several times
    #[arg(long = "loss", value_name = "LOSS", help_heading = NETWORK)]
    losses: Vec<Loss>,
    #[command(flatten)]
    page: LivePage,
}

/// Remove labs: processes, namespaces, links, sockets and files; also what is left of one that was
/// not started as a whole, or was killed
#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir lab down line-3",
    "weir lab down network.gml",
    "weir lab down --all",
]))]
pub struct Down {
    /// Its name, or the topology that it was started from
    #[arg(value_name = "NAME|TOPOLOGY", required_unless_present = "all", add = names::labs())]
    labs: Vec<String>,
    /// All labs of this user
    #[arg(long, conflicts_with = "labs")]
    all: bool,
}

/// List the labs, or what one consists of: switches, hosts, addresses, links, processes, sockets
#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir lab status",
    "weir lab status line-3 --json",
]))]
pub struct Status {
    /// Its name, or the topology that it was started from
    #[arg(value_name = "NAME|TOPOLOGY", add = names::labs())]
    lab: Option<String>,
}

/// Run a command in the network namespace of a host or switch
#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir lab exec h0 -- ping -c 3 10.0.0.6",
    "weir lab exec --name line-3 h1 -- iperf3 --server --daemon",
    "weir lab exec s1",
]))]
pub struct Exec {
    /// The lab; needed where there are several
    #[arg(long, value_name = "NAME", help_heading = FILES, add = names::labs())]
    name: Option<String>,
    /// The host or switch
    #[arg(add = names::lab_nodes())]
    node: String,
    /// The command to run there; by default your shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        if error.is_usage() { Self::Usage(error.to_string()) } else { Self::failed(error) }
    }
}

impl LabCommand {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let format = self.tables.format(json)?;
        let dir = self.dir.as_deref();
        match self.what {
            What::Up(command) => command.run(dir, &format),
            What::Down(command) => command.run(dir, json),
            What::Status(command) => command.run(dir, &format),
            What::Exec(command) => command.run(dir),
        }
    }
}

impl Up {
    fn run(self, dir: Option<&Path>, format: &Format) -> Result<(), Failure> {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
        let shape: Shape = self.topology.parse().map_err(|error| usage(&error))?;
        let topology = shape.build().map_err(|error| usage(&error))?;
        let lab = Lab::new(&self.name.clone().unwrap_or_else(|| name_of(&shape)), dir)?;
        let plan = Plan::new(&self.request(&lab, topology)?, &machine())?;
        if !cfg!(feature = "dpdk") {
            return Err(Failure::Failed(
                "this weir was built without live ports; build it with the feature `dpdk`".into(),
            ));
        }
        let rights = Rights::find()?;
        let program = std::env::current_exe()
            .map_err(|error| Failure::Failed(format!("this program is not to be found: {error}")))?;
        let stop = stop()?;
        output::say(&format!(
            "weir: lab {}: switches: {}, hosts: {}, links: {}; starting …",
            lab.name,
            plan.switches.len(),
            plan.hosts.len(),
            plan.links.len()
        ));
        let token = Token::random().map_err(Failure::failed)?;
        let record = Record::new(&plan, &shape.to_string(), token, rights);
        let record = lab::start(&lab, &plan, record, &program, &stop)?;
        let document = LabDocument::of(&lab, &record);
        output::page(format, &document, |document| lab_page(document).text(what_next(document, dir)))
    }

    fn wire(&self) -> Result<Wire, Failure> {
        let bits_per_second = match self.rate.map(|limit| limit.bits_per_second) {
            Some(None) => return Err(Failure::Usage("--rate: bits per second, such as 10Mbps".into())),
            Some(rate) => rate,
            None => None,
        };
        for (name, length) in [("delay", self.delay), ("queue-timeout", self.queue_timeout)] {
            if length.0 > LONGEST_WIRE {
                return Err(Failure::Usage(format!("--{name} {length}: at most {}", Length(LONGEST_WIRE))));
            }
        }
        Ok(Wire { bits_per_second, queue: self.queue_timeout.0, delay: self.delay.0 })
    }

    fn request(&self, lab: &Lab, topology: crate::sim::Topology) -> Result<Request, Failure> {
        let mut page = PageConfig::default();
        self.page.overrule(&mut page);
        let given = self.programs.parse()?;
        let wire = self.wire()?;
        let transit = self.transit.unwrap_or_else(|| Length(TRANSIT + wire.longest(&topology)));
        let epoch = self.epoch.unwrap_or_else(|| Length(EPOCH.max(transit.0 * 2)));
        Ok(Request {
            name: lab.name.clone(),
            topology,
            programs: if given.is_empty() { usual_programs() } else { given },
            everywhere: self.everywhere,
            epoch,
            transit,
            losses: self.losses.clone(),
            wire,
            key: self.key,
            page,
            switch_socket: lab.switch_socket(),
            state: lab.file("state.json"),
        })
    }
}

/// Set by the first SIGINT or SIGTERM.
fn stop() -> Result<Arc<AtomicBool>, Failure> {
    signals::stop(|| {}).map_err(Failure::failed)
}

/// The programs that say which flows lost packets, where, and by which switches flows go.
fn usual_programs() -> Vec<ProgramConfig> {
    let all: Vec<_> = ProgramConfig::defaults().filter(|program| program.is_networked()).collect();
    let mut chosen: Vec<ProgramConfig> = Vec::new();
    for (_, program) in [Task::Losses, Task::Paths, Task::Places].into_iter().filter_map(|task| demo::best(&all, task))
    {
        if !chosen.contains(program) {
            chosen.push(program.clone());
        }
    }
    chosen
}

fn machine() -> Machine {
    let cpus = core_affinity::get_core_ids().unwrap_or_default();
    Machine { cpus: cpus.into_iter().map(|cpu| cpu.id).collect(), memory: doctor::available_memory() }
}

/// What can be typed now.
fn what_next(document: &LabDocument, dir: Option<&Path>) -> String {
    let name = &document.lab;
    let in_dir = dir.map(|dir| format!(" --dir {}", dir.display())).unwrap_or_default();
    let asked = |switch: Option<&str>| match (dir, switch) {
        (None, None) => format!("--name {name}"),
        (None, Some(switch)) => format!("--name {name}.{switch}"),
        (Some(_), None) => format!("--socket {}", document.controller.socket.display()),
        (Some(_), Some(switch)) => {
            let socket =
                document.switches.iter().find(|of| of.name == switch).map(|of| of.socket.display().to_string());
            format!("--socket {}", socket.unwrap_or_default())
        }
    };
    let mut text = "What next:".to_owned();
    if let [first, .., last] = &document.hosts[..] {
        text += &format!(
            "\n  weir lab exec --name {name}{in_dir} {} -- ping -n -c 100 -i 0.05 {}",
            first.name, last.address
        );
    }
    if let Some(link) = document.links.first() {
        let end = &link.ports[0];
        text += &format!("\n  weir port fault {} tx:drop=20% {}", end.port, asked(Some(&end.switch)));
    }
    text += &format!("\n  weir show losses --where {}", asked(None));
    text += &format!("\n  weir show paths {}\n  weir top {}", asked(None), asked(None));
    text + &format!("\n  weir lab status {name}{in_dir}\n  weir lab down {name}{in_dir}")
}

/// The lab of this name, or that of this topology.
fn find(name: &str, dir: Option<&Path>) -> Result<Lab, LabError> {
    let found = Lab::find(name, dir);
    match (&found, name.parse::<Shape>()) {
        (Err(LabError::Absent { .. }), Ok(shape)) => Lab::find(&name_of(&shape), dir),
        _ => found,
    }
}

impl Down {
    fn run(self, dir: Option<&Path>, json: bool) -> Result<(), Failure> {
        let labs = match self.all {
            true => Lab::all(dir)?,
            false => self.labs.iter().map(|name| find(name, dir)).collect::<Result<Vec<_>, _>>()?,
        };
        let mut failures = Vec::new();
        let mut removed = Vec::new();
        for lab in labs {
            match lab.remove() {
                Ok(()) => removed.push(lab.name),
                Err(error) => failures.push(format!("{}: {error}", lab.name)),
            }
        }
        output::document(json, &RemovedDocument { removed }, |document| match &document.removed[..] {
            [] => "no lab was removed".into(),
            removed => format!("removed {}", removed.join(", ")),
        })?;
        if failures.is_empty() { Ok(()) } else { Err(Failure::Failed(failures.join("\n"))) }
    }
}

impl Status {
    fn run(self, dir: Option<&Path>, format: &Format) -> Result<(), Failure> {
        match self.lab {
            Some(name) => {
                let lab = find(&name, dir)?;
                output::page(format, &LabDocument::of(&lab, &lab.read()?), lab_page)
            }
            None => {
                let labs = Lab::all(dir)?;
                output::page(format, &LabsDocument::of(&labs), labs_page)
            }
        }
    }
}

impl Exec {
    fn run(self, dir: Option<&Path>) -> Result<(), Failure> {
        let name = self.name.as_deref().map(|name| find(name, dir)).transpose()?.map(|lab| lab.name);
        let lab = Lab::find_or_only(name.as_deref(), dir)?;
        let record = lab.read()?;
        let space = record.namespace(&self.node)?;
        let mut words = self.command.into_iter();
        let program = words.next().or_else(|| std::env::var_os("SHELL")).unwrap_or("sh".into());
        let mut command = space.command(program);
        record.token.mark(&mut command);
        Err(Failure::Failed(format!("nsenter (package util-linux): {}", command.args(words).exec())))
    }
}
