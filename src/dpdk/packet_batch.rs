//! Many frames in one system call, between packet sockets and mbufs.

use std::{io, mem::size_of, ptr, sync::Arc};

use super::{
    mbuf::Mbuf,
    mempool::{Mempool, PoolOptions},
    packet_socket::{PacketSocket, VnetHeader},
};
use crate::wire::BURST;
use crate::wire::Frame;

/// Frames fetched by one call.
const BATCH: usize = 32;
/// Frames fetched by one call while large ones come, so that they stay in the cache until they have
/// been sent, and buffers for such frames that a queue needs: as many again are under way.
const LARGE_BATCH: usize = 8;
pub const LARGE_BUFFERS: u32 = 3 * LARGE_BATCH as u32;
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
    /// What does not fit there, in a buffer that packets can refer to.
    large: Option<Mbuf>,
    /// Packets may refer to it: it is not written any more.
    lent: bool,
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

/// Received frames. A frame fills an mbuf from its start; what does not fit there goes to a large
/// one, or where there is none to a buffer that only lasts until the next call.
pub struct RxBatch {
    slots: Box<[Slot]>,
    messages: Box<[libc::mmsghdr]>,
    overflow: Box<[u8]>,
    /// Where large buffers come from, if frames that fill them are to be kept there.
    large: Option<Arc<Mempool>>,
    /// Frames to fetch by the next call.
    batch: usize,
}

// SAFETY: the pointers inside lead to what the batch owns.
unsafe impl Send for RxBatch {}

impl RxBatch {
    /// `large`: buffers of [`Self::large_buffers`].
    pub fn new(large: Option<Arc<Mempool>>) -> Self {
        let slot = |_| Slot {
            header: VnetHeader::default(),
            control: Control([0; 64]),
            parts: [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; 3],
            mbuf: None,
            large: None,
            lent: false,
            received: Received::default(),
        };
        Self {
            slots: (0..BATCH).map(slot).collect(),
            messages: empty_messages(BATCH),
            overflow: vec![0; BATCH * LARGEST].into(),
            large,
            batch: BATCH,
        }
    }

    /// Buffers for the large frames of so many queues.
    pub fn large_buffers(queues: u16) -> PoolOptions {
        PoolOptions::for_mtu(LARGE_BUFFERS * u32::from(queues), u16::MAX)
    }

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
        let mut large = false;
        for (slot, message) in self.slots.iter_mut().zip(&self.messages).take(got) {
            slot.received = slot.read(message);
            large |= slot.mbuf.as_ref().is_some_and(|mbuf| slot.received.length > mbuf.room());
        }
        self.batch = if large && self.large.is_some() { LARGE_BATCH } else { BATCH };
        Ok(got)
    }

    /// Points each message to its slot's buffers; returns for how many slots there were mbufs.
    fn arm(&mut self, pool: &Mempool) -> usize {
        let messages = self.slots.iter_mut().zip(&mut self.messages).take(self.batch);
        for (i, ((slot, message), overflow)) in messages.zip(self.overflow.chunks_exact_mut(LARGEST)).enumerate() {
            if slot.mbuf.is_none() {
                slot.mbuf = pool.alloc();
            }
            if std::mem::take(&mut slot.lent) {
                slot.large = None;
            }
            if let (None, true, Some(large)) = (&slot.large, i < LARGE_BATCH, &self.large) {
                slot.large = large.alloc();
            }
            let Some(mbuf) = &mut slot.mbuf else { return i };
            slot.parts = [
                libc::iovec { iov_base: (&raw mut slot.header).cast(), iov_len: size_of::<VnetHeader>() },
                part(mbuf.room_mut()),
                part(slot.large.as_mut().map_or(overflow, Mbuf::room_mut)),
            ];
            message.msg_hdr.msg_iov = slot.parts.as_mut_ptr();
            message.msg_hdr.msg_iovlen = slot.parts.len() as _;
            message.msg_hdr.msg_control = slot.control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = slot.control.0.len() as _;
            message.msg_hdr.msg_flags = 0;
        }
        self.batch
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
        let rest = slot.large.as_ref().map_or(&self.overflow[i * LARGEST..], Mbuf::room_ref);
        (&head[..in_head], &rest[..length - in_head])
    }

    /// Appends the bytes `at..at + length` of frame `i` to a packet without a copy. False, and
    /// nothing changed, when they do not lie in a large buffer, or the pool has no mbuf for it.
    pub fn append(&mut self, i: usize, at: usize, length: usize, packet: &mut Mbuf, pool: &Mempool) -> bool {
        let slot = &mut self.slots[i];
        let (Some(mbuf), Some(large)) = (&slot.mbuf, &slot.large) else { return false };
        let end = at + length;
        let Some(at) = at.checked_sub(mbuf.room()).filter(|_| end <= slot.received.length) else { return false };
        slot.lent = true;
        // SAFETY: a buffer that was received into holds `received.length` bytes behind those of the
        // first, and so this part; it is fewer than 2^16 bytes long. A slot that has lent its buffer
        // gives it up before it is armed again, and until then only reads it.
        unsafe { packet.append_part(large, at as u16, length as u16, pool) }
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
        let room = self.mbuf.as_ref().map_or(0, Mbuf::room) + self.large.as_ref().map_or(LARGEST, Mbuf::room);
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

/// Longest headers of a large frame that is made of several packets: Ethernet, IP, TCP with all
/// options.
pub const JOINED_HEADERS: usize = 128;
/// Segments of a packet at most that is sent as it lies.
pub const TX_SEGMENTS: usize = 2;
/// Parts of a packet, and of the message that it is in.
const TX_PARTS: usize = TX_SEGMENTS + 2;

/// What the kernel is to be given next: so many packets as one frame.
pub struct Run {
    pub packets: usize,
    pub header: VnetHeader,
    /// Bytes of headers that the frame has in place of those that each packet begins with. None
    /// where a packet goes as it is.
    pub joined: usize,
}

impl Run {
    /// One packet as it is.
    pub fn single(header: VnetHeader) -> Self {
        Self { packets: 1, header, joined: 0 }
    }
}

/// Frames on their way out.
pub struct TxBatch {
    headers: Box<[VnetHeader]>,
    parts: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
    /// Headers of frames that are made of several packets.
    joined: Box<[[u8; JOINED_HEADERS]]>,
    /// Packets in each message.
    packets: Box<[u8]>,
}

// SAFETY: the pointers inside lead to what the batch owns, or are set anew before each use.
unsafe impl Send for TxBatch {}

impl Default for TxBatch {
    fn default() -> Self {
        let part = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self {
            headers: vec![VnetHeader::default(); BURST].into(),
            parts: vec![part; BURST * TX_PARTS].into(),
            messages: empty_messages(BURST),
            joined: vec![[0; JOINED_HEADERS]; BURST].into(),
            packets: vec![0; BURST].into(),
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
        let slots = self.headers.iter_mut().zip(self.parts.chunks_exact_mut(TX_PARTS)).zip(&mut self.messages);
        let mut count = 0;
        for (frame, ((vnet, parts), message)) in frames.iter().zip(slots) {
            *vnet = header(frame);
            let parts = &mut parts[..2];
            parts[0] = vnet_part(vnet);
            parts[1] = sent_part(frame.bytes());
            message.msg_hdr.msg_iov = parts.as_mut_ptr();
            message.msg_hdr.msg_iovlen = parts.len() as _;
            count += 1;
        }
        // SAFETY: `count` messages point to this batch's headers and to the frames' bytes, which
        // the kernel only reads.
        let sent = unsafe { libc::sendmmsg(socket.fd(), self.messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    /// As [`Self::send`], of packets with up to [`TX_SEGMENTS`] segments, several of which may be
    /// one frame for the kernel: `next` says what to make of the front of the packets that it is
    /// given, with headers for that. Returns how many packets the kernel took.
    pub fn send_runs(
        &mut self,
        socket: &PacketSocket,
        packets: &[Mbuf],
        mut next: impl FnMut(&[Mbuf], &mut [u8; JOINED_HEADERS]) -> Run,
    ) -> io::Result<usize> {
        let (mut rest, mut count, mut used) = (packets, 0, 0);
        while !rest.is_empty() && count < self.messages.len() {
            let joined = &mut self.joined[count];
            let run = next(rest, joined);
            let taken = run.packets.clamp(1, rest.len());
            self.headers[count] = run.header;
            let first = used;
            let mut put = |part| {
                self.parts[used] = part;
                used += 1;
            };
            put(vnet_part(&mut self.headers[count]));
            if run.joined > 0 {
                put(sent_part(&joined[..run.joined]));
            }
            for packet in &rest[..taken] {
                for (i, bytes) in packet.parts().take(TX_SEGMENTS).enumerate() {
                    put(sent_part(if i == 0 { bytes.get(run.joined..).unwrap_or_default() } else { bytes }));
                }
            }
            let message = &mut self.messages[count].msg_hdr;
            message.msg_iov = self.parts[first..].as_mut_ptr();
            message.msg_iovlen = (used - first) as _;
            self.packets[count] = taken as u8;
            (rest, count) = (&rest[taken..], count + 1);
        }
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: `count` messages point to this batch's headers and to the packets' bytes, which
        // the kernel only reads.
        let sent = unsafe { libc::sendmmsg(socket.fd(), self.messages.as_mut_ptr(), count as u32, flags) };
        let took = |sent| self.packets.iter().take(sent).map(|&packets| usize::from(packets)).sum();
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(took(sent as usize)) }
    }

    /// Packets in the first message of the last [`Self::send_runs`].
    pub fn first_run(&self) -> usize {
        self.packets[0].into()
    }
}

fn vnet_part(header: &mut VnetHeader) -> libc::iovec {
    libc::iovec { iov_base: (&raw mut *header).cast(), iov_len: size_of::<VnetHeader>() }
}

/// Bytes that the kernel only reads.
fn sent_part(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
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
