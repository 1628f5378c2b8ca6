//! A switch cannot multiply, divide or compute with floats: no `dataplane.rs` may.

use std::path::{Path, PathBuf};

fn dataplanes(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            dataplanes(&path, found);
        } else if path.file_name().is_some_and(|name| name == "dataplane.rs") {
            found.push(path);
        }
    }
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
    let mut files = Vec::new();
    dataplanes(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/program"), &mut files);
    assert!(!files.is_empty(), "no dataplane.rs found");
    for file in files {
        for (number, line) in (1..).zip(std::fs::read_to_string(&file).unwrap().lines()) {
            if let Some(what) = forbidden(line) {
                panic!("{}:{number}: a switch has no `{what}`: {line}", file.display());
            }
        }
    }
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
