//! The parameters of hop counters: memory, and the ports that share it.

use serde::{Deserialize, Serialize};

use super::HopCounters;
use crate::answers::CountedPort;
use crate::pisa::MAX_PORTS;
use crate::program::{Memory, Program, ProgramError};

/// Rows of a port: packets that came in and packets that left, each for both values of an epoch's lowest
/// bit.
const ROWS: u32 = 4;
/// Bytes of a counter.
const COUNTER: u64 = 4;
/// Ports that memory is planned for where a switch's ports are not known.
const PLANNED_PORTS: u32 = 8;

/// The parameters of hop counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Memory of the counters, which all ports of the switch share. Switches of a network may differ.
    pub memory: Memory,
    /// The switch's ports by their number. A switch fills them in from its own configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<CountedPort>,
}

impl Default for Config {
    fn default() -> Self {
        Self { memory: Memory(65_536), ports: Vec::new() }
    }
}

impl Config {
    /// Most counters of a row.
    pub const MAX_GROUPS: u32 = 1 << 16;

    /// Number of ports that have rows.
    pub fn rows(&self) -> u32 {
        if self.ports.is_empty() { PLANNED_PORTS } else { self.ports.len() as u32 }
    }

    /// Counters of a row: the largest power of two for which memory has room.
    pub fn groups(&self) -> u32 {
        let room = self.memory.0 / COUNTER / u64::from(self.rows() * ROWS);
        let room = room.clamp(1, Self::MAX_GROUPS.into()) as u32;
        1 << room.ilog2()
    }

    pub(super) fn validate(&self) -> Result<(), ProgramError> {
        let program = HopCounters::NAME;
        if self.ports.len() > MAX_PORTS {
            let (value, max) = (self.ports.len() as u64, MAX_PORTS as u64);
            return Err(ProgramError::Range { program, key: "ports", value, min: 0, max });
        }
        let row = COUNTER * u64::from(self.rows() * ROWS);
        let (min, max) = (row, row * u64::from(Self::MAX_GROUPS));
        if !(min..=max).contains(&self.memory.0) {
            return Err(ProgramError::Range { program, key: "memory", value: self.memory.0, min, max });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(bytes: u64, ports: usize) -> Config {
        let port = CountedPort { name: "p".into(), fabric: true };
        Config { memory: Memory(bytes), ports: vec![port; ports] }
    }

    /// 64 KiB are 512 counters a port and direction in a switch with 8 ports.
    #[test]
    fn ports_share_the_memory() {
        for (bytes, ports, groups) in
            [(65_536, 8, 512), (65_536, 0, 512), (65_536, 4, 1024), (65_536, 5, 512), (65_535, 8, 256), (16, 1, 1)]
        {
            assert_eq!(config(bytes, ports).groups(), groups, "{bytes} {ports}");
        }
        assert!(config(16, 2).validate().is_err() && config(32, 2).validate().is_ok());
        assert!(config(1 << 30, 2).validate().is_err() && config(1 << 20, MAX_PORTS + 1).validate().is_err());
    }
}
