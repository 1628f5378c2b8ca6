//! One file of the switch writes shim, VLAN tag and DSCP: the deparser.

use std::path::{Path, PathBuf};

/// What writes them, as it is called.
const WRITERS: [&str; 5] = ["shim::push(", "shim::pop(", "shim::rewrite(", "dscp::write(", ".write_tag("];

/// Where they are written, and where the writers are.
const DEPARSER: &str = "switch/deparse.rs";
const HOMES: [&str; 3] = ["wire/shim.rs", "wire/dscp.rs", "wire/vlan.rs"];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The writers that the code of a file calls, and the lines. Tests may call them.
fn calls(source: &str) -> Vec<(usize, &'static str)> {
    let code = source.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let lines = (1..).zip(code.lines().map(|line| line.split("//").next().unwrap_or_default()));
    lines.flat_map(|(number, line)| WRITERS.iter().filter(|w| line.contains(**w)).map(move |w| (number, *w))).collect()
}

#[test]
fn only_the_deparser_writes_what_packets_carry() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut called = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        if HOMES.contains(&name.as_str()) || name.ends_with("tests.rs") || name.contains("/tests/") {
            continue;
        }
        let calls = calls(&std::fs::read_to_string(&file).unwrap());
        if name == DEPARSER {
            called = calls.into_iter().map(|(_, writer)| writer).collect();
        } else if let Some((number, writer)) = calls.first() {
            panic!("src/{name}:{number}: `{writer}` belongs to {DEPARSER}");
        }
    }
    let missing: Vec<_> = WRITERS.iter().filter(|writer| !called.contains(writer)).collect();
    assert!(missing.is_empty(), "{DEPARSER} no longer calls {missing:?}: this test looks for the wrong names");
}

#[test]
fn the_search_finds_what_it_looks_for() {
    let source = "fn a() {\n    wire::shim::pop(frame)?; // dscp::write(\n}\n#[cfg(test)]\nmod tests { fn b() { shim::push(f, s); } }\n";
    assert_eq!(calls(source), [(2, "shim::pop(")]);
}
