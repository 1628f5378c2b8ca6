//! What a controller makes of the records of a network: the heaviest flows of each epoch.

use std::sync::Arc;

use super::Counts;
use crate::program::answers::SwitchGap;
use crate::program::{Analysis, Decision, Epoch, Reported};

/// Puts records together. Nothing changes from epoch to epoch.
pub struct NetworkAnalysis;

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
