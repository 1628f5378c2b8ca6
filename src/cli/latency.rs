//! Latencies of hops as people read them.

use super::output::{Cell, Table, row};
use super::values;
use crate::api::view::{FlowLatency, HopLatency};

/// A row for each hop of each flow. `?` stands for a switch that is not decided.
pub fn latency_table(flows: &[FlowLatency]) -> Table {
    let rows = flows.iter().flat_map(|flow| {
        flow.hops.iter().map(move |hop| {
            let HopLatency { hop: number, switch, samples, p50_ns, p99_ns, .. } = hop;
            let [p50, p99] = [p50_ns, p99_ns].map(|ns| Cell::or("-", ns.map(Cell::ns)));
            row![
                Cell::from(flow.name.to_string()).repeated(*number != 1),
                number.to_string(),
                Cell::or("?", switch.as_deref()),
                *samples,
                p50,
                Cell::between([hop.p50_low_ns, hop.p50_high_ns], time),
                p99,
                Cell::between([hop.p99_low_ns, hop.p99_high_ns], time),
            ]
        })
    });
    let columns = [
        "flow",
        ">hop",
        "switch",
        ">samples",
        ">p50|p50_ns",
        ">between|p50_low_ns,p50_high_ns",
        ">p99|p99_ns",
        ">between|p99_low_ns,p99_high_ns",
    ];
    Table::new(columns, rows).keyed(2)
}

/// A note that the longest time stands for longer ones too, where the table has it.
pub fn largest_text(largest_ns: Option<u64>, flows: &[FlowLatency]) -> String {
    let hops = flows.iter().flat_map(|flow| &flow.hops);
    let times = hops.flat_map(|hop| [hop.p50_ns, hop.p50_high_ns, hop.p99_ns, hop.p99_high_ns]).flatten();
    values::largest_text("ns", largest_ns.map(|ns| ns as f64), times.map(|ns| ns as f64))
}

/// A time, rounded to three digits from 1 µs to 1000 s.
pub fn time(ns: u64) -> String {
    if ns < 1000 {
        return format!("{ns} ns");
    }
    // Digits behind the point, and the numbers that have as many once they are rounded.
    let forms = [(2, 9.995), (1, 99.95), (0, 999.5)];
    let units = [(1e3, "µs"), (1e6, "ms"), (1e9, "s")];
    let mut all = units.into_iter().flat_map(|unit| forms.map(|form| (unit, form)));
    let fits = all.find(|((unit, _), (_, end))| ns as f64 / unit < *end);
    let ((unit, name), (digits, _)) = fits.unwrap_or(((1e9, "s"), (0, 0.0)));
    format!("{:.digits$} {name}", ns as f64 / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let written = [256, 999, 1_234, 9_999, 12_345, 123_456, 999_999, 5_000_000, 1_073_741_824].map(time);
        let right = ["256 ns", "999 ns", "1.23 µs", "10.0 µs", "12.3 µs", "123 µs", "1.00 ms", "5.00 ms", "1.07 s"];
        assert_eq!(written, right);
        assert_eq!(time(5_000_000_000_000), "5000 s");
    }
}
