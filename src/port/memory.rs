//! A port between two threads of one process, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use super::{PortDrop, Sent, stats::QueueCounters};
use crate::{
    dpdk::{Burst, Mempool},
    wire::Frame,
};

/// Frames that wait in either direction.
const DEPTH: usize = 4096;

/// The other end of a `memory` port: what a test holds.
#[derive(Clone, Debug)]
pub struct MemoryHandle {
    inject: Sender<Box<[u8]>>,
    collect: Receiver<Box<[u8]>>,
    plugged: Arc<AtomicBool>,
}

impl MemoryHandle {
    /// Pulls the cable, or puts it back.
    pub fn plug(&self, plugged: bool) {
        self.plugged.store(plugged, Relaxed);
    }

    pub(super) fn is_plugged(&self) -> bool {
        self.plugged.load(Relaxed)
    }

    /// Lets a frame come in by the port. False when as many wait as the port holds.
    pub fn inject(&self, frame: &[u8]) -> bool {
        self.inject.try_send(frame.into()).is_ok()
    }

    /// The oldest frame that went out by the port.
    pub fn collect(&self) -> Option<Box<[u8]>> {
        self.collect.try_recv().ok()
    }
}

/// The port's ends of both channels: clones of it are its queues.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    incoming: Receiver<Box<[u8]>>,
    outgoing: Sender<Box<[u8]>>,
    pool: Arc<Mempool>,
}

impl Memory {
    pub fn new(pool: &Arc<Mempool>) -> (Self, MemoryHandle) {
        let (inject, incoming) = bounded(DEPTH);
        let (outgoing, collect) = bounded(DEPTH);
        let plugged = Arc::new(AtomicBool::new(true));
        (Self { incoming, outgoing, pool: pool.clone() }, MemoryHandle { inject, collect, plugged })
    }

    pub fn receive(&self, burst: &mut Burst, counters: &QueueCounters) {
        while !burst.is_full() {
            let Ok(frame) = self.incoming.try_recv() else { return };
            let Some(mut mbuf) = self.pool.alloc() else {
                counters.lose(PortDrop::RxNoBuffer, 1);
                continue;
            };
            if mbuf.fill(&frame) {
                counters.received(1, frame.len());
                burst.push(mbuf);
            } else {
                counters.lose(PortDrop::RxTooLong, 1);
            }
        }
    }

    pub fn transmit(&self, burst: &mut Burst, counters: &QueueCounters) -> Sent {
        let mut sent = Sent::default();
        for mbuf in burst.iter_mut() {
            if !mbuf.linearize() {
                break;
            }
            match self.outgoing.try_send(mbuf.bytes().into()) {
                Ok(()) => counters.sent(1, mbuf.wire_len()),
                Err(TrySendError::Full(_)) => break,
                // Without a collector frames are lost, as on a cable without a listener.
                Err(TrySendError::Disconnected(_)) => counters.sent(1, mbuf.wire_len()),
            }
            sent.packets += 1;
            sent.bytes += mbuf.wire_len() as u64;
        }
        burst.drain(..sent.packets);
        sent
    }
}
