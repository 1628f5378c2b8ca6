//! `pktgen conversations` over ring ports: no root, no interface, no huge pages.
#![cfg(feature = "dpdk")]

use std::process::{Command, Output};

use serde_json::Value;

#[path = "../../tests/common/talk.rs"]
mod talk;

#[path = "../../fuzz/checks/conversations.rs"]
mod check;

/// What the fuzz target checks, on its seeds and on every beginning of each.
#[test]
fn captures() {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/conversations");
    let mut count = 0;
    for seed in std::fs::read_dir(&seeds).unwrap() {
        let bytes = std::fs::read(seed.unwrap().path()).unwrap();
        (0..=bytes.len()).for_each(|end| check::run(&bytes[..end]));
        count += 1;
    }
    assert!(count > 3, "{} has few seeds", seeds.display());
}

fn pktgen(capture: &std::path::Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pktgen"));
    command.args(["conversations", "--no-huge-pages", "--pcap"]).arg(capture).args(line.split_ascii_whitespace());
    command.output().expect("runs")
}

/// The report of a run that must succeed.
fn held(line: &str) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("talk.pcap");
    talk::write(&capture);
    let output = pktgen(&capture, &format!("--json {line}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {}\n{error}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn count(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

/// As many as were started are finished, given up or open.
fn is_balanced(report: &Value) -> bool {
    let of = |key: &str| count(report, &format!("/conversations/{key}"));
    of("started") == of("finished") + of("given_up") + of("open")
}

/// The payload that both ends received.
fn payload(report: &Value) -> u64 {
    count(report, "/client/received_payload_bytes") + count(report, "/server/received_payload_bytes")
}

#[test]
fn a_capture_is_held_once() {
    let report = held("--client ring:a --server ring:a");
    let extracted = ["conversations", "turns", "payload_bytes"].map(|key| count(&report, &format!("/capture/{key}")));
    assert_eq!(extracted, [2, 5, talk::BYTES.iter().sum::<u64>()]);
    let counts = ["started", "established", "finished"].map(|key| count(&report, &format!("/conversations/{key}")));
    assert!(counts == [2; 3] && is_balanced(&report), "{report:#}");
    assert_eq!(payload(&report), talk::BYTES.iter().sum::<u64>());
    let unexpected = report["unexpected"].as_object().unwrap();
    assert!(unexpected.values().all(|n| *n == 0), "{report:#}");
    let sent = count(&report, "/client/sent_packets") + count(&report, "/server/sent_packets");
    assert_eq!(sent, count(&report, "/ports/client/rx_packets"), "{report:#}");
}

/// Frames are lost and come twice on both ways: all conversations end, each with all of its bytes.
#[test]
fn all_end_in_spite_of_losses() {
    let faults = "--fault rx:drop=2%;rx:duplicate=2% --timeout 10ms";
    let report = held(&format!("--client ring:a --server ring:a --rate 1k/s --conversations 400 {faults}"));
    assert_eq!(["finished", "given_up"].map(|key| count(&report, &format!("/conversations/{key}"))), [400, 0]);
    assert!(is_balanced(&report), "{report:#}");
    assert_eq!(payload(&report), 200 * talk::BYTES.iter().sum::<u64>());
    assert!(count(&report, "/server/retransmitted_packets") > 50, "{report:#}");
    assert!(count(&report, "/client/repeated_packets") > 20, "{report:#}");
    let seconds = report["seconds"].as_f64().unwrap();
    assert!(seconds >= 0.3999, "not faster than asked for: {report:#}");
}

/// What is due while as many as may be are open is counted, and what is open at the end too. A port that
/// carries nothing ends nothing.
#[test]
fn what_cannot_start_or_end_is_counted() {
    let dead = "--client ring:a --server ring:b --fault rx:drop=100%";
    let report = held(&format!("{dead} --max-open 5 --rate 100/s --conversations 20 --drain 100ms"));
    let of = |key: &str| count(&report, &format!("/conversations/{key}"));
    assert_eq!(["started", "not_started", "open", "established"].map(of), [5, 15, 5, 0], "{report:#}");
    assert!(is_balanced(&report), "{report:#}");
    let given_up = held(&format!("{dead} --timeout 1ms --tries 2"));
    assert_eq!(count(&given_up, "/conversations/given_up"), 2, "{given_up:#}");
}

#[test]
fn wrong_usage_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("talk.pcap");
    talk::write(&capture);
    let ports = "--client ring:a --server ring:a";
    for (line, why) in [
        ("--clients 10.9.0.0/16", "the server 10.9.0.2 of the capture is in 10.9.0.0/16"),
        ("--clients 10.1.0.0/32 --max-open 100k", "--clients 10.1.0.0/32 has too few addresses"),
        ("--clients 10.1.0.1/24", "bits behind the prefix"),
        ("--rate 100", "100/s"),
    ] {
        let output = pktgen(&capture, &format!("{ports} {line}"));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(why), "{line}: {error}");
    }
    let empty = directory.path().join("empty.pcap");
    std::fs::write(&empty, weir::trace::CaptureWriter::new(Vec::new()).unwrap().finish().unwrap()).unwrap();
    let output = pktgen(&empty, ports);
    assert!(output.status.code() == Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no TCP conversation"), "{output:?}");
}
