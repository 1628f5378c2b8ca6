//! Traffic with known truth.
//!
//! [`traffic`] says which frames are sent, [`pace`] when, [`signature`] what they carry so that they
//! are known again, [`tally`] what came back. `engine` drives them over weir's ports.

pub mod buffer;
pub mod conversations;
#[cfg(feature = "dpdk")]
pub mod engine;
pub mod latency;
pub mod pace;
pub mod search;
pub mod signature;
pub mod tally;
pub mod traffic;
pub mod truth;
pub mod words;
