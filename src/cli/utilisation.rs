//! Utilisations of links as people read them.

use super::output::{self, Cell, Table, row};
use super::{paths, values};
use crate::api::view::FlowUtilisation;

/// A note that the largest utilisation stands for larger ones too, where the table has it.
pub fn largest_text(largest: Option<f64>, flows: &[FlowUtilisation]) -> String {
    values::largest_text("share", largest, flows.iter().map(|flow| flow.max_utilisation))
}

/// A row for each flow, or for each of its paths.
pub fn utilisation_table(flows: &[FlowUtilisation]) -> Table {
    let row = |flow: &FlowUtilisation| {
        row![
            flow.name.to_string(),
            paths::path_of(flow.checksum, &flow.path),
            &flow.sink,
            flow.packets,
            Cell::share(flow.median_utilisation),
            Cell::between([flow.median_low, flow.median_high], output::percent),
            Cell::share(flow.max_utilisation),
        ]
    };
    let columns = [
        "flow",
        paths::PATH,
        "leaves at|sink",
        ">packets",
        ">median|median_utilisation",
        ">between|median_low,median_high",
        ">maximum|max_utilisation",
    ];
    Table::new(columns, flows.iter().map(row)).keyed(2)
}
