//! A run that has an end, such as a replay: all epochs of each program in one record.

use std::sync::{Arc, Mutex, MutexGuard};

use super::epoch::Nanos;
use super::{Closed, Collector, Selected, Sink};
use crate::lock::Hold;
use crate::program::answers::{Gap, Task};
use crate::program::{AnyRecord, ProgramConfig, Truth};

/// The name of the only switch of a run.
const SWITCH: &str = "weir";

/// What a program answers about a run.
#[derive(Debug, Default)]
pub struct Answered {
    /// All epochs as one.
    pub epochs: Selected,
    /// The tasks that it answers about a run.
    pub tasks: Vec<Task>,
    /// [`RunAnswers::distribution_wmre`](crate::program::RunAnswers::distribution_wmre).
    pub distribution_wmre: Option<f64>,
}

/// The records of a run, added up. Its memory grows with the flows.
#[derive(Clone, Debug)]
pub struct Run {
    programs: Arc<Mutex<Vec<Program>>>,
    /// Length of an epoch; 0 where all of the run is one.
    length: Nanos,
}

/// What there is of one program.
#[derive(Debug)]
struct Program {
    config: ProgramConfig,
    record: Option<AnyRecord>,
    epochs: Option<(u64, u64)>,
    /// Gaps of the answers: records that could not be added, and those that the packets' source states.
    gaps: Vec<Gap>,
}

impl Run {
    /// Adds up what `collector` hands on. `programs` are in the order of the configuration, and
    /// `length` is that of an epoch, or 0 where all of the run is one.
    pub fn of(collector: &mut Collector, programs: &[ProgramConfig], length: Nanos) -> Self {
        let program =
            |config: &ProgramConfig| Program { config: config.clone(), record: None, epochs: None, gaps: Vec::new() };
        let programs = Arc::new(Mutex::new(programs.iter().map(program).collect()));
        let run = Self { programs, length };
        collector.subscribe(Box::new(run.clone()));
        run
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Program>> {
        self.programs.hold()
    }

    /// The record of program number `program` over all epochs; `None` before the first one ends.
    pub fn record(&self, program: usize) -> Option<AnyRecord> {
        self.lock().get(program)?.record.clone()
    }

    /// The epochs that the record covers.
    pub fn epochs(&self, program: usize) -> Option<(u64, u64)> {
        self.lock().get(program)?.epochs
    }

    /// Says what all answers lack.
    pub fn lacks(&self, gap: Gap) {
        self.lock().iter_mut().for_each(|program| program.gaps.push(gap));
    }

    /// Answers of program number `program`, with at most `max` flows of each kind; about no epoch
    /// where none has ended.
    pub fn answers(&self, program: usize, truth: Option<&Truth>, max: usize) -> Option<Answered> {
        let programs = self.lock();
        let Program { config, record, epochs, gaps } = programs.get(program)?;
        let answered = Task::ALL.into_iter().filter(|task| config.rank(*task).is_some());
        let Some(record) = record else {
            return Some(Answered { tasks: answered.collect(), ..Answered::default() });
        };
        let answers = config.run(record, truth, max)?;
        let distribution_wmre = answers.distribution_wmre;
        let switch = SWITCH.into();
        let mut answers = answers.into_epoch(&switch, epochs.unwrap_or_default());
        gaps.iter().for_each(|gap| answers.spoil(&switch, *gap));
        let first = answers.first_epoch;
        let tasks = answered.filter(|task| answers.has(*task)).collect();
        let epochs = Selected { epochs: vec![Arc::new(answers)], first, length: self.length, ..Selected::default() };
        Some(Answered { epochs, tasks, distribution_wmre })
    }
}

impl Sink for Run {
    fn closed(&mut self, Closed { program, first, last, record, .. }: Closed<'_>) {
        let mut programs = self.lock();
        let Some(program) = programs.get_mut(program) else { return };
        match &mut program.record {
            None => program.record = Some(record.clone()),
            Some(sum) => {
                if let Err(error) = sum.add_epoch(record) {
                    tracing::error!(target: "weir", event = "records", "epoch {last}: {error}");
                    if !program.gaps.contains(&Gap::Foreign) {
                        program.gaps.push(Gap::Foreign);
                    }
                    return;
                }
            }
        }
        program.epochs = Some(program.epochs.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
    }

    fn partial(&mut self, epoch: Closed<'_>) {
        self.closed(epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::answers::Reason;
    use crate::program::hashpipe::{Config, Counts, HashPipe};
    use crate::wire::Flow;

    fn record(counts: impl IntoIterator<Item = (u16, u64)>) -> AnyRecord {
        let flow = |sport| Flow { sport: Some(sport), ..Flow::default() };
        Box::new(Counts(counts.into_iter().map(|(port, count)| (flow(port), count.into())).collect()))
    }

    #[test]
    fn the_run_keeps_every_flow() {
        let mut run = Run::of(&mut Collector::new(Vec::new()), &[ProgramConfig::new::<HashPipe>(Config::default())], 0);
        let nothing = run.answers(0, None, 9).unwrap();
        assert!(nothing.epochs.epochs.is_empty() && nothing.tasks.contains(&Task::Heavy) && run.epochs(0).is_none());
        run.closed(Closed { program: 0, first: 4, last: 4, late: 0, record: &record((0..3000).map(|port| (port, 2))) });
        run.partial(Closed { program: 0, first: 9, last: 11, late: 0, record: &record([(0, 5), (5000, 1)]) });
        let epochs = run.answers(0, None, usize::MAX).unwrap().epochs.epochs;
        let heavy = &epochs[0].network;
        assert_eq!((heavy.heavy.len(), heavy.heavy[0].count.number, heavy.found), (3001, 7, 3001));
        assert_eq!(run.epochs(0), Some((4, 11)));
        assert!(run.record(1).is_none());
    }

    /// The record of another program changes nothing, and no answer is complete any more.
    #[test]
    fn a_record_that_does_not_fit_is_a_gap() {
        let mut run = Run::of(&mut Collector::new(Vec::new()), &[ProgramConfig::networked()], 0);
        let own = ProgramConfig::networked().build("s", &crate::pisa::hash::HashFamily::reproducible(1)).unwrap();
        let own = own.spare().record();
        run.closed(Closed { program: 0, first: 1, last: 1, late: 0, record: &own });
        let complete = |run: &Run| {
            let epochs = run.answers(0, None, 9).unwrap().epochs.epochs;
            (!epochs[0].network.lack.contains(Reason::Gap), !epochs[0].losses_lack.contains(Reason::Gap))
        };
        assert_eq!(complete(&run), (true, true));
        run.closed(Closed { program: 0, first: 2, last: 2, late: 0, record: &record([(1, 1)]) });
        assert_eq!((complete(&run), run.epochs(0)), ((false, false), Some((1, 1))));
        assert_eq!(run.record(0).unwrap().encode(), own.encode());
    }
}
