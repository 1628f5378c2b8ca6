//! Answers by task, of a switch alone or of a network.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{Claim, Claimed, EpochAttention, HeavyFlow};
use crate::api::flows::{CountedFlow, NamedFlow, SizeClass};
use crate::json::Epoch;
use crate::program::answers::{Adaptation, Changes, Described, EpochAnswers, FlowName, Loss, Reason, Reasons};
use crate::telemetry::Selected;

/// `weir show losses`: the flows that lost packets, added up over the epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Packets that entered and did not leave, whether their flows are known or not.
    pub lost_packets: u64,
    /// Packets among these that left later than the horizon, so far.
    pub late_packets: u64,
    /// Packets that left and did not enter. They are never taken off those that were lost.
    pub gained_packets: u64,
    /// Epochs without a result.
    pub unknown_epochs: u64,
    /// Flows that lost packets; at least as many, when not all that were found in an epoch are
    /// kept.
    pub victims: u64,
    /// Flows that gained packets, with the same bound.
    pub gained_flows: u64,
    /// The flows that lost most.
    pub losses: Vec<CountedFlow>,
    /// The flows that gained most.
    pub gains: Vec<CountedFlow>,
    /// Losses that were found and are not named here.
    pub omitted_flows: u64,
    /// When packets were lost last, also before these epochs, as long as answers are kept.
    pub last_loss: Option<LastLoss>,
}

/// The newest epoch with lost packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastLoss {
    #[serde(flatten)]
    pub epoch: Epoch,
    /// Without those that left later than the horizon.
    pub lost_packets: u64,
}

/// Packets of each flow over several epochs, and whether they are exact.
#[derive(Default)]
struct Sums(FxHashMap<FlowName, (u64, bool)>);

impl Sums {
    fn add(&mut self, flow: FlowName, packets: u64, exact: bool) {
        if packets > 0 {
            let sum = self.0.entry(flow).or_insert((0, true));
            *sum = (sum.0 + packets, sum.1 && exact);
        }
    }

    /// The largest of at least `threshold` packets, and the number of those beyond `top`.
    fn largest(self, top: usize, threshold: u64) -> (Vec<CountedFlow>, usize) {
        let mut flows: Vec<_> = self.0.into_iter().filter(|(_, (packets, _))| *packets >= threshold).collect();
        flows.sort_unstable_by_key(|&(flow, (packets, _))| (std::cmp::Reverse(packets), flow));
        let omitted = flows.len().saturating_sub(top);
        let named = flows.into_iter().take(top);
        (named.map(|(flow, (packets, exact))| CountedFlow::new(flow, packets, exact)).collect(), omitted)
    }
}

impl Losses {
    pub fn new(selected: &Selected, top: usize, threshold: u64) -> Claimed<Self> {
        let (mut lost, mut gained) = (Sums::default(), Sums::default());
        let lack = |epoch: &EpochAnswers| {
            let mut lack = epoch.losses_lack.clone();
            lack.add_if(not_kept(epoch) > 0, Reason::NotKept);
            lack
        };
        let mut all = Self::default();
        let (mut most_victims, mut most_gained, mut not_named) = (0, 0, 0);
        for epoch in &selected.epochs {
            all.late_packets += epoch.finality.late_packets;
            let Some(losses) = &epoch.losses else {
                all.unknown_epochs += 1;
                continue;
            };
            all.lost_packets += losses.lost_packets;
            all.gained_packets += losses.gained_packets;
            most_victims = most_victims.max(losses.victims);
            most_gained = most_gained.max(losses.gainers);
            not_named += not_kept(epoch);
            let exact = epoch.losses_lack.leave_counts_exact();
            for Loss { flow, lost: of_lost, gained: of_gained, exact: whole } in &losses.flows {
                lost.add(*flow, *of_lost, exact && *whole);
                gained.add(*flow, *of_gained, exact && *whole);
            }
        }
        all.victims = lost.0.len().max(most_victims) as u64;
        all.gained_flows = gained.0.len().max(most_gained) as u64;
        let (losses, omitted) = lost.largest(top, threshold);
        let (gains, omitted_gains) = gained.largest(top, threshold);
        all.omitted_flows = (not_named + omitted + omitted_gains) as u64;
        all.last_loss = selected.last_loss.as_ref().map(|answers| LastLoss {
            epoch: Epoch::new(answers.epoch, selected.length),
            lost_packets: answers.truly_lost(),
        });
        Claim::new(selected, lack).with(Self { losses, gains, ..all })
    }
}

/// Flows of an epoch that were found to lose or gain packets, and are not kept.
fn not_kept(epoch: &EpochAnswers) -> usize {
    let Some(losses) = &epoch.losses else { return 0 };
    let kept = |of: fn(&Loss) -> u64| losses.flows.iter().filter(|loss| of(loss) > 0).count();
    losses.victims.saturating_sub(kept(|loss| loss.lost)) + losses.gainers.saturating_sub(kept(|loss| loss.gained))
}

/// The first `top` of a list that is sorted by size, and that may itself be truncated.
struct Truncated<T> {
    named: Vec<T>,
    /// Flows that are not named and may be above the threshold.
    omitted: usize,
    /// All that are as large as was asked for are kept.
    whole: bool,
}

impl<T: Clone> Truncated<T> {
    fn new(kept: &[T], cut: usize, top: usize, is_asked_for: impl Fn(&T) -> bool) -> Self {
        let asked = kept.iter().take_while(|flow| is_asked_for(flow)).count();
        // Flows that are not kept are not larger than the smallest kept one.
        let cut = if asked == kept.len() { cut } else { 0 };
        let named: Vec<_> = kept.iter().take(asked.min(top)).cloned().collect();
        Self { omitted: asked - named.len() + cut, named, whole: cut == 0 }
    }
}

/// `weir show flows`: the flows of the newest epoch and their sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSizes {
    /// Number of flows; null when there are too many to estimate.
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
    /// Smaller flows are counted, and cannot be named.
    pub named_from_packets: u64,
    /// Flows of at least as many packets that were found.
    pub heavy_candidates: u64,
    /// The largest of them.
    pub heavy: Vec<HeavyFlow>,
    /// Flows that are not named here and may be above the threshold.
    pub omitted_flows: u64,
    /// Flows by size.
    pub distribution: Vec<SizeClass>,
}

impl FlowSizes {
    /// Names at most `top` flows, of at least `threshold` packets.
    pub fn new(selected: Selected, top: usize, threshold: u64) -> Claimed<Self> {
        let selected = selected.newest();
        let Some(epoch) = selected.epochs.last() else {
            return Claim::new(&selected, not_analysed).with(Self::default());
        };
        let answers = &epoch.network;
        let named_from_packets = answers.named_from.unwrap_or_default();
        let cut = answers.found.saturating_sub(answers.heavy.len());
        let heavy = Truncated::new(&answers.heavy, cut, top, |flow| flow.count.number >= threshold);
        let claim = Claim::new(&selected, |epoch| {
            let mut lack = epoch.network.lack.clone();
            lack.add_if(!heavy.whole, Reason::NotKept);
            lack.add_if(heavy.named.iter().any(|flow| flow.count.at_least), Reason::Saturated);
            lack.add_if(threshold < named_from_packets, Reason::BelowThreshold);
            lack
        });
        let classes = answers.distribution.iter().flatten();
        claim.with(Self {
            flows: answers.flows,
            entropy_bits: answers.entropy_bits,
            named_from_packets,
            heavy_candidates: answers.found as u64,
            heavy: heavy.named.iter().map(|flow| HeavyFlow::new(flow, answers.unit)).collect(),
            omitted_flows: heavy.omitted as u64,
            distribution: classes.map(|&(packets, flows)| SizeClass { packets, flows }).collect(),
        })
    }
}

/// `weir show changes`: the flows that changed most from the epoch before the newest to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeavyChanges {
    /// Flows may have changed by less without being noticed.
    pub named_from_packets: u64,
    pub changes: Vec<ChangedFlow>,
    /// Flows that are not named here and may have changed by as much as was asked for.
    pub omitted_flows: u64,
}

/// A flow whose size changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangedFlow {
    #[serde(flatten)]
    pub name: NamedFlow,
    pub before_packets: u64,
    pub after_packets: u64,
}

impl HeavyChanges {
    /// Names at most `top` flows that changed by at least `threshold` packets.
    pub fn new(selected: Selected, top: usize, threshold: u64) -> Claimed<Self> {
        let selected = selected.newest();
        let Some(Changes { flows, omitted, named_from, lack, gaps: before }) =
            selected.epochs.last().and_then(|epoch| epoch.changes.as_ref())
        else {
            let selected = Selected { first: selected.first.saturating_sub(1), ..selected };
            return Claim::new(&selected, not_analysed).with(Self::default());
        };
        let changed = Truncated::new(flows, *omitted, top, |change| change.before.abs_diff(change.after) >= threshold);
        let claim = Claim::new(&selected, |_| {
            let mut lack = lack.clone();
            lack.add_if(!changed.whole, Reason::NotKept);
            lack.add_if(threshold < *named_from, Reason::BelowThreshold);
            lack
        });
        let changes = changed.named.iter().map(|change| ChangedFlow {
            name: change.flow.into(),
            before_packets: change.before,
            after_packets: change.after,
        });
        claim.with_epoch_before(before).with(Self {
            named_from_packets: *named_from,
            changes: changes.collect(),
            omitted_flows: changed.omitted as u64,
        })
    }
}

/// Why an epoch that has no answer to a task is not complete.
fn not_analysed(_: &EpochAnswers) -> Reasons {
    [Reason::NotAnalysed].into_iter().collect()
}

/// `weir show cardinality` and `weir show entropy`: a number for each epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    pub epochs: Vec<EpochNumbers>,
}

/// One epoch's numbers, of the network and of each switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochNumbers {
    #[serde(flatten)]
    pub epoch: Epoch,
    /// Number of flows, and the entropy of their sizes; null when there are too many to estimate.
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
    pub switches: Vec<SwitchNumbers>,
}

/// One switch's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchNumbers {
    pub switch: String,
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
}

impl Numbers {
    pub fn new(selected: &Selected) -> Claimed<Self> {
        let epoch = |epoch: &EpochAnswers| EpochNumbers {
            epoch: Epoch::new(epoch.epoch, selected.length),
            flows: epoch.network.flows,
            entropy_bits: epoch.network.entropy_bits,
            switches: epoch
                .switches
                .iter()
                .map(|switch| SwitchNumbers {
                    switch: switch.switch.to_string(),
                    flows: switch.answers.flows,
                    entropy_bits: switch.answers.entropy_bits,
                })
                .collect(),
        };
        let lack = |epoch: &EpochAnswers| {
            let mut lack = Reasons::default();
            lack.add_if(epoch.network.flows.is_none(), Reason::TooMany);
            lack
        };
        let epochs = selected.epochs.iter().map(|answers| epoch(answers)).collect();
        Claim::new(selected, lack).with(Self { epochs })
    }
}

/// `weir show attention`: what each epoch was measured with, and why that changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    pub epochs: Vec<EpochAttention>,
}

impl Attention {
    pub fn new(selected: &Selected) -> Claimed<Self> {
        let epoch = |epoch: &EpochAnswers| {
            let Adaptation { measured, facts, update, why } = epoch.adaptation.clone()?;
            let (update_epoch, update) =
                update.map_or((None, None), |(from, update)| (Some(from), Some(update.parameters)));
            let of = |epoch| Epoch::new(epoch, selected.length);
            let (epoch, update_start) = (of(epoch.epoch), update_epoch.and_then(|from| of(from).start));
            let Described { state, mut parameters } = measured;
            parameters.extend(facts);
            Some(EpochAttention { epoch, state, update_epoch, update_start, update, why, parameters })
        };
        let epochs = selected.epochs.iter().filter_map(|answers| epoch(answers)).collect();
        let lack = |epoch: &EpochAnswers| {
            let mut lack = Reasons::default();
            lack.add_if(epoch.adaptation.is_none(), Reason::NotAnalysed);
            lack
        };
        Claim::new(selected, lack).with(Self { epochs })
    }
}
