//! Slots of the routes' counters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Entry, Hits, Net, Plan};

/// Slots of the routes' counters.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// By prefix: the index, and the counts there when the route took it over.
    of: BTreeMap<Net, (u32, [u64; 2])>,
    free: Vec<u32>,
    workers: Vec<Arc<[Hits]>>,
    /// Counts of workers whose dataplanes are gone.
    retired: Vec<[u64; 2]>,
}

impl Entries {
    /// With room for this many routes.
    pub(super) fn new(routes: usize) -> Self {
        Self { free: (0..routes as u32).rev().collect(), ..Self::default() }
    }

    /// Counters for one more worker.
    pub(super) fn worker(&mut self, routes: usize) -> Arc<[Hits]> {
        let hits: Arc<[Hits]> = (0..routes).map(|_| Hits::default()).collect();
        self.workers.push(hits.clone());
        hits
    }

    /// Gives every route of the plan an index, and takes back those of others.
    pub(super) fn follow(&mut self, plan: &Plan) {
        let own = plan.addresses().iter().map(|(_, net)| net.network());
        let prefixes: BTreeSet<Net> = own.chain(plan.routes().keys().copied()).collect();
        let free = &mut self.free;
        self.of.retain(|prefix, (index, _)| {
            let stays = prefixes.contains(prefix);
            if !stays {
                free.push(*index);
            }
            stays
        });
        for prefix in prefixes {
            if !self.of.contains_key(&prefix)
                && let Some(index) = self.free.pop()
            {
                let before = self.sum(index);
                self.of.insert(prefix, (index, before));
            }
        }
    }

    /// Adds up the counters that no dataplane writes any more, and drops them.
    pub(super) fn retire(&mut self) {
        let gone: Vec<_> = self.workers.extract_if(.., |worker| Arc::strong_count(worker) == 1).collect();
        for hits in gone.iter().flat_map(|worker| worker.iter().enumerate()) {
            let (index, hits) = hits;
            self.retired.resize(self.retired.len().max(index + 1), [0; 2]);
            let [packets, bytes] = &mut self.retired[index];
            *packets = packets.wrapping_add(hits.packets.get());
            *bytes = bytes.wrapping_add(hits.bytes.get());
        }
    }

    pub(super) fn of(&self, prefix: Net) -> Entry {
        Entry(self.of.get(&prefix).map_or(u32::MAX, |(index, _)| *index))
    }

    fn sum(&self, index: u32) -> [u64; 2] {
        let retired = self.retired.get(index as usize).copied().unwrap_or_default();
        self.workers.iter().filter_map(|worker| worker.get(index as usize)).fold(retired, |[packets, bytes], hits| {
            [packets.wrapping_add(hits.packets.get()), bytes.wrapping_add(hits.bytes.get())]
        })
    }

    /// Packets and bytes since the route came.
    pub(super) fn counts(&self, prefix: Net) -> [u64; 2] {
        let Some((index, before)) = self.of.get(&prefix) else { return [0; 2] };
        let now = self.sum(*index);
        [now[0].wrapping_sub(before[0]), now[1].wrapping_sub(before[1])]
    }
}
