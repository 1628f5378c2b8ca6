//! Paths as people read them.

use super::network::{covered_text, unnamed_text};
use super::output;
use crate::api::view::{Path, Paths};
use crate::program::answers::Certainty;

/// Flows, their paths, and how far these are to be believed. `?` stands for a switch that is not
/// decided.
pub fn paths_table(paths: &[Path]) -> String {
    let row = |path: &Path| {
        let switches = path.switches.iter().map(|name| name.as_deref().unwrap_or("?"));
        let certainty = match path.certainty {
            Certainty::Undecided => "undecided",
            Certainty::Decided => "decided",
            Certainty::Sure => "sure",
        };
        [
            path.name.to_string(),
            switches.collect::<Vec<_>>().join(" → "),
            certainty.into(),
            output::grouped(path.packets),
            output::grouped(path.contradictions),
        ]
    };
    output::table(["flow", "path", "", ">packets", ">contradictions"], paths.iter().map(row))
}

pub fn paths_text(paths: &Paths) -> String {
    let covered = covered_text(&paths.covered, "all paths");
    if paths.covered.last_epoch.is_none() {
        return covered;
    }
    if paths.paths.is_empty() {
        return format!("no flow left the network\n\n{covered}");
    }
    let evicted = match paths.evicted_flows {
        0 => String::new(),
        flows => format!("\n{} made place for others", output::count(flows, "flow")),
    };
    let unnamed = unnamed_text(paths.omitted_flows, 0, "");
    format!("{}\n\n{covered}{unnamed}{evicted}", paths_table(&paths.paths))
}
