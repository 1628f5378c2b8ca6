//! The map of the network. Colour and a broken line say what a link loses, width how busy it is; a title and the
//! list below say both in words.

use std::cmp::Reverse;
use std::fmt::Write;

use maud::{Markup, PreEscaped, html};

use super::titled;
use crate::output::{self, Cell, Table, row};
use crate::web::answers::Answers;
use crate::web::frame::Section;
use crate::web::map::layout::{Layout, half_width, label};
use crate::web::map::links::{Known, Losses, MapFacts, busy_level};
use crate::web::map::{Edge, Map, Node, NodeKind};
use crate::web::text;

/// The section's id.
pub const MAP: &str = "map";
/// Links and nodes that are drawn at most; more are in the lists alone.
const DRAWN: usize = 4096;
/// A drawing that is narrower shrinks to its place; another one is scrolled.
const SMALL: f64 = 620.0;
/// Links whose loss is written beside them, those that lose most.
const LABELLED: usize = 12;

/// The id of the list of links.
const LIST: &str = "map-list";

pub fn section(map: &Map, layout: &Layout, answers: &Answers) -> Section {
    let known = Known::new(answers.places.as_ref(), answers.utilisation.as_ref(), answers.paths.as_ref());
    let facts = MapFacts::new(map, &known);
    let is_drawn = map.nodes.len().max(map.edges.len()) <= DRAWN;
    let mut parts: Vec<_> = drawn(map, layout, &facts).filter(|_| is_drawn).collect();
    let svg: String = parts.iter().map(|(_, html)| &**html).collect();
    let ids: Vec<_> = parts.iter().map(|(id, _)| &**id).collect();
    let note = note(is_drawn, answers);
    let legend = legend(answers);
    let shape = format!("{} {} {} {note}", frame(layout, "").0, ids.join(" "), legend.0);
    let list = html! { div #(LIST) { (text::table(&table(map, &facts))) } };
    let content = html! {
        @if is_drawn { (frame(layout, &svg)) (legend) }
        @if !note.is_empty() { p.says { (note) } }
        (list)
    };
    parts.push((LIST.to_owned(), list.0));
    Section { id: MAP, html: titled(MAP, "The network", content), parts, shape }
}

/// The drawing around its elements.
fn frame(layout: &Layout, elements: &str) -> Markup {
    let (width, height) = (layout.width.round(), layout.height.round());
    html! {
        div.wide tabindex="0" {
            svg.network.small[layout.width < SMALL].narrow[layout.is_narrow] role="img" aria-label="Switches and the links between them" viewBox={ "0 0 " (width) " " (height) }
                width=(width) height=(height) { (PreEscaped(elements)) }
        }
    }
}

/// What is not drawn, and why.
fn note(is_drawn: bool, answers: &Answers) -> &'static str {
    match (&answers.places, &answers.utilisation) {
        _ if !is_drawn => "The network is too large to be drawn.",
        (None, None) => "No program that runs here says where packets are lost, or how busy links are.",
        (None, Some(_)) => "No program that runs here says where packets are lost.",
        (Some(_), _) => "",
    }
}

/// Explains the colours and broken lines where losses are known, and widths where utilisations are.
fn legend(answers: &Answers) -> Markup {
    let losses = ["no loss", "less than 0.01 %", "to 0.1 %", "to 1 %", "1 % or more"];
    html! {
        ul.legend {
            @if answers.places.is_some() {
                @for (level, text) in losses.into_iter().enumerate() { (key(&format!("l{level}"), text)) }
                (key("l4 failed", "failed: loses more than a healthy link"))
                (key("unknown", "not known"))
            }
            @if answers.utilisation.is_some() { li { "wider: busier" } }
        }
    }
}

/// A line of this class, and what it means.
fn key(class: &str, text: &str) -> Markup {
    html! {
        li {
            svg.key viewBox="0 0 28 8" width="28" height="8" aria-hidden="true" {
                line class=(class) x1="0" y1="4" x2="28" y2="4" {}
            }
            " " (text)
        }
    }
}

/// The elements of the drawing, each with its id: links below, nodes above them.
fn drawn<'a>(
    map: &'a Map,
    layout: &'a Layout,
    facts: &'a MapFacts,
) -> impl Iterator<Item = (String, String)> + use<'a> {
    let labelled = labelled(facts);
    let edges = map.edges.iter().enumerate().map(move |(at, edge)| {
        let id = format!("link-{at}");
        let html = link(&id, map, edge, layout, &facts.edges[at], labelled.contains(&at)).0;
        (id, html)
    });
    let nodes = map.nodes.iter().enumerate().map(|(at, of)| {
        let id = format!("node-{at}");
        let html = node(&id, of, layout.at[at], &facts.nodes[at], layout.is_narrow).0;
        (id, html)
    });
    edges.chain(nodes)
}

/// The worst of both directions.
fn worst(directions: &[(Losses, Option<f64>); 2]) -> &Losses {
    let [(a, _), (b, _)] = directions;
    match (a, b) {
        (Losses::None, Losses::Unknown) => b,
        _ if b.order() > a.order() => b,
        _ => a,
    }
}

/// The links that lose most.
fn labelled(facts: &MapFacts) -> Vec<usize> {
    let worst = facts.edges.iter().map(worst).enumerate();
    let mut lost: Vec<_> = worst.filter(|(_, losses)| losses.lost().is_some()).collect();
    lost.sort_by_key(|(_, losses)| Reverse(losses.order()));
    lost.into_iter().take(LABELLED).map(|(at, _)| at).collect()
}

fn link(
    id: &str,
    map: &Map,
    edge: &Edge,
    layout: &Layout,
    facts: &[(Losses, Option<f64>); 2],
    is_labelled: bool,
) -> Markup {
    let [[x1, y1], [x2, y2]] = edge.ends.map(|end| layout.at[end].map(f64::round));
    let names = edge.ends.map(|end| &*map.nodes[end].name);
    let losses = worst(facts);
    let busy = facts.iter().filter_map(|(_, busy)| *busy).reduce(f64::max);
    let failed = losses.lost().is_some_and(|lost| lost.failed);
    html! {
        g #(id) data-ends=(serde_json::to_string(&names).unwrap_or_default()) {
            title { (link_text(map, edge, facts)) }
            line class=(class(losses, failed, edge.is_down, busy)) x1=(x1) y1=(y1) x2=(x2) y2=(y2) {}
            @if let Some(lost) = losses.lost().filter(|_| is_labelled) {
                text.rate x=(((x1 + x2) / 2.0).round()) y=(((y1 + y2) / 2.0 - 5.0).round()) {
                    (output::percent(lost.rate))
                }
            }
        }
    }
}

fn class(losses: &Losses, failed: bool, is_down: bool, busy: Option<f64>) -> String {
    let mut class = match losses {
        Losses::Unknown => "unknown".to_owned(),
        losses => format!("l{}", losses.level()),
    };
    if failed {
        class += " failed";
    }
    if is_down {
        class += " down";
    }
    if let Some(busy) = busy {
        // A string takes whatever is written to it.
        let _ = write!(class, " w{}", busy_level(busy));
    }
    class
}

/// A link and what is known of it in words.
fn link_text(map: &Map, edge: &Edge, facts: &[(Losses, Option<f64>); 2]) -> String {
    let end = |at: usize| match (&map.nodes[edge.ends[at]], &edge.ports[at]) {
        (node, Some(port)) if node.kind == NodeKind::Switch => format!("{}:{port}", node.name),
        (node, _) => node.name.clone(),
    };
    let mut lines = Vec::new();
    for (from, (losses, busy)) in facts.iter().enumerate() {
        let way = format!("{} → {}", end(from), end(1 - from));
        let lost = losses_text(losses);
        let busy = busy.map(|busy| format!("at most {} busy", output::percent(busy))).unwrap_or_default();
        let said = [lost, busy].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
        lines.push(if said.is_empty() { way } else { format!("{way}: {said}") });
    }
    if !edge.note.is_empty() {
        lines = vec![format!("{} – {}: {}", end(0), end(1), edge.note)];
    }
    if edge.is_down {
        lines.push("down".into());
    }
    lines.join("\n")
}

fn losses_text(losses: &Losses) -> String {
    match losses {
        Losses::Unknown => "loss not known".into(),
        Losses::None => "no loss".into(),
        Losses::Some(lost) => lost.text.clone(),
    }
}

/// Letters of a name in a topology's file that are drawn; the title of the node has all.
const LABEL: usize = 14;

fn node(id: &str, node: &Node, [x, y]: [f64; 2], losses: &Losses, is_narrow: bool) -> Markup {
    let [x, y] = [x.round(), y.round()];
    let class = match node.kind {
        NodeKind::Switch => format!("switch {}", class(losses, false, node.is_down, None)),
        NodeKind::Host => "host".into(),
        NodeKind::Beyond => "beyond".into(),
    };
    let hosts = (node.hosts > 0).then(|| output::count(node.hosts as u64, "host"));
    let label_of_file = (!node.label.is_empty()).then(|| node.label.chars().take(LABEL).collect::<String>());
    let below: Vec<_> = label_of_file.into_iter().chain(hosts).filter(|_| !is_narrow).collect();
    let name = label(&node.name, is_narrow);
    let half_width = half_width(&name, is_narrow);
    html! {
        g #(id) class=(class) data-node=(node.name) {
            title { (node_text(node, losses)) }
            rect x=(x - half_width) y=(y - 13.0) width=(2.0 * half_width) height="26" rx=(radius(node.kind)) {}
            text x=(x) y=(y + 4.0) { (name) }
            @if !below.is_empty() { text.hosts x=(x) y=(y + 28.0) { (below.join(", ")) } }
        }
    }
}

/// Hosts are round.
fn radius(kind: NodeKind) -> &'static str {
    if kind == NodeKind::Host { "13" } else { "4" }
}

fn node_text(node: &Node, losses: &Losses) -> String {
    let hosts = if node.hosts > 0 { output::count(node.hosts as u64, "host") } else { String::new() };
    let lost = losses.lost().map(|lost| lost.text.clone()).unwrap_or_default();
    let kind = match node.kind {
        NodeKind::Switch => "switch ",
        NodeKind::Host => "host port ",
        NodeKind::Beyond => "fabric port ",
    };
    let said = [format!("{kind}{}", node.name), node.label.clone(), node.note.clone(), hosts, lost];
    said.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The links that lost packets or are known to be busy, the worst first, and ports with what they counted.
fn table(map: &Map, facts: &MapFacts) -> Table {
    let mut rows: Vec<_> =
        map.edges.iter().zip(&facts.edges).flat_map(|(edge, facts)| directions(map, edge, facts)).collect();
    rows.sort_by(|(_, a, busy_a), (_, b, busy_b)| {
        let busy = |busy: &Option<f64>| busy.unwrap_or_default();
        b.order().cmp(&a.order()).then(busy(busy_b).total_cmp(&busy(busy_a)))
    });
    let links = rows.into_iter().map(|(way, losses, busy)| {
        let lost = Cell::or("", losses.lost().map(|lost| lost.text.clone()));
        row![way, lost, Cell::or("", busy.map(Cell::share)), ""]
    });
    let ports = map.edges.iter().filter(|edge| !edge.note.is_empty()).map(|edge| {
        let state = if edge.is_down { "down, " } else { "" };
        row![Cell::or("", edge.ports[0].as_deref()), "", "", format!("{state}{}", edge.note)]
    });
    let link = if map.edges.iter().any(|edge| !edge.note.is_empty()) { "port" } else { "link" };
    Table::new([link, "lost?", ">busy, at most?|busy", "packets?"], links.chain(ports))
}

type Direction<'a> = (String, &'a Losses, Option<f64>);

/// Both directions of a link, as far as something is known of them.
fn directions<'a>(map: &'a Map, edge: &'a Edge, facts: &'a [(Losses, Option<f64>); 2]) -> Vec<Direction<'a>> {
    let name = |end: usize| &*map.nodes[edge.ends[end]].name;
    let way = |from: usize| format!("{} → {}", name(from), name(1 - from));
    let both = facts.iter().enumerate().map(|(from, (losses, busy))| (way(from), losses, *busy));
    both.filter(|(_, losses, busy)| losses.lost().is_some() || busy.is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::{Claim, Claimed, LossPlace, Places};

    fn drawn_with(places: Option<Vec<LossPlace>>) -> Section {
        let mut map = Map::default();
        map.link([("s1", "a"), ("s2", "b")]);
        let claim = Claim { last_epoch: Some(7), epoch_ns: 1_000_000_000, ..Claim::default() };
        let places = places.map(|places| Claimed::of(claim, Places { places, ..Places::default() }));
        section(&map, &Layout::of(&map), &Answers { places, ..Answers::default() })
    }

    /// A switch that has another name in a topology's file is drawn with both.
    #[test]
    fn names_of_a_file_are_drawn() {
        let mut map = Map::default();
        map.link([("s1", "a"), ("s2", "b")]);
        map.nodes[0] = Node { label: "Vila Nova de <Gaia>".into(), ..Node::switch("s1", 2) };
        let html = section(&map, &Layout::of(&map), &Answers::default()).html.0;
        assert!(html.contains(">Vila Nova de &lt;, 2 hosts</text>"), "{html}");
        assert!(html.contains("<title>switch s1, Vila Nova de &lt;Gaia&gt;, 2 hosts</title>"), "{html}");
    }

    /// Colour, a broken line and words say the same.
    #[test]
    fn a_link_that_loses_is_drawn_and_said() {
        let place = LossPlace {
            switch: "s2".into(),
            port: Some("b".into()),
            to_switch: Some("s1".into()),
            lost_packets: 12,
            sent_packets: 1000,
            rate: 0.012,
            rate_low: 0.007,
            failed: true,
            exact: true,
            ..LossPlace::default()
        };
        let lossy = drawn_with(Some(vec![place]));
        let html = &lossy.html.0;
        assert!(html.contains("<line class=\"l3 failed\""), "{html}");
        assert!(
            html.contains("s2:b → s1:a: failed, lost 12 of 1000 packets (1.20 %) since 00:00:00.000 UTC"),
            "{html}"
        );
        assert!(html.contains("s1:a → s2:b: no loss") && html.contains(">1.20 %</text>"), "{html}");
        assert_eq!(html.matches("<tr>").count(), 2, "one link is listed: {html}");
        // A network that loses nothing has the same shape, and another link.
        let quiet = drawn_with(Some(Vec::new()));
        assert!(quiet.shape == lossy.shape && quiet.html.0.contains("<line class=\"l0\""));
        let changed: Vec<_> =
            quiet.parts.iter().zip(&lossy.parts).filter(|(a, b)| a != b).map(|(a, _)| &*a.0).collect();
        assert_eq!(changed, ["link-0", LIST]);
        let unknown = drawn_with(None).html.0;
        assert!(unknown.contains("<line class=\"unknown\"") && unknown.contains("No program that runs here says"));
    }
}
