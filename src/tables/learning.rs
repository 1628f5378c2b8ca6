//! Keeps the MAC table of `learn`: serves the workers' digests, forgets the silent, names the
//! MAC addresses.

use std::time::Duration;

use crate::config::{LinkLocal, SwitchConfig};
use crate::forward::{Forward, learn};
use crate::pisa::PortId;
use crate::pisa::hash::Polynomial;
use crate::tables::documents::MacEntry;
use crate::telemetry::epoch::Nanos;

/// How often silent MAC addresses are looked for.
const AGE_EVERY: Nanos = 1_000_000_000;

/// The control half of L2 learning.
pub struct Learning {
    control: learn::Control,
    polynomial: Polynomial,
    aged: Nanos,
}

impl Learning {
    /// The control half, and the dataplane half of each replica.
    pub fn new(config: &SwitchConfig, polynomial: Polynomial, replicas: usize) -> (Self, Vec<Forward>) {
        Self::with(learn::Control::new(settings(config), polynomial), polynomial, replicas)
    }

    /// The same with the MAC addresses of this one in a table of another size, or with another
    /// action for the bridge group.
    pub fn resized(&self, config: &SwitchConfig, replicas: usize) -> (Self, Vec<Forward>) {
        Self::with(self.control.resized(settings(config), self.polynomial), self.polynomial, replicas)
    }

    fn with(control: learn::Control, polynomial: Polynomial, replicas: usize) -> (Self, Vec<Forward>) {
        let dataplanes = (0..replicas).map(|_| Forward::Learn(control.dataplane())).collect();
        (Self { control, polynomial, aged: 0 }, dataplanes)
    }

    /// The silence after which MAC addresses are forgotten from now on.
    pub fn set_ageing(&mut self, ageing: Duration) {
        self.control.set_ageing(ageing);
    }

    /// Forgets the MAC addresses behind a port, also those in digests that wait to be served.
    pub fn flush_port(&mut self, port: PortId, now: Nanos) {
        self.control.serve(now);
        self.control.flush_port(port);
    }

    /// Serves the digests that are there and forgets MAC addresses that have been silent too long.
    pub fn serve(&mut self, now: Nanos) {
        self.control.serve(now);
        if now.saturating_sub(self.aged) >= AGE_EVERY {
            self.control.age(now);
            self.aged = now;
        }
    }

    /// The MAC table, to be looked at or set.
    pub fn control(&mut self) -> &mut learn::Control {
        &mut self.control
    }

    /// New MAC addresses that were refused because the table was full.
    pub fn refused(&self) -> u64 {
        self.control.refused()
    }

    /// Times a MAC address was heard behind another port than before, and the last of them.
    pub fn moved(&self) -> (u64, Option<learn::Move>) {
        self.control.moved()
    }

    /// All MAC addresses. `name` gives the name of a port.
    pub fn macs<'a>(&self, name: impl Fn(PortId) -> &'a str, now: Nanos) -> Vec<MacEntry> {
        let entry = |entry: learn::Entry| MacEntry {
            mac: entry.mac.to_string(),
            vlan: entry.vid,
            port: name(entry.port).into(),
            age_seconds: entry.idle_seconds.into(),
            fixed: entry.fixed,
            moves: entry.moves.into(),
        };
        self.control.entries(now).into_iter().map(entry).collect()
    }
}

fn settings(config: &SwitchConfig) -> learn::Config {
    learn::Config {
        capacity: config.mac_table as usize,
        ageing: config.mac_age.0,
        link_local: config.link_local == LinkLocal::Forward,
        ..learn::Config::default()
    }
}
