//! How much memory a number of flows needs, and how the encoders are divided in each state.

use super::super::{POWERS, Partition, Parts, Shape};

/// The expected load factor that is aimed at, flows for each bucket of three arrays (§4.3.1, step
/// 1).
pub const AIM: f64 = 0.70;
/// Below this load memory is given back, or a threshold turned down (§4.3.1, steps 2 and 3; §4.3.2,
/// step 3).
pub const LOW: f64 = 0.60;
/// Up to this load everything is decoded nearly always; three arrays fail at 81 %.
pub const LIMIT: f64 = 0.80;
/// Above this load more memory is given although decoding succeeded. The paper waits until it
/// fails: here an update takes effect two epochs after the one that it was made from.
pub const FULL: f64 = 0.76;
/// The same for sampled losses, of which every epoch draws others: their number varies by 3 % where
/// a thousand are drawn.
pub const FULL_SAMPLED: f64 = 0.73;
/// So far below [`AIM`] the load must be expected when a threshold is turned down: thresholds are
/// whole numbers, and a load that varies around the aim would turn one up and down for ever. Not in
/// the paper.
pub const MARGIN: f64 = 0.03;
/// Buckets a flow with two, three and four arrays (Theorem 3.1; two arrays are peeled up to one
/// flow in two buckets).
const BUCKETS_A_FLOW: [f64; 3] = [2.0, 1.23, 1.30];
/// The least memory reserved for heavy losses in the healthy state, as a share of the downstream
/// encoder: 512 of 3072 (§5.2).
const MIN_HL: u32 = 6;
/// The memory of light losses in the ill state, as a share of the downstream encoder: 512 of 3072
/// (§5.2).
const ILL_LL: u32 = 6;
/// Heavy hitters keep what the upstream encoder is longer than the downstream one (§4.3.2): 1024 of
/// 4096. Where it is not longer, they keep this share of it; the paper has no such switch.
const MIN_HH: u32 = 8;

/// What the encoders of a shape can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizing {
    shape: Shape,
    /// Buckets that a flow needs, against three arrays.
    need: f64,
}

impl Sizing {
    pub fn new(shape: Shape) -> Self {
        let need = BUCKETS_A_FLOW[(shape.arrays.clamp(2, 4) - 2) as usize] / BUCKETS_A_FLOW[1];
        Self { shape, need }
    }

    /// Buckets of a part of an encoder, over all rows.
    pub fn buckets(&self, length: u32) -> f64 {
        (0..self.shape.rows()).map(|row| f64::from(self.shape.width(row, length))).sum()
    }

    /// The load factor of a part that holds `flows` flows.
    pub fn load(&self, flows: f64, length: u32) -> f64 {
        if flows <= 0.0 { 0.0 } else { flows * self.need / self.buckets(length) }
    }

    /// Flows that load a part so far.
    pub fn flows(&self, load: f64, length: u32) -> f64 {
        load * self.buckets(length) / self.need
    }

    /// Buckets an array that hold `flows` flows at [`AIM`].
    pub fn required(&self, flows: f64) -> u32 {
        (flows * self.need / (AIM * f64::from(self.shape.arrays))).ceil().min(f64::from(u32::MAX)) as u32
    }

    /// The most for heavy losses.
    pub fn most_hl(&self) -> u32 {
        self.shape.longest_part(self.most_lost())
    }

    /// The most for heavy and light losses together.
    fn most_lost(&self) -> u32 {
        let Shape { upstream, downstream, .. } = self.shape;
        downstream.min(upstream - self.least_hh())
    }

    pub fn least_hl(&self) -> u32 {
        self.shape.shortest_part(self.most_hl().div_ceil(MIN_HL))
    }

    fn least_hh(&self) -> u32 {
        let Shape { upstream, downstream, parts, .. } = self.shape;
        let least = upstream.saturating_sub(downstream).max(upstream / MIN_HH);
        match parts {
            Parts::Any => least,
            Parts::Powers => self.shape.longest_part(least).max(POWERS[0]),
        }
    }

    /// All that heavy losses do not need goes to heavy hitters, as far as a part can have it.
    pub fn healthy(&self, hl: u32) -> Partition {
        let hl = self.shape.shortest_part(hl.clamp(self.least_hl(), self.most_hl()));
        Partition { hh: self.shape.longest_part(self.shape.upstream - hl), hl, ll: 0 }
    }

    /// The fixed partition of the ill state.
    pub fn ill(&self) -> Partition {
        let room = self.most_lost();
        // Without room for both, light losses are what tells when the network is well again.
        let ll = self.shape.shortest_part((room / ILL_LL).max(1));
        let hl = self.shape.longest_part(room - ll);
        Partition { hh: self.shape.longest_part(self.shape.upstream - hl - ll), hl, ll }
    }

    /// The fewest flows that leave no bucket of a row empty, by expectation: what linear counting
    /// cannot count any more.
    pub fn uncountable(length: u32) -> f64 {
        let length = f64::from(length.max(1));
        length * (2.0 * length).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_papers_switch() {
        let sizing = Sizing::new(Shape { arrays: 3, small: 0, upstream: 4096, downstream: 3072, parts: Parts::Any });
        assert_eq!(sizing.ill(), Partition { hh: 1024, hl: 2560, ll: 512 });
        assert_eq!(sizing.healthy(0), Partition { hh: 3584, hl: 512, ll: 0 });
        assert_eq!(sizing.healthy(9999), Partition { hh: 1024, hl: 3072, ll: 0 });
        assert_eq!((sizing.required(1049.0), sizing.required(1051.0)), (500, 501));
        assert!((sizing.load(6451.2, 3072) - AIM).abs() < 1e-9);
        assert!((sizing.flows(AIM, 3072) - 6451.2).abs() < 1e-9);
    }

    /// A Tofino's encoders, and those of the default lengths.
    #[test]
    fn powers_of_two() {
        let sizing =
            |downstream| Sizing::new(Shape { arrays: 3, small: 0, upstream: 4096, downstream, parts: Parts::Powers });
        assert_eq!(sizing(4096).ill(), Partition { hh: 1024, hl: 2048, ll: 1024 });
        assert_eq!(sizing(3072).ill(), Partition { hh: 1024, hl: 2048, ll: 512 });
        for downstream in [3072, 4096] {
            let healthy = |hl| sizing(downstream).healthy(hl);
            assert_eq!(healthy(0), Partition { hh: 2048, hl: 512, ll: 0 });
            assert_eq!(healthy(513), Partition { hh: 2048, hl: 1024, ll: 0 });
            assert_eq!(healthy(9999), Partition { hh: 2048, hl: 2048, ll: 0 });
        }
    }

    proptest! {
        /// Whatever encoders have room for one part of each class: theirs are powers, and fit.
        #[test]
        fn divisions_into_powers_fit(up in 1536..10_000u32, down in 1024..10_000u32, hl: u16) {
            let shape = Shape { arrays: 3, small: 0, upstream: up, downstream: down, parts: Parts::Powers };
            let sizing = Sizing::new(shape);
            let (ill, healthy) = (sizing.ill(), sizing.healthy(hl.into()));
            for Partition { hh, hl, ll } in [ill, healthy] {
                prop_assert!(hh + hl + ll <= up && hl + ll <= down, "{:?}", (hh, hl, ll));
                prop_assert!([hh, hl].iter().all(|length| POWERS.contains(length)), "{:?}", (hh, hl, ll));
            }
            prop_assert!(POWERS.contains(&ill.ll) && healthy.ll == 0);
        }

        #[test]
        fn divisions_fit(arrays in 2..5u32, small in 0..9u32, up in 1..10_000u32, down in 1..10_000u32, hl: u16) {
            let shape = Shape { arrays, small, upstream: up, downstream: down, parts: Parts::Any };
            let sizing = Sizing::new(shape);
            for partition in [sizing.ill(), sizing.healthy(hl.into())] {
                prop_assert_eq!(partition.hh + partition.hl + partition.ll, up);
                prop_assert!(partition.hl + partition.ll <= down, "{:?}", partition);
            }
        }
    }
}
