//! Loops as people read them.

use super::output;
use crate::api::view::FlowLoop;

/// A row for each flow and switch that saw it in a loop.
pub fn loops_table(loops: &[FlowLoop]) -> String {
    let row = |found: &FlowLoop| {
        let FlowLoop { name, switch, first_ns, last_ns, packets, least_hops } = found;
        [
            name.to_string(),
            switch.clone(),
            output::time_of(*first_ns),
            output::time_of(*last_ns),
            output::grouped(*packets),
            least_hops.to_string(),
        ]
    };
    output::table(["flow", "seen by", "first", "last", ">packets", ">hops"], loops.iter().map(row))
}
