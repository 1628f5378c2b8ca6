//! The analysis of programs that find heavy flows and have no parameters: a record answers for its
//! switch.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::bytes::{DecodeError, Reader, Writer};
use super::{Analysis, Decision, Epoch, Record, Reported, flows};
use crate::answers::{
    Answers, CONFIDENCE, Counted, Estimate, FlowCount, FlowName, FlowSizes, FoundFlows, Frequency, HeavyFlows,
    ProgramAnswer, Query, Sizes, Task, Unit,
};
use crate::history::{Adaptation, ArchiveForm, Epochs, Kept, Reason, Reasons, SwitchGap};
use crate::pisa::hash::HashFamily;
use crate::wire::{Flow, Pattern};

/// The flows of a record.
type Found<R> = dyn Fn(&R) -> FoundFlows + Send;

/// The count of any flow, from a record. The last argument is the largest probability with which the
/// excess may be larger than the estimate says.
type Count<R> = dyn Fn(&R, &Flow, f64) -> Estimate + Send + Sync;

/// The flows by whose names a record's digests are resolved.
type Names<R> = dyn Fn(&R) -> Vec<Flow> + Send;

/// Puts the records of switches together.
pub struct HeavyAnalysis<R> {
    found: Box<Found<R>>,
    names: Option<Box<Names<R>>>,
    /// Whether each packet is in the record of one switch alone.
    adds: bool,
    counting: Option<Counting<R>>,
}

/// How records count any flow.
struct Counting<R> {
    count: Arc<Count<R>>,
    bytes: fn(&R) -> usize,
}

impl<R: Record> HeavyAnalysis<R> {
    /// Of a flow that several switches saw the largest count is taken, because each switch counts
    /// every packet that passes it. `found` gives the flows of a record.
    pub fn new(found: impl Fn(&R) -> FoundFlows + Send + 'static) -> Self {
        Self { found: Box::new(found), names: None, adds: false, counting: None }
    }

    /// The records are added up, because a packet is counted where it enters the network alone.
    pub fn adding(found: impl Fn(&R) -> FoundFlows + Send + 'static) -> Self {
        Self { adds: true, ..Self::new(found) }
    }

    /// Flows that are known by [digests](crate::answers::Digest32) have the names that `names` gives of any
    /// record of their epoch.
    #[must_use]
    pub fn naming(self, names: impl Fn(&R) -> Vec<Flow> + Send + 'static) -> Self {
        Self { names: Some(Box::new(names)), ..self }
    }

    /// The history keeps records as well, to answer about the frequency of any flow: `count` gives
    /// it from a record, and `bytes` the memory of one. Where there is no room, older epochs are kept
    /// without their records.
    #[must_use]
    pub fn counting(
        self,
        bytes: fn(&R) -> usize,
        count: impl Fn(&R, &Flow, f64) -> Estimate + Send + Sync + 'static,
    ) -> Self {
        Self { counting: Some(Counting { count: Arc::new(count), bytes }), ..self }
    }

    /// The records of the network, and its flows.
    fn network(&self, mut records: Vec<Box<R>>) -> (Vec<Box<R>>, FoundFlows) {
        let mut added = true;
        if self.adds {
            let others = records.split_off(records.len().min(1));
            if let Some(sum) = records.first_mut() {
                others.iter().for_each(|other| added &= sum.merge(other).is_ok());
            }
        }
        let names = self.names.iter().flat_map(|names| records.iter().flat_map(move |record| names(record)));
        let names: Vec<_> = names.collect();
        let found = records.iter().map(|record| {
            let mut found = (self.found)(record);
            found.resolve(names.iter().copied());
            found
        });
        let found = found.reduce(largest);
        let mut found = found.unwrap_or_default();
        found.lack.add_if(!added, Reason::Gap);
        (records, found)
    }
}

impl<R: Record> Analysis for HeavyAnalysis<R> {
    type Record = R;
    type Parameters = ();
    /// A packet is counted where and when it enters a switch.
    type Network = Records<R>;
    type Kept = KeptFlows<R>;

    const TASKS: &'static [Task] = &[Task::Heavy, Task::Flows, Task::Frequency];
    const ADDS: bool = true;

    fn fits(&self, _: &R) -> bool {
        true
    }

    fn epoch(&mut self, number: u64, (): &(), reported: Vec<Reported<'_, R>>) -> Epoch<Records<R>> {
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
        let (records, found) = self.network(records);
        let records = if self.counting.is_some() { records } else { Vec::new() };
        Epoch { number, gaps, switches, network: Records { records, found } }
    }

    fn decide(&mut self, _: &Epoch<Records<R>>, (): &(), _: u64) -> Decision<()> {
        Decision { parameters: (), why: String::new() }
    }

    fn adaptation(&self, _: &Epoch<Records<R>>) -> Option<Adaptation> {
        None
    }

    fn keep(&mut self, epoch: Epoch<Records<R>>) -> KeptFlows<R> {
        let Records { records, found } = epoch.network;
        let counters = self.counting.as_ref().map(|Counting { count, bytes }| Counters {
            bytes: records.iter().map(|record| size_of::<R>() + bytes(record)).sum(),
            count: count.clone(),
            records,
        });
        KeptFlows { counters, ..KeptFlows::new(&found) }
    }

    fn restore(&mut self, bytes: &[u8], _: Option<&HashFamily>) -> Result<KeptFlows<R>, DecodeError> {
        KeptFlows::restore(bytes)
    }
}

/// The records of an epoch, and the flows of the network.
pub struct Records<R> {
    /// None where the history does not keep them.
    records: Vec<Box<R>>,
    found: FoundFlows,
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
    let are_lower_bounds = one.are_lower_bounds && other.are_lower_bounds;
    let named_from = one.named_from.max(other.named_from);
    FoundFlows { unit: other.unit, flows, are_lower_bounds, named_from, lack }
}

impl<R> fmt::Debug for HeavyAnalysis<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeavyAnalysis")
    }
}

/// All flows of an epoch in a history, about 17 bytes each, of the program whose records are `R`.
#[derive(Debug)]
pub struct KeptFlows<R> {
    counters: Option<Counters<R>>,
    unit: Unit,
    are_lower_bounds: bool,
    /// As [`flows::write`] writes them.
    flows: Box<[u8]>,
    /// Flows that are known by a digest.
    digests: Vec<FlowCount>,
    named_from: Option<u64>,
    lack: Reasons,
    /// The records were kept, and there is no room for them any more.
    is_compacted: bool,
}

/// Version of the byte form of an archive.
const VERSION: u8 = 1;

/// What stands in an archive before the flows, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    unit: Unit,
    are_lower_bounds: bool,
    named_from: Option<u64>,
    lack: Reasons,
    is_compacted: bool,
    /// Flows that are known by a digest, with their counts.
    digests: Vec<(FlowName, u64, bool)>,
}

/// The records of an epoch, which count any flow.
struct Counters<R> {
    records: Vec<Box<R>>,
    count: Arc<Count<R>>,
    /// Memory of the records.
    bytes: usize,
}

impl<R> fmt::Debug for Counters<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").field("records", &self.records.len()).finish_non_exhaustive()
    }
}

impl<R: Record> Counters<R> {
    /// The count of a flow at the switch that says most of it.
    fn count(&self, flow: &Flow) -> Estimate {
        let doubt = (1.0 - CONFIDENCE) / self.records.len().max(1) as f64;
        let counts = self.records.iter().map(|record| (self.count)(record, flow, doubt));
        let largest = |one: Estimate, other: Estimate| Estimate {
            number: one.number.max(other.number),
            least: one.least.max(other.least),
            most: one.most.zip(other.most).map(|(one, other)| one.max(other)),
            excess: if one.number < other.number { other.excess } else { one.excess },
        };
        counts.reduce(largest).unwrap_or(Estimate::exact(0))
    }
}

impl<R: Record> KeptFlows<R> {
    pub fn new(found: &FoundFlows) -> Self {
        let (mut to, mut digests) = (Writer::default(), Vec::new());
        for flow in &found.flows {
            match flow.flow {
                FlowName::Flow(name) => flows::write(&mut to, &name, flow.count),
                FlowName::Digest(_) | FlowName::Digest32(_) => digests.push(*flow),
            }
        }
        let FoundFlows { unit, are_lower_bounds, named_from, ref lack, .. } = *found;
        let (flows, lack) = (to.0.into(), lack.clone());
        Self { counters: None, unit, are_lower_bounds, flows, digests, named_from, lack, is_compacted: false }
    }

    /// Reads the byte form of an archive: a version, the head, and the flows as they are kept.
    fn restore(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let Head { unit, are_lower_bounds, named_from, lack, is_compacted, digests } = from.json("the head")?;
        let flows: Box<[u8]> = from.rest().into();
        let mut from = Reader::new(&flows);
        while from.remaining() > 0 {
            flows::read(&mut from)?;
        }
        let digest = |(flow, number, at_least)| FlowCount { flow, count: Counted { number, at_least } };
        let digests = digests.into_iter().map(digest).collect();
        Ok(Self { counters: None, unit, are_lower_bounds, flows, digests, named_from, lack, is_compacted })
    }

    /// The flows of the epoch.
    pub fn found(&self) -> FoundFlows {
        let mut from = Reader::new(&self.flows);
        let read = std::iter::from_fn(|| (from.remaining() > 0).then(|| flows::read(&mut from).ok()).flatten());
        let flows = read.map(|(flow, count)| FlowCount { flow: FlowName::Flow(flow), count });
        let flows = flows.chain(self.digests.iter().copied()).collect();
        let Self { unit, are_lower_bounds, named_from, .. } = *self;
        FoundFlows { unit, flows, are_lower_bounds, named_from, lack: self.lack.clone() }
    }

    /// The count of the flows of a query, and why it is not complete.
    fn frequency(&self, query: &Query) -> (Estimate, Reasons) {
        let flow = query.flow.as_ref().and_then(Pattern::flow);
        if let Some((counters, flow)) = self.counters.as_ref().zip(flow) {
            return (counters.count(&flow), Reasons::default());
        }
        let mut found = self.found();
        found.resolve(flow);
        let mut lack = found.lack.clone();
        lack.extend(&found.lack_of_names());
        let is_full = |flow: &FlowCount| flow.count.at_least && query.is_meant(&flow.flow);
        lack.add_if(found.flows.iter().any(is_full), Reason::Saturated);
        lack.add_if(self.is_compacted, Reason::Forgotten);
        (found.frequency(query), lack)
    }
}

impl<R: Record> Kept for KeptFlows<R> {
    fn bytes(&self) -> usize {
        let records = self.counters.as_ref().map_or(0, |counters| counters.bytes);
        self.flows.len() + size_of_val(&self.digests[..]) + records
    }

    /// Without the records: as an epoch for which there was no room.
    fn archived(&self) -> Option<ArchiveForm> {
        let mut to = Writer(vec![VERSION]);
        let digest = |FlowCount { flow, count }: &FlowCount| (*flow, count.number, count.at_least);
        to.json(&Head {
            unit: self.unit,
            are_lower_bounds: self.are_lower_bounds,
            named_from: self.named_from,
            lack: self.lack.clone(),
            is_compacted: self.is_compacted || self.counters.is_some(),
            digests: self.digests.iter().map(digest).collect(),
        });
        to.bytes(&self.flows);
        Some(ArchiveForm { bytes: to.0, ..ArchiveForm::default() })
    }

    fn compacted(&self) -> Option<Self> {
        let Self { unit, are_lower_bounds, named_from, .. } = *self;
        let (flows, digests, lack) = (self.flows.clone(), self.digests.clone(), self.lack.clone());
        self.counters.is_some().then(|| Self {
            counters: None,
            unit,
            are_lower_bounds,
            flows,
            digests,
            named_from,
            lack,
            is_compacted: true,
        })
    }
}

impl<R: Record> Answers for KeptFlows<R> {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        match query.task {
            Task::Heavy => Some(HeavyFlows::over(R::PROGRAM, epochs, query, Self::found)),
            Task::Flows => {
                let found = FoundFlows::sum(epochs.iter().map(|entry| entry.showed.found()));
                let mut told = FlowSizes::told(Sizes { found, ..Sizes::default() }, query);
                told.lack.add_if(epochs.iter().len() == 0, Reason::NotAnalysed);
                Some(told)
            }
            Task::Frequency => {
                let (mut sum, mut lack, mut unit) = (Estimate::exact(0), Reasons::default(), Unit::default());
                for entry in epochs.iter() {
                    let (estimate, lacks) = entry.showed.frequency(query);
                    unit = entry.showed.unit;
                    sum += estimate;
                    lack.extend(&lacks);
                    lack.add_if(entry.switches.is_empty(), Reason::NotAnalysed);
                }
                Some(Frequency::told(R::PROGRAM, unit, query, sum, lack))
            }
            _ => None,
        }
    }

    fn certain(&self) -> Option<FoundFlows> {
        self.are_lower_bounds.then(|| self.found())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::Digest32;
    use crate::history::{Gap, Window};
    use crate::pisa::hash::FlowDigests;
    use crate::program::hashpipe::{Config, Counts, Digests, HashPipe, Key as HashPipeKey, Name, Scope};
    use crate::program::{Before, Program, ReportBuffer};
    use crate::wire::FiveTuple;

    fn flow(sport: u16) -> Flow {
        Flow { sport: Some(sport), ..Flow::default() }
    }

    #[test]
    fn the_network_has_the_largest_count_of_each_flow() {
        let reported = |switch: &str, record| Reported { switch: switch.into(), record, before: Before::Nothing };
        let counts = |counts: &[(u16, u64)]| {
            Ok(Box::new(counts.iter().map(|&(port, count)| (flow(port), count.into())).collect::<Counts>()))
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

    /// A flow that one switch reports is named at the others too, and one that none does stays a digest. A
    /// question about a five-tuple finds it by its digest.
    #[test]
    fn digests_have_the_names_of_any_switch() {
        let [named, unnamed] = [1, 2].map(Flow::from_port);
        let crc = |flow: &Flow| FlowDigests::default().of(flow).unwrap();
        let record = |name: Option<Flow>, counts: &[(u32, u64)]| {
            let mut names = ReportBuffer::with_capacity(3);
            name.iter().for_each(|flow| names.push(Name(FiveTuple::of_flow(flow).unwrap())));
            let mut digests = Digests::named(names.read());
            digests.counts[0].extend(counts.iter().map(|&(crc, count)| (crc, Counted::from(count))));
            Ok(Box::new(Counts { digests: Some(digests), ..Counts::default() }))
        };
        let switches =
            [record(None, &[(crc(&named), 9), (crc(&unnamed), 4)]), record(Some(named), &[(crc(&named), 7)])];
        let names = ["a", "b"].into_iter().zip(switches);
        let reported =
            names.map(|(switch, record)| Reported { switch: switch.into(), record, before: Before::Nothing });
        let mut analysis = HashPipe::analysis(&Config { key: HashPipeKey::Digest32, ..Config::default() }, 0);
        let epoch = analysis.epoch(7, &(), reported.collect());
        let kept = analysis.keep(epoch);
        let found = kept.found();
        let digest = Digest32 { is_ipv6: false, crc: crc(&unnamed), is_ambiguous: false };
        let counts = found.heaviest(9).iter().map(|flow| (flow.flow, flow.count.number)).collect::<Vec<_>>();
        assert_eq!(counts, [(FlowName::Flow(named), 9), (FlowName::Digest32(digest), 4)]);
        assert!(!found.are_lower_bounds && kept.certain().is_none());
        let about = |flow: &Flow| {
            let query =
                Query { flow: Some(flow.to_string().parse().unwrap()), ..Query::new(Task::Frequency, Window::All) };
            kept.frequency(&query)
        };
        assert_eq!(about(&named).0, Estimate::unbounded(9));
        assert!(about(&named).1.contains(Reason::DigestsUnnamed));
        assert_eq!(about(&unnamed), (Estimate::unbounded(4), [Reason::Evicted].into_iter().collect()));
    }

    #[test]
    fn kept_flows_come_back() {
        let count = Counted { number: 7, at_least: true };
        let flows = vec![
            FlowCount { flow: FlowName::Flow(flow(1)), count },
            FlowCount { flow: FlowName::Digest([9; 12]), count: 3.into() },
            FlowCount { flow: FlowName::Digest32(Digest32 { is_ipv6: true, crc: 7, is_ambiguous: true }), count },
        ];
        let found = FoundFlows { unit: Unit::Bytes, flows, named_from: Some(5), ..FoundFlows::default() };
        assert_eq!(KeptFlows::<Counts>::new(&found).found(), found);
    }

    /// An older epoch is kept without its records, and says so.
    #[test]
    fn records_go_first() {
        let mut analysis = HeavyAnalysis::new(|_: &Counts| FoundFlows::default())
            .counting(|counts| counts.flows.len() * 100, |counts, flow, _| Estimate::exact(counts.flows[flow].number));
        let mut keep = |record: Counts| {
            let reported = Reported { switch: "a".into(), record: Ok(Box::new(record)), before: Before::Nothing };
            let epoch = analysis.epoch(1, &(), vec![reported]);
            analysis.keep(epoch)
        };
        let query = Query { flow: Some("*:1 → *".parse().unwrap()), ..Query::new(Task::Frequency, Window::All) };
        let one = Flow { dport: Some(0), proto: Some(6), ..flow(1) };
        let ip = |last: u8| Some(std::net::IpAddr::from([10, 0, 0, last]));
        let one = Flow { src: ip(1), dst: ip(2), ..one };
        let kept = keep([(one, 7.into())].into_iter().collect());
        let of_one = Query { flow: Some(one.to_string().parse().unwrap()), ..query.clone() };
        assert_eq!(kept.frequency(&of_one), (Estimate::exact(7), Reasons::default()));
        assert_eq!(kept.frequency(&query).0, Estimate::unbounded(0), "several flows may match");
        let compact = kept.compacted().unwrap();
        assert!(compact.bytes() + 100 < kept.bytes() && compact.compacted().is_none());
        let (estimate, lack) = compact.frequency(&of_one);
        assert_eq!((estimate, lack.contains(Reason::Forgotten)), (Estimate::unbounded(0), true));
    }
}
