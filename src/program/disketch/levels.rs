//! Sums over all flows from the largest of each level, as UnivMon takes them (Liu et al.: "One Sketch to
//! Rule Them All: Rethinking Network Flow Monitoring with UnivMon", SIGCOMM 2016, Algorithm 2).

use super::hashes::LEVELS;

/// Flows of a level that are looked at.
const LARGEST: usize = 1000;

/// A flow as a sum takes it.
#[derive(Clone, Copy, Debug)]
pub struct Leveled {
    /// The deepest level that counts it.
    pub depth: u32,
    /// Packets or bytes; above 0.
    pub size: f64,
}

/// Number of flows, and the entropy of their sizes in bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    pub flows: f64,
    pub entropy_bits: f64,
}

/// The number of flows, and the entropy of their sizes: log₂ m − Σ f log₂ f / m with m = Σ f. All three
/// sums are estimated alike. Without levels, which is with all flows at depth 0, they are of the given
/// flows alone.
pub fn summary(mut flows: Vec<Leveled>) -> Summary {
    flows.sort_unstable_by(|one, other| other.size.total_cmp(&one.size));
    let number = sum(&flows, |_| 1.0);
    let total = sum(&flows, |size| size);
    let logarithms = sum(&flows, |size| size * size.log2());
    let entropy = if total > 0.0 { total.log2() - logarithms / total } else { 0.0 };
    Summary { flows: number.max(0.0), entropy_bits: entropy.max(0.0) }
}

/// The estimate of Σ g(size) over all flows: from the deepest level on, each sum is twice that of the next
/// level, which has half of the flows, corrected by what is known of the level's own largest flows.
/// `flows` descend by size.
fn sum(flows: &[Leveled], of: impl Fn(f64) -> f64) -> f64 {
    let deepest = flows.iter().map(|flow| flow.depth).max().unwrap_or_default().min(LEVELS - 1);
    if deepest == 0 {
        return flows.iter().map(|flow| of(flow.size)).sum();
    }
    let mut sum = 0.0;
    for level in (0..LEVELS).rev() {
        let largest = flows.iter().filter(|flow| flow.depth >= level).take(LARGEST);
        let corrected = |flow: &Leveled| if flow.depth > level { -of(flow.size) } else { of(flow.size) };
        sum = 2.0 * sum + largest.map(corrected).sum::<f64>();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::SplitMix64;

    fn flows(sizes: impl Iterator<Item = f64>, seed: u64) -> Vec<Leveled> {
        let mut random = SplitMix64::new(seed);
        sizes.map(|size| Leveled { depth: random.next_u64().leading_ones().min(LEVELS - 1), size }).collect()
    }

    fn exact(flows: &[Leveled]) -> Summary {
        let total: f64 = flows.iter().map(|flow| flow.size).sum();
        let share = |flow: &Leveled| flow.size / total;
        Summary {
            flows: flows.len() as f64,
            entropy_bits: -flows.iter().map(|flow| share(flow) * share(flow).log2()).sum::<f64>(),
        }
    }

    /// As long as a level's largest flows are all of its flows, the sums are those of all flows.
    #[test]
    fn few_flows_are_summed_up_exactly() {
        for number in [0i32, 1, 2, 999] {
            let flows = flows((0..number).map(|size| f64::from(size + 1)), number as u64);
            let (found, right) = (summary(flows.clone()), exact(&flows));
            assert!((found.flows - right.flows).abs() < 1e-6, "{found:?} {right:?}");
            assert!(
                (found.entropy_bits - if number == 0 { 0.0 } else { right.entropy_bits }).abs() < 1e-6,
                "{found:?}"
            );
        }
        // All at depth 0, of a sketch without levels.
        let flat: Vec<_> = (0..5000).map(|size| Leveled { depth: 0, size: f64::from(size % 7 + 1) }).collect();
        let (found, right) = (summary(flat.clone()), exact(&flat));
        assert!((found.entropy_bits - right.entropy_bits).abs() < 1e-6 && found.flows == 5000.0);
    }

    /// Of many flows the largest of each level are enough.
    #[test]
    fn the_largest_of_each_level_stand_for_all() {
        let (mut mean, mut worst) = (0.0, 0.0f64);
        for seed in 1..=20 {
            let flows = flows((1..=40_000).map(|rank| (40_000.0 / f64::from(rank)).round()), seed);
            let (found, right) = (summary(flows.clone()), exact(&flows));
            worst = worst.max((found.entropy_bits - right.entropy_bits).abs());
            mean += (found.flows / right.flows - 1.0) / 20.0;
        }
        assert!(worst < 0.2 && mean.abs() < 0.05, "{worst} {mean}");
    }
}
