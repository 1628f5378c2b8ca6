//! Records of an epoch, from all sinks of a network, become the paths of flows, and the
//! latencies of their hops.

use std::cell::RefCell;
use std::sync::Arc;

use super::Config;
use super::query::Value;
use super::record::Digests;
use super::recorder::Recorder;
use super::recorder::latency::LatencyRecorder;
use crate::program::answers::{
    Adaptation, Certainty, EpochAnswers, FlowAnswers, Gap, LatencyAnswers, Limits, PathAnswers, Reason, SwitchAnswers,
    SwitchGap, Task,
};
use crate::program::{Analysis, Decision, Epoch, Reported};

/// What a network's epochs have shown so far.
pub struct PintAnalysis {
    /// A path takes packets of several epochs.
    recorder: RefCell<Recorder>,
    /// `None` where latencies are not asked for.
    latency: RefCell<Option<LatencyRecorder>>,
    /// Paths are asked for.
    paths: bool,
}

/// What an epoch showed.
#[derive(Clone)]
pub struct Network {
    paths: Option<PathAnswers>,
    latency: Option<LatencyAnswers>,
    /// The switches that reported.
    switches: Vec<Arc<str>>,
}

impl PintAnalysis {
    pub fn new(config: &Config) -> Self {
        Self {
            recorder: RefCell::new(Recorder::new(config)),
            latency: RefCell::new(LatencyRecorder::new(config)),
            paths: config.query(Value::Path).is_some(),
        }
    }
}

impl Analysis for PintAnalysis {
    type Record = Digests;
    type Parameters = ();
    type Early = ();
    type Network = Network;

    const TASKS: &'static [Task] = &[Task::Paths, Task::Latency];
    const ADDS: bool = true;

    fn fits(&self, _: &Digests) -> bool {
        true
    }

    fn early(&self, _: &mut Digests) -> Option<()> {
        Some(())
    }

    fn epoch(&self, epoch: u64, (): &(), reported: Vec<Reported<'_, Box<Digests>, ()>>, _: bool) -> Epoch<Network> {
        let mut recorder = self.recorder.borrow_mut();
        let (mut gaps, mut records) = (Vec::new(), Vec::new());
        for Reported { switch, record, .. } in reported {
            recorder.name(&switch);
            let gap = match &record {
                Err(gap) => Some(*gap),
                Ok(record) => Some(record.missing()).filter(|n| *n > 0).map(|reports| Gap::Overflow { reports }),
            };
            gaps.extend(gap.map(|gap| SwitchGap { switch: switch.clone(), gap }));
            records.extend(record.ok().map(|record| (switch, record)));
        }
        let borrowed: Vec<_> = records.iter().map(|(switch, record)| (switch.clone(), &**record)).collect();
        let flows = recorder.epoch(epoch, &borrowed);
        let mut lack = crate::program::answers::Reasons::default();
        lack.add_if(gaps.iter().any(|gap| gap.gap.hides_flows()), Reason::Gap);
        lack.add_if(gaps.iter().any(|gap| matches!(gap.gap, Gap::Overflow { .. })), Reason::Overflow);
        let latency = self.latency.borrow_mut().as_mut().map(|latency| {
            let flows = latency.epoch(epoch, &borrowed, &recorder);
            let error_factor = latency.error_factor();
            LatencyAnswers { found: flows.len(), flows, evicted: latency.evicted(), error_factor, lack: lack.clone() }
        });
        lack.add_if(flows.iter().any(|flow| flow.certainty == Certainty::Undecided), Reason::Undecoded);
        let paths = PathAnswers { found: flows.len(), flows, evicted: recorder.evicted(), lack };
        let paths = self.paths.then_some(paths);
        let switches = records.into_iter().map(|(switch, _)| switch).collect();
        Epoch { number: epoch, gaps, network: Network { paths, latency, switches } }
    }

    fn decide(&mut self, _: &Epoch<Network>, (): &(), _: u64) -> Decision<()> {
        Decision { parameters: (), why: String::new() }
    }

    fn answers(&self, network: &Epoch<Network>, _: Option<&Epoch<Network>>, limits: Limits) -> EpochAnswers {
        let Network { mut paths, mut latency, .. } = network.network.clone();
        paths.iter_mut().for_each(|paths| paths.keep(limits.flows));
        latency.iter_mut().for_each(|latency| latency.keep(limits.flows));
        let switch = |switch: &Arc<str>| SwitchAnswers { switch: switch.clone(), answers: FlowAnswers::default() };
        EpochAnswers {
            epoch: network.number,
            first_epoch: network.number,
            gaps: network.gaps.clone(),
            paths,
            latency,
            switches: network.switches.iter().map(switch).collect(),
            ..EpochAnswers::default()
        }
    }

    fn adaptation(&self, _: &Epoch<Network>) -> Option<Adaptation> {
        None
    }
}
