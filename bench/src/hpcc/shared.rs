//! PINT's three use cases in one digest of 16 bits (§6.4): the path of each flow on all packets,
//! the latency of its hops on 15 of 16, and the utilisation of links on the others, 8 bits each.
//!
//! The plan is the one that weir's engine finds, and path and latency are written by weir's own
//! stages ([`Scheme`]). The utilisation takes the bits that the latency leaves free.

use weir::pisa::hash::HashFamily;
use weir::program::pint::dataplane::{Coded, Measured, Scheme};
use weir::program::pint::encoding::switch_id;
use weir::program::pint::plan::{Demand, Plan, Share};
use weir::program::pint::query::{Query, Value};

use super::kept::RANGE;
use super::tree::{MAX_HOPS, Tree};

/// Bits of each query.
const BITS: u32 = 8;
const BUDGET: u32 = 16;

/// The query of this value, with this number of bits.
pub fn query(value: Value, bits: u32) -> Query {
    Query { bits, range: RANGE, ..Query::new(value) }
}

/// The codes of the three queries, which all switches of a tree share.
#[derive(Debug)]
pub struct Shared {
    scheme: Scheme,
    /// The hashes of each switch.
    switches: Vec<Coded>,
}

/// The identifiers of a tree's switches.
pub fn identifiers(tree: &Tree) -> impl Iterator<Item = u32> {
    (0..tree.switches()).map(|switch| switch_id(&format!("s{switch}")))
}

impl Shared {
    pub fn new(tree: &Tree, family: &HashFamily) -> Self {
        let share = |sixteenths| Share::at_least(sixteenths, 16).expect("no more than all packets");
        let demands = [16, 15, 1].map(|sixteenths| Demand { bits: BITS, share: share(sixteenths) });
        let plan = Plan::new(&demands, BUDGET).expect("two of three queries fit on each packet");
        // The scheme has two queries. It leaves the bits of the third, the utilisation, as they are.
        let queries = [Value::Path, Value::Latency].map(|value| query(value, BITS));
        let scheme = Scheme::new(&queries, &plan, MAX_HOPS as u32, family);
        let switches = identifiers(tree).map(|id| scheme.switch(id)).collect();
        Self { scheme, switches }
    }

    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Whether a packet carries the utilisation.
    pub fn asks(&self, identity: u32) -> bool {
        self.scheme.parts(identity).iter().all(|part| part.value != Value::Latency)
    }

    /// The digest behind a switch. `utilisation` gives the utilisation's part behind it.
    pub fn write(&self, switch: u32, packet: Measured, digest: u16, utilisation: impl FnOnce(u8) -> u8) -> u16 {
        let digest = self.scheme.encode(&self.switches[switch as usize], packet, digest);
        if !self.asks(packet.identity) {
            return digest;
        }
        let [high, low] = digest.to_be_bytes();
        u16::from_be_bytes([utilisation(high), low])
    }

    /// The utilisation's part of a digest.
    pub fn utilisation(digest: u16) -> u8 {
        digest.to_be_bytes()[0]
    }
}
