//! The telemetry programs, one directory for each paper, and what the switch and the collector ask of all of them.

pub mod chamelemon;
pub mod hashpipe;
mod needs;

pub use needs::Needs;

use std::any::Any;

use serde::{Deserialize, Serialize};

use crate::pisa::hash::Polynomials;
use crate::pisa::{Excess, Order, Phv, Probe, ProgramUse};

/// A program's replica on one core. The switch calls it once a burst.
pub trait Dataplane: Send {
    /// Takes a burst through the ingress stages.
    fn ingress(&mut self, phvs: &mut [Phv], order: Order);
    /// Takes one packet through as [`Self::ingress`] does, and tells of each step.
    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe);
    /// What it needs of the switch beside its ingress stages.
    fn needs(&self) -> Needs {
        Needs::NONE
    }
    /// Takes packets through the egress stages: those that leave by a port, before they are
    /// written, in the order in which they were admitted; with [`Needs::ENDS`] those that end here
    /// as well. Which it is says [`Phv::disposition`]. Called when any program of the switch has
    /// egress stages.
    fn egress(&mut self, _phvs: &mut [Phv], _order: Order) {}
    /// Takes one packet through as [`Self::egress`] does, and tells of each step.
    fn trace_egress(&mut self, _phv: &mut Phv, _probe: &mut dyn Probe) {}
    /// So many packets, of those that carry their epoch's lowest bit alone, may be of this epoch or of one
    /// two, four or more later, and be counted in another of these.
    fn confuse(&mut self, _epoch: u64, _packets: u64) {}
    /// Epoch number `epoch` begins in less than the transit time: packets of it may come from switches whose clocks are ahead.
    fn prepare(&mut self, _epoch: u64) {}
    /// Epoch number `epoch` begins: with `fresh` registers, or with those that are in use when the collector was late.
    fn enter(&mut self, _epoch: u64, _fresh: bool) {}
    /// Gives the program its first registers. It is built without, so that asking what it [uses](Self::usage) costs none.
    fn equip(&mut self) {
        let mut bank = self.spare();
        self.exchange(bank.as_mut());
        self.exchange_egress(bank.as_mut());
    }
    /// A zeroed bank that fits [`Self::exchange`].
    fn spare(&self) -> Box<dyn Bank>;
    /// Swaps the registers of the ingress stages with those of `spare`, which came from a replica of the same configuration; a
    /// bank of another kind is left alone.
    fn exchange(&mut self, spare: &mut dyn Bank);
    /// Swaps the registers of the egress stages. Packets of the epoch before the running one leave unmeasured from now on.
    fn exchange_egress(&mut self, _spare: &mut dyn Bank) {}
    /// Takes its parameters from there, if they can change from epoch to epoch.
    fn follow(&mut self, _schedule: &chamelemon::Schedule) {}
    /// What the program takes of the hardware.
    fn usage(&self) -> ProgramUse;
}

/// The registers of one replica over one epoch.
pub trait Bank: Any + Send {
    fn clear(&mut self);
    /// What the registers say, decoded.
    fn record(&self) -> Record;
}

/// One program's measurement over an epoch. Records of replicas and epochs merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    HashPipe(hashpipe::Counts),
    ChameleMon(Box<chamelemon::Sketches>),
}

impl Record {
    pub fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::HashPipe(counts), Self::HashPipe(others)) => counts.merge(others),
            (Self::ChameleMon(sketches), Self::ChameleMon(others)) => sketches.merge(others),
            // A program's records are all of its own kind.
            _ => debug_assert!(false, "records of two programs"),
        }
    }
}

/// A program and its parameters, as configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum ProgramConfig {
    HashPipe(hashpipe::Config),
    ChameleMon(chamelemon::Config),
}

/// A program that cannot be built as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("{program}: {key} = {value} is out of range, it may be {least} to {most}")]
    Range { program: &'static str, key: &'static str, value: u64, least: u64, most: u64 },
    #[error("{program}: {why}")]
    Combination { program: &'static str, why: &'static str },
}

impl ProgramConfig {
    /// All programs there are.
    pub const NAMES: [&str; 2] = ["hashpipe", "chamelemon"];

    /// The JSON Schema of a program's parameters.
    pub fn schema(name: &str) -> Option<schemars::Schema> {
        match name {
            "hashpipe" => Some(schemars::schema_for!(hashpipe::Config)),
            "chamelemon" => Some(schemars::schema_for!(chamelemon::Config)),
            _ => None,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::HashPipe(_) => "hashpipe",
            Self::ChameleMon(_) => "chamelemon",
        }
    }

    /// Of an array that asks for too much of a target the key that says how much, and what would be less.
    pub fn blame(&self, array: &str, excess: Excess) -> (&'static str, &'static str) {
        match (self, excess) {
            (Self::HashPipe(_), Excess::Width | Excess::Outputs) => {
                ("key", "a narrower one, key = \"src\" and slots6 = 0")
            }
            (Self::HashPipe(config), Excess::Memory) if array == "ipv6" && config.slots6.is_some() => {
                ("slots6", "fewer")
            }
            (Self::HashPipe(_), Excess::Memory) => ("slots", "fewer"),
            (Self::HashPipe(_), Excess::Stages) => ("stages", "fewer"),
            (Self::ChameleMon(_), Excess::Memory) if array == "upstream" => ("upstream", "fewer"),
            (Self::ChameleMon(_), Excess::Memory) if array == "downstream" => ("downstream", "fewer"),
            (Self::ChameleMon(_), Excess::Stages) if array != "tower" => ("arrays", "fewer"),
            (Self::ChameleMon(_), _) => ("tower", "fewer or smaller arrays"),
        }
    }

    /// Checks the parameters, without building anything.
    pub fn validate(&self) -> Result<(), ProgramError> {
        match self {
            Self::HashPipe(config) => config.validate(),
            Self::ChameleMon(config) => config.validate(),
        }
    }

    /// Where the parameters that may change from epoch to epoch are set, if it has any.
    pub fn schedule(&self) -> Option<chamelemon::Schedule> {
        match self {
            Self::HashPipe(_) => None,
            Self::ChameleMon(config) => Some(chamelemon::Schedule::new(config.shape(), config.runtime())),
        }
    }

    pub fn build(&self, polynomials: &Polynomials) -> Result<Box<dyn Dataplane>, ProgramError> {
        match self {
            Self::HashPipe(config) => config.build(polynomials),
            Self::ChameleMon(config) => config.build(polynomials),
        }
    }
}
