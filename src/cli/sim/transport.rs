//! How the flows of hosts with congestion control went, as text.

use super::super::output::{self, Cell, Field, Page, Table, row};
use crate::sim::TransportReport;
use crate::sim::transport::report::SizeClass;

/// How the flows of hosts went.
pub fn page(report: &TransportReport) -> Page {
    let gbit = |bits: f64| format!("{:.2} Gbit/s", bits / 1e9);
    let row = |class: &SizeClass| {
        let (text, to) = match (class.from_bytes, class.to_bytes) {
            (from, 0) => (format!("over {}", size(from)), Field::Empty),
            (_, to) => (format!("to {}", size(to)), to.into()),
        };
        let goodput = class.goodput_bits_per_second;
        row![
            Cell { text, values: vec![class.from_bytes.into(), to] },
            class.flows,
            Cell::number(class.slowdown_p50, 2),
            Cell::number(class.slowdown_p95, 2),
            Cell::number(class.slowdown_p99, 2),
            Cell::new(gbit(goodput), goodput),
        ]
    };
    let columns = [
        ">flows of|from_bytes,to_bytes",
        ">finished|finished_flows",
        ">slowdown, p50",
        ">p95|slowdown_p95",
        ">p99|slowdown_p99",
        ">mean goodput|goodput_bits_per_second",
    ];
    let text = format!(
        "Hosts: {}, links of {}, base round-trip time {}. {} of {} flows finished; {} packets sent, {} of them\n\
         again, {} timeouts; longest queue {}.",
        report.transport,
        gbit(report.link_bits_per_second as f64),
        output::time(report.rtt_ns),
        output::grouped(report.finished_flows),
        output::grouped(report.flows),
        output::grouped(report.sent_packets),
        output::grouped(report.retransmitted_packets),
        output::grouped(report.timeouts),
        size(report.longest_queue_bytes),
    );
    Page::default().text(text).table("hosts", Table::new(columns, report.sizes.iter().map(row)))
}

/// A number of bytes in the largest unit that it has one of.
fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
