//! `docs/json.md` has every key of every document.

use serde_json::Value;
use weir::control::view;

use crate::{Files, weir};

/// The keys of a document, but not those below `flow` and the names of programs.
fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(object) => {
            for (key, below) in object {
                if !key.starts_with("hashpipe") {
                    found.push(key.clone());
                }
                if key != "flow" {
                    collect(below, found);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn every_key_is_documented() {
    let files = Files::new();
    files.capture("t.pcap", "isp,flows=30,packets=300");
    let mut documents = vec![
        weir("demo --workload isp,flows=30,packets=300 --json").json(),
        files.weir("replay t.pcap --score --json").json(),
        files.weir("replay t.pcap --score --program hashpipe:count=bytes --json").json(),
        weir("budget --json").json(),
        serde_json::from_str(&weir("doctor --json").stdout).unwrap(),
    ];
    let station = view::Station { mac: String::new(), vlan: 0, port: String::new(), age_seconds: 0, fixed: false };
    let drop = view::Drop { port: String::new(), reason: String::new(), packets: 1, device: false };
    let heavy = view::HeavyFlows::new(&Default::default(), Default::default(), 1, 0, 0);
    documents.push(serde_json::to_value(view::Stations { stations: vec![station] }).unwrap());
    documents.push(serde_json::to_value(view::Drops { drops: vec![drop], ..Default::default() }).unwrap());
    documents.push(serde_json::to_value(heavy).unwrap());
    documents.push(serde_json::to_value(view::Tables { tables: vec![view::Table::default()] }).unwrap());
    documents.push(serde_json::to_value(view::TableRows::default()).unwrap());
    documents.push(serde_json::to_value(view::TableChanged::default()).unwrap());
    let status = view::Status { workers: vec![view::Worker::default()], ..Default::default() };
    documents.push(serde_json::to_value(status).unwrap());
    documents.push(serde_json::to_value(view::SinceReset::default()).unwrap());
    documents.push(serde_json::to_value(view::Api::default()).unwrap());

    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/json.md")).unwrap();
    let mut keys = Vec::new();
    documents.iter().for_each(|document| collect(document, &mut keys));
    assert!(keys.len() > 100);
    for key in keys {
        assert!(
            page.contains(&format!("`{key}`")) || page.contains(&format!("\"{key}\"")),
            "{key} is not in docs/json.md"
        );
    }
}
