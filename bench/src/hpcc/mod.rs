//! Congestion control by measured utilisation: a network of links with rates and queues, hosts that
//! run HPCC, and two ways by which the network's utilisation comes to them (PINT, §6.1).
//!
//! With INT each packet has room for what every switch on its way writes into it. With PINT it has
//! a byte, and switches run weir's own stages (`weir::program::pint::utilisation`).
//!
//! A simulation for itself, and not `weir::sim`, with which it has the sender in common
//! (`weir::sim::transport::hpcc`): no frames are parsed, rewritten or forwarded here, only lengths and
//! times, so a second of a core is 20 million hops of packets, ten times as many. Time has steps of a
//! picosecond. Links send packets in the order of their arrival, without loss and without pauses:
//! queues have no limit, and a run says how long the longest one was. Every packet is
//! acknowledged by one of its own, which takes its share of links and queues. The packets of a flow
//! take one way, chosen by a hash.

mod calendar;
mod kept;
mod network;
mod shared;
#[cfg(test)]
mod tests;
mod tree;

pub use kept::{Carried, Kept, RANGE};
pub use network::{Completion, Network, Telemetry, Totals};
pub use shared::{Shared, identifiers, query};
pub use tree::{MAX_HOPS, Tree};
use weir::sim::transport::hpcc::Parameters;
pub use weir::sim::transport::hpcc::Picos;
use weir::trace::{Arrival, Arrivals, Cdf};

/// The parameters of §6.1, for hosts whose link takes `byte` for a byte.
pub fn parameters(byte: Picos) -> Parameters {
    Parameters::new(byte, 13_000_000)
}

/// Flows between the hosts of a tree. Their payload takes the share `load` of the hosts' links.
pub fn poisson(tree: &Tree, sizes: Cdf, load: f64, duration: Picos, seed: u64) -> Vec<Arrival> {
    let all = Arrivals::new(tree.hosts(), tree.host_byte, sizes, load, seed);
    all.take_while(|flow| flow.at < duration).collect()
}
