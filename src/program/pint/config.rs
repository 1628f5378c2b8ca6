//! The parameters: of the code, which all switches of a network share, of what is reported and
//! kept, and of the topology.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dataplane::Scheme;
use super::encoding::DIGEST_BITS;
use super::query::{Queries, Query, Value};
use super::{Pint, PlanParameters};
use crate::pisa::hash::HashFamily;
use crate::program::{Program, ProgramError};

/// PINT's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What is asked of packets: `path`, `loops`, and values of switches such as `latency`, each with
    /// its bits and the share of packets that are to carry it. Without it the path alone, with `bits` and
    /// `instances`.
    #[serde(skip_serializing_if = "Queries::is_empty")]
    pub queries: Queries,
    /// Bits of a packet for all queries together.
    #[schemars(range(min = 1, max = Config::MAX_BITS))]
    pub budget: u32,
    /// Bits of one hash of a switch.
    #[schemars(range(min = 1, max = Config::MAX_BITS))]
    pub bits: u32,
    /// Hashes that a packet carries side by side, each of a hop of its own. Together they have at
    /// most 16 bits.
    #[schemars(range(min = 1, max = Config::MAX_BITS))]
    pub instances: u32,
    /// Number of switches on long paths. The layers follow from it, and from the bits.
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
            queries: Queries::default(),
            budget: DIGEST_BITS,
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
        range("reports", self.reports, Self::MAX_REPORTS)?;
        range("packets", self.packets, Self::MAX_PACKETS)?;
        range("flows", self.flows, Self::MAX_FLOWS)?;
        let combination = |why| Err(ProgramError::Combination { program: Pint::NAME, why });
        if self.bits * self.instances > DIGEST_BITS {
            return combination("bits × instances exceeds the 16 bits of a digest");
        }
        let default = Self::default();
        if !self.queries.is_empty() && (self.bits, self.instances) != (default.bits, default.instances) {
            return combination("with queries, bits and instances are those of the query path");
        }
        if self.queries.is_empty() && self.bits * self.instances > self.budget {
            let right = format!("at least bits × instances, {}", self.bits * self.instances);
            return Err(ProgramError::Value {
                program: Pint::NAME,
                key: "budget",
                value: self.budget.to_string(),
                right,
            });
        }
        if let Some(clash) = Pint::clash(self, &[]) {
            let (value, right) = (format!("{}, {}", clash.one, clash.other), clash.to_string());
            return Err(ProgramError::Value { program: Pint::NAME, key: "neighbours", value, right });
        }
        self.parameters().validate()
    }

    /// The switches that `neighbours` names, some more than once.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.neighbours.iter().flat_map(|(name, others)| std::iter::once(name).chain(others)).map(String::as_str)
    }

    /// What a network with this configuration begins with.
    pub fn parameters(&self) -> PlanParameters {
        let path = || Query { bits: self.bits, instances: self.instances, ..Query::new(Value::Path) };
        let queries = if self.queries.is_empty() { Queries(vec![path()]) } else { self.queries.clone() };
        PlanParameters { queries, budget: self.budget, path_length: self.path_length }
    }

    /// The codes of the parameters that a network with this configuration begins with.
    pub fn scheme(&self, hashes: &HashFamily) -> Scheme {
        self.parameters().scheme(hashes)
    }
}
