//! Ports whose devices DPDK drives: their drivers, and the arguments of these.

use std::{
    io::ErrorKind,
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{Dev, PortOptions, PortProblem, tap};
use crate::dpdk::{EthDev, Mempool};

/// What net_memif lets DPDK ask of it (22.11); it takes whatever fits its chains of buffers.
const MEMIF_MTU: u16 = 1500;
/// Ethernet header, two VLAN tags and the telemetry shim, rounded up.
const MEMIF_OVERHEAD: u16 = 64;

pub(super) fn open(dev: &Dev, options: &PortOptions, pool: &Arc<Mempool>) -> Result<EthDev, PortProblem> {
    let mut options = *options;
    match dev {
        Dev::Pci { address } => return Ok(EthDev::open_pci(address, &options, pool)?),
        Dev::Tap { .. } => enough_buffers(&options, pool)?,
        Dev::Memif { server: true, socket, .. } => forget_dead(Path::new(socket)),
        Dev::Vhost { path, client: false, .. } => forget_dead(Path::new(path)),
        _ => {}
    }
    let (driver, arguments) = arguments(dev, &options);
    if matches!(dev, Dev::Memif { .. }) {
        options.mtu = options.mtu.min(MEMIF_MTU);
    }
    let create = || EthDev::create(&unique(driver), &arguments, &options, pool);
    Ok(if driver == "net_tap" { tap::opening(create) } else { create() }?)
}

/// net_tap (22.11) takes a buffer for each receive descriptor when it starts, and says nothing of it when it cannot.
fn enough_buffers(options: &PortOptions, pool: &Mempool) -> Result<(), PortProblem> {
    let needed = u32::from(options.rx_queues) * u32::from(options.rx_descriptors);
    let left = pool.available();
    if left > needed {
        return Ok(());
    }
    Err(PortProblem::Unfit(format!(
        "a tap port holds {needed} packet buffers and {left} are left of {}: give --buffers {} or more",
        pool.capacity(),
        pool.capacity() + needed - left + 256,
    )))
}

/// The DPDK driver of a virtual device, and its arguments.
fn arguments(dev: &Dev, options: &PortOptions) -> (&'static str, String) {
    let queues = options.rx_queues.max(options.tx_queues);
    match dev {
        Dev::Tap { interface } => ("net_tap", format!("iface={interface}")),
        Dev::Xdp { interface, copy, .. } => {
            let force = if *copy { ",force_copy=1" } else { "" };
            ("net_af_xdp", format!("iface={interface},queue_count={queues}{force}"))
        }
        Dev::Memif { id, server, socket } => {
            let (role, buffer) = (if *server { "server" } else { "client" }, (options.mtu + MEMIF_OVERHEAD).max(2048));
            ("net_memif", format!("role={role},id={id},bsize={buffer},socket={socket},socket-abstract=no"))
        }
        Dev::Vhost { path, client, .. } => {
            ("net_vhost", format!("iface={path},queues={queues},client={}", u8::from(*client)))
        }
        Dev::VirtioUser { path, .. } => {
            // Several queues are asked for on a control queue.
            let control = u8::from(queues > 1);
            ("net_virtio_user", format!("path={path},queues={queues},cq={control},queue_size=1024"))
        }
        Dev::Pcap { input, output, infinite } => pcap(input, output, *infinite, options.rx_queues),
        Dev::Ring { .. } => ("net_ring", String::new()),
        Dev::Null { size, copy, rx } => {
            ("net_null", format!("size={size},copy={},no-rx={}", u8::from(*copy), u8::from(!rx)))
        }
        Dev::Pci { .. } | Dev::Veth { .. } | Dev::Memory => unreachable!("not on DPDK's vdev bus"),
    }
}

fn pcap(input: &str, output: &str, infinite: bool, rx_queues: u16) -> (&'static str, String) {
    // One file feeds one queue; as an endless source it may feed many.
    let inputs = if infinite { rx_queues.into() } else { 1 };
    let mut arguments = vec![format!("rx_pcap={input}"); if input.is_empty() { 0 } else { inputs }];
    if !output.is_empty() {
        arguments.push(format!("tx_pcap={output}"));
    }
    if infinite {
        arguments.push("infinite_rx=1".to_owned());
    }
    ("net_pcap", arguments.join(","))
}

/// Removes a socket that a process left behind when it was killed; the drivers would stumble over it.
fn forget_dead(socket: &Path) {
    if UnixStream::connect(socket).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
        let _ = std::fs::remove_file(socket);
    }
}

/// Device names are the process's; ports' names may repeat once a port has been closed.
fn unique(driver: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{driver}{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}
