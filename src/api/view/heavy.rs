//! Heavy flows.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{Claim, Claimed};
use crate::api::flows::NamedFlow;
use crate::program::answers::{EpochAnswers, FlowAnswers, FlowCount, FlowName, Reason};
use crate::program::{Counted, Unit};
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
    /// A register that counts the flow was full: it has at least that many.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub at_least: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub true_packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub true_bytes: Option<u64>,
}

impl HeavyFlow {
    pub fn new(heavy: &FlowCount, unit: Unit) -> Self {
        let FlowCount { flow, count } = *heavy;
        let Counted { number, at_least } = count;
        let (packets, bytes) = match unit {
            Unit::Packets => (Some(number), None),
            Unit::Bytes => (None, Some(number)),
        };
        Self { name: flow.into(), packets, bytes, at_least, true_packets: None, true_bytes: None }
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
        let mut counts: FxHashMap<FlowName, Counted> = FxHashMap::default();
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
            lack.add_if(heavy.iter().any(|flow| flow.count.at_least), Reason::Saturated);
            lack.add_if(named_from.is_some_and(|from| threshold < from), Reason::BelowThreshold);
            lack
        };
        let heavy = counts.into_iter().filter(|(_, count)| count.number >= threshold.max(1));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::program::answers::SwitchAnswers;
    use crate::wire::Flow;

    /// A sum over epochs is as uncertain as any of them, and the answer says why it is not complete.
    #[test]
    fn sums_with_a_full_register_are_marked() {
        let flow = |port| FlowName::Flow(Flow { sport: Some(port), ..Flow::default() });
        let epoch = |counts: &[(u16, Counted)]| {
            let counted = counts.iter().map(|&(port, count)| FlowCount { flow: flow(port), count }).collect();
            let network = FlowAnswers::heaviest(Unit::Bytes, counted, 9);
            let switches = vec![SwitchAnswers { switch: "s".into(), answers: network.clone() }];
            Arc::new(EpochAnswers { network, switches, ..EpochAnswers::default() })
        };
        let answer = |epochs: Vec<_>| HeavyFlows::new("p", &Selected { epochs, ..Selected::default() }, 9, 1);
        let full = Counted::of_register(u32::MAX);
        let found = answer(vec![epoch(&[(1, full), (2, 5.into())]), epoch(&[(1, 3.into()), (2, 6.into())])]);
        let rows: Vec<_> = found.heavy.iter().map(|heavy| (heavy.count(), heavy.at_least)).collect();
        assert_eq!(rows, [(u64::from(u32::MAX) + 3, true), (11, false)]);
        let lacks = |found: &Claimed<HeavyFlows>| found.claim.incomplete.contains(Reason::Saturated);
        assert!(lacks(&found) && !lacks(&answer(vec![epoch(&[(2, 5.into())])])));
        let json = |at: usize| serde_json::to_value(&found.heavy[at]).unwrap();
        assert_eq!((&json(0)["at_least"], json(1).get("at_least")), (&true.into(), None));
    }
}
