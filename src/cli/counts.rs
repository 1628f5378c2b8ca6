//! The counters of ports, as people read them.

use super::output::{self, Page, Table, row};
use crate::api::view;

pub fn ports_page(ports: &view::Ports) -> Page {
    let row = |port: &view::Port| {
        let counts = &port.counts;
        let lost: u64 = counts.device.values().sum();
        row![
            &port.name,
            &port.dev,
            link_text(port.enabled, port.link_up),
            counts.rx_packets,
            counts.rx_bytes,
            counts.tx_packets,
            counts.tx_bytes,
            counts.dropped_packets(),
            lost,
        ]
    };
    let columns = [
        "port",
        "device",
        "link",
        ">rx packets",
        ">rx bytes",
        ">tx packets",
        ">tx bytes",
        ">dropped|dropped_packets",
        ">device lost|device_lost_packets",
    ];
    Page::default().table("ports", Table::new(columns, ports.ports.iter().map(row))).text(sums_text(ports))
}

/// The balance of all ports, and what else was counted.
fn sums_text(ports: &view::Ports) -> String {
    let sum = &ports.packets;
    let mut text = balance_text(sum);
    if sum.unaccounted() != 0 {
        text += &format!("   ({} under way)", sum.unaccounted());
    }
    for port in &ports.ports {
        if let Some(fault) = &port.fault {
            text += &format!("\nfaults on purpose at {}: {fault}", port.name);
        }
    }
    let measurement = &ports.measurement;
    let of_switch = [
        (measurement.late_epochs, "epochs ran on into the next, because the collector was behind"),
        (measurement.late_sub_epochs, "sub-epochs ran on into the next, because the collector was behind"),
        (measurement.lost_epochs, "epochs' records were lost"),
        (measurement.lost_learn_digests, "learn digests found their queue full"),
        (measurement.refused_macs, "times a new MAC address found the table full"),
        (measurement.moved_macs, "times a MAC address moved to another port (weir show macs)"),
    ];
    let of_packets = measurement.lacking.rows().into_iter().chain(measurement.tunnels.rows());
    for (n, what) in of_packets.chain(of_switch) {
        if n > 0 {
            text += &format!("\n{} {what}", output::grouped(n));
        }
    }
    text
}

pub fn balance_text(sum: &view::Packets) -> String {
    format!(
        "rx {} + copies {} = tx {} + dropped {}",
        output::grouped(sum.rx_packets),
        output::grouped(sum.copied_packets),
        output::grouped(sum.tx_packets),
        output::grouped(sum.dropped_packets),
    )
}

pub fn link_text(enabled: bool, up: bool) -> &'static str {
    match (enabled, up) {
        (false, _) => "disabled",
        (true, true) => "up",
        (true, false) => "down",
    }
}
