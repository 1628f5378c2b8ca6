//! Mirrors of ports as a table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Value, json};

use super::Desired;
use super::port::Feature;
use crate::forward::mirror::MirrorConfig;
use crate::forward::policy::{Mirror, Mirrors, PortFeatures};
use crate::forward::text::{PortNames, Wrong};

/// Table `mirrors`: the mirrors with their counts of copies.
#[derive(Default)]
pub struct MirrorFeature(Vec<(MirrorConfig, Arc<AtomicU64>)>);

impl MirrorFeature {
    fn copies(&self, entry: &MirrorConfig) -> Arc<AtomicU64> {
        let found = self.0.iter().find(|(old, _)| (&old.from, &old.to) == (&entry.from, &entry.to));
        found.map(|(_, copies)| copies.clone()).unwrap_or_default()
    }
}

impl Feature for MirrorFeature {
    type Entry = MirrorConfig;

    const NAME: &'static str = "mirrors";
    const KEY: &'static [&'static str] = &["from"];

    fn same(a: &MirrorConfig, b: &MirrorConfig) -> bool {
        a.from == b.from
    }

    fn check(entry: &MirrorConfig, ports: &PortNames) -> Result<(), Wrong> {
        entry.check(ports)
    }

    fn desired(desired: &Desired) -> &[MirrorConfig] {
        &desired.mirrors
    }

    fn put(&mut self, entries: &[MirrorConfig], ports: &PortNames, settings: &mut PortFeatures) {
        let mut mirrors = Mirrors::default();
        mirrors.rx.resize(ports.len(), None);
        mirrors.tx.resize(ports.len(), None);
        self.0 = entries.iter().map(|entry| (entry.clone(), self.copies(entry))).collect();
        for (entry, copies) in &self.0 {
            let to = entry.to.as_ref().map(|to| ports.id("to", &to.0));
            let (Ok(from), Some(Ok(to))) = (ports.id("from", &entry.from.0), to) else { continue };
            for (direction, list) in [("rx", &mut mirrors.rx), ("tx", &mut mirrors.tx)] {
                if [direction, "both"].contains(&entry.direction.0.as_str()) {
                    list[usize::from(from)] = Some(Mirror { to, copies: copies.clone() });
                }
            }
        }
        settings.mirrors = (!entries.is_empty()).then(|| Arc::new(mirrors));
    }

    fn row(&self, entry: &MirrorConfig, _: &PortNames) -> Value {
        json!({
            "from": entry.from.0,
            "to": entry.to.as_ref().map(|to| &to.0),
            "direction": entry.direction.0,
            "copied_packets": self.copies(entry).load(Relaxed),
        })
    }
}
