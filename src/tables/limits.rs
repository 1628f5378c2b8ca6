//! Rate limits of ports as a table.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Desired;
use super::port::Feature;
use crate::forward::policy::PortFeatures;
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

impl LimitEntry {
    pub fn new(port: &str, direction: &str, limit: Limit) -> Self {
        let (port, direction) = (Word(port.into()), Word(direction.into()));
        Self { port, direction, limit: Some(limit) }
    }
}

/// Table `limits`: the limiters of all ports.
#[derive(Default)]
pub struct LimitFeature(Limits);

impl Feature for LimitFeature {
    type Entry = LimitEntry;

    const NAME: &'static str = "limits";
    const KEY: &'static [&'static str] = &["port", "direction"];
    const PER_PORT: usize = 2;

    fn same(a: &LimitEntry, b: &LimitEntry) -> bool {
        (&a.port, &a.direction) == (&b.port, &b.direction)
    }

    fn check(entry: &LimitEntry, ports: &PortNames) -> Result<(), Wrong> {
        ports.id("port", &entry.port.0)?;
        if !["rx", "tx"].contains(&entry.direction.0.as_str()) {
            return Err(wrong("direction", &entry.direction.0, "rx or tx"));
        }
        let missing = || wrong("limit", "(missing)", "a rate such as 1Gbps, 500kpps or 1Gbps,burst=64KB");
        entry.limit.map(drop).ok_or_else(missing)
    }

    fn desired(desired: &Desired) -> &[LimitEntry] {
        &desired.limits
    }

    /// A limit that has not changed keeps its bucket too.
    fn put(&mut self, entries: &[LimitEntry], ports: &PortNames, settings: &mut PortFeatures) {
        let mut limits = Limits::default();
        limits.rx.resize(ports.len(), None);
        limits.tx.resize(ports.len(), None);
        for entry in entries {
            let (Ok(port), Some(limit)) = (ports.id("port", &entry.port.0), entry.limit) else { continue };
            let (old, new) = match entry.direction.0.as_str() {
                "rx" => (&self.0.rx, &mut limits.rx),
                _ => (&self.0.tx, &mut limits.tx),
            };
            let old = old.get(usize::from(port)).and_then(Option::as_ref);
            let kept = old.filter(|limiter| limiter.limit() == limit).cloned();
            new[usize::from(port)] = Some(kept.unwrap_or_else(|| Arc::new(Limiter::new(limit))));
        }
        settings.limits = (!entries.is_empty()).then(|| Arc::new(limits.clone()));
        self.0 = limits;
    }

    fn row(&self, entry: &LimitEntry, ports: &PortNames) -> Value {
        let port = ports.id("port", &entry.port.0).unwrap_or_default();
        let limiter = if entry.direction.0 == "rx" { self.0.rx(port) } else { self.0.tx(port) };
        let (passed, dropped) = limiter.map(Limiter::counts).unwrap_or_default();
        json!({
            "port": entry.port.0,
            "direction": entry.direction.0,
            "limit": entry.limit.map(|limit| limit.to_string()),
            "passed_packets": passed,
            "dropped_packets": dropped,
        })
    }
}
