//! Answers by task, of a switch alone or of a network: for which epochs, with which gaps, and
//! whether they are complete.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{EpochAttention, HeavyFlow};
use crate::api::flows::{CountedFlow, NamedFlow, SizeClass};
use crate::program::answers::{
    Adaptation, Changes, Described, EpochAnswers, FlowName, Loss, Reason, Reasons, SwitchGap,
};
use crate::telemetry::Selected;

/// The epochs that an answer covers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Covered {
    pub first_epoch: Option<u64>,
    pub last_epoch: Option<u64>,
    /// Length of an epoch.
    pub epoch_ns: u64,
    /// Time that the epochs span.
    pub seconds: f64,
    /// Epochs among them that were not analysed, because the controller stood still.
    pub missing_epochs: u64,
    /// How long ago the last of them ended.
    pub age_seconds: Option<f64>,
    /// They are older than what was asked for.
    pub outdated: bool,
    /// Gaps of the epochs.
    pub gaps: Vec<Gap>,
    /// The switches whose records it is made of; a switch with gaps alone is not among them.
    pub switches: Vec<String>,
    /// Whether the answer has all flows of these epochs with exact counts, and if not, why.
    pub complete: bool,
    pub incomplete: Reasons,
}

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub epoch: u64,
    pub switch: String,
    pub gap: String,
}

impl Covered {
    /// `lack` says why an epoch's answers are not complete.
    pub(super) fn new(selected: &Selected, lack: impl Fn(&EpochAnswers) -> Reasons) -> Self {
        let epochs = &selected.epochs;
        let Some(last) = epochs.last().map(|epoch| epoch.epoch) else {
            return Self { incomplete: [Reason::NotAnalysed].into_iter().collect(), ..Self::default() };
        };
        let spanned = last.saturating_sub(selected.first).saturating_add(1);
        let missing_epochs = selected.missing();
        let mut incomplete = Reasons::default();
        epochs.iter().for_each(|epoch| incomplete.extend(&lack(epoch)));
        incomplete.add_if(missing_epochs > 0, Reason::NotAnalysed);
        incomplete.add_if(selected.outdated, Reason::Outdated);
        let switches: BTreeSet<_> =
            epochs.iter().flat_map(|epoch| &epoch.switches).map(|switch| &*switch.switch).collect();
        Self {
            first_epoch: Some(selected.first),
            last_epoch: Some(last),
            epoch_ns: selected.length,
            seconds: spanned as f64 * selected.length as f64 / 1e9,
            missing_epochs,
            age_seconds: selected.age.map(|age| age as f64 / 1e9),
            outdated: selected.outdated,
            gaps: epochs.iter().flat_map(|epoch| gaps(epoch.epoch, &epoch.gaps)).collect(),
            switches: switches.into_iter().map(String::from).collect(),
            complete: incomplete.is_empty(),
            incomplete,
        }
    }
}

fn gaps(epoch: u64, gaps: &[SwitchGap]) -> impl Iterator<Item = Gap> {
    gaps.iter().map(move |gap| Gap { epoch, switch: gap.switch.to_string(), gap: gap.gap.to_string() })
}

/// `weir show losses`: the flows that lost packets, added up over the epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    #[serde(flatten)]
    pub covered: Covered,
    /// Packets that entered and did not leave, whether their flows are known or not.
    pub lost_packets: u64,
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
    pub fn new(selected: &Selected, top: usize, threshold: u64) -> Self {
        let (mut lost, mut gained) = (Sums::default(), Sums::default());
        let lack = |epoch: &EpochAnswers| {
            let mut lack = epoch.losses_lack.clone();
            lack.add_if(not_kept(epoch) > 0, Reason::NotKept);
            lack
        };
        let mut all = Self { covered: Covered::new(selected, lack), ..Self::default() };
        let (mut most_victims, mut most_gained, mut not_named) = (0, 0, 0);
        for epoch in &selected.epochs {
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
        Self { losses, gains, ..all }
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
    #[serde(flatten)]
    pub covered: Covered,
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
    pub fn new(selected: Selected, top: usize, threshold: u64) -> Self {
        let selected = selected.newest();
        let Some(epoch) = selected.epochs.last() else { return Self::default() };
        let answers = &epoch.network;
        let named_from_packets = answers.named_from.unwrap_or_default();
        let cut = answers.found.saturating_sub(answers.heavy.len());
        let heavy = Truncated::new(&answers.heavy, cut, top, |flow| flow.count >= threshold);
        let covered = Covered::new(&selected, |epoch| {
            let mut lack = epoch.network.lack.clone();
            lack.add_if(!heavy.whole, Reason::NotKept);
            lack.add_if(threshold < named_from_packets, Reason::BelowThreshold);
            lack
        });
        let classes = answers.distribution.iter().flatten();
        Self {
            covered,
            flows: answers.flows,
            entropy_bits: answers.entropy_bits,
            named_from_packets,
            heavy_candidates: answers.found as u64,
            heavy: heavy.named.iter().map(|flow| HeavyFlow::new(flow, answers.unit)).collect(),
            omitted_flows: heavy.omitted as u64,
            distribution: classes.map(|&(packets, flows)| SizeClass { packets, flows }).collect(),
        }
    }
}

/// `weir show changes`: the flows that changed most from the epoch before the newest to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeavyChanges {
    #[serde(flatten)]
    pub covered: Covered,
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
    pub fn new(selected: Selected, top: usize, threshold: u64) -> Self {
        let mut selected = selected.newest();
        let Some(epoch) = selected.epochs.last().cloned() else { return Self::default() };
        selected.first = selected.first.saturating_sub(1);
        let Some(Changes { flows, omitted, named_from, lack, gaps: before }) = &epoch.changes else {
            let covered = Covered::new(&selected, |_| [Reason::NotAnalysed].into_iter().collect());
            return Self { covered, ..Self::default() };
        };
        let changed = Truncated::new(flows, *omitted, top, |change| change.before.abs_diff(change.after) >= threshold);
        let mut incomplete = lack.clone();
        incomplete.add_if(!changed.whole, Reason::NotKept);
        incomplete.add_if(threshold < *named_from, Reason::BelowThreshold);
        incomplete.add_if(selected.outdated, Reason::Outdated);
        let covered = Covered::new(&selected, |_| Reasons::default());
        let gaps = gaps(selected.first, before).chain(covered.gaps).collect();
        let complete = incomplete.is_empty();
        let covered = Covered { missing_epochs: 0, gaps, complete, incomplete, ..covered };
        let changes = changed.named.iter().map(|change| ChangedFlow {
            name: change.flow.into(),
            before_packets: change.before,
            after_packets: change.after,
        });
        Self {
            covered,
            named_from_packets: *named_from,
            changes: changes.collect(),
            omitted_flows: changed.omitted as u64,
        }
    }
}

/// `weir show cardinality` and `weir show entropy`: a number for each epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    #[serde(flatten)]
    pub covered: Covered,
    pub epochs: Vec<EpochNumbers>,
}

/// One epoch's numbers, of the network and of each switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochNumbers {
    pub epoch: u64,
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
    pub fn new(selected: &Selected) -> Self {
        let epoch = |epoch: &EpochAnswers| EpochNumbers {
            epoch: epoch.epoch,
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
            lack.add_if(epoch.gaps.iter().any(|gap| gap.gap.hides_flows()), Reason::Gap);
            lack
        };
        Self {
            covered: Covered::new(selected, lack),
            epochs: selected.epochs.iter().map(|answers| epoch(answers)).collect(),
        }
    }
}

/// `weir show attention`: what each epoch was measured with, and why that changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// Length of an epoch.
    pub epoch_ns: u64,
    pub epochs: Vec<EpochAttention>,
}

impl Attention {
    pub fn new(selected: &Selected) -> Self {
        let epoch = |epoch: &EpochAnswers| {
            let Adaptation { measured, facts, update, why } = epoch.adaptation.clone()?;
            let (update_epoch, update) =
                update.map_or((None, None), |(from, update)| (Some(from), Some(update.parameters)));
            let Described { state, mut parameters } = measured;
            parameters.extend(facts);
            Some(EpochAttention { epoch: epoch.epoch, state, update_epoch, update, why, parameters })
        };
        let epochs = selected.epochs.iter().filter_map(|answers| epoch(answers)).collect();
        Self { epoch_ns: selected.length, epochs }
    }
}
