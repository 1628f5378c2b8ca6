//! A program with egress stages: the flows most of whose packets find others waiting where they
//! leave. Its sketch is that of `count_min.rs`, which it fills with some packets only.
//!
//! ```sh
//! cargo run --example egress -- run --port a=tap:a --port b=tap:b --program waiting:depth=8
//! ```

use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use weir::pisa::hash::HashFamily;
use weir::pisa::{Array, ArrayGroup, Excess, Phv, Repeat, Stage, Then};
use weir::program::*;
use weir::wire::FiveTuple;

#[path = "count_min.rs"]
#[allow(dead_code, reason = "its own program")]
mod count_min;

pub use count_min::Sketch;
use count_min::{Largest, Packet, Row, Words};

/// Parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Packets that wait at the port, from which on a packet counts; with 0 every packet does.
    #[schemars(range(max = 65_535))]
    pub depth: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { depth: 8 }
    }
}

/// The program.
pub enum Waiting {}

impl Program for Waiting {
    const NAME: &'static str = "waiting";
    type Config = Config;
    type Parameters = ();
    type Setting = ();
    type Record = Sketch;
    type Analysis = HeavyAnalysis<Sketch>;

    fn validate(config: &Config) -> Result<(), ProgramError> {
        ProgramError::check(Self::NAME, "depth", config.depth, 0..=65_535)
    }

    fn blame(_: &Config, _: &str, _: Excess) -> (&'static str, &'static str) {
        ("name", "another program")
    }

    fn start(_: &Config) {}

    fn dataplane(
        config: &Config,
        _: &str,
        family: &HashFamily,
        _: &Schedule<Self>,
    ) -> Result<Box<dyn Dataplane>, ProgramError> {
        Self::validate(config)?;
        let sketch = count_min::Config::default();
        let (slots, rows, depth) = (count_min::slots(&sketch, family), sketch.rows as usize, config.depth);
        let row = |row| Stage(Array::planned("counters", Row(row), sketch.columns).at(slots.source(row)));
        let largest = Stage(Array::planned("largest", Largest(rows), sketch.flows).at(slots.source(rows)));
        let words = Stage(ArrayGroup::planned("words", Words(rows), sketch.flows).at(slots.source(rows)));
        let stages = Then(Repeat((0..rows).map(row).collect()), Then(largest, words));
        let (hashing, blank) = (slots.usage(), Sketch::new(&sketch, family));
        // A packet that leaves: what it met in the queue is known here alone.
        let enter = move |phv: &Phv| {
            let tuple = FiveTuple::of(&phv.headers).filter(|_| u32::from(phv.queue_depth) >= depth)?;
            Some(Packet::new(tuple, slots.slots(tuple.bytes())))
        };
        let staged = Staged::new(Self::NAME, hashing, stages, enter, move |memory| blank.read_out(memory));
        Ok(Box::new(staged.at_egress(Needs::QUEUE_DEPTH)))
    }

    fn reader(_: &Config, _: &str, family: &HashFamily) -> impl ReadRecord<Sketch> {
        let blank = Sketch::new(&count_min::Config::default(), family);
        move |bytes| blank.clone().decode(bytes)
    }

    fn longest(_: &Config) -> usize {
        count_min::CountMin::longest(&count_min::Config::default())
    }

    fn analysis(_: &Config, _: u64) -> HeavyAnalysis<Sketch> {
        HeavyAnalysis::new(Sketch::found)
    }
}

fn main() -> ExitCode {
    weir::cli::run(Programs::of_weir().with::<Waiting>())
}
