//! `docs/json.md` has every key of every document.

use std::path::{Path, PathBuf};

use serde_json::Value;
use weir::api::view;

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
                // A flow has the keys of its definition, and a configuration those of its programs.
                if !["flow", "configuration"].contains(&key.as_str()) {
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
    let entry =
        view::MacEntry { mac: String::new(), vlan: 0, port: String::new(), age_seconds: 0, fixed: false, moves: 0 };
    let drop = view::Drop { port: String::new(), reason: String::new(), packets: 1, device: false };
    let heavy = view::HeavyFlows::new("", &Default::default(), 0, 0);
    documents.push(serde_json::to_value(view::MacTable { macs: vec![entry] }).unwrap());
    documents.push(serde_json::to_value(view::Drops { drops: vec![drop], ..Default::default() }).unwrap());
    documents.push(serde_json::to_value(heavy).unwrap());
    documents.push(serde_json::to_value(view::Tables { tables: vec![view::Table::default()] }).unwrap());
    documents.push(serde_json::to_value(view::TableRows::default()).unwrap());
    documents.push(serde_json::to_value(view::TableChanged::default()).unwrap());
    let status = view::Status { workers: vec![view::Worker::default()], ..Default::default() };
    documents.push(serde_json::to_value(status).unwrap());
    documents.push(serde_json::to_value(view::SinceReset::default()).unwrap());
    documents.push(serde_json::to_value(view::Api::default()).unwrap());

    let page = page();
    let mut keys = Vec::new();
    documents.iter().for_each(|document| collect(document, &mut keys));
    assert!(keys.len() > 100);
    for key in keys {
        assert!(is_documented(&page, &key), "{key} is not in docs/json.md");
    }
}

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/json.md")).unwrap()
}

fn is_documented(page: &str, key: &str) -> bool {
    page.contains(&format!("`{key}`")) || page.contains(&format!("\"{key}\""))
}

/// Where the types are that documents are made of.
const DOCUMENTS: [&str; 9] = [
    "src/cli",
    "src/api/flows.rs",
    "src/telemetry/score.rs",
    "src/api/view",
    "src/network/documents.rs",
    "src/tables/documents.rs",
    "src/api/view.rs",
    "src/pisa/probe.rs",
    "src/sim/report.rs",
];

/// The Rust files at a path and below it.
fn sources(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| sources(&entry.unwrap().path(), found));
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        found.push(path.into());
    }
}

/// The keys of the structures that a source makes documents of.
fn keys_of(source: &str) -> Vec<String> {
    let (mut serialized, mut within, mut renamed, mut hidden) = (false, false, None, false);
    let mut keys = Vec::new();
    for line in source.lines().map(str::trim) {
        let head = line.trim_start_matches("pub ").trim_start_matches("pub(super) ").trim_start_matches("pub(crate) ");
        if within {
            within = line != "}";
            if line.starts_with("#[serde(") {
                renamed = line.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
                hidden = line.contains("flatten") || line.contains("skip)");
            } else if let Some((key, _)) = head.split_once(": ").filter(|_| !line.starts_with(['/', '#'])) {
                if !hidden {
                    keys.push(renamed.unwrap_or(key).to_owned());
                }
                (renamed, hidden) = (None, false);
            }
        } else if line.contains("Serialize") && !line.starts_with("use ") {
            serialized = true;
        } else if ["struct ", "enum ", "fn ", "impl "].iter().any(|item| head.starts_with(item)) {
            within = serialized && head.starts_with("struct ") && line.ends_with('{');
            serialized = false;
        }
    }
    keys
}

/// Also those of documents that no command here makes: of switches that run, of a controller and
/// its network.
#[test]
fn every_key_in_the_sources_is_documented() {
    let mut files = Vec::new();
    DOCUMENTS.iter().for_each(|path| sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path), &mut files));
    let page = page();
    let mut found = 0;
    for file in files {
        for key in keys_of(&std::fs::read_to_string(&file).unwrap()) {
            assert!(is_documented(&page, &key), "{key}, of {}, is not in docs/json.md", file.display());
            found += 1;
        }
    }
    assert!(found > 250, "{found} keys were found: has the form of the sources changed?");
    let source = "#[derive(Debug, Serialize)]\npub struct A {\n    /// One: two.\n    pub b: u8,\n    \
                  #[serde(rename = \"d\")]\n    pub c: u8,\n    #[serde(flatten)]\n    e: F,\n}\nstruct G {\n    h: u8,\n}\n";
    assert_eq!(keys_of(source), ["b", "d"]);
}
