//! The parameters: of the code, which all switches of a network share, of what is reported and
//! kept, and of the topology.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Pint;
use super::dataplane::Scheme;
use super::encoding::{DIGEST_BITS, Layers};
use super::plan::{Demand, Plan, PlanError};
use super::query::{Queries, Query, Value};
use crate::pisa::hash::HashFamily;
use crate::program::{Program, ProgramError};

/// PINT's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What is asked of packets: `path` and `latency`, each with its bits and the share of packets
    /// that are to carry it. Without it the path alone, with `bits` and `instances`.
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
        range("budget", self.budget, Self::MAX_BITS)?;
        range("bits", self.bits, Self::MAX_BITS)?;
        range("instances", self.instances, Self::MAX_BITS)?;
        range("path_length", self.path_length, Self::MAX_LENGTH)?;
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
        self.plan().map(|_| ()).map_err(|error| self.refuse(&error))
    }

    /// The queries: those that are configured, or the path.
    pub fn queries(&self) -> Vec<Query> {
        if self.queries.is_empty() {
            return vec![Query { bits: self.bits, instances: self.instances, ..Query::new(Value::Path) }];
        }
        self.queries.0.clone()
    }

    /// The query with this value.
    pub fn query(&self, value: Value) -> Option<Query> {
        self.queries().into_iter().find(|query| query.value == value)
    }

    /// Which queries packets carry together.
    ///
    /// # Errors
    /// If the budget has no room for all of them.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let demands: Vec<Demand> = self.queries().iter().map(Query::demand).collect();
        Plan::new(&demands, self.budget)
    }

    /// Names the queries that conflict, and those that would not.
    fn refuse(&self, error: &PlanError) -> ProgramError {
        let name = |place: usize| self.queries()[place].value.name();
        let right = match error {
            PlanError::Number => error.to_string(),
            PlanError::TooLarge { query, bits, budget } => {
                if self.queries.is_empty() {
                    let (key, value) = ("budget", budget.to_string());
                    let right = format!("at least bits × instances, {bits}");
                    return ProgramError::Value { program: Pint::NAME, key, value, right };
                }
                format!("no more than the budget of {budget} bits, {} has {bits}", name(*query))
            }
            PlanError::Conflict { conflicting, budget, factor, fits } => {
                let names = conflicting.queries().map(name).collect::<Vec<_>>().join(" and ");
                let nearest = self.queries().into_iter().zip(fits);
                let nearest = nearest.map(|(query, share)| Query { frequency: *share, ..query });
                let nearest = Queries(nearest.collect());
                format!("within {budget} bits, where {names} fit with frequencies times {factor:.3}: {nearest}")
            }
        };
        ProgramError::Value { program: Pint::NAME, key: "queries", value: self.queries.to_string(), right }
    }

    /// What switches with this configuration have in common. Demands without a plan have an empty
    /// one; such a configuration is not valid.
    pub fn scheme(&self, hashes: &HashFamily) -> Scheme {
        let plan = self.plan().unwrap_or_else(|_| Plan(Vec::new()));
        Scheme::new(&self.queries(), &plan, &Layers::of_length(self.path_length), hashes)
    }
}
