//! The commands as a user types them: no root, no DPDK port, no network.

#[cfg(feature = "control")]
mod archive;
mod chamelemon;
mod broken;
mod captures;
mod config;
mod configured;
mod csv;
mod demo;
#[path = "../common/help.rs"]
mod help;
#[cfg(feature = "control")]
mod ipfix;
mod json;
mod lacking;
mod log;
mod manual;
mod metadata;
#[cfg(feature = "control")]
mod openapi;
#[cfg(feature = "control")]
mod page;
mod pint;
mod pipes;
mod registers;
mod replay;
mod schema;
mod signals;
mod sim;
#[cfg(feature = "control")]
#[path = "../common/skip.rs"]
mod skip;
mod table;
mod trace;
#[path = "../common/vxlan.rs"]
mod vxlan;

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;
use weir::trace::{Trace, Workload};

/// What a command left behind.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Refused with this exit code: nothing on stdout, and the message alone on stderr.
    fn refused(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self.stderr.trim_end()
    }
}

fn binary() -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env_remove("RUST_LOG");
    command
}

/// Runs `weir` with words that are separated by spaces.
fn weir(words: &str) -> Ended {
    weir_in(Path::new("."), words)
}

fn weir_in(directory: &Path, words: &str) -> Ended {
    weir_with(directory, words.split_whitespace())
}

/// Runs `weir` with arguments that may have spaces in them.
fn weir_with<'a>(directory: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Ended {
    Ended::of(binary().current_dir(directory).args(arguments).output().unwrap())
}

/// What `weir` prints on a terminal that is so many columns wide; `None` where no terminal can be made.
fn in_terminal(columns: usize, words: &str) -> Option<String> {
    let shell = format!("stty cols {columns} rows 50; {} {words} 2>/dev/null", env!("CARGO_BIN_EXE_weir"));
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &shell, "/dev/null"]).env_remove("COLUMNS").env("SHELL", "/bin/sh");
    match script.stdin(std::process::Stdio::null()).output() {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap().replace('\r', "")),
        Err(_) => {
            eprintln!("skipped: there is no `script`, which makes a terminal");
            None
        }
    }
}

/// A directory with files in it, gone at the end of the test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), content).unwrap();
        self
    }

    /// A generated workload as a capture.
    fn capture(&self, name: &str, workload: &str) -> Trace {
        let trace = workload.parse::<Workload>().unwrap().generate();
        let mut file = Vec::new();
        trace.write_pcap(&mut file).unwrap();
        self.write(name, file);
        trace
    }

    fn weir(&self, words: &str) -> Ended {
        weir_in(self.0.path(), words)
    }
}

/// The keys of an object, sorted.
fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// The shortest Ethernet frame between two hosts.
fn frame(to: u8, from: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x08, 0x00];
    frame.resize(60, 0);
    frame
}
