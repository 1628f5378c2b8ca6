//! Paths as people read them.

use super::output;
use crate::api::view::Path;
use crate::program::answers::Certainty;

/// Flows, their paths, and how far these are to be believed. `?` stands for a switch that is not
/// decided.
pub fn paths_table(paths: &[Path]) -> String {
    let row = |path: &Path| {
        let certainty = match path.certainty {
            Certainty::Undecided => "undecided",
            Certainty::Decided => "decided",
            Certainty::Sure => "sure",
        };
        [
            path.name.to_string(),
            switches_text(&path.switches),
            certainty.into(),
            output::grouped(path.packets),
            output::grouped(path.contradictions),
        ]
    };
    output::table(["flow", "path", "", ">packets", ">contradictions"], paths.iter().map(row))
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
