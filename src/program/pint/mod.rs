//! PINT: what the packets of a flow meet on their way, on 1 to 16 bits a packet: the switches that a
//! flow crosses, loops, and values of these switches, of each hop or of the whole way.
//!
//! *Paper:* Ben Basat, Ramanathan, Li, Antichi, Yu, Mitzenmacher: "PINT: Probabilistic In-band
//! Network Telemetry", SIGCOMM 2020; Algorithms 1 and 2, §4.2, §4.3 and appendix A.
//!
//! *Shape:* Each packet carries a digest, of one set of the configured queries ([`query`]); the
//! [`plan`] says which. A switch writes a hash of its identifier and of the packet into it, or a code
//! of a value, or leaves it, as hashes decide that all know (`encoding`). For a value of the whole
//! way it keeps the largest or the smallest code, or adds its own ([`values`]). The last
//! switch takes the digest off and reports it with the packet's identity and the number of switches
//! passed. Of a packet that it does not report it computes no digest, unless hosts read them. What has
//! the reports knows which switches wrote each digest. It eliminates candidates of paths
//! (`inference`), and keeps samples of values (`recorder`). A switch that finds its own hash on a packet reports a loop ([`loops`]).
//!
//! *Guarantee:* The true path is never eliminated as long as all switches run PINT with one
//! plan, the flow keeps its path, and the switches' names are known; fragments of identifiers need
//! no names. What goes wrong with that
//! contradicts itself sooner or later; a path is called sure only when digests bear each hop out
//! twice, by earlier packets and by later ones (`inference::confirm`).
//!
//! A latency is within a code's step of the truth, and the rank of a percentile within an error that
//! the answer states. So are the utilisation that a switch computes for a link, and its median.
//!
//! *Memory:* registers of 96 bits a port where utilisations are asked for, else none. A bank has room
//! for `reports` reports; of more packets a share is reported, which a hash chooses, and the others
//! are counted; it has places for a quarter more while a share is halved. A record keeps `packets`
//! packets of a flow, chosen by the same hash, and counts the others. A bank has room for
//! [1024](loops::record::LOOP_REPORTS) reports of loops; others are counted. The recorder keeps
//! `flows` flows of `packets` packets each, up to twice as many flows within an epoch, and counts
//! those it evicts. Samples of a hop are as many as there are codes, or as
//! a query's space says; with a window eight times as many codes, and the same space.
//!
//! *Deviations:* docs/pint.md lists them with the reasons.
//! - Layers: one or two xor layers with shares found by simulation, by bits and length, where the
//!   appendix's formula is meant for long paths and whole identifiers.
//! - Digests of several undecided hops are used before all but one are decided, and links between
//!   switches where these are configured. The paper does neither.
//! - The hops that wrote a digest are found with one hash a hop, or with bit vectors where the query
//!   has `acts=vectors`; these keep each probability as it is, where the paper's round it ([`vectors`]).
//! - A checksum of the path, of which the paper says that it would tell several paths of a flow
//!   apart, is a sum of hashes of switch and hop in bits of its own.
//! - Packets that are fragments, and those that crossed a link without a shim, are not measured.

mod analysis;
mod burst;
pub mod compress;
mod config;
pub mod dataplane;
pub mod encoding;
mod hashes;
pub mod hops;
pub mod inference;
pub mod loops;
mod p4;
mod parameters;
pub mod plan;
mod prepared;
pub mod query;
mod ranks;
mod reading;
pub mod record;
mod recorder;
mod replica;
mod sample;
pub mod samples;
mod scheme;
pub mod utilisation;
pub mod values;
pub mod vectors;
mod window;

pub use analysis::PintAnalysis;
pub use config::Config;
pub use parameters::{PlanId, PlanParameters};
pub use record::Digests;
pub use scheme::CarriedValue;

use std::collections::HashMap;

use encoding::switch_id;
use parameters::Coding;
use query::{Queries, Query, Value};
use record::Room;
use replica::Replica;
use values::Aggregation;
use values::dataplane::Codes;

use super::{
    Clash, CongestionFeedback, Dataplane, Difference, P4Form, P4Request, Program, ProgramError, ReadRecord, Schedule,
};
use crate::pisa::Excess;
use crate::pisa::hash::HashFamily;

/// The program.
#[derive(Clone, Copy, Debug)]
pub enum Pint {}

impl Program for Pint {
    const NAME: &'static str = "pint";
    type Config = Config;
    type Parameters = PlanParameters;
    type Setting = ();
    type Record = Digests;
    type Analysis = PintAnalysis;

    fn for_all_tasks() -> Config {
        let queries = [Value::Path, Value::Latency].map(Query::new);
        Config { queries: Queries(queries.into()), ..Config::default() }
    }

    fn local_only(_: &Config) -> Option<&'static str> {
        None
    }

    fn validate(config: &Config) -> Result<(), ProgramError> {
        config.validate()
    }

    fn blame(_: &Config, _: &str, excess: Excess) -> (&'static str, &'static str) {
        match excess {
            Excess::Computation => ("queries", "none for utilisation"),
            _ => ("instances", "fewer"),
        }
    }

    fn lesser(config: &Config) -> Vec<(String, Config)> {
        let Queries(queries) = &config.queries;
        let mut values: Vec<_> = queries.iter().map(|query| query.value).collect();
        values.dedup();
        let without = |value: Value| {
            let kept: Vec<_> = queries.iter().filter(|query| query.value != value).cloned().collect();
            let instead = if kept.is_empty() { ", for path instead" } else { "" };
            let how = format!("without queries for {}{instead}", value.name());
            (how, Config { queries: Queries(kept), ..config.clone() })
        };
        values.into_iter().filter(|value| queries.len() > 1 || *value != Value::Path).map(without).collect()
    }

    fn start(config: &Config) -> PlanParameters {
        config.parameters()
    }

    /// Nothing is asked of packets: what a switch writes by a plan that is not the network's, others
    /// would take for something else.
    fn waiting(config: &Config) -> PlanParameters {
        PlanParameters { queries: Queries::default(), ..config.parameters() }
    }

    fn fits(_: &Config, parameters: &PlanParameters) -> Result<(), ProgramError> {
        parameters.validate()
    }

    fn dataplane(
        config: &Config,
        switch: &str,
        hashes: &HashFamily,
        schedule: &Schedule<Self>,
    ) -> Result<Box<dyn Dataplane>, ProgramError> {
        config.validate()?;
        Ok(Box::new(Replica::new(config, switch, hashes, schedule)))
    }

    fn reader(config: &Config, _: &str, hashes: &HashFamily) -> impl ReadRecord<Digests> {
        let (hashes, room) = (hashes.clone(), Room::of(config));
        move |bytes| Digests::decode(&hashes, room, bytes)
    }

    fn longest(config: &Config) -> usize {
        Room::of(config).longest()
    }

    /// The plan comes from the controller, so switches may be configured with others. All keep as
    /// many packets, so that those of each have the same chance in answers.
    fn difference(config: &Config, other: &Config) -> Option<Difference> {
        let numbers = |config: &Config| [("reports", config.reports), ("packets", config.packets)];
        Difference::first(numbers(config), numbers(other))
    }

    /// All that packets carry of a switch follows from its identifier.
    fn clash(config: &Config, names: &[&str]) -> Option<Clash> {
        let mut known = HashMap::<_, &str>::new();
        let mut names = config.names().chain(names.iter().copied());
        names.find_map(|name| {
            let one = *known.entry(switch_id(name)).or_insert(name);
            let why = "their names have one identifier";
            (one != name).then(|| Clash { program: Self::NAME, one: one.into(), other: name.into(), why })
        })
    }

    fn analysis(config: &Config, _: u64) -> PintAnalysis {
        PintAnalysis::new(config)
    }

    fn p4(request: &P4Request<'_, Config>) -> Result<Option<P4Form>, ProgramError> {
        p4::form(request).map(Some)
    }

    /// Of the first query for the utilisation of the busiest link.
    fn congestion_feedback(config: &Config, hashes: &HashFamily) -> Option<CongestionFeedback> {
        let coding = Coding::new(config.parameters(), hashes);
        let is_its = |query: &&Query| (query.value, query.aggregation) == (Value::Utilisation, Aggregation::Max);
        let query = *coding.parameters.queries.0.iter().find(is_its)?;
        let codes = Codes::new(&query)?;
        Some(Box::new(move |identity, digest| {
            let code = coding.scheme.value(&query)?.part(identity, digest)?;
            Some(codes.number(query.value, code))
        }))
    }
}
