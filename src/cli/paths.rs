//! Paths as people read them.

use super::output;
use crate::api::view::Path;
use crate::program::answers::Certainty;

/// Flows, their paths, and how far these are to be believed. `?` stands for a switch that is not
/// decided.
pub fn paths_table(paths: &[Path]) -> String {
    let row = |path: &Path| {
        let is_alike = path.repeated_packets > path.packets;
        let certainty = match path.certainty {
            Certainty::Undecided if is_alike => "undecided, packets alike",
            Certainty::Undecided => "undecided",
            Certainty::Decided => "decided",
            Certainty::Sure => "sure",
        };
        [
            path.name.to_string(),
            switches_text(&path.switches),
            certainty.into(),
            output::grouped(path.packets),
            path.sure_packets.map(output::grouped).unwrap_or_default(),
            path.sure_since_ns.map(output::time_of_day).unwrap_or_default(),
            path.sure_until_ns.map(output::time_of_day).unwrap_or_default(),
            output::grouped(path.contradictions),
        ]
    };
    let headings = ["flow", "path", "", ">packets", ">sure of", "since (UTC)", "until", ">contradictions"];
    output::table(headings, paths.iter().map(row))
}

/// The switches of a path in their order.
fn switches_text(switches: &[Option<String>]) -> String {
    switches.iter().map(|name| name.as_deref().unwrap_or("?")).collect::<Vec<_>>().join(" → ")
}

/// The path of a row of [`table_by_path`], whose packets have this checksum.
pub fn path_of(checksum: Option<u16>, path: &[Option<String>]) -> Option<String> {
    checksum.map(|_| switches_text(path))
}

/// A table of flows that has a column of paths behind the first one if some rows have a path: a flow
/// of several paths is there for each. `?` stands where packets do not say which path they took.
pub fn table_by_path<const N: usize>(
    headings: [&str; N],
    rows: impl IntoIterator<Item = (Option<String>, [String; N])>,
) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    let has_paths = rows.iter().any(|(path, _)| path.is_some());
    let mut headings = headings.to_vec();
    if has_paths {
        headings.insert(1, "path");
    }
    let row = |(path, cells): (Option<String>, [String; N])| {
        let mut cells = Vec::from(cells);
        if has_paths {
            cells.insert(1, path.unwrap_or_else(|| "?".into()));
        }
        cells
    };
    output::wide_table(&headings, rows.into_iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that is sure says of which packets, and one that is undecided whether packets are alike.
    #[test]
    fn a_table_says_what_is_sure() {
        use crate::api::flows::NamedFlow;
        use crate::program::answers::FlowName;
        let name: NamedFlow = FlowName::Flow(crate::wire::Flow::default()).into();
        let undecided = Path {
            name,
            checksum: None,
            switches: vec![None],
            certainty: Certainty::Undecided,
            packets: 1,
            sure_packets: None,
            sure_since_ns: None,
            sure_until_ns: None,
            repeated_packets: 0,
            least_digests: 0,
            contradictions: 0,
        };
        let alike = Path { repeated_packets: 9, ..undecided.clone() };
        let sure = Path {
            switches: vec![Some("a".into())],
            certainty: Certainty::Sure,
            packets: 90,
            sure_packets: Some(70),
            sure_since_ns: Some(1_000_000_000),
            sure_until_ns: Some(61_250_000_000),
            ..undecided.clone()
        };
        let table = paths_table(&[sure, undecided, alike]);
        let lines: Vec<_> = table.lines().collect();
        assert!(lines[0].contains("packets  sure of  since (UTC)   until"), "{table}");
        assert!(
            lines[1].contains("a     sure                           90       70  00:00:01.000  00:01:01.250"),
            "{table}"
        );
        assert!(lines[2].contains("?     undecided                       1") && !lines[2].contains(':'), "{table}");
        assert!(lines[3].contains("?     undecided, packets alike        1"), "{table}");
    }

    /// A flow of several paths is there for each, with the switches as far as they are decided; without
    /// checksums no table has paths.
    #[test]
    fn a_table_shows_paths() {
        let of = |names: &[Option<&str>], checksum| {
            let names: Vec<_> = names.iter().map(|name| name.map(str::to_owned)).collect();
            (path_of(checksum, &names), ["flow", "9"].map(str::to_owned))
        };
        let rows = || [of(&[Some("a"), None, Some("c")], Some(3)), of(&[Some("b"), Some("c")], Some(1)), of(&[], None)];
        let expected =
            "flow  path       packets\nflow  a → ? → c        9\nflow  b → c            9\nflow  ?                9";
        assert_eq!(table_by_path(["flow", ">packets"], rows()), expected);
        assert_eq!(table_by_path(["flow", ">packets"], rows().into_iter().skip(2)), "flow  packets\nflow        9");
    }
}
