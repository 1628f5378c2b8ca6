//! Loops as people read them.

use super::output::{self, Cell, Table, row};
use crate::api::view::FlowLoop;

/// A row for each flow and switch that saw it in a loop.
pub fn loops_table(loops: &[FlowLoop]) -> Table {
    let row = |found: &FlowLoop| {
        let FlowLoop { name, switch, first_ns, last_ns, packets, least_hops } = found;
        let moment = |ns: u64| Cell::new(output::time_of(ns), ns);
        row![name.to_string(), switch, moment(*first_ns), moment(*last_ns), *packets, least_hops.to_string()]
    };
    let columns = ["flow", "seen by|switch", "first|first_ns", "last|last_ns", ">packets", ">hops|least_hops"];
    Table::new(columns, loops.iter().map(row)).keyed(2)
}
