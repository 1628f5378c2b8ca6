//! How many heavy-hitter candidates another threshold would make.
//!
//! A flow is a candidate when the classifier's answer reaches T_h. That answer is too large by what else is on the flow's counters at
//! that time, so more flows are candidates than have so many packets: of 15 000 flows, most of one packet, on the default
//! classifier a tenth more at T_h = 2, which a part of an encoder at its target load has no room for. Here a flow's last packet
//! comes at a random time, when a share of the other flows has come, and the number and sizes of those on one counter
//! are a compound Poisson variable, as in [`super::estimate`].

use super::estimate::{DENSE, panjer};
use super::{Analysis, Distribution, Level};

/// Shares of an epoch: the middles of its thirds.
const TIMES: [f64; 3] = [1.0 / 6.0, 0.5, 5.0 / 6.0];

/// Candidates by threshold.
pub struct Candidates<'a> {
    sizes: &'a Distribution,
    /// For each time, the probability that the noise on all of a flow's counters is at least so much.
    noise: Vec<[f64; TIMES.len()]>,
}

impl<'a> Candidates<'a> {
    /// `None` when the classifier was too full to tell sizes.
    pub fn new(analysis: &'a Analysis) -> Option<Self> {
        let sizes = analysis.distribution()?;
        let mut noise = vec![[1.0; TIMES.len()]; DENSE + 1];
        for level in &analysis.sketches().tower {
            for (number, time) in TIMES.into_iter().enumerate() {
                let at_least = tails(sizes, level, time);
                noise.iter_mut().zip(at_least).for_each(|(all, tail)| all[number] *= tail);
            }
        }
        Some(Self { sizes, noise })
    }

    /// The expected number at this threshold.
    pub fn at(&self, threshold: u32) -> f64 {
        let smaller = self.sizes.0.iter().take_while(|(size, _)| *size < threshold);
        let lifted = smaller.map(|&(size, flows)| flows * self.lifted(size, threshold - size)).sum::<f64>();
        lifted + self.sizes.tail(threshold)
    }

    /// The probability that noise lifts a flow of this size by `least` or more: its last packet comes in the thirds of the epoch
    /// with the probabilities (1/3)ⁿ, (2/3)ⁿ − (1/3)ⁿ and 1 − (2/3)ⁿ.
    fn lifted(&self, size: u32, least: u32) -> f64 {
        let Some([early, middle, late]) = self.noise.get(least as usize) else { return 0.0 };
        let packets = size.min(64) as i32;
        let (first, second) = ((1.0f64 / 3.0).powi(packets), (2.0f64 / 3.0).powi(packets));
        first * early + (second - first) * middle + (1.0 - second) * late
    }
}

/// The probabilities that a counter holds at least 0, 1, … packets when so large a share of the flows has come.
fn tails(sizes: &Distribution, level: &Level, share: f64) -> Vec<f64> {
    let scale = share / level.sizes.len().max(1) as f64;
    let mut rates = vec![0.0; DENSE];
    let mut large = 0.0;
    for &(size, flows) in &sizes.0 {
        *rates.get_mut(size as usize).unwrap_or(&mut large) += flows * scale;
    }
    // A size of 0 is no flow.
    rates[0] = 0.0;
    let none_large = (-large).exp();
    let mut at_least = vec![1.0; DENSE + 1];
    let mut below = 0.0;
    for (probability, at_least) in panjer(&rates, DENSE).iter().zip(&mut at_least[1..]) {
        below += probability * none_large;
        *at_least = (1.0 - below).max(0.0);
    }
    at_least
}
