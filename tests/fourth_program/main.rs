//! A program that weir does not have, with everything that a program can have: it is right in
//! memory, replayed, simulated and live.

#[path = "../common/mod.rs"]
#[allow(dead_code, unused_imports)]
#[cfg(feature = "dpdk")]
mod common;
#[path = "../common/frames.rs"]
#[allow(dead_code)]
mod frames;
#[path = "../common/layout.rs"]
mod layout_check;
mod network;
mod program;
#[path = "../common/records.rs"]
#[allow(dead_code, reason = "some of it is for other tests")]
mod records;
mod unit;
mod whole;
