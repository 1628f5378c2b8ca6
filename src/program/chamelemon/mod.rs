//! ChameleMon: which flows lost how many packets, and six more answers about flows, from one set of sketches.
pub mod collector;
mod config;
pub mod dataplane;
pub mod field;
mod hashes;
mod id;
pub mod oracle;
mod runtime;
mod tables;

pub use collector::{Analysis, Answers, Sketches};
pub use config::{Config, Level, TowerShape, Width};
pub use hashes::{Hashes, Lanes};
pub use id::{FINGERPRINT_BITS, FlowId, Naming};
pub use runtime::{Division, Runtime, Shape};
pub use tables::{ChameleMon, ChameleMonBank, Counters, RowRegisters};
