use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::control::view::{Counts, Measurement, Packets, Ports};
use crate::pisa::DropReason;

/// A sample: name, labels in their order, value.
type Samples = BTreeMap<(String, Vec<(String, String)>), f64>;

/// Reads OpenMetrics text by its grammar, and refuses what breaks it: a sample outside its family, a family or sample twice,
/// a counter without `_total`, a name with odd characters, text after the end.
fn parse(text: &str) -> Samples {
    let mut samples = Samples::new();
    let mut families = BTreeSet::new();
    let mut family: (String, String) = Default::default();
    let body = text.strip_suffix("# EOF\n").expect("ends with # EOF");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let [keyword, name, what] = rest.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            match keyword {
                "HELP" => {
                    assert!(!what.is_empty(), "{line}");
                    assert!(families.insert(name.to_owned()), "{name} twice");
                    family.0 = name.to_owned();
                }
                "TYPE" => {
                    assert_eq!(name, family.0, "{line}");
                    family.1 = what.to_owned();
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let (key, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = key.split_once('{').unwrap_or((key, "}"));
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b"_0123456789".contains(&b)), "{line}");
        let suffix = match family.1.as_str() {
            "counter" => "_total",
            "info" => "_info",
            "gauge" => "",
            other => panic!("{other}"),
        };
        assert_eq!(name, format!("{}{suffix}", family.0), "a sample of another family");
        let labels = labels.strip_suffix('}').expect("labels end");
        let label = |part: &str| {
            let (key, value) = part.split_once('=').expect("key=value");
            let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).expect("quoted");
            (key.to_owned(), value.to_owned())
        };
        let labels = labels.split(',').filter(|part| !part.is_empty()).map(label).collect();
        assert_eq!(samples.insert((name.to_owned(), labels), value.parse().unwrap()), None, "twice: {line}");
    }
    samples
}

fn port(name: &str, n: u64) -> Port {
    Port {
        name: name.into(),
        link_up: n != 2,
        enabled: true,
        mtu_bytes: 1500,
        counts: Counts {
            rx_packets: 1000 * n,
            rx_bytes: 64_000 * n,
            tx_packets: 900 * n,
            tx_bytes: 57_600 * n,
            drops: DropReason::ALL.iter().zip(0..).map(|(reason, i)| (reason.name().to_owned(), i * n)).collect(),
            device: [("rx_missed".to_owned(), u64::MAX / 4)].into(),
            ..Counts::default()
        },
        ..Port::default()
    }
}

fn status() -> Status {
    let ports = vec![port("a", 1), port("b-1.x", 2)];
    let measurement = Measurement { late_epochs: 3, ..Measurement::default() };
    Status {
        name: "edge".into(),
        version: "1.2.3".into(),
        pid: 7,
        start_time_seconds: 1.7e9,
        uptime_seconds: 8.0,
        workers: vec![Worker { core: 1, polls: 100, busy_polls: 25, ..Worker::default() }],
        totals: Ports { packets: Packets::of(&ports, &Default::default()), measurement, ports, ..Ports::default() },
    }
}

#[test]
fn every_total_comes_back_out_of_the_text() {
    let status = status();
    let mut samples = parse(&text(&status));
    let mut take = |name: &str, labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let key = (name.to_owned(), labels);
        samples.remove(&key).unwrap_or_else(|| panic!("no {key:?}"))
    };
    assert_eq!(take("weir_build_info", &[("version", "1.2.3"), ("switch", "edge")]), 1.0);
    assert_eq!(take("weir_start_time_seconds", &[]), 1.7e9);
    assert_eq!(take("weir_epochs_late_total", &[]), 3.0);
    for zero in [
        "unmeasured_packets",
        "epochs_lost",
        "epochs_forgotten",
        "learn_digests_lost",
        "stations_refused",
        "neighbours_refused",
        "messages_suppressed",
    ] {
        assert_eq!(take(&format!("weir_{zero}_total"), &[]), 0.0);
    }
    for port in &status.totals.ports {
        for (name, value) in [
            ("receive_packets_total", port.counts.rx_packets),
            ("receive_bytes_total", port.counts.rx_bytes),
            ("transmit_packets_total", port.counts.tx_packets),
            ("transmit_bytes_total", port.counts.tx_bytes),
            ("copied_packets_total", 0),
            ("without_shim_packets_total", 0),
            ("remarked_packets_total", 0),
            ("up", port.link_up.into()),
            ("enabled", 1),
            ("mtu_bytes", 1500),
        ] {
            assert_eq!(take(&format!("weir_port_{name}"), &[("port", &port.name)]), value as f64, "{name}");
        }
        for (name, losses) in
            [("weir_drops_total", &port.counts.drops), ("weir_device_drops_total", &port.counts.device)]
        {
            for (why, &packets) in losses {
                assert_eq!(take(name, &[("port", &port.name), ("reason", why)]), packets as f64);
            }
        }
    }
    assert_eq!(take("weir_worker_polls_total", &[("core", "1")]), 100.0);
    assert_eq!(take("weir_worker_busy_polls_total", &[("core", "1")]), 25.0);
    assert!(samples.is_empty(), "and nothing else: {samples:?}");
}

#[test]
fn a_switch_without_ports_or_workers() {
    let samples = parse(&text(&Status::default()));
    assert!(samples.keys().all(|(name, _)| !name.contains("port") && !name.contains("drops")));
}

#[test]
fn the_page_names_every_metric() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md")).unwrap();
    for (name, _) in parse(&text(&status())).keys() {
        assert!(page.contains(&format!("`{name}")), "{name} is not in docs/metrics.md");
    }
}
