//! Latencies of hops as people read them.

use super::output;
use crate::api::view::{FlowLatency, HopLatency};

/// A row for each hop of each flow. `?` stands for a switch that is not decided.
pub fn latency_table(flows: &[FlowLatency]) -> String {
    let rows = flows.iter().flat_map(|flow| {
        flow.hops.iter().map(move |hop| {
            let HopLatency { hop: number, switch, samples, p50_ns, p99_ns, rank_error } = hop;
            let name = if *number == 1 { flow.name.to_string() } else { String::new() };
            [
                name,
                number.to_string(),
                switch.as_deref().unwrap_or("?").to_owned(),
                output::grouped(*samples),
                p50_ns.map_or_else(|| "-".into(), time),
                p99_ns.map_or_else(|| "-".into(), time),
                output::percent(*rank_error),
            ]
        })
    });
    output::table(["flow", ">hop", "switch", ">samples", ">p50", ">p99", ">± rank"], rows)
}

/// A time with three digits at least, in the largest unit of which it has one.
pub fn time(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
    match units.into_iter().find(|(unit, _)| ns >= *unit) {
        Some((unit, name)) => {
            let number = ns as f64 / unit as f64;
            let digits = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
            format!("{number:.digits$} {name}")
        }
        None => format!("{ns} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let written = [256, 1_234, 12_345, 123_456, 5_000_000, 1_073_741_824].map(time);
        assert_eq!(written, ["256 ns", "1.23 µs", "12.3 µs", "123 µs", "5.00 ms", "1.07 s"]);
    }
}
