//! Utilisations of links as people read them.

use super::{output, paths, values};
use crate::api::view::FlowUtilisation;

/// A note that the largest utilisation stands for larger ones too, where the table has it.
pub fn largest_text(largest: Option<f64>, flows: &[FlowUtilisation]) -> String {
    values::largest_text("share", largest, flows.iter().map(|flow| flow.max_utilisation))
}

/// A row for each flow, or for each of its paths.
pub fn utilisation_table(flows: &[FlowUtilisation]) -> String {
    let row = |flow: &FlowUtilisation| {
        let cells = [
            flow.name.to_string(),
            flow.sink.clone(),
            output::grouped(flow.packets),
            output::percent(flow.median_utilisation),
            values::between_text([flow.median_low, flow.median_high], output::percent),
            output::percent(flow.max_utilisation),
        ];
        (paths::path_of(flow.checksum, &flow.path), cells)
    };
    paths::table_by_path(["flow", "leaves at", ">packets", ">median", ">between", ">maximum"], flows.iter().map(row))
}
