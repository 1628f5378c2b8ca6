//! A switch as a whole, at one moment.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Packets, Ports};
use crate::json::{Form, large};
use crate::stats::{ProgramStats, SwitchStats};

/// Counters of one worker. Cycles are those of the CPU's time stamp counter, or of DPDK's timer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    pub core: usize,
    /// Times the poll loop went round, and of these the ones that found packets.
    #[serde(with = "large")]
    #[schemars(with = "Form")]
    pub polls: u64,
    #[serde(with = "large")]
    #[schemars(with = "Form")]
    pub busy_polls: u64,
    /// Packets that came in.
    pub packets: u64,
    /// The time of the rounds that found packets, and of the others, sleep included.
    #[serde(with = "large")]
    #[schemars(with = "Form")]
    pub busy_cycles: u64,
    #[serde(with = "large")]
    #[schemars(with = "Form")]
    pub idle_cycles: u64,
    pub late_epochs: u64,
    pub lost_epochs: u64,
    /// The programs that it runs or ran.
    pub programs: Vec<WorkerProgram>,
}

/// Packets and time of one worker's programs of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerProgram {
    pub program: String,
    /// Packets that went through its ingress stages.
    pub packets: u64,
    /// The time of its ingress and egress stages, estimated from a part of the bursts.
    #[serde(with = "large")]
    #[schemars(with = "Form")]
    pub cycles: u64,
}

impl Worker {
    pub fn new(core: usize, stats: &SwitchStats) -> Self {
        Self {
            core,
            polls: stats.polls.get(),
            busy_polls: stats.busy_polls.get(),
            late_epochs: stats.late_epochs.get(),
            packets: stats.packets.get(),
            busy_cycles: stats.busy_cycles.get(),
            idle_cycles: stats.idle_cycles.get(),
            lost_epochs: stats.lost_epochs.get(),
            programs: stats.programs().into_iter().map(WorkerProgram::new).collect(),
        }
    }
}

impl WorkerProgram {
    fn new((name, stats): (&str, Arc<ProgramStats>)) -> Self {
        Self { program: name.into(), packets: stats.packets.get(), cycles: stats.cycles.get() }
    }
}

/// Everything that `weir top` and `/metrics` need of a switch, at one moment. Totals since the
/// start, never reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub name: String,
    pub version: String,
    pub pid: u32,
    /// When it started, after 1970-01-01 UTC.
    pub start_time_seconds: f64,
    pub uptime_seconds: f64,
    pub workers: Vec<Worker>,
    #[serde(flatten)]
    pub totals: Ports,
}

/// `weir show ports --since-reset`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SinceReset {
    /// The time since the reset, or since the start when there was none.
    pub since_reset_seconds: f64,
    /// Without a reset everything counts from the start.
    pub reset: bool,
    #[serde(flatten)]
    pub ports: Ports,
    /// All ports since the start, which no reset changes.
    pub total_packets: Packets,
}
