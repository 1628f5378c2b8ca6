//! The flows that a reader has chosen: their paths hop by hop with latencies, what they lost, how busy their links
//! are.

use std::sync::Arc;

use maud::{Markup, html};

use super::{claims, titled};
use crate::answers::{CountedFlow, FlowLatency, FlowPath, HopLatency, Latency, Losses, Task};
use crate::output::{self, grouped};
use crate::web::answers::FlowAnswers;
use crate::web::text;
use crate::wire::Pattern;

const TITLE: &str = "A flow on its way";

/// No flow is chosen.
pub fn no_flow() -> Markup {
    let text = "Choose a flow in a list of losses or heavy flows: its path and the time in each switch appear here.";
    titled("flow", TITLE, text::paragraph(text))
}

pub fn flow(flow: &Pattern, answers: &FlowAnswers) -> Markup {
    text::for_people();
    let FlowAnswers { losses, heavy, paths, latency, utilisation } = answers;
    let latencies = latency.as_ref().map_or(&[][..], |answer| &answer.latencies);
    let of_paths = paths.as_ref().map_or(&[][..], |answer| &answer.paths);
    let content = html! {
        p.chosen { strong { (flow) } " " a #leave href="/" { "choose none" } }
        dl.facts {
            @if let Some(heavy) = heavy {
                @for flow in &heavy.heavy { (fact(heavy.unit.name(), &flow.cell().text)) }
            }
            @if let Some(losses) = losses { (fact("lost packets", &lost_text(losses))) }
            @if let Some(utilisation) = utilisation {
                @for flow in &utilisation.utilisations {
                    (fact("busiest link", &format!("{} at most", output::percent(flow.max_utilisation))))
                }
            }
        }
        @for path in of_paths { (way(path, latencies)) }
        @for flow in latencies.iter().filter(|flow| !of_paths.iter().any(|path| is_of(flow, path))) { (hops(flow)) }
        @if of_paths.is_empty() && latencies.is_empty() { p.says { (why_no_path(paths.is_some())) } }
        @if let Some(paths) = paths { (claims::line(Task::Paths, paths, paths.asked)) }
        @if let Some(latency) = latency {
            @let largest = Latency::largest_text(latency);
            @if !largest.is_empty() { p.says { (largest.trim_start_matches("; ")) } }
            (claims::line(Task::Latency, latency, latency.query.is_some()))
        }
    };
    titled("flow", TITLE, content)
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn lost_text(losses: &Losses) -> String {
    let sum = |flows: &[CountedFlow]| flows.iter().map(|flow| flow.packets).sum::<u64>();
    let exact = losses.losses.iter().all(|flow| flow.exact);
    format!("{}{}", if exact { "" } else { "about " }, grouped(sum(&losses.losses)))
}

fn why_no_path(answered: bool) -> &'static str {
    match answered {
        true => "No path of this flow is known in these epochs.",
        false => "No program that runs here answers paths.",
    }
}

fn is_of(latency: &FlowLatency, path: &FlowPath) -> bool {
    (latency.name, &latency.sink, latency.checksum) == (path.flow, &path.sink, path.checksum)
}

/// A path with the latency of each of its switches, where that is known.
fn way(path: &FlowPath, latencies: &[FlowLatency]) -> Markup {
    let names: Vec<&str> = path.switches.iter().map(|switch| switch.as_deref().unwrap_or("?")).collect();
    let latency = latencies.iter().find(|latency| is_of(latency, path));
    html! {
        div.way data-path=(serde_json::to_string(&names).unwrap_or_default()) {
            p { (path.switches_text()) " " small { (path.certainty_text()) ", " (output::count(path.packets, "packet")) } }
            @if let Some(latency) = latency { (hops(latency)) }
        }
    }
}

/// Width of a latency's bar.
const BAR: f64 = 160.0;

/// The hops of a flow with the time in each.
fn hops(flow: &FlowLatency) -> Markup {
    let longest = flow.hops.iter().filter_map(|hop| hop.p99_ns).max().unwrap_or_default().max(1);
    html! {
        ol.hops { @for hop in &flow.hops { li { (hop_line(hop, longest)) } } }
    }
}

fn hop_line(hop: &HopLatency, longest: u64) -> Markup {
    let width = |ns: Option<u64>| (BAR * ns.unwrap_or_default() as f64 / longest as f64).max(1.0).round();
    let switch: Option<&Arc<str>> = hop.switch.as_ref();
    let quantile = |name: &str, ns: Option<u64>, between: [Option<u64>; 2]| match ns {
        Some(ns) => format!("{name} {} ({})", output::time(ns), output::between(between, output::time)),
        None => format!("{name} unknown"),
    };
    html! {
        strong { (switch.map_or("?", |switch| &**switch)) } " "
        svg.time viewBox="0 0 160 14" width="160" height="14" aria-hidden="true" {
            rect.p99 x="0" y="2" height="10" width=(width(hop.p99_ns)) {}
            rect.p50 x="0" y="2" height="10" width=(width(hop.p50_ns)) {}
        }
        " " span {
            (quantile("p50", hop.p50_ns, [hop.p50_low_ns, hop.p50_high_ns])) " · "
            (quantile("p99", hop.p99_ns, [hop.p99_low_ns, hop.p99_high_ns])) " · "
            (output::count(hop.samples, "sample"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::{Certainty, Claim, Claimed, FlowName, Paths};

    fn hop(hop: usize, switch: &str, p99_ns: u64) -> HopLatency {
        let none = None;
        HopLatency {
            hop,
            switch: Some(switch.into()),
            samples: 9,
            p50_ns: Some(100),
            p99_ns: Some(p99_ns),
            p50_low_ns: Some(90),
            p50_high_ns: none,
            p99_low_ns: none,
            p99_high_ns: none,
        }
    }

    /// The hops of a path with the time in each; the longest bar is that of the slowest hop.
    #[test]
    fn a_flow_stands_with_its_hops() {
        let name = FlowName::default();
        let path = FlowPath {
            switches: ["a", "b\""].map(|switch| Some(Arc::from(switch))).into(),
            certainty: Certainty::Sure,
            ..FlowPath::of(name)
        };
        let latency = FlowLatency {
            name,
            sink: path.sink.clone(),
            checksum: None,
            hops: vec![hop(1, "a", 400), hop(2, "b\"", 200)],
        };
        let claim = Claim::default;
        let answers = FlowAnswers {
            paths: Some(Claimed::of(claim(), Paths { paths: vec![path], ..Paths::default() })),
            latency: Some(Claimed::of(claim(), Latency { latencies: vec![latency], ..Latency::default() })),
            ..FlowAnswers::default()
        };
        let html = flow(&"10.0.0.1 → *".parse().unwrap(), &answers).0;
        assert!(html.contains("data-path=\"[&quot;a&quot;,&quot;b\\&quot;&quot;]\""), "{html}");
        assert_eq!(html.matches("<li>").count(), 2, "{html}");
        assert!(html.contains("class=\"p99\" x=\"0\" y=\"2\" height=\"10\" width=\"160\""), "{html}");
        assert!(html.contains("class=\"p99\" x=\"0\" y=\"2\" height=\"10\" width=\"80\""), "{html}");
        assert!(html.contains("p50 100 ns (90 ns to ?) · p99 400 ns (?) · 9 samples"), "{html}");
        assert!(flow(&"* → *".parse().unwrap(), &FlowAnswers::default()).0.contains("No program that runs here"));
    }
}
