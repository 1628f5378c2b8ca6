//! The kernel's counters of AF_XDP sockets that a driver of DPDK opened.
//!
//! net_af_xdp does not give its sockets away, and does not count the packets that the kernel
//! dropped because the receive ring was full (22.11 to 24.11). Therefore this module finds the
//! sockets: they are the new descriptors of the process once the device is open.
//!
//! When a device is closed, net_af_xdp (22.11) leaves the socket of its buffers open, and the kernel
//! refuses every other socket on that queue (EBUSY). It also forgets the buffers that it has put into
//! the rings. This module closes the sockets, and gives the buffers back to their pool.

use std::collections::BTreeSet;
use std::fs;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::eal::Eal;
use super::ethdev::EthDev;
use super::mbuf::Mbuf;
use super::mempool::Mempool;
use super::sys;

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

/// A ring: the offset that it is mapped from (`XDP_PGOFF_…`), its number in [`Offsets`], and the bytes
/// of a descriptor, which begins with an address.
#[derive(Clone, Copy, Debug)]
struct Ring(u64, usize, usize);

const RX: Ring = Ring(0, 0, 16);
const TX: Ring = Ring(0x8000_0000, 1, 16);
const FILL: Ring = Ring(0x1_0000_0000, 2, 8);
/// Of an address the part that is none: an offset within the buffer.
const ADDRESS: u64 = (1 << 48) - 1;

/// The sockets of one device.
#[derive(Debug, Default)]
pub struct XdpSockets {
    /// Descriptors of our own, which keep the sockets open.
    held: Mutex<Vec<OwnedFd>>,
    /// The driver's descriptors, and the kernel's names of the sockets behind them.
    drivers: Mutex<Vec<(i32, PathBuf)>>,
}

impl XdpSockets {
    /// Opens a device, and finds its sockets. A lock keeps other devices from opening meanwhile.
    pub fn of<T, E>(open: impl FnOnce() -> Result<T, E>) -> Result<(T, Self), E> {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.hold();
        let before = descriptors();
        let device = open()?;
        let new: Vec<i32> = descriptors().difference(&before).copied().collect();
        let held = new.iter().filter_map(|&fd| duplicate(fd)).collect();
        let drivers = new.iter().filter_map(|&fd| Some((fd, name(fd)?))).collect();
        Ok((device, Self { held: Mutex::new(held), drivers: Mutex::new(drivers) }))
    }

    /// Whether the sockets are bound to their interface still. They are not once it has left the
    /// network namespace, also when it comes back. True for none.
    pub fn are_bound(&self) -> bool {
        // The call takes no packet, as these sockets have no data to read but their rings.
        let unbound = |socket: &OwnedFd| {
            let probed = rustix::net::recv(socket, &mut [0; 0], RecvFlags::DONTWAIT);
            probed.is_err_and(|error| error == Errno::NXIO)
        };
        !self.lock().iter().any(unbound)
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
        let waiting = |socket| Some(u64::from(Mapped::find(socket, TX, &maps)?.waiting().1));
        self.lock().iter().filter_map(waiting).sum()
    }

    /// The buffers that the kernel has to receive into, and those with packets that nobody has
    /// fetched. To be asked when all queues of `device` have been dropped, before it is closed.
    /// Where the driver is not known to forget them, none.
    pub fn lent(&self, device: &EthDev) -> LentBuffers {
        let mut addresses = Vec::new();
        if let (true, Some(_open)) = (Eal::version().contains(" 22.11."), device.control()) {
            let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
            for socket in self.lock().iter() {
                // The kernel goes on moving buffers from the second to the first: in this order none
                // is found twice.
                let rings = [RX, FILL].map(|ring| Some((Mapped::find(socket, ring, &maps)?, ring.2)));
                addresses.extend(rings.iter().flatten().flat_map(|(ring, descriptor)| ring.addresses(*descriptor)));
            }
        }
        LentBuffers { addresses, pool: device.pool().clone() }
    }

    /// Lets go of the sockets. To be called before the device is closed: as long as one is held,
    /// its queue stays taken.
    pub fn close(&self) {
        self.lock().clear();
    }

    /// Closes the sockets that the driver has left open. To be called once the device is closed.
    pub fn reclaim(&self) {
        for (fd, socket) in std::mem::take(&mut *self.drivers.hold()) {
            if name(fd).is_some_and(|now| now == socket) {
                // SAFETY: the number stands for the same socket as when the driver opened it, and
                // the device that it belonged to is closed.
                drop(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.held.hold()
    }
}

/// Buffers in the rings of sockets.
#[derive(Debug)]
pub struct LentBuffers {
    addresses: Vec<u64>,
    pool: Arc<Mempool>,
}

impl LentBuffers {
    /// Gives them back to their pool. To be called once the sockets are closed, all of them: then
    /// the kernel writes to none.
    pub fn give_back(self) {
        for address in self.addresses {
            // SAFETY: the pool lives; the call gives a whole mbuf of it, or null.
            let mbuf = unsafe { sys::weir_lent_mbuf(self.pool.as_ptr(), address) };
            // SAFETY: the driver lent it to the kernel, which is done with it, and has forgotten it;
            // each address is there once.
            drop(NonNull::new(mbuf).map(|mbuf| unsafe { Mbuf::from_raw(mbuf) }));
        }
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

/// `socket:[NUMBER]`, with a number that no other socket has while this one is open.
fn name(fd: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{fd}")).ok()
}

fn duplicate(fd: i32) -> Option<OwnedFd> {
    // SAFETY: no pointers; fails for what is not open.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    // SAFETY: a new descriptor without another owner.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}

/// A ring as the driver has mapped it.
struct Mapped {
    start: usize,
    bytes: usize,
    offsets: [u64; 4],
}

impl Mapped {
    fn find(socket: &OwnedFd, ring: Ring, maps: &str) -> Option<Self> {
        let (mut offsets, mut length) = (Offsets::default(), size_of::<Offsets>() as u32);
        // SAFETY: the call writes at most `length` bytes of an array of integers.
        let code = unsafe {
            let into = (&raw mut offsets).cast();
            libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, into, &mut length)
        };
        let name = name(socket.as_raw_fd())?;
        let (start, end) =
            maps.lines().filter(|line| line.ends_with(name.to_str().unwrap_or("?"))).find_map(|line| {
                let mut fields = line.split_whitespace();
                let (addresses, _rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
                let (start, end) = addresses.split_once('-')?;
                let number = |text| usize::from_str_radix(text, 16).ok();
                (number(offset)? as u64 == ring.0).then_some((number(start)?, number(end)?))
            })?;
        (code == 0).then_some(Self { start, bytes: end - start, offsets: offsets[ring.1] })
    }

    /// What the one side has put in and the other has not taken: from which number on, and how many.
    fn waiting(&self) -> (u32, u32) {
        let index = |at: u64| {
            let place = std::ptr::with_exposed_provenance::<AtomicU32>(self.start + at as usize);
            // SAFETY: the kernel has said that the ring is mapped there and where in it its indices
            // are, which both sides write atomically; the device is open, so it stays mapped.
            unsafe { (*place).load(Ordering::Acquire) }
        };
        let [producer, consumer, ..] = self.offsets;
        let taken = index(consumer);
        (taken, index(producer).wrapping_sub(taken))
    }

    /// The addresses that wait. Descriptors are a power of two and fill most of the pages mapped.
    fn addresses(&self, descriptor: usize) -> Vec<u64> {
        let first = self.offsets[2] as usize;
        let room = self.bytes.saturating_sub(first) / descriptor;
        let Some(size) = room.checked_ilog2().map(|bits| 1usize << bits) else { return Vec::new() };
        let (from, count) = self.waiting();
        let address = |n: u32| {
            let at = self.start + first + (from.wrapping_add(n) as usize & (size - 1)) * descriptor;
            // SAFETY: a descriptor of the ring, which is mapped as long as the device is open; the
            // kernel has put it there, or the driver, whose queues nobody has any more.
            unsafe { std::ptr::with_exposed_provenance::<u64>(at).read_volatile() }
        };
        (0..count.min(size as u32)).map(address).map(|address| address & ADDRESS).collect()
    }
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
    use std::os::fd::IntoRawFd;

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
        assert!(!sockets.are_bound(), "a socket that was never bound");
        sockets.close();
        assert!(sockets.lock().is_empty() && sockets.are_bound());
    }

    #[test]
    fn what_a_driver_leaves_open_is_closed_and_nothing_else() {
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap().into_raw_fd());
        let sockets = XdpSockets::default();
        let socket = name(one).unwrap();
        *sockets.drivers.lock().unwrap() = vec![(one, socket.clone()), (other, "socket:[0]".into())];
        sockets.reclaim();
        // SAFETY: `reclaim` leaves it alone, as its name is another.
        let other = unsafe { UdpSocket::from_raw_fd(other) };
        assert!(other.local_addr().is_ok());
        assert!(sockets.drivers.lock().unwrap().is_empty());
        assert_ne!(name(one), Some(socket), "it is closed, though another test may have got its number");
    }
}
