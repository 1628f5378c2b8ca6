//! A capture: which packets, and the ring that takes them to the control side.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::pisa::{DropReason, MAX_PORTS, PortId};
use crate::telemetry::epoch::Nanos;
use crate::wire::Filter;

/// Memory of a capture's ring, and the fewest and most records in it.
const RING_BYTES: usize = 8 << 20;
const RING: std::ops::RangeInclusive<usize> = 256..=8192;

/// The packets that are copied, and how much of each.
#[derive(Clone, Debug, Default)]
pub struct CaptureOptions {
    pub filter: Filter,
    /// Empty for all ports.
    pub ports: Vec<PortId>,
    pub rx: bool,
    pub tx: bool,
    pub drops: bool,
    /// Bytes kept of a packet.
    pub snaplen: usize,
}

/// The place where a packet was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came in by the port.
    Rx,
    /// It was given to the port to be sent.
    Tx,
    /// It came in by the port, or was for it, and went no further.
    Dropped(DropReason),
}

/// One captured packet.
#[derive(Debug)]
pub struct CapturedPacket {
    pub at_ns: Nanos,
    pub port: PortId,
    pub direction: Direction,
    pub wire_bytes: u32,
    pub bytes: Vec<u8>,
}

/// Both ends of a queue of records.
type Queue = (Sender<Box<CapturedPacket>>, Receiver<Box<CapturedPacket>>);

/// One capture. Records go round: a worker takes an empty one, fills it and sends it; the
/// control side gives it back. Both queues are asked without waiting, so neither side ever wakes
/// the other.
#[derive(Debug)]
pub struct Capture {
    pub options: CaptureOptions,
    empty: Queue,
    full: Queue,
    missed: Box<[AtomicU64]>,
    id: u64,
    ended: AtomicBool,
}

impl Capture {
    pub(super) fn new(options: CaptureOptions, id: u64) -> Self {
        let records = (RING_BYTES / options.snaplen.max(1)).clamp(*RING.start(), *RING.end());
        let (empty, full) = (bounded(records), bounded(records));
        for _ in 0..records {
            let bytes = Vec::with_capacity(options.snaplen);
            let record = CapturedPacket { at_ns: 0, port: 0, direction: Direction::Rx, wire_bytes: 0, bytes };
            // There is room for all.
            let _ = empty.0.try_send(Box::new(record));
        }
        let missed = (0..MAX_PORTS).map(|_| AtomicU64::new(0)).collect();
        Self { options, empty, full, missed, id, ended: AtomicBool::new(false) }
    }

    /// Tells the captures of one switch apart.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Stops copying packets. The packets in the ring stay there.
    pub fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    fn is_of(&self, port: PortId) -> bool {
        !self.has_ended() && (self.options.ports.is_empty() || self.options.ports.contains(&port))
    }

    pub(super) fn wants(&self, direction: Direction, port: PortId) -> bool {
        let wanted = match direction {
            Direction::Rx => self.options.rx,
            Direction::Tx => self.options.tx,
            Direction::Dropped(_) => self.options.drops,
        };
        wanted && self.is_of(port)
    }

    pub(super) fn wants_drops(&self, port: PortId) -> bool {
        self.options.drops && self.is_of(port)
    }

    /// Copies a packet into the ring. With no room there it is counted and dropped.
    pub(super) fn keep(&self, at_ns: Nanos, port: PortId, direction: Direction, wire_bytes: u32, bytes: &[u8]) {
        let Ok(mut record) = self.empty.1.try_recv() else {
            if let Some(missed) = self.missed.get(usize::from(port)) {
                missed.fetch_add(1, Relaxed);
            }
            return;
        };
        (record.at_ns, record.port, record.direction, record.wire_bytes) = (at_ns, port, direction, wire_bytes);
        record.bytes.clear();
        record.bytes.extend_from_slice(&bytes[..bytes.len().min(self.options.snaplen)]);
        // There are as many records as there is room.
        let _ = self.full.0.try_send(record);
    }

    /// The oldest packet, if there is one; to be given back.
    pub fn take(&self) -> Option<Box<CapturedPacket>> {
        self.full.1.try_recv().ok()
    }

    pub fn give_back(&self, record: Box<CapturedPacket>) {
        let _ = self.empty.0.try_send(record);
    }

    /// Frees the records. Called on the control side when the capture is closed, because a
    /// worker may be its last owner and must not free memory.
    pub(super) fn release(&self) {
        self.end();
        while self.empty.1.try_recv().is_ok() || self.full.1.try_recv().is_ok() {}
    }

    /// Packets of a port that matched and found the ring full.
    pub fn missed(&self, port: PortId) -> u64 {
        self.missed.get(usize::from(port)).map_or(0, |missed| missed.load(Relaxed))
    }
}
