//! Packet sockets: an interface of the kernel, with its offloads on, as a source and sink of mbufs.
//!
//! DPDK's own driver for them (net_af_packet, 22.11) cuts large frames off at its frame size and
//! forgets that a checksum is still to be computed, which breaks TCP across a veth. Here each frame
//! comes with the kernel's word on both.

use std::{
    io,
    mem::size_of,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
};

use super::interface::{Interface, SocketError};

/// Bytes that the kernel may hold while a worker is busy, if it allows as much.
const BUFFER_BYTES: i32 = 16 << 20;

/// `struct virtio_net_hdr`, in host byte order: the kernel's word on a frame's checksum and
/// segmentation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    pub flags: u8,
    pub gso_type: u8,
    pub header_len: u16,
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
}

impl VnetHeader {
    const NEEDS_CSUM: u8 = 1;
    const ECN: u8 = 0x80;
    pub const TCP4: u8 = 1;
    pub const TCP6: u8 = 4;
    pub const UDP: u8 = 5;

    /// The checksum is to be computed from `start` on and written `offset` bytes further.
    pub fn partial(start: usize, offset: usize) -> Self {
        Self { flags: Self::NEEDS_CSUM, csum_start: start as u16, csum_offset: offset as u16, ..Self::default() }
    }

    /// For a large frame, with headers of this length, whose packets have so much payload each. The
    /// checksum is to be completed in each. `with_cwr`: the first packet alone has CWR.
    pub fn segmented(kind: u8, with_cwr: bool, header: usize, payload: usize, checksum: (usize, usize)) -> Self {
        Self {
            gso_type: kind | if with_cwr { Self::ECN } else { 0 },
            header_len: header as u16,
            gso_size: payload as u16,
            ..Self::partial(checksum.0, checksum.1)
        }
    }

    /// The start of a checksum's range, and the offset of its field from there.
    pub fn checksum(&self) -> Option<(usize, usize)> {
        let needs = self.flags & Self::NEEDS_CSUM != 0;
        needs.then_some((self.csum_start.into(), self.csum_offset.into()))
    }

    /// The kind of segmentation, 0 for none.
    pub fn segmentation(&self) -> u8 {
        self.gso_type & !Self::ECN
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// With the identifier of the group of sockets that share the interface's packets, if there are
    /// several.
    Receive {
        promiscuous: bool,
        group: Option<u16>,
    },
    Transmit,
}

/// A socket bound to one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    missed: AtomicU64,
}

impl PacketSocket {
    pub fn open(interface: &Interface, direction: Direction) -> Result<Self, SocketError> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // Protocol 0, so that nothing comes in until the socket is bound to its interface.
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(interface.error("socket(AF_PACKET)"));
        }
        // SAFETY: a new descriptor without another owner.
        let socket = Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, missed: AtomicU64::new(0) };
        let failed = |call| interface.error(call);
        socket.set(libc::PACKET_VNET_HDR, &1).map_err(|_| failed("PACKET_VNET_HDR"))?;
        match direction {
            Direction::Receive { promiscuous, group } => socket.receive_from(interface, promiscuous, group)?,
            Direction::Transmit => {
                socket.enlarge(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
                socket.set(libc::PACKET_QDISC_BYPASS, &1).map_err(|_| failed("PACKET_QDISC_BYPASS"))?;
                socket.bind(interface, 0)?;
            }
        }
        Ok(socket)
    }

    fn receive_from(&self, interface: &Interface, promiscuous: bool, group: Option<u16>) -> Result<(), SocketError> {
        let failed = |call| interface.error(call);
        self.enlarge(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF);
        self.set(libc::PACKET_AUXDATA, &1).map_err(|_| failed("PACKET_AUXDATA"))?;
        // Since Linux 4.20; without it weir would receive and forward its own packets.
        self.set(libc::PACKET_IGNORE_OUTGOING, &1).map_err(|_| failed("PACKET_IGNORE_OUTGOING"))?;
        if promiscuous {
            self.set_promiscuous(interface, true)?;
        }
        self.bind(interface, libc::ETH_P_ALL as u16)?;
        if let Some(group) = group {
            let fanout = i32::from(group) | (libc::PACKET_FANOUT_HASH as i32) << 16;
            self.set(libc::PACKET_FANOUT, &fanout).map_err(|_| failed("PACKET_FANOUT"))?;
        }
        Ok(())
    }

    /// Asks the kernel to take frames for other MAC addresses in, or no longer: as long as one
    /// socket asks, it does.
    pub fn set_promiscuous(&self, interface: &Interface, on: bool) -> Result<(), SocketError> {
        let member = libc::packet_mreq {
            mr_ifindex: interface.index(),
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let option = if on { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        match self.set(option, &member) {
            // It was no member.
            Err(error) if !on && error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Ok(()),
            set => set.map_err(|_| interface.error("PACKET_MR_PROMISC")),
        }
    }

    fn bind(&self, interface: &Interface, protocol: u16) -> Result<(), SocketError> {
        // SAFETY: integers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = interface.index();
        let length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: an address of the length given.
        let code = unsafe { libc::bind(self.fd(), (&raw const address).cast(), length) };
        if code < 0 { Err(interface.error("bind")) } else { Ok(()) }
    }

    /// Whether it is bound to the interface still. It is not once the interface has left the network
    /// namespace, also when that comes back.
    pub fn is_bound(&self, interface: &Interface) -> bool {
        // SAFETY: integers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the call writes at most `length` bytes.
        let code = unsafe { libc::getsockname(self.fd(), (&raw mut address).cast(), &mut length) };
        code == 0 && address.sll_ifindex == interface.index()
    }

    /// As large as a privileged process may, else as large as the system's limit.
    fn enlarge(&self, force: i32, ask: i32) {
        if self.option(libc::SOL_SOCKET, force, &BUFFER_BYTES).is_err() {
            // A small buffer loses packets, which are counted; it is no reason not to run.
            let _ = self.option(libc::SOL_SOCKET, ask, &BUFFER_BYTES);
        }
    }

    fn set<T>(&self, name: i32, value: &T) -> io::Result<()> {
        self.option(libc::SOL_PACKET, name, value)
    }

    fn option<T>(&self, level: i32, name: i32, value: &T) -> io::Result<()> {
        // SAFETY: a value of the length given, which the kernel only reads.
        let code =
            unsafe { libc::setsockopt(self.fd(), level, name, (&raw const *value).cast(), size_of::<T>() as u32) };
        if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The descriptor, open as long as the socket lives.
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Packets that found the socket's buffer full, since it was opened.
    pub fn missed(&self) -> u64 {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as u32;
        // SAFETY: the call writes at most `length` bytes.
        let code = unsafe {
            libc::getsockopt(self.fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, (&raw mut stats).cast(), &mut length)
        };
        // The kernel's counters start again at every look.
        let new = if code < 0 { 0 } else { u64::from(stats.tp_drops) };
        self.missed.fetch_add(new, Ordering::Relaxed) + new
    }
}
