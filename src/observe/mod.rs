//! Observers: captures and traces of a running switch, which do not change what it forwards or
//! counts.
//!
//! A [`Capture`] copies packets that a filter names into a ring, which a control thread empties. A
//! [`TraceOnce`] waits for one packet and records its way. The control side opens them
//! ([`Observers`]), each worker looks once a burst whether there are any ([`WorkerObservers`]): one
//! load and a comparison.
//!
//! Opening and closing allocate and free on the control side; on the worker only a traced packet
//! and a look at a changed list of observers do.

mod capture;
mod packet;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub use capture::{Capture, CaptureOptions, CapturedPacket, Direction};
pub use packet::{Observer, PacketTrace, ProgramTrace, Recorder, SentTrace, TraceOnce, Unobserved};

use crate::lock::Hold;
use crate::pisa::table::{Reader, Shared};
use crate::pisa::{DropReason, PortId};
use crate::telemetry::epoch::Nanos;
use crate::wire::{Frame, Headers, parse};

/// Maximum captures that run, and traces that wait, at the same time.
pub const MAX_CAPTURES: usize = 4;
pub const MAX_TRACES: usize = 4;

/// Longest frame whose drop is captured whole.
const SCRATCH: usize = 16 * 1024;

/// All that is open.
#[derive(Clone, Debug, Default)]
struct List {
    captures: Vec<Arc<Capture>>,
    traces: Vec<Arc<TraceOnce>>,
}

impl List {
    fn is_empty(&self) -> bool {
        self.captures.is_empty() && self.traces.is_empty()
    }
}

/// Too many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObserverError {
    #[error("{MAX_CAPTURES} captures run already, which is all that a switch allows")]
    Captures,
    #[error("{MAX_TRACES} traces wait already, which is all that a switch allows")]
    Traces,
}

/// The control end, shared by all who open observers.
#[derive(Clone, Debug)]
pub struct Observers {
    list: Arc<Mutex<Shared<List>>>,
    version: Arc<AtomicU64>,
    ids: Arc<AtomicU64>,
}

impl Default for Observers {
    fn default() -> Self {
        Self { list: Arc::new(Mutex::new(Shared::new(List::default()))), version: Arc::default(), ids: Arc::default() }
    }
}

/// An observer that is closed when this is dropped.
#[derive(Debug)]
pub struct Opened<T> {
    observers: Observers,
    pub observer: Arc<T>,
    close: fn(&mut List, &Arc<T>),
}

impl<T> Drop for Opened<T> {
    fn drop(&mut self) {
        let close = self.close;
        self.observers.change(|list| close(list, &self.observer));
    }
}

impl Observers {
    /// The end for one worker.
    pub fn of_worker(&self) -> WorkerObservers {
        let list = self.list.hold().reader();
        WorkerObservers { list, version: self.version.clone(), seen: 0, open: false, scratch: Vec::new() }
    }

    pub fn capture(&self, options: CaptureOptions) -> Result<Opened<Capture>, ObserverError> {
        let observer = Arc::new(Capture::new(options, self.ids.fetch_add(1, Ordering::Relaxed)));
        let opened = self.change(|list| {
            let room = list.captures.len() < MAX_CAPTURES;
            room.then(|| list.captures.push(observer.clone())).ok_or(ObserverError::Captures)
        });
        opened?;
        let close = |list: &mut List, observer: &Arc<Capture>| {
            list.captures.retain(|other| !Arc::ptr_eq(other, observer));
            observer.release();
        };
        Ok(Opened { observers: self.clone(), observer, close })
    }

    pub fn trace(&self, observer: TraceOnce) -> Result<Opened<TraceOnce>, ObserverError> {
        let observer = Arc::new(observer);
        let opened = self.change(|list| {
            let room = list.traces.len() < MAX_TRACES;
            room.then(|| list.traces.push(observer.clone())).ok_or(ObserverError::Traces)
        });
        opened?;
        let close =
            |list: &mut List, observer: &Arc<TraceOnce>| list.traces.retain(|other| !Arc::ptr_eq(other, observer));
        Ok(Opened { observers: self.clone(), observer, close })
    }

    /// Ends the capture with this number. False when there is none.
    pub fn end_capture(&self, id: u64) -> bool {
        let list = self.list.hold().current();
        let found = list.captures.iter().find(|capture| capture.id() == id);
        found.map(|capture| capture.end()).is_some()
    }

    /// Publishes the list and then says so: a worker that sees the new version sees the list too.
    fn change<R>(&self, change: impl FnOnce(&mut List) -> R) -> R {
        let result = self.list.hold().update(change);
        self.version.fetch_add(1, Ordering::Release);
        result
    }
}

/// A worker's end.
#[derive(Debug)]
pub struct WorkerObservers {
    list: Reader<List>,
    version: Arc<AtomicU64>,
    seen: u64,
    open: bool,
    /// A packet that may be dropped, until it is known.
    scratch: Vec<u8>,
}

/// The headers that a filter matches on.
fn headers(frame: &impl Frame) -> Headers {
    let mut headers = Headers::default();
    match parse(frame.bytes(), &mut headers) {
        Ok(()) => headers,
        Err(_) => Headers::default(),
    }
}

impl WorkerObservers {
    /// Whether anything is open: all that a burst costs when nothing is.
    #[inline(always)]
    pub fn is_open(&mut self) -> bool {
        if self.version.load(Ordering::Relaxed) != self.seen {
            self.look();
        }
        self.open
    }

    #[cold]
    fn look(&mut self) {
        self.seen = self.version.load(Ordering::Acquire);
        let list = self.list.load();
        self.open = !list.is_empty();
        let room = if list.captures.iter().any(|capture| capture.options.drops) { SCRATCH } else { 0 };
        self.scratch.clear();
        self.scratch.reserve_exact(room);
        self.scratch.shrink_to(room);
    }

    /// Whether packets must go one by one: to see which is dropped and why, or to trace one in its
    /// place.
    pub fn looks_at_each(&mut self) -> bool {
        let list = self.list.load();
        list.captures.iter().any(|capture| capture.options.drops) || list.traces.iter().any(|trace| !trace.is_taken())
    }

    /// Captures packets that came in or go out.
    pub fn passed<F: Frame>(&mut self, direction: Direction, port: PortId, frames: &[F], now: Nanos) {
        let captures = &self.list.load().captures;
        if !captures.iter().any(|capture| capture.wants(direction, port)) {
            return;
        }
        for frame in frames {
            let (headers, wire_bytes) = (headers(frame), frame.wire_len() as u32);
            for capture in captures.iter().filter(|capture| capture.wants(direction, port)) {
                if capture.options.filter.matches(&headers, frame.bytes(), wire_bytes) {
                    capture.keep(now, port, direction, wire_bytes, frame.bytes());
                }
            }
        }
    }

    /// The trace that waits for this packet, which no other worker gets then.
    pub fn traced<F: Frame>(&mut self, port: PortId, frame: &F) -> Option<Arc<TraceOnce>> {
        let traces = &self.list.load().traces;
        traces.iter().find(|trace| trace.takes(port, &headers(frame), frame.bytes(), frame.wire_len() as u32)).cloned()
    }

    /// Keeps a packet that may be dropped. False when no capture would want it.
    pub fn note<F: Frame>(&mut self, port: PortId, frame: &F) -> bool {
        let captures = &self.list.load().captures;
        if !captures.iter().any(|capture| capture.wants_drops(port)) {
            return false;
        }
        let bytes = frame.bytes();
        self.scratch.clear();
        self.scratch.extend_from_slice(&bytes[..bytes.len().min(self.scratch.capacity())]);
        true
    }

    /// Captures the packet that was noted last, which has been dropped.
    pub fn dropped_noted(&mut self, port: PortId, wire_bytes: u32, reason: DropReason, now: Nanos) {
        let mut headers = Headers::default();
        if parse(&self.scratch, &mut headers).is_err() {
            headers = Headers::default();
        }
        for capture in self.list.load().captures.iter().filter(|capture| capture.wants_drops(port)) {
            if capture.options.filter.matches(&headers, &self.scratch, wire_bytes) {
                capture.keep(now, port, Direction::Dropped(reason), wire_bytes, &self.scratch);
            }
        }
    }

    /// Captures packets that the port they were for did not take.
    #[cold]
    pub fn dropped<F: Frame>(&mut self, port: PortId, frames: &[F], reason: DropReason, now: Nanos) {
        if self.is_open() {
            for frame in frames {
                if self.note(port, frame) {
                    self.dropped_noted(port, frame.wire_len() as u32, reason, now);
                }
            }
        }
    }
}
