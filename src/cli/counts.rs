//! The counters of ports, as people read them.

use super::output;
use crate::api::view;

pub fn ports_text(ports: &view::Ports) -> String {
    let row = |port: &view::Port| {
        let lost: u64 = port.counts.device.values().sum();
        [
            port.name.clone(),
            port.dev.clone(),
            link_text(port.enabled, port.link_up).into(),
            output::grouped(port.counts.rx_packets),
            output::grouped(port.counts.rx_bytes),
            output::grouped(port.counts.tx_packets),
            output::grouped(port.counts.tx_bytes),
            output::grouped(port.counts.dropped_packets()),
            output::grouped(lost),
        ]
    };
    let headings =
        ["port", "device", "link", ">rx packets", ">rx bytes", ">tx packets", ">tx bytes", ">dropped", ">device lost"];
    let table = output::table(headings, ports.ports.iter().map(row));
    let sum = &ports.packets;
    let mut text = format!("{table}\n\n{}", balance_text(sum));
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
    for (n, what) in measurement.lacking.rows().into_iter().chain(of_switch) {
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

pub fn drops_text(drops: &view::Drops) -> String {
    if drops.drops.is_empty() {
        return "no packet was dropped".into();
    }
    let row = |drop: &view::Drop| [drop.port.clone(), drop.reason.clone(), output::grouped(drop.packets)];
    output::table(["port", "reason", ">packets"], drops.drops.iter().map(row))
}
