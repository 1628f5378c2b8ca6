//! What the control groups of this process leave it of the machine's memory and CPUs, in version 1
//! and 2: the limits of a container or service.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits of a process. A group's limit holds for the groups below it too, so the smallest counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Bytes of memory that the tightest group still has.
    pub memory: Option<Memory>,
    /// CPUs whose time the process may use, as a sum over all its threads.
    pub cpus: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that the group may use.
    pub limit: u64,
    /// Bytes of these that are free, or hold a file that the kernel can read again.
    pub available: u64,
}

impl Limits {
    /// Those of this process, below `root`: `/` but for tests.
    pub fn probe(root: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
        let directories = |controller| directories(root, &groups, &mounts, controller);
        let memory = directories("memory").iter().filter_map(|group| memory(group)).min_by_key(|m| m.available);
        let cpus = directories("cpu").iter().filter_map(|group| cpus(group)).reduce(f64::min);
        Self { memory, cpus }
    }
}

/// The groups of the process with a controller, from its own up to the one that is mounted.
fn directories(root: &Path, groups: &str, mounts: &str, controller: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for mount in mounts.lines().filter_map(Mount::of) {
        let path = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_its_own = if mount.is_v2 { controllers.is_empty() } else { names(controllers, controller) };
            is_its_own.then_some(Path::new(path))
        });
        let Some(path) = path.filter(|_| mount.is_v2 || names(mount.options, controller)) else { continue };
        // Where the path is not below what is mounted, the mount is the process's own group.
        let below = path.strip_prefix(mount.root).unwrap_or(Path::new(""));
        let top = root.join(mount.point.trim_start_matches('/'));
        let group = top.join(below);
        found.extend(group.ancestors().take_while(|group| group.starts_with(&top)).map(Path::to_owned));
    }
    found
}

fn names(list: &str, name: &str) -> bool {
    list.split(',').any(|part| part == name)
}

/// A mounted hierarchy of control groups, from a line of `/proc/self/mountinfo`.
struct Mount<'a> {
    is_v2: bool,
    root: &'a str,
    point: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let (mut mount, mut system) = (mount.split(' ').skip(3), system.split(' '));
        let (root, point) = (mount.next()?, mount.next()?);
        let is_v2 = match system.next()? {
            "cgroup" => false,
            "cgroup2" => true,
            _ => return None,
        };
        Some(Self { is_v2, root, point, options: system.nth(1)? })
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn memory(group: &Path) -> Option<Memory> {
    let either = |v2: &str, v1: &str| number(&group.join(v2)).or_else(|| number(&group.join(v1)));
    // Version 2 has the word `max` for no limit, version 1 a number that no machine reaches.
    let limit = either("memory.max", "memory.limit_in_bytes").filter(|limit| *limit < 1 << 60)?;
    let used = either("memory.current", "memory.usage_in_bytes").unwrap_or(0);
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let files = |prefix: &str| {
        let of = |key: &str| {
            let value = statistics.lines().find_map(|line| line.strip_prefix(prefix)?.strip_prefix(key));
            value.and_then(|value| value.trim().parse::<u64>().ok())
        };
        Some(of("active_file ")? + of("inactive_file ")?)
    };
    // Version 1 has `total_` in front of what counts the groups below as well.
    let files = files("total_").or_else(|| files("")).unwrap_or(0);
    Some(Memory { limit, available: limit.saturating_sub(used.saturating_sub(files)) })
}

fn cpus(group: &Path) -> Option<f64> {
    let v2 = fs::read_to_string(group.join("cpu.max")).ok();
    let v2 = v2.as_deref().and_then(|text| text.trim().split_once(' '));
    let v2 = v2.and_then(|(quota, period)| Some((quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)));
    // Version 1 has a quota of -1, which is no number here, for none.
    let v1 = || number(&group.join("cpu.cfs_quota_us")).zip(number(&group.join("cpu.cfs_period_us")));
    let (quota, period) = v2.or_else(v1).filter(|(_, period)| *period > 0)?;
    Some(quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine's files below a directory.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn limits(files: &[(&str, &str)]) -> Limits {
        Limits::probe(machine(files).path())
    }

    const V2: (&str, &str) =
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");

    #[test]
    fn version_2() {
        // Podman or Docker with a namespace of its own: the group is the root.
        let inside = [
            V2,
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "268435456\n"),
            ("sys/fs/cgroup/memory.current", "201326592\n"),
            ("sys/fs/cgroup/memory.stat", "anon 1048576\nfile 9\ninactive_file 100663296\nactive_file 33554432\n"),
            ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
        ];
        let memory = Memory { limit: 256 << 20, available: 192 << 20 };
        assert_eq!(limits(&inside), Limits { memory: Some(memory), cpus: Some(1.5) });
        // A service: the slice above it is tighter.
        let service = [
            V2,
            ("proc/self/cgroup", "0::/system.slice/weir.service\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "1000000\n"),
            ("sys/fs/cgroup/system.slice/memory.current", "400000\n"),
            ("sys/fs/cgroup/system.slice/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/system.slice/weir.service/memory.max", "max\n"),
            ("sys/fs/cgroup/system.slice/weir.service/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/other.slice/memory.max", "1\n"),
        ];
        let memory = Memory { limit: 1_000_000, available: 600_000 };
        assert_eq!(limits(&service), Limits { memory: Some(memory), cpus: Some(0.5) });
    }

    #[test]
    fn version_1() {
        let mounts = "32 31 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                      33 31 0:30 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                      34 31 0:31 /docker/ab /sys/fs/cgroup/systemd ro - cgroup cgroup rw,name=systemd\n";
        let groups = "5:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n1:name=systemd:/docker/ab\n";
        let docker = [
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", groups),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "268435456\n"),
            (
                "sys/fs/cgroup/memory/memory.stat",
                "active_file 0\ninactive_file 0\ntotal_inactive_file 67108864\ntotal_active_file 67108864\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ];
        let memory = Memory { limit: 512 << 20, available: 384 << 20 };
        assert_eq!(limits(&docker), Limits { memory: Some(memory), cpus: Some(2.0) });
        let unlimited = [
            docker[0],
            docker[1],
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(limits(&unlimited), Limits::default());
    }

    #[test]
    fn no_limits_where_there_are_no_groups() {
        assert_eq!(limits(&[]), Limits::default());
        assert_eq!(limits(&[V2, ("proc/self/cgroup", "nonsense\n0::\n")]), Limits::default());
        let odd = [V2, ("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "1 0\n")];
        assert_eq!(limits(&odd), Limits::default());
    }
}
