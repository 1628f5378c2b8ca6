//! A switch as the source of a page: its ports, and what stands behind them.

use std::sync::Arc;

use super::{Edge, Map, Node, Source};
use crate::answers::{Links, Queryable, Task};
use crate::api::view::{self, Drops};
use crate::api::{Answering, HeavyQuery, Service};
use crate::output::{self, Page};
use crate::switch::Role;

/// A switch behind a page.
pub struct SwitchSource<S> {
    name: String,
    service: Arc<S>,
}

impl<S: Service> SwitchSource<S> {
    pub fn new(service: Arc<S>) -> Self {
        Self { name: service.status().name, service }
    }
}

impl<S: Service> Answering for SwitchSource<S> {
    fn is_live(&self) -> bool {
        self.service.is_live()
    }

    fn history(&self, task: Task, query: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        self.service.history(task, query)
    }

    fn links(&self) -> Links {
        self.service.links()
    }
}

impl<S: Service> Source for SwitchSource<S> {
    const KIND: &'static str = "switch";

    fn name(&self) -> String {
        self.name.clone()
    }

    fn map(&self) -> Map {
        let ports = self.service.ports().ports;
        let mut map = Map { nodes: vec![Node::switch(&self.name, 0)], edges: Vec::new() };
        for port in &ports {
            let beyond =
                if port.role == Role::Fabric.name() { Node::beyond(&port.name) } else { Node::host(&port.name) };
            map.nodes.push(beyond);
            let note = note(port);
            let edge = Edge::new([0, map.nodes.len() - 1]).at([Some(&port.name), None]);
            map.edges.push(Edge { note, is_down: !(port.enabled && port.link_up), ..edge });
        }
        map
    }

    fn drops(&self) -> Option<Page> {
        Some(Drops::of(&self.service.ports()).page())
    }
}

/// The counts of a port in words.
fn note(port: &view::Port) -> String {
    let counts = &port.counts;
    let [rx, tx] = [counts.rx_packets, counts.tx_packets].map(|packets| output::count(packets, "packet"));
    let dropped = output::grouped(counts.dropped_packets());
    format!("{}: {rx} in, {tx} out, {dropped} dropped", port.dev)
}
