//! How many packets each flow has.

use super::math::pow;
use super::{Cdf, SplitMix64};

/// The law that flow sizes follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeLaw {
    /// An ISP backbone link, calibrated to the HashPipe paper's CAIDA chunks (10 M packets and 400
    /// k five-tuples; the 60th has about 6000 packets and the 150th about 4000).
    Isp,
    /// `Isp` with its bends at the same shares of any number of flows: a short interval of the same
    /// link.
    IspScaled,
    /// Weight 1 / rank^s.
    Zipf(f64),
    /// Independent draws from a measured distribution.
    Cdf(Cdf),
}

/// Two ranks at which the `isp` law changes its slope, and the slopes.
const KNEE: f64 = 150.0;
const TAIL: f64 = 45_000.0;
const HEAD_SLOPE: f64 = 0.4425;
const BODY_SLOPE: f64 = 0.77;
const TAIL_SLOPE: f64 = 2.275;

/// The number of flows at which `isp` and `isp-scaled` are the same.
const CALIBRATED: f64 = 400_000.0;

/// Keeps the draws of sizes apart from those of the order under one seed.
const STREAM: u64 = 0x5a5a_0001;

fn isp_weight(rank: f64) -> f64 {
    let body = |rank: f64| 4000.0 * pow(KNEE / rank, BODY_SLOPE);
    if rank <= KNEE {
        4000.0 * pow(KNEE / rank, HEAD_SLOPE)
    } else if rank <= TAIL {
        body(rank)
    } else {
        body(TAIL) * pow(TAIL / rank, TAIL_SLOPE)
    }
}

impl SizeLaw {
    /// Packets of each flow. For `Isp`, `IspScaled` and `Zipf` flow 0 is the largest, and the sum
    /// is exactly `packets`, which must be at least `flows`. For `Cdf` one of the two may be 0 and
    /// follows from the other: `flows` draws, or draws until `packets` are reached (the last flow
    /// cut to fit).
    pub fn sizes(self, flows: u32, packets: u64, seed: u64) -> Vec<u32> {
        let ranks = (1..=flows).map(f64::from);
        match self {
            Self::Isp => scaled(ranks.map(isp_weight).collect(), packets),
            Self::IspScaled => {
                let scale = CALIBRATED / f64::from(flows.max(1));
                scaled(ranks.map(|rank| isp_weight(rank * scale)).collect(), packets)
            }
            Self::Zipf(s) => scaled(ranks.map(|r| pow(r, -s)).collect(), packets),
            Self::Cdf(cdf) => drawn(cdf, flows, packets, seed),
        }
    }

    /// Mean packets of a flow drawn from a measured distribution, not rounded up; 0 for the other
    /// laws.
    pub(super) fn mean_packets(self) -> f64 {
        match self {
            Self::Cdf(cdf) => cdf.mean_bytes() / 1500.0,
            Self::Isp | Self::IspScaled | Self::Zipf(_) => 0.0,
        }
    }

    /// Whether flow count and packet count are both free to choose.
    pub fn is_ranked(self) -> bool {
        !matches!(self, Self::Cdf(_))
    }
}

/// max(1, floor(s · weight)) with the largest s whose sum does not pass `packets`; the rest
/// goes to the first.
fn scaled(weights: Vec<f64>, packets: u64) -> Vec<u32> {
    assert!(weights.len() as u64 <= packets, "fewer packets than flows");
    let Some(&first) = weights.first() else { return Vec::new() };
    let size = |s: f64, w: f64| ((s * w) as u64).max(1);
    let sum = |s: f64| weights.iter().map(|&w| size(s, w)).sum::<u64>();
    let (mut low, mut high) = (0.0, (packets as f64 + 1.0) / first);
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if sum(middle) <= packets { low = middle } else { high = middle }
    }
    let mut sizes: Vec<u32> = weights.iter().map(|&w| size(low, w) as u32).collect();
    sizes[0] += (packets - sum(low)) as u32;
    sizes
}

fn drawn(cdf: Cdf, flows: u32, packets: u64, seed: u64) -> Vec<u32> {
    let mut rng = SplitMix64::new(seed ^ STREAM);
    if flows > 0 {
        return (0..flows).map(|_| cdf.packets(rng.unit())).collect();
    }
    let mut left = packets;
    let mut sizes = Vec::new();
    while left > 0 {
        let size = u64::from(cdf.packets(rng.unit())).min(left);
        left -= size;
        sizes.push(size as u32);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isp_has_the_calibrated_sizes() {
        let sizes = SizeLaw::Isp.sizes(400_000, 10_000_000, 1);
        assert_eq!(sizes.len(), 400_000);
        assert_eq!(sizes.iter().map(|&n| u64::from(n)).sum::<u64>(), 10_000_000);
        let rank = |r: usize| sizes[r - 1];
        assert_eq!([rank(1), rank(60), rank(150), rank(1000)], [37_901, 6_191, 4_127, 957]);
        assert_eq!(sizes.iter().filter(|&&n| n == 1).count(), 213_011);
        assert!(sizes.is_sorted_by(|a, b| a >= b));
    }

    /// The share of flows of one packet does not depend on how many flows there are, as it does for
    /// `Isp`.
    #[test]
    fn isp_scaled_keeps_its_shape() {
        assert_eq!(SizeLaw::IspScaled.sizes(400_000, 10_000_000, 1), SizeLaw::Isp.sizes(400_000, 10_000_000, 1));
        let single = |law: SizeLaw| {
            let sizes = law.sizes(40_000, 1_000_000, 1);
            sizes.iter().filter(|&&n| n == 1).count() as f64 / 40_000.0
        };
        assert!((single(SizeLaw::IspScaled) - 0.533).abs() < 0.01 && single(SizeLaw::Isp) == 0.0);
    }

    #[test]
    fn ranked_sums_are_exact() {
        for (flows, packets) in [(1, 1), (1, 999), (7, 7), (10, 1000), (1000, 1001), (5000, 123_456)] {
            for law in [SizeLaw::Isp, SizeLaw::IspScaled, SizeLaw::Zipf(0.0), SizeLaw::Zipf(1.0), SizeLaw::Zipf(2.5)] {
                let sizes = law.sizes(flows, packets, 0);
                assert_eq!(sizes.iter().map(|&n| u64::from(n)).sum::<u64>(), packets, "{law:?} {flows}");
                assert!(sizes.iter().all(|&n| n > 0));
            }
        }
    }

    #[test]
    fn draws_follow_the_distribution() {
        let sizes = SizeLaw::Cdf(Cdf::WebSearch).sizes(100_000, 0, 5);
        let up_to = |packets| sizes.iter().filter(|&&n| n <= packets).count() as f64 / 1e5;
        // 200 kB are 134 packets, 5 MB 3334.
        assert!((up_to(133) - 0.6).abs() < 0.01 && (up_to(3333) - 0.9).abs() < 0.01);
        let by_packets = SizeLaw::Cdf(Cdf::Hadoop).sizes(0, 50_000, 5);
        assert_eq!(by_packets.iter().sum::<u32>(), 50_000);
    }
}
