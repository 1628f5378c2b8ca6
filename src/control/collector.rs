//! The collector: takes the replicas' registers at the end of each epoch, gives zeroed ones back, and merges.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Select};

use super::history::History;
use crate::epoch::{Banks, Collecting};
use crate::program::Record;

/// An epoch for which some replicas have not reported yet.
struct Pending {
    first: u64,
    records: Vec<Record>,
    replicas: usize,
}

/// How many epochs a replica may be behind before its absence no longer holds the others up.
const PATIENCE: u64 = 2;

/// Merges the replicas of one switch.
pub struct Collector {
    replicas: Vec<Collecting>,
    pending: BTreeMap<u64, Pending>,
    history: Arc<Mutex<History>>,
}

impl Collector {
    pub fn new(replicas: Vec<Collecting>, history: Arc<Mutex<History>>) -> Self {
        Self { replicas, pending: BTreeMap::new(), history }
    }

    /// Takes what the replicas have sent. Waits up to `timeout` for the first; false when there was none.
    pub fn collect(&mut self, timeout: Duration) -> bool {
        let Ok(first) = self.receive(timeout) else { return false };
        self.take(first);
        self.collect_ready();
        true
    }

    /// Takes what the replicas have sent, without waiting.
    pub fn collect_ready(&mut self) {
        while let Some(banks) = self.replicas.iter().find_map(|replica| replica.full.try_recv().ok()) {
            self.take(banks);
        }
    }

    /// Closes all epochs, also those that a replica did not report on.
    pub fn finish(&mut self) {
        self.collect_ready();
        while let Some(last) = self.pending.keys().next().copied() {
            self.close(last);
        }
    }

    fn receive(&self, timeout: Duration) -> Result<Banks, RecvTimeoutError> {
        let mut select = Select::new();
        for replica in &self.replicas {
            select.recv(&replica.full);
        }
        let ready = select.select_timeout(timeout).map_err(|_| RecvTimeoutError::Timeout)?;
        let index = ready.index();
        ready.recv(&self.replicas[index].full).map_err(|_| RecvTimeoutError::Disconnected)
    }

    fn take(&mut self, mut banks: Banks) {
        let records: Vec<_> = banks.banks.iter().map(|bank| bank.record()).collect();
        banks.banks.iter_mut().for_each(|bank| bank.clear());
        if let Some(replica) = self.replicas.get(banks.replica) {
            // The channel has room for every set that exists, so this fails only when the switch is gone.
            let _ = replica.spares.try_send(banks.banks);
        }
        let (first, last) = (banks.first_epoch, banks.last_epoch);
        match self.pending.get_mut(&last) {
            None => {
                self.pending.insert(last, Pending { first, records, replicas: 1 });
            }
            Some(pending) => {
                pending.first = pending.first.min(first);
                pending.replicas += 1;
                pending.records.iter_mut().zip(&records).for_each(|(merged, record)| merged.merge(record));
            }
        }
        let done = |(&epoch, pending): (&u64, &Pending)| {
            (pending.replicas >= self.replicas.len() || epoch + PATIENCE < last).then_some(epoch)
        };
        let done: Vec<_> = self.pending.iter().filter_map(done).collect();
        done.into_iter().for_each(|epoch| self.close(epoch));
    }

    fn close(&mut self, last: u64) {
        if let Some(Pending { first, records, .. }) = self.pending.remove(&last) {
            self.history.lock().unwrap_or_else(PoisonError::into_inner).push(first, last, records);
        }
    }
}
