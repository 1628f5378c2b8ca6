//! How a running worker is changed: the control side makes what is new, the worker swaps it in
//! between two bursts, and what it replaced goes back to be dropped where that may take its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::dpdk::Mbuf;
use crate::pisa::PortId;
use crate::port::{RxQueue, TxQueue};
use crate::switch::{Parts, TxBursts};

/// A worker that has not answered by then is not coming back.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Queues of ports, with the ports' numbers.
#[derive(Default)]
pub struct Queues {
    pub rx: Vec<(PortId, RxQueue)>,
    pub tx: Vec<(PortId, TxQueue)>,
}

impl Queues {
    /// Room for the queues that one worker has of so many ports.
    pub fn with_room(ports: usize) -> Self {
        Self { rx: Vec::with_capacity(ports), tx: Vec::with_capacity(ports) }
    }
}

/// What changes on one worker, all of it between the same two bursts.
#[derive(Default)]
pub struct Change {
    /// Ports whose queues the worker gives up.
    pub remove: Vec<PortId>,
    /// Queues that it takes over.
    pub queues: Queues,
    /// Queues that it gave up, with room for them.
    pub old: Queues,
    /// Parts of the switch. After the change: those that were replaced.
    pub parts: Parts,
    /// When there are more ports than the worker's tx bursts have queues for. After the change: the
    /// old one.
    pub tx_bursts: Option<TxBursts<Mbuf>>,
}

/// The worker that is to be changed has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a worker has died")]
pub struct Died;

/// The control side's end.
pub struct WorkerHandle {
    waiting: Arc<AtomicBool>,
    changes: Sender<Box<Change>>,
    done: Receiver<Box<Change>>,
}

/// The worker's end.
pub struct WorkerCommands {
    waiting: Arc<AtomicBool>,
    changes: Receiver<Box<Change>>,
    done: Sender<Box<Change>>,
}

/// Both ends. One change at a time is under way.
pub fn channel() -> (WorkerHandle, WorkerCommands) {
    let waiting = Arc::new(AtomicBool::new(false));
    let (changes, incoming) = bounded(1);
    let (outgoing, done) = bounded(1);
    (
        WorkerHandle { waiting: waiting.clone(), changes, done },
        WorkerCommands { waiting, changes: incoming, done: outgoing },
    )
}

impl WorkerHandle {
    pub fn send(&self, change: Change) -> Result<(), Died> {
        self.changes.try_send(Box::new(change)).map_err(|_| Died)?;
        self.waiting.store(true, Ordering::Release);
        Ok(())
    }

    /// Waits until the worker has made the change, and gives what it replaced.
    pub fn done(&self) -> Result<Box<Change>, Died> {
        self.done.recv_timeout(TIMEOUT).map_err(|_| Died)
    }
}

impl WorkerCommands {
    /// Whether there may be a change: one relaxed load.
    #[inline(always)]
    pub fn waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The change that waits.
    pub fn take(&self) -> Option<Box<Change>> {
        // A read that also writes sees the newest `true`, and with it the change that was sent
        // before.
        self.waiting.swap(false, Ordering::Acquire);
        self.changes.try_recv().ok()
    }

    /// Gives back a change that was made. The channel has room for the one that is under way.
    pub fn give_back(&self, change: Box<Change>) {
        let _ = self.done.try_send(change);
    }
}
