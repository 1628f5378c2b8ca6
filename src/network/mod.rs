//! Switches and their controller, for any program: membership, epochs and deadlines, parameters,
//! the protocol.

pub mod controller;
pub mod documents;
#[cfg(feature = "control")]
pub mod rpc;
#[cfg(feature = "control")]
pub mod server;
pub mod socket;
#[cfg(feature = "control")]
pub mod tls;
