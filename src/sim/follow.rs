//! ChameleMon's controller over a simulated network: puts an epoch's records together, and orders the parameters of a later one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::program::chamelemon::attention::{Attention, Decision};
use crate::program::chamelemon::network::{Before, NetworkEpoch, Reported};
use crate::program::chamelemon::{Config, Runtime, Sketches};

/// One switch's name and record.
pub type Named = (Arc<str>, Box<Sketches>);

/// The controller's state.
pub struct Follow {
    attention: Attention,
    shifts: bool,
    /// What each epoch is measured with that has been ordered for; those after the last, as it.
    runtimes: BTreeMap<u64, Runtime>,
    start: Runtime,
    before: Option<(u64, Vec<Named>)>,
}

impl Follow {
    /// `salt` makes the sampling of this deployment its own.
    pub fn new(config: &Config, shifts: bool, salt: u64) -> Self {
        Self {
            attention: Attention::new(config.shape(), salt),
            shifts,
            runtimes: BTreeMap::new(),
            start: config.runtime(),
            before: None,
        }
    }

    /// What an epoch is measured with.
    pub fn runtime(&self, epoch: u64) -> Runtime {
        self.runtimes.range(..=epoch).next_back().map_or(self.start, |(_, runtime)| *runtime)
    }

    /// Takes the records of an epoch, one of each switch. `next` is the first epoch that an order can still be for.
    pub fn epoch(&mut self, epoch: u64, records: Vec<Named>, next: u64) -> (NetworkEpoch, Option<Decision>) {
        let runtime = self.runtime(epoch);
        let before = self.before.take().filter(|(before, _)| before + 1 == epoch);
        let earlier = |switch: &Arc<str>| match &before {
            None if epoch == 0 => Before::Nothing,
            None => Before::Unknown,
            Some((_, records)) => {
                let record = records.iter().find(|(name, _)| name == switch);
                record.map_or(Before::Unknown, |(_, sketches)| Before::Record(sketches))
            }
        };
        let reported = records.iter().map(|(switch, sketches)| Reported {
            switch: switch.clone(),
            record: Ok(sketches.clone()),
            before: earlier(switch),
        });
        let network = NetworkEpoch::analyse(epoch, runtime, reported.collect());
        self.before = Some((epoch, records));
        let decision = self.shifts.then(|| {
            let decision = self.attention.shift(&network, &self.runtime(next), next);
            self.runtimes.insert(next, decision.runtime);
            decision
        });
        // Epochs that are over need their parameters no longer; the latest of them may still hold.
        let held = self.runtimes.range(..=epoch).next_back().map_or(0, |(held, _)| *held);
        self.runtimes = self.runtimes.split_off(&held);
        (network, decision)
    }
}
