//! In what order the packets of all flows come.

use super::SplitMix64;
use super::math::ln;
use crate::text::named;

named! {
    /// How flows interleave.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Order {
        /// All orders equally likely: every flow is active all the time.
        Uniform = "uniform",
        /// Flows come, send in trains, and go, which is how real traffic looks to a sketch. Each flow
        /// lives in an interval of length U(0.05, 1) placed uniformly in the unit of time; its packets
        /// come in trains of 1 + floor(Exp(mean 49)), each starting uniformly in the interval. Inside a
        /// train packets are ten mean packet gaps apart, 1e-6 of the unit of time with 10 M packets, so
        /// that about ten packets of other flows come between.
        Burst = "burst",
    }
}

const SHORTEST_LIFE: f64 = 0.05;
const TRAIN_MEAN: f64 = 49.0;
const TRAIN_GAP: f64 = 10.0;

/// Sorting is by time in 40 bits above the flow's 24: one word a packet, ties by flow.
const FLOW_BITS: u32 = 24;
const TICKS: f64 = (1u64 << 39) as f64;
const LAST_TICK: u64 = (1 << 40) - 1;

impl Order {
    /// The flow of each packet. `sizes` may hold up to 2^24 flows.
    pub fn sequence(self, sizes: &[u32], seed: u64) -> Vec<u32> {
        assert!(sizes.len() <= 1 << FLOW_BITS, "more than 2^24 flows");
        match self {
            Self::Uniform => uniform(sizes, seed),
            Self::Burst => burst(sizes, seed),
        }
    }
}

/// Fisher-Yates from the last index down.
fn uniform(sizes: &[u32], seed: u64) -> Vec<u32> {
    let mut rng = SplitMix64::new(seed);
    let mut sequence: Vec<u32> = Vec::with_capacity(total(sizes));
    sequence.extend(sizes.iter().enumerate().flat_map(|(flow, &n)| std::iter::repeat_n(flow as u32, n as usize)));
    for i in (1..sequence.len()).rev() {
        sequence.swap(i, rng.below(i as u64 + 1) as usize);
    }
    sequence
}

fn burst(sizes: &[u32], seed: u64) -> Vec<u32> {
    let mut rng = SplitMix64::new(seed);
    let packets = total(sizes);
    let gap = TRAIN_GAP / packets as f64;
    let mut keys: Vec<u64> = Vec::with_capacity(packets);
    for (flow, &size) in sizes.iter().enumerate() {
        let life = SHORTEST_LIFE + (1.0 - SHORTEST_LIFE) * rng.unit();
        let birth = (1.0 - life) * rng.unit();
        let mut left = size;
        while left > 0 {
            let train = (1 + (-TRAIN_MEAN * ln(1.0 - rng.unit())) as u32).min(left);
            let start = birth + life * rng.unit();
            for i in 0..train {
                let tick = ((start + f64::from(i) * gap) * TICKS) as u64;
                keys.push(tick.min(LAST_TICK) << FLOW_BITS | flow as u64);
            }
            left -= train;
        }
    }
    sorted(&keys).into_iter().map(|key| (key & ((1 << FLOW_BITS) - 1)) as u32).collect()
}

/// Sorts by the highest bits first: what is left to sort then fits a core's cache.
fn sorted(keys: &[u64]) -> Vec<u64> {
    const BITS: u32 = 12;
    let part = |key: u64| (key >> (u64::BITS - BITS)) as usize;
    let mut ends = vec![0usize; 1 << BITS];
    keys.iter().for_each(|&key| ends[part(key)] += 1);
    let mut end = 0;
    for count in &mut ends {
        end += std::mem::replace(count, end);
    }
    let mut sorted = vec![0; keys.len()];
    for &key in keys {
        let at = &mut ends[part(key)];
        sorted[*at] = key;
        *at += 1;
    }
    let mut start = 0;
    for end in ends {
        sorted[start..end].sort_unstable();
        start = end;
    }
    sorted
}

fn total(sizes: &[u32]) -> usize {
    sizes.iter().map(|&n| n as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(sequence: &[u32], flows: usize) -> Vec<u32> {
        let mut counts = vec![0; flows];
        sequence.iter().for_each(|&flow| counts[flow as usize] += 1);
        counts
    }

    proptest! {
        #[test]
        fn a_sequence_holds_exactly_the_sizes(sizes in prop::collection::vec(1u32..300, 0..60), seed: u64) {
            for order in [Order::Uniform, Order::Burst] {
                prop_assert_eq!(counts(&order.sequence(&sizes, seed), sizes.len()), sizes.clone());
            }
        }

        #[test]
        fn sorting_by_parts_sorts(mut keys: Vec<u64>) {
            let parts = sorted(&keys);
            keys.sort_unstable();
            prop_assert_eq!(parts, keys);
        }
    }

    /// How often a packet's flow is seen again among the next 20 packets tells trains from a
    /// shuffle.
    #[test]
    fn trains_show_in_burst_order_only() {
        let sizes = vec![500; 1000];
        let near = |order: Order| {
            let s = order.sequence(&sizes, 2);
            s.windows(21).filter(|w| w[1..].contains(&w[0])).count() as f64 / s.len() as f64
        };
        assert!(near(Order::Uniform) < 0.03, "{}", near(Order::Uniform));
        assert!(near(Order::Burst) > 0.7, "{}", near(Order::Burst));
    }
}
