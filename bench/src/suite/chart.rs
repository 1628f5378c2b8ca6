//! The pictures of a record: bars for rates, curves for latency under load.

use std::path::Path;

use anyhow::{Context, Result};

use super::bars::{self, Bar};
use super::case::{Group, Port, Setting, Size};
use super::generate::LOADS;
use super::results::{Measured, latency, packets_per_second};
use crate::figures::plot::{Axis, Curve, Figure, Panel, Point, Source};

/// Writes what can be drawn, and returns the files' names with what they show.
pub fn draw(all: &[Measured], note: &str, out: &Path, stem: &str) -> Result<Vec<(String, &'static str)>> {
    let mut pictures = Vec::new();
    for (group, title) in [
        (Group::Forwarding, "Million packets per second without programs"),
        (Group::Programs, "Million packets per second with programs, 64-byte frames"),
        (Group::Sizes, "Million packets per second by length of frames, pcap port"),
        (Group::Load, "Million packets per second from a generator outside"),
    ] {
        let groups = groups(all, group);
        if !groups.is_empty() {
            let name = format!("{stem}-{}.svg", group.name());
            bars::draw(title, &groups, note, &out.join(&name)).with_context(|| format!("drawing {name}"))?;
            pictures.push((name, title));
        }
    }
    if let Some(figure) = latencies(all, note) {
        let name = format!("{stem}-load-latency.svg");
        figure.draw(&out.join(&name))?;
        pictures.push((name, "Latency under load"));
    }
    Ok(pictures)
}

/// Bars of one group of cases, under a heading for each setting. A ring passes buffers round and no
/// packets, which is no rate to show beside those of ports.
fn groups(all: &[Measured], group: Group) -> Vec<(String, Vec<Bar>)> {
    let mut groups: Vec<(String, Vec<Bar>)> = Vec::new();
    let shown = |measured: &&Measured| measured.case.group == group && measured.case.setting.port != Port::Ring;
    for measured in all.iter().filter(shown) {
        let Some(spread) = measured.spread(packets_per_second) else { continue };
        let bar = Bar {
            name: measured.case.contender.to_string(),
            length: spread.median / 1e6,
            range: (spread.min / 1e6, spread.max / 1e6),
            is_ours: measured.case.contender.is_weir(),
        };
        let heading = heading(group, measured.case.setting);
        match groups.iter_mut().find(|(name, _)| *name == heading) {
            Some((_, bars)) => bars.push(bar),
            None => groups.push((heading, vec![bar])),
        }
    }
    groups
}

fn heading(group: Group, setting: Setting) -> String {
    let Setting { port, size, flows, cores, huge_pages } = setting;
    let mut words = match group {
        Group::Programs => format!("{} flows", flows.unwrap_or_default()),
        Group::Sizes if size == Size::Imix => "IMIX frames".into(),
        Group::Sizes => format!("frames of {size} bytes"),
        _ => format!("{} ports", port.name()),
    };
    if cores > 1 {
        words += &format!(", {cores} cores");
    }
    if !huge_pages {
        words += ", no huge pages";
    }
    words
}

/// The p99 of each contender by load, a panel for each kind of port.
fn latencies(all: &[Measured], note: &str) -> Option<Figure> {
    const P99: usize = 1;
    let mut panels: Vec<Panel> = Vec::new();
    for measured in all.iter().filter(|measured| measured.case.group == Group::Load) {
        let point = |load: u32| {
            let spread = measured.spread(latency(load, P99))?;
            let trials = measured.outcomes.len();
            Some(Point { x: load.into(), y: spread.median, min: spread.min, max: spread.max, trials })
        };
        let points: Vec<_> = LOADS.into_iter().filter_map(point).collect();
        if points.is_empty() {
            continue;
        }
        let title = measured.case.setting.port.name();
        let name = measured.case.contender.to_string();
        // Curves of one contender have one colour in all panels.
        let known = panels.iter().flat_map(|panel| &panel.curves);
        let next = known.clone().map(|curve| curve.color + 1).max().unwrap_or(0);
        let color = known.clone().find(|curve| curve.name == name).map_or(next, |curve| curve.color);
        let curve = Curve { name, color, source: Source::Weir, points };
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.curves.push(curve),
            None => panels.push(Panel { title: title.into(), order: "constant", zoom: None, curves: vec![curve] }),
        }
    }
    (!panels.is_empty()).then(|| Figure {
        name: "latency",
        title: "Latency at parts of each contender's own throughput, p99".into(),
        note: note.into(),
        x: Axis::new("load (%)", "load_percent").range(0.0, 105.0),
        y: Axis::new("p99 (µs)", "p99_us").log(),
        panels,
    })
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::example;
    use super::*;

    #[test]
    fn pictures_are_drawn_of_what_was_measured() {
        let dir = tempfile::tempdir().unwrap();
        let pictures = draw(&example(), "small print", dir.path(), "day").unwrap();
        let names: Vec<_> = pictures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["day-forwarding.svg", "day-load.svg", "day-load-latency.svg"]);
        let svg = std::fs::read_to_string(dir.path().join(names[0])).unwrap();
        assert!(svg.contains("testpmd io") && svg.contains("small print") && svg.contains("90.0"), "{svg}");
    }

    #[test]
    fn headings_tell_settings_apart() {
        let setting = Setting { port: Port::Null, size: Size::Imix, flows: Some(1000), cores: 2, huge_pages: false };
        assert_eq!(heading(Group::Forwarding, setting), "null ports, 2 cores, no huge pages");
        assert_eq!(heading(Group::Sizes, setting), "IMIX frames, 2 cores, no huge pages");
        assert_eq!(heading(Group::Programs, Setting { cores: 1, huge_pages: true, ..setting }), "1000 flows");
    }
}
