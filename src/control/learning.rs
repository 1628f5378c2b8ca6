//! Keeps the station table of `learn`: serves the workers' digests, forgets the silent, names the stations.

use crate::config::SwitchConfig;
use crate::control::view::Station;
use crate::epoch::Nanos;
use crate::forward::{Forward, learn};
use crate::pisa::hash::Polynomial;

/// How often silent stations are looked for.
const AGE_EVERY: Nanos = 1_000_000_000;

/// The control half of L2 learning.
pub struct Learning {
    control: learn::Control,
    aged: Nanos,
}

impl Learning {
    /// The control half, and the dataplane half of each replica.
    pub fn new(config: &SwitchConfig, polynomial: Polynomial, replicas: usize) -> (Self, Vec<Forward>) {
        let config =
            learn::Config { capacity: config.mac_table as usize, ageing: config.mac_age.0, ..learn::Config::default() };
        let control = learn::Control::new(config, polynomial);
        let dataplanes = (0..replicas).map(|_| Forward::Learn(control.dataplane())).collect();
        (Self { control, aged: 0 }, dataplanes)
    }

    /// Serves the digests that are there and forgets stations that have been silent too long.
    pub fn serve(&mut self, now: Nanos) {
        self.control.serve(now);
        if now.saturating_sub(self.aged) >= AGE_EVERY {
            self.control.age(now);
            self.aged = now;
        }
    }

    /// The stations, to be looked at or set.
    pub fn control(&mut self) -> &mut learn::Control {
        &mut self.control
    }

    /// New stations that were refused because the table was full.
    pub fn refused(&self) -> u64 {
        self.control.refused()
    }

    /// All stations. `ports` are the ports' names by number.
    pub fn stations(&self, ports: &[&str], now: Nanos) -> Vec<Station> {
        let station = |entry: learn::Entry| Station {
            mac: entry.mac.to_string(),
            vlan: entry.vid,
            port: ports.get(usize::from(entry.port)).copied().unwrap_or_default().into(),
            age_seconds: entry.idle_seconds.into(),
            fixed: entry.fixed,
        };
        self.control.entries(now).into_iter().map(station).collect()
    }
}
