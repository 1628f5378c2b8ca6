//! `docs/json.md` has every key of every document.

use std::path::{Path, PathBuf};

use serde_json::Value;
use weir::answers::{Claimed, HeavyFlows};
use weir::api::view;
use weir::trace::CaptureWriter;

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
                // A flow has the keys of its definition, a configuration those of its programs, and names of
                // switches are keys too.
                if !["flow", "configuration", "rests_on"].contains(&key.as_str()) {
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
    let heavy = Claimed::<HeavyFlows>::default();
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
    documents.push(serde_json::to_value(view::Exported::default()).unwrap());
    documents.push(serde_json::to_value(view::Otlp::default()).unwrap());

    let page = page();
    let mut keys = Vec::new();
    documents.iter().for_each(|document| collect(document, &mut keys));
    assert!(keys.len() > 100);
    for key in keys {
        assert!(is_documented(&page, &key), "{key} is not in docs/json.md");
    }
}

/// The page of JSON, and the one of registers, to which it refers.
fn page() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    ["json.md", "registers.md"].map(|page| std::fs::read_to_string(docs.join(page)).unwrap()).concat()
}

fn is_documented(page: &str, key: &str) -> bool {
    page.contains(&format!("`{key}`")) || page.contains(&format!("\"{key}\""))
}

/// Where the types are that documents are made of.
const DOCUMENTS: [&str; 8] = [
    "src/cli",
    "src/answers",
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

/// A field of a structure that documents are made of.
#[derive(Debug, Default, PartialEq)]
struct Field {
    key: String,
    kind: String,
    /// It has a form that no reader rounds.
    is_exact: bool,
}

/// Structures of what an archive keeps, which no document has.
const ARCHIVED: [&str; 11] = [
    "Between",
    "Distribution",
    "FlowValues",
    "HopNumbers",
    "Loss",
    "LossesFound",
    "LoopAnswers",
    "Mean",
    "PathAnswers",
    "Quantiles",
    "ValueAnswers",
];

/// The fields of the structures that a source makes documents of.
fn fields_of(source: &str) -> Vec<Field> {
    let (mut serialized, mut within, mut renamed, mut hidden) = (false, false, None, false);
    let (mut fields, mut is_exact) = (Vec::new(), false);
    for line in source.lines().map(str::trim) {
        let head = line.trim_start_matches("pub ").trim_start_matches("pub(super) ").trim_start_matches("pub(crate) ");
        if within {
            within = line != "}";
            if line.starts_with("#[serde(") {
                renamed = renamed.or(line.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next()));
                hidden |= line.contains("flatten") || line.contains("skip)");
                is_exact |= line.contains("with = \"digits\"") || line.contains("with = \"large\"");
            } else if let Some((key, kind)) = head.split_once(": ").filter(|_| !line.starts_with(['/', '#'])) {
                if !hidden {
                    let (key, kind) = (renamed.unwrap_or(key).to_owned(), kind.to_owned());
                    fields.push(Field { key, kind, is_exact });
                }
                (renamed, hidden, is_exact) = (None, false, false);
            }
        } else if line.contains("Serialize") && !line.starts_with("use ") {
            serialized = true;
        } else if ["struct ", "enum ", "fn ", "impl "].iter().any(|item| head.starts_with(item)) {
            let name = head.trim_start_matches("struct ").trim_end_matches([' ', '{']);
            within = serialized && head.starts_with("struct ") && line.ends_with('{') && !ARCHIVED.contains(&name);
            serialized = false;
        }
    }
    fields
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
        for Field { key, .. } in fields_of(&std::fs::read_to_string(&file).unwrap()) {
            assert!(is_documented(&page, &key), "{key}, of {}, is not in docs/json.md", file.display());
            found += 1;
        }
    }
    assert!(found > 250, "{found} keys were found: has the form of the sources changed?");
    let source = "#[derive(Debug, Serialize)]\npub struct A {\n    /// One: two.\n    pub b: u8,\n    \
                  #[serde(rename = \"d\")]\n    #[serde(with = \"large\")]\n    pub c: u64,\n    #[serde(flatten)]\n    \
                  e: F,\n}\nstruct G {\n    h: u8,\n}\n";
    let field = |key: &str, kind: &str, is_exact| Field { key: key.into(), kind: kind.into(), is_exact };
    assert_eq!(fields_of(source), [field("b", "u8,", false), field("d", "u64,", true)]);
}

/// The last words of keys that count things or say which one: a hundred million a second are less than
/// 2^53 for years.
const COUNTS: &[&str] = &[
    "amendments",
    "answers",
    "banks",
    "candidates",
    "cells",
    "changed",
    "connections",
    "contradictions",
    "conversations",
    "core",
    "cores",
    "count",
    "device",
    "digests",
    "drops",
    "effects",
    "entries",
    "epoch",
    "epochs",
    "established",
    "files",
    "finished",
    "flows",
    "gaps",
    "handshakes",
    "hop",
    "horizon",
    "hosts",
    "incomplete",
    "jumps",
    "k",
    "links",
    "loops",
    "lost",
    "macs",
    "messages",
    "moves",
    "neighbours",
    "open",
    "packets",
    "places",
    "points",
    "ports",
    "records",
    "reports",
    "requests",
    "rounds",
    "samples",
    "sequence",
    "started",
    "switches",
    "timeouts",
    "turns",
    "up",
    "updates",
    "victims",
];
/// Others that are small: lengths of time (2^53 ns are 104 days), memory, the bytes of one packet, of
/// a file or of the epochs that are kept, rates of one link.
const SMALL: &[&str] = &[
    "age_seconds",
    "banks_per_core",
    "bytes",
    "bytes_per_core",
    "captured_bytes",
    "counts",
    "data",
    "end_ns",
    "epoch",
    "epoch_ns",
    "error_ns",
    "estimate",
    "field",
    "from_bytes",
    "hash",
    "keep_bytes",
    "largest_ns",
    "latency_largest_ns",
    "latency_ns",
    "link_bits_per_second",
    "longest_queue_bytes",
    "lost_after_ns",
    "lower_bound",
    "max_ns",
    "memory_bytes",
    "min_ns",
    "modulus",
    "p50_high_ns",
    "p50_low_ns",
    "p50_ns",
    "p90_ns",
    "p9999_ns",
    "p999_ns",
    "p99_high_ns",
    "p99_low_ns",
    "p99_ns",
    "register_bytes",
    "rests_on",
    "rotate_bytes",
    "rtt_ns",
    "sent_bytes",
    "shims_at_hosts",
    "slow_ns",
    "slowest_p99_ns",
    "sram_bits",
    "sram_bits_used",
    "start_ns",
    "tcam_bits",
    "threshold_bytes",
    "to_bytes",
    "transit_ns",
    "true",
    "true_bytes",
    "upper_bound",
    "window_ns",
];
/// What is kept in JSON and read by weir alone: a controller's state, and epochs of an archive.
const STATE: [&str; 7] = [
    "src/network/server/state.rs",
    "src/network/controller",
    "src/archive",
    "src/history",
    "src/program/chamelemon/kept.rs",
    "src/program/bytes.rs",
    "src/program/heavy.rs",
];

/// In all documents, pktgen's too, a whole number that a reader with doubles would round is a string.
#[test]
fn numbers_in_the_sources_survive_doubles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    ["src", "pktgen/src"].iter().for_each(|path| sources(&root.join(path), &mut files));
    let (mut plain, mut exact) = (0, Vec::new());
    for file in files.iter().filter(|file| !STATE.iter().any(|state| file.starts_with(root.join(state)))) {
        for Field { key, kind, is_exact } in fields_of(&std::fs::read_to_string(file).unwrap()) {
            let mut words = kind.split(|c: char| !c.is_alphanumeric());
            if is_exact {
                exact.push(key);
            } else if words.any(|word| ["u64", "i64", "u128", "i128", "usize", "isize", "Nanos"].contains(&word)) {
                let last = key.rsplit('_').next().unwrap_or_default();
                let is_small = COUNTS.contains(&last) || SMALL.contains(&key.as_str());
                assert!(is_small, "{key} of {}: json::digits, json::large, or a small number?", file.display());
                plain += 1;
            }
        }
    }
    assert!(plain > 150, "{plain} numbers were found: has the form of the sources changed?");
    exact.sort_unstable();
    exact.dedup();
    for key in ["at_ns", "cycles", "first_ns", "from_ns", "reproducible", "rx_bytes", "seed", "sure_since_ns"] {
        assert!(exact.iter().any(|exact| exact == key), "{key} is not in {exact:?}");
    }
}

/// Asserts that doubles have all whole numbers of a document.
fn survives(value: &Value) {
    match value {
        Value::Array(items) => items.iter().for_each(survives),
        Value::Object(object) => object.values().for_each(survives),
        Value::Number(number) => {
            let whole = number.as_u64().or(number.as_i64().map(i64::unsigned_abs));
            assert!(whole.is_none_or(|whole| whole < 1 << 53), "{number}");
        }
        _ => {}
    }
}

/// `t.pcap`, with a packet at each of these times.
fn capture_at(files: &Files, times: [u64; 2]) {
    let mut capture = CaptureWriter::new(Vec::new()).unwrap();
    times.iter().for_each(|at_ns| capture.write(*at_ns, &crate::frame(1, 2)).unwrap());
    files.write("t.pcap", capture.finish().unwrap());
}

#[test]
fn numbers_of_documents_survive_doubles() {
    let files = Files::new();
    let (seed, at_ns) = (u64::MAX, 1_767_225_599_123_456_789u64);
    capture_at(&files, [at_ns, at_ns + 1_000_000_001]);
    files.write("weir.toml", "[switch]\nreproducible = 9007199254740993\n[[port]]\nname = \"a\"\ndev = \"tap:a\"\n");
    let replay = files.weir(&format!("replay t.pcap --reproducible {seed} --json")).json();
    let trace = files.weir(&format!("trace -r t.pcap --packet 1 --reproducible {seed} --json")).json();
    let config = files.weir("config check weir.toml --json").json();
    let mut status = view::Status { workers: vec![view::Worker::default()], ..Default::default() };
    let worker = &mut status.workers[0];
    worker.programs = vec![view::WorkerProgram { cycles: u64::MAX, ..Default::default() }];
    (worker.busy_cycles, worker.idle_cycles, worker.polls, worker.busy_polls) = (1 << 53, u64::MAX, 1 << 60, 1 << 59);
    status.totals.removed.counts.rx_bytes = u64::MAX;
    let written = serde_json::to_value(&status).unwrap();
    let others = ["config schema", "budget --json", "sim --epochs 1 --workload isp,flows=10,packets=100 --json"];
    others.iter().for_each(|words| survives(&weir(words).json()));
    [&replay, &trace, &config, &written].into_iter().for_each(survives);
    assert_eq!((&replay["seed"], &trace["at_ns"]), (&seed.to_string().into(), &at_ns.to_string().into()));
    assert_eq!(config["switch"]["reproducible"], "9007199254740993");
    assert_eq!(replay["start"], "2025-12-31T23:59:59.123456789Z");
    let claim = &replay["programs"]["hashpipe"]["claims"]["heavy"];
    assert_eq!((&claim["start"], &claim["end"]), (&replay["start"], &"2026-01-01T00:00:00.123456790Z".into()));
    // As `weir top` reads it, of this switch and of an older one.
    let older = serde_json::to_string(&written).unwrap().replace("\"18446744073709551615\"", "18446744073709551615");
    assert_eq!(serde_json::from_value::<view::Status>(written).unwrap(), status);
    assert_eq!(serde_json::from_str::<view::Status>(&older).unwrap(), status);
}

/// With `--epoch` answers about captures have the times of day at which epochs start and end.
#[test]
fn epochs_of_a_capture_have_times_of_day() {
    let files = Files::new();
    capture_at(&files, [10, 11].map(|second| second * 1_000_000_000 + 250_000_000));
    let replay = files.weir("replay t.pcap --epoch 500ms --json").json();
    let claim = &replay["programs"]["hashpipe"]["claims"]["heavy"];
    assert_eq!((&claim["first_epoch"], &claim["last_epoch"]), (&20.into(), &22.into()), "{claim}");
    let [start, end] = ["1970-01-01T00:00:10.000000000Z", "1970-01-01T00:00:11.500000000Z"];
    assert_eq!((&claim["start"], &claim["end"], &claim["seconds"]), (&start.into(), &end.into(), &1.5.into()));
    let simulated =
        weir("sim --topology line:2 --workload isp,flows=10,packets=100 --epochs 2 --epoch 50ms --json").json();
    for (n, epoch) in (0..).zip(simulated["epochs"].as_array().unwrap()) {
        let ends = (n + 1) * 50_000_000u64;
        assert_eq!((&epoch["start_ns"], &epoch["end_ns"]), (&(n * 50_000_000).into(), &ends.into()), "{epoch}");
    }
}
