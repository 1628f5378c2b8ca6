//! DPDK's own forwarding program, as the other end of a port.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Lab, collect, finish};

const PROGRAM: &str = "dpdk-testpmd";

pub struct Testpmd {
    child: Child,
    report: Option<JoinHandle<String>>,
}

/// Packets that it counted.
#[derive(Clone, Copy, Debug)]
pub struct Forwarded {
    pub rx: u64,
    pub tx: u64,
}

impl Testpmd {
    /// Why there is none, if so.
    pub fn missing() -> Option<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).any(|directory| directory.join(PROGRAM).is_file());
        (!found).then(|| format!("not on the PATH: {PROGRAM} (make setup installs it)"))
    }

    /// Sends back whatever comes by a device.
    pub fn start(lab: &Lab, vdev: &str) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["--no-pci", "--no-huge", "-m", "64", "--no-shconf", "--no-telemetry", "--lcores", "0@0,1@0"]);
        command.args(["--file-prefix", &format!("pmd{}", std::process::id()), "--vdev", vdev, "--"]);
        command.args(["--total-num-mbufs=2048", "--forward-mode=macswap", "--disable-link-check"]);
        command.current_dir(lab.directory()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("testpmd starts");
        let report = collect(child.stdout.take().expect("piped"));
        Self { child, report: Some(report) }
    }

    pub fn stop(mut self) -> Forwarded {
        // Any line of input ends it.
        writeln!(self.child.stdin.take().expect("piped")).expect("testpmd reads");
        let ended = finish(&mut self.child, Duration::from_secs(60));
        let report = self.report.take().expect("taken once").join().expect("reads");
        assert!(ended.is_some_and(|status| status.success()), "testpmd: {ended:?}\n{report}");
        let count = |key: &str| {
            let accumulated = report.split("Accumulated").nth(1)?;
            accumulated.split(key).nth(1)?.split_ascii_whitespace().next()?.parse().ok()
        };
        let counts = count("RX-packets:").zip(count("TX-packets:"));
        let (rx, tx) = counts.unwrap_or_else(|| panic!("no counts in\n{report}"));
        Forwarded { rx, tx }
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
