//! The controller's side: records of an epoch are kept as they are, and the target is calibrated.

use std::sync::Arc;

use serde_json::json;

use super::archived::Shapes;
use super::kept::KeptFragments;
use super::parameters::Target;
use super::{Config, Fragment};
use crate::answers::Task;
use crate::history::{Adaptation, Gap, SwitchGap};
use crate::pisa::hash::HashFamily;
use crate::program::{Analysis, Decision, DecodeError, Epoch, Parameters, Reported};

/// The records of an epoch.
pub struct Fragments {
    target: Target,
    /// Number of switches that were to report.
    pub expected: usize,
    pub switches: Vec<(Arc<str>, Box<Fragment>)>,
}

impl Fragments {
    /// Each switch whose record is of this epoch alone, and its error.
    fn errors(&self) -> impl Iterator<Item = (&Arc<str>, &Fragment, f64)> {
        let whole = self.switches.iter().filter(|(_, fragment)| fragment.cuts().is_some());
        whole.map(|(switch, fragment)| (switch, &**fragment, fragment.error()))
    }

    /// The median error of the switches that had traffic.
    fn median_error(&self) -> Option<f64> {
        let mut errors: Vec<f64> = self.errors().map(|(_, _, error)| error).filter(|error| *error > 0.0).collect();
        errors.sort_unstable_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied()
    }
}

/// Keeps records, and calibrates the target.
#[derive(Debug)]
pub struct DiSketchAnalysis {
    config: Config,
    /// Shapes of an archive's records.
    shapes: Shapes,
}

impl DiSketchAnalysis {
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone(), shapes: Shapes::default() }
    }
}

impl Analysis for DiSketchAnalysis {
    const TASKS: &'static [Task] =
        &[Task::Frequency, Task::Heavy, Task::Attention, Task::Changes, Task::Flows, Task::Cardinality];
    type Record = Fragment;
    type Parameters = Target;
    type Network = Fragments;
    type Kept = KeptFragments;
    const ADDS: bool = true;

    fn fits(&self, record: &Fragment) -> bool {
        let facts = |config: &Config| (config.sketch, config.count, config.rho, config.cover, config.naming());
        facts(&record.shape.config) == facts(&self.config)
    }

    fn epoch(&mut self, number: u64, target: &Target, reported: Vec<Reported<'_, Fragment>>) -> Epoch<Fragments> {
        let (mut gaps, mut switches, expected) = (Vec::new(), Vec::new(), reported.len());
        for Reported { switch, record, .. } in reported {
            match record {
                Ok(record) => {
                    let is_of_one = record.parts.iter().all(|part| part.coverage.later_epochs == 0);
                    let gap = match record.cuts() {
                        // A bank that ran on over several sub-epochs counts all of them.
                        Some(cuts) => (record.sub_epochs() < 1 << cuts).then_some(Gap::Part),
                        None => is_of_one.then_some(Gap::Mixed),
                    };
                    gaps.extend(gap.map(|gap| SwitchGap { switch: switch.clone(), gap }));
                    switches.push((switch, record));
                }
                Err(gap) => gaps.push(SwitchGap { switch, gap }),
            }
        }
        let names = switches.iter().map(|(switch, _)| switch.clone()).collect();
        Epoch { number, gaps, switches: names, network: Fragments { target: *target, expected, switches } }
    }

    /// The target stays once it is known. Until then it is the median error of the switches that had
    /// traffic.
    fn decide(&mut self, epoch: &Epoch<Fragments>, latest: &Target, _: u64) -> Decision<Target> {
        if latest.error().is_some() {
            return Decision { parameters: *latest, why: "as configured".into() };
        }
        match epoch.median_error() {
            Some(median) => Decision { parameters: Target::of(median), why: "calibrated".into() },
            None => Decision { parameters: *latest, why: "no traffic yet".into() },
        }
    }

    fn adaptation(&self, epoch: &Epoch<Fragments>) -> Option<Adaptation> {
        let unit = self.config.count.name();
        let switch = |(switch, fragment, error): (&Arc<str>, &Fragment, f64)| {
            let sub_epochs = fragment.cuts().map(|cuts| 1u32 << cuts);
            let memory = fragment.shape.config.memory.0;
            let facts = json!({ "sub_epochs": sub_epochs, format!("error_{unit}"): error, "memory_bytes": memory });
            (switch.to_string(), facts)
        };
        let switches: serde_json::Map<_, _> = epoch.errors().map(switch).collect();
        let sub_epochs: u32 = epoch.errors().map(|(_, fragment, _)| 1 << fragment.cuts().unwrap_or_default()).sum();
        let facts = json!({
            format!("error_{unit}"): epoch.median_error().unwrap_or_default(),
            "mean_sub_epochs": f64::from(sub_epochs) / switches.len().max(1) as f64,
            "switches": switches,
        });
        let measured = epoch.target.describe().unwrap_or_default();
        Some(Adaptation { measured, facts: facts.as_object()?.clone(), ..Adaptation::default() })
    }

    fn keep(&mut self, epoch: Epoch<Fragments>) -> KeptFragments {
        let Fragments { expected, switches, .. } = epoch.network;
        KeptFragments::new(self.config.count, self.config.decode, epoch.number, expected, switches)
    }

    fn restore(&mut self, bytes: &[u8], hashes: Option<&HashFamily>) -> Result<KeptFragments, DecodeError> {
        KeptFragments::restore(bytes, hashes.ok_or(DecodeError::Hashes)?, &mut self.shapes)
    }
}
