//! Whether answers that were called complete were right, whatever went wrong.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::ledger::Ledger;
use super::report::{EpochAnswers, nets};
use crate::answers::{FlowName, Losses};
use crate::history::{Entry, Reason};

/// Answers about losses beside the truth, after the last record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    pub epochs: u64,
    /// Those that are called complete, and of these the ones that are wrong: a flow's packets are
    /// not its exact net, or a flow is missing.
    pub complete_epochs: u64,
    pub wrong_epochs: Vec<u64>,
    /// Epochs that are not, by reason and by kind of gap. One may have several.
    pub incomplete: BTreeMap<Reason, u64>,
    pub gaps: BTreeMap<String, u64>,
    /// Flows whose number of lost packets is called exact, and those of them for which it is not.
    pub exact_flows: u64,
    pub miscalled_flows: u64,
}

impl Audit {
    /// Adds an epoch of a program, if it answers the task.
    pub(super) fn add(&mut self, answers: &EpochAnswers<'_>, entry: &Entry<()>, ledger: &Ledger) {
        let Some(losses) = answers.answer::<Losses>(usize::MAX) else { return };
        let truth = nets(answers.program, ledger.nets(entry.epoch as u32));
        self.epochs += 1;
        // A simulation waits for late packets until its end.
        let incomplete = losses.claim.incomplete.clone().without(Reason::Provisional);
        let told = losses.nets();
        let mut exact = BTreeMap::new();
        for flow in losses.losses.iter().chain(&losses.gains) {
            *exact.entry(flow.name).or_insert(true) &= flow.exact;
        }
        for (name, _) in exact.into_iter().filter(|(_, exact)| *exact) {
            self.exact_flows += 1;
            let net = truth.get(&name).copied().unwrap_or_default();
            self.miscalled_flows += u64::from(told.get(&name) != Some(&net));
        }
        if incomplete.is_empty() {
            self.complete_epochs += 1;
            if !is_right(&losses, &truth) || ledger.is_torn(entry.epoch as u32) {
                self.wrong_epochs.push(entry.epoch);
            }
        }
        incomplete.iter().for_each(|reason| *self.incomplete.entry(reason).or_default() += 1);
        let kind = |gap: String| gap.split([' ', '{']).next().unwrap_or_default().to_lowercase();
        let kinds: BTreeSet<_> = entry.gaps.iter().map(|gap| kind(format!("{:?}", gap.gap))).collect();
        kinds.into_iter().for_each(|kind| *self.gaps.entry(kind).or_default() += 1);
    }
}

/// Whether these are the nets of all flows, and none was gained.
fn is_right(losses: &Losses, truth: &FxHashMap<FlowName, i64>) -> bool {
    let sum: i64 = truth.values().sum();
    losses.nets() == *truth && losses.lost_packets as i64 == sum && losses.gained_packets == 0
}
