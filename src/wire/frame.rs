//! A frame: the bytes of one packet with room in front of them.

/// One packet, from the destination MAC on, in a buffer that has headroom.
///
/// An mbuf is one when live, a [`HeapFrame`] in replay, simulation and tests; the dataplane is
/// compiled for each.
pub trait Frame: Sized {
    /// The contiguous bytes from the destination MAC on. All headers lie here; of a frame in
    /// several segments only the first is shown.
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Length on the wire in bytes without the FCS, all segments together.
    fn wire_len(&self) -> usize;
    /// Bytes that can be opened in front.
    fn headroom(&self) -> usize;
    /// Opens `n` bytes in front, their content unspecified. False, and nothing changed, when the
    /// headroom is too small.
    fn grow_front(&mut self, n: usize) -> bool;
    /// Removes `n` bytes at the front. False, and nothing changed, when there are not as many.
    fn shrink_front(&mut self, n: usize) -> bool;
    /// Makes the frame `length` bytes long: cuts its end, or appends unspecified bytes. False, and
    /// the frame unchanged, when the buffer has no such room.
    fn resize(&mut self, length: usize) -> bool;
    /// Brings all of the frame into [`Self::bytes`], for work on more than headers. False, and
    /// nothing changed, when they are not to be had in one buffer.
    fn gather(&mut self) -> bool {
        self.bytes().len() == self.wire_len()
    }
    /// A copy in a buffer of its own, `None` when no buffer is to be had.
    fn duplicate(&self) -> Option<Self>;
    /// Nanoseconds for which the driver held it back after it had received it.
    #[inline(always)]
    fn held_ns(&self) -> u32 {
        0
    }
    /// Its own time in nanoseconds, of a frame that has another one than its burst.
    #[inline(always)]
    fn at_ns(&self) -> Option<u64> {
        None
    }
    /// Takes the digest of a packet that leaves by a host port, which the host never sees, and the
    /// [`identity`](super::identity) of the packet.
    #[inline(always)]
    fn take_digest(&mut self, _identity: u32, _digest: u16) {}
}

/// Headroom of a [`HeapFrame`] in bytes, as DPDK's default.
const HEADROOM: usize = 128;

/// A frame on the heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapFrame {
    buffer: Vec<u8>,
    start: usize,
    /// Bytes at the end of the packet that a capture left out.
    missing: usize,
    at_ns: Option<u64>,
    held_ns: u32,
}

impl HeapFrame {
    pub fn new(bytes: &[u8]) -> Self {
        let buffer = Vec::with_capacity(HEADROOM + bytes.len());
        let mut frame = Self { buffer, start: HEADROOM, missing: 0, at_ns: None, held_ns: 0 };
        frame.refill(bytes);
        frame
    }

    /// Puts another packet into the same buffer.
    pub fn refill(&mut self, bytes: &[u8]) {
        self.refill_cut(bytes, bytes.len());
    }

    /// Puts another packet into the same buffer: the first bytes of one that was `wire_len` bytes
    /// long on the wire.
    pub fn refill_cut(&mut self, bytes: &[u8], wire_len: usize) {
        self.buffer.resize(HEADROOM, 0);
        self.buffer.extend_from_slice(bytes);
        self.start = HEADROOM;
        self.missing = wire_len.saturating_sub(bytes.len());
        self.at_ns = None;
        self.held_ns = 0;
    }

    /// Gives the packet a time of its own.
    pub fn set_at_ns(&mut self, at_ns: u64) {
        self.at_ns = Some(at_ns);
    }

    /// Sets [`Frame::held_ns`] of the packet.
    pub fn set_held_ns(&mut self, held_ns: u32) {
        self.held_ns = held_ns;
    }
}

impl Frame for HeapFrame {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..]
    }

    #[inline]
    fn wire_len(&self) -> usize {
        self.buffer.len() - self.start + self.missing
    }

    #[inline]
    fn headroom(&self) -> usize {
        self.start
    }

    #[inline]
    fn grow_front(&mut self, n: usize) -> bool {
        let fits = n <= self.start;
        if fits {
            self.start -= n;
        }
        fits
    }

    #[inline]
    fn shrink_front(&mut self, n: usize) -> bool {
        let fits = n <= self.bytes().len();
        if fits {
            self.start += n;
        }
        fits
    }

    fn resize(&mut self, length: usize) -> bool {
        self.buffer.resize(self.start + length, 0);
        self.missing = 0;
        true
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }

    #[inline]
    fn held_ns(&self) -> u32 {
        self.held_ns
    }

    #[inline]
    fn at_ns(&self) -> Option<u64> {
        self.at_ns
    }
}
