//! The parameters: of the code, which all switches of a network share, of what is reported and
//! kept, and of the topology.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Pint;
use super::dataplane::Code;
use super::encoding::{DIGEST_BITS, Layers};
use crate::pisa::hash::HashFamily;
use crate::program::{Program, ProgramError};

/// PINT's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Bits of one hash of a switch.
    #[schemars(range(min = 1, max = Config::MAX_BITS))]
    pub bits: u32,
    /// Hashes that a packet carries side by side, each of a hop of its own. Together they have at
    /// most 16 bits.
    #[schemars(range(min = 1, max = Config::MAX_BITS))]
    pub instances: u32,
    /// Typical number of switches on a path. The layers follow from it.
    #[schemars(range(min = 1, max = Config::MAX_LENGTH))]
    pub path_length: u32,
    /// Reports that a switch keeps of an epoch: packets that left to hosts.
    #[schemars(range(min = 1, max = Config::MAX_REPORTS))]
    pub reports: u32,
    /// Packets that are kept of a flow.
    #[schemars(range(min = 1, max = Config::MAX_PACKETS))]
    pub packets: u32,
    /// Flows that are kept over all epochs; others take the place of those that are silent longest.
    #[schemars(range(min = 1, max = Config::MAX_FLOWS))]
    pub flows: u32,
    /// The neighbours of each switch, by name, where they are known: one direction of a link is
    /// enough. With them a path takes fewer packets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub neighbours: BTreeMap<String, Vec<String>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bits: 8,
            instances: 2,
            path_length: 5,
            reports: 16_384,
            packets: 512,
            flows: 4096,
            neighbours: BTreeMap::new(),
        }
    }
}

impl Config {
    pub const MAX_BITS: u32 = DIGEST_BITS;
    pub const MAX_LENGTH: u32 = 62;
    pub const MAX_REPORTS: u32 = 1 << 20;
    pub const MAX_PACKETS: u32 = 1 << 14;
    pub const MAX_FLOWS: u32 = 1 << 20;

    /// Checks the ranges and what goes together.
    pub(super) fn validate(&self) -> Result<(), ProgramError> {
        let range = |key, value, max| ProgramError::check(Pint::NAME, key, value, 1..=max);
        range("bits", self.bits, Self::MAX_BITS)?;
        range("instances", self.instances, Self::MAX_BITS)?;
        range("path_length", self.path_length, Self::MAX_LENGTH)?;
        range("reports", self.reports, Self::MAX_REPORTS)?;
        range("packets", self.packets, Self::MAX_PACKETS)?;
        range("flows", self.flows, Self::MAX_FLOWS)?;
        if self.bits * self.instances > DIGEST_BITS {
            let why = "bits × instances exceeds the 16 bits of a digest";
            return Err(ProgramError::Combination { program: Pint::NAME, why });
        }
        Ok(())
    }

    /// The code of switches with this configuration.
    pub fn code(&self, hashes: &HashFamily) -> Code {
        Code::new(self.bits, self.instances, &Layers::of_length(self.path_length), hashes)
    }
}
