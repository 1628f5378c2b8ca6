//! The controller's side: the records of an epoch are kept, each with the first packets of its epoch, which
//! the record before has.

use std::sync::Arc;

use super::kept::{KeptHops, KeptSwitch};
use super::record::Shape;
use super::{HopRecord, archived};
use crate::answers::Task;
use crate::history::{Adaptation, Gap, SwitchGap};
use crate::pisa::hash::HashFamily;
use crate::program::{Analysis, Before, Decision, DecodeError, Epoch, Reported};

/// Puts the records of an epoch together.
#[derive(Debug, Default)]
pub struct HopAnalysis {
    /// The form that the records of an archive have in common.
    shapes: Vec<Arc<Shape>>,
}

impl HopAnalysis {
    /// The packets of the epoch that a switch counted, and what is missing of them.
    fn whole(
        epoch: u64,
        switch: &Arc<str>,
        mut record: HopRecord,
        before: Before<&HopRecord>,
    ) -> (KeptSwitch, Vec<Gap>) {
        let mut gaps = Vec::new();
        match before {
            Before::Nothing => {}
            Before::Part(early) => record.counted.add(&early.counted),
            Before::Unknown => gaps.push(Gap::Before),
            Before::Elsewhere => gaps.push(Gap::Elsewhere),
        }
        // Packets of ports that had no rows yet, or none any more.
        if record.elsewhere > 0 {
            gaps.push(Gap::Part);
        }
        (KeptSwitch::new(epoch, switch, &record, gaps.is_empty()), gaps)
    }
}

impl Analysis for HopAnalysis {
    type Record = HopRecord;
    type Parameters = ();
    type Network = Vec<KeptSwitch>;
    type Kept = KeptHops;

    const TASKS: &'static [Task] = &[Task::Places];
    const COUNTS_LATE: bool = true;

    fn fits(&self, _: &HopRecord) -> bool {
        true
    }

    fn epoch(&mut self, number: u64, (): &(), reported: Vec<Reported<'_, HopRecord>>) -> Epoch<Vec<KeptSwitch>> {
        let (mut gaps, mut network) = (Vec::new(), Vec::new());
        for Reported { switch, record, before } in reported {
            let (kept, missing) = match record {
                Ok(record) => {
                    let (kept, missing) = Self::whole(number, &switch, *record, before);
                    (Some(kept), missing)
                }
                Err(gap) => (None, vec![gap]),
            };
            network.extend(kept);
            gaps.extend(missing.into_iter().map(|gap| SwitchGap { switch: switch.clone(), gap }));
        }
        let switches = network.iter().map(|kept| kept.switch.clone()).collect();
        Epoch { number, gaps, switches, network }
    }

    fn decide(&mut self, _: &Epoch<Vec<KeptSwitch>>, (): &(), _: u64) -> Decision<()> {
        Decision { parameters: (), why: String::new() }
    }

    fn adaptation(&self, _: &Epoch<Vec<KeptSwitch>>) -> Option<Adaptation> {
        None
    }

    fn keep(&mut self, epoch: Epoch<Vec<KeptSwitch>>) -> KeptHops {
        KeptHops { switches: epoch.network }
    }

    fn restore(&mut self, bytes: &[u8], hashes: Option<&HashFamily>) -> Result<KeptHops, DecodeError> {
        const MOST: usize = 4096;
        self.shapes.truncate(MOST);
        archived::restore(bytes, hashes.ok_or(DecodeError::Hashes)?, &mut self.shapes)
    }
}
