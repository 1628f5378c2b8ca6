//! What a controller makes of the records of a network.

use std::sync::Arc;

use super::adaptation::adaptation;
use super::attention::Attention;
use super::decoder::encoding::Form;
use super::names::Known;
use super::network::{Network, NetworkEpoch, Reported};
use super::{Config, EncoderParameters, Hashes, Showed, Sketches};
use crate::answers::Task;
use crate::history::Adaptation;
use crate::pisa::hash::HashFamily;
use crate::program::{Analysis, Decision, DecodeError};

/// Puts records together, and shifts attention.
pub struct NetworkAnalysis {
    form: Form,
    attention: Attention,
    /// Names of IPv6 flows, of these epochs and earlier ones.
    known: Known,
    /// Those of an archive's epochs, once there was one.
    restored: Option<Arc<Hashes>>,
}

impl NetworkAnalysis {
    pub fn new(config: &Config, salt: u64) -> Self {
        let attention = Attention::new(config.shape(), config.tower.max(), salt);
        Self { form: Form::of(config), attention, known: Known::default(), restored: None }
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

    fn restore(&mut self, bytes: &[u8], hashes: Option<&HashFamily>) -> Result<Showed, DecodeError> {
        let family = hashes.ok_or(DecodeError::Hashes)?;
        let (levels, rows) = (self.form.tower.0.len(), self.form.shape.rows() as usize);
        let fresh = || Arc::new(Hashes::new(family, levels, rows));
        let hashes = self.restored.take().filter(|hashes| hashes.are_of(family)).unwrap_or_else(fresh);
        self.restored = Some(hashes.clone());
        Showed::restore(bytes, &self.form, &hashes)
    }
}
