//! What `weir lab` says of labs, as documents and as pages.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::Serialize;

use super::super::output::{Cell, Page, Table, row};
use crate::answers::PortName;
use crate::lab::{Lab, Record};

/// One lab.
#[derive(Debug, Serialize)]
pub struct LabDocument {
    pub lab: String,
    pub topology: String,
    /// `running`, `starting`, `incomplete` or `broken`.
    pub state: &'static str,
    pub directory: PathBuf,
    pub rootless: bool,
    pub programs: Vec<String>,
    pub controller: ControllerDocument,
    pub switches: Vec<SwitchDocument>,
    pub hosts: Vec<HostDocument>,
    pub links: Vec<LinkDocument>,
}

#[derive(Debug, Serialize)]
pub struct ControllerDocument {
    pub socket: PathBuf,
    pub process: Option<u32>,
    pub running: bool,
    pub page: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct SwitchDocument {
    pub name: String,
    /// Its name in the topology.
    pub label: String,
    pub socket: PathBuf,
    pub process: Option<u32>,
    pub running: bool,
}

#[derive(Debug, Serialize)]
pub struct HostDocument {
    pub name: String,
    pub address: Ipv4Addr,
    pub gateway: Ipv4Addr,
    pub mac: String,
    /// The port that it is at, `SWITCH:PORT`.
    pub at: PortName,
    /// The process that holds its namespace.
    pub process: Option<u32>,
    pub running: bool,
}

/// A link between two switches.
#[derive(Debug, Serialize)]
pub struct LinkDocument {
    pub link: u32,
    pub ports: [PortName; 2],
}

/// All labs.
#[derive(Debug, Serialize)]
pub struct LabsDocument {
    pub labs: Vec<LabSummary>,
}

#[derive(Debug, Serialize)]
pub struct LabSummary {
    pub lab: String,
    /// Empty where the lab has no record.
    pub topology: String,
    pub state: &'static str,
    #[serde(rename = "switches")]
    pub switch_count: u32,
    #[serde(rename = "hosts")]
    pub host_count: u32,
    pub directory: PathBuf,
}

/// `weir lab down`.
#[derive(Debug, Serialize)]
pub struct RemovedDocument {
    pub removed: Vec<String>,
}

impl LabDocument {
    pub fn of(lab: &Lab, record: &Record) -> Self {
        let runs = |process| record.runs(process);
        let controller = &record.controller;
        let switches = record.switches.iter().map(|switch| SwitchDocument {
            name: switch.name.clone(),
            label: switch.label.clone(),
            socket: lab.socket(&switch.name),
            process: switch.process,
            running: runs(switch.process) && runs(switch.holder),
        });
        let hosts = record.hosts.iter().map(|host| HostDocument {
            name: host.name.clone(),
            address: host.address,
            gateway: host.gateway,
            mac: host.mac.to_string(),
            at: host.at.clone(),
            process: host.holder,
            running: runs(host.holder),
        });
        let links = record.links.iter().map(|link| LinkDocument { link: link.link, ports: link.ports.clone() });
        let mut document = Self {
            lab: lab.name.clone(),
            topology: record.topology.clone(),
            state: "running",
            directory: lab.directory(),
            rootless: record.rootless,
            programs: record.programs.clone(),
            controller: ControllerDocument {
                socket: lab.controller_socket(),
                process: controller.process,
                running: runs(controller.process),
                page: controller.page.clone(),
            },
            switches: switches.collect(),
            hosts: hosts.collect(),
            links: links.collect(),
        };
        document.state = document.state(lab, record);
        document
    }

    fn state(&self, lab: &Lab, record: &Record) -> &'static str {
        let mut nodes =
            self.switches.iter().map(|switch| switch.running).chain(self.hosts.iter().map(|host| host.running));
        match record.complete {
            true if self.controller.running && nodes.all(|running| running) => "running",
            true => "broken",
            false if lab.is_being_started() => "starting",
            false => "incomplete",
        }
    }
}

impl LabsDocument {
    pub fn of(labs: &[Lab]) -> Self {
        let summary = |lab: &Lab| {
            let document = lab.read().map(|record| LabDocument::of(lab, &record)).ok();
            let count = |items: Option<usize>| items.unwrap_or(0) as u32;
            LabSummary {
                lab: lab.name.clone(),
                topology: document.as_ref().map(|document| document.topology.clone()).unwrap_or_default(),
                state: document.as_ref().map_or("incomplete", |document| document.state),
                switch_count: count(document.as_ref().map(|document| document.switches.len())),
                host_count: count(document.as_ref().map(|document| document.hosts.len())),
                directory: lab.directory(),
            }
        };
        Self { labs: labs.iter().map(summary).collect() }
    }
}

fn state(running: bool) -> &'static str {
    if running { "running" } else { "ended" }
}

/// A lab: its switches, hosts and links.
pub fn lab_page(document: &LabDocument) -> Page {
    let process = |process: Option<u32>| Cell::or("-", process.map(Cell::plain));
    let controller = &document.controller;
    let LabDocument { lab, topology, programs, .. } = document;
    let mut head = format!("lab {lab}, {topology}: {}; programs {}", document.state, programs.join(", "));
    head += &format!("\ncontroller: {}, {}", state(controller.running), controller.socket.display());
    if let Some(page) = &controller.page {
        head += &format!("\npage: http://{page}/");
    }
    head += &format!("\nfiles and logs: {}", document.directory.display());
    let switches = document.switches.iter().map(|switch| {
        let socket = switch.socket.display().to_string();
        row![switch.name.clone(), switch.label.clone(), state(switch.running), process(switch.process), socket]
    });
    let hosts = document.hosts.iter().map(|host| {
        let [address, gateway, at] = [host.address.to_string(), host.gateway.to_string(), host.at.to_string()];
        row![host.name.clone(), address, gateway, at, state(host.running), process(host.process)]
    });
    let links = document.links.iter().map(|link| {
        let [one, other] = link.ports.each_ref().map(ToString::to_string);
        row![link.link, one, other]
    });
    Page::default()
        .text(head)
        .table("switches", Table::new(["switch", "label", "state", ">process", "socket"], switches))
        .table("hosts", Table::new(["host", "address", "gateway", "at", "state", ">process"], hosts))
        .table("links", Table::new([">link", "port|from_port", "port|to_port"], links))
}

/// The labs that there are.
pub fn labs_page(document: &LabsDocument) -> Page {
    let lab = |lab: &LabSummary| {
        let directory = lab.directory.display().to_string();
        row![lab.lab.clone(), lab.topology.clone(), lab.state, lab.switch_count, lab.host_count, directory]
    };
    if document.labs.is_empty() {
        return Page::default().text("There is no lab; `weir lab up line:3` starts one.").table("labs", labs_table([]));
    }
    Page::default().table("labs", labs_table(document.labs.iter().map(lab)))
}

fn labs_table(rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
    Table::new(["lab", "topology", "state", ">switches", ">hosts", "directory"], rows)
}
