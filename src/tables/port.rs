//! Tables of the features of ports: limits, mirrors, VLANs.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Change, Configured, Desired, Table, edited};
use crate::forward::policy::{PortFeatures, Publisher};
use crate::forward::text::{PortNames, Wrong};

/// A feature of ports, with the state that outlives a change of its entries.
pub trait Feature: Default + Send + 'static {
    type Entry: Clone + PartialEq + DeserializeOwned + Send;

    const NAME: &'static str;
    /// The fields that name an entry.
    const KEY: &'static [&'static str];
    /// Maximum entries of a port.
    const PER_PORT: usize = 1;

    /// Whether two entries have one key.
    fn same(a: &Self::Entry, b: &Self::Entry) -> bool;
    fn check(entry: &Self::Entry, ports: &PortNames) -> Result<(), Wrong>;
    fn desired(desired: &Desired) -> &[Self::Entry];
    /// Sets the feature to `entries`. One that has not changed keeps its counters.
    fn put(&mut self, entries: &[Self::Entry], ports: &PortNames, settings: &mut PortFeatures);
    fn row(&self, entry: &Self::Entry, ports: &PortNames) -> Value;
}

/// The table of a feature.
pub struct PortTable<F: Feature> {
    publisher: Publisher,
    ports: PortNames,
    entries: Vec<F::Entry>,
    feature: F,
}

impl<F: Feature> PortTable<F> {
    /// With entries that have been checked.
    pub fn new(publisher: &Publisher, ports: &PortNames, entries: Vec<F::Entry>) -> Self {
        let (publisher, ports) = (publisher.clone(), ports.clone());
        let mut table = Self { publisher, ports, entries: Vec::new(), feature: F::default() };
        table.publish(entries);
        table
    }

    fn publish(&mut self, entries: Vec<F::Entry>) {
        let publisher = self.publisher.clone();
        publisher.publish(|settings| self.put(entries, settings));
    }

    fn put(&mut self, entries: Vec<F::Entry>, settings: &mut PortFeatures) {
        self.feature.put(&entries, &self.ports, settings);
        self.entries = entries;
    }
}

impl<F: Feature> Configured for PortTable<F> {
    fn is(&self, desired: &Desired) -> bool {
        self.entries == F::desired(desired)
    }

    fn reconcile(&mut self, desired: &Desired, settings: &mut PortFeatures) {
        self.put(F::desired(desired).to_vec(), settings);
    }
}

impl<F: Feature> Table for PortTable<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn rows(&self) -> Vec<Value> {
        self.entries.iter().map(|entry| self.feature.row(entry, &self.ports)).collect()
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        let entries = edited(&self.entries, changes, F::same, |entry| F::check(entry, &self.ports))?;
        self.publish(entries);
        Ok(())
    }

    fn configured(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn capacity(&self) -> Option<usize> {
        Some(F::PER_PORT * self.ports.len())
    }

    fn key(&self) -> &'static [&'static str] {
        F::KEY
    }
}
