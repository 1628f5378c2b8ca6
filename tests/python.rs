//! The Python package: its own tests, in python/tests, with the binaries that were built.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "common/skip.rs"]
mod skip;

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// Python with what the package and its notebook need, as `scripts/setup.sh` makes it.
fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python3");
    let import = Command::new(&python)
        .args(["-c", "import flit_core, grpc, httpx, matplotlib, nbclient, openapi_spec_validator, opentelemetry.proto, pandas, promql_parser"])
        .output();
    import.is_ok_and(|output| output.status.success()).then_some(python)
}

/// Runs a module of python/tests.
fn passes(test: &str, module: &str) {
    let pktgen = Path::new(BINARY).with_file_name("pktgen");
    let (Some(python), true) = (python(), pktgen.is_file()) else {
        skip::skip(test, skip::Lack::Machine, "there is no pktgen or no target/python; make setup installs the latter");
        return;
    };
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let mut tests = Command::new(python);
    tests.args(["-W", "error", "-m", "unittest", "-v", module]).current_dir(package.join("tests"));
    tests.env("PYTHONPATH", package.join("src")).env("PYTHONDONTWRITEBYTECODE", "1").env("WEIR", BINARY);
    let output = tests.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn documents_are_those_of_the_sources() {
    passes("documents_are_those_of_the_sources", "test_documents");
}

#[test]
fn switches_and_controllers_are_asked() {
    passes("switches_and_controllers_are_asked", "test_client");
}

#[test]
fn answers_are_as_the_openapi_document_says() {
    passes("answers_are_as_the_openapi_document_says", "test_openapi");
}

#[test]
fn commands_are_run() {
    passes("commands_are_run", "test_commands");
}

#[test]
fn packaged_queries_name_what_is_exported() {
    passes("packaged_queries_name_what_is_exported", "test_metrics");
}

#[test]
fn the_notebook_runs() {
    passes("the_notebook_runs", "test_notebook");
}
