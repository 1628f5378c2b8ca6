//! Graphs from files, as the Internet Topology Zoo has them: GML and GraphML.
//!
//! Both allow parallel edges and equal labels, so nodes are told apart by their ids alone. Files
//! come from anywhere: what is read is bounded, and every mistake is an error with its place.

mod gml;
mod graphml;

pub use gml::gml;
pub use graphml::graphml;

use rustc_hash::FxHashMap;

use super::topology::{MAX_LINKS, MAX_SWITCHES};

/// Nodes, and edges between them by number. Parallel edges and loops may be among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The nodes' labels, or their ids where there are none.
    pub nodes: Vec<String>,
    pub edges: Vec<[u32; 2]>,
}

/// What is wrong with a graph's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("line {line}: {found} where {expected} belongs")]
    Syntax { line: u32, found: String, expected: &'static str },
    #[error("line {line}: {what}, {max} deep at most")]
    TooDeep { line: u32, what: &'static str, max: usize },
    #[error("line {line}: not XML: {why}")]
    Xml { line: u32, why: String },
    #[error("no graph in it")]
    NoGraph,
    #[error("line {line}: {what} without {key}")]
    Missing { line: u32, what: &'static str, key: &'static str },
    #[error("line {line}: node id {id} for the second time")]
    Twice { line: u32, id: String },
    #[error("line {line}: an edge to node {id}, which is not there")]
    NoNode { line: u32, id: String },
    #[error("more than {max} {what}")]
    TooMany { what: &'static str, max: usize },
}

/// Longest text that an error or a label repeats, in characters.
const SHOWN: usize = 40;

fn shown(text: &str) -> String {
    printable(text, SHOWN)
}

/// The beginning of a text. What comes from a file is printed to a terminal.
fn printable(text: &str, max: usize) -> String {
    text.chars().take(max).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A node or edge as it stands in a file.
struct Node {
    line: u32,
    id: String,
    label: Option<String>,
}

struct Edge {
    line: u32,
    ends: [String; 2],
}

impl Graph {
    /// Edges may come before the nodes that they join.
    fn join(nodes: Vec<Node>, edges: Vec<Edge>) -> Result<Self, GraphError> {
        let mut numbers = FxHashMap::default();
        let mut graph = Self::default();
        for Node { line, id, label } in nodes {
            graph.nodes.push(shown(label.as_deref().unwrap_or(&id)));
            let number = graph.nodes.len() as u32 - 1;
            if let Some(first) = numbers.insert(id, number) {
                return Err(GraphError::Twice { line, id: shown(&graph.nodes[first as usize]) });
            }
        }
        for Edge { line, ends } in edges {
            let number = |id: &String| {
                let missing = || GraphError::NoNode { line, id: shown(id) };
                numbers.get(id).copied().ok_or_else(missing)
            };
            graph.edges.push([number(&ends[0])?, number(&ends[1])?]);
        }
        Ok(graph)
    }
}

/// Whether one more of these is allowed.
fn room<T>(list: &[T], what: &'static str, max: usize) -> Result<(), GraphError> {
    if list.len() < max { Ok(()) } else { Err(GraphError::TooMany { what, max }) }
}

fn push_node(nodes: &mut Vec<Node>, node: Node) -> Result<(), GraphError> {
    room(nodes, "nodes", MAX_SWITCHES)?;
    nodes.push(node);
    Ok(())
}

fn push_edge(edges: &mut Vec<Edge>, edge: Edge) -> Result<(), GraphError> {
    room(edges, "edges", MAX_LINKS)?;
    edges.push(edge);
    Ok(())
}
