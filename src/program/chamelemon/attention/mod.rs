//! Shifting measurement attention (§4.3): from what an epoch showed to the parameters of a later
//! one.
//!
//! In the healthy state every flow that loses packets is found: there are no light losses, and
//! heavy losses have as much memory as they need. When even all of the downstream encoder is too
//! little for them the network is ill: the partition is fixed, T_l picks the heavy losses, and
//! light ones are sampled. T_h fills what is left for heavy hitters in either state. Targets are
//! load factors ([`sizing`]).
//!
//! *Deviations.* The paper's controller stops where a decoding fails, and goes on when the next
//! epoch shows the result. Parameter updates take effect two epochs after the one that they were
//! made from, so that three such steps would take six. What a failed decoding leaves unknown is
//! therefore foreseen from the last epoch in which all victims were known: victims are as many as
//! would lose the packets that were lost (their sum is exact, decoded or not) when each loses as
//! many as then, at the least the same share of flows, and have the sizes that they had, or those
//! that the counters now say of all flows, where these are larger. Nothing foreseen is ever
//! presented as an answer. Beyond that:
//! - The number of candidates at another threshold counts the flows that collisions lift over it
//!   ([`super::decoder::Candidates`]); the paper takes the distribution alone.
//! - Victims are the heavy ones and the light ones divided by the sample rate, as in the authors'
//!   code; the text samples the heavy ones, too.
//! - Where §4.3.2 turns T_l "up" because the load is too low, it is turned down.
//! - When T_l would pass T_h, T_h goes with it.
//! - Going ill sets T_l where the remembered sizes of victims load the memory of heavy losses to
//!   [`LOW`]; §4.3.1 sets it to T_h, which finds few of them until the ill state's own steps take
//!   effect. The load is the lower one because it is foreseen, as after every failed decoding of
//!   heavy losses. With nothing remembered T_l is T_h.
//! - Parameter updates from epochs of the two states can meet. The healthy one stands up to
//!   [`sizing::LIMIT`].
//! - Memory for heavy losses grows at [`sizing::FULL`] although decoding succeeded, and the sample
//!   rate moves at [`sizing::FULL_SAMPLED`]: two epochs pass until it takes effect, and waiting for
//!   a failure loses their answers.
//! - After a failed decoding that memory grows by an eighth at the least, however few the victims:
//!   two flows that share all their buckets in one length do not in another.
//! - When an epoch cannot tell whether more flows lose packets or each loses more, all memory is
//!   tried for heavy losses, and the ill state in the epoch after that: either shows which is
//!   right.
//! - Numbers that vary from epoch to epoch have a reserve of what they were seen to vary by
//!   (`variation.rs`): memory for heavy losses and thresholds are for the peak, and the ill state
//!   ends when the peak would fit, too. It begins when the peak would load all memory beyond
//!   [`sizing::LIMIT`].
//! - A decoding that fails although all memory is loaded to less than [`FULL`] failed by chance:
//!   the state stays.
//! - An epoch that fails like the one before, whose update has not taken effect yet, asks for 1.5
//!   times as many flows.
//! - A T_h that failed is not tried again while the traffic stays, and one whose candidates were
//!   counted of late is judged by these.
//! - T_l is turned down only as far as the most victims that can then be heavy have room.
//! - T_h doubles when a switch whose candidates were not decoded cannot tell their sizes either,
//!   whatever the others say; nor is it turned down while a switch cannot tell. The paper always
//!   has a distribution.
//! - Thresholds are turned down to [`AIM`] less [`MARGIN`], stay up to [`FULL`], and end where the
//!   classifier's counters do.

mod plan;
pub mod seen;
pub mod sizing;
#[cfg(test)]
mod tests;
mod variation;

use self::plan::{Known, MORE};
use self::seen::Observation;
use self::sizing::{AIM, FULL, LOW, MARGIN, Sizing};
use self::variation::Variation;
use super::network::NetworkEpoch;
use super::{EncoderParameters, Shape};
use crate::program;
use crate::text::named;
use crate::trace::SplitMix64;

named! {
    /// Which flows the losses are measured of.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum State {
        /// There is memory to find every flow that loses packets.
        Healthy = "healthy",
        /// Only heavy losses are all found, and light ones by sample.
        Ill = "ill",
    }
}

impl State {
    /// The state that parameters are for: light losses have memory in the ill state only.
    pub fn of(parameters: &EncoderParameters) -> Self {
        if parameters.partition.ll > 0 { Self::Ill } else { Self::Healthy }
    }
}

/// What is to be measured with, and why.
pub type Decision = program::Decision<EncoderParameters>;

/// Epochs for which a threshold that was too low is not tried again, 30 s of 50 ms each.
const REMEMBERED: u32 = 600;

/// Epochs whose candidates are remembered: updates of two are under way.
const COUNTED: usize = 4;
/// Flows that differ by a larger share are other traffic.
const ALIKE: f64 = 0.05;

/// What a T_h made of the traffic.
#[derive(Clone, Copy, Debug)]
struct Made {
    threshold: u32,
    /// Of the switch with most of them, and all flows of the network.
    candidates: f64,
    flows: f64,
    /// Epochs since.
    age: u32,
}

/// Decides, epoch by epoch.
#[derive(Clone, Debug)]
pub struct Attention {
    sizing: Sizing,
    /// The highest threshold that has an effect.
    max: u32,
    salt: u64,
    known: Option<Known>,
    /// Of the victims, and of all flows.
    victims: Variation,
    flows: Variation,
    /// The highest T_h that was too low for the traffic of late.
    too_low: Option<Made>,
    /// What was counted in the last epochs.
    counted: Vec<Made>,
    /// The state that was chosen from the epoch before though it could not tell how many victims
    /// there were.
    blind: Option<State>,
}

impl Attention {
    /// Thresholds above `max` have no effect, as the [classifier](super::TowerShape::max) cannot
    /// say more. `salt` makes the sampling of a deployment its own.
    pub fn new(shape: Shape, max: u32, salt: u64) -> Self {
        Self {
            sizing: Sizing::new(shape),
            max: max.max(1),
            salt,
            known: None,
            victims: Variation::default(),
            flows: Variation::default(),
            too_low: None,
            counted: Vec::new(),
            blind: None,
        }
    }

    /// The parameters for the epoch number `for_epoch`, from what an epoch showed; `latest` are
    /// those of the last update.
    pub fn shift(&mut self, network: &NetworkEpoch, latest: &EncoderParameters, for_epoch: u64) -> Decision {
        let parameters = network.parameters.within(self.max);
        self.decide(&Observation { parameters, ..Observation::new(network) }, latest, for_epoch)
    }

    /// The same from numbers.
    pub fn decide(&mut self, seen: &Observation<'_>, latest: &EncoderParameters, for_epoch: u64) -> Decision {
        let mut why = Vec::new();
        if let Some(flows) = seen.flows() {
            self.flows.push(flows);
        }
        if let Some(victims) = seen.victims() {
            self.victims.push(victims);
        }
        let plan = self.plan(seen, latest, &mut why);
        self.remember(seen);
        let hh_threshold = self.hh_threshold(seen, plan.partition.hh, latest, &mut why);
        let hl_threshold = plan.hl_threshold.unwrap_or(hh_threshold);
        let parameters = EncoderParameters {
            partition: plan.partition,
            hh_threshold: hh_threshold.max(hl_threshold),
            hl_threshold,
            sample: plan.sample,
            sample_seed: self.sample_seed(for_epoch),
        };
        if let Some(known) = Known::of(seen) {
            self.known = Some(known);
        }
        Decision { parameters: parameters.within(self.max), why: why.join("; ") }
    }

    /// Parameters that stay as they are, but for the sampling, which is new in every epoch.
    pub fn keep(&self, latest: &EncoderParameters, for_epoch: u64, why: &str) -> Decision {
        let parameters = EncoderParameters { sample_seed: self.sample_seed(for_epoch), ..*latest };
        Decision { parameters, why: why.into() }
    }

    fn sample_seed(&self, epoch: u64) -> u16 {
        SplitMix64::new(self.salt ^ epoch).next_u64() as u16
    }

    /// Remembers what T_h made, and one that was too low.
    fn remember(&mut self, seen: &Observation<'_>) {
        self.too_low.iter_mut().chain(&mut self.counted).for_each(|made| made.age += 1);
        self.too_low.take_if(|made| made.age > REMEMBERED);
        self.counted.retain(|made| made.age < COUNTED as u32);
        let (Some(flows), threshold) = (seen.flows(), seen.parameters.hh_threshold.clamp(1, self.max)) else { return };
        let Some(candidates) = seen.counted().or_else(|| seen.max(threshold, 1.0)) else { return };
        let (made, hh) = (Made { threshold, candidates, flows, age: 0 }, seen.parameters.partition.hh);
        if seen.decoded() {
            self.counted.push(made);
        } else if self.sizing.load(candidates, hh) > FULL && self.too_low(threshold, flows, hh).is_none() {
            self.too_low = Some(made);
        }
    }

    /// Candidates that were counted at a threshold, in this epoch or of late with such traffic.
    fn counted(&self, threshold: u32, seen: &Observation<'_>) -> Option<f64> {
        if let Some(candidates) = seen.counted().filter(|_| threshold == seen.parameters.hh_threshold) {
            return Some(candidates);
        }
        let flows = seen.flows()?;
        let alike = |made: &&Made| made.threshold == threshold && (made.flows / flows - 1.0).abs() < ALIKE;
        self.counted.iter().rev().find(alike).map(|made| made.candidates)
    }

    /// A threshold, if this one is not above it, that was too low for this number of flows and buckets.
    fn too_low(&self, threshold: u32, flows: f64, hh: u32) -> Option<u32> {
        let known = self.too_low.filter(|known| threshold <= known.threshold)?;
        (self.sizing.load(known.candidates * flows / known.flows, hh) > FULL).then_some(known.threshold)
    }

    /// T_h, so that the switch with most candidates fills `hh` buckets an array to [`AIM`] (§4.3.1,
    /// steps 1 and 3).
    fn hh_threshold(&self, seen: &Observation<'_>, hh: u32, latest: &EncoderParameters, why: &mut Vec<String>) -> u32 {
        let threshold = |parameters: &EncoderParameters| parameters.hh_threshold.clamp(1, self.max);
        let (now, measured) = (threshold(latest), threshold(&seen.parameters));
        let failed = !seen.decoded();
        if seen.edges.iter().any(|edge| !edge.complete && !edge.tells(measured)) {
            // That switch may have the most candidates: without sizes, twice as much is tried.
            let next = now.max(measured.saturating_mul(2).min(self.max));
            if next != now {
                why.push(format!("T_h from {now} to {next}: a switch has more candidates than can be told"));
            }
            return next;
        }
        // Epochs of more flows are to be decoded, too.
        let reserve = seen.flows().map_or(1.0, |flows| self.flows.reserve(flows));
        let is_right = |load: f64, peak: f64| (LOW..=FULL).contains(&peak) || (load < LOW && now == 1);
        // Most epochs: what was counted need not be modelled.
        let counted = |threshold| {
            let candidates = self.counted(threshold, seen).filter(|_| reserve == 1.0)?;
            Some(self.sizing.load(candidates, hh))
        };
        let was_right = |threshold| counted(threshold).is_some_and(|load| is_right(load, load));
        if was_right(now) {
            return now;
        }
        if !failed && now > measured && was_right(measured) {
            why.push(format!("T_h from {now} to {measured}: candidates were right for {hh} buckets"));
            return measured;
        }
        let (Some(expected), Some(peak)) = (seen.max(now, 1.0), seen.max(now, reserve)) else {
            return now;
        };
        let peak = self.sizing.load(peak, hh);
        let too_low = |threshold| seen.flows().and_then(|flows| self.too_low(threshold, flows, hh));
        let above = too_low(measured).unwrap_or(measured);
        let min = if failed { above.saturating_add(1).min(self.max) } else { 1 };
        let load = self.sizing.load(expected, hh);
        if now >= min && is_right(load, peak) {
            if failed && now > measured {
                // An update was made from such an epoch before: the next one is on the safe side of
                // it.
                let room = self.sizing.flows(AIM / MORE, hh);
                let fits = |threshold| seen.max(threshold, reserve).is_none_or(|flows| flows <= room);
                return smallest(now, fits).min(self.max);
            }
            return now;
        }
        let lower = peak < LOW && now >= min;
        if lower && !seen.edges.iter().all(|edge| edge.tells(measured)) {
            return now;
        }
        let room = self.sizing.flows(if lower { AIM - MARGIN } else { AIM }, hh);
        let found =
            smallest(min, |threshold| seen.max(threshold, reserve).is_none_or(|flows| flows <= room)).min(self.max);
        if lower && too_low(found).is_some() {
            return now;
        }
        let next = if lower { found.min(now) } else { found };
        if next != now {
            let candidates = if failed { "not all candidates were decoded" } else { "candidates" };
            let load = load * 100.0;
            why.push(format!(
                "T_h from {now} to {next}: {candidates}, {expected:.0} would fill {load:.0} % of {hh} buckets"
            ));
        }
        next
    }
}

/// The smallest number from `min` on for which it holds, as it does for all above.
fn smallest(min: u32, holds: impl Fn(u32) -> bool) -> u32 {
    const MOST: u32 = 1 << 31;
    if min >= MOST || holds(min) {
        return min.min(MOST);
    }
    let (mut below, mut step) = (min, 1);
    let mut above = loop {
        let next = min.saturating_add(step).min(MOST);
        if next == MOST || holds(next) {
            break next;
        }
        (below, step) = (next, step * 2);
    };
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if holds(middle) { above = middle } else { below = middle }
    }
    above
}
