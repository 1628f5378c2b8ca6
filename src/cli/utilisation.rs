//! Utilisations of links as people read them.

use super::{output, paths};
use crate::api::view::FlowUtilisation;

/// A row for each flow, or for each of its paths.
pub fn utilisation_table(flows: &[FlowUtilisation]) -> String {
    let row = |flow: &FlowUtilisation| {
        let cells = [
            flow.name.to_string(),
            flow.sink.clone(),
            output::grouped(flow.packets),
            output::percent(flow.median_utilisation),
            output::percent(flow.max_utilisation),
            output::percent(flow.rank_error),
        ];
        (paths::path_of(flow.checksum, &flow.path), cells)
    };
    paths::table_by_path(["flow", "leaves at", ">packets", ">median", ">maximum", ">± rank"], flows.iter().map(row))
}
