//! A switch's name, age and workers, and the baseline from which its statistics are counted
//! after a reset.
//!
//! A reset writes no counter: it remembers what they were. So workers are not disturbed, nothing
//! goes backwards, and what others derive from the totals (`/metrics`) stays right.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::view::{Measurement, Packets, Port, Ports, Removed, SinceReset, Status, Worker};
use crate::lock::Hold;
use crate::stats::SwitchStats;

/// A running switch's name, age and baseline.
#[derive(Debug)]
pub struct SwitchInfo {
    name: String,
    cores: Vec<usize>,
    started: Instant,
    start_time: SystemTime,
    baseline: Mutex<Option<(Instant, Ports)>>,
}

impl SwitchInfo {
    /// For a switch that starts now; `cores` are its workers'.
    pub fn new(name: &str, cores: &[usize]) -> Self {
        Self {
            name: name.into(),
            cores: cores.into(),
            started: Instant::now(),
            start_time: SystemTime::now(),
            baseline: Mutex::default(),
        }
    }

    pub fn status(&self, totals: Ports, workers: &[Arc<SwitchStats>]) -> Status {
        Status {
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            start_time_seconds: self.start_time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            workers: self.cores.iter().zip(workers).map(|(&core, stats)| Worker::new(core, stats)).collect(),
            totals,
        }
    }

    /// Remembers `totals` as the new zero.
    pub fn reset(&self, totals: Ports) {
        *self.baseline.hold() = Some((Instant::now(), totals));
    }

    /// `totals` less the baseline.
    pub fn since_reset(&self, totals: Ports) -> SinceReset {
        let baseline = self.baseline.hold();
        let total_packets = totals.packets;
        let (since, ports) = match &*baseline {
            Some((at, before)) => (*at, since(&totals, before)),
            None => (self.started, totals),
        };
        SinceReset {
            since_reset_seconds: since.elapsed().as_secs_f64(),
            reset: baseline.is_some(),
            ports,
            total_packets,
        }
    }
}

/// The counts between two documents of the same switch.
pub fn since(now: &Ports, before: &Ports) -> Ports {
    let earlier: BTreeMap<_, _> = before.ports.iter().map(|port| (port.name.as_str(), port)).collect();
    let ports: Vec<_> =
        now.ports.iter().map(|port| earlier.get(port.name.as_str()).map_or(port.clone(), |b| less(port, b))).collect();
    Ports {
        packets: packets(&now.packets, &before.packets),
        measurement: measured(&now.measurement, &before.measurement),
        ports,
        removed: removed(now, before),
    }
}

fn packets(now: &Packets, before: &Packets) -> Packets {
    Packets {
        rx_packets: now.rx_packets.saturating_sub(before.rx_packets),
        copied_packets: now.copied_packets.saturating_sub(before.copied_packets),
        tx_packets: now.tx_packets.saturating_sub(before.tx_packets),
        dropped_packets: now.dropped_packets.saturating_sub(before.dropped_packets),
    }
}

/// The counts of ports removed since, less what these ports had counted before.
fn removed(now: &Ports, before: &Ports) -> Removed {
    let mut gone = before.removed.clone();
    let remains = |old: &Port| now.ports.iter().any(|port| port.name == old.name && port.counts.follow(&old.counts));
    before.ports.iter().filter(|port| !remains(port)).for_each(|port| gone.add(port));
    Removed {
        removed_ports: now.removed.removed_ports.saturating_sub(before.removed.removed_ports),
        counts: now.removed.counts.since(&gone.counts),
    }
}

/// A port whose counters are below the baseline's was taken away and added again: all of it is new.
fn less(now: &Port, before: &Port) -> Port {
    let counts = if now.counts.follow(&before.counts) { now.counts.since(&before.counts) } else { now.counts.clone() };
    Port { counts, ..now.clone() }
}

fn measured(now: &Measurement, before: &Measurement) -> Measurement {
    Measurement {
        unmeasured_packets: now.unmeasured_packets.saturating_sub(before.unmeasured_packets),
        too_many_tags_packets: now.too_many_tags_packets.saturating_sub(before.too_many_tags_packets),
        lacking: now.lacking.since(&before.lacking),
        tunnels: now.tunnels.since(&before.tunnels),
        late_epochs: now.late_epochs.saturating_sub(before.late_epochs),
        late_sub_epochs: now.late_sub_epochs.saturating_sub(before.late_sub_epochs),
        lost_epochs: now.lost_epochs.saturating_sub(before.lost_epochs),
        lost_learn_digests: now.lost_learn_digests.saturating_sub(before.lost_learn_digests),
        refused_macs: now.refused_macs.saturating_sub(before.refused_macs),
        moved_macs: now.moved_macs.saturating_sub(before.moved_macs),
        refused_neighbours: now.refused_neighbours.saturating_sub(before.refused_neighbours),
        suppressed_messages: now.suppressed_messages.saturating_sub(before.suppressed_messages),
        forgotten_epochs: now.forgotten_epochs.saturating_sub(before.forgotten_epochs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::view::{Counts, WorkerProgram};

    fn ports(list: &[(&str, u64, u64)]) -> Ports {
        let port = |&(name, rx_packets, runts): &(&str, u64, u64)| Port {
            name: name.into(),
            counts: Counts {
                rx_packets,
                tx_packets: rx_packets - runts,
                rx_bytes: 100 * rx_packets,
                drops: [("runt".to_owned(), runts)].into(),
                device: [("rx_missed".to_owned(), 2 * runts)].into(),
                ..Counts::default()
            },
            ..Port::default()
        };
        let ports: Vec<_> = list.iter().map(port).collect();
        Ports { packets: Packets::of(&ports, &Removed::default()), ports, ..Ports::default() }
    }

    #[test]
    fn a_reset_leaves_the_totals_alone() {
        let about = SwitchInfo::new("weir", &[3]);
        let before = about.since_reset(ports(&[("a", 10, 1)]));
        assert_eq!((before.reset, before.ports.ports[0].counts.rx_packets), (false, 10), "from the start");
        about.reset(ports(&[("a", 10, 1), ("b", 5, 0)]));
        let after = about.since_reset(ports(&[("a", 17, 3), ("b", 5, 0)]));
        assert!(after.reset);
        assert_eq!(after.ports, ports(&[("a", 7, 2), ("b", 0, 0)]));
        assert_eq!(
            after.total_packets,
            Packets { rx_packets: 22, copied_packets: 0, tx_packets: 19, dropped_packets: 3 }
        );
        about.reset(ports(&[("a", 17, 3)]));
        assert_eq!(about.since_reset(ports(&[("a", 17, 3)])).ports, ports(&[("a", 0, 0)]));
    }

    #[test]
    fn a_port_that_came_later_or_anew_counts_from_its_own_start() {
        let before = ports(&[("anew", 90, 2), ("gone", 8, 0), ("stays", 5, 1)]);
        let mut now = ports(&[("new", 4, 1), ("anew", 3, 1), ("stays", 9, 1)]);
        // Their counts when they went: 93 and 10 packets, of them 3 and 2 after the baseline.
        ports(&[("anew", 93, 2), ("gone", 10, 1)]).ports.iter().for_each(|port| now.removed.add(port));
        now.packets = Packets::of(&now.ports, &now.removed);
        let since = since(&now, &before);
        assert_eq!(since.ports, ports(&[("new", 4, 1), ("anew", 3, 1), ("stays", 4, 0)]).ports);
        assert_eq!(
            (since.removed.removed_ports, since.removed.counts.rx_packets, since.removed.counts.drops["runt"]),
            (2, 5, 1)
        );
        assert_eq!(since.packets, Packets::of(&since.ports, &since.removed), "the sums are of the same packets");
    }

    #[test]
    fn workers_stand_with_their_cores() {
        let workers = [Arc::new(SwitchStats::default()), Arc::new(SwitchStats::default())];
        workers[1].polls.add(9);
        workers[1].busy_polls.add(4);
        workers[1].busy_cycles.add(700);
        workers[1].program("hashpipe").cycles.add(300);
        workers[1].program("hashpipe").packets.add(2);
        let status = SwitchInfo::new("edge", &[2, 5]).status(Ports::default(), &workers);
        assert_eq!(status.name, "edge");
        let programs = vec![WorkerProgram { program: "hashpipe".into(), packets: 2, cycles: 300 }];
        let busy = Worker { core: 5, polls: 9, busy_polls: 4, busy_cycles: 700, programs, ..Worker::default() };
        assert_eq!(status.workers, [Worker { core: 2, ..Worker::default() }, busy]);
    }
}
