//! What the checks look at, read once: so that each check is a function of plain text, and tests
//! can make the text up.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cgroup::Limits;
use super::host::{self, Host};
use crate::network::socket;
pub use crate::port::pci::Nic;
use crate::port::pci::nics;

/// Texts of files that are not there are empty.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The DPDK that this weir is linked with; `None` when it was built without live ports.
    pub dpdk: Option<String>,
    /// This program, for commands that name it.
    pub program: String,
    pub architecture: &'static str,
    pub cpuinfo: String,
    pub meminfo: String,
    /// Those of a container or service.
    pub limits: Limits,
    /// /proc/self/status: user, capabilities, CPUs allowed.
    pub status: String,
    /// The frequency governors in use.
    pub governors: Vec<String>,
    /// /proc/net/route and /proc/net/ipv6_route.
    pub routes: String,
    pub routes6: String,
    /// `ip -oneline address`: one address a line.
    pub addresses: String,
    pub tun: Access,
    /// Whether a user namespace with a network namespace could be made.
    pub user_namespaces: bool,
    /// Settings that forbid them, by name under /proc/sys.
    pub restrictions: Vec<(&'static str, String)>,
    pub iommu_groups: usize,
    /// The kernel's VFIO can be told to do without an IOMMU.
    pub unsafe_vfio: bool,
    pub nics: Vec<Nic>,
    /// Interfaces that are ports of a bridge or bond, and that one's name.
    pub enslaved: Vec<(String, String)>,
    /// Programs asked for, and whether they are on the PATH.
    pub tools: Vec<(Tool, bool)>,
    /// The directory of control sockets, and the error if it cannot be used.
    pub sockets: PathBuf,
    pub sockets_error: Option<String>,
    pub host: Host,
}

/// Whether a device file can be opened for reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    Granted,
    Denied,
    #[default]
    Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    pub name: &'static str,
    pub package: &'static str,
}

pub const TOOLS: [Tool; 4] = [
    Tool { name: "ip", package: "iproute2" },
    Tool { name: "ping", package: "iputils-ping" },
    Tool { name: "iperf3", package: "iperf3" },
    Tool { name: "nsenter", package: "util-linux" },
];

/// VFIO's setting to do without an IOMMU, in kernels with CONFIG_VFIO_NOIOMMU.
pub const UNSAFE_VFIO: &str = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode";

/// Each forbids user namespaces when it has the value beside it.
pub const RESTRICTIONS: [(&str, &str); 3] = [
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
    ("kernel.unprivileged_userns_clone", "0"),
    ("user.max_user_namespaces", "0"),
];

impl Machine {
    pub fn probe() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let setting = |name: &str| read(&format!("/proc/sys/{}", name.replace('.', "/"))).trim().to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let (sockets, sockets_error) = socket_directory();
        let mut machine = Self {
            dpdk: dpdk_version(),
            program: std::env::current_exe().map_or("weir".into(), |path| path.display().to_string()),
            architecture: std::env::consts::ARCH,
            cpuinfo: read("/proc/cpuinfo"),
            meminfo: read("/proc/meminfo"),
            limits: Limits::probe(Path::new("/")),
            status: read("/proc/self/status"),
            governors: governors(),
            routes: read("/proc/net/route"),
            routes6: read("/proc/net/ipv6_route"),
            addresses: output_of("ip", &["-oneline", "address"]),
            tun: access(Path::new("/dev/net/tun")),
            user_namespaces: succeeds("unshare", &["--user", "--map-root-user", "--net", "true"]),
            restrictions: RESTRICTIONS.iter().map(|(name, _)| (*name, setting(name))).collect(),
            iommu_groups: entries(Path::new("/sys/kernel/iommu_groups")).len(),
            unsafe_vfio: has_unsafe_vfio(),
            nics: nics(),
            enslaved: enslaved(Path::new("/sys/class/net")),
            tools: TOOLS.map(|tool| (tool, std::env::split_paths(&path).any(|d| d.join(tool.name).is_file()))).into(),
            sockets,
            sockets_error,
            host: Host::default(),
        };
        machine.host = Host::probe(host::allowed(&machine).last().copied());
        machine
    }
}

fn enslaved(interfaces: &Path) -> Vec<(String, String)> {
    let master = |interface: PathBuf| {
        let master = fs::read_link(interface.join("master")).ok()?;
        Some((file_name(&interface), file_name(&master)))
    };
    entries(interfaces).into_iter().filter_map(master).collect()
}

#[cfg(feature = "dpdk")]
fn dpdk_version() -> Option<String> {
    Some(crate::dpdk::Eal::version())
}

#[cfg(not(feature = "dpdk"))]
fn dpdk_version() -> Option<String> {
    None
}

/// The setting is there once the module is loaded; before, the module's file knows of it.
fn has_unsafe_vfio() -> bool {
    let setting = Path::new(UNSAFE_VFIO);
    let name = file_name(setting);
    setting.exists() || ["modinfo", "/usr/sbin/modinfo"].iter().any(|p| output_of(p, &["-p", "vfio"]).contains(&name))
}

/// The directory that `weir run` would take for its socket, or the last one tried and why it cannot
/// be.
fn socket_directory() -> (PathBuf, Option<String>) {
    let mut last = (PathBuf::new(), Some("there is no directory to try".to_owned()));
    for directory in socket::places() {
        match try_to_write(&directory) {
            Ok(()) => return (directory, None),
            Err(error) => last = (directory, Some(error.to_string())),
        }
    }
    last
}

fn try_to_write(directory: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let file = directory.join(format!(".doctor-{}", std::process::id()));
    fs::write(&file, "")?;
    fs::remove_file(&file)
}

/// Nothing, when there is no such program.
fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

pub fn access(device: &Path) -> Access {
    match fs::OpenOptions::new().read(true).write(true).open(device) {
        Ok(_) => Access::Granted,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Access::Denied,
        Err(_) => Access::Absent,
    }
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn governors() -> Vec<String> {
    let policies = entries(Path::new("/sys/devices/system/cpu/cpufreq"));
    let mut names: Vec<_> = policies
        .iter()
        .filter_map(|policy| Some(fs::read_to_string(policy.join("scaling_governor")).ok()?.trim().to_owned()))
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_bridges_are_found() {
        let root = tempfile::tempdir().unwrap();
        ["eth0", "eth1", "br0"].iter().for_each(|name| fs::create_dir(root.path().join(name)).unwrap());
        std::os::unix::fs::symlink("../br0", root.path().join("eth1/master")).unwrap();
        assert_eq!(enslaved(root.path()), [("eth1".to_owned(), "br0".to_owned())]);
    }
}
