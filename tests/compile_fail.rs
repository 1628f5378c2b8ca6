//! What the pipeline's types forbid a program to do: each file under `compile_fail/` must not
//! compile, and for the reason that its second line names.
//!
//! Only the errors' codes are compared: the compiler's words change from version to version.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library as it was just built for this test: the newest of its kind.
fn library(deps: &Path) -> PathBuf {
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libweir-") && name.ends_with(".rlib")
    };
    let files = std::fs::read_dir(deps).expect("the directory of this test").flatten().map(|entry| entry.path());
    let newest = |path: &PathBuf| path.metadata().and_then(|meta| meta.modified()).ok();
    files.filter(is_library).max_by_key(newest).expect("the library beside this test")
}

/// The codes of the errors that the compiler has for a file.
fn errors(file: &Path, library: &Path) -> Vec<String> {
    let deps = library.parent().expect("a directory");
    let out = tempfile::tempdir().expect("a directory for what should not be written");
    let output = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--cap-lints=allow", "--error-format=short"])
        .arg("--extern")
        .arg(format!("weir={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .arg("--out-dir")
        .arg(out.path())
        .arg(file)
        .output()
        .expect("rustc");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), !said.contains("error"), "{}: {said}", file.display());
    let syntax = said.lines().find(|line| line.contains(": error: "));
    assert_eq!(syntax, None, "{} is not even Rust", file.display());
    said.lines().filter_map(|line| Some(line.split_once("error[")?.1.split_once(']')?.0.to_string())).collect()
}

#[test]
fn a_program_cannot_break_the_pipelines_rules() {
    let deps = std::env::current_exe().expect("this test").parent().expect("its directory").to_path_buf();
    let library = library(&deps);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail");
    let mut files: Vec<_> = std::fs::read_dir(dir).expect("the cases").flatten().map(|entry| entry.path()).collect();
    files.sort();
    assert!(files.len() >= 7, "cases are missing");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a case");
        let expected =
            text.lines().nth(1).and_then(|line| line.strip_prefix("//~ ")).expect("the error on the second line");
        let found = errors(&file, &library);
        match expected {
            "none" => assert!(found.is_empty(), "{}: {found:?}", file.display()),
            codes => {
                let missing: Vec<_> =
                    codes.split(' ').filter(|code| !found.iter().any(|found| found == code)).collect();
                assert!(missing.is_empty(), "{}: {found:?} without {missing:?}", file.display());
            }
        }
    }
}
