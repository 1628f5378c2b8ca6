//! Results of past epochs, bounded in memory.

use std::collections::VecDeque;

use crate::program::Record;
use crate::program::hashpipe::{Counts, Heavy};

/// Flows kept of each past epoch.
const KEPT_FLOWS: usize = 1024;

/// One program's results over one epoch (over several, when the collector was late).
#[derive(Clone, Debug)]
pub struct Epoch {
    pub first: u64,
    pub last: u64,
    pub programs: Vec<Summary>,
}

/// What is kept of a record.
#[derive(Clone, Debug)]
pub enum Summary {
    HashPipe {
        /// The heaviest flows, at most [`KEPT_FLOWS`].
        heavy: Vec<Heavy>,
        /// Flows that the tables held.
        flows: usize,
    },
}

impl From<&Record> for Summary {
    fn from(record: &Record) -> Self {
        match record {
            Record::HashPipe(counts) => Self::HashPipe { heavy: counts.top(KEPT_FLOWS), flows: counts.0.len() },
        }
    }
}

/// The last epochs, newest last.
#[derive(Debug)]
pub struct History {
    epochs: VecDeque<Epoch>,
    capacity: usize,
}

/// One program's counts, added up over the newest epochs.
#[derive(Clone, Debug, Default)]
pub struct Window {
    pub counts: Counts,
    /// The epochs that the counts cover; `None` when there is none yet.
    pub epochs: Option<(u64, u64)>,
    /// Flows that were in the tables and are not in `counts`, summed over the epochs.
    pub omitted_flows: u64,
}

impl History {
    /// Keeps at most `capacity` epochs, and at least one.
    pub fn new(capacity: usize) -> Self {
        Self { epochs: VecDeque::new(), capacity: capacity.max(1) }
    }

    pub fn push(&mut self, epoch: Epoch) {
        while self.epochs.len() >= self.capacity {
            self.epochs.pop_front();
        }
        self.epochs.push_back(epoch);
    }

    pub fn newest(&self) -> Option<&Epoch> {
        self.epochs.back()
    }

    /// The counts of program number `program` over the newest `epochs` epochs.
    pub fn heavy(&self, program: usize, epochs: usize) -> Window {
        let mut window = Window::default();
        for epoch in self.epochs.iter().rev().take(epochs.max(1)) {
            let newest = window.epochs.map_or(epoch.last, |(_, last)| last);
            window.epochs = Some((epoch.first, newest));
            if let Some(Summary::HashPipe { heavy, flows }) = epoch.programs.get(program) {
                window.omitted_flows += (flows - heavy.len()) as u64;
                for Heavy { flow, count } in heavy {
                    *window.counts.0.entry(*flow).or_default() += count;
                }
            }
        }
        window
    }
}
