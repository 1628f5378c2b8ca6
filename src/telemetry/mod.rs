//! From registers to records: epochs and the rotation of banks, and the collector that merges
//! replicas.

mod collector;
pub mod epoch;
mod registers;
mod run;
pub mod score;
mod settling;
mod store;

pub use collector::{Closed, Collector, Sink};
pub use registers::{BankCells, BankOrigin, Dump, DumpError, MAX_DUMP_BYTES, RegisterSink, RegisterTap};
pub use run::{Answered, Run};
pub use settling::Settling;
pub use store::{AnswerStore, Selected};
