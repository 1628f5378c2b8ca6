//! Utilisations of links as people read them.

use super::output;
use crate::api::view::FlowUtilisation;

/// A row for each flow.
pub fn utilisation_table(flows: &[FlowUtilisation]) -> String {
    let row = |flow: &FlowUtilisation| {
        [
            flow.name.to_string(),
            flow.sink.clone(),
            output::grouped(flow.packets),
            output::percent(flow.median_utilisation),
            output::percent(flow.max_utilisation),
            output::percent(flow.rank_error),
        ]
    };
    output::table(["flow", "leaves at", ">packets", ">median", ">maximum", ">± rank"], flows.iter().map(row))
}
