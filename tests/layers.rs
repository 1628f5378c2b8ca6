//! The structure of the sources: which modules know of which, and where programs are named.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules, the top layer first. An import points down this list.
const LAYERS: [&[&str]; 31] = [
    &["main", "cli"],
    &["lab"],
    &["sim", "live", "replay"],
    &["privileges"],
    &["assemble"],
    &["web", "export"],
    &["api"],
    &["network"],
    &["tables"],
    &["config"],
    &["worker"],
    &["switch"],
    &["observe"],
    &["telemetry"],
    &["forward"],
    &["stats"],
    &["archive"],
    &["program"],
    &["answers"],
    &["history"],
    &["output"],
    &["trace"],
    &["port"],
    &["dpdk"],
    &["pisa"],
    &["wire"],
    &["lock"],
    &["slices"],
    &["cpus"],
    &["json"],
    &["text"],
];

/// Where programs are named on purpose.
const REGISTRY: [&str; 2] = ["program/mod.rs", "program/registry.rs"];

/// The sources by their path below `src`, without tests and comments.
fn sources() -> BTreeMap<String, String> {
    fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, files) } else { files.push(path) }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&src, &mut files);
    let mut sources = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let name = file.strip_prefix(&src).unwrap().to_str().unwrap().to_owned();
        if name.split(['/', '.']).any(|part| part == "tests") {
            continue;
        }
        let text = fs::read_to_string(file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        sources.insert(name, code.collect::<Vec<_>>().join("\n"));
    }
    assert!(sources.len() > 200, "the sources are read");
    sources
}

fn module(file: &str) -> &str {
    file.split(['/', '.']).next().unwrap_or_default()
}

/// The modules of the crate that a file names.
fn named(code: &str) -> BTreeSet<&str> {
    let names = code.split("crate::").skip(1);
    names.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()).collect()
}

#[test]
fn imports_point_down() {
    let layer = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    let mut wrong = Vec::new();
    for (file, code) in &sources() {
        let from = module(file);
        if from == "lib" {
            continue;
        }
        let own = layer(from).unwrap_or_else(|| panic!("{from}, of src/{file}, stands in no layer of tests/layers.rs"));
        for to in named(code).into_iter().filter(|to| *to != from) {
            let Some(below) = layer(to) else { continue };
            if below > own {
                continue;
            }
            wrong.push(format!("src/{file} uses {to}, which stands above it"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn programs_are_named_in_their_directories_alone() {
    let programs: Vec<_> = weir::program::ProgramConfig::names().collect();
    assert!(programs.len() >= 2, "{programs:?}");
    let own = |file: &str| programs.iter().any(|program| file.starts_with(&format!("program/{program}/")));
    let names = |code: &str| programs.iter().any(|program| code.to_lowercase().contains(program));
    let sources = sources();
    let naming: BTreeSet<_> =
        sources.iter().filter(|(file, code)| !own(file) && names(code)).map(|(file, _)| file.as_str()).collect();
    assert_eq!(naming, REGISTRY.into(), "left: files that name a program; right: those that may");
}

/// A hash whose polynomial a program derived by itself would be in no layout.
#[test]
fn programs_hash_by_their_layouts() {
    let sources = sources();
    let of_programs = sources.iter().filter(|(file, _)| file.starts_with("program/"));
    let derives = |code: &str| code.contains(".derive(") || code.contains("Global::derive(");
    let deriving: Vec<_> = of_programs.filter(|(_, code)| derives(code)).map(|(file, _)| file).collect();
    assert_eq!(deriving, Vec::<&String>::new(), "make the hash unit of a HashLayout");
    assert!(derives(&sources["pisa/hash/layout.rs"]), "the search finds what it looks for");
}

/// A route that is added in api/routes.rs has a description. The page is no part of the API.
#[test]
fn routes_are_added_with_their_descriptions() {
    let sources = sources();
    let adds = |code: &str| code.contains("Router::new()") || code.contains(".route(\"");
    let adding: Vec<_> = sources.iter().filter(|(_, code)| adds(code)).map(|(file, _)| file.as_str()).collect();
    assert_eq!(adding, ["api/routes.rs", "web/routes.rs"]);
}
