//! How the flows of hosts with congestion control went, as text.

use super::super::{latency, output};
use crate::sim::TransportReport;
use crate::sim::transport::report::SizeClass;

/// How the flows of hosts went.
pub fn text(report: &TransportReport) -> String {
    let gbit = |bits: f64| format!("{:.2} Gbit/s", bits / 1e9);
    let row = |class: &SizeClass| {
        let size = match (class.from_bytes, class.to_bytes) {
            (from, 0) => format!("over {}", size(from)),
            (_, to) => format!("to {}", size(to)),
        };
        let slowdowns = [class.slowdown_p50, class.slowdown_p95, class.slowdown_p99].map(|of| format!("{of:.2}"));
        let [p50, p95, p99] = slowdowns;
        [size, output::grouped(class.flows), p50, p95, p99, gbit(class.goodput_bits_per_second)]
    };
    let headings = [">flows of", ">finished", ">slowdown, p50", ">p95", ">p99", ">mean goodput"];
    format!(
        "\nHosts: {}, links of {}, base round-trip time {}. {} of {} flows finished; {} packets sent, {} of them\n\
         again, {} timeouts; longest queue {}.\n\n{}\n",
        report.transport,
        gbit(report.link_bits_per_second as f64),
        latency::time(report.rtt_ns),
        output::grouped(report.finished_flows),
        output::grouped(report.flows),
        output::grouped(report.sent_packets),
        output::grouped(report.retransmitted_packets),
        output::grouped(report.timeouts),
        size(report.longest_queue_bytes),
        output::table(headings, report.sizes.iter().map(row)),
    )
}

/// A number of bytes in the largest unit that it has one of.
fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
