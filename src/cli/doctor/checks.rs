//! The checks, each a function of what was found on the machine.

use super::Check;
#[cfg(feature = "control")]
use super::cgroup::Limits;
use super::machine::{Access, Machine, Nic, RESTRICTIONS, UNSAFE_VFIO};

/// Memory for the packet buffers of a switch with a few ports, in MiB.
const BUFFERS_MIB: u64 = 256;
/// Bits in a capability set.
pub const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;

pub fn all(machine: &Machine) -> Vec<Check> {
    let mut checks = vec![
        dpdk(machine),
        cpu(machine),
        hash_unit(machine),
        memory(machine),
        cores(machine),
        huge_pages(machine),
        tun(machine),
        capability(machine, "net-admin", NET_ADMIN),
        capability(machine, "net-raw", NET_RAW),
        user_namespaces(machine),
    ];
    checks.extend(super::host::all(machine));
    checks.push(interfaces(machine));
    checks.extend(pci(machine));
    checks.push(tools(machine));
    checks.push(sockets(machine));
    checks
}

fn dpdk(machine: &Machine) -> Check {
    match &machine.dpdk {
        Some(version) => Check::ok("dpdk", version.clone()),
        None => Check::warn("dpdk", "built without: demo, replay and budget work, run does not").mend("make build"),
    }
}

fn cpu(machine: &Machine) -> Check {
    if machine.architecture != "x86_64" {
        return Check::ok("cpu", machine.architecture);
    }
    let check = if has_flag(machine, "sse4_2") {
        Check::ok("cpu", "x86_64 with SSE4.2")
    } else {
        let mend = "no command can: use a newer CPU, or cargo build --release --no-default-features --features control";
        Check::missing("cpu", "x86_64 without SSE4.2").mend(mend)
    };
    if machine.dpdk.is_some() { check.vital() } else { check }
}

fn hash_unit(machine: &Machine) -> Check {
    if ["gfni", "vpclmulqdq", "avx512f", "avx512bw", "avx512vbmi"].iter().all(|flag| has_flag(machine, flag)) {
        Check::ok("hash-unit", "GFNI and AVX-512")
    } else if has_flag(machine, "pclmulqdq") {
        Check::ok("hash-unit", "tables and PCLMULQDQ (no GFNI with AVX-512, which is faster)")
    } else {
        Check::ok("hash-unit", "tables (no GFNI with AVX-512, which is faster)")
    }
}

fn has_flag(machine: &Machine, flag: &str) -> bool {
    let flags = machine.cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_ascii_whitespace().any(|word| word == flag))
}

/// How the limits of a control group are raised.
const MORE: &str = "give the container or service (docker run --memory, --cpus; systemd MemoryMax, CPUQuota)";

/// Bytes of memory that this process may still take: of the machine, or of the tightest control group.
#[cfg(feature = "control")]
pub fn available_memory(meminfo: &str, limits: &Limits) -> Option<u64> {
    let machine = field(meminfo, "MemAvailable").map(|kib| kib * 1024);
    machine.into_iter().chain(limits.memory.map(|group| group.available)).min()
}

fn memory(machine: &Machine) -> Check {
    let Some(available) = field(&machine.meminfo, "MemAvailable") else {
        return Check::warn("memory", "unknown: no /proc/meminfo").mend("mount -t proc proc /proc");
    };
    let group = machine.limits.memory.filter(|group| group.available / 1024 < available);
    let (mib, of) = match group {
        Some(group) => (group.available >> 20, format!(" of the {} MiB of the control group", group.limit >> 20)),
        None => (available / 1024, String::new()),
    };
    let check = if mib >= 2 * BUFFERS_MIB {
        Check::ok("memory", format!("{mib} MiB available{of}"))
    } else {
        let mend = match group {
            Some(_) => format!("no command can: {MORE}, {} MiB of memory or more", 2 * BUFFERS_MIB),
            None => format!("no command can: free memory until {} MiB are available", 2 * BUFFERS_MIB),
        };
        Check::missing("memory", format!("only {mib} MiB available{of}")).mend(mend)
    };
    check.vital()
}

/// The number at the start of a line's value, as in /proc/meminfo.
fn field(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

fn cores(machine: &Machine) -> Check {
    let mut usable = super::host::allowed(machine);
    // They are in no affinity mask, and workers can be pinned to them.
    usable.extend(&machine.host.usable_isolated);
    usable.sort_unstable();
    usable.dedup();
    let count = usable.len();
    // Workers poll all the time, and the switch's other threads need some time beside them.
    let throttled = machine.limits.cpus.filter(|cpus| *cpus < count as f64);
    if let Some(cpus) = throttled.filter(|cpus| *cpus <= 1.0) {
        let found = format!("{count}, and time of {cpus:.2} by the control group: it stops a worker that polls");
        return Check::warn("cores", found).mend(format!("no command can: {MORE} more than one CPU"));
    }
    let slow = machine.governors.iter().find(|governor| matches!(governor.as_str(), "powersave" | "conservative"));
    if let Some(governor) = slow {
        let mend = "echo performance | sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor";
        return Check::warn("cores", format!("{count}, with the frequency governor {governor}")).mend(mend);
    }
    if count < 2 {
        return Check::warn("cores", format!("{count}: the worker shares it with everything else"))
            .mend("no command can: give the machine a second core");
    }
    match throttled {
        Some(cpus) => {
            let workers = cpus.ceil() - 1.0;
            Check::ok(
                "cores",
                format!("{count}, and time of {cpus:.2} by the control group: workers: {workers} at most"),
            )
        }
        None => Check::ok("cores", count.to_string()),
    }
}

fn huge_pages(machine: &Machine) -> Check {
    let of = |key| field(&machine.meminfo, key).unwrap_or(0);
    let (total, free, kib) = (of("HugePages_Total"), of("HugePages_Free"), of("Hugepagesize"));
    if kib == 0 {
        return Check::warn("huge-pages", "this kernel has none").mend("no command can: use a kernel with hugetlb");
    }
    let found = format!("{free} free of {total}, {} MiB each", kib / 1024);
    if free * kib / 1024 >= BUFFERS_MIB {
        return Check::ok("huge-pages", found);
    }
    // As many again as are taken, and never fewer than there are.
    let wanted = total - free.min(total) + (BUFFERS_MIB * 1024).div_ceil(kib);
    Check::warn("huge-pages", found).mend(format!("sudo sysctl vm.nr_hugepages={}", wanted.max(total)))
}

fn tun(machine: &Machine) -> Check {
    match machine.tun {
        Access::Granted => Check::ok("tun", "/dev/net/tun opens"),
        Access::Denied => Check::missing("tun", "/dev/net/tun may not be opened").mend("sudo chmod 0666 /dev/net/tun"),
        Access::Absent => Check::missing("tun", "no /dev/net/tun").mend("sudo modprobe tun"),
    }
}

fn capability(machine: &Machine, name: &'static str, bit: u32) -> Check {
    if has_capability(machine, bit) {
        return Check::ok(name, "granted");
    }
    let mend = format!("sudo setcap cap_net_admin,cap_net_raw=ep {}", machine.program);
    let found = "not granted (nor needed inside `unshare -rn`, on interfaces made there)";
    Check::missing(name, found).mend(mend)
}

pub fn has_capability(machine: &Machine, bit: u32) -> bool {
    let line = machine.status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    effective >> bit & 1 == 1
}

fn user_namespaces(machine: &Machine) -> Check {
    if machine.user_namespaces {
        return Check::ok("user-namespaces", "allowed");
    }
    if has_capability(machine, NET_ADMIN) && has_capability(machine, NET_RAW) {
        return Check::ok("user-namespaces", "not allowed, and not needed either");
    }
    let forbids = |(name, forbidding): &(&str, &str)| {
        machine.restrictions.iter().any(|(setting, value)| setting == name && value == forbidding)
    };
    let mend = match RESTRICTIONS.iter().find(|restriction| forbids(restriction)) {
        Some(("user.max_user_namespaces", _)) => "sudo sysctl user.max_user_namespaces=10000".to_owned(),
        Some((name, forbidding)) => format!("sudo sysctl {name}={}", if *forbidding == "1" { 0 } else { 1 }),
        None => "no command can: this container or kernel forbids them; run as root".to_owned(),
    };
    Check::warn("user-namespaces", "not allowed").mend(mend)
}

/// As ports of weir's they would be forwarded twice.
fn interfaces(machine: &Machine) -> Check {
    let named = |(interface, master): &(String, String)| format!("{interface} ({master})");
    let some: Vec<_> = machine.enslaved.iter().take(8).map(named).collect();
    let found = match machine.enslaved.len() {
        0 => "none is a port of a bridge or bond".to_owned(),
        n if n > some.len() => {
            format!("ports of bridges or bonds, which are no ports for weir: {}, …", some.join(", "))
        }
        _ => format!("ports of bridges or bonds, which are no ports for weir: {}", some.join(", ")),
    };
    Check::ok("interfaces", found)
}

/// One line for the IOMMU where it matters, and one for each network device.
fn pci(machine: &Machine) -> Vec<Check> {
    if machine.nics.is_empty() {
        return vec![Check::ok("pci", "no network devices on the PCI bus")];
    }
    let mut checks: Vec<_> = machine.nics.iter().map(|nic| nic_check(machine, nic)).collect();
    // Without a device to give away an IOMMU is of no use, and says nothing of weir.
    let any = checks.iter().zip(&machine.nics).any(|(check, nic)| check.mend.is_some() || is_taken(nic));
    if any && machine.iommu_groups == 0 {
        let mend = "boot with intel_iommu=on (or amd_iommu=on) iommu=pt, and VT-d (or AMD-Vi) on in the \
                    firmware; without one the commands above bind cards that can reach all memory";
        checks.push(Check::warn("iommu", "none").mend(mend));
    }
    checks
}

fn is_taken(nic: &Nic) -> bool {
    matches!(nic.driver.as_deref(), Some("vfio-pci" | "uio_pci_generic" | "igb_uio"))
}

/// Suggests only devices that nothing uses: taking a NIC from the kernel cuts the connections that
/// go through it.
fn nic_check(machine: &Machine, nic: &Nic) -> Check {
    let driver = nic.driver.as_deref().unwrap_or("no driver");
    let address = &nic.address;
    if is_taken(nic) {
        return Check::ok("pci", format!("{address} ({driver}): ready, --port NAME=pci:{address}"));
    }
    let interfaces = nic.interfaces.join(", ");
    if nic.interfaces.iter().any(|interface| has_route(machine, interface)) {
        return Check::ok("pci", format!("{address} ({driver}) is {interfaces} and carries routes: leave it"));
    }
    if nic.interfaces.iter().any(|interface| has_address(machine, interface)) {
        return Check::ok("pci", format!("{address} ({driver}) is {interfaces} and has an address: leave it"));
    }
    if nic.busy {
        return Check::ok("pci", format!("{address} ({driver}) is {interfaces} and in use: leave it"));
    }
    let found = match nic.interfaces.is_empty() {
        true => format!("{address} ({driver}) is free"),
        false => format!("{address} ({driver}) is {interfaces} and unused"),
    };
    let (driver, command) = binding(machine, address);
    Check::warn("pci", format!("{found}; bound to {driver} it could be a port")).mend(command)
}

/// The driver that hands a card to weir on this machine, and the command. Without an IOMMU vfio-pci
/// takes cards in its unsafe mode alone, which Debian's kernels lack: binding to it would leave the
/// card without any driver.
fn binding(machine: &Machine, address: &str) -> (&'static str, String) {
    let (driver, before) = match (machine.iommu_groups > 0, machine.unsafe_vfio) {
        (true, _) => ("vfio-pci", String::new()),
        (false, true) => ("vfio-pci", format!("echo 1 | sudo tee {UNSAFE_VFIO} && ")),
        (false, false) => ("uio_pci_generic", String::new()),
    };
    (driver, format!("sudo modprobe {driver} && {before}sudo dpdk-devbind.py --bind={driver} {address}"))
}

/// Any route counts, save IPv6's own for link-local and multicast addresses.
fn has_route(machine: &Machine, interface: &str) -> bool {
    let v4 = machine.routes.lines().skip(1).any(|line| line.split_ascii_whitespace().next() == Some(interface));
    let v6 = machine.routes6.lines().any(|line| {
        let local = ["fe80", "ff00"].iter().any(|prefix| line.starts_with(prefix));
        !local && line.split_ascii_whitespace().last() == Some(interface)
    });
    v4 || v6
}

/// Any address counts, save those that the kernel gives by itself.
fn has_address(machine: &Machine, interface: &str) -> bool {
    machine.addresses.lines().any(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        words.get(1) == Some(&interface) && !words.windows(2).any(|pair| pair == ["scope", "link"])
    })
}

fn tools(machine: &Machine) -> Check {
    let absent: Vec<_> = machine.tools.iter().filter(|(_, there)| !there).map(|(tool, _)| *tool).collect();
    if absent.is_empty() {
        let names: Vec<_> = machine.tools.iter().map(|(tool, _)| tool.name).collect();
        return Check::ok("tools", names.join(", "));
    }
    let list = |of: fn(&super::machine::Tool) -> &'static str| absent.iter().map(of).collect::<Vec<_>>().join(" ");
    let mend = format!("sudo apt-get install --no-install-recommends {}", list(|tool| tool.package));
    Check::warn("tools", format!("not on the PATH: {}", list(|tool| tool.name))).mend(mend)
}

fn sockets(machine: &Machine) -> Check {
    let directory = machine.sockets.display();
    match &machine.sockets_error {
        None => Check::ok("control-sockets", format!("{directory} can be written")),
        Some(error) => Check::missing("control-sockets", format!("{directory}: {error}"))
            .mend(format!("sudo install -d -m 0700 -o \"$USER\" {directory}")),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
