//! GraphML (Brandes et al., "GraphML progress report", 2001), as far as nodes, their labels, and edges go.

use roxmltree::{Document, ParsingOptions};

use super::{Edge, Graph, GraphError, Node, push_edge, push_node};

/// Most elements, attributes and texts of a file.
const MAX_NODES: u32 = 4_000_000;

/// Reads the first graph of a GraphML text. Document types and the entities that they would declare are refused.
///
/// # Errors
/// If the text is no GraphML, an edge's end is not there, or there are too many of either.
pub fn graphml(text: &str) -> Result<Graph, GraphError> {
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let text = text.trim_start_matches('\u{feff}');
    let document = Document::parse_with_options(text, options).map_err(|error| GraphError::Xml(error.to_string()))?;
    let mut lines = Lines { text, at: 0, line: 1 };
    let elements = || document.root().descendants().filter(|node| node.is_element());
    let graph = elements().find(|node| node.tag_name().name() == "graph").ok_or(GraphError::NoGraph)?;
    let label_key = elements()
        .find(|key| {
            key.tag_name().name() == "key"
                && key.attribute("attr.name") == Some("label")
                && key.attribute("for") == Some("node")
        })
        .and_then(|key| key.attribute("id"));
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    for element in graph.children().filter(|node| node.is_element()) {
        let line = lines.of(element.range().start);
        let attribute = |what, key| {
            let missing = || GraphError::Missing { line, what, key };
            element.attribute(key).map(str::to_owned).ok_or_else(missing)
        };
        match element.tag_name().name() {
            "node" => {
                let id = attribute("a node", "id")?;
                let label =
                    element.children().find(|data| data.attribute("key").is_some_and(|key| Some(key) == label_key));
                let label = label.and_then(|data| data.text()).map(|text| text.trim().to_owned());
                push_node(&mut nodes, Node { line, id, label })?;
            }
            "edge" => {
                let ends = [attribute("an edge", "source")?, attribute("an edge", "target")?];
                push_edge(&mut edges, Edge { line, ends })?;
            }
            _ => {}
        }
    }
    Graph::join(nodes, edges)
}

/// The line of each place, of places that come in their order.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl Lines<'_> {
    fn of(&mut self, at: usize) -> u32 {
        let passed = self.text.as_bytes().get(self.at..at).unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count() as u32;
        self.at = at;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"<?xml version="1.0" encoding="utf-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" attr.type="string" for="edge" id="d1" />
  <key attr.name="label" attr.type="string" for="node" id="d33" />"#;

    #[test]
    fn a_multigraph_goes_by_id() {
        let text = format!(
            r#"{HEAD}<graph edgedefault="undirected"><data key="d0">x</data>
            <edge source="n1" target="7" id="e0"><data key="d1">10 Gbps</data></edge>
            <node id="n1"><data key="d2">5</data><data key="d33"> Springfield </data></node>
            <node id="7"><data key="d33">Springfield</data></node><node id="3"/>
            <edge target="n1" source="7"/></graph></graphml>"#
        );
        let graph = graphml(&text).unwrap();
        assert_eq!(graph.nodes, ["Springfield", "Springfield", "3"]);
        assert_eq!(graph.edges, [[0, 1], [1, 0]]);
    }

    #[test]
    fn errors_have_their_place() {
        let of = |body: &str| match graphml(&format!("{HEAD}{body}")) {
            Ok(graph) => format!("{} nodes", graph.nodes.len()),
            Err(error) => error.to_string(),
        };
        let errors = [
            of("</graphml>"),
            of("<graph>"),
            of("<graph>\n<node/></graph></graphml>"),
            of("<graph>\n<edge source=\"a\"/></graph></graphml>"),
            of("<graph>\n<node id=\"a\"/><edge source=\"a\" target=\"b\"/></graph></graphml>"),
            of("<graph><node id=\"a\"/>\n<node id=\"a\"/></graph></graphml>"),
            graphml("<!DOCTYPE g [<!ENTITY a \"aa\">]><g>&a;</g>").unwrap_err().to_string(),
            graphml("").unwrap_err().to_string(),
        ];
        insta::assert_snapshot!(errors.join("\n"), @r"
        no graph in it
        not XML: the root node was opened but never closed
        line 4: a node without id
        line 4: an edge without target
        line 4: an edge to node b, which is not there
        line 4: node id a for the second time
        not XML: XML with DTD detected
        not XML: the document does not have a root node
        ");
    }
}
