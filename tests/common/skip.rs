//! Tests that cannot run here, and say so.

use std::fs::OpenOptions;
use std::io::Write;

/// Where it is set, only what the kernel lacks excuses a test.
const ALL_REQUIRED: &str = "WEIR_REQUIRE_NETNS";

/// Names a file that gets a line for each test that did not run.
const NOT_RUN: &str = "WEIR_NOT_RUN";

/// What is missing for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A feature of the kernel, which nobody can install.
    Kernel,
    /// A tool, a right or a core.
    Machine,
}

impl Lack {
    /// Whether a test may go without it.
    pub fn excuses(self, all_required: bool) -> bool {
        self == Self::Kernel || !all_required
    }
}

/// Says that a test does not run, past the test runner, which would keep it to itself. Fails where
/// the test must run.
pub fn skip(test: &str, lack: Lack, reason: &str) {
    let all_required = std::env::var_os(ALL_REQUIRED).is_some();
    assert!(lack.excuses(all_required), "{test} must run where {ALL_REQUIRED} is set: {reason}");
    let line = format!("{test}: {reason}\n");
    let _ = std::io::stderr().write_all(format!("SKIPPED {line}").as_bytes());
    if let Some(list) = std::env::var_os(NOT_RUN) {
        let file = OpenOptions::new().create(true).append(true).open(&list);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of tests that did not run");
    }
}
