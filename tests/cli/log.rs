//! `--log-format`: what goes wrong is one JSON object a line for programs, a sentence for people.

use serde_json::Value;

use crate::{Files, weir};

#[test]
fn a_failure_as_text_and_as_json() {
    let text = weir("run --port a=nonsense:1");
    assert_eq!(text.code, 2);
    let text = weir("replay /nonexistent.pcap");
    assert!(text.refused(1).starts_with("weir: /nonexistent.pcap"), "{}", text.stderr);
    let json = weir("--log-format json replay /nonexistent.pcap");
    let line: Value = serde_json::from_str(json.refused(1)).unwrap();
    assert_eq!((&line["level"], &line["event"]), (&"ERROR".into(), &"failed".into()), "{line}");
    assert_eq!(line["exit_code"], 1);
    assert!(line["message"].as_str().unwrap().starts_with("/nonexistent.pcap"), "{line}");
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
}

#[test]
fn a_refused_configuration_is_an_event_too() {
    let files = Files::new();
    files.write("weir.toml", "[switch]\nmetrics = \"0.0.0.0:9469\"\n");
    let ended = files.weir("run --log-format json -c weir.toml");
    let line: Value = serde_json::from_str(ended.refused(2)).unwrap();
    assert_eq!(line["exit_code"], 2);
    assert_eq!(
        line["message"],
        "weir.toml:2: switch.metrics = 0.0.0.0:9469: a loopback address and a port: 127.0.0.1:9469 or [::1]:9469"
    );
}
