//! The history of a program: what its analysis made of the records of past epochs, bounded in
//! bytes. A controller writes it. Clients ask it without waiting for the controller.

mod completeness;
mod entry;
mod epochs;
mod gap;

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::lock::Hold;

pub use completeness::{Reason, Reasons};
pub use entry::{Adaptation, ArchiveForm, Described, Entry, Finality, Kept, SwitchCounters};
pub use epochs::{Epochs, Window};
pub use gap::{Gap, SwitchGap};

/// Nanoseconds.
type Nanos = u64;

/// Room of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub epochs: usize,
    pub bytes: usize,
}

/// A handle of a history. Its clones are the same history.
#[derive(Debug)]
pub struct History<K>(Arc<Mutex<Stored<K>>>);

#[derive(Debug)]
struct Stored<K> {
    /// In the order of their last epochs. An epoch has several when its record came in parts.
    entries: VecDeque<Arc<Entry<K>>>,
    /// The newest entry always stays, and the newest that is final.
    room: Room,
    /// Memory of all entries, in bytes.
    bytes: usize,
    /// Number of entries, from the oldest on, that are compacted.
    compacted: usize,
    /// The newest epoch for which there was no room any more.
    forgotten_up_to: Option<u64>,
    length: Nanos,
    lost_after: Option<Nanos>,
    /// Publications and changes so far.
    sequence: u64,
    passed_over: u64,
    late_packets: u64,
    forgotten: u64,
}

impl<K> Clone for History<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Kept> Stored<K> {
    /// The places of the entries of this epoch.
    fn range(&self, epoch: u64) -> Range<usize> {
        let before = self.entries.partition_point(|entry| entry.epoch < epoch);
        before..self.entries.partition_point(|entry| entry.epoch <= epoch)
    }

    fn trim(&mut self) {
        let over = |stored: &Self| stored.entries.len() > stored.room.epochs || stored.bytes > stored.room.bytes;
        let is_final = |entry: &Arc<Entry<K>>| entry.finality.is_final;
        let can_go = |stored: &Self| {
            let mut later = stored.entries.iter().skip(1);
            stored.entries.len() > 1 && (!stored.entries.front().is_some_and(is_final) || later.any(is_final))
        };
        while self.bytes > self.room.bytes && self.compact_next() {}
        while over(self) && can_go(self) {
            self.compacted = self.compacted.saturating_sub(1);
            let Some(oldest) = self.entries.pop_front() else { return };
            self.bytes -= oldest.bytes();
            self.forgotten_up_to = Some(oldest.epoch);
        }
    }

    /// Compacts the oldest entry that is not compacted, except the two newest. False without such an entry.
    fn compact_next(&mut self) -> bool {
        let at = self.compacted;
        let Some(entry) = self.entries.get(at).filter(|_| at + 2 < self.entries.len()) else { return false };
        self.compacted += 1;
        if let Some(showed) = entry.showed.compacted() {
            let compact = entry.with(Arc::new(showed));
            self.bytes = self.bytes + compact.bytes() - entry.bytes();
            self.entries[at] = Arc::new(compact);
        }
        true
    }

    fn select(&self, range: Range<usize>, first: u64) -> Epochs<K> {
        let kept: Vec<_> = self.entries.range(..range.end).cloned().collect();
        let later = if K::LOOKS_AHEAD { self.entries.range(range.end..).cloned().collect() } else { Vec::new() };
        let first = kept[range.start..].iter().map(|entry| entry.first_epoch).fold(first, u64::min);
        Epochs { from: range.start, first, kept, later, ..self.none() }
    }

    fn none(&self) -> Epochs<K> {
        let Self { length, lost_after, sequence, .. } = *self;
        let (outdated, forgotten) = (false, false);
        Epochs {
            kept: Vec::new(),
            later: Vec::new(),
            from: 0,
            first: 0,
            length,
            lost_after,
            sequence,
            age: None,
            outdated,
            forgotten,
        }
    }

    /// Changes the entries of an epoch. Those that are final are amended.
    fn change(&mut self, epoch: u64, change: impl Fn(&mut Entry<K>)) {
        self.range(epoch).for_each(|at| self.change_at(at, &change));
    }

    fn change_at(&mut self, at: usize, change: impl Fn(&mut Entry<K>)) {
        self.sequence += 1;
        let Some(entry) = self.entries.get_mut(at).map(Arc::make_mut) else { return };
        change(entry);
        entry.finality.amendments += u64::from(entry.finality.is_final);
        entry.finality.sequence = self.sequence;
    }

    /// The epochs of the last `seconds`, and at least one.
    fn last(&self, seconds: f64, is_meant: impl Fn(&Arc<Entry<K>>) -> bool) -> Epochs<K> {
        let end = self.entries.iter().rposition(is_meant).map_or(0, |newest| newest + 1);
        let (Some(oldest), Some(newest)) = (self.entries.front(), self.entries.range(..end).next_back()) else {
            return self.none();
        };
        let wanted = (seconds.max(0.0) * 1e9 / self.length.max(1) as f64).ceil() as u64;
        let wanted = newest.epoch.saturating_sub(wanted.saturating_sub(1));
        let first = wanted.max(oldest.epoch);
        let forgotten = wanted < first && self.forgotten_up_to.is_some_and(|last| last >= wanted);
        Epochs { forgotten, ..self.select(self.range(first).start..end, first) }
    }

    /// The epoch that was published or changed first after this number.
    fn since(&self, sequence: u64, is_meant: impl Fn(&Arc<Entry<K>>) -> bool) -> Epochs<K> {
        let later = self.entries.iter().filter(|entry| entry.finality.sequence > sequence && is_meant(entry));
        let Some(next) = later.min_by_key(|entry| entry.finality.sequence) else {
            return Epochs { sequence, ..self.none() };
        };
        let (next, sequence) = (next.epoch, next.finality.sequence);
        let range = self.range(next);
        let before = range.start.checked_sub(1).and_then(|before| self.entries.get(before));
        let first = before.map_or(next, |before| before.epoch + 1).min(next);
        Epochs { sequence, ..self.select(range, first) }
    }

    /// The oldest epoch after this one.
    fn next(&self, after: u64, is_meant: impl Fn(&Arc<Entry<K>>) -> bool) -> Epochs<K> {
        let start = self.range(after).end;
        let Some(next) = self.entries.get(start).filter(|next| is_meant(next)) else { return self.none() };
        let first = if start > 0 { after + 1 } else { next.epoch };
        self.select(self.range(next.epoch), first)
    }

    /// The epochs from one to another, without the first that is not meant and those behind it.
    fn between(&self, from: u64, until: u64, is_meant: impl Fn(&Arc<Entry<K>>) -> bool) -> Epochs<K> {
        let start = self.range(from).start;
        let meant = self.entries.range(start..).take_while(|entry| entry.epoch <= until && is_meant(entry));
        let end = start + meant.count();
        let Some(next) = self.entries.range(start..end).next() else { return self.none() };
        let first = if start > 0 { from } else { next.epoch };
        self.select(start..end, first)
    }
}

impl<K: Kept> History<K> {
    pub fn new(room: Room) -> Self {
        Self(Arc::new(Mutex::new(Stored {
            entries: VecDeque::new(),
            room,
            bytes: 0,
            compacted: 0,
            forgotten_up_to: None,
            length: 0,
            lost_after: None,
            sequence: 0,
            passed_over: 0,
            late_packets: 0,
            forgotten: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Stored<K>> {
        self.0.hold()
    }

    /// Adds an epoch, however late. It replaces one without any record, and amends final answers.
    pub fn push(&self, mut entry: Entry<K>) {
        let mut stored = self.lock();
        let Range { start, mut end } = stored.range(entry.epoch);
        let earlier = stored.entries.range(start..end).map(|earlier| &earlier.finality);
        let amended = earlier.filter(|earlier| earlier.is_final).map(|earlier| earlier.amendments + 1).max();
        stored.sequence += 1;
        (entry.finality.amendments, entry.finality.sequence) = (amended.unwrap_or_default(), stored.sequence);
        if end > start && stored.entries[start].switches.is_empty() {
            stored.bytes -= stored.entries.remove(start).map_or(0, |missing| missing.bytes());
            end -= 1;
        }
        stored.bytes += entry.bytes();
        stored.compacted = stored.compacted.min(end);
        stored.entries.insert(end, Arc::new(entry));
        stored.trim();
    }

    /// Adds an epoch as an archive has it, with the changes that it had there.
    pub fn restore(&self, entry: Entry<K>) {
        let mut stored = self.lock();
        let end = stored.range(entry.epoch).end;
        stored.sequence = stored.sequence.max(entry.finality.sequence);
        stored.bytes += entry.bytes();
        stored.compacted = stored.compacted.min(end);
        stored.entries.insert(end, Arc::new(entry));
        stored.trim();
    }

    /// The epochs of a window: those that are final, or with `provisional` all.
    pub fn select(&self, window: Window, provisional: bool) -> Epochs<K> {
        let stored = self.lock();
        let is_meant = |entry: &Arc<Entry<K>>| provisional || entry.finality.is_final;
        match window {
            Window::Last { seconds } => stored.last(seconds, is_meant),
            Window::All => stored.last(f64::MAX, is_meant),
            Window::Since { sequence } => stored.since(sequence, is_meant),
            Window::Next { after } => stored.next(after, is_meant),
            Window::Epoch(epoch) => stored.select(stored.range(epoch), epoch),
            Window::Between { from, until } => stored.between(from, until, is_meant),
        }
    }
}

/// What a history holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub epochs: usize,
    /// Number of the oldest epochs without what can be left out; nothing can of some programs'.
    pub compacted: usize,
    pub bytes: usize,
}

/// Epochs of a history as an archive has them.
#[derive(Debug)]
pub struct ArchiveForms {
    /// The oldest first; `None` beside those of which the program keeps nothing in archives.
    pub epochs: Vec<(Entry<()>, Option<ArchiveForm>)>,
    /// [`Epochs::length`].
    pub length: Nanos,
    /// [`Epochs::lost_after`].
    pub lost_after: Option<Nanos>,
}

/// A history of any program, but for what the program keeps.
pub trait AnyHistory: Any + Send + Sync {
    fn resize(&self, room: Room);
    /// Number of epochs and bytes that it holds.
    fn held(&self) -> Held;
    /// Epochs are of this length from now on.
    fn set_length(&self, length: Nanos);
    fn length(&self) -> Nanos;
    /// Packets that leave later than this after the end of their epoch are called lost.
    fn set_lost_after(&self, lost_after: Option<Nanos>);
    /// The newest epoch.
    fn newest(&self) -> Option<u64>;
    /// All epochs, the oldest first.
    fn outlines(&self) -> Vec<Entry<()>>;
    /// The epochs of a window, the oldest first: those that are final, or with `provisional` all.
    fn outlines_of(&self, window: Window, provisional: bool) -> Vec<Entry<()>>;
    /// The newest entry of this epoch.
    fn outline(&self, epoch: u64) -> Option<Entry<()>>;
    /// The epochs of a window as an archive has them: those that are final, or with `provisional` all.
    fn archived(&self, window: Window, provisional: bool) -> ArchiveForms;
    /// Whether more packets left in this epoch than entered.
    fn has_gained(&self, epoch: u64) -> bool;
    /// Something is missing of this epoch, as is known only now.
    fn spoil(&self, epoch: u64, switch: &Arc<str>, gap: Gap);
    /// Something may be missing of any epoch. Entries are copied for those who read them now, so a
    /// gap of a kind is added once.
    fn spoil_all(&self, switch: &Arc<str>, gap: Gap);
    /// The losses of this epoch, if there are any, are uncertain for this reason, as is known only
    /// now.
    fn doubt_losses(&self, epoch: u64, reason: Reason);
    /// These packets of the epoch have left since, later than the horizon. They stay counted as
    /// lost.
    fn count_late(&self, epoch: u64, packets: u64);
    /// The answers about this epoch are final, with these gaps. Of the gaps that waited for later
    /// records those stay for which `stays` holds.
    fn finalise(&self, epoch: u64, gaps: &[SwitchGap], stays: &dyn Fn(&SwitchGap) -> bool);
    /// Forgets this epoch and all after it: their numbers come again.
    fn forget_from(&self, epoch: u64);
    /// Number of epochs that were forgotten because their numbers came again.
    fn forgotten(&self) -> u64;
    /// This number of epochs more is not analysed, because the controller stood still.
    fn pass_over(&self, epochs: u64);
    fn passed_over(&self) -> u64;
    /// Packets that left later than the horizon, also of epochs that are not kept any more.
    fn late_packets(&self) -> u64;
}

impl<K: Kept> AnyHistory for History<K> {
    fn resize(&self, room: Room) {
        let mut stored = self.lock();
        stored.room = room;
        stored.trim();
    }

    fn held(&self) -> Held {
        let stored = self.lock();
        Held { epochs: stored.entries.len(), compacted: stored.compacted, bytes: stored.bytes }
    }

    fn set_length(&self, length: Nanos) {
        self.lock().length = length;
    }

    fn length(&self) -> Nanos {
        self.lock().length
    }

    fn set_lost_after(&self, lost_after: Option<Nanos>) {
        self.lock().lost_after = lost_after;
    }

    fn newest(&self) -> Option<u64> {
        self.lock().entries.back().map(|entry| entry.epoch)
    }

    fn outlines(&self) -> Vec<Entry<()>> {
        self.lock().entries.iter().map(|entry| entry.outline()).collect()
    }

    fn outlines_of(&self, window: Window, provisional: bool) -> Vec<Entry<()>> {
        self.select(window, provisional).iter().map(|entry| entry.outline()).collect()
    }

    fn outline(&self, epoch: u64) -> Option<Entry<()>> {
        let stored = self.lock();
        stored.entries.range(stored.range(epoch)).next_back().map(|entry| entry.outline())
    }

    fn archived(&self, window: Window, provisional: bool) -> ArchiveForms {
        let epochs = self.select(window, provisional);
        let form = |entry: &Arc<Entry<K>>| (entry.outline(), entry.showed.archived());
        ArchiveForms { epochs: epochs.iter().map(form).collect(), length: epochs.length, lost_after: epochs.lost_after }
    }

    fn has_gained(&self, epoch: u64) -> bool {
        let stored = self.lock();
        stored.entries.range(stored.range(epoch)).any(|entry| entry.showed.gained_packets() > 0)
    }

    fn spoil(&self, epoch: u64, switch: &Arc<str>, gap: Gap) {
        let mut stored = self.lock();
        stored.change(epoch, |entry| SwitchGap::add(&mut entry.gaps, switch, gap));
        if K::LOOKS_BACK && gap.hides_flows() {
            stored.change(epoch.saturating_add(1), |_| {});
        }
    }

    fn spoil_all(&self, switch: &Arc<str>, gap: Gap) {
        let same = |other: &SwitchGap| {
            other.switch == *switch && std::mem::discriminant(&other.gap) == std::mem::discriminant(&gap)
        };
        let mut stored = self.lock();
        for at in 0..stored.entries.len() {
            if !stored.entries[at].gaps.iter().any(same) {
                stored.change_at(at, |entry| SwitchGap::add(&mut entry.gaps, switch, gap));
            }
        }
    }

    fn doubt_losses(&self, epoch: u64, reason: Reason) {
        let mut stored = self.lock();
        let is_certain = |entry: &Arc<Entry<K>>| entry.showed.lost_packets() > 0 && !entry.doubts.contains(reason);
        if stored.entries.range(stored.range(epoch)).any(is_certain) {
            stored.change(epoch, |entry| entry.doubts.add(reason));
        }
    }

    fn count_late(&self, epoch: u64, packets: u64) {
        let mut stored = self.lock();
        stored.late_packets = stored.late_packets.saturating_add(packets);
        stored.change(epoch, |entry| {
            let late = &mut entry.finality.late_packets;
            *late = late.saturating_add(packets);
        });
    }

    fn finalise(&self, epoch: u64, gaps: &[SwitchGap], stays: &dyn Fn(&SwitchGap) -> bool) {
        let mut stored = self.lock();
        stored.change(epoch, |entry| {
            let waiting = std::mem::take(&mut entry.finality.waiting);
            let waiting = waiting.iter().filter(|gap| stays(gap));
            gaps.iter().chain(waiting).for_each(|gap| SwitchGap::add(&mut entry.gaps, &gap.switch, gap.gap));
        });
        let range = stored.range(epoch);
        stored.entries.range_mut(range).for_each(|entry| Arc::make_mut(entry).finality.is_final = true);
    }

    fn forget_from(&self, epoch: u64) {
        let mut stored = self.lock();
        let kept = stored.entries.partition_point(|entry| entry.epoch < epoch);
        stored.forgotten += (stored.entries.len() - kept) as u64;
        stored.bytes -= stored.entries.drain(kept..).map(|entry| entry.bytes()).sum::<usize>();
        stored.compacted = stored.compacted.min(kept);
    }

    fn forgotten(&self) -> u64 {
        self.lock().forgotten
    }

    fn pass_over(&self, epochs: u64) {
        self.lock().passed_over += epochs;
    }

    fn passed_over(&self) -> u64 {
        self.lock().passed_over
    }

    fn late_packets(&self) -> u64 {
        self.lock().late_packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kept things of a number of bytes, also when they are compacted.
    #[derive(Default)]
    struct Weight {
        bytes: usize,
        compacted: Option<usize>,
        lost: u64,
        gained: u64,
    }

    impl Kept for Weight {
        const LOOKS_BACK: bool = true;

        fn bytes(&self) -> usize {
            self.bytes
        }

        fn compacted(&self) -> Option<Self> {
            self.compacted.map(|bytes| Self { bytes, ..Self::default() })
        }

        fn lost_packets(&self) -> u64 {
            self.lost
        }

        fn gained_packets(&self) -> u64 {
            self.gained
        }
    }

    const OWN: usize = size_of::<Entry<Weight>>();

    /// A history with room for bytes beside those of the entries themselves.
    fn history(epochs: usize, entries: usize, bytes: usize) -> History<Weight> {
        let history = History::new(Room { epochs, bytes: entries * OWN + bytes });
        history.set_length(1_000_000_000);
        history
    }

    fn push(history: &History<Weight>, epoch: u64, bytes: usize) {
        history.push(Entry::new(epoch, Weight { bytes, ..Weight::default() }));
    }

    fn epochs(history: &History<Weight>) -> Vec<u64> {
        history.outlines().iter().map(|entry| entry.epoch).collect()
    }

    /// Memory of each entry, beside its own.
    fn weights(history: &History<Weight>) -> Vec<usize> {
        let stored = history.lock();
        let weights: Vec<_> = stored.entries.iter().map(|entry| entry.showed.bytes).collect();
        assert_eq!(stored.bytes, weights.iter().map(|bytes| bytes + OWN).sum::<usize>());
        weights
    }

    #[test]
    fn memory_is_bounded_and_what_was_forgotten_is_known() {
        let history = history(9, 2, 10);
        (1..=4).for_each(|epoch| push(&history, epoch, 4));
        assert_eq!(epochs(&history), [3, 4]);
        let last = |seconds| history.select(Window::Last { seconds }, false);
        assert_eq!([1.0, 2.0, 3.0, 99.0].map(|seconds| last(seconds).forgotten), [false, false, true, true]);
        push(&history, 5, 6);
        assert_eq!(weights(&history), [4, 6], "room that is used up is enough");
        push(&history, 6, 100);
        assert_eq!(epochs(&history), [6], "the newest stays");
        history.forget_from(6);
        assert_eq!((epochs(&history), history.forgotten()), (vec![], 1));
        assert_eq!(history.held(), Held { epochs: 0, compacted: 0, bytes: 0 });
    }

    #[test]
    fn the_newest_final_epoch_stays() {
        let history = history(2, 9, 0);
        let provisional = |epoch| {
            let mut entry = Entry::new(epoch, Weight::default());
            entry.finality.is_final = false;
            history.push(entry);
        };
        (1..=3).for_each(|epoch| push(&history, epoch, 0));
        assert_eq!(epochs(&history), [2, 3]);
        (4..=6).for_each(provisional);
        assert_eq!(epochs(&history), [3, 4, 5, 6]);
        history.finalise(4, &[], &|_| true);
        provisional(7);
        assert_eq!(epochs(&history), [4, 5, 6, 7]);
        history.finalise(6, &[], &|_| true);
        let from = |from| history.outlines_of(Window::Between { from, until: u64::MAX }, false);
        assert_eq!(from(0).iter().map(|entry| entry.epoch).collect::<Vec<_>>(), [4], "5 is not final, and 6 waits");
        assert_eq!(from(6).iter().map(|entry| entry.epoch).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn older_epochs_are_compacted_before_any_goes() {
        let history = history(9, 4, 31);
        let push = |epoch| {
            let showed = Weight { bytes: 10, compacted: (epoch != 2).then_some(1), ..Weight::default() };
            history.push(Entry::new(epoch, showed));
        };
        (1..=4).for_each(push);
        assert_eq!(weights(&history), [1, 10, 10, 10], "no more than is needed");
        push(5);
        assert_eq!(weights(&history), [10, 1, 10, 10], "2 cannot be compacted, the two newest are not");
        assert_eq!(epochs(&history), [2, 3, 4, 5]);
    }

    #[test]
    fn what_is_known_late_amends_the_epochs_that_it_changes() {
        let history = history(9, 9, 0);
        history.set_lost_after(Some(7));
        for (epoch, lost, gained) in [(1, 0, 0), (2, 5, 0), (3, 0, 1)] {
            history.push(Entry::new(epoch, Weight { lost, gained, ..Weight::default() }));
        }
        assert_eq!([1, 2, 3].map(|epoch| history.has_gained(epoch)), [false, false, true]);
        let amended = || history.outlines().iter().map(|entry| entry.finality.amendments).collect::<Vec<_>>();
        (1..=3).for_each(|epoch| history.doubt_losses(epoch, Reason::OneBit));
        assert_eq!(amended(), [0, 1, 0], "no loss is no doubt");
        assert!(history.outline(2).unwrap().doubts.contains(Reason::OneBit));
        history.doubt_losses(2, Reason::OneBit);
        assert_eq!(amended(), [0, 1, 0]);

        history.count_late(2, 3);
        history.count_late(9, 4);
        assert_eq!((history.late_packets(), history.outline(2).unwrap().finality.late_packets), (7, 3));

        let switch: Arc<str> = "s1".into();
        history.spoil(2, &switch, Gap::Before);
        assert_eq!(amended(), [0, 3, 0], "losses alone are missing");
        history.spoil(2, &switch, Gap::Missing);
        assert_eq!(amended(), [0, 4, 1], "the epoch behind rests on it");
        (0..2).for_each(|packets| history.spoil_all(&switch, Gap::Strays { packets }));
        assert_eq!(amended(), [1, 5, 2], "once for a kind of gap");

        let next = history.select(Window::Since { sequence: 10 }, false);
        assert_eq!((next.newest().map(|entry| entry.epoch), next.sequence, next.lost_after), (Some(3), 11, Some(7)));
    }

    #[test]
    fn gaps_that_wait_stay_when_they_last() {
        let history = history(9, 9, 0);
        let mut entry = Entry::new(1, Weight::default());
        let gap = |gap| SwitchGap { switch: "s1".into(), gap };
        entry.finality.is_final = false;
        entry.finality.waiting = vec![gap(Gap::StoodStill { nanos: 1 }), gap(Gap::Before)];
        history.push(entry);
        assert_eq!(history.select(Window::All, false).iter().len(), 0);
        history.finalise(1, &[gap(Gap::Missing)], &|gap| gap.gap == Gap::Before);
        let entry = history.outline(1).unwrap();
        let gaps: Vec<_> = entry.gaps.iter().map(|gap| gap.gap).collect();
        assert_eq!(
            (gaps, entry.finality.is_final, entry.finality.amendments),
            (vec![Gap::Missing, Gap::Before], true, 0)
        );
        assert_eq!(history.select(Window::All, false).iter().len(), 1);
    }

    #[test]
    fn windows_are_the_epochs_that_they_say() {
        let history = history(9, 9, 0);
        [2, 3, 5, 6].into_iter().for_each(|epoch| push(&history, epoch, 0));
        let of = |window| {
            let epochs = history.select(window, false);
            (epochs.iter().map(|entry| entry.epoch).collect::<Vec<_>>(), epochs.first)
        };
        let last = |seconds| of(Window::Last { seconds });
        assert_eq!([0.0, 1.0, 2.0].map(last), [(vec![6], 6), (vec![6], 6), (vec![5, 6], 5)]);
        assert_eq!([2.1, 99.0].map(last), [(vec![5, 6], 4), (vec![2, 3, 5, 6], 2)]);
        let next = |after| of(Window::Next { after });
        assert_eq!([0, 2, 3, 6].map(next), [(vec![2], 2), (vec![3], 3), (vec![5], 4), (vec![], 0)]);
        let since = |sequence| of(Window::Since { sequence });
        assert_eq!([0, 1, 2, 4].map(since), [(vec![2], 2), (vec![3], 3), (vec![5], 4), (vec![], 0)]);
        assert_eq!(history.select(Window::Since { sequence: 9 }, false).sequence, 9);
        assert_eq!([5, 4].map(|epoch| of(Window::Epoch(epoch))), [(vec![5], 5), (vec![], 4)]);
        let between = |from, until| of(Window::Between { from, until });
        assert_eq!([between(0, 5), between(4, 6), between(6, 9)], [(vec![2, 3, 5], 2), (vec![5, 6], 4), (vec![6], 6)]);
        assert_eq!([between(7, 9), between(4, 4)], [(vec![], 0), (vec![], 0)]);
        let two = history.select(Window::Last { seconds: 2.0 }, false);
        assert_eq!(two.backwards().map(|entry| entry.epoch).collect::<Vec<_>>(), [6, 5, 3, 2]);
    }

    #[test]
    fn an_epoch_that_comes_again_amends_what_was_final() {
        let history = history(9, 9, 99);
        let amended = || history.outlines().iter().map(|entry| entry.finality.amendments).collect::<Vec<_>>();
        [1, 2, 3].into_iter().for_each(|epoch| push(&history, epoch, 1));
        let mut entry = Entry::new(2, Weight { bytes: 5, ..Weight::default() });
        entry.switches.push("s1".into());
        history.push(entry);
        assert_eq!(
            (epochs(&history), weights(&history)),
            (vec![1, 2, 3], vec![1, 5, 1]),
            "in place of one without records"
        );
        assert_eq!(amended(), [0, 1, 0]);
        push(&history, 2, 7);
        assert_eq!((epochs(&history), weights(&history)), (vec![1, 2, 2, 3], vec![1, 5, 7, 1]));
        assert_eq!(amended(), [0, 1, 2, 0]);
    }
}
