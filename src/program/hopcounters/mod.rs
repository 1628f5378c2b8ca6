//! Hop counters: what each link and each switch lost, exactly, from counters at both of its ends.
//!
//! *Source:* no paper. Counters at both ends of a link whose difference is what was lost between them are
//! those of LossRadar (Li, Miao, Kim, Yu: "LossRadar: Fast Detection of Lost Packets in Data Center
//! Networks", CoNEXT 2016), here as plain counts by group of flows: the flows that lost packets are named
//! by another program.
//!
//! *Shape:* a switch has two rows of counters for each port: packets that came in, counted in ingress, and
//! packets that left, counted in egress. A hash of the flow, the same in all switches of a network, names the
//! counter of a row (`hashes`). A packet is counted under the epoch that it carries, at each hop in the same
//! one: rows have a half for each value of an epoch's lowest bit, and rotate a transit time after their
//! epoch. So the packets that the switch at one end of a link counted as sent, less those that the switch at
//! the other end counted as received, are those that the link lost, group by group; and what came in by all
//! ports less what left by all ports is what the switch lost.
//!
//! *Guarantee:* where both ends report an epoch and no link doubles packets, the difference is exact. Packets
//! that come after the transit time are counted apart, by port and epoch, and taken off what seems lost up
//! to the network's horizon. A counter that is full, and an epoch that a switch did not measure whole, are
//! gaps.
//!
//! *Units:* IP packets that are no fragments: their five-tuple is the same at each hop. Other packets are not
//! counted at any.
//!
//! *Memory:* `memory`, shared by all ports: 4 · ports · groups counters of 32 bits. Beside it a switch
//! counts late packets, and drops by place and reason (`apart`), and the balance of packets that end in it or
//! that it makes: floods, fragments, answers of a router.

mod analysis;
mod apart;
mod archived;
mod config;
mod dataplane;
mod hashes;
mod kept;
mod p4;
mod record;
mod replica;

use std::sync::Arc;

pub use analysis::HopAnalysis;
pub use config::Config;
pub use kept::KeptHops;
pub use record::HopRecord;

use super::{Dataplane, Difference, P4Form, P4Request, Program, ProgramError, ReadRecord, Schedule};
use crate::answers::CountedPort;
use crate::pisa::Excess;
use crate::pisa::hash::HashFamily;
use hashes::Hashes;
use record::Shape;

/// The program.
#[derive(Clone, Copy, Debug)]
pub enum HopCounters {}

impl HopCounters {
    /// The form that records of a switch with this configuration have in common.
    fn shape(config: &Config, family: &HashFamily) -> Arc<Shape> {
        Arc::new(Shape { config: config.clone(), hashes: Hashes::new(family) })
    }
}

impl Program for HopCounters {
    const NAME: &'static str = "hopcounters";
    type Config = Config;
    type Parameters = ();
    type Setting = ();
    type Record = HopRecord;
    type Analysis = HopAnalysis;

    const ON_EVERY_HOP: bool = true;

    fn local_only(_: &Config) -> Option<&'static str> {
        None
    }

    fn at_ports(config: &Config, ports: &[CountedPort]) -> Config {
        Config { ports: ports.to_vec(), ..config.clone() }
    }

    fn validate(config: &Config) -> Result<(), ProgramError> {
        config.validate()
    }

    fn blame(_: &Config, _: &str, _: Excess) -> (&'static str, &'static str) {
        ("memory", "less")
    }

    fn start(_: &Config) {}

    fn dataplane(
        config: &Config,
        _: &str,
        hashes: &HashFamily,
        _: &Schedule<Self>,
    ) -> Result<Box<dyn Dataplane>, ProgramError> {
        config.validate()?;
        Ok(Box::new(replica::HopReplica::new(Self::shape(config, hashes))))
    }

    fn reader(config: &Config, _: &str, hashes: &HashFamily) -> impl ReadRecord<HopRecord> {
        let shape = Self::shape(config, hashes);
        move |bytes| HopRecord::decode(&shape, bytes)
    }

    fn p4(request: &P4Request<'_, Config>) -> Result<Option<P4Form>, ProgramError> {
        p4::form(request).map(Some)
    }

    fn longest(config: &Config) -> usize {
        record::longest(config)
    }

    /// Rows of other lengths are folded: groups are the highest bits of one hash.
    fn difference(_: &Config, _: &Config) -> Option<Difference> {
        None
    }

    fn analysis(_: &Config, _: u64) -> HopAnalysis {
        HopAnalysis::default()
    }
}

#[cfg(test)]
mod tests;
