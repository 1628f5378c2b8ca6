//! DiSketch's parameters: what a switch counts, in how much memory, and the network's target.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::DiSketch;
use super::hashes::LEVELS;
pub use crate::program::Memory;
use crate::program::{Key, MAX_SUB_EPOCHS, Naming, Program, ProgramError, Unit};

/// The sketch of which a fragment is one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum SketchKind {
    /// Count Sketch: a flow adds to its counter or subtracts from it.
    #[default]
    #[serde(rename = "cs")]
    Count,
    /// Count-Min Sketch: a flow adds to its counter.
    #[serde(rename = "cms")]
    CountMin,
    /// UnivMon: a Count Sketch of all flows, one of half of them, one of a quarter, and so on.
    #[serde(rename = "univmon")]
    UnivMon,
}

impl SketchKind {
    /// Whether a flow may be subtracted from its counter.
    pub fn is_signed(self) -> bool {
        self != Self::CountMin
    }

    /// Rows of a fragment, each for half of the flows of the one before.
    pub fn levels(self) -> u32 {
        if self == Self::UnivMon { LEVELS } else { 1 }
    }
}

/// The measure of a fragment's error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rho {
    /// The 68 % quantile of the counters' magnitudes, which a few large flows do not change.
    #[default]
    Robust,
    /// Equation 4 of the paper: the root mean square of Count Sketch's counters, the mean of Count-Min's.
    Paper,
}

/// How the counts of several switches become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decode {
    /// The expected count, as the other counters of each record show what noise is there, and the epochs
    /// of the window how many packets the flow has in one.
    #[default]
    Likelihood,
    /// The paper's: the median of Count Sketch, the least of Count-Min, for each sub-epoch.
    Median,
}

/// DiSketch's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The sketch of which this switch holds one row, or one of each level.
    pub sketch: SketchKind,
    /// Memory of the counters. Switches of a network may differ.
    pub memory: Memory,
    /// Bits of a counter: 8, 16 or 32. A counter stays at its largest and smallest number.
    pub counter_bits: u32,
    /// The fields that name a flow. Others than five-tuples have no paths: they are for one switch alone.
    pub key: Key,
    /// Leading bits of an IPv4 address that count, for keys of addresses.
    #[schemars(range(min = 0, max = 32))]
    pub prefix: u8,
    /// Leading bits of an IPv6 address that count, for keys of addresses.
    #[schemars(range(min = 0, max = 128))]
    pub prefix6: u8,
    /// The unit of counts: packets, or bytes from the destination MAC on.
    pub count: Unit,
    /// Most sub-epochs of an epoch, a power of two; with 1 an epoch is never cut.
    #[schemars(range(min = 1, max = MAX_SUB_EPOCHS))]
    pub max_sub_epochs: u32,
    /// The measure of the error by which a switch cuts its epochs.
    pub rho: Rho,
    /// The error that switches aim at, in packets or bytes. Without it: 6 packets or 3 000 bytes with
    /// `rho = "robust"`, with `decode = "median"` 2 packets or 1 000 bytes; with `rho = "paper"` the median
    /// error of all switches in the first epoch with traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rho_target: Option<f64>,
    /// Count flows that cross this switch alone in two sub-epochs (§4.4). Packets are counted as they
    /// leave, instead of as they enter.
    pub single_hop: bool,
    /// A flow's sub-epochs in the switches of its path are spread over the epoch, by a hash that is the
    /// network's and the place of each switch on the path. Else each switch draws its own.
    pub cover: bool,
    /// How the counts of several switches become one.
    pub decode: Decode,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sketch: SketchKind::Count,
            memory: Memory(65_536),
            counter_bits: u32::BITS,
            key: Key::Tuple,
            prefix: 32,
            prefix6: 128,
            count: Unit::Packets,
            max_sub_epochs: MAX_SUB_EPOCHS,
            rho: Rho::Robust,
            rho_target: None,
            single_hop: false,
            cover: false,
            decode: Decode::Likelihood,
        }
    }
}

impl Config {
    /// Most counters of a fragment.
    pub const MAX_COUNTERS: u32 = 1 << 20;

    /// How flows are named.
    pub fn naming(&self) -> Naming {
        Naming { key: self.key, prefix: self.prefix, prefix6: self.prefix6 }
    }

    /// Number of counters of a level.
    pub fn width(&self) -> NonZeroU32 {
        let counters = self.memory.0.saturating_mul(8) / u64::from(self.counter_bits.max(1));
        let width = counters / u64::from(self.sketch.levels());
        u32::try_from(width).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
    }

    /// Number of counters of all levels.
    pub fn counters(&self) -> usize {
        self.width().get() as usize * self.sketch.levels() as usize
    }

    /// The target of the first epoch; `None` where the controller is to set it.
    pub fn target(&self) -> Option<f64> {
        let robust = match (self.decode, self.count) {
            (Decode::Median, Unit::Packets) => 2.0,
            (Decode::Median, Unit::Bytes) => 1000.0,
            (Decode::Likelihood, Unit::Packets) => 6.0,
            (Decode::Likelihood, Unit::Bytes) => 3000.0,
        };
        self.rho_target.or((self.rho == Rho::Robust).then_some(robust))
    }

    pub(super) fn validate(&self) -> Result<(), ProgramError> {
        let program = DiSketch::NAME;
        let wrong =
            |key, value: String, right: &str| Err(ProgramError::Value { program, key, value, right: right.into() });
        self.naming().validate(program)?;
        if !matches!(self.counter_bits, 8 | 16 | 32) {
            return wrong("counter_bits", self.counter_bits.to_string(), "a counter has 8, 16 or 32 bits");
        }
        let bytes = u64::from(self.counter_bits / 8);
        let most = u64::from(Self::MAX_COUNTERS) * bytes;
        let least = bytes * u64::from(self.sketch.levels());
        if !(least..=most).contains(&self.memory.0) {
            return Err(ProgramError::Range { program, key: "memory", value: self.memory.0, min: least, max: most });
        }
        if !self.max_sub_epochs.is_power_of_two() || self.max_sub_epochs > MAX_SUB_EPOCHS {
            let right = "1, 2, 4, 8, 16, 32 or 64";
            return wrong("max_sub_epochs", self.max_sub_epochs.to_string(), right);
        }
        match self.rho_target {
            Some(target) if !(target > 0.0 && target <= f64::from(u32::MAX)) => {
                wrong("rho_target", target.to_string(), "an error above 0, in packets or bytes")
            }
            _ => Ok(()),
        }
    }
}
