//! A controller as its file configures it.

use super::{ControllerSettings, NetworkProfile};
use crate::config::{Length, NetworkConfig};

impl NetworkConfig {
    /// What all switches of the network have in common.
    pub fn profile(&self) -> NetworkProfile {
        let (length, transit) = (self.epoch.nanos(), self.transit.nanos());
        NetworkProfile { program: self.program.clone(), length, transit, header: self.telemetry_header }
    }

    /// How the controller behaves. `salt` makes the sampling of this deployment its own.
    pub fn settings(&self, salt: u64) -> ControllerSettings {
        let length = self.epoch.nanos();
        let settings = ControllerSettings::new(length, salt);
        let history = usize::try_from(self.history.nanos() / length.max(1)).unwrap_or(usize::MAX).clamp(1, 65_536);
        let (record_timeout, edges_named) =
            (self.record_timeout.map_or(length, Length::nanos), !self.switches.is_empty());
        ControllerSettings { record_timeout, history, shifts: self.shifts(), edges_named, ..settings }
    }
}
