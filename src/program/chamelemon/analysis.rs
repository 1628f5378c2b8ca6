//! What a controller makes of the records of a network.

use super::answers;
use super::attention::Attention;
use super::collector::encoding::Form;
use super::network::{Early, NetworkEpoch, Reported};
use super::{Config, Runtime, Sketches};
use crate::program::answers::{Adaptation, EpochAnswers, Limits, SwitchGap, Task};
use crate::program::{Analysis, Decision, Epoch};

/// Puts records together, and shifts attention.
pub struct NetworkAnalysis {
    form: Form,
    attention: Attention,
}

impl NetworkAnalysis {
    pub fn new(config: &Config, salt: u64) -> Self {
        Self { form: Form::of(config), attention: Attention::new(config.shape(), config.tower.max(), salt) }
    }
}

impl Analysis for NetworkAnalysis {
    type Record = Sketches;
    type Parameters = Runtime;
    type Early = Early;
    type Epoch = NetworkEpoch;

    const TASKS: &'static [Task] =
        &[Task::Flows, Task::Losses, Task::Changes, Task::Cardinality, Task::Attention, Task::Heavy];

    fn fits(&self, sketches: &Sketches) -> bool {
        let lengths = sketches.tower.iter().map(|level| (level.bits, level.sizes.len()));
        let expected = self.form.tower.0.iter().map(|level| (level.width.bits(), level.counters as usize));
        sketches.shape == self.form.shape && lengths.eq(expected)
    }

    fn early(&self, sketches: &mut Sketches) -> Option<Early> {
        Early::of(sketches)
    }

    fn epoch(&self, epoch: u64, runtime: &Runtime, reported: Vec<Reported<'_>>, edges_named: bool) -> NetworkEpoch {
        let mut network = NetworkEpoch::analyse(epoch, *runtime, reported);
        network.edges_named = edges_named;
        network
    }

    fn decide(&mut self, network: &NetworkEpoch, latest: &Runtime, next: u64) -> Decision<Runtime> {
        let decision = if network.edges.is_empty() {
            self.attention.keep(latest, next, "no switch has reported: everything stays")
        } else {
            self.attention.shift(network, latest, next)
        };
        Decision { parameters: decision.runtime, why: decision.why }
    }

    fn answers(&self, network: &NetworkEpoch, before: Option<&NetworkEpoch>, limits: Limits) -> EpochAnswers {
        answers::of_network(network, before, limits)
    }

    fn adaptation(&self, network: &NetworkEpoch) -> Option<Adaptation> {
        Some(answers::adaptation(network))
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
