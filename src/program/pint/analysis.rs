//! Records of an epoch, from all switches of a network, become the paths of flows, the loops that
//! their packets are in, and what these told of their hops and ways.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::parameters::Coding;
use super::query::Value;
use super::record::{Digests, PlanUse};
use super::recorder::Recorder;
use super::recorder::lack::Lack;
use super::recorder::loops::LoopRecorder;
use super::recorder::values::{self, ValueRecorder};
use super::{Config, PlanId, PlanParameters};
use crate::answers::{
    Answers, Certainty, FlowPath, Latency, LoopAnswers, Loops, PathAnswers, Paths, ProgramAnswer, Query, Task,
    Utilisation, ValueAnswers, Values,
};
use crate::history::{Adaptation, ArchiveForm, Epochs, Gap, Kept, Reason, Reasons, SwitchGap};
use crate::pisa::hash::HashFamily;
use crate::program::bytes::{DecodeError, Reader, Writer};
use crate::program::{Analysis, Decision, Epoch, Reported};

/// What a network's epochs have shown so far.
pub struct PintAnalysis {
    config: Config,
    /// Of the last epoch.
    parameters: Option<PlanParameters>,
    /// Their codes; there from the first record on.
    coding: Option<Coding>,
    /// A path takes packets of several epochs.
    recorder: Recorder,
    /// `None` where loops are not asked for.
    loops: Option<LoopRecorder>,
    /// Of each query for a value that packets carry as a code.
    values: Vec<ValueRecorder>,
    waiting: Option<Waiting>,
    /// What each switch last said of its plans.
    known: BTreeMap<Arc<str>, PlanUse>,
    /// The last epoch in which switches had different plans.
    disagreed: Option<u64>,
    /// Number of epochs so far. Flows go by it: the clock may be set back.
    turn: u64,
}

/// Records of an epoch with packets that are decoded when it is known that this is the next one's
/// plan.
struct Waiting {
    epoch: u64,
    plan: PlanId,
    records: Vec<(Arc<str>, Box<Digests>)>,
    /// Why answers about the epoch's values are not complete.
    lack: Lack,
}

impl PintAnalysis {
    pub fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            parameters: None,
            coding: None,
            recorder: Recorder::new(config),
            loops: None,
            values: Vec::new(),
            waiting: None,
            known: BTreeMap::new(),
            disagreed: None,
            turn: 0,
        }
    }

    /// An epoch has these parameters. `family` is that of its records, if there are any.
    fn plan(&mut self, parameters: &PlanParameters, family: Option<&HashFamily>) {
        if self.parameters.as_ref() != Some(parameters) {
            let room = self.config.flows as usize;
            self.loops = parameters.query(Value::Loops).map(|query| match self.loops.take() {
                Some(loops) => loops.change(query),
                None => LoopRecorder::new(query, room),
            });
            self.values = values::change(std::mem::take(&mut self.values), &parameters.queries, room);
            (self.parameters, self.coding) = (Some(parameters.clone()), None);
        }
        if self.coding.is_none() {
            self.coding = family.map(|family| Coding::new(parameters.clone(), family));
        }
    }
}

/// Version of the byte form of an archive, behind which stands what is kept as JSON.
const VERSION: u8 = 1;

/// What an epoch showed, which the history keeps as it is: answers about the flows of its packets,
/// and of earlier ones whose packets these add to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Showed {
    /// `None` where no query asks for paths, and likewise below.
    paths: Option<PathAnswers>,
    loops: Option<LoopAnswers>,
    /// Of each query for another value.
    values: Vec<ValueAnswers>,
}

impl Kept for Showed {
    fn bytes(&self) -> usize {
        let path = |path: &FlowPath| size_of_val(path) + size_of_val(&path.switches[..]);
        let paths = self.paths.iter().flat_map(|paths| &paths.flows).map(path).sum::<usize>();
        let loops = self.loops.as_ref().map_or(0, |loops| size_of_val(&loops.flows[..]));
        paths + loops + self.values.iter().map(ValueAnswers::bytes).sum::<usize>()
    }

    fn archived(&self) -> Option<ArchiveForm> {
        let mut to = Writer(vec![VERSION]);
        to.json(self);
        Some(ArchiveForm { bytes: to.0, ..ArchiveForm::default() })
    }
}

impl Answers for Showed {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        Some(match query.task {
            Task::Paths => Paths::over(epochs, query, |showed| showed.paths.as_ref()),
            Task::Loops => Loops::over(epochs, query, |showed| showed.loops.as_ref()),
            Task::Latency => Latency::over(epochs, query, |showed| &showed.values),
            Task::Utilisation => Utilisation::over(epochs, query, |showed| &showed.values),
            Task::Values => Values::over(epochs, query, |showed| &showed.values),
            _ => return None,
        })
    }
}

/// The packets of a record whose plan is one of those.
fn packets(record: &Digests, plan: impl Fn(PlanId) -> bool) -> u64 {
    let streams = record.streams().iter().filter(|(stream, _)| plan(stream.plan));
    streams.map(|(_, packets)| packets.seen().len() as u64).sum()
}

impl Analysis for PintAnalysis {
    type Record = Digests;
    type Parameters = PlanParameters;
    type Network = Showed;
    type Kept = Showed;

    const TASKS: &'static [Task] = &[Task::Paths, Task::Latency, Task::Loops, Task::Utilisation, Task::Values];
    const ADDS: bool = true;

    fn fits(&self, _: &Digests) -> bool {
        true
    }

    /// A packet is decoded if all switches had the controller's plan for it: those that reported, and
    /// by what they said last those that did not. Of the packets of the next epoch that left before
    /// the transit time was over, that is so if all had one plan for that epoch; those with another
    /// plan than this epoch's wait for its records. Late packets are of an epoch before: where
    /// switches disagreed then, this epoch is not decoded either.
    fn epoch(
        &mut self,
        epoch: u64,
        parameters: &PlanParameters,
        reported: Vec<Reported<'_, Digests>>,
    ) -> Epoch<Showed> {
        let (mut gaps, mut records) = (Vec::new(), Vec::new());
        let (id, mut next, mut agreed, mut silent) = (parameters.id(), PlanUse::Unknown, true, false);
        for Reported { switch, record, .. } in reported {
            self.recorder.name(&switch);
            let mut gap = |gap| SwitchGap::add(&mut gaps, &switch, gap);
            let record = match record {
                Err(why) => {
                    gap(why);
                    if let Some(plan) = self.known.get(&switch) {
                        agreed &= *plan == PlanUse::All(id);
                        silent = true;
                    }
                    continue;
                }
                Ok(record) => record,
            };
            if record.missing() > 0 {
                gap(Gap::Overflow { reports: record.missing() });
            }
            if record.left_out() > 0 {
                gap(Gap::LargeFlows { packets: record.left_out() });
            }
            let plans = record.plans();
            match plans.epoch {
                PlanUse::All(plan) if plan != id => gap(Gap::Parameters),
                PlanUse::Several => gap(Gap::Mixed),
                _ => {}
            }
            agreed &= matches!(plans.epoch, PlanUse::Unknown) || plans.epoch == PlanUse::All(id);
            next = next.and(plans.next);
            let last = if plans.next == PlanUse::Unknown { plans.epoch } else { plans.next };
            self.known.insert(switch.clone(), last);
            records.push((switch, record));
        }
        agreed &= next != PlanUse::Several;
        let before = std::mem::replace(&mut self.disagreed, (!agreed).then_some(epoch));
        agreed &= before.is_none_or(|before| before.checked_add(1) != Some(epoch));
        self.turn += 1;
        let turn = self.turn;
        let later = match next {
            PlanUse::All(plan) if agreed && plan != id => Some(plan),
            _ => None,
        };
        let is_read = |plan| agreed && (plan == id || Some(plan) == later);
        let mut unread = |switch: &Arc<str>, reports: u64| {
            if reports > 0 {
                SwitchGap::add(&mut gaps, switch, Gap::Unread { reports });
            }
        };
        for (switch, record) in &records {
            // A switch that has another plan than the one before finds its hash by chance alone.
            let are_read = agreed && parameters.query(Value::Loops).is_some();
            let (kept, overflow) = (record.loops().kept().len() as u64, record.loops().overflow());
            let loops = if are_read { 0 } else { kept.saturating_add(overflow) };
            unread(switch, packets(record, |plan| !is_read(plan)) + loops);
        }
        let (early, mut lacks) = match self.waiting.take() {
            None => Default::default(),
            Some(waiting) if agreed && (waiting.epoch + 1, waiting.plan) == (epoch, id) => {
                (waiting.records, waiting.lack)
            }
            Some(Waiting { plan, records, .. }) => {
                records.iter().for_each(|(switch, record)| unread(switch, packets(record, |of| of == plan)));
                Default::default()
            }
        };
        let own = Lack::of(&gaps);
        lacks.extend(&own);
        let switches: Vec<_> = records.iter().map(|(switch, _)| switch.clone()).collect();
        self.plan(parameters, records.first().map(|(_, record)| record.family()));
        // What a silent switch does with packets of the next epoch is known when that one has the same
        // plan.
        let held = silent && agreed && later.is_none();
        let decoded = early.iter().chain(records.iter().filter(|_| agreed && !held));
        let decoded: Vec<_> = decoded.map(|(switch, record)| (switch.clone(), &**record)).collect();
        let mut lack = Reasons::default();
        lack.add_if(gaps.iter().any(|gap| gap.gap.hides_flows()), Reason::Gap);
        let reports = |gap: &SwitchGap| matches!(gap.gap, Gap::Overflow { .. } | Gap::Unread { .. });
        let Self { coding, recorder, loops, values, .. } = self;
        let loops = loops.as_mut().map(|loops| {
            let read = records.iter().filter(|_| agreed).map(|(switch, record)| (switch, &**record));
            let mut answers = loops.epoch(turn, read);
            answers.lack.extend(&lack);
            answers.lack.add_if(!agreed, Reason::Gap);
            answers
        });
        lack.add_if(gaps.iter().any(reports), Reason::Overflow);
        let flows = coding.as_ref().map_or(Vec::new(), |coding| recorder.epoch(turn, coding, &decoded));
        let values = values::answers(values, turn, coding.as_ref(), &decoded, recorder, &lacks);
        lack.add_if(flows.iter().any(|flow| flow.certainty == Certainty::Undecided), Reason::Undecoded);
        lack.add_if(flows.iter().any(FlowPath::is_alike), Reason::Alike);
        let paths = PathAnswers { flows, evicted: recorder.evicted(), lack };
        let paths = parameters.query(Value::Path).map(|_| paths);
        if let Some(plan) = later.or(held.then_some(id)) {
            self.waiting = Some(Waiting { epoch, plan, records, lack: own });
        }
        Epoch { number: epoch, gaps, switches, network: Showed { paths, loops, values } }
    }

    /// Queries change when people change them.
    fn decide(&mut self, _: &Epoch<Showed>, latest: &PlanParameters, _: u64) -> Decision<PlanParameters> {
        Decision { parameters: latest.clone(), why: String::new() }
    }

    fn adaptation(&self, _: &Epoch<Showed>) -> Option<Adaptation> {
        None
    }

    fn keep(&mut self, epoch: Epoch<Showed>) -> Showed {
        epoch.network
    }

    fn restore(&mut self, bytes: &[u8], _: Option<&HashFamily>) -> Result<Showed, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let showed = from.json("what an epoch showed")?;
        from.end().map(|()| showed)
    }
}
