//! The links of a network, as the query describes them: their bandwidth, and the time over which
//! their utilisation is averaged.

use std::fmt;

use super::code::{LARGEST, SMALLEST};
use super::filter::Filter;
use super::shifts;
use crate::program::pint::compress::Compression;
use crate::program::pint::query::written;
use crate::text::short;

/// Range of bandwidths, in bits per second.
pub const RATES: std::ops::RangeInclusive<u64> = 100_000..=800_000_000_000;

/// What a link carries within the period at its full rate, in bytes. A packet is to be a small share
/// of it, and not less than the registers can tell.
pub const VOLUMES: std::ops::RangeInclusive<u64> = 10_000..=4_000_000;

/// What it carries where the period is not configured.
const DEFAULT_VOLUME: u64 = 1_000_000;

/// The longest period where it is not configured, in nanoseconds.
const MAX_DEFAULT_PERIOD_NS: u64 = 4_000_000_000;

/// What all links of a network have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// Their bandwidth B, in bits per second.
    pub bits_per_second: u64,
    /// The time T over which a utilisation is averaged, in nanoseconds. Without it, the time that a
    /// link takes for a million bytes.
    pub period_ns: Option<u32>,
    /// How the average is kept.
    pub filter: Filter,
}

impl Default for Links {
    fn default() -> Self {
        Self { bits_per_second: 10_000_000_000, period_ns: None, filter: Filter::default() }
    }
}

impl Links {
    /// B in bytes per second.
    pub fn bytes_per_second(&self) -> u64 {
        self.bits_per_second / 8
    }

    /// T in nanoseconds.
    pub fn period_ns(&self) -> u32 {
        let usual = DEFAULT_VOLUME * 8 * 1_000_000_000 / self.bits_per_second.max(1);
        let period = self.period_ns.unwrap_or(usual.clamp(1, MAX_DEFAULT_PERIOD_NS) as u32);
        match self.filter {
            Filter::Logarithms => period,
            Filter::Shifts => shifts::rounded(period),
        }
    }

    /// The codes of averages in bytes with this number of bits behind the point.
    pub fn codes(&self, bits: u32, point_bits: u32) -> Compression {
        let bytes = self.bytes_per_second() as f64 * 1e-9 * f64::from(self.period_ns());
        let volume = bytes * f64::from(1 << point_bits);
        shifts::codes(bits, volume, [SMALLEST, LARGEST])
    }

    /// Checks that the registers can tell utilisations of such links.
    ///
    /// # Errors
    /// Says what would be right.
    pub fn check(&self) -> Result<(), String> {
        let volume = u128::from(self.bytes_per_second()) * u128::from(self.period_ns()) / 1_000_000_000;
        if u64::try_from(volume).is_ok_and(|volume| VOLUMES.contains(&volume)) {
            return Ok(());
        }
        let [min, max] = [VOLUMES.start(), VOLUMES.end()].map(|bytes| short(*bytes));
        let period = match self.filter {
            Filter::Logarithms => String::new(),
            Filter::Shifts => format!(" (by shifts the period is a power of two: {})", written(self.period_ns())),
        };
        Err(format!("rate × period is {min}B to {max}B, not {volume} B{period}"))
    }
}

/// The keys that are not the default, each behind a colon.
impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bits_per_second != Self::default().bits_per_second {
            write!(f, ":rate={}bps", short(self.bits_per_second))?;
        }
        if let Some(period) = self.period_ns {
            write!(f, ":period={}", written(period))?;
        }
        if self.filter != Filter::default() {
            write!(f, ":filter={}", self.filter.name())?;
        }
        Ok(())
    }
}
