//! The kernel's counters of AF_XDP sockets that a driver of DPDK opened.
//!
//! net_af_xdp does not give its sockets away, and does not count the packets that the kernel
//! dropped because the receive ring was full (22.11 to 24.11). Therefore this module finds the
//! sockets: they are the new descriptors of the process once the device is open.

use std::collections::BTreeSet;
use std::fs;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::ethdev::EthDev;

use crate::lock::Hold;

/// `struct xdp_statistics` of linux/if_xdp.h, since Linux 5.9.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct XdpStatistics {
    rx_dropped: u64,
    rx_invalid_descriptors: u64,
    tx_invalid_descriptors: u64,
    rx_ring_full: u64,
    rx_fill_ring_empty: u64,
    tx_ring_empty: u64,
}

/// `struct xdp_mmap_offsets`: where a ring's two indices, its descriptors and its flags are, for
/// the rings of receive, transmit, fill and completion.
type Offsets = [[u64; 4]; 4];

/// `XDP_PGOFF_TX_RING`: offset to map the transmit ring from.
const TX_RING: u64 = 0x8000_0000;

/// The sockets of one device.
#[derive(Debug, Default)]
pub struct XdpSockets(Mutex<Vec<OwnedFd>>);

impl XdpSockets {
    /// Opens a device, and finds its sockets. A lock keeps other devices from opening meanwhile.
    pub fn of<T, E>(open: impl FnOnce() -> Result<T, E>) -> Result<(T, Self), E> {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.hold();
        let before = descriptors();
        let device = open()?;
        let sockets = descriptors().difference(&before).filter_map(|&fd| duplicate(fd)).collect();
        Ok((device, Self(Mutex::new(sockets))))
    }

    /// Packets that the kernel had for the device and lost, because weir did not fetch them in
    /// time, since it was opened. `rx_fill_ring_empty` is not added: in copy mode the same packets
    /// are in `rx_dropped`, and in zero-copy mode it counts attempts, not packets.
    pub fn missed(&self) -> u64 {
        let lost = |stats: XdpStatistics| stats.rx_dropped + stats.rx_ring_full;
        self.lock().iter().filter_map(statistics).map(lost).sum()
    }

    /// Packets in the transmit rings that the kernel has not taken: none will leave once the
    /// interface is gone. 0 once `device`, with which the sockets came, is closed.
    pub fn unsent(&self, device: &EthDev) -> u64 {
        // As long as it is held the driver keeps its rings.
        let Some(_open) = device.control() else { return 0 };
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        self.lock().iter().filter_map(|socket| waiting(socket, &maps)).map(u64::from).sum()
    }

    /// Lets go of the sockets. To be called before the device is closed: as long as one is held,
    /// its queue stays taken.
    pub fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.0.hold()
    }
}

/// The process's AF_XDP sockets.
fn descriptors() -> BTreeSet<i32> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&fd| domain(fd) == Some(libc::AF_XDP)).collect()
}

fn domain(fd: i32) -> Option<i32> {
    let (mut domain, mut length) = (0, size_of::<i32>() as u32);
    // SAFETY: the call writes at most `length` bytes, and fails for what is no socket or no longer
    // open.
    let code =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut domain).cast(), &mut length) };
    (code == 0).then_some(domain)
}

fn duplicate(fd: i32) -> Option<OwnedFd> {
    // SAFETY: no pointers; fails for what is not open.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    // SAFETY: a new descriptor without another owner.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Descriptors of a socket's transmit ring that the kernel has not taken, by the driver's own
/// mapping of the ring.
fn waiting(socket: &OwnedFd, maps: &str) -> Option<u32> {
    let (mut offsets, mut length) = (Offsets::default(), size_of::<Offsets>() as u32);
    // SAFETY: the call writes at most `length` bytes of an array of integers.
    let code = unsafe {
        let into = (&raw mut offsets).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, into, &mut length)
    };
    let name = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).ok()?;
    let start = maps.lines().filter(|line| line.ends_with(name.to_str().unwrap_or("?"))).find_map(|line| {
        let mut fields = line.split_whitespace();
        let (addresses, _rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
        let start = u64::from_str_radix(addresses.split('-').next()?, 16).ok()?;
        (u64::from_str_radix(offset, 16).ok()? == TX_RING).then_some(start)
    })?;
    let [_, [producer, consumer, ..], ..] = offsets;
    let index = |at: u64| {
        let place = std::ptr::with_exposed_provenance::<AtomicU32>((start + at) as usize);
        // SAFETY: the kernel has just said that the ring is mapped there and where in it its
        // indices are, which both sides write atomically; the device is open, so it stays mapped.
        unsafe { (*place).load(Ordering::Acquire) }
    };
    (code == 0).then(|| index(producer).wrapping_sub(index(consumer)))
}

fn statistics(socket: &OwnedFd) -> Option<XdpStatistics> {
    let (mut stats, mut length) = (XdpStatistics::default(), size_of::<XdpStatistics>() as u32);
    // SAFETY: the call writes at most `length` bytes of a structure of integers.
    let code = unsafe {
        let into = (&raw mut stats).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, libc::XDP_STATISTICS, into, &mut length)
    };
    (code == 0).then_some(stats)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn only_xdp_sockets_that_came_with_the_device_are_held() {
        let socket = |domain| {
            // SAFETY: no pointers.
            let fd = unsafe { libc::socket(domain, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
            // SAFETY: a new descriptor without another owner.
            (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
        };
        // Without rights there is nothing to see.
        let Some(_earlier) = socket(libc::AF_XDP) else { return };
        let ((_own, _udp), sockets) =
            XdpSockets::of(|| Ok::<_, ()>((socket(libc::AF_XDP), UdpSocket::bind("127.0.0.1:0")))).unwrap();
        assert_eq!(sockets.lock().len(), 1);
        assert!(sockets.lock().iter().all(|socket| statistics(socket).is_some()));
        assert_eq!(sockets.missed(), 0);
        sockets.close();
        assert!(sockets.lock().is_empty());
    }
}
