//! The emulated switch ASIC: a PHV, stages with register arrays and stateful ALUs, hash units and match-action tables.

pub mod hash;
mod phv;

pub use phv::{DropReason, Phv, PortId, Verdict};
