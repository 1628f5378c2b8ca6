//! How many heavy-hitter candidates another threshold would make.
//!
//! A flow is a candidate when the classifier's answer reaches T_h. That answer is too large by what
//! else is on the flow's counters at that time, so more flows are candidates than have so many
//! packets: of 15 000 flows, most of one packet, on the default classifier a tenth more at T_h = 2;
//! of 25 000 of which two in five have hundreds of packets, twice as many at T_h = 4000. A part of
//! an encoder at its target load has no room for them.
//!
//! So here a flow of s packets is a candidate with the probability that on each of its counters the
//! noise is T_h − s or more, or enough to fill it; its last packet comes at a random time, when a
//! part of the others has come. Up to [`DENSE`] packets noise is a compound Poisson variable of the
//! estimated sizes, as in [`super::estimate`]; more than that is of a large flow, and the array's
//! own counters say how often it is there.
//!
//! *Guarantee.* None; on packets in random order its tests hold it to 4 % and chance. Packets in
//! bursts are not measured. *Memory.* The estimated sizes, and a word for each counter above
//! [`DENSE`]. *Deviation.* §4.3.1 takes the number of flows of that size from the distribution,
//! which with large flows on every third counter is 20 to 45 % too few.

use super::estimate::{DENSE, panjer};
use super::{Analysis, Level};
use crate::answers::{Distribution, rounded};

/// Shares of an epoch: the middles of its thirds, and its end.
const TIMES: [f64; 4] = [1.0 / 6.0, 0.5, 5.0 / 6.0, 1.0];
/// Packets of a flow above which its last one comes at the end of the epoch.
const LATE: u32 = 64;

/// Candidates of a threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// Flows of this number of packets.
    pub large: f64,
    /// Smaller ones that share counters with others.
    pub lifted: f64,
}

impl Expected {
    pub fn all(self) -> f64 {
        self.large + self.lifted
    }
}

/// Candidates by threshold.
pub struct Candidates {
    sizes: Distribution,
    noise: Vec<Noise>,
}

impl Candidates {
    /// `None` when the classifier was too full to tell sizes.
    pub fn new(analysis: &Analysis) -> Option<Self> {
        let decoded = analysis.hh().complete.then(|| analysis.sketches().hh_threshold());
        Some(Self::of(&analysis.sketches().tower, analysis.distribution()?, decoded))
    }

    /// From an estimate in which all candidates of the threshold `decoded` have their decoded
    /// sizes.
    pub fn of(tower: &[Level], sizes: &Distribution, decoded: Option<u32>) -> Self {
        let noise = tower.iter().map(|level| Noise::new(level, sizes)).collect();
        let mut candidates = Self { sizes: sizes.clone(), noise };
        if let Some(threshold) = decoded {
            candidates.take_lifted(threshold);
        }
        candidates
    }

    /// The expected number at this threshold.
    pub fn at(&self, threshold: u32) -> Expected {
        Expected { large: self.sizes.tail(threshold), lifted: self.lifted_over(threshold) }
    }

    /// Flows of smaller sizes that noise makes candidates.
    fn lifted_over(&self, threshold: u32) -> f64 {
        let smaller = &self.sizes.0[..self.sizes.0.partition_point(|&(size, _)| size < threshold)];
        let alike = smaller.chunk_by(|(one, _), (other, _)| rounded(*one) == rounded(*other));
        let lifted = alike.map(|sizes| {
            let flows = sizes.iter().map(|(_, flows)| flows).sum::<f64>();
            flows * self.lifted(sizes[sizes.len() / 2].0, threshold)
        });
        lifted.sum()
    }

    /// The probability that noise lifts a flow of this size to the threshold.
    fn lifted(&self, size: u32, threshold: u32) -> f64 {
        let at = |(time, probability): (usize, f64)| {
            let missing = |noise: &Noise| noise.at_least(threshold.min(noise.max).saturating_sub(size), time);
            probability * self.noise.iter().map(missing).product::<f64>()
        };
        last_packet(size).into_iter().enumerate().filter(|(_, probability)| *probability > 0.0).map(at).sum()
    }

    /// Flows that were lifted over the threshold stand in the estimate twice: with their own sizes,
    /// and with decoded ones, which are the smallest as only what came after the threshold is
    /// decoded.
    fn take_lifted(&mut self, threshold: u32) {
        let mut lifted = self.lifted_over(threshold);
        let first = self.sizes.0.partition_point(|&(size, _)| size < threshold);
        for (_, flows) in &mut self.sizes.0[first..] {
            let taken = lifted.min(*flows);
            (*flows, lifted) = (*flows - taken, lifted - taken);
        }
    }
}

/// When the last of a number of packets comes that come at random times: the probability of each of
/// the [`TIMES`]. It falls into the first third with (1/3)ⁿ and into the first two with (2/3)ⁿ; in
/// the last third it is nearer to the end the more there are.
fn last_packet(packets: u32) -> [f64; TIMES.len()] {
    if packets > LATE {
        return [0.0, 0.0, 0.0, 1.0];
    }
    let (n, two_thirds) = (f64::from(packets.max(1)), 2.0f64 / 3.0);
    let (first, second) = ((1.0f64 / 3.0).powf(n), two_thirds.powf(n));
    let rest = 1.0 - second;
    let mean = n / (n + 1.0) * (1.0 - two_thirds.powf(n + 1.0)) / rest;
    let end = ((mean - TIMES[2]) / (TIMES[3] - TIMES[2])).clamp(0.0, 1.0);
    [first, second - first, rest * (1.0 - end), rest * end]
}

/// What other flows leave on a counter of an array.
struct Noise {
    max: u32,
    /// By time, the probability that it is at least so much.
    small: [Vec<f64>; TIMES.len()],
    /// The counters of more than [`DENSE`], ascending, and the number of all.
    large: Vec<u32>,
    counters: f64,
}

impl Noise {
    fn new(level: &Level, sizes: &Distribution) -> Self {
        let mut large: Vec<u32> = level.sizes.iter().copied().filter(|size| *size > DENSE as u32).collect();
        large.sort_unstable();
        let small = TIMES.map(|time| tails(sizes, level, time));
        Self { max: level.max(), small, large, counters: level.sizes.len().max(1) as f64 }
    }

    /// Much noise is of a large flow, which has sent a part of its packets by then.
    fn at_least(&self, packets: u32, time: usize) -> f64 {
        self.small[time].get(packets as usize).copied().unwrap_or_else(|| {
            let by_the_end = (f64::from(packets) / TIMES[time]).ceil() as u32;
            (self.large.len() - self.large.partition_point(|size| *size < by_the_end)) as f64 / self.counters
        })
    }
}
/// The probabilities that a counter holds at least 0, 1, … packets when a share `time` of the
/// packets has come.
fn tails(sizes: &Distribution, level: &Level, time: f64) -> Vec<f64> {
    let scale = (level.sizes.len().max(1) as f64).recip();
    let mut rates = vec![0.0; DENSE];
    let mut large = 0.0;
    for &(size, flows) in &sizes.0 {
        let begun = 1.0 - (1.0 - time).powf(size.into());
        let packets = f64::from(size) * time / begun;
        *rates.get_mut(packets.round() as usize).unwrap_or(&mut large) += flows * begun * scale;
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
