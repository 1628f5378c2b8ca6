//! Rate limits of ports as a table.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Change, Configured, Desired, Table, edited};
use crate::forward::policy::{PortFeatures, Publisher};
use crate::forward::rate::{Limit, Limiter, Limits};
use crate::forward::text::{PortNames, Word, Wrong, wrong};

/// One limit: of a port, on what it receives (`rx`) or sends (`tx`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitEntry {
    pub port: Word,
    pub direction: Word,
    pub limit: Option<Limit>,
}

/// Table `limits`.
pub struct LimitTable {
    publisher: Publisher,
    ports: PortNames,
    entries: Vec<LimitEntry>,
    limits: Limits,
}

impl LimitEntry {
    pub fn new(port: &str, direction: &str, limit: Limit) -> Self {
        let (port, direction) = (Word(port.into()), Word(direction.into()));
        Self { port, direction, limit: Some(limit) }
    }

    fn same(&self, other: &Self) -> bool {
        (&self.port, &self.direction) == (&other.port, &other.direction)
    }
}

fn check(entry: &LimitEntry, ports: &PortNames) -> Result<(), Wrong> {
    ports.id("port", &entry.port.0)?;
    if !["rx", "tx"].contains(&entry.direction.0.as_str()) {
        return Err(wrong("direction", &entry.direction.0, "rx or tx"));
    }
    entry
        .limit
        .map(drop)
        .ok_or_else(|| wrong("limit", "(missing)", "a rate such as 1Gbps, 500kpps or 1Gbps,burst=64KB"))
}

impl LimitTable {
    /// With entries that have been checked.
    pub fn new(publisher: Publisher, ports: PortNames, entries: Vec<LimitEntry>) -> Self {
        let mut table = Self { publisher, ports, entries: Vec::new(), limits: Limits::default() };
        table.publish(entries);
        table
    }

    fn publish(&mut self, entries: Vec<LimitEntry>) {
        let publisher = self.publisher.clone();
        publisher.publish(|settings| self.put(entries, settings));
    }

    /// A limit that has not changed keeps its bucket and its counts.
    fn put(&mut self, entries: Vec<LimitEntry>, settings: &mut PortFeatures) {
        let (ports, mut limits) = (self.ports.len(), Limits::default());
        limits.rx.resize(ports, None);
        limits.tx.resize(ports, None);
        for entry in &entries {
            let (Ok(port), Some(limit)) = (self.ports.id("port", &entry.port.0), entry.limit) else { continue };
            let (old, new) = match entry.direction.0.as_str() {
                "rx" => (&self.limits.rx, &mut limits.rx),
                _ => (&self.limits.tx, &mut limits.tx),
            };
            let old = old.get(usize::from(port)).and_then(Option::as_ref);
            let kept = old.filter(|limiter| limiter.limit() == limit).cloned();
            new[usize::from(port)] = Some(kept.unwrap_or_else(|| Arc::new(Limiter::new(limit))));
        }
        settings.limits = (!entries.is_empty()).then(|| Arc::new(limits.clone()));
        (self.entries, self.limits) = (entries, limits);
    }
}

impl Configured for LimitTable {
    fn is(&self, desired: &Desired) -> bool {
        self.entries == desired.limits
    }

    fn reconcile(&mut self, desired: &Desired, settings: &mut PortFeatures) {
        self.put(desired.limits.clone(), settings);
    }
}

impl Table for LimitTable {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn rows(&self) -> Vec<Value> {
        let row = |entry: &LimitEntry| {
            let port = self.ports.id("port", &entry.port.0).unwrap_or_default();
            let limiter = if entry.direction.0 == "rx" { self.limits.rx(port) } else { self.limits.tx(port) };
            let (passed, dropped) = limiter.map(Limiter::counts).unwrap_or_default();
            json!({
                "port": entry.port.0,
                "direction": entry.direction.0,
                "limit": entry.limit.map(|limit| limit.to_string()),
                "passed_packets": passed,
                "dropped_packets": dropped,
            })
        };
        self.entries.iter().map(row).collect()
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        let entries = edited(&self.entries, changes, LimitEntry::same, |entry| check(entry, &self.ports))?;
        self.publish(entries);
        Ok(())
    }

    fn configured(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn capacity(&self) -> Option<usize> {
        Some(2 * self.ports.len())
    }

    fn key(&self) -> &'static [&'static str] {
        &["port", "direction"]
    }
}
