//! A controller as its file configures it.

use super::{ControllerSettings, NetworkProfile};
use crate::config::{Length, NetworkConfig};
use crate::history::Room;
use crate::program::ProgramConfig;

impl NetworkConfig {
    /// The profile of all switches that run one of the programs.
    pub fn profile(&self, program: &ProgramConfig) -> NetworkProfile {
        let (length, transit) = (self.epoch.nanos(), self.transit.nanos());
        NetworkProfile { program: program.clone(), length, transit, header: self.telemetry_header, key: self.key }
    }

    /// How the controller of a program behaves. `salt` makes the sampling of this deployment its
    /// own.
    pub fn settings(&self, program: &ProgramConfig, salt: u64) -> ControllerSettings {
        let length = self.epoch.nanos();
        let settings = ControllerSettings::new(length, salt);
        let history = usize::try_from(self.history.nanos() / length.max(1)).unwrap_or(usize::MAX).clamp(1, 65_536);
        // Those that wait for late packets come on top.
        let history = Room { epochs: history.saturating_add(self.horizon as usize), ..settings.history };
        let (record_timeout, edges_named) =
            (self.record_timeout.map_or(length, Length::nanos), !self.switches.is_empty());
        let (horizon, shifts) = (Some(self.horizon), self.shifts(program));
        ControllerSettings { record_timeout, horizon, history, shifts, edges_named, ..settings }
    }
}
