//! Congestion control by measured utilisation: a network of links with rates and queues, hosts that
//! run HPCC, and two ways by which the network's utilisation comes to them (PINT, §6.1).
//!
//! With INT each packet has room for what every switch on its way writes into it. With PINT it has
//! a byte, and switches run weir's own stages (`weir::program::pint::utilisation`).
//!
//! A simulation for itself, and not `weir::sim`: no frames are parsed, rewritten or forwarded here,
//! only lengths and times, so a second of a core is 20 million hops of packets. Time has steps of a
//! picosecond. Links send packets in the order of their arrival, without loss and without pauses:
//! queues have no limit, and a run says how long the longest one was. Every packet is
//! acknowledged by one of its own, which takes its share of links and queues. The packets of a flow
//! take one way, chosen by a hash.

mod calendar;
mod flows;
mod network;
mod sender;
mod shared;
#[cfg(test)]
mod tests;
mod tree;

pub use calendar::Picos;
pub use flows::poisson;
pub use network::{Completion, Network, Telemetry, Totals};
pub use sender::{MAX_HOPS, Parameters};
pub use shared::{Kept, Shared, identifiers, query};
pub use tree::Tree;
