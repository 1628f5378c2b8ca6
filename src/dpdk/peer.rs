//! The process at the other end of a Unix socket.
//!
//! rustix asks for it too, and takes for granted that it has a number: one of another process
//! namespace has 0 here.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// A process as it was when it connected, or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// `None` for one of another process namespace.
    pub process: Option<u32>,
    pub user: u32,
}

impl Peer {
    /// The peer of a connected socket.
    pub fn of(socket: impl AsFd) -> Option<Self> {
        let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut length = size_of::<libc::ucred>() as u32;
        let (fd, into) = (socket.as_fd().as_raw_fd(), (&raw mut peer).cast());
        // SAFETY: the call writes at most `length` bytes of a structure of integers.
        let code = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, into, &mut length) };
        let process = u32::try_from(peer.pid).ok().filter(|&process| process > 0);
        (code == 0).then_some(Self { process, user: peer.uid })
    }
}
