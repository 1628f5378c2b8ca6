//! Paths as people read them.

use super::output::{Cell, Table, row};
use crate::api::view::Path;
use crate::program::answers::Certainty;

/// Flows, their paths, and how far these are to be believed. `?` stands for a switch that is not
/// decided.
pub fn paths_table(paths: &[Path]) -> Table {
    let row = |path: &Path| {
        let is_alike = path.repeated_packets > path.packets;
        let certainty = match path.certainty {
            Certainty::Undecided if is_alike => "undecided, packets alike",
            Certainty::Undecided => "undecided",
            Certainty::Decided => "decided",
            Certainty::Sure => "sure",
        };
        let moment = |ns: Option<u64>| Cell::or("", ns.map(Cell::moment));
        row![
            path.name.to_string(),
            switches_text(&path.switches),
            certainty,
            path.packets,
            Cell::or("", path.sure_packets),
            moment(path.sure_since_ns),
            moment(path.sure_until_ns),
            path.contradictions,
        ]
    };
    let columns = [
        "flow",
        "path",
        "certainty",
        ">packets",
        ">sure of|sure_packets",
        "since (UTC)|sure_since_ns",
        "until|sure_until_ns",
        ">contradictions",
    ];
    Table::new(columns, paths.iter().map(row)).keyed(2)
}

/// The switches of a path in their order.
fn switches_text(switches: &[Option<String>]) -> String {
    switches.iter().map(|name| name.as_deref().unwrap_or("?")).collect::<Vec<_>>().join(" → ")
}

/// The column of [`path_of`]: people see it if some rows have a path.
pub const PATH: &str = "path?";

/// The path of a flow whose packets have this checksum: a flow of several paths has a row for each. `?`
/// stands where packets do not say which path they took.
pub fn path_of(checksum: Option<u16>, path: &[Option<String>]) -> Cell {
    Cell::or("?", checksum.map(|_| switches_text(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Style;

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
        let table = paths_table(&[sure, undecided, alike]).text(Style::Plain);
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
            row!["flow", path_of(checksum, &names), 9u64]
        };
        let text = |rows: Vec<Vec<Cell>>| Table::new(["flow", PATH, ">packets"], rows).text(Style::Plain);
        let rows = || [of(&[Some("a"), None, Some("c")], Some(3)), of(&[Some("b"), Some("c")], Some(1)), of(&[], None)];
        let expected =
            "flow  path       packets\nflow  a → ? → c        9\nflow  b → c            9\nflow  ?                9";
        assert_eq!(text(rows().into()), expected);
        assert_eq!(text(rows()[2..].into()), "flow  packets\nflow        9");
    }
}
