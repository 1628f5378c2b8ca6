//! The analysis of programs that find heavy flows and have no parameters: a record answers for its
//! switch.

use std::fmt;
use std::marker::PhantomData;

use rustc_hash::FxHashMap;

use super::bytes::{Reader, Writer};
use super::{Analysis, Decision, Epoch, Record, Reported, flows};
use crate::answers::{
    Answers, Counted, FlowCount, FlowName, FlowSizes, FoundFlows, HeavyFlows, Query, Sizes, Task, Told, Unit,
};
use crate::history::{Adaptation, Epochs, Kept, Reason, Reasons, SwitchGap};

/// The flows of a record.
type Found<R> = dyn Fn(&R) -> FoundFlows + Send;

/// Puts the records of switches together.
pub struct HeavyAnalysis<R> {
    found: Box<Found<R>>,
    /// Whether each packet is in the record of one switch alone.
    adds: bool,
}

impl<R: Record> HeavyAnalysis<R> {
    /// Of a flow that several switches saw the largest count is taken, because each switch counts
    /// every packet that passes it. `found` gives the flows of a record.
    pub fn new(found: impl Fn(&R) -> FoundFlows + Send + 'static) -> Self {
        Self { found: Box::new(found), adds: false }
    }

    /// The records are added up, because a packet is counted where it enters the network alone.
    pub fn adding(found: impl Fn(&R) -> FoundFlows + Send + 'static) -> Self {
        Self { adds: true, ..Self::new(found) }
    }

    /// The flows of the network.
    fn network(&self, mut records: impl Iterator<Item = Box<R>>) -> FoundFlows {
        let Some(mut first) = records.next() else { return FoundFlows::default() };
        if self.adds {
            let mut added = true;
            for record in records {
                added &= first.merge(&record).is_ok();
            }
            let mut found = (self.found)(&first);
            found.lack.add_if(!added, Reason::Gap);
            return found;
        }
        let found = (self.found)(&first);
        records.fold(found, |found, record| largest(found, (self.found)(&record)))
    }
}

impl<R: Record> Analysis for HeavyAnalysis<R> {
    type Record = R;
    type Parameters = ();
    /// A packet is counted where and when it enters a switch.
    type Early = ();
    type Network = FoundFlows;
    type Kept = KeptFlows<R>;

    const TASKS: &'static [Task] = &[Task::Heavy, Task::Flows];
    const ADDS: bool = true;

    fn fits(&self, _: &R) -> bool {
        true
    }

    fn early(&self, _: &mut R) -> Option<()> {
        Some(())
    }

    fn epoch(&mut self, number: u64, (): &(), reported: Vec<Reported<'_, Box<R>, ()>>) -> Epoch<FoundFlows> {
        let (mut gaps, mut switches, mut records) = (Vec::new(), Vec::new(), Vec::new());
        for Reported { switch, record, .. } in reported {
            match record {
                Ok(record) => {
                    switches.push(switch);
                    records.push(record);
                }
                Err(gap) => gaps.push(SwitchGap { switch, gap }),
            }
        }
        Epoch { number, gaps, switches, network: self.network(records.into_iter()) }
    }

    fn decide(&mut self, _: &Epoch<FoundFlows>, (): &(), _: u64) -> Decision<()> {
        Decision { parameters: (), why: String::new() }
    }

    fn adaptation(&self, _: &Epoch<FoundFlows>) -> Option<Adaptation> {
        None
    }

    fn keep(&mut self, epoch: Epoch<FoundFlows>) -> KeptFlows<R> {
        KeptFlows::new(&epoch.network)
    }
}

/// The flows of both, each with its larger count.
fn largest(one: FoundFlows, other: FoundFlows) -> FoundFlows {
    let mut lack = one.lack;
    lack.extend(&other.lack);
    let mut largest: FxHashMap<FlowName, Counted> = FxHashMap::default();
    for FlowCount { flow, count } in one.flows.into_iter().chain(other.flows) {
        let largest = largest.entry(flow).or_default();
        *largest = count.max(*largest);
    }
    let flows = largest.into_iter().map(|(flow, count)| FlowCount { flow, count }).collect();
    FoundFlows { unit: other.unit, flows, named_from: one.named_from.max(other.named_from), lack }
}

impl<R> fmt::Debug for HeavyAnalysis<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeavyAnalysis")
    }
}

/// All flows of an epoch in a history, about 17 bytes each, of the program whose records are `R`.
#[derive(Debug)]
pub struct KeptFlows<R> {
    unit: Unit,
    /// As [`flows::write`] writes them.
    flows: Box<[u8]>,
    /// Flows that are known by a digest.
    digests: Vec<FlowCount>,
    named_from: Option<u64>,
    lack: Reasons,
    of: PhantomData<fn() -> R>,
}

impl<R: Record> KeptFlows<R> {
    pub fn new(found: &FoundFlows) -> Self {
        let (mut to, mut digests) = (Writer::default(), Vec::new());
        for flow in &found.flows {
            match flow.flow {
                FlowName::Flow(name) => flows::write(&mut to, &name, flow.count),
                FlowName::Digest(_) => digests.push(*flow),
            }
        }
        let (unit, named_from, lack) = (found.unit, found.named_from, found.lack.clone());
        Self { unit, flows: to.0.into(), digests, named_from, lack, of: PhantomData }
    }

    /// The flows of the epoch.
    pub fn found(&self) -> FoundFlows {
        let mut from = Reader::new(&self.flows);
        let read = std::iter::from_fn(|| (from.remaining() > 0).then(|| flows::read(&mut from).ok()).flatten());
        let flows = read.map(|(flow, count)| FlowCount { flow: FlowName::Flow(flow), count });
        let flows = flows.chain(self.digests.iter().copied()).collect();
        FoundFlows { unit: self.unit, flows, named_from: self.named_from, lack: self.lack.clone() }
    }
}

impl<R: Record> Kept for KeptFlows<R> {
    fn bytes(&self) -> usize {
        self.flows.len() + size_of_val(&self.digests[..])
    }
}

impl<R: Record> Answers for KeptFlows<R> {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<Told> {
        match query.task {
            Task::Heavy => Some(HeavyFlows::over(R::PROGRAM, epochs, query, Self::found)),
            Task::Flows => {
                let found = FoundFlows::sum(epochs.iter().map(|entry| entry.showed.found()));
                let mut told = FlowSizes::told(Sizes { found, ..Sizes::default() }, query);
                told.lack.add_if(epochs.iter().len() == 0, Reason::NotAnalysed);
                Some(told)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Gap;
    use crate::program::hashpipe::{Config, Counts, HashPipe, Scope};
    use crate::program::{Before, Program};
    use crate::wire::Flow;

    fn flow(sport: u16) -> Flow {
        Flow { sport: Some(sport), ..Flow::default() }
    }

    #[test]
    fn the_network_has_the_largest_count_of_each_flow() {
        let reported = |switch: &str, record| Reported { switch: switch.into(), record, before: Before::Nothing };
        let counts = |counts: &[(u16, u64)]| {
            Ok(Box::new(Counts(counts.iter().map(|&(port, count)| (flow(port), count.into())).collect())))
        };
        let named = |scope| {
            let switches = vec![
                reported("a", counts(&[(1, 10), (2, 30), (3, 1)])),
                reported("b", counts(&[(1, 12), (4, 5)])),
                reported("c", Err(Gap::Missing)),
            ];
            let mut analysis = HashPipe::analysis(&Config { scope, ..Config::default() }, 0);
            let epoch = analysis.epoch(7, &(), switches);
            assert_eq!((epoch.gaps.len(), epoch.switches.len(), analysis.adaptation(&epoch)), (1, 2, None));
            let mut found = analysis.keep(epoch).found().flows;
            found.sort_unstable_by_key(|flow| flow.flow);
            found.iter().map(|found| (found.flow, found.count.number)).collect::<Vec<_>>()
        };
        let of = |flows: [(u16, u64); 4]| flows.map(|(port, count)| (FlowName::Flow(flow(port)), count)).to_vec();
        assert_eq!(named(Scope::Switch), of([(1, 12), (2, 30), (3, 1), (4, 5)]));
        // Where each packet is counted once, all counts of a flow are its own.
        assert_eq!(named(Scope::Network), of([(1, 22), (2, 30), (3, 1), (4, 5)]));
    }

    #[test]
    fn kept_flows_come_back() {
        let count = Counted { number: 7, at_least: true };
        let flows = vec![
            FlowCount { flow: FlowName::Flow(flow(1)), count },
            FlowCount { flow: FlowName::Digest([9; 12]), count: 3.into() },
        ];
        let found = FoundFlows { unit: Unit::Bytes, flows, named_from: Some(5), ..FoundFlows::default() };
        assert_eq!(KeptFlows::<Counts>::new(&found).found(), found);
    }
}
