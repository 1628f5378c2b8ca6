//! The analysis of programs that find heavy flows and have no parameters: a record answers for its
//! switch.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::answers::{
    Adaptation, EpochAnswers, FlowAnswers, FlowCount, FlowName, Limits, Reason, Reasons, SwitchAnswers, SwitchGap, Task,
};
use super::{Analysis, Counted, Decision, Epoch, Record, Reported, Unit};

/// The heaviest flows of a record: of all that it knows, at most so many.
type Answer<R> = dyn Fn(&R, usize) -> FlowAnswers + Send;

/// Puts the records of switches together.
pub struct HeavyAnalysis<R> {
    answer: Box<Answer<R>>,
    /// Whether each packet is in the record of one switch alone.
    adds: bool,
}

impl<R: Record> HeavyAnalysis<R> {
    /// Of a flow that several switches saw the largest count is taken, because each switch counts
    /// every packet that passes it. `answer` gives the heaviest flows of a record, at most so many.
    pub fn new(answer: impl Fn(&R, usize) -> FlowAnswers + Send + 'static) -> Self {
        Self { answer: Box::new(answer), adds: false }
    }

    /// The records are added up, because a packet is counted where it enters the network alone.
    pub fn adding(answer: impl Fn(&R, usize) -> FlowAnswers + Send + 'static) -> Self {
        Self { adds: true, ..Self::new(answer) }
    }

    /// The flows of the network.
    fn network(&self, network: &Network<R>, switches: &[SwitchAnswers], max: usize) -> FlowAnswers {
        let mut records = network.iter().map(|(_, record)| record);
        match (switches, records.next()) {
            ([only], _) => only.answers.clone(),
            (_, Some(first)) if self.adds => {
                let mut sum = first.clone();
                let added = records.all(|record| sum.merge(record).is_ok());
                let mut all = (self.answer)(&sum, max);
                all.lack.add_if(!added, Reason::Gap);
                all
            }
            (several, _) => largest(several),
        }
    }
}

/// The records of one epoch, by switch.
type Network<R> = Vec<(Arc<str>, Box<R>)>;

impl<R: Record> Analysis for HeavyAnalysis<R> {
    type Record = R;
    type Parameters = ();
    /// A packet is counted where and when it enters a switch.
    type Early = ();
    type Network = Network<R>;

    const TASKS: &'static [Task] = &[Task::Heavy, Task::Flows];
    const ADDS: bool = true;

    fn fits(&self, _: &R) -> bool {
        true
    }

    fn early(&self, _: &mut R) -> Option<()> {
        Some(())
    }

    fn epoch(&mut self, epoch: u64, (): &(), reported: Vec<Reported<'_, Box<R>, ()>>, _: bool) -> Epoch<Network<R>> {
        let mut network = Epoch { number: epoch, gaps: Vec::new(), network: Vec::with_capacity(reported.len()) };
        for Reported { switch, record, .. } in reported {
            match record {
                Ok(record) => network.network.push((switch, record)),
                Err(gap) => network.gaps.push(SwitchGap { switch, gap }),
            }
        }
        network
    }

    fn decide(&mut self, _: &Epoch<Network<R>>, (): &(), _: u64) -> Decision<()> {
        Decision { parameters: (), why: String::new() }
    }

    fn answers(&self, network: &Epoch<Network<R>>, _: Option<&Epoch<Network<R>>>, limits: Limits) -> EpochAnswers {
        let max = if network.len() > 1 { usize::MAX } else { limits.flows.max(limits.switch_flows) };
        let of_switch = |(switch, record): &(Arc<str>, Box<R>)| SwitchAnswers {
            switch: switch.clone(),
            answers: (self.answer)(record, max),
        };
        let mut switches: Vec<_> = network.iter().map(of_switch).collect();
        let mut all = self.network(network, &switches, max);
        all.keep(limits.flows);
        all.lack.add_if(!network.gaps.is_empty(), Reason::Gap);
        switches.iter_mut().for_each(|switch| switch.answers.keep(limits.switch_flows));
        EpochAnswers {
            epoch: network.number,
            first_epoch: network.number,
            gaps: network.gaps.clone(),
            network: all,
            switches,
            ..EpochAnswers::default()
        }
    }

    fn adaptation(&self, _: &Epoch<Network<R>>) -> Option<Adaptation> {
        None
    }
}

/// The flows of all switches, each with its largest count.
fn largest(switches: &[SwitchAnswers]) -> FlowAnswers {
    let (mut unit, mut lack) = (Unit::default(), Reasons::default());
    let mut largest: FxHashMap<FlowName, Counted> = FxHashMap::default();
    for SwitchAnswers { answers, .. } in switches {
        unit = answers.unit;
        lack.extend(&answers.lack);
        for FlowCount { flow, count } in &answers.heavy {
            let largest = largest.entry(*flow).or_default();
            *largest = (*count).max(*largest);
        }
    }
    let found = largest.into_iter().map(|(flow, count)| FlowCount { flow, count }).collect();
    FlowAnswers { lack, ..FlowAnswers::heaviest(unit, found, usize::MAX) }
}

impl<R> fmt::Debug for HeavyAnalysis<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeavyAnalysis")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::answers::Gap;
    use crate::program::hashpipe::{Config, Counts, HashPipe, Scope};
    use crate::program::{Before, Program};
    use crate::wire::Flow;

    fn flow(sport: u16) -> Flow {
        Flow { sport: Some(sport), ..Flow::default() }
    }

    #[test]
    fn the_network_has_the_largest_count_of_each_flow() {
        let mut analysis = HashPipe::analysis(&Default::default(), 0);
        let reported = |switch: &str, record| Reported { switch: switch.into(), record, before: Before::Nothing };
        let counts = |counts: &[(u16, u64)]| {
            Ok(Box::new(Counts(counts.iter().map(|&(port, count)| (flow(port), count.into())).collect())))
        };
        let switches = vec![
            reported("a", counts(&[(1, 10), (2, 30), (3, 1)])),
            reported("b", counts(&[(1, 12), (4, 5)])),
            reported("c", Err(Gap::Missing)),
        ];
        let epoch = analysis.epoch(7, &(), switches, true);
        let answers = analysis.answers(&epoch, None, Limits { flows: 3, switch_flows: 1, losses: 0 });
        let named = |answers: &FlowAnswers| answers.heavy.iter().map(|f| (f.flow, f.count.number)).collect::<Vec<_>>();
        let expected = [(2, 30), (1, 12), (4, 5)].map(|(port, count)| (FlowName::Flow(flow(port)), count));
        assert_eq!((named(&answers.network), answers.network.found), (expected.to_vec(), 4));
        assert_eq!((answers.epoch, answers.gaps.len(), answers.switches.len()), (7, 1, 2));
        let first = &answers.switches[1].answers;
        assert_eq!((named(first), first.found), (vec![(FlowName::Flow(flow(1)), 12)], 2));
        assert!(!answers.network.lack.is_empty() && analysis.adaptation(&epoch).is_none());

        // Where each packet is counted once, all counts of a flow are its own.
        let adding = HashPipe::analysis(&Config { scope: Scope::Network, ..Config::default() }, 0);
        let answers = adding.answers(&epoch, None, Limits { flows: 3, switch_flows: 1, losses: 0 });
        let expected = [(2, 30), (1, 22), (4, 5)].map(|(port, count)| (FlowName::Flow(flow(port)), count));
        assert_eq!((named(&answers.network), answers.network.found), (expected.to_vec(), 4));
        assert!(answers.network.lack.iter().any(|reason| reason == Reason::Gap));
    }
}
