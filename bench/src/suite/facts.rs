//! Facts for the head of a record: the machine, its software, and the time that the hypervisor stole.

use std::fs;

use serde::Serialize;

use super::peers::first_line;

/// Name and value.
pub type Fact = (&'static str, String);

/// Instructions that the hot loops have forms for, or DPDK's drivers.
const INSTRUCTIONS: [&str; 10] =
    ["sse4_2", "pclmulqdq", "avx", "avx2", "bmi2", "avx512f", "avx512bw", "avx512vl", "gfni", "vpclmulqdq"];
const OVS: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// Facts that stay the same while the suite runs.
pub fn facts() -> Vec<Fact> {
    let cpuinfo = read("/proc/cpuinfo");
    let unknown = || "?".to_owned();
    let huge = format!(
        "{} of {} kB",
        meminfo("HugePages_Total").unwrap_or_else(unknown),
        meminfo("Hugepagesize").unwrap_or_else(unknown)
    );
    let mut facts = vec![
        ("CPU", cpu(&cpuinfo)),
        ("instructions", instructions(&cpuinfo)),
        ("caches", caches()),
        ("memory", meminfo("MemTotal").map_or_else(unknown, |kib| format!("{kib} kB"))),
        ("huge pages", huge),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("system", system(&read("/etc/os-release"))),
        ("DPDK", weir::dpdk::Eal::version().trim_start_matches("DPDK ").to_owned()),
        ("compiler", first_line(&["rustc", "--version"]).unwrap_or_else(unknown)),
        ("commit", commit()),
    ];
    if let Some(version) = first_line(&[OVS, "--version"]) {
        facts.push(("OVS", version));
    }
    if cfg!(debug_assertions) {
        facts.push(("build", "not optimised: these numbers say nothing".into()));
    }
    facts
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn meminfo(key: &str) -> Option<String> {
    let text = read("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next().map(str::to_owned)
}

fn field<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn cpu(cpuinfo: &str) -> String {
    let model = field(cpuinfo, "model name").unwrap_or("?");
    let count = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let number = |key| field(cpuinfo, key).unwrap_or("?");
    let (family, modelled, mhz) = (number("cpu family"), number("model"), number("cpu MHz"));
    let guest = field(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let guest = if guest { ", virtual" } else { "" };
    format!("{model} (family {family}, model {modelled}, {mhz} MHz), {count} CPUs{guest}")
}

fn instructions(cpuinfo: &str) -> String {
    let flags: Vec<_> = field(cpuinfo, "flags").unwrap_or_default().split(' ').collect();
    let there: Vec<_> = INSTRUCTIONS.into_iter().filter(|name| flags.contains(name)).collect();
    if there.is_empty() { "none of those looked for".into() } else { there.join(" ") }
}

/// Of the first CPU.
fn caches() -> String {
    let cache = |index: usize| {
        let file =
            |name: &str| read(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}")).trim().to_owned();
        let (level, kind, size) = (file("level"), file("type"), file("size"));
        (!size.is_empty() && kind != "Instruction").then(|| format!("L{level} {size}"))
    };
    let all: Vec<_> = (0..5).filter_map(cache).collect();
    if all.is_empty() { "?".into() } else { all.join(", ") }
}

fn system(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("?".into(), |name| name.trim_matches('"').to_owned())
}

fn commit() -> String {
    let git = |words: &[&str]| first_line(&[&["git", "-C", env!("CARGO_MANIFEST_DIR")][..], words].concat());
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "?".into() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some();
    if changed { format!("{commit}, with changes") } else { commit }
}

/// Today, in UTC.
pub fn date() -> String {
    first_line(&["date", "-u", "+%F"]).unwrap_or_else(|| "undated".into())
}

/// Time of all CPUs, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuTime {
    total: u64,
    /// Given to other virtual machines while something here wanted to run.
    stolen: u64,
}

impl CpuTime {
    pub fn now() -> Self {
        Self::read(&read("/proc/stat"))
    }

    fn read(stat: &str) -> Self {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        // user, nice, system, idle, iowait, irq, softirq, steal; those behind are in the first two.
        let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|ticks| ticks.parse().ok()).collect();
        Self { total: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
    }

    /// The share that was stolen since then.
    pub fn stolen_since(self, before: Self) -> f64 {
        // The kernel's counts of stolen time may go back a little.
        self.stolen.saturating_sub(before.stolen) as f64 / self.total.saturating_sub(before.total).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "processor\t: 0\nmodel name\t: Any CPU @ 2 GHz\ncpu family\t: 25\nmodel\t\t: 17\ncpu MHz\t\t: 2596.14\n\
                           flags\t\t: fpu sse4_2 avx2 avx512vl_not hypervisor\n\nprocessor\t: 1\nmodel name\t: Any CPU @ 2 GHz\n";

    #[test]
    fn the_cpu_is_read_as_the_kernel_writes_it() {
        assert_eq!(cpu(CPUINFO), "Any CPU @ 2 GHz (family 25, model 17, 2596.14 MHz), 2 CPUs, virtual");
        assert_eq!(instructions(CPUINFO), "sse4_2 avx2");
        assert_eq!(system("ID=debian\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let before = CpuTime::read("cpu  10 0 10 70 0 0 0 10 5 5\ncpu0 1 1\n");
        let after = CpuTime::read("cpu  60 0 10 90 0 0 0 40 5 5\n");
        assert_eq!(before, CpuTime { total: 100, stolen: 10 });
        assert!((after.stolen_since(before) - 0.3).abs() < 1e-9);
        assert_eq!(after.stolen_since(after), 0.0);
    }

    #[test]
    fn this_machine_has_its_facts() {
        let facts = facts();
        for name in ["CPU", "instructions", "kernel", "DPDK", "commit"] {
            let fact = facts.iter().find(|fact| fact.0 == name).unwrap_or_else(|| panic!("no {name}"));
            assert!(!fact.1.is_empty(), "{name}");
        }
    }
}
