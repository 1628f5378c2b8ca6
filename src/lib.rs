//! weir: a software switch that measures what it forwards.
//!
//! Two ways to use it as a library:
//! - [`cli::run`] is weir's command line with telemetry programs of one's own beside its own
//!   ([`program::Program`]; docs/program.md, examples/count_min.rs).
//! - [`replay::Replayer`] is one switch in memory: packets go in with their times, counters and
//!   answers come out (examples/replayer.rs).
//!
//! Modules stand in the order in which a packet meets them; ARCHITECTURE.md is the map.

#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod port;
pub mod wire;
pub mod pisa;
pub mod output;
pub mod history;
pub mod answers;
pub mod program;
#[cfg(feature = "control")]
pub mod archive;
pub mod forward;
pub mod lock;
pub mod slices;
mod cpus;
pub mod text;
pub mod json;
pub mod stats;
pub mod telemetry;
pub mod observe;
pub mod switch;
#[cfg(feature = "dpdk")]
pub mod worker;
pub mod trace;
pub mod config;
pub mod tables;
pub mod network;
pub mod api;
#[cfg(feature = "control")]
pub mod web;
#[cfg(feature = "control")]
pub mod export;
pub mod assemble;
pub mod replay;
pub mod sim;
#[cfg(feature = "dpdk")]
pub mod privileges;
#[cfg(feature = "dpdk")]
pub mod live;
#[cfg(feature = "control")]
pub mod lab;
pub mod cli;
