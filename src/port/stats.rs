//! A port's own counters: packets and bytes, and the packets that were lost below the
//! switch, by name.

use std::sync::atomic::{AtomicU64, Ordering};

use super::fault::Counts;
use crate::dpdk::EthStats;
use crate::text::named;

named! {
    /// Why a port, or the device behind it, dropped a packet.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum PortDrop {
        /// Came in faster than it was fetched, also where the kernel counts that, or while the port
        /// was set down.
        RxMissed = "rx_missed",
        /// The pool had no buffer for it.
        RxNoBuffer = "rx_no_buffer",
        /// Refused by the device or the kernel on the way in.
        RxError = "rx_error",
        /// Longer than a buffer.
        RxTooLong = "rx_too_long",
        /// A large frame of a segmenting sender that could not be segmented.
        RxBadGso = "rx_bad_gso",
        /// Refused by the device or the kernel on the way out.
        TxError = "tx_error",
        /// Longer than the interface takes.
        TxTooLong = "tx_too_long",
        /// Taken by the device and not sent: the kernel dropped it, or the device went away before.
        TxLost = "tx_lost",
        /// Dropped by a fault that the user asked for.
        FaultDrop = "fault_drop",
        /// Delayed by such a fault, but there was no room to hold it, or none in the device's queue
        /// when its time had come.
        FaultOverflow = "fault_overflow",
        /// Still held back by such a fault when the port closed or was set down.
        FaultHeld = "fault_held",
    }
}

impl PortDrop {
    /// Whether the switch counts the packet too, as refused on the way out.
    pub fn is_refused(self) -> bool {
        matches!(self, Self::TxError | Self::TxTooLong)
    }
}

/// Effects of configured faults on packets that were not lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultStats {
    /// Duplicates made by faults.
    pub duplicated_packets: u64,
    pub corrupted_packets: u64,
    pub delayed_packets: u64,
    pub reordered_packets: u64,
}

impl FaultStats {
    /// With their names in reports, JSON and metrics.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { duplicated_packets, corrupted_packets, delayed_packets, reordered_packets } = *self;
        [
            ("duplicated_packets", duplicated_packets),
            ("corrupted_packets", corrupted_packets),
            ("delayed_packets", delayed_packets),
            ("reordered_packets", reordered_packets),
        ]
        .into_iter()
    }
}

/// Totals since the port was opened. None of them ever goes down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub faults: FaultStats,
    drops: [u64; PortDrop::ALL.len()],
}

impl PortStats {
    pub fn dropped(&self, why: PortDrop) -> u64 {
        self.drops[why as usize]
    }

    pub fn drops(&self) -> impl Iterator<Item = (PortDrop, u64)> {
        PortDrop::ALL.into_iter().map(|why| (why, self.dropped(why)))
    }

    pub(super) fn add_drops(&mut self, why: PortDrop, packets: u64) {
        self.drops[why as usize] += packets;
    }

    pub(super) fn add_device(&mut self, device: &EthStats) {
        self.rx_packets += device.rx_packets;
        self.rx_bytes += device.rx_bytes;
        self.tx_packets += device.tx_packets;
        self.tx_bytes += device.tx_bytes;
        self.add_drops(PortDrop::RxMissed, device.rx_missed);
        self.add_drops(PortDrop::RxNoBuffer, device.rx_no_buffer);
        self.add_drops(PortDrop::RxError, device.rx_errors);
    }

    pub(super) fn add_queue(&mut self, queue: &QueueCounters) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.rx_packets += read(&queue.rx_packets);
        self.rx_bytes += read(&queue.rx_bytes);
        self.tx_packets += read(&queue.tx_packets);
        self.tx_bytes += read(&queue.tx_bytes);
        let [duplicated, corrupted, delayed, reordered] = queue.faults.0.each_ref().map(read);
        self.faults.duplicated_packets += duplicated;
        self.faults.corrupted_packets += corrupted;
        self.faults.delayed_packets += delayed;
        self.faults.reordered_packets += reordered;
        for why in PortDrop::ALL {
            self.add_drops(why, read(&queue.drops[why as usize]));
        }
    }

    /// Each total as the larger of both: some drivers forget theirs when the link changes.
    pub(super) fn at_least(&mut self, earlier: &Self) {
        self.rx_packets = self.rx_packets.max(earlier.rx_packets);
        self.rx_bytes = self.rx_bytes.max(earlier.rx_bytes);
        self.tx_packets = self.tx_packets.max(earlier.tx_packets);
        self.tx_bytes = self.tx_bytes.max(earlier.tx_bytes);
        for (now, before) in self.drops.iter_mut().zip(earlier.drops) {
            *now = before.max(*now);
        }
    }
}

/// Counters that one queue writes and the port reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct QueueCounters {
    pub rx_packets: AtomicU64,
    pub rx_bytes: AtomicU64,
    pub tx_packets: AtomicU64,
    pub tx_bytes: AtomicU64,
    pub faults: FaultCounters,
    drops: [AtomicU64; PortDrop::ALL.len()],
    /// Frames that the kernel dropped and gave an error for, so that they stayed with the switch.
    refused: AtomicU64,
}

/// Duplicated, corrupted, delayed, reordered.
#[derive(Debug, Default)]
pub(super) struct FaultCounters([AtomicU64; 4]);

impl FaultCounters {
    pub fn add(&self, counts: &Counts) {
        let counts = [counts.duplicated, counts.corrupted, counts.delayed, counts.reordered];
        for (counter, n) in self.0.iter().zip(counts) {
            add(counter, n);
        }
    }
}

impl QueueCounters {
    #[inline]
    pub fn lose(&self, why: PortDrop, packets: u64) {
        add(&self.drops[why as usize], packets);
    }

    /// The kernel has dropped a frame and said so.
    pub fn refuse(&self) {
        add(&self.refused, 1);
    }

    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn received(&self, packets: usize, bytes: usize) {
        add(&self.rx_packets, packets as u64);
        add(&self.rx_bytes, bytes as u64);
    }

    #[inline]
    pub fn sent(&self, packets: usize, bytes: usize) {
        add(&self.tx_packets, packets as u64);
        add(&self.tx_bytes, bytes as u64);
    }
}

/// One writer, so a load and a store do, without the bus lock of a fetch-and-add.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}
