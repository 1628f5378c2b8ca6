//! Whether a queue of an interface is taken by an AF_XDP socket.
//!
//! The kernel frees the queue of a closed socket in a work queue of its own, so a device that is
//! opened right after another one was closed can find its queue taken. net_af_xdp (22.11) then
//! loses the buffers that it had put aside for the queue, so it must not be opened before.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::Interface;

/// Memory that the kernel could receive into. Nothing is ever received.
#[repr(align(4096))]
struct Page([u8; 4096]);

/// Whether the queue is taken. False where that is not known: the interface must be of a driver that
/// has no zero-copy mode, such as veth.
///
/// The call asks to bind a socket in zero-copy mode, which the kernel refuses with EBUSY when the
/// queue is taken and with EOPNOTSUPP when it is free.
pub fn is_taken(interface: &Interface, queue: u32) -> bool {
    let mut page = Box::new(Page([0; 4096]));
    // SAFETY: makes a descriptor.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return false;
    }
    // SAFETY: a new descriptor, which is nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: a structure of integers, for which all zeros are a value.
    let mut memory: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
    memory.addr = page.0.as_mut_ptr().expose_provenance() as u64;
    memory.len = size_of::<Page>() as u64;
    memory.chunk_size = size_of::<Page>() as u32;
    let entries: libc::c_int = 2;
    let prepared = set(&socket, libc::XDP_UMEM_REG, &memory)
        && [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING]
            .iter()
            .all(|&ring| set(&socket, ring, &entries));
    prepared && bind(&socket, interface, queue).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> bool {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the call reads `length` bytes, those of the value. The memory that the value names
    // outlives the socket.
    unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, (&raw const *value).cast(), length) == 0 }
}

fn bind(socket: &OwnedFd, interface: &Interface, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_ZEROCOPY,
        sxdp_ifindex: interface.index().cast_unsigned(),
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the call reads `length` bytes of an address.
    let code = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
