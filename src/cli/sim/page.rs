//! The simulated network behind a live page.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::super::output::{self, Cell, Page, Table, row};
use super::super::page::LivePage;
use super::super::{Failure, page};
use crate::answers::{Links, PortName, Queryable, Task};
use crate::api::{Answering, HeavyQuery};
use crate::lock::Hold;
use crate::program::ProgramConfig;
use crate::sim::report::LostAt;
use crate::sim::{EpochReport, Setup, Simulation};
use crate::web::{self, Map, Node, Pace, Source};

/// A page that is to be served, and the thread of the simulation that waits for it.
pub struct SimPage {
    network: Option<Arc<SimulatedNetwork>>,
    length: Duration,
}

/// The simulation that the page asks.
struct SimulatedNetwork {
    name: String,
    programs: Vec<(ProgramConfig, Arc<dyn Queryable>)>,
    links: Links,
    map: Map,
    pace: Pace,
    /// The newest epoch that is over.
    newest: Mutex<Option<EpochReport>>,
}

/// Listens before the simulation begins.
pub fn listener(page: &LivePage) -> Result<Option<TcpListener>, Failure> {
    page::listener(&page.config())
}

impl SimPage {
    /// Serves the page, if there is one.
    pub fn serve(
        listener: Option<TcpListener>,
        page: &LivePage,
        name: String,
        (setup, simulation): (&Setup, &Simulation),
    ) -> Result<Self, Failure> {
        let length = Duration::from_nanos(setup.epoch);
        let Some(listener) = listener else { return Ok(Self { network: None, length }) };
        let address = listener.local_addr().map_err(Failure::failed)?;
        let network = Arc::new(SimulatedNetwork::new(name, setup, simulation));
        web::serve(listener, &page.config().hosts, network.clone()).map_err(Failure::failed)?;
        output::say(&format!("The page is at http://{address}/ until the simulation is interrupted."));
        Ok(Self { network: Some(network), length })
    }

    /// Waits until the next epoch may pass.
    pub fn wait(&self) {
        self.network.iter().for_each(|network| network.pace.wait(self.length));
    }

    /// These epochs are over.
    pub fn passed(&self, reports: &[EpochReport]) {
        if let (Some(network), Some(newest)) = (&self.network, reports.last()) {
            *network.newest.hold() = Some(newest.clone());
        }
    }

    /// The page stays, without further epochs, until the process is ended.
    pub fn stay(&self) {
        let Some(network) = &self.network else { return };
        network.pace.end();
        loop {
            std::thread::park();
        }
    }
}

impl SimulatedNetwork {
    fn new(name: String, setup: &Setup, simulation: &Simulation) -> Self {
        let network = simulation.network();
        Self {
            name,
            programs: setup.programs.iter().cloned().zip(simulation.histories()).collect(),
            links: network.links(),
            map: map(simulation),
            pace: Pace::default(),
            newest: Mutex::default(),
        }
    }
}

/// The switches as answers name them, with their names in the topology where these differ.
fn map(simulation: &Simulation) -> Map {
    let topology = simulation.network().topology();
    let mut map = Map::default();
    for (at, (name, label)) in simulation.names().iter().zip(topology.switches()).enumerate() {
        let label = if **name == **label { String::new() } else { label.clone() };
        map.nodes.push(Node { label, ..Node::switch(name, topology.hosts_of(at as u32).len()) });
    }
    for ends in simulation.network().links().0 {
        map.link(ends.each_ref().map(|PortName { switch, port }| (&**switch, &**port)));
    }
    map
}

impl Answering for SimulatedNetwork {
    fn is_live(&self) -> bool {
        false
    }

    fn history(&self, task: Task, query: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        let chosen = query.choose(self.programs.iter().map(|(program, _)| program), task);
        let history = chosen.and_then(|chosen| self.programs.iter().find(|(program, _)| program == chosen));
        let none = || {
            let names = self.programs.iter().map(|(program, _)| program.name()).collect::<Vec<_>>().join(" and ");
            format!("the switches run {names}; none that is asked answers this")
        };
        history.map(|(_, history)| history.clone()).ok_or_else(none)
    }

    fn links(&self) -> Links {
        self.links.clone()
    }
}

impl Source for SimulatedNetwork {
    const KIND: &'static str = "simulation";

    fn name(&self) -> String {
        self.name.clone()
    }

    fn map(&self) -> Map {
        self.map.clone()
    }

    /// The truth about the newest epoch.
    fn drops(&self) -> Option<Page> {
        let newest = self.newest.hold();
        let Some(report) = newest.as_ref() else { return Some(Page::default().text("no epoch has ended yet")) };
        let sums = format!(
            "epoch {}, as hosts sent and received: {} sent, {} delivered, {} lost",
            report.epoch,
            output::count(report.sent_packets, "packet"),
            output::grouped(report.delivered_packets),
            output::grouped(report.lost_packets),
        );
        Some(Page::default().text(sums).table("losses", lost_table(&report.losses, &self.map)))
    }

    fn pace(&self) -> Option<&Pace> {
        Some(&self.pace)
    }
}

fn lost_table(losses: &[LostAt], map: &Map) -> Table {
    let row = |at: &LostAt| {
        let towards = Cell::or("", at.towards.as_deref().map(|switch| named(switch, map)));
        row![&at.reason, named(&at.switch, map), towards, at.flows, at.packets]
    };
    Table::new(["reason", "switch", "towards?", ">flows", ">packets"], losses.iter().map(row))
}

/// A switch of the topology by the name that answers have, with the topology's behind it where that differs.
fn named(label: &str, map: &Map) -> String {
    let node = map.nodes.iter().find(|node| node.note == label);
    node.map_or_else(|| label.to_owned(), |node| format!("{} ({label})", node.name))
}
