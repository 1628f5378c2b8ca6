use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::api::view::{Counts, Measurement, Packets, Ports};
use crate::pisa::DropReason;

/// A sample: name, labels in their order, value.
type Samples = BTreeMap<(String, Vec<(String, String)>), f64>;

/// Reads text by its format's grammar, and refuses what breaks it: a sample outside its family, a
/// family or sample twice, a type that the format does not have, a counter without `_total`, a name
/// with odd characters, text after OpenMetrics' end.
fn parse(text: &str, format: Format) -> Samples {
    let mut samples = Samples::new();
    let mut families = BTreeSet::new();
    let mut family: (String, String) = Default::default();
    let body = match format {
        Format::Openmetrics => text.strip_suffix("# EOF\n").expect("ends with # EOF"),
        Format::Prometheus => text,
    };
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
        let suffix = match (format, family.1.as_str()) {
            (Format::Openmetrics, "counter") => "_total",
            (Format::Openmetrics, "info") => "_info",
            (_, "gauge") | (Format::Prometheus, "counter") => "",
            (_, other) => panic!("{other}"),
        };
        assert!(family.1 != "counter" || name.ends_with("_total"), "{line}");
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

fn worker(core: usize, n: u64) -> Worker {
    let program = |name: &str, n: u64| WorkerProgram { program: name.into(), packets: 200 * n, cycles: 9000 * n };
    Worker {
        core,
        polls: 100 * n,
        busy_polls: 25 * n,
        packets: 300 * n,
        busy_cycles: 40_000 * n,
        idle_cycles: 10_000 * n,
        programs: vec![program("hashpipe", n), program("chamelemon", 2 * n)],
        ..Worker::default()
    }
}

fn status() -> Status {
    let ports = vec![port("a", 1), port("b-1.x", 2)];
    let measurement = Measurement { late_epochs: 3, late_sub_epochs: 5, ..Measurement::default() };
    Status {
        name: "edge".into(),
        version: "1.2.3".into(),
        pid: 7,
        start_time_seconds: 1.7e9,
        uptime_seconds: 8.0,
        workers: vec![worker(1, 1), worker(3, 10)],
        totals: Ports { packets: Packets::of(&ports, &Default::default()), measurement, ports, ..Ports::default() },
    }
}

#[test]
fn every_total_comes_back_out_of_the_text() {
    let status = status();
    let mut samples = parse(&text(&status, Format::Openmetrics), Format::Openmetrics);
    let mut take = |name: &str, labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let key = (name.to_owned(), labels);
        samples.remove(&key).unwrap_or_else(|| panic!("no {key:?}"))
    };
    assert_eq!(take("weir_build_info", &[("version", "1.2.3"), ("switch", "edge")]), 1.0);
    assert_eq!(take("weir_start_time_seconds", &[]), 1.7e9);
    assert_eq!(take("weir_epochs_late_total", &[]), 3.0);
    assert_eq!(take("weir_sub_epochs_late_total", &[]), 5.0);
    for zero in [
        "unmeasured_packets",
        "too_many_tags_packets",
        "no_ip_header_packets",
        "no_ports_packets",
        "later_fragment_packets",
        "portless_packets",
        "epochs_lost",
        "epochs_forgotten",
        "learn_digests_lost",
        "macs_refused",
        "macs_moved",
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
    for (core, n) in [("1", 1.0), ("3", 10.0)] {
        for (name, value) in
            [("polls", 100.0), ("busy_polls", 25.0), ("packets", 300.0), ("busy_cycles", 4e4), ("idle_cycles", 1e4)]
        {
            assert_eq!(take(&format!("weir_worker_{name}_total"), &[("core", core)]), value * n, "{name}");
        }
        for (program, n) in [("hashpipe", n), ("chamelemon", 2.0 * n)] {
            let labels = [("core", core), ("program", program)];
            assert_eq!(take("weir_program_packets_total", &labels), 200.0 * n);
            assert_eq!(take("weir_program_cycles_total", &labels), 9000.0 * n);
        }
    }
    assert!(samples.is_empty(), "and nothing else: {samples:?}");
}

#[test]
fn a_switch_without_ports_or_workers() {
    let samples = parse(&text(&Status::default(), Format::Openmetrics), Format::Openmetrics);
    let is_of_port = |labels: &Vec<(String, String)>| labels.iter().any(|(label, _)| label == "port");
    assert!(samples.keys().all(|(name, labels)| !is_of_port(labels) && !name.contains("drops")));
}

#[test]
fn the_page_names_every_metric() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md")).unwrap();
    for (name, _) in parse(&text(&status(), Format::Openmetrics), Format::Openmetrics).keys() {
        assert!(page.contains(&format!("`{name}")), "{name} is not in docs/metrics.md");
    }
}

#[test]
fn both_formats_say_the_same() {
    for status in [status(), Status::default()] {
        let of = |format| parse(&text(&status, format), format);
        assert_eq!(of(Format::Openmetrics), of(Format::Prometheus));
    }
    let plain = text(&status(), Format::Prometheus);
    assert!(plain.contains("# TYPE weir_drops_total counter\n") && plain.contains("# TYPE weir_build_info gauge\n"));
    assert!(plain.ends_with('\n') && !plain.contains("EOF"), "{plain}");
}

#[test]
fn the_format_is_what_the_request_accepts() {
    // Prometheus 2.42, 3.0, and one that asks for plain text alone; curl; nothing; what nobody
    // offers.
    for (accept, format) in [
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            Format::Openmetrics,
        ),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;\
             escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            Format::Openmetrics,
        ),
        ("text/plain; version=0.0.4; q=1, application/openmetrics-text; q=0.5", Format::Prometheus),
        ("application/openmetrics-text;q=0", Format::Prometheus),
        ("application/openmetrics-text;version=2.0.0", Format::Prometheus),
        ("Application/OpenMetrics-Text; charset=utf-8", Format::Openmetrics),
        ("*/*", Format::Prometheus),
        ("", Format::Prometheus),
        (";;q=,=,", Format::Prometheus),
    ] {
        assert_eq!(Format::accepted(accept), format, "{accept}");
    }
}

/// A second opinion: the parsers of Prometheus' own Python library, the one for OpenMetrics being
/// the reference.
#[test]
fn prometheus_own_parsers_read_both() {
    const READ: &str = "import sys\n\
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics\n\
        from prometheus_client.parser import text_string_to_metric_families as plain\n\
        read = openmetrics if sys.argv[1] == 'Openmetrics' else plain\n\
        print(sum(len(family.samples) for family in read(sys.stdin.read())))\n";
    // Debian's package belongs to Debian's interpreter.
    let python = |script: &str, argument: &str, input: &str| {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", script, argument]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().ok()?;
        child.stdin.take()?.write_all(input.as_bytes()).ok()?;
        child.wait_with_output().ok()
    };
    if !python("import prometheus_client", "", "").is_some_and(|output| output.status.success()) {
        assert!(std::env::var_os("WEIR_REQUIRE_NETNS").is_none(), "no python3-prometheus-client: make setup");
        eprintln!("skipped: no python3-prometheus-client: make setup");
        return;
    }
    let status = status();
    for format in [Format::Openmetrics, Format::Prometheus] {
        let text = text(&status, format);
        let output = python(READ, &format!("{format:?}"), &text).unwrap();
        let count = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(count.trim(), parse(&text, format).len().to_string(), "{format:?}: {complaint}\n{text}");
    }
}
