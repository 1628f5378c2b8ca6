//! The tasks cardinality and entropy: the number of flows of each epoch, and the entropy of their
//! sizes.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Claimed, ProgramAnswer, Task};
use crate::history::{Epochs, Reason, Reasons};
use crate::json::Epoch;
use crate::output::{self, Cell, Page, Table, row};

/// `weir show cardinality` and `weir show entropy`: a number for each epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Numbers {
    pub epochs: Vec<EpochNumbers>,
}

/// One epoch's numbers, of the network and of each switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EpochNumbers {
    #[serde(flatten)]
    pub epoch: Epoch,
    /// Number of flows, and the entropy of their sizes; null when there are too many to estimate.
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
    pub switches: Vec<SwitchNumbers>,
}

/// One switch's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchNumbers {
    pub switch: Arc<str>,
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
}

/// Epochs that a page shows of those that an answer has.
pub const ROWS: usize = 20;

impl Numbers {
    /// The numbers of these epochs; `of` gives those of an epoch, whose number is filled in.
    pub fn over<K>(epochs: &Epochs<K>, mut of: impl FnMut(&K) -> EpochNumbers) -> ProgramAnswer {
        let mut number = |(number, showed)| EpochNumbers { epoch: Epoch::new(number, epochs.length), ..of(showed) };
        let all: Vec<_> = epochs.iter().map(|entry| number((entry.epoch, &*entry.showed))).collect();
        let mut lack = Reasons::default();
        lack.add_if(all.iter().any(|epoch| epoch.flows.is_none()), Reason::TooMany);
        ProgramAnswer::new(Self { epochs: all }, lack)
    }

    pub fn cardinality_page(numbers: &Claimed<Self>) -> Page {
        let flows = |flows, _| output::estimate(flows, 0);
        numbers.page("cardinality", Task::Cardinality.all(), ">flows", flows)
    }

    pub fn entropy_page(numbers: &Claimed<Self>) -> Page {
        numbers.page("entropy", "of all flows", ">entropy, bits", |_, entropy| output::estimate(entropy, 4))
    }
}

impl Claimed<Numbers> {
    /// One column of numbers, of the network and of each switch.
    fn page(&self, name: &str, all: &str, heading: &str, of: fn(Option<f64>, Option<f64>) -> Cell) -> Page {
        let mut rows = Vec::new();
        for epoch in self.epochs.iter().rev().take(ROWS).rev() {
            let time = output::epoch(epoch.epoch.number, self.claim.epoch_ns);
            rows.push(row![time.clone(), "all", of(epoch.flows, epoch.entropy_bits)]);
            if epoch.switches.len() > 1 {
                let switch =
                    |s: &SwitchNumbers| row![time.clone().repeated(true), &*s.switch, of(s.flows, s.entropy_bits)];
                rows.extend(epoch.switches.iter().map(switch));
            }
        }
        let table = Table::new([output::EPOCH_START, "switch", heading], rows).keyed(2);
        Page::default().table(name, table.beside(&self.claim.columns())).text(self.claim.text(all))
    }
}
