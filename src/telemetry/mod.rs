//! From registers to records: epochs and the rotation of banks, and the collector that merges
//! replicas.

mod collector;
pub mod epoch;
mod registers;
mod settling;

pub use collector::{Closed, Collector, Sink};
pub use registers::{BankCells, BankOrigin, Dump, DumpError, MAX_DUMP_BYTES, RegisterSink, RegisterTap};
pub use settling::Settling;
