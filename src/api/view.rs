//! The documents that the API, `--json` and the totals share: stable keys, units in the names.

mod claim;
mod counts;
mod drops;
mod heavy;
mod latency;
mod loops;
mod network;
mod newest;
pub mod packet;
mod paths;
mod ports;
mod queries;
mod registers;
mod status;
mod utilisation;
mod values;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

pub use claim::{Claim, Claimed, Gap};
pub use counts::Counts;
pub use drops::{Drop, Drops};
pub use heavy::{HeavyFlow, HeavyFlows};
pub use latency::{FlowLatency, HopLatency, Latency};
pub use loops::{FlowLoop, Loops};
pub use network::{
    Attention, ChangedFlow, EpochNumbers, FlowSizes, HeavyChanges, LastLoss, Losses, Numbers, SwitchNumbers,
};
pub use paths::{Path, Paths};
pub use ports::{Lacking, Measurement, Packets, Port, Ports, Removed};
#[cfg(test)]
pub use queries::tests::answers as value_answers;
pub use registers::{
    ArrayLayout, CellStream, CellValue, ProgramLayout, ProgramRegisters, RegisterArray, RegisterBank, Registers,
};
pub use status::{SinceReset, Status, Worker, WorkerProgram};
pub use utilisation::{FlowUtilisation, Utilisation};
pub use values::{FlowValues, Frequent, Told, Value, Values};

pub use crate::network::documents::{
    ChangedParameters, ControllerLink, EpochAttention, EvictedSwitch, LinkedProgram, NetworkSwitch, NetworkSwitches,
};
use crate::program::answers::Task;
pub use crate::tables::documents::{MacEntry, MacTable, Table, TableChanged, TableRows, Tables};
use crate::telemetry::Selected;

/// The answer of a program to a task, about these epochs: at most `top` flows, of at least
/// `threshold` packets or bytes.
///
/// # Errors
/// If it has no form in JSON.
pub fn document(
    task: Task,
    program: &str,
    selected: Selected,
    top: usize,
    threshold: u64,
) -> Result<Claimed<Json>, serde_json::Error> {
    match task {
        Task::Heavy => HeavyFlows::new(program, &selected, top, threshold).untyped(),
        Task::Flows => FlowSizes::new(selected, top, threshold).untyped(),
        Task::Cardinality => Numbers::new(&selected).untyped(),
        Task::Losses => Losses::new(&selected, top, threshold).untyped(),
        Task::Changes => HeavyChanges::new(selected, top, threshold).untyped(),
        Task::Attention => Attention::new(&selected).untyped(),
        Task::Paths => Paths::new(&selected, top, threshold).untyped(),
        Task::Latency => Latency::new(&selected, top, threshold).untyped(),
        Task::Loops => Loops::new(&selected, top, threshold).untyped(),
        Task::Utilisation => Utilisation::new(&selected, top, threshold).untyped(),
        Task::Values => Values::new(&selected, top, threshold).untyped(),
    }
}

/// `weir show api`: connections to the API's listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Api {
    /// Connections to the control socket.
    pub socket_connections: u64,
    /// Connections by TCP whose client showed a certificate that is trusted.
    pub tls_connections: u64,
    /// Connections by TCP that did not get as far.
    pub failed_handshakes: u64,
    /// Connections by TCP that were closed because there were too many.
    pub refused_connections: u64,
}

/// The answer to a request that is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub error: String,
}

/// The changes of a reload, a line each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    pub changes: Vec<String>,
}

#[cfg(test)]
mod tests;
