//! A pool of packet buffers of one size.

use std::{
    ffi::CString,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

use super::{
    eal::Eal,
    error::DpdkError,
    mbuf::{Burst, Mbuf},
    sys,
};
use crate::wire::FABRIC_L2_OVERHEAD;

/// Buffers that each registered thread keeps for itself; a cache this long holds several bursts.
const CACHE: u32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Number of buffers.
    pub mbufs: u32,
    /// Longest frame in bytes that fits one buffer.
    pub frame_bytes: u16,
}

impl PoolOptions {
    /// Buffers that hold a whole frame of the MTU (at most 65,000) with its tags.
    pub fn for_mtu(mbufs: u32, mtu: u16) -> Self {
        let frame = (u32::from(mtu) + FABRIC_L2_OVERHEAD).next_multiple_of(64).clamp(2048, 65_280);
        Self { mbufs, frame_bytes: u16::try_from(frame).expect("clamped") }
    }

    /// Largest MTU whose frames fit one buffer, tags and all.
    pub fn mtu(&self) -> u16 {
        self.frame_bytes - FABRIC_L2_OVERHEAD as u16
    }

    /// Memory that the pool takes, roughly: to size EAL's.
    pub fn bytes(&self) -> u64 {
        let each = u64::from(self.frame_bytes) + u64::from(sys::WEIR_MBUF_HEADROOM + sys::WEIR_MBUF_SIZE) + 128;
        u64::from(self.mbufs) * each
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self::for_mtu(16_383, 1500)
    }
}

/// Packet buffers. Threads registered with EAL take and return them through a cache of their own.
#[derive(Debug)]
pub struct Mempool {
    pool: NonNull<sys::rte_mempool>,
    options: PoolOptions,
    eal: Eal,
}

// SAFETY: DPDK's pools are made for use by many threads; its caches belong to one registered thread
// each.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

impl Mempool {
    pub fn new(eal: &Eal, options: PoolOptions) -> Result<Self, DpdkError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("weir{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(name).expect("no zero byte");
        let cache = CACHE.min(options.mbufs / 8);
        let room = u32::from(options.frame_bytes) + sys::WEIR_MBUF_HEADROOM;
        let room = u16::try_from(room).map_err(|_| DpdkError::new("Mempool::new", libc::EINVAL))?;
        let flags = if eal.has_huge_pages() { 0 } else { sys::RTE_MEMPOOL_F_NO_IOVA_CONTIG };
        // SAFETY: EAL runs, the name is a C string; -1 is any NUMA node.
        let pool = unsafe { sys::weir_pktmbuf_pool_create(name.as_ptr(), options.mbufs, cache, room, -1, flags) };
        let pool = NonNull::new(pool).ok_or_else(|| DpdkError::last("rte_pktmbuf_pool_create"))?;
        Ok(Self { pool, options, eal: eal.clone() })
    }

    /// An empty buffer, `None` when the pool has none left.
    #[inline]
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool lives as long as `self`; the buffer returned is ours alone.
        NonNull::new(unsafe { sys::weir_pktmbuf_alloc(self.pool.as_ptr()) }).map(|mbuf| unsafe { Mbuf::from_raw(mbuf) })
    }

    /// Appends `n` empty buffers to the burst, or none. False when the pool, or the burst, has not
    /// as many.
    pub fn alloc_bulk(&self, burst: &mut Burst, n: usize) -> bool {
        if burst.remaining_capacity() < n {
            return false;
        }
        let length = burst.len();
        // SAFETY: `n` places are free behind `length`; an `Mbuf` is a pointer to an mbuf, which the
        // call stores there.
        unsafe {
            let free = burst.as_mut_ptr().add(length).cast();
            let got = sys::weir_pktmbuf_alloc_bulk(self.pool.as_ptr(), free, n as u32) == 0;
            if got {
                burst.set_len(length + n);
            }
            got
        }
    }

    /// Buffers that are not in use, those in threads' caches included. Slow: for tests and reports.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        unsafe { sys::rte_mempool_avail_count(self.pool.as_ptr()) }
    }

    pub fn capacity(&self) -> u32 {
        self.options.mbufs
    }

    /// Longest frame in bytes that fits one buffer.
    pub fn frame_bytes(&self) -> u16 {
        self.options.frame_bytes
    }

    /// Largest MTU whose frames fit one buffer, tags and all.
    pub fn mtu(&self) -> u16 {
        self.options.mtu()
    }

    pub fn eal(&self) -> &Eal {
        &self.eal
    }

    pub(super) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.pool.as_ptr()
    }
}

impl Drop for Mempool {
    fn drop(&mut self) {
        let missing = self.capacity().saturating_sub(self.available());
        if missing == 0 {
            // SAFETY: every buffer is back, and only this `Mempool` gives out buffers.
            unsafe { sys::rte_mempool_free(self.pool.as_ptr()) };
        } else {
            // An mbuf does not keep its pool alive, so the pool, and EAL under it, must outlive the
            // process's mbufs.
            tracing::warn!("{missing} packet buffers still in use: their pool is never freed");
            std::mem::forget(self.eal.clone());
        }
    }
}
