//! A switch cannot multiply, divide or compute with floats: no function of a program that a packet
//! reaches may, whatever file it is in, and no line of a `dataplane.rs`.

use std::collections::BTreeMap;
use std::path::Path;

#[path = "dataplane_operators/reach.rs"]
mod reach;

use reach::{Source, reached};

/// Functions that only seem to be reached, because packets call others of the same name, or that stand for
/// something that a switch has by itself.
const OTHERS: [&str; 3] = [
    // It answers about a flow. Packets call that of other counters.
    "heavy.rs: Counters::count",
    // A switch has the length of a queue by itself.
    "pint/utilisation/shifts.rs: Shifts::queue_bytes",
    // It reads digests. Packets call that of `Numbers`.
    "pint/compress.rs: Compression::expand",
];

/// The Rust files below a directory, without tests.
fn sources(root: &str) -> Vec<Source> {
    fn below(directory: &Path, name: &str, found: &mut Vec<Source>) {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let (path, file) = (entry.path(), entry.file_name().into_string().unwrap());
            match path.is_dir() {
                true if file != "tests" => below(&path, &format!("{name}{file}/"), found),
                false if file != "tests.rs" && file.ends_with(".rs") => {
                    found.push((format!("{name}{file}"), std::fs::read_to_string(&path).unwrap()));
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root), "", &mut found);
    found
}

/// The code of a line, without comments and string literals.
fn code(line: &str) -> String {
    let line = line.split("//").next().unwrap_or_default();
    line.split('"').step_by(2).collect()
}

/// The first operator or word that a switch does not have.
fn forbidden(line: &str) -> Option<&'static str> {
    let code = code(line);
    let words =
        ["f32", "f64", "sqrt", "powi", "pow", "ilog", "wrapping_mul", "saturating_mul", "checked_div", "rem_euclid"];
    let has_word = |word: &str| code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word);
    if let Some(word) = words.into_iter().find(|word| has_word(word)) {
        return Some(word);
    }
    // A dereference or a pointer type has a `*` with nothing to multiply before it.
    let operator = |symbol: char| {
        code.match_indices(symbol).any(|(at, _)| {
            let before = code[..at].trim_end().chars().next_back();
            let before_is_operand = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ')' || c == ']');
            let keyword = ["return", "in", "if", "match", "else", "&&", "||"];
            before_is_operand && !keyword.iter().any(|word| code[..at].trim_end().ends_with(word))
        })
    };
    [('*', "*"), ('/', "/"), ('%', "%")].into_iter().find(|(symbol, _)| operator(*symbol)).map(|(_, name)| name)
}

#[test]
fn a_dataplane_uses_only_what_a_switch_has() {
    let dataplanes = sources("src/program").into_iter().filter(|(file, _)| file.ends_with("dataplane.rs"));
    let mut lines = 0;
    for (file, text) in dataplanes {
        for (number, line) in (1..).zip(text.lines()) {
            lines += 1;
            if let Some(what) = forbidden(line) {
                panic!("{file}:{number}: a switch has no `{what}`: {line}");
            }
        }
    }
    assert!(lines > 1000, "{lines} lines");
}

/// Of weir's programs, of the examples and of the program of tests.
#[test]
fn packets_reach_only_what_a_switch_has() {
    let mut programs = sources("src/program");
    for (name, root) in [("examples", "examples"), ("fourth_program", "tests/fourth_program")] {
        programs.extend(sources(root).into_iter().map(|(file, text)| (format!("{name}/{file}"), text)));
    }
    let others: Vec<_> = ["src/pisa", "src/wire"].into_iter().flat_map(sources).collect();
    let mut functions = reached(&programs, &others);
    for other in OTHERS {
        assert!(functions.remove(other).is_some_and(|beyond| !beyond.is_empty()), "{other} is right by itself");
    }
    let beyond: BTreeMap<_, _> = functions.iter().filter(|(_, beyond)| !beyond.is_empty()).collect();
    assert!(beyond.is_empty(), "no switch computes what these do for a packet: {beyond:#?}");
    // Of each program, also in files that are not called dataplane.rs.
    for function in [
        "chamelemon/batch.rs: Batch::classify",
        "chamelemon/id.rs: FlowId::fragments",
        "examples/coco_sketch.rs: Take::compute",
        "examples/count_min.rs: Row::rmw",
        "fourth_program/program.rs: Microbursting::report",
        "hashpipe/replica.rs: Family::run",
        "pint/compress.rs: Compression::compress",
        "pint/sample.rs: Sampled::report",
        "pint/utilisation/ports.rs: meta",
        "pint/values/numbers.rs: Numbers::encode",
        "staged.rs: Staged::run",
        "strays.rs: StrayRegisters::count",
    ] {
        assert!(functions.contains_key(function), "{function} is not among {:#?}", functions.keys());
    }
}

/// A file that is added is held as soon as a packet reaches it, and what no packet reaches may compute
/// anything.
#[test]
fn packets_are_followed_into_new_files() {
    let program = "use super::new::Helper;
        struct Count { helper: Helper }
        impl Salu for Count {
            fn rmw(&self, cell: u32, _: &()) -> (u32, ()) { (self.helper.weight(cell), ()) }
            fn describe(&self, _: &()) -> String { Helper::mean().to_string() }
        }";
    let new = "const SHIFT: u32 = 1 << 4;
        const THREE: u32 = 3;
        pub struct Helper(Inner);
        struct Inner;
        impl Helper {
            pub fn weight(&self, x: u32) -> u32 { self.0.twice(x * SHIFT) }
            pub fn mean() -> f64 { 0.5 }
        }
        impl Inner { fn twice(&self, x: u32) -> u32 { half([x].map(third)) } }
        fn half(x: [u32; 3 * 2]) -> u32 { x[0] / 2 }
        fn third(x: u32) -> u32 { x / THREE }
        #[cfg(test)]
        mod tests { fn half(x: u32) -> u32 { x / 3 } }";
    let apart = "pub struct Helper; impl Helper { pub fn weight(&self, x: u32) -> u32 { x % 5 } }";
    let files = [("p/mod.rs", program), ("p/new.rs", new), ("q/new.rs", apart)];
    let functions = reached(&files.map(|(file, text)| (file.into(), text.into())), &[]);
    let right = ["p/mod.rs: Count::rmw", "p/new.rs: Helper::weight", "p/new.rs: Inner::twice", "p/new.rs: half"];
    let all = right.map(|name| (name.to_owned(), Vec::new())).into_iter();
    assert_eq!(functions, all.chain([("p/new.rs: third".into(), vec!["/".into()])]).collect());
}

#[test]
fn the_search_finds_what_it_looks_for() {
    for line in ["let x = a * b;", "a.0 / 2", "(a + b) % c", "let x: f64 = 0.0;", "h.wrapping_mul(3)", "x[1] * y"] {
        assert!(forbidden(line).is_some(), "{line}");
    }
    for line in ["let x = *cell;", "fn f(x: &mut u32) { *x = 1 }", "// a * b", "if *a == *b {", "\"a * b\"", "x >> 2"] {
        assert_eq!(forbidden(line), None, "{line}");
    }
}
