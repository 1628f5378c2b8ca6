//! What the fuzz targets check, on their seeds and on every beginning of each seed.
//! `scripts/fuzz.sh` goes further.

use std::fs;
use std::path::Path;

#[path = "../fuzz/checks/capture.rs"]
mod capture;
#[path = "../fuzz/checks/config.rs"]
mod config;
#[path = "../fuzz/checks/control.rs"]
mod control;
#[path = "../fuzz/checks/filter.rs"]
mod filter;
#[path = "../fuzz/checks/graph.rs"]
mod graph;
#[path = "../fuzz/checks/program_words.rs"]
mod program_words;
#[path = "../fuzz/checks/record.rs"]
mod record;
#[path = "../fuzz/checks/tunnel.rs"]
mod tunnel;
#[path = "../fuzz/checks/wire_parse.rs"]
mod wire_parse;

fn each(target: &str, run: impl Fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut count = 0;
    for seed in fs::read_dir(&seeds).unwrap() {
        let bytes = fs::read(seed.unwrap().path()).unwrap();
        (0..=bytes.len()).for_each(|end| run(&bytes[..end]));
        count += 1;
    }
    assert!(count > 3, "{} has few seeds", seeds.display());
}

fn text(run: impl Fn(&str)) -> impl Fn(&[u8]) {
    move |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            run(text);
        }
    }
}

#[test]
fn captures() {
    each("capture", capture::run);
}

#[test]
fn configurations() {
    each("config", text(config::run));
}

#[test]
fn filters() {
    each("filter", filter::run);
}

#[test]
fn graphs() {
    each("graph", text(graph::run));
    // Far deeper than a thread's stack is.
    for open in ["<a>", "<a b='/'>", "graph [ ", "graph ["] {
        graph::run(&open.repeat(1 << 17));
    }
}

#[test]
fn control_messages() {
    each("control", control::run);
}

#[test]
fn records() {
    each("record", record::run);
}

#[test]
fn words_of_programs() {
    each("program_words", text(program_words::run));
}

#[test]
fn tunnels() {
    each("tunnel", tunnel::run);
}

#[test]
fn frames() {
    each("wire_parse", wire_parse::run);
}
