//! Results of past epochs, bounded in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::program::answers::{FlowAnswers, FlowCount, FlowName};
use crate::program::{AnyRecord, AnySeries, ProgramConfig, RunAnswers, Truth, Unit};

/// Flows kept of each past epoch.
const KEPT_FLOWS: usize = 1024;

/// One program's results over one epoch (over several, when the collector was late).
#[derive(Clone, Debug)]
pub struct Epoch {
    pub first: u64,
    pub last: u64,
    pub summary: Summary,
}

/// What is kept of a record: the heaviest flows, at most [`KEPT_FLOWS`]. `None` of a program whose answers are with a controller.
#[derive(Clone, Debug)]
pub struct Summary(Option<FlowAnswers>);

impl Summary {
    /// Of a program's record. It takes milliseconds.
    pub fn new(program: &ProgramConfig, record: &AnyRecord) -> Self {
        let own = || Some(program.run(record, &program.series(), None, KEPT_FLOWS)?.heavy);
        Self(if program.is_networked() { None } else { own() })
    }
}

/// The last epochs of each program in their order, newest last; or all epochs in one.
#[derive(Debug)]
pub struct History {
    programs: Arc<[ProgramConfig]>,
    /// By program.
    epochs: Vec<VecDeque<Arc<Epoch>>>,
    capacity: usize,
    whole: Option<Whole>,
    forgotten: u64,
}

/// All epochs added up, every flow kept.
#[derive(Debug, Default)]
struct Whole {
    epochs: Option<(u64, u64)>,
    /// Of each program, in the order of the configuration.
    records: Vec<Option<AnyRecord>>,
    series: Vec<AnySeries>,
}

/// One program's counts, added up over the newest epochs.
#[derive(Clone, Debug, Default)]
pub struct Window {
    pub unit: Unit,
    pub counts: FxHashMap<FlowName, u64>,
    /// The epochs that the counts cover; `None` when there is none yet.
    pub epochs: Option<(u64, u64)>,
    /// Flows that were found and are not in `counts`, summed over the epochs.
    pub omitted_flows: u64,
}

impl Window {
    /// Adds the answers of the epochs `first` to `last`.
    pub fn add(&mut self, first: u64, last: u64, answers: Option<&FlowAnswers>) {
        self.epochs = span(self.epochs, first, last);
        let Some(answers) = answers else { return };
        self.unit = answers.unit;
        self.omitted_flows += answers.found.saturating_sub(answers.heavy.len()) as u64;
        for FlowCount { flow, count } in &answers.heavy {
            *self.counts.entry(*flow).or_default() += count;
        }
    }

    /// The flows that count at least `threshold`, the heaviest first; equal counts in the order of the flow's fields.
    pub fn above(&self, threshold: u64) -> Vec<FlowCount> {
        let heavy = self.counts.iter().filter(|(_, count)| **count >= threshold);
        let mut heavy: Vec<_> = heavy.map(|(&flow, &count)| FlowCount { flow, count }).collect();
        heavy.sort_unstable_by(|a, b| b.count.cmp(&a.count).then(a.flow.cmp(&b.flow)));
        heavy
    }
}

fn span(covered: Option<(u64, u64)>, first: u64, last: u64) -> Option<(u64, u64)> {
    Some(covered.map_or((first, last), |(a, b)| (a.min(first), b.max(last))))
}

impl History {
    /// Keeps at most `capacity` epochs of these programs, and at least one.
    pub fn new(capacity: usize, programs: &[ProgramConfig]) -> Self {
        let epochs = programs.iter().map(|_| VecDeque::new()).collect();
        Self { programs: programs.into(), epochs, capacity: capacity.max(1), whole: None, forgotten: 0 }
    }

    /// Adds all epochs up and keeps every flow, for a run that has an end. Its memory grows with the flows.
    pub fn whole(programs: &[ProgramConfig]) -> Self {
        let series = programs.iter().map(ProgramConfig::series).collect();
        Self { whole: Some(Whole { series, ..Whole::default() }), ..Self::new(1, programs) }
    }

    /// The programs, in the order of the configuration.
    pub fn programs(&self) -> Arc<[ProgramConfig]> {
        self.programs.clone()
    }

    /// Takes the record of a program over the epochs `first` to `last`. The records of a replica that was late find
    /// their place.
    pub fn push(&mut self, program: usize, first: u64, last: u64, record: AnyRecord) {
        if let Some(whole) = &mut self.whole {
            return whole.push(program, first, last, record);
        }
        let Some(summary) = self.programs.get(program).map(|program| Summary::new(program, &record)) else { return };
        self.insert(program, first, last, summary);
    }

    /// Whether all epochs are added up.
    pub fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// Takes the summary of an epoch, made without holding the history's lock.
    pub fn insert(&mut self, program: usize, first: u64, last: u64, summary: Summary) {
        let Some(epochs) = self.epochs.get_mut(program) else { return };
        let place = epochs.partition_point(|epoch| epoch.last <= last);
        epochs.insert(place, Arc::new(Epoch { first, last, summary }));
        if epochs.len() > self.capacity {
            epochs.pop_front();
        }
    }

    /// Keeps at most `capacity` epochs from now on, and at least one.
    pub fn resize(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
        for epochs in &mut self.epochs {
            let surplus = epochs.len().saturating_sub(self.capacity);
            epochs.drain(..surplus);
        }
    }

    /// Forgets all epochs: those to come are of these programs, or of another length.
    pub fn restart(&mut self, programs: &[ProgramConfig]) {
        self.programs = programs.into();
        self.forgotten += self.epochs.iter().map(VecDeque::len).max().unwrap_or_default() as u64;
        self.epochs = programs.iter().map(|_| VecDeque::new()).collect();
    }

    /// Forgets a program's epochs from this one on: the clock was set back, and their numbers come again.
    pub fn forget_from(&mut self, program: usize, epoch: u64) {
        let Some(epochs) = self.epochs.get_mut(program) else { return };
        let kept = epochs.partition_point(|kept| kept.last < epoch);
        self.forgotten += (epochs.len() - kept) as u64;
        epochs.truncate(kept);
    }

    /// Epochs that a [restart](Self::restart) or a clock that was set back forgot.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn epochs(&self, program: usize) -> impl DoubleEndedIterator<Item = &Arc<Epoch>> {
        self.epochs.get(program).into_iter().flatten()
    }

    /// A program's oldest epoch that ended after epoch number `after`, if there is one.
    pub fn next(&self, program: usize, after: u64) -> Selection {
        let newer = || self.epochs(program).skip_while(|epoch| epoch.last <= after);
        // A replica that was late has an entry of its own for the same epoch.
        let last = newer().next().map(|epoch| epoch.last);
        Selection(newer().take_while(|epoch| Some(epoch.last) == last).cloned().collect())
    }

    /// A program's newest `epochs` epochs, and at least one.
    pub fn last(&self, program: usize, epochs: usize) -> Selection {
        let newest = self.epochs(program).next_back().map_or(0, |epoch| epoch.last);
        let within = |epoch: &&Arc<Epoch>| newest - epoch.last < epochs.max(1) as u64;
        Selection(self.epochs(program).rev().take_while(within).cloned().collect())
    }

    /// The record of program number `program` over all epochs, when they are added up.
    pub fn record(&self, program: usize) -> Option<&AnyRecord> {
        self.whole.as_ref()?.records.get(program)?.as_ref()
    }

    /// The answers of program number `program` about all epochs, when they are added up. Names at most `most` flows of each kind.
    pub fn run(&self, program: usize, truth: Option<&Truth>, most: usize) -> Option<RunAnswers> {
        let whole = self.whole.as_ref()?;
        self.programs.get(program)?.run(whole.records.get(program)?.as_ref()?, whole.series.get(program)?, truth, most)
    }

    /// The counts of program number `program` over the newest `epochs` epochs and at least one, or over all added up.
    pub fn heavy(&self, program: usize, epochs: usize) -> Window {
        let Some(whole) = &self.whole else { return self.last(program, epochs).heavy() };
        let mut window = Window::default();
        if let Some((first, last)) = whole.epochs {
            let run = self.run(program, None, usize::MAX);
            window.add(first, last, run.map(|run| run.heavy).as_ref());
        }
        window
    }
}

/// Some epochs, to be added up when the history is no longer locked.
pub struct Selection(Vec<Arc<Epoch>>);

impl Selection {
    /// The counts of the program.
    pub fn heavy(&self) -> Window {
        let mut window = Window::default();
        for epoch in &self.0 {
            window.add(epoch.first, epoch.last, epoch.summary.0.as_ref());
        }
        window
    }
}

impl Whole {
    fn push(&mut self, program: usize, first: u64, last: u64, record: AnyRecord) {
        self.epochs = span(self.epochs, first, last);
        self.series.get_mut(program).into_iter().for_each(|series| series.add(&record));
        self.records.resize(self.records.len().max(program + 1), None);
        match &mut self.records[program] {
            Some(sum) => {
                let merged = sum.merge(&record);
                debug_assert!(merged.is_ok(), "{merged:?}");
            }
            none => *none = Some(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_followed_one_by_one() {
        let mut history = history(10);
        for (first, last) in [(3, 3), (4, 5), (5, 5), (6, 6)] {
            history.push(0, first, last, record(&[]));
        }
        assert_eq!(history.next(0, 0).heavy().epochs, Some((3, 3)));
        assert_eq!(history.next(0, 3).heavy().epochs, Some((4, 5)));
        assert_eq!(history.next(0, 5).heavy().epochs, Some((6, 6)));
        assert_eq!(history.next(0, 6).heavy().epochs, None);
    }

    use crate::program::hashpipe::{Counts, HashPipe};
    use crate::wire::Flow;

    fn history(capacity: usize) -> History {
        History::new(capacity, &programs())
    }

    fn programs() -> [ProgramConfig; 1] {
        [ProgramConfig::new::<HashPipe>(Default::default())]
    }

    fn flow(n: u32) -> Flow {
        Flow { src: Some(std::net::Ipv4Addr::from(n).into()), dst: None, sport: None, dport: None, proto: None }
    }

    fn record(counts: &[(u32, u64)]) -> AnyRecord {
        AnyRecord::new(Counts(counts.iter().map(|&(n, count)| (flow(n), count)).collect()))
    }

    #[allow(clippy::type_complexity, reason = "counts, epochs, omitted flows")]
    fn window(history: &History, epochs: usize) -> (Vec<(u32, u64)>, Option<(u64, u64)>, u64) {
        let window = history.heavy(0, epochs);
        let number = |flow: &FlowName| match flow.flow().and_then(|flow| flow.src) {
            Some(std::net::IpAddr::V4(ip)) => ip.into(),
            _ => unreachable!(),
        };
        let mut counts: Vec<_> = window.counts.iter().map(|(flow, &count)| (number(flow), count)).collect();
        counts.sort_unstable();
        (counts, window.epochs, window.omitted_flows)
    }

    #[test]
    fn windows_add_up_and_the_oldest_goes() {
        let mut history = history(3);
        assert_eq!(window(&history, 5), (vec![], None, 0));
        for epoch in 1..=5 {
            history.push(0, epoch, epoch, record(&[(1, 10), (epoch as u32 + 100, 1)]));
        }
        assert_eq!(window(&history, 1), (vec![(1, 10), (105, 1)], Some((5, 5)), 0));
        assert_eq!(window(&history, 0), window(&history, 1));
        assert_eq!(window(&history, 2), (vec![(1, 20), (104, 1), (105, 1)], Some((4, 5)), 0));
        assert_eq!(window(&history, usize::MAX), (vec![(1, 30), (103, 1), (104, 1), (105, 1)], Some((3, 5)), 0));
        assert!(history.heavy(1, 9).counts.is_empty());
    }

    #[test]
    fn a_restart_forgets_and_counts() {
        let mut history = history(9);
        (1..=5).for_each(|epoch| history.push(0, epoch, epoch, record(&[(1, 10)])));
        history.resize(2);
        assert_eq!((window(&history, 9).1, history.forgotten()), (Some((4, 5)), 0));
        history.restart(&programs());
        assert_eq!((window(&history, 9).1, history.forgotten()), (None, 2));
        history.push(0, 1, 1, record(&[(1, 10)]));
        assert_eq!(window(&history, 9), (vec![(1, 10)], Some((1, 1)), 0));
    }

    #[test]
    fn numbers_that_come_again_are_forgotten() {
        let mut history = history(9);
        (1..=5).for_each(|epoch| history.push(0, epoch, epoch, record(&[(1, 10)])));
        history.forget_from(0, 3);
        history.push(0, 3, 3, record(&[(2, 1)]));
        assert_eq!(
            (window(&history, 9).1, window(&history, 1).0, history.forgotten()),
            (Some((1, 3)), vec![(2, 1)], 3)
        );
    }

    #[test]
    fn what_cannot_be_named_is_counted() {
        let mut history = history(2);
        let many: Vec<_> = (0..KEPT_FLOWS as u32 + 7).map(|n| (n, u64::from(n) + 1)).collect();
        for epoch in 0..2 {
            history.push(0, epoch, epoch, record(&many));
        }
        let (counts, _, omitted) = window(&history, 2);
        assert_eq!((counts.len(), counts[0], omitted), (KEPT_FLOWS, (7, 16), 14));
    }

    #[test]
    fn a_late_record_finds_its_place() {
        let mut history = history(3);
        for epoch in [5, 7, 6] {
            history.push(0, epoch, epoch, record(&[(epoch as u32, 1)]));
        }
        assert_eq!(history.epochs[0].back().unwrap().last, 7);
        assert_eq!(window(&history, 2), (vec![(6, 1), (7, 1)], Some((6, 7)), 0));
        history.push(0, 1, 1, record(&[(1, 1)]));
        assert_eq!(window(&history, 9).1, Some((5, 7)), "older than all that is kept");
    }

    #[test]
    fn the_whole_keeps_every_flow() {
        let mut history = History::whole(&programs());
        assert_eq!(window(&history, 1), (vec![], None, 0));
        let many: Vec<_> = (0..3000).map(|n| (n, 2)).collect();
        history.push(0, 4, 4, record(&many));
        history.push(0, 9, 11, record(&[(0, 5), (5000, 1)]));
        let (counts, epochs, omitted) = window(&history, 1);
        assert_eq!((counts.len(), counts[0], epochs, omitted), (3001, (0, 7), Some((4, 11)), 0));
    }
}
