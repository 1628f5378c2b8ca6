//! ChameleMon's parameters, in words and TOML.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ChameleMon;
use super::dataplane::MAX_LEVELS;
use super::parameters::{EncoderParameters, POWERS, Partition, Shape};
use crate::program::{Program, ProgramError};
use crate::text::serde_as_text;

/// Bits of a counter of the classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    Bits8,
    Bits16,
    Bits32,
}

impl Width {
    pub fn bits(self) -> u32 {
        match self {
            Self::Bits8 => 8,
            Self::Bits16 => 16,
            Self::Bits32 => 32,
        }
    }

    /// The smallest size that a counter cannot say.
    pub fn max(self) -> u32 {
        u32::MAX >> (u32::BITS - self.bits())
    }
}

/// One counter array of the classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub width: Width,
    pub counters: u32,
}

/// The counter arrays, narrow counters first, written `8x32768+16x16384`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TowerShape(pub Vec<Level>);

impl TowerShape {
    /// The highest threshold that has an effect: a flow of this many packets is larger than the
    /// counters can say.
    pub fn max(&self) -> u32 {
        self.0.iter().map(|level| level.width.max()).max().unwrap_or(1)
    }
}

const TOWER_EXAMPLE: &str = "8x32768+16x16384";

impl FromStr for TowerShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("{text:?}: write BITSxCOUNTERS, 1 to {MAX_LEVELS} of them joined by +, for example {TOWER_EXAMPLE}")
        };
        let level = |text: &str| {
            let (bits, counters) = text.split_once('x').ok_or_else(wrong)?;
            let width = match bits {
                "8" => Width::Bits8,
                "16" => Width::Bits16,
                "32" => Width::Bits32,
                _ => return Err(format!("{text:?}: counters have 8, 16 or 32 bits")),
            };
            let counters = counters.parse().ok().filter(|n| (1..=Config::MAX_COUNTERS).contains(n));
            let range = || format!("{text:?}: an array has 1 to {} counters", Config::MAX_COUNTERS);
            Ok(Level { width, counters: counters.ok_or_else(range)? })
        };
        let levels = text.split('+').map(level).collect::<Result<Vec<_>, _>>()?;
        if levels.len() > MAX_LEVELS {
            return Err(wrong());
        }
        if !levels.is_sorted_by_key(|level| level.width) {
            return Err(format!("{text:?}: narrow counters come first"));
        }
        Ok(Self(levels))
    }
}

impl fmt::Display for TowerShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.iter().map(|level| format!("{}x{}", level.width.bits(), level.counters));
        f.write_str(&words.collect::<Vec<_>>().join("+"))
    }
}

serde_as_text!(TowerShape);

impl schemars::JsonSchema for TowerShape {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TowerShape".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": r"^(8|16|32)x[0-9]+(\+(8|16|32)x[0-9]+){0,7}$",
            "examples": [TOWER_EXAMPLE],
        })
    }
}

/// Whether the parameters from `hh` on change from epoch to epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttentionMode {
    /// The switch's own controller shifts them. A run that has one epoch keeps them.
    #[default]
    Auto,
    /// They stay as configured.
    Fixed,
}

/// The lengths that parts of encoders may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Parts {
    /// Any number of buckets.
    #[default]
    Any,
    /// 512, 1024 or 2048 buckets, as a Tofino has them: a bucket is the highest bits of the index hash
    /// behind bits that name the part.
    Powers,
}

impl Parts {
    pub(super) fn are_any(&self) -> bool {
        *self == Self::Any
    }
}

/// ChameleMon's parameters. Those from `hh` on are what the switch starts with; a controller may
/// change them between epochs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The classifier's counter arrays: bits × counters, narrow counters first.
    pub tower: TowerShape,
    /// Bucket arrays of an encoder.
    #[schemars(range(min = 2, max = Config::MAX_ARRAYS))]
    pub arrays: u32,
    /// One more, small array for each encoder, of 2^-small of the others' length: a few flows then
    /// decode with half the memory. 0 means no such array, as in the paper.
    #[schemars(range(min = 0, max = Config::MAX_SMALL))]
    pub small: u32,
    /// Buckets an array of the upstream encoder.
    #[schemars(range(min = 1, max = Config::MAX_BUCKETS))]
    pub upstream: u32,
    /// Buckets an array of the downstream encoder, for each of the two epoch bits.
    #[schemars(range(min = 1, max = Config::MAX_BUCKETS))]
    pub downstream: u32,
    /// Lengths of the parts of an encoder: any, or powers (512, 1024 or 2048 buckets an array), as a
    /// Tofino has them.
    pub parts: Parts,
    /// Buckets an array for heavy hitters; by default what the others leave of the upstream
    /// encoder.
    #[schemars(range(min = 0, max = Config::MAX_BUCKETS))]
    pub hh: Option<u32>,
    /// Buckets an array for heavy losses; by default 512, or what the downstream encoder has.
    #[schemars(range(min = 0, max = Config::MAX_BUCKETS))]
    pub hl: Option<u32>,
    /// Buckets an array for sampled light losses.
    #[schemars(range(min = 0, max = Config::MAX_BUCKETS))]
    pub ll: u32,
    /// T_h: flows of this many packets are heavy-hitter candidates. At most what the widest counter
    /// can say.
    #[schemars(range(min = 0, max = u32::MAX))]
    pub hh_threshold: u32,
    /// T_l: flows of fewer packets are light-loss candidates. At 1 there are none.
    #[schemars(range(min = 0, max = u32::MAX))]
    pub hl_threshold: u32,
    /// Light-loss candidates that are sampled, of 65536.
    #[schemars(range(min = 0, max = 65536))]
    pub sample: u32,
    /// IPv6 flows that a switch names in an epoch. The others are known by a digest alone.
    #[schemars(range(min = 0, max = Config::MAX_NAMES))]
    pub names: u32,
    /// Whether a live switch shifts the parameters from hh on from epoch to epoch (auto), or keeps
    /// them (fixed).
    pub attention: AttentionMode,
}

impl Default for Config {
    fn default() -> Self {
        let level = |width, counters| Level { width, counters };
        Self {
            tower: TowerShape(vec![level(Width::Bits8, 32_768), level(Width::Bits16, 16_384)]),
            arrays: 3,
            small: 0,
            upstream: 4096,
            downstream: 3072,
            parts: Parts::Any,
            hh: None,
            hl: None,
            ll: 0,
            hh_threshold: 250,
            hl_threshold: 1,
            sample: EncoderParameters::ALL,
            names: 8192,
            attention: AttentionMode::Auto,
        }
    }
}

impl Config {
    pub const MAX_ARRAYS: u32 = 4;
    pub const MAX_SMALL: u32 = 8;
    pub const MAX_BUCKETS: u32 = 1 << 20;
    pub const MAX_COUNTERS: u32 = 1 << 24;
    pub const MAX_NAMES: u32 = 1 << 16;
    /// The least lengths of encoders whose parts are powers of two: room for one of each class.
    const MIN_POWERS: [u32; 2] = [3 * POWERS[0], 2 * POWERS[0]];

    pub fn shape(&self) -> Shape {
        let Self { arrays, small, upstream, downstream, parts, .. } = *self;
        Shape { arrays, small, upstream, downstream, parts }
    }

    /// The parameters of the first epoch. Thresholds end where the classifier does.
    pub fn parameters(&self) -> EncoderParameters {
        self.asked().within(self.tower.max())
    }

    fn asked(&self) -> EncoderParameters {
        let room = self.downstream.min(self.upstream).saturating_sub(self.ll);
        let hl = self.hl.unwrap_or(room.min(512));
        let rest = self.upstream.saturating_sub(self.ll).saturating_sub(hl);
        let hh = self.hh.unwrap_or(self.shape().longest_part(rest));
        EncoderParameters {
            partition: Partition { hh, hl, ll: self.ll },
            hh_threshold: self.hh_threshold,
            hl_threshold: self.hl_threshold,
            sample: self.sample,
            sample_seed: 0,
        }
    }

    /// Checks the ranges and what goes together.
    pub fn validate(&self) -> Result<(), ProgramError> {
        let range = |key, value, range| ProgramError::check(ChameleMon::NAME, key, value, range);
        range("arrays", self.arrays, 2..=Self::MAX_ARRAYS)?;
        range("small", self.small, 0..=Self::MAX_SMALL)?;
        range("upstream", self.upstream, 1..=Self::MAX_BUCKETS)?;
        range("downstream", self.downstream, 1..=Self::MAX_BUCKETS)?;
        range("names", self.names, 0..=Self::MAX_NAMES)?;
        if self.parts == Parts::Powers {
            let [upstream, downstream] = Self::MIN_POWERS;
            range("upstream", self.upstream, upstream..=Self::MAX_BUCKETS)?;
            range("downstream", self.downstream, downstream..=Self::MAX_BUCKETS)?;
        }
        self.asked().validate(&self.shape())
    }
}
