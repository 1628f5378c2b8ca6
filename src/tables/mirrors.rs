//! Mirrors of ports as a table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Value, json};

use super::{Change, Configured, Desired, Table, edited};
use crate::forward::mirror::MirrorConfig;
use crate::forward::policy::{Mirror, Mirrors, PortFeatures, Publisher};
use crate::forward::text::PortNames;

/// Table `mirrors`.
pub struct MirrorTable {
    publisher: Publisher,
    ports: PortNames,
    entries: Vec<(MirrorConfig, Arc<AtomicU64>)>,
}

impl MirrorTable {
    /// With entries that have been checked.
    pub fn new(publisher: Publisher, ports: PortNames, entries: &[MirrorConfig]) -> Self {
        let mut table = Self { publisher, ports, entries: Vec::new() };
        table.publish(entries.to_vec());
        table
    }

    fn publish(&mut self, entries: Vec<MirrorConfig>) {
        let publisher = self.publisher.clone();
        publisher.publish(|settings| self.put(entries, settings));
    }

    /// A mirror that has not changed goes on counting.
    fn put(&mut self, entries: Vec<MirrorConfig>, settings: &mut PortFeatures) {
        let count = |entry: &MirrorConfig| {
            let old = self.entries.iter().find(|(old, _)| (&old.from, &old.to) == (&entry.from, &entry.to));
            old.map(|(_, copies)| copies.clone()).unwrap_or_default()
        };
        let entries: Vec<_> = entries.into_iter().map(|entry| (entry.clone(), count(&entry))).collect();
        let mut mirrors = Mirrors::default();
        mirrors.rx.resize(self.ports.len(), None);
        mirrors.tx.resize(self.ports.len(), None);
        for (entry, copies) in &entries {
            let to = entry.to.as_ref().map(|to| self.ports.id("to", &to.0));
            let (Ok(from), Some(Ok(to))) = (self.ports.id("from", &entry.from.0), to) else { continue };
            for (direction, list) in [("rx", &mut mirrors.rx), ("tx", &mut mirrors.tx)] {
                if [direction, "both"].contains(&entry.direction.0.as_str()) {
                    list[usize::from(from)] = Some(Mirror { to, copies: copies.clone() });
                }
            }
        }
        settings.mirrors = (!entries.is_empty()).then(|| Arc::new(mirrors));
        self.entries = entries;
    }
}

impl Configured for MirrorTable {
    fn is(&self, desired: &Desired) -> bool {
        self.entries.iter().map(|(entry, _)| entry).eq(&desired.mirrors)
    }

    fn reconcile(&mut self, desired: &Desired, settings: &mut PortFeatures) {
        self.put(desired.mirrors.clone(), settings);
    }
}

impl Table for MirrorTable {
    fn name(&self) -> &'static str {
        "mirrors"
    }

    fn rows(&self) -> Vec<Value> {
        let row = |(entry, copies): &(MirrorConfig, Arc<AtomicU64>)| {
            json!({
                "from": entry.from.0,
                "to": entry.to.as_ref().map(|to| &to.0),
                "direction": entry.direction.0,
                "copied_packets": copies.load(Relaxed),
            })
        };
        self.entries.iter().map(row).collect()
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        let entries: Vec<_> = self.entries.iter().map(|(entry, _)| entry.clone()).collect();
        let entries = edited(&entries, changes, |a, b| a.from == b.from, |entry| entry.check(&self.ports))?;
        self.publish(entries);
        Ok(())
    }

    fn configured(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn capacity(&self) -> Option<usize> {
        Some(self.ports.len())
    }

    fn key(&self) -> &'static [&'static str] {
        &["from"]
    }
}
