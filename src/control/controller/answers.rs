//! What is kept of an epoch of the network.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Settings;
use crate::program::answers::{Gap, SwitchGap};
use crate::program::answers::{Reason, Reasons};
use crate::program::chamelemon::attention::State;
use crate::program::chamelemon::collector::{Change, Losses};
use crate::program::chamelemon::network::NetworkEpoch;
use crate::program::chamelemon::{Answers, Runtime};
use crate::program::{AnyParameters, Decision};

/// Heavy flows that are kept of each switch, beside those of the network.
const SWITCH_FLOWS: usize = 64;
/// Victims, and flows that only gained packets, that are kept of an epoch: as many as can be decoded with the default encoders.
const VICTIMS: usize = 8192;
/// Flows and sizes that are kept of all epochs together, of 48 bytes at the most: the oldest epochs go first.
const MOST_KEPT: usize = 2_000_000;

/// One switch's answers.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchAnswers {
    pub switch: Arc<str>,
    pub answers: Answers,
}

/// One epoch's answers, bounded in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochAnswers {
    pub epoch: u64,
    /// What it was measured with, and for which state.
    pub runtime: Runtime,
    pub state: State,
    /// What was ordered from it, and why; `None` when parameters do not change.
    pub order: Option<(u64, Runtime)>,
    pub why: String,
    /// What is missing, and where.
    pub gaps: Vec<SwitchGap>,
    /// Over the switches whose flows are known; one switch's answers are the network's.
    pub network: Answers,
    pub switches: Vec<SwitchAnswers>,
    /// The flows that lost most; `None` when a gap hides them.
    pub losses: Option<Losses>,
    /// Number of flows that lost packets, and of flows that gained some, as found.
    pub victims: usize,
    pub gainers: usize,
    /// Why they are not all, or not exact.
    pub losses_lack: Reasons,
    /// Against the epoch before; `None` when that is not the last one that closed.
    pub changes: Option<Changes>,
}

/// What changed from one epoch to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The flows that changed most, and the number of those that are not kept.
    pub flows: Vec<Change>,
    pub omitted: usize,
    /// The larger T_h of both epochs: a flow that changed by as much was a candidate in one of them.
    pub threshold: u32,
    /// Why not all candidates of both epochs are known.
    pub lack: Reasons,
    /// What is missing of the flows of the earlier epoch.
    pub gaps: Vec<SwitchGap>,
}

impl Changes {
    fn new(before: &NetworkEpoch, network: &NetworkEpoch, most: usize) -> Self {
        let mut flows = NetworkEpoch::heavy_changes(before, network, 0);
        let omitted = flows.len().saturating_sub(most);
        flows.truncate(most);
        flows.shrink_to_fit();
        Self {
            flows,
            omitted,
            threshold: before.runtime.hh_threshold.max(network.runtime.hh_threshold),
            lack: NetworkEpoch::changes_lack(before, network),
            gaps: before.gaps.iter().filter(|gap| gap.gap.hides_flows()).cloned().collect(),
        }
    }
}

impl EpochAnswers {
    pub(super) fn new(
        network: &NetworkEpoch,
        before: Option<&NetworkEpoch>,
        decision: Option<(u64, Decision<AnyParameters>)>,
        settings: &Settings,
    ) -> Self {
        let order =
            decision.as_ref().and_then(|(epoch, decision)| Some((*epoch, *decision.parameters.get::<Runtime>()?)));
        let why = decision.map_or_else(String::new, |(_, decision)| decision.why);
        let mut losses = network.losses.clone();
        let number = |count: fn(&Losses) -> usize| network.losses.as_ref().map_or(0, count);
        let (victims, gainers) = (number(Losses::victims), number(Losses::gainers));
        if let Some(losses) = &mut losses {
            losses.truncate(VICTIMS);
        }
        let before = before.filter(|before| before.epoch + 1 == network.epoch);
        let changes = before.map(|before| Changes::new(before, network, settings.flows));
        let kept = settings.flows.min(SWITCH_FLOWS);
        let switches = network
            .edges
            .iter()
            .map(|edge| SwitchAnswers { switch: edge.switch.clone(), answers: Answers::new(&edge.analysis, kept) });
        Self {
            epoch: network.epoch,
            runtime: network.runtime,
            state: State::of(&network.runtime),
            order,
            why,
            gaps: network.gaps.clone(),
            network: Answers::of_network(network, settings.flows),
            switches: switches.collect(),
            losses,
            victims,
            gainers,
            losses_lack: network.losses_lack(),
            changes,
        }
    }

    /// Whether its losses are all, and exact.
    pub fn has_all_losses(&self) -> bool {
        self.losses_lack.is_empty()
    }

    /// Flows and sizes that it keeps.
    fn weight(&self) -> usize {
        let answers = |answers: &Answers| {
            answers.heavy.len() + answers.distribution.as_ref().map_or(0, |distribution| distribution.0.len())
        };
        let switches = self.switches.iter().map(|switch| answers(&switch.answers)).sum::<usize>();
        let losses = self.losses.as_ref().map_or(0, |losses| losses.flows.len());
        answers(&self.network) + switches + losses + self.changes.as_ref().map_or(0, |changes| changes.flows.len())
    }
}

fn spoil(answers: &mut Arc<EpochAnswers>, switch: &Arc<str>, gap: Gap) {
    let answers = Arc::make_mut(answers);
    SwitchGap::add(&mut answers.gaps, switch, gap);
    answers.losses_lack.add(Reason::Gap);
    answers.network.flows_lack.add_if(gap.hides_flows(), Reason::Gap);
}

/// The answers of past epochs, newest last.
#[derive(Debug, Default)]
pub(super) struct Kept {
    epochs: VecDeque<Arc<EpochAnswers>>,
    weight: usize,
}

impl Kept {
    /// Keeps at most `most` epochs, and one at the least.
    pub fn push(&mut self, answers: EpochAnswers, most: usize) {
        self.weight += answers.weight();
        self.epochs.push_back(Arc::new(answers));
        while self.epochs.len() > 1 && (self.epochs.len() > most || self.weight > MOST_KEPT) {
            self.weight -= self.epochs.pop_front().map_or(0, |oldest| oldest.weight());
        }
    }

    fn place(&self, epoch: u64) -> Option<usize> {
        self.epochs.binary_search_by_key(&epoch, |answers| answers.epoch).ok()
    }

    /// What is missing of this epoch, if its answers are kept.
    pub fn gaps(&self, epoch: u64) -> Option<&Vec<SwitchGap>> {
        Some(&self.epochs.get(self.place(epoch)?)?.gaps)
    }

    /// Something is missing of this epoch, as is known only now.
    pub fn spoil(&mut self, epoch: u64, switch: &Arc<str>, gap: Gap) {
        if let Some(answers) = self.place(epoch).and_then(|place| self.epochs.get_mut(place)) {
            spoil(answers, switch, gap);
        }
    }

    /// Something may be missing of any epoch. Answers are copied for those who read them now, so each is told once.
    pub fn spoil_all(&mut self, switch: &Arc<str>, gap: Gap) {
        let same = |other: &SwitchGap| {
            other.switch == *switch && std::mem::discriminant(&other.gap) == std::mem::discriminant(&gap)
        };
        let untold = self.epochs.iter_mut().filter(|answers| !answers.gaps.iter().any(same));
        untold.for_each(|answers| spoil(answers, switch, gap));
    }

    /// Forgets this epoch and all after it.
    pub fn forget_from(&mut self, epoch: u64) {
        while self.epochs.back().is_some_and(|newest| newest.epoch >= epoch) {
            self.weight -= self.epochs.pop_back().map_or(0, |newest| newest.weight());
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<EpochAnswers>> {
        self.epochs.iter()
    }
}
