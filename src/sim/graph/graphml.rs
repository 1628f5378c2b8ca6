//! GraphML (Brandes et al., "GraphML progress report", 2001), as far as nodes, their labels, and
//! edges go.

use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::{Edge, Graph, GraphError, Node, printable, push_edge, push_node};

/// Elements within elements at most.
const DEPTH: usize = 256;
/// Longest message of the XML reader, in characters: it repeats names.
const MESSAGE: usize = 120;

/// Reads the first graph of a GraphML text. Document types and the entities that they would declare
/// are refused.
///
/// # Errors
/// If the text is no GraphML, an edge's end is not there, or there are too many of either.
pub fn graphml(text: &str) -> Result<Graph, GraphError> {
    let mut document = Document::new(text.trim_start_matches('\u{feff}'));
    while document.event()? {}
    if document.graph == Part::Ahead { Err(GraphError::NoGraph) } else { Graph::join(document.nodes, document.edges) }
}

/// Where something stands: not there yet, open since so many elements are, or over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Ahead,
    Within(usize),
    Over,
}

/// What has been read so far.
struct Document<'a> {
    reader: Reader<&'a [u8]>,
    lines: Lines<'a>,
    /// Open elements.
    depth: usize,
    /// The key whose data are nodes' labels.
    label_key: Option<String>,
    graph: Part,
    /// The label of the node that was read last.
    label: Part,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

impl<'a> Document<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            reader: Reader::from_str(text),
            lines: Lines { text, at: 0, line: 1 },
            depth: 0,
            label_key: None,
            graph: Part::Ahead,
            label: Part::Over,
            nodes: Vec::new(),
            edges: Vec::new(),
        }
    }

    fn wrong<T>(&self, why: impl std::fmt::Display) -> Result<T, GraphError> {
        Err(GraphError::Xml { line: self.lines.line, why: printable(&why.to_string(), MESSAGE) })
    }

    /// Reads on; false at the end.
    fn event(&mut self) -> Result<bool, GraphError> {
        self.lines.pass(self.reader.buffer_position());
        match self.reader.read_event() {
            Ok(Event::Start(element)) => {
                self.element(&element)?;
                self.depth += 1;
                if self.depth > DEPTH {
                    let (line, what) = (self.lines.line, "elements within elements");
                    return Err(GraphError::TooDeep { line, what, max: DEPTH });
                }
            }
            Ok(Event::Empty(element)) => {
                self.element(&element)?;
                self.close();
            }
            // The reader has told an end without a beginning.
            Ok(Event::End(_)) => {
                self.depth = self.depth.saturating_sub(1);
                self.close();
            }
            Ok(Event::Text(text)) => self.text(&text),
            Ok(Event::CData(text)) => self.text(&text),
            Ok(Event::GeneralRef(entity)) => match character(&entity) {
                Some(character) => self.text(character.encode_utf8(&mut [0; 4])),
                None => return self.wrong(format_args!("unknown entity {}", &*entity)),
            },
            Ok(Event::DocType(_)) => return self.wrong("a document type"),
            Ok(Event::Comment(_) | Event::Decl(_) | Event::PI(_)) => {}
            Ok(Event::Eof) if self.depth > 0 => return self.wrong("an element without end"),
            Ok(Event::Eof) => return Ok(false),
            Err(error) => return self.wrong(error),
        }
        Ok(true)
    }

    /// An element that begins, within `depth` others.
    fn element(&mut self, element: &BytesStart<'_>) -> Result<(), GraphError> {
        let (line, depth) = (self.lines.line, self.depth);
        let missing = |what, key| GraphError::Missing { line, what, key };
        match (self.graph, element.local_name().as_ref()) {
            (Part::Ahead, "graph") => self.graph = Part::Within(depth),
            (Part::Ahead, "key") if self.label_key.is_none() => {
                let [id, name, of] = self.attributes(element, ["id", "attr.name", "for"])?;
                if name.as_deref() == Some("label") && of.as_deref() == Some("node") {
                    self.label_key = id;
                }
            }
            (Part::Within(graph), "node") if depth == graph + 1 => {
                let [id] = self.attributes(element, ["id"])?;
                let id = id.ok_or_else(|| missing("a node", "id"))?;
                push_node(&mut self.nodes, Node { line, id, label: None })?;
                self.label = Part::Ahead;
            }
            (Part::Within(graph), "edge") if depth == graph + 1 => {
                let [source, target] = self.attributes(element, ["source", "target"])?;
                let source = source.ok_or_else(|| missing("an edge", "source"))?;
                let target = target.ok_or_else(|| missing("an edge", "target"))?;
                push_edge(&mut self.edges, Edge { line, ends: [source, target] })?;
            }
            (Part::Within(graph), _) if depth == graph + 2 && self.label == Part::Ahead => {
                let [key] = self.attributes(element, ["key"])?;
                if key.is_some() && key == self.label_key {
                    self.label = Part::Within(depth);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An element has ended, within `depth` others.
    fn close(&mut self) {
        let over = Part::Within(self.depth);
        if self.label == over {
            self.label = Part::Over;
            if let Some(Node { label: Some(label), .. }) = self.nodes.last_mut() {
                *label = label.trim().to_owned();
            }
        } else if self.graph == over {
            self.graph = Part::Over;
        } else if self.depth.checked_sub(1).is_some_and(|above| self.graph == Part::Within(above)) {
            self.label = Part::Over;
        }
    }

    fn text(&mut self, text: &str) {
        if let (Part::Within(_), Some(node)) = (self.label, self.nodes.last_mut()) {
            node.label.get_or_insert_default().push_str(text);
        }
    }

    /// The values of an element's attributes, as far as they are asked for; of equal ones the first
    /// counts.
    fn attributes<const N: usize>(
        &self,
        element: &BytesStart<'_>,
        keys: [&str; N],
    ) -> Result<[Option<String>; N], GraphError> {
        let mut values = [const { None }; N];
        // The reader's search for equal ones takes quadratic time.
        for attribute in element.attributes().with_checks(false) {
            let attribute = attribute.or_else(|error| self.wrong(error))?;
            let wanted = keys.iter().position(|key| *key == attribute.key.as_ref()).map(|i| &mut values[i]);
            if let Some(value @ None) = wanted {
                let text = attribute.normalized_value(XmlVersion::Implicit1_0).or_else(|error| self.wrong(error))?;
                *value = Some(text.into_owned());
            }
        }
        Ok(values)
    }
}

/// What a reference such as `&amp;` or `&#65;` stands for.
fn character(entity: &BytesRef<'_>) -> Option<char> {
    let number = entity.resolve_char_ref().ok()?;
    number.or_else(|| resolve_xml_entity(entity)?.chars().next())
}

/// The line of each place, of places that come in their order.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl Lines<'_> {
    fn pass(&mut self, to: u64) {
        let to = usize::try_from(to).unwrap_or(usize::MAX);
        let passed = self.text.as_bytes().get(self.at..to).unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count() as u32;
        self.at = to;
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
            <hyperedge><data key="d33">no node's</data></hyperedge>
            <edge target="n1" source="7"/></graph><graph><node/></graph></graphml>"#
        );
        let graph = graphml(&text).unwrap();
        assert_eq!(graph.nodes, ["Springfield", "Springfield", "3"]);
        assert_eq!(graph.edges, [[0, 1], [1, 0]]);
    }

    #[test]
    fn labels_are_texts() {
        let text = format!(
            r#"{HEAD}<graph><node id="&lt;&#65;&quot;"><data key="d33"> a &amp;<!-- > --><![CDATA[ <b> &]]>&#x63; </data>
            <data key="d33">d</data></node><x:node id='1'><data key="d33"/><data key="d33">2</data></x:node></graph></graphml>"#
        );
        assert_eq!(graphml(&text).unwrap().nodes, ["a & <b> &c", "1"]);
        assert_eq!(graphml(&text.replace("key=\"d33", "key=\"d3")).unwrap().nodes, ["<A\"", "1"]);
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
            of("\n<graph></graphml>"),
            of("<graph>\n<node id=\"&e;\"/></graph></graphml>"),
            of("<graph>\n&e;</graph></graphml>"),
            of("<graph>\n<node id=a/></graph></graphml>"),
            graphml("<!DOCTYPE g [<!ENTITY a \"aa\">]><g>&a;</g>").unwrap_err().to_string(),
            graphml("").unwrap_err().to_string(),
        ];
        insta::assert_snapshot!(errors.join("\n"), @r#"
        no graph in it
        line 3: not XML: an element without end
        line 4: a node without id
        line 4: an edge without target
        line 4: an edge to node b, which is not there
        line 4: node id a for the second time
        line 4: not XML: ill-formed document: expected `</graph>`, but `</graphml>` was found
        line 4: not XML: at 1..2: unrecognized entity `e`
        line 4: not XML: unknown entity e
        line 4: not XML: position 8: attribute value must be enclosed in `"` or `'`
        line 1: not XML: a document type
        no graph in it
        "#);
    }
    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}<graph/>{}", "<a b='/>'>".repeat(depth), "</a>".repeat(depth));
        assert_eq!(graphml(&nested(DEPTH)), Ok(Graph::default()));
        let deep = GraphError::TooDeep { line: 1, what: "elements within elements", max: DEPTH };
        assert_eq!(graphml(&nested(DEPTH + 1)), Err(deep.clone()));
        assert_eq!(graphml(&"<a>".repeat(1 << 20)), Err(deep));
        let flat = "<!-- <a> --><a/><?a <a> ?><![CDATA[<a>]]><b></b >".repeat(DEPTH);
        assert_eq!(graphml(&format!("<g>{flat}<graph/></g>")), Ok(Graph::default()));
    }
}
