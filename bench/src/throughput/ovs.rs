//! Open vSwitch's userspace datapath (OVS-DPDK) between two ports, with one flow entry each way.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::child;

/// Debian's name of the daemon that is linked with DPDK. The plain `ovs-vswitchd` may be without.
const DAEMON: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Longest time that a daemon may take to start.
const START: Duration = Duration::from_secs(60);

pub fn is_installed() -> bool {
    Path::new(DAEMON).exists()
}

/// Megabytes of huge pages that it takes.
const MEMORY_MIB: u64 = 512;

/// Megabytes of huge pages that are free.
pub fn free_huge_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    value("HugePages_Free") * value("Hugepagesize") / 1024
}

/// A switch of its own, beside any that the machine runs: database, sockets and logs are in a
/// directory that goes with it.
pub struct Ovs {
    dir: TempDir,
    daemons: Vec<Child>,
    /// Words before each program's name, such as those that enter a network namespace.
    prefix: Vec<String>,
}

impl Ovs {
    /// Starts a switch whose `core` polls two ports, given as DPDK's `--vdev` takes them. It takes
    /// huge pages: OVS passes `--in-memory` to the EAL, which excludes running without.
    ///
    /// # Errors
    /// If a part of it does not start, or there are too few huge pages.
    pub fn start(prefix: &[&str], devices: &[String; 2], core: usize) -> Result<Self> {
        let free = free_huge_mib();
        ensure!(free >= MEMORY_MIB, "OVS takes {MEMORY_MIB} MB of huge pages, and {free} MB are free");
        let prefix = prefix.iter().map(|word| (*word).to_owned()).collect();
        let mut ovs = Self { dir: tempfile::tempdir()?, daemons: Vec::new(), prefix };
        ovs.run("ovsdb-tool", &["create", &ovs.path("conf.db"), SCHEMA])?;
        let remote = format!("--remote=punix:{}", ovs.path("db.sock"));
        let control = format!("--unixctl={}", ovs.path("db.ctl"));
        ovs.spawn("ovsdb-server", &[&ovs.path("conf.db"), &remote, &control])?;
        ovs.wait_for("db.sock")?;
        ovs.configure(&["--no-wait", "init"])?;
        let main = if core == 0 { 1 } else { 0 };
        ovs.configure(&[
            "--no-wait",
            "set",
            "Open_vSwitch",
            ".",
            "other_config:dpdk-init=true",
            "other_config:dpdk-extra=--no-pci",
            &format!("other_config:dpdk-socket-mem={MEMORY_MIB}"),
            &format!("other_config:pmd-cpu-mask={:#x}", 1_u64 << core),
            &format!("other_config:dpdk-lcore-mask={:#x}", 1_u64 << main),
        ])?;
        let database = format!("unix:{}", ovs.path("db.sock"));
        ovs.spawn(DAEMON, &[&database, &format!("--unixctl={}", ovs.path("switch.ctl"))])?;
        ovs.configure(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail-mode=secure"])?;
        for (port, device) in devices.iter().enumerate() {
            let name = format!("p{port}");
            let device = format!("options:dpdk-devargs={device}");
            ovs.configure(&["add-port", "br0", &name, "--", "set", "interface", &name, "type=dpdk", &device])?;
        }
        for flow in ["in_port=p0,actions=output:p1", "in_port=p1,actions=output:p0"] {
            ovs.run("ovs-ofctl", &["add-flow", &ovs.path("br0.mgmt"), flow])?;
        }
        Ok(ovs)
    }

    /// The process that forwards.
    pub fn pid(&self) -> Option<u32> {
        self.daemons.last().map(Child::id)
    }

    /// Packets sent per second over both ports, in this time.
    ///
    /// # Errors
    /// If it has ended, or forwards nothing.
    pub fn rate(&self, time: Duration) -> Result<f64> {
        // Both counts are of the same moment as the clock within the time of one short command.
        let (before, begin) = (self.sent()?, Instant::now());
        std::thread::sleep(time);
        let (after, end) = (self.sent()?, Instant::now());
        ensure!(after > before, "OVS forwards nothing");
        Ok((after - before) as f64 / (end - begin).as_secs_f64())
    }

    /// Packets that both ports have sent.
    fn sent(&self) -> Result<u64> {
        sent(&self.run("ovs-ofctl", &["dump-ports", &self.path("br0.mgmt")])?)
    }

    fn configure(&self, arguments: &[&str]) -> Result<()> {
        let database = format!("--db=unix:{}", self.path("db.sock"));
        let timeout = format!("--timeout={}", START.as_secs());
        self.run("ovs-vsctl", &[&[database.as_str(), &timeout], arguments].concat()).map(drop)
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let prefix: Vec<&str> = self.prefix.iter().map(String::as_str).collect();
        let mut command = child::command(&prefix, program);
        command.args(arguments).stdin(Stdio::null());
        for directory in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(directory, self.dir.path());
        }
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = self.command(program, arguments).output().with_context(|| format!("{program} does not start"))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program} {}: {}", arguments.join(" "), errors.trim());
        Ok(String::from_utf8(output.stdout)?)
    }

    fn spawn(&mut self, program: &str, arguments: &[&str]) -> Result<()> {
        let child = self.command(program, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemons.push(child.with_context(|| format!("{program} does not start"))?);
        Ok(())
    }

    /// Waits for the socket of the process that was started last.
    fn wait_for(&mut self, socket: &str) -> Result<()> {
        let begin = Instant::now();
        while !self.dir.path().join(socket).exists() {
            let ended = self.daemons.last_mut().map_or(Ok(None), Child::try_wait)?;
            ensure!(ended.is_none(), "it ended before there was its {socket}: {}", ended.unwrap_or_default());
            ensure!(begin.elapsed() < START, "no {socket} within {START:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        // The switch before its database. Nothing of either is kept.
        for daemon in self.daemons.iter_mut().rev() {
            daemon.kill().ok();
            daemon.wait().ok();
        }
    }
}

/// The packets that ports have sent, of the printed statistics of all ports.
fn sent(statistics: &str) -> Result<u64> {
    let counts = statistics.lines().filter_map(|line| line.trim().strip_prefix("tx pkts=")?.split(',').next());
    counts.map(|count| count.parse::<u64>().with_context(|| format!("tx pkts={count}"))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_sent_are_added_over_ports() {
        let printed = "OFPST_PORT reply (xid=0x2): 3 ports\n  port LOCAL: rx pkts=9, bytes=0, drop=0\n           \
                       tx pkts=0, bytes=0, drop=0\n  port  p0: rx pkts=77, bytes=0\n           tx pkts=40, bytes=0\n  \
                       port  p1: rx pkts=78, bytes=0\n           tx pkts=2, bytes=0\n";
        assert_eq!(sent(printed).unwrap(), 42);
        assert!(sent("tx pkts=many, bytes=0").is_err());
    }
}
