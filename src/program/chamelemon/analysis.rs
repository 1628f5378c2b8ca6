//! What a controller makes of the records of a network.

use super::answers;
use super::attention::Attention;
use super::collector::encoding::Form;
use super::names::Known;
use super::network::{Early, Network, NetworkEpoch, Reported};
use super::{Config, Runtime, Sketches};
use crate::program::answers::{Adaptation, EpochAnswers, Limits, Task};
use crate::program::{Analysis, Decision};

/// Puts records together, and shifts attention.
pub struct NetworkAnalysis {
    form: Form,
    attention: Attention,
    /// Names of IPv6 flows, of these epochs and earlier ones.
    known: Known,
}

impl NetworkAnalysis {
    pub fn new(config: &Config, salt: u64) -> Self {
        let attention = Attention::new(config.shape(), config.tower.max(), salt);
        Self { form: Form::of(config), attention, known: Known::default() }
    }
}

impl Analysis for NetworkAnalysis {
    type Record = Sketches;
    type Parameters = Runtime;
    type Early = Early;
    type Network = Network;

    const TASKS: &'static [Task] =
        &[Task::Flows, Task::Losses, Task::Changes, Task::Cardinality, Task::Attention, Task::Heavy];

    const COUNTS_LATE: bool = true;

    fn fits(&self, sketches: &Sketches) -> bool {
        let lengths = sketches.tower.iter().map(|level| (level.bits, level.sizes.len()));
        let expected = self.form.tower.0.iter().map(|level| (level.width.bits(), level.counters as usize));
        sketches.shape == self.form.shape && lengths.eq(expected)
    }

    fn early(&self, sketches: &mut Sketches) -> Option<Early> {
        Early::of(sketches)
    }

    fn epoch(&mut self, epoch: u64, runtime: &Runtime, reported: Vec<Reported<'_>>, edges_named: bool) -> NetworkEpoch {
        let mut epoch = NetworkEpoch::analyse(epoch, *runtime, reported);
        epoch.network.edges_named = edges_named;
        self.known.age();
        epoch.network.edges.iter().for_each(|edge| edge.analysis.sketches().add_names(&mut self.known));
        epoch
    }

    fn decide(&mut self, network: &NetworkEpoch, latest: &Runtime, next: u64) -> Decision<Runtime> {
        if network.edges.is_empty() {
            self.attention.keep(latest, next, "no switch has reported: everything stays")
        } else {
            self.attention.shift(network, latest, next)
        }
    }

    fn answers(&self, network: &NetworkEpoch, before: Option<&NetworkEpoch>, limits: Limits) -> EpochAnswers {
        answers::of_network(network, before, &self.known, limits)
    }

    fn adaptation(&self, network: &NetworkEpoch) -> Option<Adaptation> {
        Some(answers::adaptation(network))
    }
}
