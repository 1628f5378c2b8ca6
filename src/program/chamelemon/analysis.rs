//! What a controller makes of the records of a network.

use super::adaptation::adaptation;
use super::attention::Attention;
use super::decoder::encoding::Form;
use super::names::Known;
use super::network::{Network, NetworkEpoch, Reported};
use super::{Config, EncoderParameters, Showed, Sketches};
use crate::answers::Task;
use crate::history::Adaptation;
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
    type Parameters = EncoderParameters;
    type Network = Network;
    type Kept = Showed;

    const TASKS: &'static [Task] =
        &[Task::Flows, Task::Losses, Task::Changes, Task::Cardinality, Task::Attention, Task::Heavy, Task::Frequency];

    const COUNTS_LATE: bool = true;

    fn fits(&self, sketches: &Sketches) -> bool {
        let lengths = sketches.tower.iter().map(|level| (level.bits, level.sizes.len()));
        let expected = self.form.tower.0.iter().map(|level| (level.width.bits(), level.counters as usize));
        sketches.shape == self.form.shape && lengths.eq(expected)
    }

    fn epoch(&mut self, epoch: u64, parameters: &EncoderParameters, reported: Vec<Reported<'_>>) -> NetworkEpoch {
        let epoch = NetworkEpoch::analyse(epoch, *parameters, reported);
        self.known.age();
        epoch.network.edges.iter().for_each(|edge| edge.analysis.sketches().add_names(&mut self.known));
        epoch
    }

    fn decide(&mut self, network: &NetworkEpoch, latest: &EncoderParameters, next: u64) -> Decision<EncoderParameters> {
        if network.edges.is_empty() {
            self.attention.keep(latest, next, "no switch has reported: everything stays")
        } else {
            self.attention.shift(network, latest, next)
        }
    }

    fn adaptation(&self, network: &NetworkEpoch) -> Option<Adaptation> {
        Some(adaptation(network))
    }

    fn keep(&mut self, epoch: NetworkEpoch) -> Showed {
        Showed::new(epoch, &self.known)
    }
}
