//! weir: a software switch that measures what it forwards.
//!
//! Modules stand in the order in which a packet meets them.

#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod port;
pub mod wire;
pub mod pisa;
pub mod program;
pub mod forward;
pub mod trace;
