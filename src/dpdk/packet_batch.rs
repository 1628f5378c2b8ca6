//! Many frames in one system call, between packet sockets and mbufs.

use std::{io, mem::size_of, ptr};

use super::{
    mbuf::Mbuf,
    mempool::Mempool,
    packet_socket::{PacketSocket, VnetHeader},
};
use crate::wire::BURST;
use crate::wire::Frame;

/// Frames fetched by one call.
const BATCH: usize = 32;
/// Longest frame that a kernel hands over, unless "BIG TCP" is configured.
const LARGEST: usize = 65_536 + 64;

/// Room for the one control message that is asked for, aligned as its header must be.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

struct Slot {
    header: VnetHeader,
    control: Control,
    parts: [libc::iovec; 3],
    mbuf: Option<Mbuf>,
    received: Received,
}

/// The kernel's metadata of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// Bytes of the frame, as it is in the buffers.
    pub length: usize,
    /// The frame was longer.
    pub truncated: bool,
    pub header: VnetHeader,
    /// The outermost VLAN tag, which the kernel has taken out: its TPID and TCI.
    pub vlan: Option<(u16, u16)>,
}

/// Received frames. A frame fills an mbuf from its start; what does not fit there goes to a buffer
/// that only lasts until the next call.
pub struct RxBatch {
    slots: Box<[Slot]>,
    messages: Box<[libc::mmsghdr]>,
    overflow: Box<[u8]>,
}

// SAFETY: the pointers inside lead to what the batch owns.
unsafe impl Send for RxBatch {}

impl Default for RxBatch {
    fn default() -> Self {
        let slot = |_| Slot {
            header: VnetHeader::default(),
            control: Control([0; 64]),
            parts: [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; 3],
            mbuf: None,
            received: Received::default(),
        };
        Self {
            slots: (0..BATCH).map(slot).collect(),
            messages: empty_messages(BATCH),
            overflow: vec![0; BATCH * LARGEST].into(),
        }
    }
}

impl RxBatch {
    /// Fetches waiting frames in place of the earlier ones; returns their number, which may be 0.
    /// When the pool has no buffer they stay with the kernel, which counts its own drops.
    pub fn receive(&mut self, socket: &PacketSocket, pool: &Mempool) -> io::Result<usize> {
        let ready = self.arm(pool);
        if ready == 0 {
            return Ok(0);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: `ready` messages are armed: their pointers lead to this batch's slots, overflow
        // and mbufs, of the lengths given, and all of these outlive the call.
        let got = unsafe {
            libc::recvmmsg(socket.fd(), self.messages.as_mut_ptr(), ready as u32, flags as _, ptr::null_mut())
        };
        if got < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) };
        }
        let got = got as usize;
        for (slot, message) in self.slots.iter_mut().zip(&self.messages).take(got) {
            slot.received = slot.read(message);
        }
        Ok(got)
    }

    /// Points each message to its slot's buffers; returns for how many slots there were mbufs.
    fn arm(&mut self, pool: &Mempool) -> usize {
        let messages = self.slots.iter_mut().zip(&mut self.messages);
        for (i, ((slot, message), overflow)) in messages.zip(self.overflow.chunks_exact_mut(LARGEST)).enumerate() {
            if slot.mbuf.is_none() {
                slot.mbuf = pool.alloc();
            }
            let Some(mbuf) = &mut slot.mbuf else { return i };
            slot.parts = [
                libc::iovec { iov_base: (&raw mut slot.header).cast(), iov_len: size_of::<VnetHeader>() },
                part(mbuf.room_mut()),
                part(overflow),
            ];
            message.msg_hdr.msg_iov = slot.parts.as_mut_ptr();
            message.msg_hdr.msg_iovlen = slot.parts.len() as _;
            message.msg_hdr.msg_control = slot.control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = slot.control.0.len() as _;
            message.msg_hdr.msg_flags = 0;
        }
        self.slots.len()
    }

    pub fn received(&self, i: usize) -> Received {
        self.slots[i].received
    }

    /// Frame `i` where it lies: in the mbuf, and behind.
    pub fn parts(&self, i: usize) -> (&[u8], &[u8]) {
        let slot = &self.slots[i];
        let Some(mbuf) = &slot.mbuf else { return (&[], &[]) };
        let (head, length) = (mbuf.room_ref(), slot.received.length);
        let in_head = length.min(head.len());
        (&head[..in_head], &self.overflow[i * LARGEST..][..length - in_head])
    }

    /// Frame `i` in its mbuf, `None` when it is longer.
    pub fn take(&mut self, i: usize) -> Option<Mbuf> {
        let slot = &mut self.slots[i];
        let mut mbuf = slot.mbuf.take_if(|mbuf| slot.received.length <= mbuf.room())?;
        mbuf.resize(slot.received.length).then_some(mbuf)
    }
}

impl Slot {
    fn read(&self, message: &libc::mmsghdr) -> Received {
        let whole = (message.msg_len as usize).saturating_sub(size_of::<VnetHeader>());
        let room = self.mbuf.as_ref().map_or(0, Mbuf::room) + LARGEST;
        Received {
            length: whole.min(room),
            truncated: whole > room || message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            header: self.header,
            vlan: vlan(&message.msg_hdr),
        }
    }
}

/// The VLAN tag in a message's auxiliary data.
fn vlan(message: &libc::msghdr) -> Option<(u16, u16)> {
    // SAFETY: the kernel has filled the control buffer and set its length; these look only within
    // it, and the copy is taken from a message of the right kind and length.
    let aux = unsafe {
        let control = libc::CMSG_FIRSTHDR(message);
        let right = !control.is_null()
            && (*control).cmsg_level == libc::SOL_PACKET
            && (*control).cmsg_type == libc::PACKET_AUXDATA
            && (*control).cmsg_len as usize >= libc::CMSG_LEN(size_of::<libc::tpacket_auxdata>() as u32) as usize;
        if !right {
            return None;
        }
        libc::CMSG_DATA(control).cast::<libc::tpacket_auxdata>().read_unaligned()
    };
    let tpid = if aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { aux.tp_vlan_tpid } else { 0x8100 };
    (aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then_some((tpid, aux.tp_vlan_tci))
}

/// Frames on their way out.
pub struct TxBatch {
    headers: Box<[VnetHeader]>,
    parts: Box<[[libc::iovec; 2]]>,
    messages: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers inside lead to what the batch owns, or are set anew before each use.
unsafe impl Send for TxBatch {}

impl Default for TxBatch {
    fn default() -> Self {
        let part = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self {
            headers: vec![VnetHeader::default(); BURST].into(),
            parts: vec![[part; 2]; BURST].into(),
            messages: empty_messages(BURST),
        }
    }
}

impl TxBatch {
    /// Sends frames from the first on, and returns how many the kernel took; an error is of the
    /// first alone. Of a frame in several segments only the first would be sent.
    pub fn send(
        &mut self,
        socket: &PacketSocket,
        frames: &[Mbuf],
        header: impl Fn(&Mbuf) -> VnetHeader,
    ) -> io::Result<usize> {
        let slots = self.headers.iter_mut().zip(&mut self.parts).zip(&mut self.messages);
        let mut count = 0;
        for (frame, ((vnet, parts), message)) in frames.iter().zip(slots) {
            *vnet = header(frame);
            let bytes = frame.bytes();
            *parts = [
                libc::iovec { iov_base: (&raw mut *vnet).cast(), iov_len: size_of::<VnetHeader>() },
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
            ];
            message.msg_hdr.msg_iov = parts.as_mut_ptr();
            message.msg_hdr.msg_iovlen = parts.len() as _;
            count += 1;
        }
        // SAFETY: `count` messages point to this batch's headers and to the frames' bytes, which
        // the kernel only reads.
        let sent = unsafe { libc::sendmmsg(socket.fd(), self.messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}

fn part(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn empty_messages(n: usize) -> Box<[libc::mmsghdr]> {
    // SAFETY: pointers and integers, for which zero is valid.
    (0..n).map(|_| unsafe { std::mem::zeroed() }).collect()
}

impl std::fmt::Debug for RxBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RxBatch").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TxBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TxBatch").finish_non_exhaustive()
    }
}
