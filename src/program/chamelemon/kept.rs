//! What the history keeps of an epoch: heavy-hitter candidates and losses as they were decoded, the
//! numbers that were estimated, and the classifier. The encoders are left out. An epoch for which
//! there is little room is kept without the classifier too.
//!
//! In an archive an epoch is a version, its [`Head`] as JSON, and for each switch its candidates (their
//! number, and for each four words and the packets in zigzag order) and, where it is kept, the classifier.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::completeness::losses_lack;
use super::decoder::encoding::Form;
use super::decoder::{Change, Decoded, INFINITE, Level, Sized};
use super::hashes::TOWER;
use super::names::Known;
use super::network::{Edge, Network, NetworkEpoch};
use super::{Analysis, ChameleMon, EncoderParameters, FlowId, Hashes, Shape, Sketches, frequency};
use crate::answers::{
    self, Answers, Changed, Distribution, EpochNumbers, FlowCount, FlowName, FlowSizes, FoundFlows, HeavyChanges,
    HeavyFlows, Losses, LossesFound, Numbers, ProgramAnswer, Query, Sizes, SwitchNumbers, Task, Unit,
};
use crate::history::{ArchiveForm, Entry, Epochs, Kept, Reason, Reasons, SwitchCounters};
use crate::program::Program;
use crate::program::bytes::{DecodeError, Reader, Writer};
use crate::wire::Flow;

/// What an epoch showed.
#[derive(Debug)]
pub struct Showed {
    number: u64,
    parameters: EncoderParameters,
    edges: Vec<KeptEdge>,
    /// Of the network.
    flows: Option<f64>,
    entropy_bits: Option<f64>,
    distribution: Option<Distribution>,
    flows_lack: Reasons,
    losses: Option<LossesFound>,
    /// Why losses are not complete, but for gaps.
    losses_lack: Reasons,
    /// Names of the IPv6 flows that were decoded.
    names: FxHashMap<FlowId, Flow>,
}

/// Version of the byte form of an archive.
const VERSION: u8 = 1;

/// What stands in an archive as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    number: u64,
    parameters: EncoderParameters,
    flows: Option<f64>,
    entropy_bits: Option<f64>,
    distribution: Option<Distribution>,
    flows_lack: Reasons,
    losses: Option<LossesFound>,
    losses_lack: Reasons,
    /// The words of an ID, and its flow.
    names: Vec<([u32; 4], Flow)>,
    edges: Vec<EdgeHead>,
}

/// A switch in the head.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EdgeHead {
    switch: Arc<str>,
    flows: Option<f64>,
    entropy_bits: Option<f64>,
    complete: bool,
    has_classifier: bool,
}

/// One switch's part.
#[derive(Debug)]
struct KeptEdge {
    switch: Arc<str>,
    flows: Option<f64>,
    entropy_bits: Option<f64>,
    /// The heavy-hitter candidates with the packets that were encoded of each, and whether these are
    /// all.
    candidates: Box<[(FlowId, i64)]>,
    complete: bool,
    classifier: Option<Box<[Packed]>>,
    shape: Shape,
    hashes: Arc<Hashes>,
}

/// A counter array in bytes: as many a counter as its bits need, all ones where it was full.
#[derive(Debug)]
struct Packed {
    bits: u32,
    counters: Box<[u8]>,
}

impl Packed {
    fn new(level: &Level) -> Self {
        let bytes = level.bits.div_ceil(8) as usize;
        let counters = level.sizes.iter().flat_map(|size| size.to_le_bytes().into_iter().take(bytes));
        Self { bits: level.bits, counters: counters.collect() }
    }

    fn level(&self) -> Level {
        let bytes = self.bits.div_ceil(8) as usize;
        let full = u32::MAX >> (32 - 8 * bytes);
        let counter = |counter: &[u8]| {
            let number = counter.iter().rev().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
            if number == full { INFINITE } else { number }
        };
        Level::new(self.bits, self.counters.chunks_exact(bytes).map(counter).collect())
    }
}

impl KeptEdge {
    fn new(edge: &Edge) -> Self {
        let (analysis, sketches) = (&edge.analysis, edge.analysis.sketches());
        Self {
            switch: edge.switch.clone(),
            flows: analysis.reported_cardinality(),
            entropy_bits: analysis.reported_entropy_bits(),
            candidates: analysis.hh().flows.iter().map(|(id, packets)| (*id, *packets)).collect(),
            complete: analysis.hh().complete,
            classifier: Some(sketches.tower.iter().map(Packed::new).collect()),
            shape: sketches.shape,
            hashes: sketches.hashes().clone(),
        }
    }

    /// The sketches without encoders, and the candidates that were decoded.
    fn edge(&self, parameters: EncoderParameters) -> Edge {
        let tower = self.classifier.iter().flatten().map(Packed::level).collect();
        let sketches = Sketches::of_classifier(parameters, self.shape, tower, self.hashes.clone());
        let flows = self.candidates.iter().copied().collect();
        let hh = Decoded { flows, complete: self.complete, ..Decoded::default() };
        Edge { switch: self.switch.clone(), analysis: Analysis::of_decoded(sketches, hh) }
    }

    /// What an archive has of it beside the head.
    fn write(&self, to: &mut Writer) {
        to.number(self.candidates.len() as u64);
        for (id, packets) in &self.candidates {
            id.words().into_iter().for_each(|word| to.number(word.into()));
            to.number((packets << 1 ^ packets >> 63) as u64);
        }
        self.classifier.iter().flatten().for_each(|level| to.bytes(&level.counters));
    }

    /// Reads it again.
    fn read(head: EdgeHead, from: &mut Reader<'_>, form: &Form, hashes: &Arc<Hashes>) -> Result<Self, DecodeError> {
        let EdgeHead { switch, flows, entropy_bits, complete, has_classifier } = head;
        let mut candidates = Vec::new();
        for _ in 0..from.number("the number of candidates")? {
            let mut words = [0; 4];
            for word in &mut words {
                *word = from.u32("a candidate")?;
            }
            let zigzag = from.number("a candidate's packets")?;
            candidates.push((FlowId::of_words(words), (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)));
        }
        let mut level = |bits: u32, counters: usize| -> Result<Packed, DecodeError> {
            let bytes = counters.saturating_mul(bits.div_ceil(8) as usize);
            Ok(Packed { bits, counters: from.slice("a classifier", bytes)?.into() })
        };
        let levels = form.tower.0.iter().map(|of| level(of.width.bits(), of.counters as usize));
        let classifier = has_classifier.then(|| levels.collect::<Result<_, _>>()).transpose()?;
        let (candidates, shape, hashes) = (candidates.into(), form.shape, hashes.clone());
        Ok(Self { switch, flows, entropy_bits, candidates, complete, classifier, shape, hashes })
    }

    /// The counters of each array of the classifier; −1 is a full one.
    fn counters(&self) -> impl Iterator<Item = SwitchCounters> {
        let levels = self.classifier.iter().flatten().map(Packed::level).enumerate();
        levels.map(|(place, level)| SwitchCounters {
            switch: self.switch.clone(),
            hash: format!("{TOWER}[{place}]"),
            sub_epochs: 1,
            sub_epoch: Some(0),
            counters: level.sizes.into_iter().map(|size| i32::try_from(size).unwrap_or(-1)).collect(),
        })
    }

    fn without_classifier(&self) -> Self {
        Self {
            switch: self.switch.clone(),
            candidates: self.candidates.clone(),
            classifier: None,
            hashes: self.hashes.clone(),
            ..*self
        }
    }
}

impl Showed {
    pub(super) fn new(epoch: NetworkEpoch, known: &Known) -> Self {
        let losses = epoch.losses.as_ref().map(|found| LossesFound {
            flows: found
                .flows
                .iter()
                .map(|loss| answers::Loss {
                    flow: known.name(loss.id),
                    lost: loss.lost,
                    gained: loss.gained,
                    exact: loss.exact,
                })
                .collect(),
            lost_packets: found.lost_packets,
            gained_packets: found.gained_packets,
        });
        let candidates = epoch.edges.iter().flat_map(|edge| edge.analysis.hh().flows.keys());
        let named = |&id: &FlowId| Some((id, known.name(id).flow()?)).filter(|_| id.name().flow().is_none());
        Self {
            number: epoch.number,
            parameters: epoch.parameters,
            names: candidates.filter_map(named).collect(),
            edges: epoch.edges.iter().map(KeptEdge::new).collect(),
            flows: epoch.reported_cardinality(),
            entropy_bits: epoch.reported_entropy_bits(),
            distribution: epoch.reported_distribution().map(|distribution| distribution.rounded()),
            flows_lack: epoch.flows_lack(),
            losses_lack: losses_lack(epoch.losses.as_ref(), &epoch.parameters, false).without(Reason::NotAnalysed),
            losses,
        }
    }

    /// Reads the byte form of an archive, of switches whose sketches have this form.
    ///
    /// # Errors
    /// If these are no such bytes.
    pub(super) fn restore(bytes: &[u8], form: &Form, hashes: &Arc<Hashes>) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let Head {
            number,
            parameters,
            flows,
            entropy_bits,
            distribution,
            flows_lack,
            losses,
            losses_lack,
            names,
            edges,
        } = from.json("the head")?;
        parameters.validate(&form.shape)?;
        let edges = edges.into_iter().map(|head| KeptEdge::read(head, &mut from, form, hashes));
        let edges = edges.collect::<Result<_, _>>()?;
        from.end()?;
        let names = names.into_iter().map(|(words, flow)| (FlowId::of_words(words), flow)).collect();
        Ok(Self {
            number,
            parameters,
            edges,
            flows,
            entropy_bits,
            distribution,
            flows_lack,
            losses,
            losses_lack,
            names,
        })
    }

    /// The network's sketches, but for their encoders.
    fn network(&self) -> NetworkEpoch {
        let edges: Vec<_> = self.edges.iter().map(|edge| edge.edge(self.parameters)).collect();
        let switches = edges.iter().map(|edge| edge.switch.clone()).collect();
        let network = Network { parameters: self.parameters, edges, losses: None };
        NetworkEpoch { number: self.number, gaps: Vec::new(), switches, network }
    }

    /// The name of a flow in answers.
    fn name(&self, id: FlowId) -> FlowName {
        self.names.get(&id).map_or_else(|| id.name(), |flow| FlowName::Flow(*flow))
    }

    /// The flows that can be named.
    fn found(&self) -> FoundFlows {
        let before = u64::from(self.parameters.hh_threshold.max(1) - 1);
        let mut sizes = FxHashMap::<FlowId, u64>::default();
        for (id, encoded) in self.edges.iter().flat_map(|edge| &edge.candidates) {
            if let Ok(encoded) = u64::try_from(*encoded) {
                let size = sizes.entry(*id).or_default();
                *size = size.saturating_add(encoded.saturating_add(before));
            }
        }
        let flows = sizes.into_iter().map(|(id, packets)| FlowCount { flow: self.name(id), count: packets.into() });
        FoundFlows {
            unit: Unit::Packets,
            flows: flows.collect(),
            are_lower_bounds: false,
            named_from: Some(before + 1),
            lack: self.flows_lack.clone(),
        }
    }

    /// Packets that were encoded for candidates that a query asks for, or for the others.
    pub(super) fn encoded(&self, query: &Query, is_meant: bool) -> u64 {
        let candidates = self.edges.iter().flat_map(|edge| &edge.candidates);
        let meant = candidates.filter(|(id, _)| query.is_meant(&self.name(*id)) == is_meant);
        meant.filter_map(|&(_, packets)| u64::try_from(packets).ok()).fold(0, u64::saturating_add)
    }

    fn sizes(&self) -> Sizes {
        let (flows, entropy_bits, distribution) = (self.flows, self.entropy_bits, self.distribution.clone());
        Sizes { flows, entropy_bits, distribution, found: self.found() }
    }

    fn numbers(&self) -> EpochNumbers {
        let switch = |edge: &KeptEdge| SwitchNumbers {
            switch: edge.switch.clone(),
            flows: edge.flows,
            entropy_bits: edge.entropy_bits,
        };
        let switches = self.edges.iter().map(switch).collect();
        EpochNumbers { flows: self.flows, entropy_bits: self.entropy_bits, switches, ..EpochNumbers::default() }
    }

    fn changes(before: &Self, after: &Self) -> Changed {
        let [network_before, network] = [before, after].map(Self::network);
        let flows = NetworkEpoch::heavy_changes(&network_before, &network, 0);
        // A flow may have been named in one epoch alone.
        let name = |id| match after.name(id) {
            FlowName::Digest(_) => before.name(id),
            name => name,
        };
        let change = |&Change { id, before: before_packets, after: after_packets }: &Change| answers::Change {
            name: name(id),
            before_packets,
            after_packets,
        };
        let mut lack = NetworkEpoch::changes_lack(&network_before, &network);
        // The size of a flow that was a candidate in one of them alone.
        lack.add_if(!before.has_classifiers() || !after.has_classifiers(), Reason::Forgotten);
        [before, after].into_iter().for_each(|epoch| lack.extend(&epoch.flows_lack));
        Changed {
            flows: flows.iter().map(change).collect(),
            named_from: before.parameters.hh_threshold.max(after.parameters.hh_threshold).max(1).into(),
            lack,
        }
    }

    fn has_classifiers(&self) -> bool {
        self.edges.iter().all(|edge| edge.classifier.is_some())
    }

    /// The sketches of several epochs together, and the flows that they name: classifiers and candidates
    /// add up, by switch. Each epoch adds what a flow's counters say, below T_h too. Where classifiers
    /// are not kept any more, there are no sketches, and the epochs in which a flow was a candidate add
    /// up alone.
    pub(super) fn together(epochs: &Epochs<Self>) -> (Option<NetworkEpoch>, FoundFlows) {
        if !epochs.iter().all(|entry| entry.showed.has_classifiers()) {
            let mut found = FoundFlows::sum(epochs.iter().map(|entry| entry.showed.found()));
            found.lack.add(Reason::Forgotten);
            return (None, found);
        }
        let mut edges = BTreeMap::<Arc<str>, Analysis>::new();
        let (mut names, mut lack) = (FxHashMap::default(), Reasons::default());
        let mut parameters = None;
        for showed in epochs.iter().map(|entry| &entry.showed) {
            parameters = Some(showed.parameters);
            lack.extend(&showed.flows_lack);
            names.extend(showed.names.iter().map(|(id, flow)| (*id, *flow)));
            for Edge { switch, analysis } in showed.network().network.edges {
                match edges.get_mut(&switch) {
                    Some(sum) => sum.add_epoch(&analysis),
                    None => drop(edges.insert(switch, analysis)),
                }
            }
        }
        let Some(parameters) = parameters else { return (None, FoundFlows::default()) };
        let named_from = edges.values().map(Analysis::least_named).max();
        let edges = edges.into_iter().map(|(switch, analysis)| Edge { switch, analysis }).collect();
        let network = Network { parameters, edges, losses: None };
        let network = NetworkEpoch { number: 0, gaps: Vec::new(), switches: Vec::new(), network };
        let name = |id: FlowId| names.get(&id).map_or_else(|| id.name(), |flow| FlowName::Flow(*flow));
        let count = |Sized { id, packets }| FlowCount { flow: name(id), count: packets.into() };
        let flows = network.heavy_hitters(0).into_iter().map(count).collect();
        (Some(network), FoundFlows { unit: Unit::Packets, flows, are_lower_bounds: false, named_from, lack })
    }

    /// The flows of several epochs together, by size.
    fn sum(epochs: &Epochs<Self>) -> Sizes {
        let (network, found) = Self::together(epochs);
        let Some(network) = network else { return Sizes { found, ..Sizes::default() } };
        Sizes {
            flows: network.reported_cardinality(),
            entropy_bits: network.reported_entropy_bits(),
            distribution: network.reported_distribution().map(|distribution| distribution.rounded()),
            found,
        }
    }

    /// The losses of an epoch, and why they are not complete.
    fn losses(entry: &Entry<Self>) -> (Option<&LossesFound>, Reasons) {
        let (showed, has_gaps) = (&*entry.showed, !entry.gaps.is_empty());
        let mut lack = showed.losses_lack.clone();
        lack.add_if(has_gaps, Reason::Gap);
        lack.add_if(showed.losses.is_none() && !has_gaps, Reason::NotAnalysed);
        lack.extend(&entry.doubts);
        (showed.losses.as_ref(), lack)
    }
}

impl Kept for Showed {
    const LOOKS_BACK: bool = true;

    fn bytes(&self) -> usize {
        let edge = |edge: &KeptEdge| {
            let classifier = edge.classifier.iter().flatten().map(|level| level.counters.len()).sum::<usize>();
            size_of_val(edge) + size_of_val(&edge.candidates[..]) + classifier
        };
        let losses = self.losses.as_ref().map_or(0, |losses| size_of_val(&losses.flows[..]));
        let sizes = self.distribution.as_ref().map_or(0, |distribution| size_of_val(&distribution.0[..]));
        let names = self.names.capacity() * size_of::<(FlowId, Flow)>();
        size_of_val(self) + self.edges.iter().map(edge).sum::<usize>() + losses + sizes + names
    }

    fn archived(&self) -> Option<ArchiveForm> {
        let edge = |edge: &KeptEdge| EdgeHead {
            switch: edge.switch.clone(),
            flows: edge.flows,
            entropy_bits: edge.entropy_bits,
            complete: edge.complete,
            has_classifier: edge.classifier.is_some(),
        };
        let mut names: Vec<_> = self.names.iter().map(|(id, flow)| (id.words(), *flow)).collect();
        names.sort_unstable_by_key(|(words, _)| *words);
        let mut to = Writer(vec![VERSION]);
        to.json(&Head {
            number: self.number,
            parameters: self.parameters,
            flows: self.flows,
            entropy_bits: self.entropy_bits,
            distribution: self.distribution.clone(),
            flows_lack: self.flows_lack.clone(),
            losses: self.losses.clone(),
            losses_lack: self.losses_lack.clone(),
            names,
            edges: self.edges.iter().map(edge).collect(),
        });
        self.edges.iter().for_each(|edge| edge.write(&mut to));
        let hashes = self.edges.first().map(|edge| edge.hashes.family().name());
        let counters = self.edges.iter().flat_map(KeptEdge::counters).collect();
        Some(ArchiveForm { bytes: to.0, hashes, counters })
    }

    fn lost_packets(&self) -> u64 {
        self.losses.as_ref().map_or(0, |losses| losses.lost_packets)
    }

    fn gained_packets(&self) -> u64 {
        self.losses.as_ref().map_or(0, |losses| losses.gained_packets)
    }

    fn compacted(&self) -> Option<Self> {
        self.edges.iter().any(|edge| edge.classifier.is_some()).then(|| Self {
            edges: self.edges.iter().map(KeptEdge::without_classifier).collect(),
            distribution: self.distribution.clone(),
            flows_lack: self.flows_lack.clone(),
            losses: self.losses.clone(),
            losses_lack: self.losses_lack.clone(),
            names: self.names.clone(),
            ..*self
        })
    }
}

impl Answers for Showed {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        Some(match query.task {
            Task::Heavy if epochs.iter().len() > 1 => {
                HeavyFlows::told(ChameleMon::NAME, epochs, query, Self::together(epochs).1)
            }
            Task::Heavy => HeavyFlows::over(ChameleMon::NAME, epochs, query, Self::found),
            Task::Frequency => return frequency::told(epochs, query),
            Task::Flows => match (epochs.newest(), epochs.iter().len()) {
                (None, _) => FlowSizes::none([Reason::NotAnalysed].into_iter().collect()),
                (Some(newest), 1) => FlowSizes::told(newest.showed.sizes(), query),
                _ => FlowSizes::told(Self::sum(epochs), query),
            },
            Task::Cardinality => Numbers::over(epochs, Self::numbers),
            Task::Losses => Losses::over(epochs, query, Self::losses),
            Task::Changes => {
                HeavyChanges::to_newest(epochs, query, |before, after| Self::changes(&before.showed, &after.showed))
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn classifiers_come_back(bits in 1..=32u32, sizes in prop::collection::vec(any::<u32>(), 0..40)) {
            let full = u32::MAX >> (32 - bits);
            let sizes = sizes.into_iter().map(|size| if size & full == full { INFINITE } else { size & full }).collect();
            let level = Level::new(bits, sizes);
            prop_assert_eq!(Packed::new(&level).level(), level);
        }
    }
}
