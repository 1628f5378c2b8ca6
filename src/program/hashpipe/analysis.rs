//! What a controller makes of the records of a network: the heaviest flows of each epoch.

use std::sync::Arc;

use super::Counts;
use crate::program::answers::{
    Adaptation, EpochAnswers, FlowAnswers, FlowCount, FlowName, Limits, Reason, SwitchAnswers, SwitchGap,
};
use crate::program::{Analysis, Decision, Epoch, Reported, Unit};

/// Puts records together. Nothing changes from epoch to epoch.
pub struct NetworkAnalysis {
    pub(super) unit: Unit,
}

/// The records of one epoch.
pub struct NetworkEpoch {
    pub epoch: u64,
    pub switches: Vec<(Arc<str>, Box<Counts>)>,
    pub gaps: Vec<SwitchGap>,
}

impl Analysis for NetworkAnalysis {
    type Record = Counts;
    type Parameters = ();
    /// A packet is counted where and when it enters a switch.
    type Early = ();
    type Epoch = NetworkEpoch;

    fn fits(&self, _: &Counts) -> bool {
        true
    }

    fn early(&self, _: &mut Counts) -> Option<()> {
        Some(())
    }

    fn epoch(&self, epoch: u64, (): &(), reported: Vec<Reported<'_, Box<Counts>, ()>>, _: bool) -> NetworkEpoch {
        let mut network = NetworkEpoch { epoch, switches: Vec::with_capacity(reported.len()), gaps: Vec::new() };
        for Reported { switch, record, .. } in reported {
            match record {
                Ok(counts) => network.switches.push((switch, counts)),
                Err(gap) => network.gaps.push(SwitchGap { switch, gap }),
            }
        }
        network
    }

    fn decide(&mut self, _: &NetworkEpoch, (): &(), _: u64) -> Decision<()> {
        Decision { parameters: (), why: String::new() }
    }

    fn answers(&self, network: &NetworkEpoch, _: Option<&NetworkEpoch>, limits: Limits) -> EpochAnswers {
        let switch = |(switch, counts): &(Arc<str>, Box<Counts>)| SwitchAnswers {
            switch: switch.clone(),
            answers: self.heavy(counts, limits.switch_flows),
        };
        EpochAnswers {
            epoch: network.epoch,
            first_epoch: network.epoch,
            gaps: network.gaps.clone(),
            network: self.heavy(&network.counts(), limits.flows),
            switches: network.switches.iter().map(switch).collect(),
            ..EpochAnswers::default()
        }
    }

    fn adaptation(&self, _: &NetworkEpoch) -> Option<Adaptation> {
        None
    }
}

impl NetworkAnalysis {
    /// The heaviest flows. Which others are missing is not known: a flow may have been evicted.
    pub(super) fn heavy(&self, counts: &Counts, most: usize) -> FlowAnswers {
        let heavy = counts.top(most);
        let kept = heavy.iter().map(|heavy| FlowCount { flow: FlowName::Flow(heavy.flow), count: heavy.count });
        FlowAnswers {
            unit: self.unit,
            heavy: kept.collect(),
            found: counts.0.len(),
            lack: [Reason::Evicted].into_iter().collect(),
            ..FlowAnswers::default()
        }
    }
}

impl NetworkEpoch {
    /// Each flow's counts. Of a flow that several switches saw the largest count is taken: each counts every packet.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (flow, &count) in self.switches.iter().flat_map(|(_, counts)| &counts.0) {
            let largest = counts.0.entry(*flow).or_default();
            *largest = count.max(*largest);
        }
        counts
    }
}

impl Epoch for NetworkEpoch {
    fn number(&self) -> u64 {
        self.epoch
    }

    fn gaps(&self) -> &Vec<SwitchGap> {
        &self.gaps
    }

    fn gaps_mut(&mut self) -> &mut Vec<SwitchGap> {
        &mut self.gaps
    }
}
