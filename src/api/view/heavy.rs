//! Heavy flows.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{Claim, Claimed};
use crate::api::flows::NamedFlow;
use crate::program::Unit;
use crate::program::answers::{EpochAnswers, FlowAnswers, FlowCount, FlowName, Reason};
use crate::telemetry::Selected;

/// One heavy flow. Which of the two counts is there depends on what the program counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeavyFlow {
    #[serde(flatten)]
    pub name: NamedFlow,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub true_packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub true_bytes: Option<u64>,
}

impl HeavyFlow {
    pub fn new(heavy: &FlowCount, unit: Unit) -> Self {
        let FlowCount { flow, count } = *heavy;
        let (packets, bytes) = match unit {
            Unit::Packets => (Some(count), None),
            Unit::Bytes => (None, Some(count)),
        };
        Self { name: flow.into(), packets, bytes, true_packets: None, true_bytes: None }
    }

    pub fn with_truth(mut self, truth: u64) -> Self {
        if self.packets.is_some() {
            self.true_packets = Some(truth);
        } else {
            self.true_bytes = Some(truth);
        }
        self
    }

    pub fn count(&self) -> u64 {
        self.packets.or(self.bytes).unwrap_or_default()
    }

    pub fn truth(&self) -> Option<u64> {
        self.true_packets.or(self.true_bytes)
    }
}

/// `weir show heavy`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeavyFlows {
    pub program: String,
    pub unit: Unit,
    /// Flows that were found and that the answer cannot name any more, summed over the epochs.
    pub omitted_flows: u64,
    pub heavy: Vec<HeavyFlow>,
}

impl HeavyFlows {
    /// The `top` heaviest flows of these epochs, of at least `threshold` packets or bytes.
    pub fn new(program: &str, selected: &Selected, top: usize, threshold: u64) -> Claimed<Self> {
        let mut counts: FxHashMap<FlowName, u64> = FxHashMap::default();
        let (mut unit, mut omitted_flows) = (Unit::default(), 0);
        for answers in selected.epochs.iter().filter(|answers| !answers.switches.is_empty()).map(|epoch| &epoch.network)
        {
            unit = answers.unit;
            omitted_flows += answers.found.saturating_sub(answers.heavy.len()) as u64;
            answers.heavy.iter().for_each(|heavy| *counts.entry(heavy.flow).or_default() += heavy.count);
        }
        let lack = |epoch: &EpochAnswers| {
            let FlowAnswers { heavy, found, named_from, lack, .. } = &epoch.network;
            let mut lack = lack.clone();
            lack.add_if(epoch.switches.is_empty(), Reason::NotAnalysed);
            lack.add_if(*found > heavy.len(), Reason::NotKept);
            lack.add_if(named_from.is_some_and(|from| threshold < from), Reason::BelowThreshold);
            lack
        };
        let heavy = counts.into_iter().filter(|(_, count)| *count >= threshold.max(1));
        let heavy = heavy.map(|(flow, count)| FlowCount { flow, count }).collect();
        let heavy = FlowAnswers::heaviest(unit, heavy, top).heavy;
        Claim::new(selected, lack).with(Self {
            program: program.into(),
            unit,
            omitted_flows,
            heavy: heavy.iter().map(|flow| HeavyFlow::new(flow, unit)).collect(),
        })
    }
}
