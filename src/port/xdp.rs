//! Work-arounds for DPDK's AF_XDP driver.
//!
//! A frame that a local kernel sends through a veth pair meets XDP before its checksum is computed,
//! and AF_XDP has no word for that. Such a frame holds the sum of its pseudo-header in place of the
//! checksum, by which it is known ([`checksum::is_partial`](super::checksum::is_partial)).
//! Segmentation is no concern: the kernel turns it off at the other end of a veth for as long as an
//! XDP program is loaded.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Dev, PortOptions, PortProblem, plan::XDP_BUFFERS, vdev};
use crate::dpdk::{EthDev, Interface, Mempool, PoolOptions, XdpSockets, xdp_queue};

/// Drivers whose frames come from a kernel, not from a wire.
const LOCAL: [&str; 6] = ["veth", "netkit", "tun", "bridge", "dummy", ""];

pub(super) fn is_fed_by_a_kernel(driver: &str) -> bool {
    LOCAL.contains(&driver)
}

/// Opens the device, and the interface that it takes the packets of.
pub(super) fn open(
    name: &str,
    dev: &Dev,
    options: &PortOptions,
    pool: &Arc<Mempool>,
) -> Result<(Interface, XdpSockets, EthDev), PortProblem> {
    fits_a_page(options.mtu)?;
    let interface = Interface::open(name)?;
    fits(&interface, options)?;
    if !interface.is_up()? {
        interface.set_up(true)?;
    }
    // The driver hands its buffers to the kernel, which takes none larger than a page.
    let fitting = PoolOptions::for_mtu(XDP_BUFFERS * u32::from(options.rx_queues) + 511, options.mtu);
    let own = (pool.frame_bytes() > fitting.frame_bytes)
        .then(|| Mempool::new(pool.eal(), fitting))
        .transpose()?
        .map(Arc::new);
    if is_fed_by_a_kernel(&interface.driver()) {
        wait_until_free(&interface, options.rx_queues)?;
    }
    let (device, sockets) = XdpSockets::of(|| vdev::open(dev, options, own.as_ref().unwrap_or(pool), None))?;
    Ok((interface, sockets, device))
}

/// Waits for the kernel to free the queues of a port that was closed right before.
fn wait_until_free(interface: &Interface, queues: u16) -> Result<(), PortProblem> {
    let started = Instant::now();
    while let Some(queue) = (0..queues.into()).find(|&queue| xdp_queue::is_taken(interface, queue)) {
        if started.elapsed() >= FREED_WITHIN {
            let name = interface.name();
            return Err(PortProblem::Unfit(format!(
                "queue {queue} of {name} is taken by an AF_XDP socket of another program"
            )));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The kernel takes milliseconds, more where many interfaces come and go.
const FREED_WITHIN: Duration = Duration::from_secs(2);

/// The largest MTU that the driver's buffers hold, when it was opened for `mtu`.
pub(super) fn max_mtu(mtu: u16) -> u16 {
    PoolOptions::for_mtu(1, mtu).mtu()
}

/// Bytes of a page that net_af_xdp (22.11 to 24.11) leaves to no IP packet: an mbuf and its pool's
/// header, room in front of the frame, and the frame's own headers.
const OVERHEAD: usize = 554;

/// A frame must fit a memory page, with what the driver puts before it.
fn fits_a_page(mtu: u16) -> Result<(), PortProblem> {
    let page = rustix::param::page_size();
    let most = page.saturating_sub(OVERHEAD);
    if usize::from(mtu) <= most {
        return Ok(());
    }
    Err(PortProblem::Unfit(format!(
        "an MTU of {mtu} bytes (mtu of the port, --mtu): an xdp port takes {most} at most, as the kernel wants a frame \
         in one memory page ({page} bytes). veth: takes 9216"
    )))
}

/// Every queue that the kernel spreads packets over must be polled, and each worker needs one to
/// send on.
fn fits(interface: &Interface, options: &PortOptions) -> Result<(), PortProblem> {
    let (name, queues) = (interface.name(), u32::from(options.rx_queues));
    let channels = interface.rx_channels()?;
    if channels == queues {
        return Ok(());
    }
    // DPDK (22.11) serves one queue of an interface that counts its receive and transmit queues
    // apart, as veth does.
    let apart = interface.driver() == "veth";
    let mend = match (apart, channels > queues) {
        (true, true) => format!("ethtool -L {name} rx {queues}"),
        (true, false) => "an xdp port on a veth serves one worker; give --core once, or use veth:".to_owned(),
        (false, _) => format!("ethtool -L {name} combined {queues}"),
    };
    Err(PortProblem::Unfit(format!("receive queues of {name}: {channels}; of the port: {queues}. Mend it so: {mend}")))
}
