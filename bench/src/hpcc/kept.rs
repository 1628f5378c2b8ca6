//! Packets of some flows, kept with what is true of them: the hops' latencies of PINT's Figures 9
//! and 11.

use weir::program::pint::compress::Range;
use weir::trace::Arrival;

use super::network::PAYLOAD;
use super::tree::{MAX_HOPS, MAX_LINKS, Path, Tree};

/// Nanoseconds that a packet takes in a switch without a queue.
pub const EMPTY_NS: u32 = 1000;

/// The times that codes tell apart: from an empty switch's to that of a queue of 0.7 MB at a host.
/// The longest queue of the runs with latencies holds 0.66 MB.
pub const RANGE: Range = Range { from: EMPTY_NS, to: 60_000 };

/// Maximum number of flows of a run of which packets are kept.
const KEPT_FLOWS: usize = 300;

/// A packet as its receiver has it, and what is true of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    pub identity: u32,
    pub digest: u16,
    /// Nanoseconds in each switch of its path.
    pub latencies: [u32; MAX_HOPS],
}

/// The first packets of a flow that crosses [`MAX_HOPS`] switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its switches, by number.
    pub path: [u32; MAX_HOPS],
    pub packets: Vec<Carried>,
}

/// Chooses flows of a run, by number, with room for this many packets of each: the first ones that
/// have them all, on paths of [`MAX_HOPS`] switches. Flows that begin in the first fifth of the
/// time find the network too empty, and those of the last fifth are left alone. With no packets
/// there are no flows.
pub fn choose<'a>(
    tree: &Tree,
    arrivals: &[Arrival],
    packets: usize,
    path: impl Fn(usize) -> &'a Path,
) -> Vec<(usize, Kept)> {
    let last = arrivals.last().map_or(0, |last| last.at);
    let loaded = last / 5..last * 4 / 5;
    let long = |flow: &Arrival| packets > 0 && loaded.contains(&flow.at) && (flow.bytes / PAYLOAD) as usize >= packets;
    let all = arrivals.iter().enumerate().filter(|(_, flow)| long(flow)).map(|(number, _)| number);
    let kept = |number| {
        // The first port is the host's.
        let ports: &[u16; MAX_LINKS] = path(number).ports().try_into().ok()?;
        let path = std::array::from_fn(|hop| tree.switch(ports[hop + 1].into()));
        Some((number, Kept { path, packets: Vec::with_capacity(packets) }))
    };
    all.filter_map(kept).take(KEPT_FLOWS).collect()
}
