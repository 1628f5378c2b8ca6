//! weir: a software switch that measures what it forwards.
//!
//! Modules stand in the order in which a packet meets them.

pub mod forward;
pub mod pisa;
pub mod port;
pub mod program;
pub mod trace;
pub mod wire;
