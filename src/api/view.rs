//! The documents that the API, `--json` and the totals share: stable keys, units in the names.

mod counts;
mod drops;
mod exported;
mod otlp;
pub mod packet;
mod ports;
mod registers;
mod status;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answers::{Claimed, Frequency, frequency_table};
use crate::output::Page;

pub use counts::Counts;
pub use drops::{Drop, Drops};
pub use exported::Exported;
pub use otlp::Otlp;
pub use ports::{Lacking, Measurement, Packets, Port, Ports, Removed, Tunnelled};
pub use registers::{
    ArrayLayout, CellStream, CellValue, ProgramLayout, ProgramRegisters, RegisterArray, RegisterBank, Registers,
};
pub use status::{SinceReset, Status, Worker, WorkerProgram};

pub use crate::network::documents::{
    ChangedParameters, ControllerLink, EvictedSwitch, LinkedProgram, NetworkSwitch, NetworkSwitches,
};
pub use crate::tables::documents::{MacEntry, MacTable, Table, TableChanged, TableRows, Tables};

/// `weir show api`: connections to the API's listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// The answers to questions about several flows or patterns, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Frequencies {
    pub frequencies: Vec<Claimed<Frequency>>,
}

impl Frequencies {
    /// A row for each, and the lines of their claims, each once.
    pub fn page(&self) -> Page {
        let Some(first) = self.frequencies.first() else { return Page::default().text("no flows") };
        let rows: Vec<&Frequency> = self.frequencies.iter().map(|frequency| &**frequency).collect();
        let table = frequency_table(rows).beside(&first.claim.columns());
        let claims = self.frequencies.iter().map(|frequency| Frequency::claimed(frequency, &frequency.program));
        let mut lines: Vec<String> = Vec::new();
        for line in claims.collect::<Vec<_>>().iter().flat_map(|claim| claim.lines()) {
            if lines.iter().all(|before| before != line) {
                lines.push(line.to_owned());
            }
        }
        Page::default().table("frequency", table).text(lines.join("\n"))
    }
}

/// The answer to a request that is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    pub error: String,
}

/// The changes of a reload, a line each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reloaded {
    pub changes: Vec<String>,
}
