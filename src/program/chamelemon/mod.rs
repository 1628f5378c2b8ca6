//! ChameleMon: which flows lost how many packets, and six more answers about flows, from one set of
//! sketches.
//!
//! *Paper:* Yang, Wu, Miao, Yang, Liu, Xu, Qiu, Zhao, Lv, Ji, Xie: "ChameleMon: Shifting
//! Measurement Attention as Network State Changes", SIGCOMM 2023; §3, §4.2, appendices A, B and
//! D.1.
//!
//! *Shape:* In ingress a packet that enters the network is counted in the classifier, a TowerSketch
//! (§3.2.1): arrays of saturating counters, all ones meaning infinity, whose smallest is the flow's
//! size. Against T_h and T_l that makes it a candidate for heavy hitters (HH), heavy losses (HL) or
//! light losses (LL, of which a share is sampled), and it is put into that part of the upstream
//! encoder. Where it leaves the network it is put into the downstream encoder, HH among HL; class
//! and epoch come with it in the shim, or the class and the epoch's lowest bit in its DSCP
//! (`wire::dscp`). An encoder is a FermatSketch (§3.1): d arrays of buckets, each the number of
//! packets and the sum of their flow IDs modulo p = 2³² − 5, here in four fragments of 31 bits, of
//! which the last is filled with a 20-bit fingerprint (D.1, Figure 13). Up minus down holds the
//! lost packets alone.
//!
//! *Units:* packets. Lengths in a [`Partition`] are buckets an array; a bucket has 160 bits.
//!
//! *Guarantees:*
//! - A complete decoding is exact: flows and packets (the sums leave room for no other flows but
//!   with a probability far below the false positives of a single test, which is 2⁻²⁰ / m, A.4).
//! - d = 3 arrays with m d > 1.23 M buckets decode M flows, but with probability O(1 / M) (Theorem
//!   3.1); two flows in one set of buckets (about M² / 2m³ pairs) are what is left of it for small
//!   M. `small` adds an array that tells them apart; numbers are in
//!   `bench/record/2026-11-21-fermat.md`.
//! - Both hold for keys in a row (scans, address ranges, sequential ports), too, since rows and
//!   counter arrays take index hashes ([`crate::pisa::hash::index`]). With CRCs as row hashes, as
//!   in the paper's prototype, such keys do not decode.
//! - The few hash bits of D.1 make buckets uneven, which takes at most 0.5 % more of them than even
//!   ones (a length of 4.5 / 2ⁿ of the range), and nothing at a power of two.
//! - A size from the classifier is never below the truth, and never says more than its counters
//!   can.
//! - Decoding takes O(m d²) (A.2).
//!
//! *Memory:* classifier Σ bits × counters; encoders 160 bits × buckets × arrays, downstream twice,
//! for the two epoch bits. The default takes 64 + 240 + 360 KiB and 32 stateful ALUs, two thirds of
//! Tofino's, as in the paper's Table 1.
//!
//! *Deviations:*
//! - IPv6 flows are measured by a digest ([`FlowId`]); the switch where they enter reports their
//!   five-tuples beside (`names.rs`).
//! - With `parts = "powers"` parts have 512, 1024 or 2048 buckets, for a Tofino without D.1's range
//!   match.
//! - Array indexes, fingerprint and sampling hash are high bits of the sum of two CRCs, not a CRC.
//! - The decoded size of a candidate is T_h − 1 + q, where the paper has T_h + q: the packet that
//!   reaches T_h is encoded.
//! - Sampled is what hashes below the threshold, where the paper has "not above": so 0 samples none
//!   and 65 536 all.
//! - Ingress registers are swapped for zeroed ones and need no second half for the other epoch bit;
//!   downstream ones have it, and are swapped a transit time later. So a record's downstream
//!   encoder holds what left of its epoch from the transit time on, and in the other half the first
//!   packets of the next ([`decoder::Delta::left`]). A packet carries 20 bits of its epoch's
//!   number and is encoded in that epoch's half or, when that is not open, not at all: it is a
//!   stray of its epoch ([`Strays`]). The paper's one bit counts a packet two epochs late in the
//!   wrong epoch.
//! - A packet that becomes several, or that the switch itself takes, counts as leaving there. One
//!   that goes on to another switch without class and epoch bit is counted as unmarked, one of
//!   which copies or fragments go on to other switches as unfollowed. So is each copy or fragment
//!   that leaves here and was made by a switch without the program ([`dataplane::class::SEVERAL`]).
//! - Flow sizes from T_h on are taken from decoded candidates when all were decoded, MRAC is
//!   computed in closed form, and the small ones and the number of flows are estimated from all
//!   arrays together ([`decoder::estimate`]).
//! - Two flows in one set of buckets are told apart when one of them is known from elsewhere, as
//!   lost heavy-hitter candidates are (`decoder/twins.rs`). Two unknown ones are not. Unknown are
//!   208 bits of IDs and how the count c is shared; the four sums give 128 bits (fingerprints are
//!   functions of the IDs) and the default sketch's bucket numbers 2 × 3 × 12: some 2⁸ c pairs of
//!   IDs fit, and nothing short of trying them finds these.

mod analysis;
mod adaptation;
pub mod attention;
mod bank;
mod batch;
pub mod decoder;
pub mod completeness;
mod config;
pub mod dataplane;
pub mod field;
mod frequency;
mod hashes;
mod id;
mod kept;
mod layout;
mod names;
pub mod network;
mod p4;
mod parameters;
mod replica;

pub use super::strays::{MAX_STRAY_EPOCHS, StrayRegisters, Strays};
pub use analysis::NetworkAnalysis;
pub use bank::{ChameleMonBank, Counters, RowRegisters};
pub use config::{AttentionMode, Config, Level, Parts, TowerShape, Width};
pub use decoder::{Analysis, Sketches};
pub use hashes::Hashes;
pub use id::{FINGERPRINT_BITS, FlowId, Naming};
pub use kept::Showed;
pub use names::Known;
pub use parameters::{EncoderParameters, POWERS, Partition, Shape};
pub use replica::ChameleMonDataplane;

use super::{Dataplane, Difference, MergeError, P4Form, P4Request, Program, ProgramError, ReadRecord, Record, word};
use crate::pisa::Excess;
use crate::pisa::hash::HashFamily;

/// Parameters by epoch.
pub type Schedule = super::Schedule<ChameleMon>;

/// The program.
#[derive(Clone, Copy, Debug)]
pub enum ChameleMon {}

impl Program for ChameleMon {
    const NAME: &'static str = "chamelemon";
    type Config = Config;
    type Parameters = EncoderParameters;
    type Setting = ();
    type Record = Sketches;
    type Analysis = NetworkAnalysis;

    fn local_only(_: &Config) -> Option<&'static str> {
        None
    }

    fn meaning(key: &str) -> Option<&'static str> {
        adaptation::meaning(key)
    }

    fn validate(config: &Config) -> Result<(), ProgramError> {
        config.validate()
    }

    fn blame(_: &Config, array: &str, excess: Excess) -> (&'static str, &'static str) {
        match (array, excess) {
            ("upstream", Excess::Memory) => ("upstream", "fewer"),
            ("downstream", Excess::Memory) => ("downstream", "fewer"),
            (array, Excess::Stages) if array != "tower" => ("arrays", "fewer"),
            _ => ("tower", "fewer or smaller arrays"),
        }
    }

    fn start(config: &Config) -> EncoderParameters {
        config.parameters()
    }

    fn fits(config: &Config, parameters: &EncoderParameters) -> Result<(), ProgramError> {
        parameters.validate(&config.shape())
    }

    fn dataplane(
        config: &Config,
        _: &str,
        hashes: &HashFamily,
        schedule: &Schedule,
    ) -> Result<Box<dyn Dataplane>, ProgramError> {
        let mut dataplane = ChameleMonDataplane::new(config, hashes)?;
        dataplane.follow(schedule);
        Ok(Box::new(dataplane))
    }

    fn reader(config: &Config, _: &str, hashes: &HashFamily) -> impl ReadRecord<Sketches> {
        let reader = decoder::encoding::Reader::new(decoder::encoding::Form::of(config), hashes);
        move |bytes| reader.read(bytes)
    }

    fn longest(config: &Config) -> usize {
        decoder::encoding::Form::of(config).longest()
    }

    fn adapts(config: &Config) -> bool {
        config.attention == AttentionMode::Auto
    }

    /// Sketches add up when they have the same lengths.
    fn difference(config: &Config, other: &Config) -> Option<Difference> {
        let numbers = |config: &Config| {
            let Shape { arrays, small, upstream, downstream, parts: _ } = config.shape();
            [("arrays", arrays), ("small", small), ("upstream", upstream), ("downstream", downstream)]
                .map(|(key, number)| (key, number.to_string()))
        };
        let others = |config: &Config| {
            [("tower", config.tower.to_string()), ("names", config.names.to_string()), ("parts", word(&config.parts))]
        };
        let values = |config: &Config| numbers(config).into_iter().chain(others(config));
        Difference::first(values(config), values(other))
    }

    fn p4(request: &P4Request<'_, Config>) -> Result<Option<P4Form>, ProgramError> {
        p4::form(request).map(Some)
    }

    fn analysis(config: &Config, salt: u64) -> NetworkAnalysis {
        NetworkAnalysis::new(config, salt)
    }
}

impl Record for Sketches {
    const PROGRAM: &'static str = ChameleMon::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        self.merge(other)
    }

    fn encode(&self) -> Vec<u8> {
        self.encode()
    }

    fn strays(&self) -> Option<&Strays> {
        Some(&self.strays)
    }

    fn strays_mut(&mut self) -> Option<&mut Strays> {
        Some(&mut self.strays)
    }

    fn split_next(&mut self) -> Option<Self> {
        self.split_next()
    }

    fn is_hashed_with(&self, hashes: &HashFamily) -> bool {
        self.is_hashed_with(hashes)
    }
}
