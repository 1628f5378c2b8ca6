//! A loop around two of DPDK's libraries, compiled here with the C compiler: librte_member's sketch
//! and the software switch pipeline.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::peers::has;
use crate::child;

const SOURCE: &str = include_str!("native.c");
/// librte_member has the sketch from this version on.
const OLDEST: &str = "22.11";

/// The compiled program, gone when it is dropped.
pub struct Native {
    dir: TempDir,
}

pub fn can_build() -> bool {
    let found = || Command::new("pkg-config").args(["--atleast-version", OLDEST, "libdpdk"]).status();
    has("cc") && has("pkg-config") && found().is_ok_and(|status| status.success())
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loop {
    /// With this sample rate, up to 1.
    Member(f64),
    Swx,
}

impl Native {
    /// # Errors
    /// If the compiler fails, with what it says.
    pub fn build() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let source = dir.path().join("native.c");
        fs::write(&source, SOURCE)?;
        let flags = |which: &str| -> Result<Vec<String>> {
            let output = Command::new("pkg-config").args([which, "libdpdk"]).output().context("pkg-config")?;
            ensure!(output.status.success(), "pkg-config {which} libdpdk failed");
            Ok(String::from_utf8(output.stdout)?.split_whitespace().map(str::to_owned).collect())
        };
        let mut command = Command::new("cc");
        command.args(["-O3", "-DALLOW_EXPERIMENTAL_API"]).args(flags("--cflags")?).arg(&source);
        command.arg("-o").arg(dir.path().join("native")).args(flags("--libs")?);
        let output = command.output().context("cc")?;
        ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(Self { dir })
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("native")
    }

    /// Packets a second that it forwards from the first device to the second.
    ///
    /// # Errors
    /// If it fails, with what it says.
    pub fn rate(&self, which: Loop, devices: &[String; 2], core: usize, huge_pages: bool, seconds: f64) -> Result<f64> {
        let mut command = child::command(&[], self.path());
        command.args(["--lcores", &format!("0@{core}"), "--no-pci", "--no-telemetry", "--file-prefix", "weir-bench"]);
        command.args(if huge_pages { &["--in-memory"][..] } else { &["--no-huge", "--no-shconf", "-m", "384"] });
        for device in devices {
            command.args(["--vdev", device]);
        }
        command.arg("--");
        match which {
            Loop::Member(sample) => command.args(["member", &sample.to_string()]),
            Loop::Swx => command.args(["swx", "1"]),
        };
        command.arg(seconds.to_string()).stdin(Stdio::null());
        let output = command.output().context("the loop around DPDK's libraries")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", error.lines().next_back().unwrap_or_default());
        let text = String::from_utf8(output.stdout)?;
        text.lines().next_back().unwrap_or_default().trim().parse().with_context(|| text.clone())
    }
}
