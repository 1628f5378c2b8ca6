//! Network cards on the PCI bus, as sysfs has them.

use std::fs;
use std::path::{Path, PathBuf};

const DEVICES: &str = "/sys/bus/pci/devices";

/// Kernel drivers that let DPDK have their cards' packets while they stay bound.
#[cfg(any(feature = "dpdk", test))]
const SHARING: [&str; 3] = ["mlx4_core", "mlx5_core", "mana"];

/// A network device on the PCI bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    pub address: String,
    pub driver: Option<String>,
    /// The kernel's interfaces on it.
    pub interfaces: Vec<String>,
    /// One of them belongs to a bridge or bond, or is up.
    pub busy: bool,
}

impl Nic {
    /// Why it is no port as long as things stay so, and what to do.
    #[cfg(any(feature = "dpdk", test))]
    fn obstacle(&self) -> Option<String> {
        let driver = self.driver.as_deref().filter(|driver| !SHARING.contains(driver))?;
        if self.interfaces.is_empty() {
            return None;
        }
        let (interfaces, use_) = (self.interfaces.join(", "), if self.busy { ", which is in use" } else { "" });
        Some(format!(
            "the kernel has this card (driver {driver}) as its interface {interfaces}{use_}. A pci port takes the card \
             away from the kernel: `weir doctor` says which card can be given to weir, and how. To share the interface \
             use veth:{interface} or xdp:{interface}",
            interface = self.interfaces[0],
        ))
    }
}

/// Why the card at an address cannot be a port; `None` when nothing is known against it.
#[cfg(feature = "dpdk")]
pub(crate) fn obstacle(address: &str) -> Option<String> {
    let device = Path::new(DEVICES).join(address);
    if device.exists() {
        return nic(&device).obstacle();
    }
    let there: Vec<_> = nics().into_iter().map(|nic| nic.address).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Path::new(DEVICES).exists().then(|| format!("there is no such card; the network cards on the PCI bus: {there}"))
}

/// All network devices.
pub fn nics() -> Vec<Nic> {
    nics_in(Path::new(DEVICES))
}

/// Devices of PCI class 02, network.
fn nics_in(devices: &Path) -> Vec<Nic> {
    let is_network = |device: &PathBuf| {
        fs::read_to_string(device.join("class")).is_ok_and(|class| class.trim_start().starts_with("0x02"))
    };
    entries(devices).into_iter().filter(is_network).map(|device| nic(&device)).collect()
}

/// A virtio device's interfaces are one directory further down.
fn nic(device: &Path) -> Nic {
    let mut interfaces = entries(&device.join("net"));
    for inner in entries(device) {
        if file_name(&inner).starts_with("virtio") {
            interfaces.extend(entries(&inner.join("net")));
        }
    }
    let busy = |interface: &PathBuf| {
        let up = fs::read_to_string(interface.join("operstate")).is_ok_and(|state| state.trim() == "up");
        up || interface.join("master").exists()
    };
    Nic {
        address: file_name(device),
        driver: fs::read_link(device.join("driver")).ok().map(|link| file_name(&link)),
        busy: interfaces.iter().any(busy),
        interfaces: interfaces.iter().map(|path| file_name(path)).collect(),
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_devices_are_found_with_their_interfaces() {
        let root = tempfile::tempdir().unwrap();
        let device = |address: &str, class: &str, net: &str| {
            let path = root.path().join(address);
            fs::create_dir_all(path.join(net)).unwrap();
            fs::write(path.join("class"), class).unwrap();
            path
        };
        let disk = device("0000:00:01.0", "0x018000\n", "none");
        let virtio = device("0000:00:02.0", "0x020000\n", "virtio1/net/eth0");
        let plain = device("0000:00:03.0", "0x020000\n", "net/eth1");
        fs::write(virtio.join("virtio1/net/eth0/operstate"), "up\n").unwrap();
        fs::write(plain.join("net/eth1/operstate"), "down\n").unwrap();
        std::os::unix::fs::symlink("../../../drivers/ixgbe", plain.join("driver")).unwrap();
        std::os::unix::fs::symlink("../../../drivers/nvme", disk.join("driver")).unwrap();
        let found = nics_in(root.path());
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].interfaces.as_slice(), found[0].busy), (["eth0".to_owned()].as_slice(), true));
        assert_eq!((found[1].driver.as_deref(), found[1].busy), (Some("ixgbe"), false));
    }

    #[test]
    fn a_card_of_the_kernels_is_an_obstacle() {
        let nic = |driver: &str, interfaces: &[&str]| Nic {
            driver: Some(driver.into()),
            interfaces: interfaces.iter().map(|&name| name.into()).collect(),
            busy: true,
            ..Nic::default()
        };
        let why = nic("virtio-pci", &["eth7"]).obstacle().expect("one");
        assert!(why.contains("virtio-pci") && why.contains("eth7, which is in use") && why.contains("doctor"), "{why}");
        assert_eq!(nic("vfio-pci", &[]).obstacle(), None);
        assert_eq!(nic("mlx5_core", &["eth7"]).obstacle(), None, "it shares its card");
    }
}
