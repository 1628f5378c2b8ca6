//! Settings of a machine that is tuned for packets, beyond the bare needs: isolated cores, locked
//! memory, AF_XDP, vhost.

use std::fs;

use super::Check;
use super::checks::{NET_ADMIN, has_capability};
use super::machine::{Access, Machine, access};
use crate::cpus::usable_cpus;

/// Bits in a capability set.
const IPC_LOCK: u32 = 14;
const SYS_ADMIN: u32 = 21;
const BPF: u32 = 39;
/// Memory that a few AF_XDP or vfio ports lock.
const LOCKED_MIB: u64 = 256;
/// Minimum CPUs for setting some aside.
const WORTH_ISOLATING: usize = 4;

/// Texts of files that are not there are empty.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// /proc/self/limits.
    pub limits: String,
    /// /proc/net/protocols.
    pub protocols: String,
    /// The CPUs that the scheduler leaves alone, those of them that workers of this process can be
    /// pinned to, and those without a tick.
    pub isolated: String,
    pub usable_isolated: Vec<usize>,
    pub nohz_full: String,
    /// Threads of one core with the default worker's CPU, it included.
    pub siblings: String,
    pub vhost_net: Access,
}

impl Host {
    /// `worker`: the CPU that `weir run` takes by default.
    pub fn probe(worker: Option<usize>) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let topology = |cpu| read(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        let isolated = read("/sys/devices/system/cpu/isolated");
        Self {
            limits: read("/proc/self/limits"),
            protocols: read("/proc/net/protocols"),
            usable_isolated: usable_cpus(cpus(&isolated)),
            isolated,
            nohz_full: read("/sys/devices/system/cpu/nohz_full"),
            siblings: worker.map(topology).unwrap_or_default(),
            vhost_net: access("/dev/vhost-net".as_ref()),
        }
    }
}

pub fn all(machine: &Machine) -> Vec<Check> {
    vec![isolation(machine), siblings(machine), locked_memory(machine), af_xdp(machine), vhost_net(machine)]
}

/// The CPUs that a list such as `0-3,8` names.
pub fn cpus(list: &str) -> Vec<usize> {
    let span = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse::<usize>().ok()?..=to.trim().parse().ok()?)
    };
    list.split(',').filter_map(span).flatten().collect()
}

/// The CPUs that this process may use.
pub fn allowed(machine: &Machine) -> Vec<usize> {
    let list = machine.status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cpus(list.unwrap_or("0").trim())
}

fn isolation(machine: &Machine) -> Check {
    let Host { isolated, usable_isolated, nohz_full, .. } = &machine.host;
    let allowed = allowed(machine);
    if !cpus(isolated).is_empty() {
        let ticks = if nohz_full.contains(|c: char| c.is_ascii_digit()) { nohz_full.as_str() } else { "none" };
        let found = format!("isolcpus={isolated}, nohz_full={ticks}");
        if usable_isolated.is_empty() {
            return Check::warn("isolation", format!("{found}: none of them is in this process's cpuset"))
                .mend(format!("no command can: give the container or service CPUs of {isolated}"));
        }
        let usable = usable_isolated.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        return Check::ok("isolation", format!("{found}: weir run --core N, of {usable}"));
    }
    if allowed.len() < WORTH_ISOLATING {
        return Check::ok("isolation", format!("none isolated; with {} CPUs there is none to spare", allowed.len()));
    }
    let last = allowed[allowed.len() - 2..].iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let words = format!("isolcpus={last} nohz_full={last} rcu_nocbs={last}");
    Check::warn("isolation", "no core is kept free of other work").mend(format!(
        "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{words} /' /etc/default/grub && sudo update-grub, then boot anew"
    ))
}

fn siblings(machine: &Machine) -> Check {
    let Some(&worker) = allowed(machine).last() else { return Check::ok("hyperthreads", "unknown") };
    let others: Vec<_> = cpus(&machine.host.siblings).into_iter().filter(|&cpu| cpu != worker).collect();
    match others.first() {
        None => Check::ok("hyperthreads", format!("CPU {worker} shares its core with no other")),
        Some(other) => {
            Check::warn("hyperthreads", format!("CPU {worker}, the default worker's, shares its core with {other}"))
                .mend(format!("echo 0 | sudo tee /sys/devices/system/cpu/cpu{other}/online"))
        }
    }
}

fn locked_memory(machine: &Machine) -> Check {
    let line = machine.host.limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let soft = line.and_then(|line| line.split_ascii_whitespace().next()).unwrap_or("unknown");
    match soft.parse::<u64>().map(|bytes| bytes >> 20) {
        _ if has_capability(machine, IPC_LOCK) => Check::ok("memlock", "any amount, by CAP_IPC_LOCK"),
        Ok(mib) if mib < LOCKED_MIB => Check::warn("memlock", format!("at most {mib} MiB may be locked"))
            .mend("sudo prlimit --memlock=unlimited --pid $$"),
        Ok(mib) => Check::ok("memlock", format!("{mib} MiB")),
        Err(_) => Check::ok("memlock", soft),
    }
}

fn af_xdp(machine: &Machine) -> Check {
    let known = machine.host.protocols.lines().any(|line| line.split_ascii_whitespace().next() == Some("XDP"));
    if !known {
        let mend = "no command can: use a kernel with CONFIG_XDP_SOCKETS (Debian's and Ubuntu's have it)";
        return Check::warn("af-xdp", "this kernel has no AF_XDP sockets").mend(mend);
    }
    let may_load = has_capability(machine, BPF) || has_capability(machine, SYS_ADMIN);
    if may_load && has_capability(machine, NET_ADMIN) {
        return Check::ok("af-xdp", "AF_XDP sockets, and the right to load their program");
    }
    let mend = format!("sudo setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock=ep {}", machine.program);
    Check::warn("af-xdp", "no right to load the program that AF_XDP needs (CAP_BPF, CAP_NET_ADMIN)").mend(mend)
}

fn vhost_net(machine: &Machine) -> Check {
    match machine.host.vhost_net {
        Access::Granted => Check::ok("vhost-net", "/dev/vhost-net opens"),
        Access::Denied => {
            Check::warn("vhost-net", "/dev/vhost-net may not be opened").mend("sudo chmod 0666 /dev/vhost-net")
        }
        Access::Absent => Check::warn("vhost-net", "no /dev/vhost-net").mend("sudo modprobe vhost_net"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Status;

    fn machine(host: Host) -> Machine {
        let status = "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-3,8\n".into();
        Machine { host, status, program: "/usr/bin/weir".into(), ..Machine::default() }
    }

    fn mend(check: Check) -> String {
        assert_eq!(check.status, Status::Warn, "{check:?}");
        check.mend.expect("says how to mend it")
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpus("0-2,8"), [0, 1, 2, 8]);
        for none in ["", "(null)", "-", "x-3"] {
            assert!(cpus(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn cores_are_isolated_where_there_are_enough() {
        let bare = machine(Host::default());
        assert!(mend(isolation(&bare)).contains("&isolcpus=3,8 nohz_full=3,8 rcu_nocbs=3,8 /"));
        let set = |usable: &[usize]| {
            let usable_isolated = usable.into();
            let host =
                Host { isolated: "3,8-9".into(), usable_isolated, nohz_full: "(null)".into(), ..Host::default() };
            isolation(&machine(host))
        };
        assert_eq!(set(&[3, 8]).found, "isolcpus=3,8-9, nohz_full=none: weir run --core N, of 3,8");
        assert_eq!(mend(set(&[])), "no command can: give the container or service CPUs of 3,8-9");
        let small = Machine { status: "Cpus_allowed_list:\t0-1\n".into(), ..bare };
        assert_eq!(isolation(&small).status, Status::Ok);
    }

    #[test]
    fn a_sibling_of_the_workers_cpu_is_named() {
        let with = |siblings: &str| siblings_of(siblings);
        fn siblings_of(siblings: &str) -> Check {
            super::siblings(&machine(Host { siblings: siblings.into(), ..Host::default() }))
        }
        assert_eq!(mend(with("3,8")), "echo 0 | sudo tee /sys/devices/system/cpu/cpu3/online");
        assert_eq!(with("8").status, Status::Ok);
        assert_eq!(with("").status, Status::Ok);
    }

    #[test]
    fn locked_memory_is_read_from_the_limits() {
        let with = |soft: &str| {
            let limits =
                format!("Max open files  1024  4096  files\nMax locked memory         {soft}  8388608  bytes\n");
            locked_memory(&machine(Host { limits, ..Host::default() }))
        };
        assert_eq!(mend(with("8388608")), "sudo prlimit --memlock=unlimited --pid $$");
        assert_eq!(with("unlimited").status, Status::Ok);
        assert_eq!(with("1073741824").found, "1024 MiB");
        let lock = Machine { status: "CapEff:\t0000000000004000\n".into(), ..machine(Host::default()) };
        assert_eq!(locked_memory(&lock).found, "any amount, by CAP_IPC_LOCK");
    }

    #[test]
    fn af_xdp_needs_a_kernel_and_rights() {
        assert!(mend(af_xdp(&machine(Host::default()))).contains("CONFIG_XDP_SOCKETS"));
        let kernel = machine(Host { protocols: "protocol  size\nXDP       1024\n".into(), ..Host::default() });
        assert!(mend(af_xdp(&kernel)).starts_with("sudo setcap"));
        // CAP_BPF and CAP_NET_ADMIN.
        let rights = Machine { status: "CapEff:\t0000008000001000\n".into(), ..kernel };
        assert_eq!(af_xdp(&rights).status, Status::Ok);
    }
}
