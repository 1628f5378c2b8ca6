use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::newest::{HeavyShown, Newest};
use super::placed::{PlaceLabels, Placed};
use super::totals::{Facts, Histogram, LossTotals, PlaceTotal, PlaceTotals, Series, Totals};
use super::*;
use crate::answers::{Evidence, LossPlace, Task, Unit};
use crate::api::view::{Counts, Measurement, NetworkSwitch, NetworkSwitches, Packets, Ports};
use crate::history::Reason;
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
            (_, "histogram") => {
                let suffixes = ["_bucket", "_sum", "_count"];
                suffixes.into_iter().find(|suffix| name.ends_with(suffix)).expect("a histogram's sample")
            }
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
    let mut samples = parse(&text(&status, Vec::new(), Exports::default(), Format::Openmetrics), Format::Openmetrics);
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
        "tunnel_read_packets",
        "tunnel_cut_packets",
        "tunnel_fragment_packets",
        "tunnel_too_deep_packets",
        "tunnel_other_packets",
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

/// Two programs: one knows everything, the other nothing yet.
fn programs() -> Vec<ProgramMetrics> {
    let place = |packets| PlaceTotal { known_packets: packets, unexplained_packets: 2 * packets, unknown_epochs: 3 };
    let mut times = Histogram::default();
    [(256, 5), (257, 7), (u64::MAX, 1)].into_iter().for_each(|(ns, samples)| times.add(ns, samples));
    let losses = LossTotals {
        lost_packets: 40,
        gained_packets: 1,
        late_packets: 2,
        unknown_epochs: 3,
        strays: Series([("s1".into(), 9)].into()),
    };
    let places = PlaceTotals {
        links: Series([(["s0:up".into(), "s1:up".into()], place(10))].into()),
        switches: Series([("s1".into(), place(0))].into()),
        group_packets: 4,
    };
    let totals = Totals {
        final_epochs: 100,
        missing_epochs: 5,
        incomplete_epochs: 6,
        gaps: Series([(("s1".into(), "strays"), 6)].into()),
        losses: Some(losses),
        places: Some(places),
        latencies: Some(Series([("s0".into(), times)].into())),
        facts: Facts {
            of_network: [("hh_buckets".into(), 64.0)].into(),
            of_switches: [(["s0", "error_packets"].map(String::from), 2.5)].into(),
        },
        unlisted: 7,
    };
    let heavy =
        HeavyShown { unit: Unit::Bytes, flows: [("10.0.0.1:1 → 10.0.0.2:2 tcp".into(), 8)].into(), unnamed: 1 };
    let newest = Newest {
        victims: Some(3),
        flows: Some(1000.5),
        entropy_bits: Some(f64::NAN),
        heavy: Some(heavy),
        lacks: [(Task::Losses, vec![]), (Task::Heavy, vec![Reason::BelowThreshold])].into(),
    };
    let place = LossPlace { kind: "switch".into(), switch: "s9".into(), failed: true, ..LossPlace::default() };
    let place = LossPlace { evidence: Evidence::Inferred, confidence: 0.75, ..place };
    let gone = PlaceLabels { kind: "link".into(), place: "s0:up → s1:up".into(), evidence: "counted" };
    let placed = Placed {
        lost: Series([(PlaceLabels::new(&place), 12), (gone, 5)].into()),
        unplaced_packets: 6,
        omitted: 7,
        skipped_epochs: 8,
        unlisted: 9,
        newest: Some(Arc::new(PlacesAnswer { places: vec![place], ..PlacesAnswer::default() })),
    };
    let all = ProgramMetrics {
        program: "one".into(),
        totals,
        lag_seconds: Some(0.25),
        newest: Some(newest),
        placed: Some(placed),
        places_age_seconds: Some(11.5),
    };
    vec![all, ProgramMetrics { program: "other".into(), ..ProgramMetrics::default() }]
}

fn network() -> Network {
    let switch = NetworkSwitch { name: "s1".into(), connected: true, records: 8, ..NetworkSwitch::default() };
    let switches = NetworkSwitches { passed_over_epochs: 2, switches: vec![switch], ..NetworkSwitches::default() };
    Network { name: "net".into(), start_time_seconds: 5.0, switches }
}

/// All that programs measure and a controller knows is there; what is not known has no sample, and is not 0.
#[test]
fn what_is_measured_comes_back_out_of_the_text() {
    let samples =
        parse(&network_text(network(), programs(), Exports::default(), Format::Openmetrics), Format::Openmetrics);
    let mut expected = Samples::new();
    let mut put = |name: &str, labels: &[(&str, &str)], value: f64| {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        expected.insert((format!("weir_{name}"), labels), value);
    };
    put("build_info", &[("version", env!("CARGO_PKG_VERSION")), ("controller", "net")], 1.0);
    put("start_time_seconds", &[], 5.0);
    put("passed_over_epochs_total", &[], 2.0);
    put("switch_connected", &[("switch", "s1")], 1.0);
    for (name, value) in [("connections", 0.0), ("records", 8.0), ("unsent_records", 0.0), ("refused_records", 0.0)] {
        put(&format!("switch_{name}_total"), &[("switch", "s1")], value);
    }
    let [one, other] = ["one", "other"].map(|program| ("program", program));
    for (name, value) in
        [("final_epochs", 100.0), ("missing_epochs", 5.0), ("incomplete_epochs", 6.0), ("unlisted_measurements", 7.0)]
    {
        put(&format!("{name}_total"), &[one], value);
        put(&format!("{name}_total"), &[other], 0.0);
    }
    put("gaps_total", &[one, ("switch", "s1"), ("gap", "strays")], 6.0);
    put("finality_lag_seconds", &[one], 0.25);
    for (name, value) in
        [("lost_packets", 40.0), ("gained_packets", 1.0), ("late_packets", 2.0), ("unknown_loss_epochs", 3.0)]
    {
        put(&format!("{name}_total"), &[one], value);
    }
    put("stray_packets_total", &[one, ("switch", "s1")], 9.0);
    let ends = [one, ("from", "s0:up"), ("to", "s1:up")];
    let switch = [one, ("switch", "s1")];
    for (cause, packets) in [("known", 10.0), ("unknown", 20.0)] {
        put("link_lost_packets_total", &[&ends[..], &[("cause", cause)]].concat(), packets);
        put("switch_lost_packets_total", &[&switch[..], &[("cause", cause)]].concat(), 0.0);
    }
    put("link_unknown_epochs_total", &ends, 3.0);
    put("switch_unknown_epochs_total", &switch, 3.0);
    put("group_lost_packets_total", &[one], 4.0);
    let placed = [one, ("kind", "switch"), ("place", "in s9"), ("evidence", "inferred")];
    put("place_lost_packets_total", &placed, 12.0);
    put("place_failed", &placed, 1.0);
    put("place_confidence", &placed, 0.75);
    let placed = [one, ("kind", "link"), ("place", "s0:up → s1:up"), ("evidence", "counted")];
    put("place_lost_packets_total", &placed, 5.0);
    put("places_age_seconds", &[one], 11.5);
    for (name, value) in [("unplaced_packets", 6.0), ("places_omitted", 16.0), ("places_skipped_epochs", 8.0)] {
        put(&format!("{name}_total"), &[one], value);
    }
    put("measurement_fact", &[one, ("fact", "hh_buckets")], 64.0);
    put("switch_fact", &[one, ("switch", "s0"), ("fact", "error_packets")], 2.5);
    put("victims", &[one], 3.0);
    put("flows", &[one], 1000.5);
    put("heavy_flows_unnamed", &[one], 1.0);
    put("heavy_flow_bytes", &[one, ("flow", "10.0.0.1:1 → 10.0.0.2:2 tcp")], 8.0);
    put("answer_complete", &[one, ("task", "losses")], 1.0);
    put("answer_complete", &[one, ("task", "heavy")], 0.0);
    put("answer_lacks", &[one, ("task", "heavy"), ("reason", "below_threshold")], 1.0);
    let (times, others): (Samples, Samples) =
        samples.into_iter().partition(|((name, _), _)| name.starts_with("weir_hop_latency_seconds"));
    assert_eq!(others, expected);
    let at = |name: &str, le: Option<&str>| {
        let labels = le.map(|le| ("le", le)).into_iter().chain([("program", "one"), ("switch", "s0")]);
        let labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        times.get(&(format!("weir_hop_latency_seconds_{name}"), labels)).copied()
    };
    assert_eq!(times.len(), 26);
    assert_eq!(
        [Some("2.56e-7"), Some("5.12e-7"), Some("+Inf")].map(|le| at("bucket", le)),
        [5.0, 12.0, 13.0].map(Some)
    );
    assert_eq!(at("count", None), Some(13.0));
    assert!(at("sum", None).is_some_and(|sum| sum > 1e10));
}

#[test]
fn a_switch_without_ports_or_workers() {
    let samples =
        parse(&text(&Status::default(), Vec::new(), Exports::default(), Format::Openmetrics), Format::Openmetrics);
    let is_of_port = |labels: &Vec<(String, String)>| labels.iter().any(|(label, _)| label == "port");
    assert!(samples.keys().all(|(name, labels)| !is_of_port(labels) && !name.contains("drops")));
}

fn exports() -> Exports {
    Exports { ipfix: Some(Exported::default()), otlp: Some(Otlp::default()) }
}

#[test]
fn the_page_names_every_metric() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md")).unwrap();
    for text in [
        text(&status(), programs(), exports(), Format::Openmetrics),
        network_text(network(), programs(), Exports::default(), Format::Openmetrics),
    ] {
        for (name, _) in parse(&text, Format::Openmetrics).keys() {
            let name =
                ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
            assert!(page.contains(&format!("`{name}")), "{name} is not in docs/metrics.md");
        }
    }
}

/// Metrics of an IPFIX export are there if there is one.
#[test]
fn an_export_comes_back_out_of_the_text() {
    let exported = Exported { flow_records: 7, unsent_flow_records: 3, missed_epochs: 2, ..Exported::default() };
    let only_ipfix = Exports { ipfix: Some(exported), otlp: None };
    let texts = [
        text(&status(), Vec::new(), only_ipfix.clone(), Format::Openmetrics),
        network_text(network(), Vec::new(), only_ipfix, Format::Openmetrics),
    ];
    for samples in texts.map(|text| parse(&text, Format::Openmetrics)) {
        let of = |name: &str, labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            samples.get(&(name.to_owned(), labels)).copied()
        };
        assert_eq!(of("weir_ipfix_flow_records_total", &[]), Some(7.0));
        assert_eq!(of("weir_ipfix_unsent_flow_records_total", &[("reason", "unsent")]), Some(3.0));
        assert_eq!(of("weir_ipfix_unsent_flow_records_total", &[("reason", "long")]), Some(0.0));
        assert_eq!(of("weir_ipfix_missed_epochs_total", &[]), Some(2.0));
    }
    let without = text(&status(), programs(), Exports::default(), Format::Openmetrics);
    assert!(!without.contains("ipfix") && !without.contains("otlp"), "{without}");
}

/// Metrics of an OTLP export are there if there is one.
#[test]
fn an_otlp_export_comes_back_out_of_the_text() {
    let otlp =
        Otlp { data_points: 9, log_requests: 4, dropped_log_records: 3, queued_log_records: 2, ..Otlp::default() };
    let exports = Exports { ipfix: None, otlp: Some(otlp) };
    let texts = [
        text(&status(), Vec::new(), exports.clone(), Format::Openmetrics),
        network_text(network(), Vec::new(), exports, Format::Openmetrics),
    ];
    for samples in texts.map(|text| parse(&text, Format::Openmetrics)) {
        let of =
            |name: &str, labels: Vec<(String, String)>| samples.get(&(format!("weir_otlp_{name}"), labels)).copied();
        assert_eq!(of("data_points_total", Vec::new()), Some(9.0));
        assert_eq!(of("dropped_log_records_total", Vec::new()), Some(3.0));
        assert_eq!(of("queued_log_records", Vec::new()), Some(2.0));
        assert_eq!(of("requests_total", vec![("signal".into(), "logs".into())]), Some(4.0));
    }
}

#[test]
fn both_formats_say_the_same() {
    for (status, programs) in [(status(), programs()), (Status::default(), Vec::new())] {
        let of = |format| parse(&text(&status, programs.clone(), Exports::default(), format), format);
        assert_eq!(of(Format::Openmetrics), of(Format::Prometheus));
        let of = |format| parse(&network_text(network(), programs.clone(), Exports::default(), format), format);
        assert_eq!(of(Format::Openmetrics), of(Format::Prometheus));
    }
    let plain = text(&status(), Vec::new(), Exports::default(), Format::Prometheus);
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
    for format in [Format::Openmetrics, Format::Prometheus] {
        for text in [
            text(&status(), programs(), Exports::default(), format),
            network_text(network(), programs(), Exports::default(), format),
        ] {
            let output = python(READ, &format!("{format:?}"), &text).unwrap();
            let count = String::from_utf8_lossy(&output.stdout);
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert_eq!(count.trim(), parse(&text, format).len().to_string(), "{format:?}: {complaint}\n{text}");
        }
    }
}
