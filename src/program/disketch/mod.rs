//! DiSketch: one sketch whose rows stand in different switches, each as wide as its switch has room, and
//! counts of any flow from the switches on its path.
//!
//! *Paper:* Langlet, Chen, Mitzenmacher, Ben Basat, Liu, Antichi: "Sketch Disaggregation Across Time and
//! Space", 2025.
//!
//! *Shape:* a switch holds one fragment: one row of a Count Sketch or a Count-Min Sketch, or of UnivMon one
//! row for each of 16 levels. Its epoch is cut
//! into n sub-epochs, a power of two up to 64, and a flow is counted in one of them, which a hash of the
//! switch chooses anew in each epoch, with the flow's counter and its sign (`hashes`). At the end
//! of an epoch a switch compares its own error with the network's target and cuts a later epoch finer or
//! coarser (`equalise`). A query puts together what the fragments on the flow's path say
//! (`composite`).
//!
//! *Guarantee:* the paper's estimate of a Count Sketch has no bias. Where no epoch is cut, Count-Min's is
//! never below the flow's count, and the answers have bounds. Where epochs are cut, a flow that has more
//! packets in other sub-epochs than in its own is counted too low, and no bound is known.
//!
//! *Memory:* `memory`, as counters of 8, 16 or 32 bits.
//!
//! *Deviations:*
//! - By default the error is measured by a quantile of the counters (`rho = "robust"`), and the target is 6
//!   packets, or 2 with medians. The paper's root mean square follows the largest flows, which the median
//!   removes anyway, and its target has to be found for each network and traffic. `rho = "paper"` is the paper's.
//! - By default counts are decoded by likelihood (`decode`), with a smaller error than the paper's median
//!   and minimum. `decode = "median"` is the paper's.
//! - Where another program of the switch or network is certain of a lower bound of a flow's count in an epoch,
//!   likelihoods are of counts from this bound on ([`composite::expected_above`]). The median takes none.
//! - Each sub-epoch has counters of its own, zeroed by the collector, instead of differences of counters
//!   that run on. They say the same, and need no room for what earlier sub-epochs counted. A counter
//!   stays at its largest and smallest number.
//! - A new number of sub-epochs holds from the second epoch after the one that it was decided from, not
//!   from the next one: that one has begun when the decision is made.
//! - A single-hop flow is known by its ports, as it leaves (`single_hop`).
//! - IPv4 and IPv6 flows share the counters. Other packets are not measured.
//! - UnivMon's heavy flows of each level are the largest of those that other programs name, by their
//!   composite estimates from the deepest level of each flow, instead of a heap in each switch (`levels`).

mod analysis;
mod archived;
pub mod composite;
mod config;
mod counter;
pub mod dataplane;
pub mod equalise;
mod frequency;
pub mod hashes;
mod histogram;
mod kept;
pub mod levels;
mod lookup;
mod p4;
mod parameters;
pub mod path;
pub mod record;
mod replica;
mod sizes;

use std::sync::Arc;

pub use analysis::DiSketchAnalysis;
pub use config::{Config, Decode, Memory, Rho, SketchKind};
pub use kept::KeptFragments;
pub use parameters::Target;
pub use record::Fragment;

pub use super::Unit;
use super::{
    Dataplane, Difference, Exact, FlowCounts, Key, P4Form, P4Request, Program, ProgramError, ReadRecord, Schedule, word,
};
use crate::pisa::Excess;
use crate::pisa::hash::HashFamily;
use hashes::Hashes;
use record::Shape;

/// The program.
#[derive(Clone, Copy, Debug)]
pub enum DiSketch {}

/// The binary logarithm of the number of sub-epochs, which a switch decides alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts(pub u32);

impl DiSketch {
    /// What fragments of the switch of this name have in common.
    pub fn shape(config: &Config, switch: &str, family: &HashFamily) -> Arc<Shape> {
        Arc::new(Shape { config: config.clone(), hashes: Hashes::new(config, switch, family) })
    }
}

impl Program for DiSketch {
    const NAME: &'static str = "disketch";
    type Config = Config;
    type Parameters = Target;
    type Setting = Cuts;
    type Record = Fragment;
    type Analysis = DiSketchAnalysis;

    fn local_only(config: &Config) -> Option<&'static str> {
        (config.key != Key::Tuple).then_some("with key = \"5tuple\" alone flows have paths in a network")
    }

    fn validate(config: &Config) -> Result<(), ProgramError> {
        config.validate()
    }

    fn blame(_: &Config, _: &str, excess: Excess) -> (&'static str, &'static str) {
        match excess {
            Excess::Width => ("counter_bits", "fewer"),
            _ => ("memory", "less"),
        }
    }

    fn start(config: &Config) -> Target {
        config.target().map_or(Target::UNKNOWN, Target::of)
    }

    fn fits(_: &Config, target: &Target) -> Result<(), ProgramError> {
        target.check()
    }

    fn settle(record: &Fragment, target: &Target) -> Cuts {
        let most = record.shape.config.max_sub_epochs.ilog2();
        match (record.cuts(), target.error()) {
            (Some(cuts), Some(target)) => Cuts(equalise::next_cuts(cuts, record.error(), target, most)),
            // Counters of several epochs say nothing about one.
            (cuts, _) => Cuts(cuts.unwrap_or_else(|| record.parts.first().map_or(0, |part| part.coverage.of.ilog2()))),
        }
    }

    fn dataplane(
        config: &Config,
        switch: &str,
        hashes: &HashFamily,
        schedule: &Schedule<Self>,
    ) -> Result<Box<dyn Dataplane>, ProgramError> {
        config.validate()?;
        Ok(replica::build(Self::shape(config, switch, hashes), schedule))
    }

    fn reader(config: &Config, switch: &str, hashes: &HashFamily) -> impl ReadRecord<Fragment> {
        let shape = Self::shape(config, switch, hashes);
        move |bytes| Fragment::decode(&shape, bytes)
    }

    fn longest(config: &Config) -> usize {
        record::longest(config)
    }

    fn adapts(config: &Config) -> bool {
        config.target().is_none()
    }

    /// Each switch has memory of its own. What is counted and how the error is measured is the network's.
    fn difference(config: &Config, other: &Config) -> Option<Difference> {
        let values = |config: &Config| {
            [
                ("sketch", word(&config.sketch)),
                ("key", word(&config.key)),
                ("prefix", config.prefix.to_string()),
                ("prefix6", config.prefix6.to_string()),
                ("count", word(&config.count)),
                ("rho", word(&config.rho)),
                ("rho_target", word(&config.rho_target)),
                ("single_hop", config.single_hop.to_string()),
                ("cover", config.cover.to_string()),
                ("decode", word(&config.decode)),
            ]
        };
        Difference::first(values(config), values(other))
    }

    fn analysis(config: &Config, _: u64) -> DiSketchAnalysis {
        DiSketchAnalysis::new(config)
    }

    fn p4(request: &P4Request<'_, Config>) -> Result<Option<P4Form>, ProgramError> {
        p4::form(request).map(Some)
    }

    fn exact(config: &Config) -> impl Exact + 'static {
        let naming = config.naming();
        FlowCounts::by(config.count, move |flow| naming.narrow(flow))
    }
}

#[cfg(test)]
mod tests;
