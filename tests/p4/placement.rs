//! `weir budget` against the open compiler of Tofino: the reports beside the constants, which
//! `p4/placement.py` wrote. Nothing of P4 is needed here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use weir::assemble::place;
use weir::config::{Config, ForwardMode};
use weir::pisa::Placement;
use weir::pisa::hash::HashFamily;
use weir::program::ProgramConfig;

use super::CONSTANTS;

/// Where the two differ by more than they should: case, chip, what, weir's number and the compiler's.
/// `p4/tofino.md` says why.
const DIFFERENT: &[(&str, &str, &str, u64, u64)] = &[
    ("chamelemon", "tofino2", "TCAM blocks", 1, 3),
    ("chamelemon", "tofino", "TCAM blocks", 1, 5),
    ("disketch", "tofino2", "stages", 7, 9),
    ("all-latency", "tofino2", "TCAM blocks", 6, 9),
    ("all-latency", "tofino2", "hash units of chamelemon", 36, 40),
    ("all-latency", "tofino2", "hash units of disketch", 9, 8),
    ("all-latency", "tofino2", "stages", 17, 19),
    ("all", "tofino2", "TCAM blocks", 6, 9),
    ("all", "tofino2", "hash units of chamelemon", 36, 39),
    ("all", "tofino2", "hash units of disketch", 9, 8),
];

/// TCAM blocks of the routes, which weir's switch of ports and MAC addresses does not have: 12 288 prefixes.
const ROUTES: u64 = 12_288 / 512;

fn directory(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("p4/constants").join(case).join("t2na")
}

fn read(file: &Path) -> Option<Value> {
    Some(serde_json::from_str(&fs::read_to_string(file).ok()?).unwrap())
}

/// The programs, with as many MAC addresses as the sources have.
fn placed(programs: &[&str], chip: &str) -> (Vec<ProgramConfig>, Placement) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut config = Config::load(&root.join("p4/switch.toml")).unwrap();
    config.programs = programs.iter().map(|program| program.parse().unwrap()).collect();
    config.switch.target = chip.into();
    config.switch.pairs = Vec::new();
    (config.switch.forward, config.switch.mac_table) = (ForwardMode::Learn, 8192);
    let placement = place(&config, &HashFamily::reproducible(7)).unwrap();
    (config.programs, placement)
}

/// The tables of a program that the control program fills, of those that have a key.
fn filled(control: &Value, program: &str) -> usize {
    let entries = control["entries"].as_array().unwrap().iter();
    let keyed = entries.filter(|entry| !entry["match"].as_array().unwrap().is_empty());
    let tables: BTreeSet<_> = keyed.map(|entry| entry["table"].as_str().unwrap()).collect();
    tables.iter().filter(|table| table.split('.').next() == Some(program)).count()
}

/// The numbers that are compared: weir's, and the compiler's.
fn numbers(
    case: &str,
    programs: &[ProgramConfig],
    placement: &Placement,
    report: &Value,
) -> BTreeMap<String, [u64; 2]> {
    let control = read(&directory(case).join("control.json")).unwrap();
    let of = |key: &str| report[key].as_u64().unwrap();
    let mut numbers = BTreeMap::from([
        ("stages".to_owned(), [placement.stages_used().into(), of("stages")]),
        ("stateful ALUs".to_owned(), [placement.salus_used().into(), of("stateful_alus")]),
        ("TCAM blocks".to_owned(), [placement.tcam_blocks_used().into(), of("tcam_blocks") - ROUTES]),
    ]);
    let tables: Vec<_> = placement.stages.iter().flat_map(|stage| &stage.tables).collect();
    for name in programs.iter().map(|program| program.name()) {
        let units = report["hash_units_by_control"][name].as_u64().unwrap();
        numbers.insert(format!("hash units of {name}"), [placement.hash_units_of(name).into(), units]);
        let its = tables.iter().filter(|table| table.program == Some(name)).count();
        numbers.insert(format!("tables of {name}"), [its as u64, filled(&control, name) as u64]);
    }
    numbers
}

/// Stages within one; stateful ALUs, hash units, tables and TCAM blocks of programs as they are.
#[test]
fn placement_is_that_of_the_compiler() {
    let (mut compared, mut different) = (0, Vec::new());
    for (case, _, programs) in CONSTANTS.iter().filter(|(_, target, _)| *target == "t2na") {
        for chip in ["tofino2", "tofino"] {
            let Some(report) = read(&directory(case).join(format!("{chip}.json"))) else { continue };
            let (programs, placement) = placed(programs, chip);
            compared += 1;
            for (what, [weir, compiler]) in numbers(case, &programs, &placement, &report) {
                if weir.abs_diff(compiler) > u64::from(what == "stages") {
                    different.push((*case, chip, what, weir, compiler));
                }
            }
        }
    }
    let known: Vec<_> =
        DIFFERENT.iter().map(|&(case, chip, what, weir, of)| (case, chip, what.to_owned(), weir, of)).collect();
    assert_eq!(different, known, "what differs, and what is said to");
    assert_eq!(compared, 11);
}
