//! Queries and requests of clients.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::default_mtu;
use crate::port::{Dev, FaultSpec};
use crate::program::ProgramConfig;
use crate::program::answers::Task;
use crate::switch::Role;
use crate::tables::Change;

/// `GET /v1/heavy`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeavyQuery {
    pub top: usize,
    pub threshold: u64,
    #[serde(deserialize_with = "seconds")]
    pub seconds: f64,
    /// Instead of the last `seconds`: the oldest epoch that ended after this one.
    pub after: Option<u64>,
    /// Instead of that: what was published or amended first after this number.
    pub since: Option<u64>,
    /// Epochs that are not final yet as well.
    pub provisional: bool,
    /// The program that is asked; by default the first that can answer.
    pub program: Option<String>,
}

impl HeavyQuery {
    /// The program that is asked for a task: of those that may be meant, the one that ranks it
    /// first.
    pub fn choose<'a>(
        &self,
        programs: impl Iterator<Item = &'a ProgramConfig>,
        task: Task,
    ) -> Option<&'a ProgramConfig> {
        let asked = programs.filter(|program| self.program.as_ref().is_none_or(|name| name == program.name()));
        let ranked = asked.filter_map(|program| Some((program.rank(task)?, program)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, program)| program)
    }
}

impl Default for HeavyQuery {
    fn default() -> Self {
        Self { top: 20, threshold: 1, seconds: 10.0, after: None, since: None, provisional: false, program: None }
    }
}

/// A length of time that can be looked back.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let seconds = f64::deserialize(from)?;
    let wrong = || D::Error::custom(format!("seconds = {seconds}: a number from 0 up"));
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds).ok_or_else(wrong)
}

/// `PUT /v1/ports/NAME/link`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub up: bool,
}

/// `PUT /v1/ports/NAME/promiscuous`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promiscuous {
    pub on: bool,
}

/// `PUT /v1/ports/NAME/mtu`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mtu {
    pub mtu_bytes: u32,
}

/// `PUT /v1/ports/NAME/fault`. Null ends the faults; the key cannot be left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    #[serde(deserialize_with = "Option::deserialize")]
    pub fault: Option<FaultSpec>,
}

/// `POST /v1/tables/NAME`: all of them, in order, or none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    pub changes: Vec<Change>,
}

/// `POST /v1/ports`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPort {
    pub name: String,
    pub dev: Dev,
    #[serde(default)]
    pub role: Role,
    #[serde(default = "default_mtu")]
    pub mtu_bytes: u32,
    /// The port that it is joined with, in a switch that joins ports in pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<String>,
}
