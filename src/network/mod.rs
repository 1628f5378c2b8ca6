//! Switches and their controller, for any program: membership, epochs and deadlines, parameters,
//! the protocol.

pub mod controller;
pub mod documents;
pub mod rpc;
pub mod server;
pub mod socket;
pub mod tls;
