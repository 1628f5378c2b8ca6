//! Answers of programs about the last epoch whose answers are final. They are made when metrics are read, at
//! most once a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::totals::about;
use crate::answers::{
    Claim, Claimed, Document, HeavyFlow, HeavyFlows, Links, Losses, NoAnswer, Numbers, Places, Query, Queryable,
    Surroundings, Task, Unit,
};
use crate::archive;
use crate::history::{Reason, Window};
use crate::program::ProgramConfig;

/// How long an answer is good enough.
const REFRESH: Duration = Duration::from_secs(1);
/// How long a flow's name takes room after it was shown.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Names that have room, for each flow that is shown at a time.
const NAMES: usize = 4;

/// A program's answers about one epoch. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Newest {
    pub victims: Option<u64>,
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
    pub heavy: Option<HeavyShown>,
    /// Why the answer to each task is not complete; empty of one that is.
    pub lacks: BTreeMap<Task, Vec<Reason>>,
}

/// The heaviest flows with their counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeavyShown {
    pub unit: Unit,
    pub flows: BTreeMap<String, u64>,
    /// Flows that are as heavy, and whose names found no room.
    pub unnamed: u64,
}

/// The flows whose names are labels, so that these change little and are few.
#[derive(Debug, Default)]
pub struct FlowLabels(BTreeMap<String, Instant>);

impl FlowLabels {
    /// At most `most` of these flows, which stand in the order of their counts: those that have a label, and
    /// others as long as there is room for one.
    fn choose(&mut self, heaviest: &[HeavyFlow], unit: Unit, most: usize, now: Instant) -> HeavyShown {
        self.0.retain(|_, shown| now.saturating_duration_since(*shown) < REMEMBERED);
        let mut shown = HeavyShown { unit, ..HeavyShown::default() };
        for (rank, flow) in heaviest.iter().enumerate() {
            if shown.flows.len() == most {
                break;
            }
            let name = flow.name.to_string();
            if self.0.contains_key(&name) || self.0.len() < NAMES * most {
                self.0.insert(name.clone(), now);
                shown.flows.insert(name, flow.count());
            } else if rank < most {
                shown.unnamed += 1;
            }
        }
        shown
    }
}

/// The newest answers of all programs.
#[derive(Default)]
pub struct NewestAnswers {
    made: Option<Instant>,
    answers: BTreeMap<String, Newest>,
    labels: BTreeMap<String, FlowLabels>,
}

/// A program as it is asked: its name in results, its history and its last final epoch.
pub struct Asked<'a> {
    pub name: &'a str,
    pub program: &'a ProgramConfig,
    pub history: &'a Arc<dyn Queryable>,
    pub epoch: u64,
    pub links: &'a Links,
}

impl NewestAnswers {
    /// The answers by the names of programs, with at most `most` heavy flows of each.
    pub fn of(&mut self, programs: &[Asked<'_>], most: usize, now: Instant) -> &BTreeMap<String, Newest> {
        let is_new = |made: &Instant| now.saturating_duration_since(*made) < REFRESH;
        if !self.made.as_ref().is_some_and(is_new) {
            let histories: Vec<_> = programs.iter().map(|asked| asked.history.clone()).collect();
            self.answers.clear();
            self.labels.retain(|name, _| programs.iter().any(|asked| asked.name == name));
            for asked in programs {
                let labels = self.labels.entry(asked.name.into()).or_default();
                self.answers.insert(asked.name.into(), asked.answers(&histories, labels, most, now));
            }
            self.made = Some(now);
        }
        &self.answers
    }
}

impl Asked<'_> {
    fn answers(&self, all: &[Arc<dyn Queryable>], labels: &mut FlowLabels, most: usize, now: Instant) -> Newest {
        let mut newest = Newest::default();
        if let Some(losses) = self.ask::<Losses>(&mut newest, all, 0) {
            newest.victims = (losses.unknown_epochs == 0).then_some(losses.victims);
        }
        if let Some(numbers) = self.ask::<Numbers>(&mut newest, all, 0)
            && let Some(of_epoch) = numbers.epochs.last()
        {
            (newest.flows, newest.entropy_bits) = (of_epoch.flows, of_epoch.entropy_bits);
        }
        self.ask::<Places>(&mut newest, all, 0);
        if most > 0
            && let Some(heavy) = self.ask::<HeavyFlows>(&mut newest, all, 2 * most)
        {
            newest.heavy = Some(labels.choose(&heavy.heavy, heavy.unit, most, now));
        }
        newest
    }

    /// The answer about the epoch; `None` of a program that does not answer the task, or has forgotten it.
    fn ask<A: Document>(&self, newest: &mut Newest, all: &[Arc<dyn Queryable>], top: usize) -> Option<Claimed<A>> {
        self.program.rank(A::TASK)?;
        let query = about(A::TASK, Window::Epoch(self.epoch)).limited(top, 1);
        let surroundings = || Arc::new(Surroundings { links: self.links.clone(), ..Surroundings::default() });
        let query = Query {
            routes: archive::routes(all, &**self.history, self.epoch),
            surroundings: (A::TASK == Task::Places).then(surroundings),
            ..query
        };
        let answer: Result<Claimed<A>, NoAnswer> = self.history.answer(&query);
        let answer = answer.ok().filter(|answer| answer.claim.last_epoch.is_some())?;
        let Claim { incomplete, .. } = &answer.claim;
        newest.lacks.insert(A::TASK, incomplete.iter().collect());
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::{FlowCount, FlowName};
    use crate::wire::Flow;

    fn heavy(ports: &[u16]) -> Vec<HeavyFlow> {
        let flow = |port: &u16| FlowCount { flow: FlowName::Flow(Flow::from_port(*port)), count: 7u64.into() };
        ports.iter().map(|port| HeavyFlow::new(&flow(port), Unit::Packets)).collect()
    }

    /// Flows that come and go take the names of no more flows than there is room for, keep theirs as long as
    /// they are remembered, and those without are counted.
    #[test]
    fn names_of_flows_are_few() {
        let mut labels = FlowLabels::default();
        let start = Instant::now();
        let mut at = |seconds: u64, ports: &[u16]| {
            let now = start + Duration::from_secs(seconds);
            let shown = labels.choose(&heavy(ports), Unit::Packets, 2, now);
            (shown.flows.into_keys().collect::<Vec<_>>(), shown.unnamed)
        };
        let names = |ports: &[u16]| heavy(ports).iter().map(|flow| flow.name.to_string()).collect::<Vec<_>>();
        assert_eq!(at(0, &[1, 2, 3, 4]), (names(&[1, 2]), 0));
        assert_eq!(at(1, &[3, 4, 1, 2]), (names(&[3, 4]), 0));
        assert_eq!(at(2, &[5, 6, 1, 2]), (names(&[5, 6]), 0));
        assert_eq!(at(3, &[7, 8, 9, 10]), (names(&[7, 8]), 0), "the last names for which there is room");
        assert_eq!(at(4, &[9, 2, 1, 8]), (names(&[1, 2]), 1), "9 has no name, and others have");
        assert_eq!(at(5, &[9, 10, 11, 12]), (vec![], 2));
        assert_eq!(at(603, &[9, 10, 1, 2]), (names(&[10, 9]), 0), "names that nobody has seen for long make room");
    }
}
