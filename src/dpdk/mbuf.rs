//! One packet buffer, owned.

use std::{
    fmt,
    mem::ManuallyDrop,
    ptr::NonNull,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use arrayvec::ArrayVec;

use super::{error::DpdkError, mempool::Mempool, sys};
use crate::wire::{BURST, Frame};

/// Packets that travel together.
pub type Burst = ArrayVec<Mbuf, BURST>;

/// A packet in a DPDK buffer: the only owner of its chain of segments. Returned to its pool when
/// dropped.
///
/// It is a pointer to an `rte_mbuf` and nothing else, so that a burst of them goes to a driver as
/// it is.
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::rte_mbuf>);

// SAFETY: an mbuf belongs to no thread, and a pool takes it back from any.
unsafe impl Send for Mbuf {}
// SAFETY: shared access only reads.
unsafe impl Sync for Mbuf {}

/// Where mbufs say for how long they were held back: the field's offset, and its flag, which is 0
/// until both are [registered](register_held).
static HELD: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Reserves the field of [`Mbuf::set_held_ns`] in all mbufs. Without room for it none is held back,
/// as far as they say. Once EAL runs.
pub(super) fn register_held() {
    // SAFETY: EAL runs; the calls reserve a field and a flag under weir's own names.
    let (field, flag) = unsafe { (sys::weir_held_field(), sys::weir_held_flag()) };
    match (u64::try_from(field), u32::try_from(flag)) {
        (Ok(field), Ok(flag)) if flag < u64::BITS => {
            HELD[0].store(field, Relaxed);
            HELD[1].store(1 << flag, Release);
        }
        _ => tracing::warn!("{}", DpdkError::last("rte_mbuf_dynfield_register")),
    }
}

impl Mbuf {
    /// Says for how long the packet was held back since its device received it, in nanoseconds.
    #[inline]
    pub fn set_held_ns(&mut self, held_ns: u32) {
        let flag = HELD[1].load(Acquire);
        if flag != 0 {
            // SAFETY: a uint32_t field that is registered, and the uint64_t flags, of which the
            // registered one belongs to it.
            unsafe {
                self.set(HELD[0].load(Relaxed) as u32, held_ns);
                self.set(sys::WEIR_MBUF_OL_FLAGS, self.flags() | flag);
            }
        }
    }

    /// # Safety
    /// The chain must be valid, with reference count 1, and have no other owner.
    pub(super) unsafe fn from_raw(mbuf: NonNull<sys::rte_mbuf>) -> Self {
        Self(mbuf)
    }

    /// # Safety
    /// `offset` must be that of a field of type `T`.
    #[inline(always)]
    unsafe fn get<T: Copy>(&self, offset: u32) -> T {
        // SAFETY: the mbuf is valid while we own it, and the caller names one of its fields.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset as usize).cast::<T>().read() }
    }

    /// # Safety
    /// `offset` must be that of a field of type `T`, and `value` must keep the mbuf valid.
    #[inline(always)]
    unsafe fn set<T: Copy>(&mut self, offset: u32, value: T) {
        // SAFETY: the mbuf is ours alone, and the caller names one of its fields.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset as usize).cast::<T>().write(value) }
    }

    #[inline(always)]
    fn data_len(&self) -> u16 {
        // SAFETY: a uint16_t field.
        unsafe { self.get(sys::WEIR_MBUF_DATA_LEN) }
    }

    #[inline(always)]
    fn data_start(&self) -> *mut u8 {
        // SAFETY: the data begins data_off bytes into the buffer, which is longer than that.
        unsafe { self.get::<*mut u8>(sys::WEIR_MBUF_BUF_ADDR).add(self.headroom()) }
    }

    /// Free bytes in front of the frame.
    #[inline]
    pub fn headroom(&self) -> usize {
        // SAFETY: a uint16_t field.
        usize::from(unsafe { self.get::<u16>(sys::WEIR_MBUF_DATA_OFF) })
    }

    /// Bytes from the start of the frame to the end of the buffer.
    #[inline]
    pub fn room(&self) -> usize {
        // SAFETY: a uint16_t field.
        let buffer = unsafe { self.get::<u16>(sys::WEIR_MBUF_BUF_LEN) };
        usize::from(buffer) - self.headroom()
    }

    /// The whole of [`Self::room`], what lies in the frame and what may still.
    #[inline]
    pub(crate) fn room_mut(&mut self) -> &mut [u8] {
        // SAFETY: within the buffer, ours alone, and initialised: pools lie in memory that the
        // kernel zeroed.
        unsafe { std::slice::from_raw_parts_mut(self.data_start(), self.room()) }
    }

    /// The whole of [`Self::room`], to be read.
    #[inline]
    pub(crate) fn room_ref(&self) -> &[u8] {
        // SAFETY: within the buffer, and initialised: pools lie in memory that the kernel zeroed.
        unsafe { std::slice::from_raw_parts(self.data_start(), self.room()) }
    }

    /// Makes the frame the first `length` bytes of [`Self::room`]. False, and nothing changed, when
    /// that is too short or the frame has several segments.
    #[inline]
    pub fn resize(&mut self, length: usize) -> bool {
        let fits = length <= self.room() && self.segments() == 1;
        if fits {
            // SAFETY: uint16_t and uint32_t fields; a buffer is shorter than 64 KiB, and the length
            // within it.
            unsafe {
                self.set(sys::WEIR_MBUF_DATA_LEN, length as u16);
                self.set(sys::WEIR_MBUF_PKT_LEN, length as u32);
            }
        }
        fits
    }

    /// Makes `bytes` the frame. False, and nothing changed, when they do not fit.
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        let fits = self.resize(bytes.len());
        if fits {
            self.bytes_mut().copy_from_slice(bytes);
        }
        fits
    }

    /// Number of buffers that the frame is spread over: 1 unless it was longer than a buffer when
    /// received, or is a packet of a large frame whose payload stays where that was received.
    #[inline]
    pub fn segments(&self) -> u16 {
        // SAFETY: a uint16_t field.
        unsafe { self.get(sys::WEIR_MBUF_NB_SEGS) }
    }

    /// Moves all segments into the first. False, and nothing changed, when they do not fit there.
    pub fn linearize(&mut self) -> bool {
        // SAFETY: the chain is valid and ours alone; the segments behind the first are returned to
        // their pools.
        self.segments() == 1 || unsafe { sys::weir_pktmbuf_linearize(self.0.as_ptr()) == 0 }
    }

    /// Appends `length` bytes from `at` on of another buffer, without a copy. False, and nothing
    /// changed, when the pool has no mbuf to refer to them.
    ///
    /// # Safety
    /// `at + length` is at most [`room`](Self::room) of `whole`, whose bytes nobody writes from now
    /// on until it is back in its pool, and `whole` is one buffer.
    pub(super) unsafe fn append_part(&mut self, whole: &Self, at: u16, length: u16, pool: &Mempool) -> bool {
        // SAFETY: the chain is ours alone and its segments are fewer than 2^16; the part lies within
        // the other buffer, which the call counts a reference to, and will not be written, as the
        // caller vouches.
        unsafe { sys::weir_pktmbuf_append_part(self.0.as_ptr(), whole.0.as_ptr(), pool.as_ptr(), at, length) == 0 }
    }

    /// The bytes of each segment in turn, the first of which are [`Frame::bytes`].
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut next = Some(self.0);
        std::iter::from_fn(move || {
            let segment = ManuallyDrop::new(Self(next?));
            // SAFETY: a pointer field, of a segment of our chain, which is valid while we own that;
            // the iterator borrows it. This `Mbuf`, which is not dropped, only reads.
            next = NonNull::new(unsafe { segment.get::<*mut sys::rte_mbuf>(sys::WEIR_MBUF_NEXT) });
            // SAFETY: the segment's data, which nobody writes while the chain is borrowed.
            Some(unsafe { std::slice::from_raw_parts(segment.data_start(), usize::from(segment.data_len())) })
        })
    }

    /// DPDK's offload flags.
    #[inline]
    pub fn flags(&self) -> u64 {
        // SAFETY: a uint64_t field.
        unsafe { self.get(sys::WEIR_MBUF_OL_FLAGS) }
    }

    /// The transport checksum is not computed yet, though the payload is known to be good: a packet
    /// of a local sender that left the sum to a NIC it never met. Its checksum field holds the sum
    /// of the pseudo-header.
    #[inline]
    pub fn needs_checksum(&self) -> bool {
        self.flags() & sys::WEIR_RX_L4_CKSUM_MASK == sys::WEIR_RX_L4_CKSUM_NONE
    }

    #[inline]
    pub fn set_needs_checksum(&mut self, needs: bool) {
        let cleared = self.flags() & !sys::WEIR_RX_L4_CKSUM_MASK;
        let flags = if needs { cleared | sys::WEIR_RX_L4_CKSUM_NONE } else { cleared };
        // SAFETY: a uint64_t field; these flags describe the payload only.
        unsafe { self.set(sys::WEIR_MBUF_OL_FLAGS, flags) }
    }

    /// The tag that the NIC took out of the frame, taken from the mbuf: to be put back.
    #[inline]
    pub fn take_stripped_vlan(&mut self) -> Option<u16> {
        let flags = self.flags();
        if flags & sys::WEIR_RX_VLAN_STRIPPED == 0 {
            return None;
        }
        // SAFETY: a uint64_t field; without the flag the tag is in the frame or nowhere.
        unsafe { self.set(sys::WEIR_MBUF_OL_FLAGS, flags & !sys::WEIR_RX_VLAN_STRIPPED) };
        // SAFETY: a uint16_t field.
        Some(unsafe { self.get(sys::WEIR_MBUF_VLAN_TCI) })
    }

    #[inline]
    fn total_len(&self) -> u32 {
        // SAFETY: a uint32_t field.
        unsafe { self.get(sys::WEIR_MBUF_PKT_LEN) }
    }

    /// Moves the start of the frame; the caller has checked that it stays within the buffer.
    ///
    /// # Safety
    /// `headroom` bytes lie in front of the new start, and the first segment becomes `data` bytes
    /// long.
    #[inline]
    unsafe fn place(&mut self, headroom: usize, data: u16, total: u32) {
        // SAFETY: fields of these types; the caller vouches for the values.
        unsafe {
            self.set(sys::WEIR_MBUF_DATA_OFF, headroom as u16);
            self.set(sys::WEIR_MBUF_DATA_LEN, data);
            self.set(sys::WEIR_MBUF_PKT_LEN, total);
        }
    }
}

impl Frame for Mbuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: the first segment's data, valid while we own the mbuf.
        unsafe { std::slice::from_raw_parts(self.data_start(), usize::from(self.data_len())) }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the first segment's data, ours alone.
        unsafe { std::slice::from_raw_parts_mut(self.data_start(), usize::from(self.data_len())) }
    }

    #[inline]
    fn wire_len(&self) -> usize {
        self.total_len() as usize
    }

    #[inline]
    fn headroom(&self) -> usize {
        Mbuf::headroom(self)
    }

    #[inline]
    fn grow_front(&mut self, n: usize) -> bool {
        let headroom = self.headroom();
        let fits = n <= headroom;
        if fits {
            // SAFETY: as many bytes are free in front; n fits u16 because the headroom does.
            unsafe { self.place(headroom - n, self.data_len() + n as u16, self.total_len() + n as u32) };
        }
        fits
    }

    #[inline]
    fn shrink_front(&mut self, n: usize) -> bool {
        let fits = n <= usize::from(self.data_len());
        if fits {
            // SAFETY: as many bytes are in the first segment; n fits u16 because its length does.
            unsafe { self.place(self.headroom() + n, self.data_len() - n as u16, self.total_len() - n as u32) };
        }
        fits
    }

    #[inline]
    fn resize(&mut self, length: usize) -> bool {
        self.linearize() && Mbuf::resize(self, length)
    }

    fn gather(&mut self) -> bool {
        self.linearize()
    }

    #[inline]
    fn held_ns(&self) -> u32 {
        if self.flags() & HELD[1].load(Relaxed) == 0 {
            return 0;
        }
        // SAFETY: a uint32_t field that is registered, as its flag says. Drivers clear the flag of
        // each packet that they receive.
        unsafe { self.get(HELD[0].load(Relaxed) as u32) }
    }

    fn duplicate(&self) -> Option<Self> {
        // SAFETY: the mbuf is valid, so its pool is; the call copies all bytes and flags into a
        // chain of its own.
        let copy = unsafe { sys::rte_pktmbuf_copy(self.0.as_ptr(), self.get(sys::WEIR_MBUF_POOL), 0, u32::MAX) };
        NonNull::new(copy).map(Self)
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: we own the chain and forget it here.
        unsafe { sys::weir_pktmbuf_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbuf").field("length", &self.wire_len()).field("segments", &self.segments()).finish()
    }
}

/// Frees all packets of the burst at once, which costs less than one by one.
#[inline]
pub fn free_burst(burst: &mut Burst) {
    let count = burst.len();
    // SAFETY: the burst owns `count` chains and forgets them first; an `Mbuf` is a pointer to an
    // mbuf.
    unsafe {
        burst.set_len(0);
        sys::weir_pktmbuf_free_bulk(burst.as_mut_ptr().cast(), count as u32);
    }
}
