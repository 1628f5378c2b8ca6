//! How the gaps between packets vary around their mean.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weir::trace::SplitMix64;

use crate::words::time;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// All gaps are equal.
    #[default]
    Constant,
    /// Gaps are exponential and independent of each other.
    Poisson,
    /// Constant gaps for a while, then none at all for a while; the mean over both is the rate.
    OnOff { on: Duration, off: Duration },
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "constant" => return Ok(Self::Constant),
            "poisson" => return Ok(Self::Poisson),
            _ => {}
        }
        let wrong = || format!("{text:?} are no arrivals; write constant, poisson or on-off:10ms,90ms");
        let (on, off) = text.strip_prefix("on-off:").and_then(|rest| rest.split_once(',')).ok_or_else(wrong)?;
        let (on, off) = (time(on)?, time(off)?);
        let range = Duration::from_micros(1)..=Duration::from_secs(60);
        if range.contains(&on) && range.contains(&off) {
            Ok(Self::OnOff { on, off })
        } else {
            Err(format!("{text:?}: both are from 1us to 60s"))
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Poisson => f.write_str("poisson"),
            Self::OnOff { on, off } => {
                write!(f, "on-off:{},{}", humantime::format_duration(*on), humantime::format_duration(*off))
            }
        }
    }
}

/// log₂ of the number of gaps in the table of [`Exponential`].
const BITS: u32 = 12;

/// Draws from the exponential distribution with mean 1, times 2¹⁶: its 4096 quantiles at the middle
/// of equal parts, equally likely. Their mean is 1 to five digits, the longest gap is nine means.
#[derive(Clone, Debug)]
pub struct Exponential {
    gaps: Box<[u32; 1 << BITS]>,
    rng: SplitMix64,
}

impl Exponential {
    pub fn new(seed: u64) -> Self {
        let parts = f64::from(1u32 << BITS);
        let quantile = |i: usize| -(1.0 - (i as f64 + 0.5) / parts).ln();
        let mean = (0..1 << BITS).map(quantile).sum::<f64>() / parts;
        let mut gaps = Box::new([0; 1 << BITS]);
        for (i, gap) in gaps.iter_mut().enumerate() {
            *gap = (quantile(i) / mean * 65_536.0).round() as u32;
        }
        Self { gaps, rng: SplitMix64::new(seed) }
    }

    #[inline(always)]
    pub fn draw(&mut self) -> u32 {
        self.gaps[(self.rng.next_u64() >> (64 - BITS)) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_round() {
        for text in ["constant", "poisson", "on-off:10ms,90ms"] {
            assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
        }
        for wrong in ["", "on-off", "on-off:1ms", "on-off:0s,1s", "on-off:1s,2m", "uniform"] {
            assert!(wrong.parse::<Arrivals>().is_err(), "{wrong}");
        }
    }

    /// Mean and variance are 1, and a share 1/e is longer than the mean.
    #[test]
    fn gaps_are_exponential() {
        let mut draws = Exponential::new(5);
        let gaps: Vec<f64> = (0..1_000_000).map(|_| f64::from(draws.draw()) / 65_536.0).collect();
        let mean = gaps.iter().sum::<f64>() / 1e6;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1e6;
        let longer = gaps.iter().filter(|gap| **gap > 1.0).count() as f64 / 1e6;
        assert!((mean - 1.0).abs() < 0.005 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        assert!((longer - (-1f64).exp()).abs() < 0.002, "{longer}");
        let exact = draws.gaps.iter().map(|gap| f64::from(*gap)).sum::<f64>() / 4096.0 / 65_536.0;
        assert!((exact - 1.0).abs() < 1e-5, "{exact}");
    }
}
