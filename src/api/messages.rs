//! Queries and requests of clients.

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::answers::{ALARM_RATE, Query, Task};
use crate::config::default_mtu;
use crate::history::Window;
use crate::port::{Dev, FaultSpec};
use crate::program::ProgramConfig;
use crate::switch::Role;
use crate::tables::Change;
use crate::telemetry::epoch::wall_clock;
use crate::wire::{Pattern, PatternError};

/// The query of `GET /v1/heavy` and of the other tasks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeavyQuery {
    /// Maximum number of flows in the answer.
    pub top: usize,
    /// Minimum size of a flow in the answer, in packets, or in bytes where the program counts bytes.
    pub threshold: u64,
    /// Length of the period up to now that the answer covers, in seconds.
    #[serde(deserialize_with = "seconds")]
    pub seconds: f64,
    /// The number of an epoch. In place of the last `seconds`, the answer covers the oldest epoch after it.
    pub after: Option<u64>,
    /// A `sequence` of an earlier answer. In place of the last `seconds`, the answer covers what was published or
    /// amended first after it.
    pub since: Option<u64>,
    /// Whether the answer also covers epochs that are not final yet.
    pub provisional: bool,
    /// The program that answers; by default the first that can.
    pub program: Option<String>,
    /// A pattern of the flows in the answer, as `10.0.0.1:80 → 10.0.0.0/24:* tcp`; by default all flows.
    pub flow: Option<String>,
    /// Names of switches with commas between. The answer has flows whose paths cross these in this order.
    pub path: Option<String>,
    /// The largest share of packets that a link or switch loses without being called failed, where that is
    /// inferred.
    #[serde(deserialize_with = "alarm_rate")]
    pub alarm_rate: f64,
}

impl HeavyQuery {
    /// The question to a program's history.
    ///
    /// # Errors
    /// If `flow` is no pattern of flows.
    pub fn query(&self, task: Task) -> Result<Query, String> {
        let Self { top, threshold, seconds, after, since, provisional, alarm_rate, .. } = *self;
        let window = match (since, after) {
            (Some(sequence), _) => Window::Since { sequence },
            (None, Some(after)) => Window::Next { after },
            (None, None) => Window::Last { seconds },
        };
        let flow = self.flow.as_deref().map(str::parse).transpose();
        let flow = flow.map_err(|error: PatternError| format!("flow = {error}"))?;
        let path = self.path.iter().flat_map(|path| path.split(',')).map(str::to_owned).collect();
        let now = Some(wall_clock());
        let query = Query::new(task, window).limited(top, threshold);
        Ok(Query { window, provisional, now, flow, path, alarm_rate, ..query })
    }

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
        Self {
            top: 20,
            threshold: 1,
            seconds: 10.0,
            after: None,
            since: None,
            provisional: false,
            program: None,
            flow: None,
            path: None,
            alarm_rate: ALARM_RATE,
        }
    }
}

/// A share that is neither nothing nor all.
fn alarm_rate<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let rate = f64::deserialize(from)?;
    let wrong = || D::Error::custom(format!("alarm_rate = {rate}: a share between 1e-9 and 0.5"));
    (1e-9..=0.5).contains(&rate).then_some(rate).ok_or_else(wrong)
}

/// A length of time that can be looked back.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let seconds = f64::deserialize(from)?;
    let wrong = || D::Error::custom(format!("seconds = {seconds}: a number from 0 up"));
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds).ok_or_else(wrong)
}

/// `POST /v1/frequency`: each pattern is answered by itself.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Each as `flow` of a query.
    #[schemars(length(max = Flows::MOST))]
    pub flows: Vec<String>,
}

impl Flows {
    pub const MOST: usize = 1000;

    /// # Errors
    /// If they are too many, or one is no pattern.
    pub fn patterns(&self) -> Result<Vec<Pattern>, String> {
        if self.flows.len() > Self::MOST {
            return Err(format!("{} flows: a question is about at most {}", self.flows.len(), Self::MOST));
        }
        self.flows.iter().map(|flow| flow.parse().map_err(|error: PatternError| format!("flows: {error}"))).collect()
    }
}

/// `PUT /v1/ports/NAME/link`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub up: bool,
}

/// `PUT /v1/ports/NAME/promiscuous`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Promiscuous {
    pub on: bool,
}

/// `PUT /v1/ports/NAME/mtu`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mtu {
    pub mtu_bytes: u32,
}

/// `PUT /v1/ports/NAME/fault`. Null ends the faults; the key cannot be left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = ["fault"]))]
pub struct Fault {
    #[serde(deserialize_with = "Option::deserialize")]
    pub fault: Option<FaultSpec>,
}

/// `POST /v1/tables/NAME`: all of them, in order, or none.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    pub changes: Vec<Change>,
}

/// `POST /v1/ports`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
