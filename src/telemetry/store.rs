//! The answer store: the answers of one program about past epochs, bounded in memory. A controller
//! writes it, and clients read it without waiting for the controller.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::lock::Hold;
use crate::program::answers::{EpochAnswers, Gap, SwitchGap};
use crate::telemetry::epoch::Nanos;

/// A handle of a store.
#[derive(Clone, Debug, Default)]
pub struct AnswerStore(Arc<Mutex<Stored>>);

#[derive(Debug, Default)]
struct Stored {
    /// In the order of their last epochs. An epoch has several when its record came in parts.
    epochs: VecDeque<Arc<EpochAnswers>>,
    /// Most of them, of which the newest always stays.
    max_epochs: usize,
    max_weight: usize,
    /// Flows and sizes in all of them.
    weight: usize,
    length: Nanos,
    passed_over: u64,
    forgotten: u64,
}

/// Some answers, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    pub epochs: Vec<Arc<EpochAnswers>>,
    /// The first epoch that was asked for and has been, whether its answers are there or not.
    pub first: u64,
    /// Length of an epoch.
    pub length: Nanos,
    /// How long ago the newest of them ended, when that is known.
    pub age: Option<Nanos>,
    /// They are older than what was asked for.
    pub outdated: bool,
}

impl Selected {
    /// The newest of them alone.
    #[must_use]
    pub fn newest(self) -> Self {
        let Self { mut epochs, .. } = self;
        epochs.drain(..epochs.len().saturating_sub(1));
        let first = epochs.first().map_or(0, |answers| answers.first_epoch);
        Self { epochs, first, ..self }
    }

    /// As they are at `now`, for those who asked for the last `seconds`. An epoch's answers are
    /// there soon after its end; older ones than that and than what was asked for tell of something
    /// else.
    #[must_use]
    pub fn as_of(self, now: Nanos, seconds: f64) -> Self {
        let Some(newest) = self.epochs.last() else { return self };
        let age = now.saturating_sub((newest.epoch + 1).saturating_mul(self.length));
        let outdated = age as f64 / 1e9 > seconds.max(2.0 * self.length as f64 / 1e9).max(1.0);
        Self { age: Some(age), outdated, ..self }
    }

    /// Number of epochs from the first to the newest of which there is no answer.
    pub fn missing(&self) -> u64 {
        let (mut from, mut missing) = (self.epochs.last().map_or(self.first, |newest| newest.first_epoch), 0);
        for answers in self.epochs.iter().rev() {
            missing += from.saturating_sub(answers.epoch.saturating_add(1));
            from = from.min(answers.first_epoch);
        }
        missing + from.saturating_sub(self.first)
    }
}

impl Stored {
    /// Where the answers of this epoch are.
    fn range(&self, epoch: u64) -> Range<usize> {
        let before = self.epochs.partition_point(|kept| kept.epoch < epoch);
        before..self.epochs.partition_point(|kept| kept.epoch <= epoch)
    }

    fn trim(&mut self) {
        while self.epochs.len() > 1 && (self.epochs.len() > self.max_epochs || self.weight > self.max_weight) {
            self.weight -= self.epochs.pop_front().map_or(0, |oldest| oldest.weight());
        }
    }

    fn forget_from(&mut self, epoch: u64) {
        let kept = self.epochs.partition_point(|kept| kept.epoch < epoch);
        self.forgotten += (self.epochs.len() - kept) as u64;
        self.weight -= self.epochs.drain(kept..).map(|answers| answers.weight()).sum::<usize>();
    }

    fn select(&self, epochs: Range<usize>, first: u64) -> Selected {
        let epochs: Vec<_> = self.epochs.range(epochs).cloned().collect();
        let first = epochs.iter().map(|answers| answers.first_epoch).fold(first, u64::min);
        Selected { epochs, first, length: self.length, ..Selected::default() }
    }
}

impl AnswerStore {
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.0.hold()
    }

    /// Keeps at most so many answers, and flows and sizes in all of them. The oldest go first.
    pub(crate) fn new(epochs: usize, flows: usize) -> Self {
        let store = Self::default();
        store.resize(epochs, flows);
        store
    }

    pub(crate) fn resize(&self, epochs: usize, flows: usize) {
        let mut stored = self.lock();
        (stored.max_epochs, stored.max_weight) = (epochs, flows);
        stored.trim();
    }

    /// A store with the answers of one epoch.
    #[cfg(test)]
    pub(crate) fn of(length: Nanos, answers: EpochAnswers) -> Self {
        let store = Self::default();
        store.set_length(length);
        store.push(answers);
        store
    }

    /// Epochs are of this length from now on.
    pub(crate) fn set_length(&self, length: Nanos) {
        self.lock().length = length;
    }

    /// Adds the answers of an epoch, however late. They replace answers without any record.
    pub(crate) fn push(&self, answers: EpochAnswers) {
        let mut stored = self.lock();
        let Range { start, mut end } = stored.range(answers.epoch);
        if end > start && stored.epochs[start].switches.is_empty() {
            stored.weight -= stored.epochs.remove(start).map_or(0, |missing| missing.weight());
            end -= 1;
        }
        stored.weight += answers.weight();
        stored.epochs.insert(end, Arc::new(answers));
        stored.trim();
    }

    pub(crate) fn get(&self, epoch: u64) -> Option<Arc<EpochAnswers>> {
        let stored = self.lock();
        stored.epochs.range(stored.range(epoch)).next_back().cloned()
    }

    /// Something is missing of this epoch, as is known only now.
    pub(crate) fn spoil(&self, epoch: u64, switch: &Arc<str>, gap: Gap) {
        let mut stored = self.lock();
        let range = stored.range(epoch);
        stored.epochs.range_mut(range).for_each(|answers| Arc::make_mut(answers).spoil(switch, gap));
        let next = stored.range(epoch.saturating_add(1));
        stored.epochs.range_mut(next).for_each(|answers| Arc::make_mut(answers).spoil_before(switch, gap));
    }

    /// Something may be missing of any epoch. Answers are copied for those who read them now, so
    /// each is told once.
    pub(crate) fn spoil_all(&self, switch: &Arc<str>, gap: Gap) {
        let same = |other: &SwitchGap| {
            other.switch == *switch && std::mem::discriminant(&other.gap) == std::mem::discriminant(&gap)
        };
        let mut stored = self.lock();
        let untold = stored.epochs.iter_mut().filter(|answers| !answers.gaps.iter().any(same));
        untold.for_each(|answers| Arc::make_mut(answers).spoil(switch, gap));
    }

    /// Forgets this epoch and all after it: their numbers come again.
    pub(crate) fn forget_from(&self, epoch: u64) {
        self.lock().forget_from(epoch);
    }

    /// Answers that were forgotten.
    pub fn forgotten(&self) -> u64 {
        self.lock().forgotten
    }

    /// So many more epochs have no answers.
    pub(crate) fn pass_over(&self, epochs: u64) {
        self.lock().passed_over += epochs;
    }

    /// Epochs of which there are no answers because the controller stood still.
    pub fn passed_over(&self) -> u64 {
        self.lock().passed_over
    }

    /// All answers.
    pub fn all(&self) -> Vec<Arc<EpochAnswers>> {
        self.lock().epochs.iter().cloned().collect()
    }

    /// The epochs of the last `seconds` that have closed, and at least one.
    pub fn last(&self, seconds: f64) -> Selected {
        let stored = self.lock();
        let (Some(oldest), Some(newest)) = (stored.epochs.front(), stored.epochs.back()) else {
            return Selected::default();
        };
        let wanted = (seconds.max(0.0) * 1e9 / stored.length.max(1) as f64).ceil() as u64;
        let first = newest.epoch.saturating_sub(wanted.saturating_sub(1)).max(oldest.epoch);
        stored.select(stored.range(first).start..stored.epochs.len(), first)
    }

    /// The oldest epoch after this one.
    pub fn next(&self, after: u64) -> Selected {
        let stored = self.lock();
        let start = stored.range(after).end;
        let Some(next) = stored.epochs.get(start) else { return Selected::default() };
        let first = if start > 0 { after + 1 } else { next.epoch };
        stored.select(stored.range(next.epoch), first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Unit;
    use crate::program::answers::{FlowAnswers, FlowCount, FlowName};
    use crate::wire::Flow;

    fn answers(epoch: u64, flows: usize) -> EpochAnswers {
        let found = vec![FlowCount { flow: FlowName::Flow(Flow::default()), count: 1 }; flows];
        let network = FlowAnswers::heaviest(Unit::Packets, found, flows);
        EpochAnswers { epoch, first_epoch: epoch, network, ..EpochAnswers::default() }
    }

    #[test]
    fn flows_are_bounded() {
        let store = AnswerStore::new(9, 10);
        let epochs = || store.all().iter().map(|answers| answers.epoch).collect::<Vec<_>>();
        let push = |epoch, flows| store.push(answers(epoch, flows));
        (1..=4).for_each(|epoch| push(epoch, 4));
        assert_eq!(epochs(), [3, 4]);
        push(5, 100);
        assert_eq!(epochs(), [5], "the newest stays");
        store.forget_from(5);
        assert_eq!((epochs(), store.forgotten(), store.lock().weight), (vec![], 1, 0));
    }
}
