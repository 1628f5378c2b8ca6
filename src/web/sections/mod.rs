//! The sections of the page, a file each: an answer's type as HTML.

mod attention;
mod claims;
mod drops;
mod flow;
mod flows;
mod head;
mod losses;
mod map;
mod more;

use maud::{Markup, html};

use super::Source;
use super::answers::Answers;
use super::frame::Section;
use super::map::Map;
use super::map::layout::Layout;
use super::text;

pub use flow::{flow, no_flow};
pub use map::MAP;

/// What makes sections, and the layout of the map that was drawn last.
#[derive(Default)]
pub struct Maker {
    map: Map,
    layout: Layout,
}

impl Maker {
    /// All sections but the one about chosen flows, in their order.
    pub fn make<S: Source>(&mut self, source: &S, answers: &Answers) -> Vec<Section> {
        text::for_people();
        let map = source.map();
        if !same_shape(&map, &self.map) {
            self.layout = Layout::of(&map);
        }
        self.map = map;
        let drawn = map::section(&self.map, &self.layout, answers);
        let sections = [
            Some(head::section(source)),
            Some(claims::section(answers)),
            Some(drawn),
            losses::section(answers),
            flows::section(answers),
            source.drops().map(|drops| drops::section(&drops)),
            attention::section(answers),
            more::section(answers),
        ];
        sections.into_iter().flatten().collect()
    }
}

/// Whether two maps are drawn in the same places.
fn same_shape(one: &Map, other: &Map) -> bool {
    let nodes = |map: &Map| map.nodes.iter().map(|node| (node.name.clone(), node.kind, node.hosts)).collect::<Vec<_>>();
    let edges = |map: &Map| map.edges.iter().map(|edge| (edge.ends, edge.ports.clone())).collect::<Vec<_>>();
    nodes(one) == nodes(other) && edges(one) == edges(other)
}

/// A section with its heading, which can be reached by keys.
fn titled(id: &'static str, title: &str, content: Markup) -> Markup {
    let heading = format!("{id}-title");
    html! {
        section id=(id) aria-labelledby=(heading) {
            h2 id=(heading) { (title) }
            (content)
        }
    }
}
