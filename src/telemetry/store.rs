//! The answer store: the answers of one program about past epochs, bounded in memory. A controller
//! writes it, and clients read it without waiting for the controller.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::lock::Hold;
use crate::program::answers::{EpochAnswers, Gap, Reason, SwitchGap};
use crate::telemetry::epoch::Nanos;

/// A handle of a store.
#[derive(Clone, Debug, Default)]
pub struct AnswerStore(Arc<Mutex<Stored>>);

#[derive(Debug, Default)]
struct Stored {
    /// In the order of their last epochs. An epoch has several when its record came in parts.
    epochs: VecDeque<Arc<EpochAnswers>>,
    /// Most of them. The newest always stays, and the newest that is final.
    max_epochs: usize,
    max_weight: usize,
    /// Flows and sizes in all of them.
    weight: usize,
    length: Nanos,
    lost_after: Option<Nanos>,
    /// Publications and changes so far.
    sequence: u64,
    passed_over: u64,
    late_packets: u64,
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
    /// Time after the end of its epoch by which a packet has left, or is lost: the transit time and
    /// the horizon. `None` for a switch alone.
    pub lost_after: Option<Nanos>,
    /// Number of the newest publication or change, to ask for what comes [after](AnswerStore::since).
    pub sequence: u64,
    /// How long ago the newest of them ended, when that is known.
    pub age: Option<Nanos>,
    /// They are older than what was asked for.
    pub outdated: bool,
    /// The newest answers up to the last of these that name lost packets, of all that are kept.
    pub last_loss: Option<Arc<EpochAnswers>>,
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
    /// final soon after its packets have left or are lost; older ones than that and than what was asked for tell of something
    /// else.
    #[must_use]
    pub fn as_of(self, now: Nanos, seconds: f64) -> Self {
        let Some(newest) = self.epochs.last() else { return self };
        let age = now.saturating_sub((newest.epoch + 1).saturating_mul(self.length));
        let final_after = self.length.saturating_mul(2).saturating_add(self.lost_after.unwrap_or_default());
        let outdated = age as f64 / 1e9 > seconds.max(final_after as f64 / 1e9).max(1.0);
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
        let over = |stored: &Self| stored.epochs.len() > stored.max_epochs || stored.weight > stored.max_weight;
        let is_final = |answers: &Arc<EpochAnswers>| answers.finality.is_final;
        // The newest of all and the newest that is final stay.
        let can_go = |stored: &Self| {
            let mut later = stored.epochs.iter().skip(1);
            stored.epochs.len() > 1 && (!stored.epochs.front().is_some_and(is_final) || later.any(is_final))
        };
        while over(self) && can_go(self) {
            self.weight -= self.epochs.pop_front().map_or(0, |oldest| oldest.weight());
        }
    }

    fn forget_from(&mut self, epoch: u64) {
        let kept = self.epochs.partition_point(|kept| kept.epoch < epoch);
        self.forgotten += (self.epochs.len() - kept) as u64;
        self.weight -= self.epochs.drain(kept..).map(|answers| answers.weight()).sum::<usize>();
    }

    fn select(&self, epochs: Range<usize>, first: u64) -> Selected {
        let last_loss = self.epochs.range(..epochs.end).rev().find(|answers| answers.truly_lost() > 0).cloned();
        let epochs: Vec<_> = self.epochs.range(epochs).cloned().collect();
        let first = epochs.iter().map(|answers| answers.first_epoch).fold(first, u64::min);
        let Self { length, lost_after, sequence, .. } = *self;
        Selected { epochs, first, length, lost_after, sequence, last_loss, ..Selected::default() }
    }

    /// Numbers a publication or change of these answers.
    fn publish(&mut self, answers: &mut EpochAnswers) {
        self.sequence += 1;
        answers.finality.sequence = self.sequence;
    }

    /// Changes the answers of an epoch. Those that are final are amended. True when there are any.
    fn change(&mut self, epoch: u64, change: impl Fn(&mut EpochAnswers)) -> bool {
        let range = self.range(epoch);
        range.clone().for_each(|at| self.change_at(at, &change));
        !range.is_empty()
    }

    fn change_at(&mut self, at: usize, change: impl Fn(&mut EpochAnswers)) {
        self.sequence += 1;
        let Some(answers) = self.epochs.get_mut(at).map(Arc::make_mut) else { return };
        change(answers);
        answers.finality.amendments += u64::from(answers.finality.is_final);
        answers.finality.sequence = self.sequence;
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

    /// Packets that leave later than this after the end of their epoch are called lost.
    pub(crate) fn set_lost_after(&self, lost_after: Option<Nanos>) {
        self.lock().lost_after = lost_after;
    }

    /// Adds the answers of an epoch, however late. They replace answers without any record, and
    /// amend final ones.
    pub(crate) fn push(&self, mut answers: EpochAnswers) {
        let mut stored = self.lock();
        let Range { start, mut end } = stored.range(answers.epoch);
        let earlier = stored.epochs.range(start..end).map(|earlier| &earlier.finality);
        let amended = earlier.filter(|earlier| earlier.is_final).map(|earlier| earlier.amendments + 1).max();
        answers.finality.amendments = amended.unwrap_or_default();
        stored.publish(&mut answers);
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
        stored.change(epoch, |answers| answers.spoil(switch, gap));
        let next = stored.range(epoch.saturating_add(1));
        if gap.hides_flows() && stored.epochs.range(next).any(|answers| answers.changes.is_some()) {
            stored.change(epoch.saturating_add(1), |answers| answers.spoil_before(switch, gap));
        }
    }

    /// The losses of this epoch are uncertain for this reason, as is known only now.
    pub(crate) fn doubt_losses(&self, epoch: u64, reason: Reason) {
        let mut stored = self.lock();
        let certain = |answers: &Arc<EpochAnswers>| {
            answers.losses.as_ref().is_some_and(|losses| losses.lost_packets > 0)
                && !answers.losses_lack.contains(reason)
        };
        if stored.epochs.range(stored.range(epoch)).any(certain) {
            stored.change(epoch, |answers| answers.losses_lack.add(reason));
        }
    }

    /// These packets of the epoch have left since, later than the horizon. They stay counted as
    /// lost.
    pub(crate) fn count_late(&self, epoch: u64, packets: u64) {
        let mut stored = self.lock();
        stored.late_packets = stored.late_packets.saturating_add(packets);
        stored.change(epoch, |answers| {
            let late = &mut answers.finality.late_packets;
            *late = late.saturating_add(packets);
        });
    }

    /// The answers of this epoch are final, with these gaps. Of the gaps that waited for later
    /// records those stay that `stays` says.
    pub(crate) fn finalise(&self, epoch: u64, gaps: &[SwitchGap], stays: impl Fn(&SwitchGap) -> bool) {
        let mut stored = self.lock();
        stored.change(epoch, |answers| {
            let waiting = std::mem::take(&mut answers.finality.waiting);
            let waiting = waiting.iter().filter(|gap| stays(gap));
            gaps.iter().chain(waiting).for_each(|gap| answers.spoil(&gap.switch, gap.gap));
        });
        let range = stored.range(epoch);
        stored.epochs.range_mut(range).for_each(|answers| Arc::make_mut(answers).finality.is_final = true);
    }

    /// Something may be missing of any epoch. Answers are copied for those who read them now, so
    /// each is told once.
    pub(crate) fn spoil_all(&self, switch: &Arc<str>, gap: Gap) {
        let same = |other: &SwitchGap| {
            other.switch == *switch && std::mem::discriminant(&other.gap) == std::mem::discriminant(&gap)
        };
        let mut stored = self.lock();
        let untold = |stored: &Stored, at: usize| !stored.epochs[at].gaps.iter().any(same);
        let untold: Vec<_> = (0..stored.epochs.len()).filter(|at| untold(&stored, *at)).collect();
        untold.into_iter().for_each(|at| stored.change_at(at, |answers| answers.spoil(switch, gap)));
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

    /// Packets that left later than the horizon, also of epochs whose answers are kept no more.
    pub fn late_packets(&self) -> u64 {
        self.lock().late_packets
    }

    /// Epochs of which there are no answers because the controller stood still.
    pub fn passed_over(&self) -> u64 {
        self.lock().passed_over
    }

    /// All answers.
    pub fn all(&self) -> Vec<Arc<EpochAnswers>> {
        self.lock().epochs.iter().cloned().collect()
    }

    /// The epochs of the last `seconds` that are final, and at least one. `provisional`: those that
    /// are not final yet as well.
    pub fn last(&self, seconds: f64, provisional: bool) -> Selected {
        let stored = self.lock();
        let asked = |answers: &&Arc<EpochAnswers>| provisional || answers.finality.is_final;
        let end = stored.epochs.iter().rposition(|answers| asked(&answers)).map_or(0, |newest| newest + 1);
        let (Some(oldest), Some(newest)) = (stored.epochs.front(), stored.epochs.range(..end).next_back()) else {
            return Selected { sequence: stored.sequence, ..Selected::default() };
        };
        let wanted = (seconds.max(0.0) * 1e9 / stored.length.max(1) as f64).ceil() as u64;
        let first = newest.epoch.saturating_sub(wanted.saturating_sub(1)).max(oldest.epoch);
        stored.select(stored.range(first).start..end, first)
    }

    /// What was published or changed first after this number, of final answers; with `provisional`
    /// of the others too.
    pub fn since(&self, sequence: u64, provisional: bool) -> Selected {
        let stored = self.lock();
        let asked = |answers: &&Arc<EpochAnswers>| {
            answers.finality.sequence > sequence && (provisional || answers.finality.is_final)
        };
        let Some(next) = stored.epochs.iter().filter(asked).min_by_key(|answers| answers.finality.sequence) else {
            return Selected { sequence, ..Selected::default() };
        };
        let (next, sequence) = (next.epoch, next.finality.sequence);
        let range = stored.range(next);
        let before = range.start.checked_sub(1).and_then(|before| stored.epochs.get(before));
        let first = before.map_or(next, |before| before.epoch + 1).min(next);
        Selected { sequence, ..stored.select(range, first) }
    }

    /// The oldest epoch after this one, once it is final; with `provisional` as soon as it has
    /// closed.
    pub fn next(&self, after: u64, provisional: bool) -> Selected {
        let stored = self.lock();
        let start = stored.range(after).end;
        let next = stored.epochs.get(start).filter(|next| provisional || next.finality.is_final);
        let Some(next) = next else { return Selected::default() };
        let first = if start > 0 { after + 1 } else { next.epoch };
        stored.select(stored.range(next.epoch), first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Unit;
    use crate::program::answers::{Finality, FlowAnswers, FlowCount, FlowName};
    use crate::wire::Flow;

    fn answers(epoch: u64, flows: usize) -> EpochAnswers {
        let found = vec![FlowCount { flow: FlowName::Flow(Flow::default()), count: 1.into() }; flows];
        let network = FlowAnswers::heaviest(Unit::Packets, found, flows);
        EpochAnswers { epoch, first_epoch: epoch, network, finality: Finality::at_once(), ..EpochAnswers::default() }
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
