//! Graphs from files, as GML and as GraphML: nothing panics, and what is accepted hangs together.

use weir::sim::Topology;
use weir::sim::graph::{Graph, gml, graphml};

pub fn run(text: &str) {
    for read in [gml(text), graphml(text)] {
        match read {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(graph) => check(graph),
        }
    }
}

fn check(graph: Graph) {
    let nodes = graph.nodes.len() as u32;
    assert!(graph.edges.iter().flatten().all(|&node| node < nodes));
    let edges = graph.edges.iter().filter(|[a, b]| a != b).count();
    match Topology::of_graph(graph) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(topology) => {
            assert_eq!((topology.switches().len() as u32, topology.links().len()), (nodes, edges));
            assert!(topology.distances(0).iter().all(|&links| links < nodes));
        }
    }
}
