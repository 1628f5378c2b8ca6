//! Ports whose devices DPDK drives: their drivers, and the arguments of these.

use std::{
    io::ErrorKind,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{
    Dev, PortOptions, PortProblem,
    files::{self, NewFile},
    pci,
};
use crate::dpdk::{EthDev, Mempool};

/// Largest MTU that net_memif (22.11) accepts; it takes any frame that fits its chains of buffers.
const MEMIF_MTU: u16 = 1500;
/// Ethernet header, four VLAN tags and the telemetry shim, rounded up.
const MEMIF_OVERHEAD: u16 = 64;

/// Opens the device; `output` is the file that a pcap port writes.
pub(super) fn open(
    dev: &Dev,
    options: &PortOptions,
    pool: &Arc<Mempool>,
    output: Option<&NewFile>,
) -> Result<EthDev, PortProblem> {
    let mut options = *options;
    match dev {
        Dev::Pci { address } => {
            return match pci::obstacle(address) {
                Some(why) => Err(PortProblem::Unfit(why)),
                None => Ok(EthDev::open_pci(address, &options, pool)?),
            };
        }
        Dev::Tap { .. } => enough_buffers(&options, pool)?,
        // Ports of one process may share a socket, which the driver knows.
        Dev::Memif { server: true, socket, .. } => match files::make_room(Path::new(socket)) {
            Err(error) if error.kind() != ErrorKind::AddrInUse => return Err(error.into()),
            _ => {}
        },
        Dev::Vhost { path, client: false, .. } => files::make_room(Path::new(path))?,
        _ => {}
    }
    let (driver, arguments) = arguments(dev, &options, output);
    if matches!(dev, Dev::Memif { .. }) {
        options.mtu = options.mtu.min(MEMIF_MTU);
    }
    Ok(EthDev::create(&unique(driver), &arguments, &options, pool)?)
}

/// net_tap (22.11) takes a buffer for each receive descriptor when it starts, and says nothing of
/// it when it cannot.
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
fn arguments(dev: &Dev, options: &PortOptions, output: Option<&NewFile>) -> (&'static str, String) {
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
        Dev::Pcap { input, infinite, .. } => pcap(input, output, *infinite, options.rx_queues),
        Dev::Ring { .. } => ("net_ring", String::new()),
        Dev::Null { size, copy, rx } => {
            ("net_null", format!("size={size},copy={},no-rx={}", u8::from(*copy), u8::from(!rx)))
        }
        Dev::Pci { .. } | Dev::Veth { .. } | Dev::Memory => unreachable!("not on DPDK's vdev bus"),
    }
}

fn pcap(input: &str, output: Option<&NewFile>, infinite: bool, rx_queues: u16) -> (&'static str, String) {
    // One file feeds one queue; as an endless source it may feed many.
    let inputs = if infinite { rx_queues.into() } else { 1 };
    let mut arguments = vec![format!("rx_pcap={input}"); if input.is_empty() { 0 } else { inputs }];
    if let Some(output) = output {
        arguments.push(format!("tx_pcap={}", output.path()));
    }
    if infinite {
        arguments.push("infinite_rx=1".to_owned());
    }
    ("net_pcap", arguments.join(","))
}

/// The file that a pcap port writes. libpcap would overwrite one that is there.
pub(super) fn output(dev: &Dev) -> Result<Option<NewFile>, PortProblem> {
    match dev {
        Dev::Pcap { output, .. } if !output.is_empty() => Ok(Some(NewFile::create(Path::new(output))?)),
        _ => Ok(None),
    }
}

/// Device names are the process's; ports' names may repeat once a port has been closed.
fn unique(driver: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{driver}{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}
