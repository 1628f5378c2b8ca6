//! The map of a network: what there is, where it is drawn (`layout`), and what is known of each link
//! (`links`).

pub mod layout;
pub mod links;

/// Switches, what stands behind them, and the links between these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    Switch,
    Host,
    /// Behind a fabric port: another switch, which is not known.
    Beyond,
}

/// Something that links end at.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Of a switch the one that answers have.
    pub name: String,
    /// What a topology's file calls it, where that is something else.
    pub label: String,
    pub kind: NodeKind,
    /// Number of hosts of a switch that have no nodes of their own.
    pub hosts: usize,
    pub is_down: bool,
    pub note: String,
}

/// A link.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The places of its nodes.
    pub ends: [usize; 2],
    /// The ports there.
    pub ports: [Option<String>; 2],
    pub is_down: bool,
    pub note: String,
}

impl Node {
    pub fn switch(name: &str, hosts: usize) -> Self {
        let (label, note) = Default::default();
        Self { name: name.into(), label, kind: NodeKind::Switch, hosts, is_down: false, note }
    }

    pub fn host(name: &str) -> Self {
        Self { kind: NodeKind::Host, ..Self::switch(name, 0) }
    }

    pub fn beyond(name: &str) -> Self {
        Self { kind: NodeKind::Beyond, ..Self::switch(name, 0) }
    }
}

impl Edge {
    pub fn new(ends: [usize; 2]) -> Self {
        Self { ends, ports: [None, None], is_down: false, note: String::new() }
    }

    #[must_use]
    pub fn at(self, ports: [Option<&str>; 2]) -> Self {
        Self { ports: ports.map(|port| port.map(str::to_owned)), ..self }
    }
}

impl Map {
    /// Adds a link between two switches, each by its name and port; switches that are not there yet as well.
    pub fn link(&mut self, ends: [(&str, &str); 2]) {
        let nodes = ends.map(|(switch, _)| self.switch(switch));
        self.edges.push(Edge::new(nodes).at(ends.map(|(_, port)| Some(port))));
    }

    /// The place of a switch.
    fn switch(&mut self, name: &str) -> usize {
        let found = self.nodes.iter().position(|node| node.kind == NodeKind::Switch && node.name == name);
        found.unwrap_or_else(|| {
            self.nodes.push(Node::switch(name, 0));
            self.nodes.len() - 1
        })
    }

    /// The nodes at the other ends of each node's links.
    fn neighbours(&self) -> Vec<Vec<usize>> {
        let mut neighbours = vec![Vec::new(); self.nodes.len()];
        for Edge { ends: [a, b], .. } in &self.edges {
            neighbours[*a].push(*b);
            neighbours[*b].push(*a);
        }
        neighbours
    }
}
