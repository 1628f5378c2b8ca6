//! The answers of one program about one epoch, by task, bounded in memory.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Gap, LoopAnswers, PathAnswers, Reason, Reasons, SwitchGap, Task, ValueAnswers};
use crate::program::{Counted, Unit};
use crate::wire::Flow;

/// What names a flow: its fields, or a digest when the program knows only that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlowName {
    Flow(Flow),
    /// 96 bits, of an IPv6 flow.
    Digest([u8; 12]),
}

impl FlowName {
    /// The flow, unless only its digest is known.
    pub fn flow(&self) -> Option<Flow> {
        match self {
            Self::Flow(flow) => Some(*flow),
            Self::Digest(_) => None,
        }
    }

    /// A digest in hexadecimal.
    pub fn digest(&self) -> Option<String> {
        match self {
            Self::Flow(_) => None,
            Self::Digest(digest) => Some(digest.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }
}

impl fmt::Display for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flow(flow) => flow.fmt(f),
            Self::Digest(_) => f.pad(&format!("ipv6 flow {}", self.digest().unwrap_or_default())),
        }
    }
}

impl fmt::Debug for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A flow and its packets, or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCount {
    pub flow: FlowName,
    pub count: Counted,
}

/// The tasks about flows: heavy flows, their number, the distribution of their sizes and its
/// entropy. Of a switch, or of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowAnswers {
    /// What flows' counts are in.
    pub unit: Unit,
    /// Number of flows; `None` when it is not measured, or too large to tell.
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
    /// Flows by size in packets. Sizes from 256 on are rounded down to seven binary digits.
    pub distribution: Option<Vec<(u32, f64)>>,
    /// The heaviest flows, the heaviest first, and the number of all that were found.
    pub heavy: Vec<FlowCount>,
    pub found: usize,
    /// Every flow of at least this count is among them, unless [`Self::lack`] says why not. `None`
    /// when nothing is promised of any count.
    pub named_from: Option<u64>,
    pub lack: Reasons,
}

impl FlowAnswers {
    /// The `max` heaviest of the flows that were found, the heaviest first; equal counts in the
    /// order of the flows' fields.
    pub fn heaviest(unit: Unit, mut found: Vec<FlowCount>, max: usize) -> Self {
        let flows = found.len();
        found.sort_unstable_by(|a, b| b.count.cmp(&a.count).then(a.flow.cmp(&b.flow)));
        let mut heaviest = Self { unit, heavy: found, found: flows, ..Self::default() };
        heaviest.keep(max);
        heaviest
    }

    /// Keeps at most so many flows, and no memory for more.
    pub fn keep(&mut self, max: usize) {
        self.heavy.truncate(max);
        self.heavy.shrink_to_fit();
    }
}

/// One switch's answers.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchAnswers {
    pub switch: Arc<str>,
    pub answers: FlowAnswers,
}

/// Packets of a flow that entered and did not leave, or left and did not enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub flow: FlowName,
    pub lost: u64,
    pub gained: u64,
    /// Whether all packets of the flow were measured.
    pub exact: bool,
}

/// The task losses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Losses {
    /// Those that are largest.
    pub flows: Vec<Loss>,
    /// Packets, whether their flows are known or not.
    pub lost_packets: u64,
    pub gained_packets: u64,
    /// Number of flows that lost packets, and of flows that gained some, as found.
    pub victims: usize,
    pub gainers: usize,
}

/// A flow whose size changed from one epoch to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub flow: FlowName,
    pub before: u64,
    pub after: u64,
}

/// The task changes: against the epoch before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The flows that changed most, and the number of those that are not kept.
    pub flows: Vec<Change>,
    pub omitted: usize,
    /// A flow that changed by as much is among them, unless [`Self::lack`] says why not.
    pub named_from: u64,
    pub lack: Reasons,
    /// What is missing of the flows of the earlier epoch.
    pub gaps: Vec<SwitchGap>,
}

/// Parameters as people and JSON see them; keys have units in their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Described {
    /// The state of the network that they are for, as the program calls it.
    pub state: String,
    pub parameters: Map<String, Value>,
}

/// What an epoch was measured with, and what its controller changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adaptation {
    pub measured: Described,
    /// What the decision was made from.
    pub facts: Map<String, Value>,
    /// Parameters of a later epoch, from which on they hold.
    pub update: Option<(u64, Described)>,
    /// Why, in words.
    pub why: String,
}

/// Whether an epoch's answers can still change, and how they have changed since they were final.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finality {
    /// All records that can count packets of the epoch up to the horizon have come, or were missed.
    pub is_final: bool,
    /// Changes of final answers.
    pub amendments: u64,
    /// Number of the latest publication or change, among those of a store.
    pub sequence: u64,
    /// Packets that left later than the horizon. The answers count them as lost.
    pub late_packets: u64,
    /// Gaps that last until the answers are final: later records say what was missing.
    pub waiting: Vec<SwitchGap>,
}

impl Finality {
    /// Of answers that no later record changes.
    pub fn at_once() -> Self {
        Self { is_final: true, ..Self::default() }
    }
}

/// One epoch's answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EpochAnswers {
    /// The epoch, and the first one that its answers cover, which is another when a collector was
    /// late.
    pub epoch: u64,
    pub first_epoch: u64,
    /// What is missing, and where.
    pub gaps: Vec<SwitchGap>,
    /// Over the switches whose flows are known; one switch's answers are the network's.
    pub network: FlowAnswers,
    pub switches: Vec<SwitchAnswers>,
    /// `None` when a gap hides them, or they are not measured.
    pub losses: Option<Losses>,
    /// Why they are not all, or not exact.
    pub losses_lack: Reasons,
    /// `None` when there is no epoch before to compare with, or changes are not measured.
    pub changes: Option<Changes>,
    /// `None` when they are not measured.
    pub paths: Option<PathAnswers>,
    /// `None` when they are not looked for.
    pub loops: Option<LoopAnswers>,
    /// Of each query for a number that packets tell: the tasks latency, utilisation and values.
    pub values: Vec<ValueAnswers>,
    /// `None` when nothing changes from epoch to epoch.
    pub adaptation: Option<Adaptation>,
    pub finality: Finality,
}

impl EpochAnswers {
    /// Packets that were lost, without those that left later than the horizon.
    pub fn truly_lost(&self) -> u64 {
        let lost = self.losses.as_ref().map_or(0, |losses| losses.lost_packets);
        lost.saturating_sub(self.finality.late_packets)
    }

    /// Whether its losses are all, and exact.
    pub fn has_all_losses(&self) -> bool {
        self.losses_lack.is_empty()
    }

    /// Whether there is an answer to a task.
    pub fn has(&self, task: Task) -> bool {
        match task {
            Task::Heavy | Task::Flows | Task::Cardinality => !self.switches.is_empty(),
            Task::Losses => self.losses.is_some(),
            Task::Changes => self.changes.is_some(),
            Task::Attention => self.adaptation.is_some(),
            Task::Paths => self.paths.is_some(),
            Task::Loops => self.loops.is_some(),
            Task::Latency | Task::Utilisation | Task::Values => self.of_task(task).next().is_some(),
        }
    }

    /// The answers to its queries that are of a task: latency, utilisation or values.
    pub fn of_task(&self, task: Task) -> impl Iterator<Item = &ValueAnswers> {
        self.values.iter().filter(move |answers| answers.task == task)
    }

    /// Number of flows, sizes, loops, switches of paths, and values that it keeps.
    pub fn weight(&self) -> usize {
        let answers = |answers: &FlowAnswers| answers.heavy.len() + answers.distribution.as_ref().map_or(0, Vec::len);
        let switches = self.switches.iter().map(|switch| answers(&switch.answers)).sum::<usize>();
        let losses = self.losses.as_ref().map_or(0, |losses| losses.flows.len());
        let changes = self.changes.as_ref().map_or(0, |changes| changes.flows.len());
        let paths = self.paths.iter().flat_map(|paths| &paths.flows).map(|path| 1 + path.switches.len()).sum::<usize>();
        let loops = self.loops.as_ref().map_or(0, |loops| loops.flows.len());
        let values = self.values.iter().map(ValueAnswers::weight).sum::<usize>();
        answers(&self.network) + switches + losses + changes + paths + loops + values
    }

    /// Something is missing of the epoch, as is known only now.
    pub fn spoil(&mut self, switch: &Arc<str>, gap: Gap) {
        SwitchGap::add(&mut self.gaps, switch, gap);
        self.losses_lack.add(Reason::Gap);
        self.network.lack.add_if(gap.hides_flows(), Reason::Gap);
        self.changes.iter_mut().for_each(|changes| changes.lack.add_if(gap.hides_flows(), Reason::Gap));
        self.paths.iter_mut().for_each(|paths| paths.lack.add_if(gap.hides_flows(), Reason::Gap));
        self.loops.iter_mut().for_each(|loops| loops.lack.add_if(gap.hides_flows(), Reason::Gap));
        self.values.iter_mut().for_each(|answers| answers.lack.add_if(gap.hides_flows(), Reason::Gap));
    }

    /// Something is missing of the epoch before, with which its changes were found.
    pub fn spoil_before(&mut self, switch: &Arc<str>, gap: Gap) {
        for changes in self.changes.iter_mut().filter(|_| gap.hides_flows()) {
            SwitchGap::add(&mut changes.gaps, switch, gap);
            changes.lack.add(Reason::Gap);
        }
    }
}

/// How much of an epoch's answers is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Heavy flows, and flows that changed, of the network.
    pub flows: usize,
    /// Heavy flows of each switch.
    pub switch_flows: usize,
    /// Flows that lost or gained packets.
    pub losses: usize,
}
