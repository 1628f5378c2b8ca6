//! What this machine has to compare with, and what it lacks.

use std::path::Path;
use std::process::{Command, Stdio};

use super::case::{Case, Contender, Group};
use super::native;
use crate::throughput::{ovs, testpmd};

/// What decides which cases run.
#[derive(Clone, Debug)]
pub struct Machine {
    /// There are enough free huge pages.
    pub huge_pages: bool,
    pub cpus: usize,
    pub root: bool,
    pub testpmd: bool,
    pub ovs: bool,
    /// A C compiler and DPDK's headers, for the loop around librte_member and SWX.
    pub native: bool,
}

/// Memory that OVS, testpmd or weir beside a generator take, in huge pages of 2 MB.
const ENOUGH_MIB: u64 = 1000;

impl Machine {
    /// Looks what there is.
    pub fn look() -> Self {
        Self {
            huge_pages: ovs::free_huge_mib() >= ENOUGH_MIB,
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            root: is_root(),
            testpmd: testpmd::is_installed(),
            ovs: ovs::is_installed(),
            native: native::can_build(),
        }
    }

    /// One that has everything.
    #[cfg(test)]
    pub fn complete() -> Self {
        Self { huge_pages: true, cpus: 2, root: true, testpmd: true, ovs: true, native: true }
    }

    pub fn can(&self, case: &Case) -> bool {
        let peer = match &case.contender {
            Contender::Testpmd(_) => self.testpmd,
            // It passes --in-memory to the EAL, which excludes running without huge pages.
            Contender::Ovs => self.ovs && case.setting.huge_pages,
            Contender::Member(_) | Contender::Swx => self.native,
            Contender::Weir(_) | Contender::WeirBusy | Contender::WeirSwap | Contender::Bridge => true,
        };
        // The switch has one core and the generator another.
        let cores = !matches!(case.group, Group::Load | Group::Start) || self.cpus > 1;
        let root = !case.setting.port.is_of_the_kernel() || self.root;
        peer && cores && root
    }

    /// What is left out, each with the reason.
    pub fn missing(&self) -> Vec<String> {
        let bmv2 = match has("simple_switch") {
            true => "BMv2: installed, but not measured; the suite has no program for it",
            false => "BMv2 (simple_switch): not installed; Debian does not have it",
        };
        let words = [
            (self.huge_pages, "huge pages: fewer than 1000 MB are free (echo 768 > /proc/sys/vm/nr_hugepages)"),
            (self.cpus > 1, "two cores, and load from outside: this machine has one CPU"),
            (self.root, "veth and tap ports, start-up: not root"),
            (self.testpmd, "testpmd: not installed (apt-get install dpdk-dev)"),
            (self.ovs, "OVS-DPDK: not installed (apt-get install openvswitch-switch-dpdk)"),
            (!self.ovs || self.huge_pages, "OVS-DPDK: it does not run without huge pages"),
            (self.native, "librte_member, SWX pipeline: no C compiler, or no libdpdk-dev"),
            (false, bmv2),
        ];
        words.into_iter().filter(|(there, _)| !there).map(|(_, words)| words.to_owned()).collect()
    }
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

/// Whether a program is on the PATH.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| Path::new(&dir).join(program).is_file())
}

/// The first line that a program prints.
pub fn first_line(words: &[&str]) -> Option<String> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    text.lines().next().map(str::to_owned)
}
