//! Latencies of hops as people read them.

use super::{output, values};
use crate::api::view::{FlowLatency, HopLatency};

/// A row for each hop of each flow. `?` stands for a switch that is not decided.
pub fn latency_table(flows: &[FlowLatency]) -> String {
    let rows = flows.iter().flat_map(|flow| {
        flow.hops.iter().map(move |hop| {
            let HopLatency { hop: number, switch, samples, p50_ns, p99_ns, .. } = hop;
            let [p50_between, p99_between] = [[hop.p50_low_ns, hop.p50_high_ns], [hop.p99_low_ns, hop.p99_high_ns]]
                .map(|ends| values::between_text(ends, time));
            let name = if *number == 1 { flow.name.to_string() } else { String::new() };
            [
                name,
                number.to_string(),
                switch.as_deref().unwrap_or("?").to_owned(),
                output::grouped(*samples),
                p50_ns.map_or_else(|| "-".into(), time),
                p50_between,
                p99_ns.map_or_else(|| "-".into(), time),
                p99_between,
            ]
        })
    });
    output::table(["flow", ">hop", "switch", ">samples", ">p50", ">between", ">p99", ">between"], rows)
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
