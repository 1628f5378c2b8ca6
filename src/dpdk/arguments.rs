//! The command line that EAL is started with, made from what weir needs and what the machine has.

use std::{fs, path::Path};

/// Options for EAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EalOptions {
    /// Memory for packet buffers and queues.
    pub memory_mib: u32,
    pub huge_pages: HugePages,
    /// Other processes map the packet buffers, as the host's end of a virtio-user port does.
    pub shared_memory: bool,
    /// PCI addresses of the ports to be used; empty leaves the PCI bus alone.
    pub pci: Vec<String>,
    /// Name that keeps several processes apart; by default made from the process id.
    pub file_prefix: Option<String>,
    /// The user's own arguments, passed on as they are. They replace weir's for the same option.
    pub extra: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// When enough of them are free.
    #[default]
    Auto,
    Never,
}

impl Default for EalOptions {
    fn default() -> Self {
        Self {
            memory_mib: 256,
            huge_pages: HugePages::Auto,
            shared_memory: false,
            pci: Vec::new(),
            file_prefix: None,
            extra: Vec::new(),
        }
    }
}

/// The machine's properties that the arguments depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Machine {
    pub free_huge_mib: u64,
    /// CPUs that this process may run on.
    pub cpus: Vec<usize>,
    pub process: u32,
}

impl Machine {
    pub fn this() -> Self {
        let cpus = core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
        Self { free_huge_mib: free_huge_mib(Path::new("/sys/kernel/mm/hugepages")), cpus, process: std::process::id() }
    }
}

/// Free huge pages of all sizes. A directory `hugepages-2048kB` holds the counts of one size.
fn free_huge_mib(sizes: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(sizes) else { return 0 };
    let kib = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let size: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let free: u64 = fs::read_to_string(entry.path().join("free_hugepages")).ok()?.trim().parse().ok()?;
        Some(size * free)
    });
    kib.sum::<u64>() / 1024
}

/// The argument vector, program name first.
pub(super) fn arguments(options: &EalOptions, machine: &Machine) -> Vec<String> {
    let says = |flags: &[&str]| mentions(&options.extra, flags);
    let mut out = vec!["weir".to_owned()];
    // One lcore that floats over all our CPUs: EAL pins it, and the workers are threads that we pin
    // and register.
    if !says(&["-l", "-c", "--lcores"]) && !machine.cpus.is_empty() {
        let cpus: Vec<_> = machine.cpus.iter().map(usize::to_string).collect();
        out.extend(["--lcores".to_owned(), format!("0@({})", cpus.join(","))]);
    }
    if !says(&["--file-prefix"]) {
        let prefix = options.file_prefix.clone().unwrap_or_else(|| format!("weir-{}", machine.process));
        out.extend(["--file-prefix".to_owned(), prefix]);
    }
    memory(options, machine, &mut out);
    if !says(&["--telemetry", "--no-telemetry"]) {
        out.push("--no-telemetry".to_owned());
    }
    for address in &options.pci {
        out.extend(["-a".to_owned(), address.clone()]);
    }
    if options.pci.is_empty() && !says(&["-a", "--allow", "-b", "--block", "--no-pci"]) {
        out.push("--no-pci".to_owned());
    }
    out.extend(options.extra.iter().cloned());
    out
}

/// `--in-memory` takes huge pages without a mounted hugetlbfs and leaves no files; but with
/// `--no-huge` it fails, and says so of something else, hence never both.
fn memory(options: &EalOptions, machine: &Machine, out: &mut Vec<String>) {
    let says = |flags: &[&str]| mentions(&options.extra, flags);
    if says(&["--in-memory", "--huge-dir", "--huge-unlink", "--legacy-mem", "--socket-mem", "--proc-type"]) {
        return;
    }
    let enough = machine.free_huge_mib >= u64::from(options.memory_mib);
    if options.huge_pages == HugePages::Auto && enough && !says(&["--no-huge"]) {
        out.push("--in-memory".to_owned());
        // Physical addresses take rights that are given up after the start, and a port that comes
        // later needs memory. Only devices on a bus ask for them.
        if options.pci.is_empty() && !says(&["--iova-mode", "-a", "--allow", "-b", "--block"]) {
            out.extend(["--iova-mode".to_owned(), "va".to_owned()]);
        }
        // The vhost-user protocol names at most eight pieces of memory; each huge page of its own
        // would be one.
        if options.shared_memory && !says(&["--single-file-segments"]) {
            out.push("--single-file-segments".to_owned());
        }
        return;
    }
    out.push("--no-shconf".to_owned());
    if !says(&["--no-huge"]) {
        out.push("--no-huge".to_owned());
    }
    if !says(&["-m"]) {
        out.extend(["-m".to_owned(), options.memory_mib.to_string()]);
    }
}

/// Whether the arguments hold one of the flags, as `--flag`, `--flag=value`, `-f` or `-fvalue`.
fn mentions(arguments: &[String], flags: &[&str]) -> bool {
    arguments.iter().any(|argument| {
        flags.iter().any(|flag| match argument.strip_prefix(flag) {
            None => false,
            Some(rest) => rest.is_empty() || rest.starts_with('=') || (!flag.starts_with("--") && !rest.is_empty()),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(free_huge_mib: u64) -> Machine {
        Machine { free_huge_mib, cpus: vec![0, 3], process: 7 }
    }

    fn line(options: &EalOptions, free_huge_mib: u64) -> String {
        arguments(options, &machine(free_huge_mib)).join(" ")
    }

    #[test]
    fn without_huge_pages_a_plain_user_can_run_it() {
        assert_eq!(
            line(&EalOptions::default(), 0),
            "weir --lcores 0@(0,3) --file-prefix weir-7 --no-shconf --no-huge -m 256 --no-telemetry --no-pci"
        );
    }

    #[test]
    fn huge_pages_are_taken_when_there_are_enough() {
        let with = "weir --lcores 0@(0,3) --file-prefix weir-7 --in-memory --iova-mode va --no-telemetry --no-pci";
        assert_eq!(line(&EalOptions::default(), 256), with);
        assert!(line(&EalOptions::default(), 255).contains("--no-huge"));
        let never = EalOptions { huge_pages: HugePages::Never, ..Default::default() };
        assert!(line(&never, 1024).contains("--no-huge"));
    }

    #[test]
    fn memory_that_others_map_is_one_file() {
        let shared = EalOptions { shared_memory: true, ..Default::default() };
        assert!(line(&shared, 256).contains("--in-memory --iova-mode va --single-file-segments"));
        // Without huge pages all memory is one file anyway.
        assert!(!line(&shared, 0).contains("--single-file-segments"));
    }

    #[test]
    fn no_huge_and_in_memory_never_meet() {
        for extra in ["--no-huge", "--in-memory", "--huge-dir=/mnt"] {
            for free in [0, 1024] {
                let options = EalOptions { extra: vec![extra.to_owned()], ..Default::default() };
                let line = line(&options, free);
                assert!(!(line.contains("--no-huge") && line.contains("--in-memory")), "{line}");
                assert_eq!(line.matches(extra).count(), 1, "{line}");
            }
        }
    }

    #[test]
    fn the_users_own_arguments_win() {
        let extra = ["-l0", "--file-prefix=mine", "-m", "64", "--allow=0000:00:03.0", "--log-level=8"];
        let options = EalOptions { extra: extra.map(str::to_owned).to_vec(), ..Default::default() };
        assert_eq!(
            line(&options, 0),
            "weir --no-shconf --no-huge --no-telemetry -l0 --file-prefix=mine -m 64 --allow=0000:00:03.0 --log-level=8"
        );
    }

    #[test]
    fn pci_is_scanned_only_for_the_ports_asked_for() {
        let options = EalOptions { pci: vec!["0000:03:00.0".to_owned()], ..Default::default() };
        assert!(!line(&options, 1024).contains("iova"), "a card may need physical addresses");
        let line = line(&options, 0);
        assert!(line.ends_with("-a 0000:03:00.0") && !line.contains("--no-pci"), "{line}");
    }

    #[test]
    fn free_pages_of_all_sizes_add_up() {
        let sizes = tempfile::tempdir().unwrap();
        for (name, free) in [("hugepages-2048kB", "3\n"), ("hugepages-1048576kB", "1\n"), ("other", "9\n")] {
            fs::create_dir(sizes.path().join(name)).unwrap();
            fs::write(sizes.path().join(name).join("free_hugepages"), free).unwrap();
        }
        assert_eq!(free_huge_mib(sizes.path()), 1030);
    }
}
