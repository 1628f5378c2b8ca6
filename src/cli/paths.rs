//! Paths as people read them.

use super::output;
use crate::api::view::Path;
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
